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
from ...absent import explain_absent

__all__ = [
    "BucketAssigner", "FileSink", "FileSource", "FileSourceBuilder", "OutputFileConfig", "RollingPolicy",
    "StreamFormat",
]  # fmt: skip

explain_absent(__name__)
