"""Files to read and write."""

from ....state.runtime.files import (
    BucketAssigner,
    FileSink,
    FileSource,
    FileSourceBuilder,
    OutputFileConfig,
    RollingPolicy,
    StreamFormat,
)

__all__ = [
    "BucketAssigner", "FileSink", "FileSource", "FileSourceBuilder", "OutputFileConfig", "RollingPolicy",
    "StreamFormat",
]  # fmt: skip
