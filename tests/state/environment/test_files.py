"""Files as sources and sinks of a local run."""

from __future__ import annotations

import pytest

from stateshift.pyflink.common import Duration, Encoder, Types, WatermarkStrategy
from stateshift.pyflink.datastream import SourceFunction, StreamExecutionEnvironment
from stateshift.pyflink.datastream.connectors.file_system import (
    BucketAssigner,
    FileSink,
    FileSource,
    OutputFileConfig,
    RollingPolicy,
    StreamFormat,
)
from stateshift.serializers.errors import DeclarationError, SavepointNotFound


@pytest.fixture
def env():
    return StreamExecutionEnvironment.get_execution_environment()


def lines(env, *paths, **options):
    builder = FileSource.for_record_stream_format(StreamFormat.text_line_format(**options), *map(str, paths))
    return env.from_source(builder.process_static_file_set().build(), WatermarkStrategy.no_watermarks(), "lines")


def sink(folder, policy=None, bucket=None):
    builder = FileSink.for_row_format(str(folder), Encoder.simple_string_encoder()).with_output_file_config(
        OutputFileConfig.builder().with_part_prefix("pre").with_part_suffix(".txt").build()
    )
    builder = builder.with_rolling_policy(policy or RollingPolicy.default_rolling_policy())
    return builder.with_bucket_assigner(bucket or BucketAssigner.base_path_bucket_assigner()).build()


def test_files_are_read_by_lines(env, tmp_path):
    (tmp_path / "b.txt").write_bytes(b"two\r\nthree\n")
    (tmp_path / "a.txt").write_bytes("zero\n\u00fcne".encode("latin-1"))
    (tmp_path / ".hidden").write_bytes(b"no\n")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "c.txt").write_bytes(b"four\n")

    found = lines(env, tmp_path, charset_name="latin-1").execute_and_collect()
    assert ["zero", "\u00fcne", "two", "three", "four"] == list(found)
    assert ["two", "three"] == list(lines(env, f"file://{tmp_path}/b.txt").execute_and_collect())


def test_files_that_cannot_be_read_are_refused(env, tmp_path):
    with pytest.raises(DeclarationError, match="not on this machine"):
        lines(env, "s3://bucket/file")
    with pytest.raises(SavepointNotFound, match="no file or folder"):
        lines(env, tmp_path / "none").execute_and_collect()
    endless = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(tmp_path))
    with pytest.raises(DeclarationError, match="leave out monitor_continuously"):
        env.from_source(
            endless.monitor_continuously(Duration.of_seconds(1)).build(), WatermarkStrategy.no_watermarks(), "endless"
        )


def test_a_source_of_files_goes_on_with_what_it_has_not_read(tmp_path):
    (tmp_path / "in.txt").write_text("a\nb\n")
    seen = []

    def program(**keys):
        env = StreamExecutionEnvironment.get_execution_environment(dict(keys))
        lines(env, tmp_path / "in.txt").uid("lines").add_sink(seen.append)
        return env

    program().execute(savepoint=tmp_path / "sp")
    (tmp_path / "in.txt").write_text("a\nb\nc\n")
    program(**{"execution.savepoint.path": str(tmp_path / "sp")}).execute()

    assert ["a", "b", "c"] == seen


def test_elements_are_written_into_files(env, tmp_path):
    pair = Types.TUPLE([Types.STRING(), Types.INT()])
    env.from_collection([("a", 1), ("b", 2)], pair).sink_to(sink(tmp_path / "out"))
    env.execute()

    (part,) = (tmp_path / "out").iterdir()
    assert part.name.startswith("pre-")
    assert part.name.endswith(".txt")
    assert "(a,1)\n(b,2)\n" == part.read_text()


def test_parts_end_by_size_and_lie_in_the_folders_of_their_time(env, tmp_path):
    bucket = BucketAssigner.date_time_bucket_assigner("'day' yyyy", "Europe/Berlin")
    env.from_collection(["long text"] * 3).sink_to(sink(tmp_path, RollingPolicy.default_rolling_policy(5), bucket))
    env.execute()

    assert ["long text\n"] * 3 == [part.read_text() for part in tmp_path.glob("day 2*/pre-*.txt")]
    with pytest.raises(DeclarationError, match="not all is known here"):
        env.from_collection([1]).sink_to(sink(tmp_path, bucket=BucketAssigner.date_time_bucket_assigner("VV")))


def test_lines_of_a_run_that_failed_after_a_checkpoint_are_there_once(tmp_path):
    class Numbers(SourceFunction):
        def run(self, ctx):
            number = 0
            while not list((tmp_path / "out").glob("pre-*")):  # until a checkpoint named the first part
                ctx.collect(number)
                number += 1
            ctx.collect(-1)
            raise RuntimeError

        def cancel(self):
            pass

    env = StreamExecutionEnvironment.get_execution_environment().enable_checkpointing(1)
    env.add_source(Numbers()).sink_to(sink(tmp_path / "out"))
    with pytest.raises(RuntimeError):
        env.execute()

    named = [line for part in (tmp_path / "out").glob("pre-*") for line in part.read_text().splitlines()]
    assert [str(number) for number in range(len(named))] == named
    assert "-1" not in named
