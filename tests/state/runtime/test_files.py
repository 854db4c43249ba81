"""What a program says of files: builders as in PyFlink, and descriptions that an engine reads."""

from datetime import timedelta

import pytest

from stateshift import DeclarationError
from stateshift.pyflink.common import Encoder, SimpleStringSchema
from stateshift.pyflink.datastream.connectors.file_system import (
    BucketAssigner,
    FileSink,
    FileSource,
    OutputFileConfig,
    RollingPolicy,
    StreamFormat,
)


def test_a_source_has_its_paths_and_format():
    builder = FileSource.for_record_stream_format(StreamFormat.text_line_format("latin-1"), "a", "b")

    assert FileSource(StreamFormat("latin-1"), ("a", "b")) == builder.process_static_file_set().build()
    builder.monitor_continuously(timedelta(seconds=1))  # a program may go on with the builder that it has
    assert timedelta(seconds=1) == builder.build().discovery_interval


def test_a_sink_has_what_its_builder_was_told():
    names = OutputFileConfig.builder().with_part_prefix("p").with_part_suffix(".txt").build()
    sink = (
        FileSink
        .for_row_format(base_path="out", encoder=Encoder.simple_string_encoder())
        .with_output_file_config(names)
        .with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy())
        .with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
        .build()
    )  # fmt: skip

    assert FileSink("out", Encoder("UTF-8"), BucketAssigner(), RollingPolicy(on_checkpoint=True), names) == sink
    assert ("p", ".txt") == (names.get_part_prefix(), names.get_part_suffix())


def test_without_more_a_sink_rolls_and_has_a_folder_for_each_hour():
    sink = FileSink.for_row_format("out", Encoder.simple_string_encoder()).build()

    assert RollingPolicy(128 * 1024 * 1024, 60_000, 60_000) == sink.rolling_policy
    assert "yyyy-MM-dd--HH" == sink.bucket_assigner.format_str
    assert OutputFileConfig("part", "") == sink.output_file_config


@pytest.mark.parametrize(
    ("made", "match"),
    [
        (lambda: FileSource.for_record_stream_format("text", "a"), "'text' is not a StreamFormat"),
        (lambda: FileSource.for_record_stream_format(StreamFormat()), "a file source has no path"),
        (lambda: FileSink.for_row_format("out", "text"), "'text' is not an Encoder"),
        (lambda: SimpleStringSchema("no such"), "'no such' is no charset"),
    ],
)
def test_what_says_nothing_is_refused(made, match):
    with pytest.raises(DeclarationError, match=match):
        made()
