"""Source functions whose offset is their state: nothing is lost, and planned batches are repeated exactly."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from streaming_sources import Counter, Reading

from stateshift import (
    DeclarationError,
    KeyedProcessFunction,
    ListCheckpointed,
    OutputTag,
    Savepoint,
    SourceFunction,
    ValueStateDescriptor,
)
from stateshift.serializers.errors import CorruptFile
from stateshift.state.backends.restore_check import RestoreRefused
from stateshift.state.directory.garbage import collect
from stateshift.state.directory.holds import held
from stateshift.state.formats.flink.metadata import METADATA, write_metadata


@pytest.fixture
def reading(tmp_path):
    """`reading(function, …)`: a start of a query with this source; all end with the test."""
    begun = []

    def start(function, **options):
        begun.append(Reading(tmp_path / "state", function, **options))
        return begun[-1]

    yield start
    for one in begun:
        one.reader.stop()


def taken(reading, offset):
    """Return the next offset, as it comes out of Spark's log."""
    return json.loads(json.dumps(reading.reader.latestOffset(offset, None)))


def test_each_batch_has_what_was_emitted_since_the_last_one(reading):
    query, values = reading(Counter(95), max_rows=10), []
    offset = query.reader.initialOffset()
    while (after := taken(query, offset)) != offset:
        values.append(query.values(offset, after))
        offset = after

    assert list(range(95)) == [value for batch in values for value in batch]
    assert max(map(len, values)) <= 10
    assert (offset["rows"], offset["number"]) == (95, len(values))


class Chance(Counter):
    """Emits what nobody can emit again."""

    def run(self, ctx):
        for _ in range(self.end):
            with ctx.get_checkpoint_lock():
                ctx.collect(uuid.uuid4().hex)
                self.next += 1


def test_a_planned_batch_is_read_again_exactly_by_another_process_whatever_the_source_is(reading):
    first = reading(Chance(20), output=str)
    start = first.reader.initialOffset()
    end = taken(first, start)

    second = reading(Chance(20), output=str)

    assert first.values(start, end) == first.values(start, end) == second.values(start, end)
    assert end["rows"] == len(first.values(start, end)) > 0


def test_another_process_goes_on_from_the_state_of_the_last_offset(reading):
    first = reading(Counter(50))
    begun = first.reader.initialOffset()
    offset = taken(first, begun)
    taken(first, offset)  # nothing of it was planned

    second = reading(Counter(50))
    after = taken(second, offset)

    assert second.values(offset, after)[0] == offset["rows"]
    again = taken(first, offset)  # nor here: the source is asked once more from there
    assert first.values(offset, again)[0] == offset["rows"]


def test_an_offset_of_another_source_and_one_that_does_not_follow_are_refused(reading):
    query = reading(Counter(50))
    begun = query.reader.initialOffset()
    first = taken(query, begun)
    second = taken(query, first)
    with pytest.raises(DeclarationError, match=r"has the offset of 'other' where .* 'counter'\n.*their order"):
        query.reader.latestOffset({**first, "source": "other"}, None)
    with pytest.raises(Exception, match="does not follow"):
        query.reader.partitions(begun, second)
    with pytest.raises(CorruptFile, match="the offset of a source lacks 'number'"):
        query.reader.latestOffset({"source": "counter"}, None)


class Timed(Counter):
    def run(self, ctx):
        for number in range(3):
            ctx.collect_with_timestamp(number, 1000 * number + 1)


def test_time_stamps_are_a_column(reading):
    query = reading(Timed(3), timestamp="at", max_rows=3)
    start, times = query.reader.initialOffset(), {}
    while (end := taken(query, start)) != start:
        times |= {row["value"]: row["at"].timestamp() for row in query.rows(start, end)}
        start = end
    assert times == {0: 0.001, 1: 1.001, 2: 2.001}


class Emits(Counter):
    def __init__(self, emit):
        super().__init__(0)
        self.emit = emit

    def run(self, ctx):
        self.emit(ctx)


@pytest.mark.parametrize(
    ("emit", "words"),
    [
        (lambda ctx: ctx.emit_watermark(1), "emits a watermark"),
        (lambda ctx: ctx.collect_with_timestamp(1, 2), "has no column for them"),
        (lambda ctx: ctx.collect((OutputTag("side", int), 1)), "sources have none"),
        (lambda _: 1 / 0, "division by zero"),
    ],
    ids=["watermark", "time stamp", "side output", "error"],
)
def test_what_a_source_may_not_do_and_what_it_raises_ends_the_query(reading, emit, words):
    query = reading(Emits(emit))
    with pytest.raises(Exception, match=words) as raised:
        query.reader.latestOffset(query.reader.initialOffset(), None)
    assert "in source 'counter'" in raised.value.__notes__


