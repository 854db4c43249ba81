"""What a program says of the files that it reads and writes; an engine does it.

The names are those of `pyflink.datastream.connectors.file_system`; what they say is in attributes. The methods of a
builder change it, and return it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from ...serializers.errors import DeclarationError, shown

if TYPE_CHECKING:
    from datetime import timedelta
    from typing import Self


def _known_charset(_: Any, __: Any, charset: str) -> None:
    try:
        "".encode(charset)
    except (LookupError, TypeError) as error:
        raise DeclarationError(f"{shown(charset)} is no charset that Python knows", advice="use UTF-8") from error


@attrs.frozen
class StreamFormat:
    """How a file becomes elements: one for each line, without its end.

    Attributes:
        charset_name: The charset of the file.
    """

    charset_name: str = attrs.field(default="UTF-8", validator=_known_charset)

    @staticmethod
    def text_line_format(charset_name: str = "UTF-8") -> StreamFormat:
        """Return the format of text lines.

        Raises:
            DeclarationError: There is no such charset.
        """
        return StreamFormat(charset_name)


@attrs.frozen
class FileSource:
    """Files to read. Made by `FileSource.for_record_stream_format(…).build()`.

    Attributes:
        stream_format: How a file becomes elements.
        paths: Files, and folders with files.
        discovery_interval: How often to look for new files; None: only those that are there at the start are read.
    """

    stream_format: StreamFormat
    paths: tuple[str, ...]
    discovery_interval: timedelta | None = None

    @staticmethod
    def for_record_stream_format(stream_format: StreamFormat, *paths: str) -> FileSourceBuilder:
        """Return a builder.

        Raises:
            DeclarationError: The format is another one, or no path is given.
        """
        if not isinstance(stream_format, StreamFormat):
            raise DeclarationError(
                f"{shown(stream_format)} is not a StreamFormat", advice="use StreamFormat.text_line_format()"
            )
        if not paths:
            raise DeclarationError("a file source has no path", advice="pass files or folders after the format")
        return FileSourceBuilder(FileSource(stream_format, tuple(map(str, paths))))


@attrs.define
class FileSourceBuilder:
    """Builds a `FileSource`."""

    _source: FileSource

    def monitor_continuously(self, discovery_interval: timedelta) -> Self:
        """Look for new files again and again."""
        self._source = attrs.evolve(self._source, discovery_interval=discovery_interval)
        return self

    def process_static_file_set(self) -> Self:
        """Read the files that are there at the start, as is the default."""
        self._source = attrs.evolve(self._source, discovery_interval=None)
        return self

    def build(self) -> FileSource:
        """Return the source."""
        return self._source


@attrs.frozen
class Encoder:
    """How an element becomes a line of a file: its text.

    Attributes:
        charset_name: The charset of the file.
    """

    charset_name: str = attrs.field(default="UTF-8", validator=_known_charset)

    @staticmethod
    def simple_string_encoder(charset_name: str = "UTF-8") -> Encoder:
        """Return the encoder that writes the text of each element, and a line feed.

        Raises:
            DeclarationError: There is no such charset.
        """
        return Encoder(charset_name)


@attrs.frozen
class SimpleStringSchema:
    """How text becomes bytes, and bytes text.

    Attributes:
        charset: The charset.

    Raises:
        DeclarationError: There is no such charset.
    """

    charset: str = attrs.field(default="UTF-8", validator=_known_charset)


@attrs.frozen
class RollingPolicy:
    """When a part file ends and the next one begins; each also ends with the input.

    Attributes:
        part_size: At which size, in bytes; None: whatever the size is.
        rollover_interval: At which age, in milliseconds; None: whatever the age is.
        inactivity_interval: After which time in which nothing was written, in milliseconds; None: never for that.
        on_checkpoint: Whether at every checkpoint.
    """

    part_size: int | None = None
    rollover_interval: int | None = None
    inactivity_interval: int | None = None
    on_checkpoint: bool = False

    @staticmethod
    def default_rolling_policy(
        part_size: int = 1024 * 1024 * 128, rollover_interval: int = 60 * 1000, inactivity_interval: int = 60 * 1000
    ) -> RollingPolicy:
        """Return the policy by size, age and inactivity."""
        return RollingPolicy(part_size, rollover_interval, inactivity_interval)

    @staticmethod
    def on_checkpoint_rolling_policy() -> RollingPolicy:
        """Return the policy by checkpoints alone."""
        return RollingPolicy(on_checkpoint=True)


@attrs.frozen
class BucketAssigner:
    """Which folder within the base path a part file belongs to.

    Attributes:
        format_str: The name of the folder, of the time of the clock, as a pattern of Java's `DateTimeFormatter`; "":
            files are in the base path.
        timezone_id: The time zone of that, such as "Europe/Berlin"; None: that of this machine.
    """

    format_str: str = ""
    timezone_id: str | None = None

    @staticmethod
    def base_path_bucket_assigner() -> BucketAssigner:
        """Return the assigner without folders."""
        return BucketAssigner()

    @staticmethod
    def date_time_bucket_assigner(format_str: str = "yyyy-MM-dd--HH", timezone_id: str | None = None) -> BucketAssigner:
        """Return the assigner of a folder for a time of the clock, by default for each hour."""
        return BucketAssigner(format_str, timezone_id)


@attrs.frozen
class OutputFileConfig:
    """The names of part files.

    Attributes:
        part_prefix: What they begin with.
        part_suffix: What they end with.
    """

    part_prefix: str = "part"
    part_suffix: str = ""

    class OutputFileConfigBuilder:
        """Builds an `OutputFileConfig`."""

        def __init__(self) -> None:
            self._config = OutputFileConfig()

        def with_part_prefix(self, prefix: str) -> Self:
            """Set what the names of part files begin with."""
            self._config = attrs.evolve(self._config, part_prefix=prefix)
            return self

        def with_part_suffix(self, suffix: str) -> Self:
            """Set what the names of part files end with."""
            self._config = attrs.evolve(self._config, part_suffix=suffix)
            return self

        def build(self) -> OutputFileConfig:
            """Return the names."""
            return self._config

    @staticmethod
    def builder() -> OutputFileConfigBuilder:
        """Return a builder."""
        return OutputFileConfig.OutputFileConfigBuilder()

    def get_part_prefix(self) -> str:
        """Return what the names begin with."""
        return self.part_prefix

    def get_part_suffix(self) -> str:
        """Return what the names end with."""
        return self.part_suffix


@attrs.frozen
class FileSink:
    """Files to write. Made by `FileSink.for_row_format(…).build()`.

    Attributes:
        base_path: The folder.
        encoder: How an element becomes a line.
        bucket_assigner: Which folder within the base path a part file belongs to.
        rolling_policy: When a part file ends.
        output_file_config: The names of part files.
    """

    base_path: str = attrs.field(converter=str)
    encoder: Encoder
    bucket_assigner: BucketAssigner = attrs.field(factory=BucketAssigner.date_time_bucket_assigner)
    rolling_policy: RollingPolicy = attrs.field(factory=RollingPolicy.default_rolling_policy)
    output_file_config: OutputFileConfig = attrs.field(factory=OutputFileConfig)

    @staticmethod
    def for_row_format(base_path: str, encoder: Encoder) -> RowFormatBuilder:
        """Return a builder.

        Raises:
            DeclarationError: The encoder is none.
        """
        if not isinstance(encoder, Encoder):
            raise DeclarationError(f"{shown(encoder)} is not an Encoder", advice="use Encoder.simple_string_encoder()")
        return RowFormatBuilder(FileSink(base_path, encoder))


@attrs.define
class RowFormatBuilder:
    """Builds a `FileSink`."""

    _sink: FileSink

    def with_bucket_assigner(self, bucket_assigner: BucketAssigner) -> Self:
        """Set which folders part files belong to."""
        self._sink = attrs.evolve(self._sink, bucket_assigner=bucket_assigner)
        return self

    def with_rolling_policy(self, rolling_policy: RollingPolicy) -> Self:
        """Set when a part file ends."""
        self._sink = attrs.evolve(self._sink, rolling_policy=rolling_policy)
        return self

    def with_output_file_config(self, output_file_config: OutputFileConfig) -> Self:
        """Set the names of part files."""
        self._sink = attrs.evolve(self._sink, output_file_config=output_file_config)
        return self

    def build(self) -> FileSink:
        """Return the sink."""
        return self._sink