def test_rows_that_were_planned_with_other_columns_are_refused(reading):
    first = reading(Counter(50))
    start = first.reader.initialOffset()
    end = taken(first, start)
    with pytest.raises(DeclarationError, match=r"other columns of the source 'counter': value int64\n.*as it was"):
        reading(Counter(50), output=str).values(start, end)


def test_files_that_no_batch_needs_are_deleted_unless_they_are_held(reading, tmp_path):
    query = reading(Counter(1000), max_rows=10, retained=2)
    offset = query.reader.initialOffset()

    def run(batches):
        nonlocal offset
        for _ in range(batches):
            offset = taken(query, offset)
            query.reader.commit(offset)
        return len(list((tmp_path / "state" / "files").iterdir()))

    assert run(10) == 3
    with held(query.directory.folder, 5):
        assert run(4) == 7
    assert run(1) == 3
    query = reading(Counter(1000), max_rows=10, retained=2)
    assert run(3) == 3


def test_the_state_of_a_source_is_in_the_state_of_the_query_and_gc_keeps_what_it_needs(reading, tmp_path):
    query = reading(Counter(100), max_rows=10, retained=1)
    offsets = [query.reader.initialOffset()]
    for batch in range(5):
        offsets.append(taken(query, offsets[-1]))
        query.log(batch, json.dumps(offsets[-1]), commits=batch < 4)
    opened = Savepoint.open(tmp_path / "state")

    ((at,),) = opened.operator("counter").state("_default_").read_elements()
    assert (at, opened.operator("counter").parallelism) == (offsets[4]["rows"], 1)
    (tmp_path / "state" / "files" / "stranger").write_bytes(b"")
    found = collect(query.directory, older_than_h=0)
    assert sorted(offset["file"] for offset in offsets[1:3]) == [one.name[6:] for one in found.deleted]
    assert found.unknown == ("files/stranger",)
    assert query.values(offsets[4], offsets[5])


def test_where_an_epoch_began_with_state_of_the_source_that_is_its_state(reading, tmp_path):
    first = reading(Counter(100), max_rows=10)
    offset = taken(first, first.reader.initialOffset())
    first.log(0, json.dumps(offset))
    savepoint = Savepoint.open(tmp_path / "state")
    base = first.directory.base("2")
    base.create()
    base.write(METADATA, write_metadata(savepoint.metadata))

    second = reading(Counter(100), max_rows=10, base="2")
    after = taken(second, offset)
    third = reading(Counter(100), max_rows=10)
    last = taken(third, after)

    assert second.values(offset, after)[0] == offset["rows"]
    assert third.values(after, last)[0] == after["rows"]
    second.log(1, json.dumps(after))
    ((at,),) = Savepoint.open(tmp_path / "state").operator("counter").state("_default_").read_elements()
    assert at == after["rows"]


class Sums(KeyedProcessFunction):
    def open(self, runtime_context):
        self.sum = runtime_context.get_state(ValueStateDescriptor("sum", int, default_value=0))

    def process_element(self, value: Any, ctx: Any) -> Iterator[tuple[int, int]]:
        self.sum.update(self.sum.value() + value.value)
        yield value.value, self.sum.value()


class Texts(SourceFunction, ListCheckpointed):
    """A counter whose state is a text."""

    state_type = str
    next = 0

    def run(self, ctx):
        ctx.collect(self.next)

    def cancel(self):
        pass

    def snapshot_state(self, checkpoint_id, timestamp):
        return [str(self.next)]

    def restore_state(self, state):
        self.next = int(state[0])


@pytest.mark.slow
def test_a_query_with_a_source_goes_on_where_it_stood_and_checks_its_state(query, tmp_path):
    stream = query("value long")

    def build(source, uid="counter"):
        def built(job, _):
            numbers = job.source(source, uid=uid, output_type=int, max_rows=40)
            return job.stream(numbers).key_by("value").process(Sums(), uid="sums")

        return built

    stream.run(build(Counter(70)))
    stream.run(build(Counter(100)))

    assert [(number, number) for number in range(100)] == sorted(stream.results())
    savepoint = Savepoint.open(tmp_path / "state")
    ((at,),) = savepoint.operator("counter").state("_default_").read_elements()
    assert at == 100
    assert len(list(savepoint.operator("sums").state("sum").read_entries())) == 100
    with pytest.raises(RestoreRefused, match="counter"):
        stream.run(build(Texts()))
    with pytest.raises(DeclarationError, match="offsets of the source 'counter', and the job has the source 'other'"):
        stream.run(build(Counter(200), uid="other"))


def test_two_sources_of_one_uid_and_a_column_that_is_there_are_refused(query):
    job = query("value long").job()
    job.source(Counter(1), uid="counter", output_type=int)
    with pytest.raises(DeclarationError, match="two operators with the uid 'counter'"):
        job.source(Counter(1), uid="counter", output_type=int)
    with pytest.raises(DeclarationError, match="have a field 'value'"):
        job.source(Counter(1), uid="other", output_type=int, timestamp="value")
