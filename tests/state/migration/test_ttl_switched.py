"""State that gains or loses its time to live: stamps, what has expired, counts, and the reference time of a run."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stateshift import (
    AggregatingStateDescriptor,
    BigInt,
    DeclarationError,
    IncompatibleState,
    Int32,
    Job,
    ListStateDescriptor,
    LocalDate,
    MapStateDescriptor,
    MigrationFailed,
    MigrationOptions,
    Operator,
    ReducingStateDescriptor,
    Savepoint,
    SavepointWriter,
    TimeWindow,
    TtlValue,
    ValueStateDescriptor,
    check,
)
from stateshift.compat.plan_data import to_data
from stateshift.compat.planner import plan
from stateshift.compat.reference_time import milliseconds, parse_time, time_text
from stateshift.serializers.containers.ttl import TtlSerializer
from stateshift.serializers.containers.wrappers import TtlAwareSerializerSnapshot
from stateshift.serializers.primitives.numeric import LongSerializer
from stateshift.state.formats.flink.keyed_readers import read_header
from stateshift.state.migration.block_rewriter import Tally
from stateshift.state.migration.journal import Journal
from stateshift.state.migration.preparation import prepare
from stateshift.state.migration.run import try_out
from stateshift.state.migration.run_task import perform
from stateshift.state.savepoint.verify import verify
from stateshift.state.storage.files import Folder

AT = datetime(2026, 6, 15, 12, tzinfo=UTC)
NOW, DAY = milliseconds(AT), timedelta(days=1)
FRESH, STALE = NOW - 1000, milliseconds(AT - DAY)


def job_of(*states, key=int):
    return Job([Operator("op", key=key, states=states)])


def written(folder, job, values, **more):
    with SavepointWriter(folder, job) as writer:
        for key, value in values.items():
            writer.put("op", "s", key, value, **more)
    return folder


def values_of(savepoint):
    return {entry.key: entry.value for entry in savepoint.operator("op").state("s").read_entries()}


def count_of(savepoint):
    (count,) = savepoint.lineage.states
    return count


KINDS = {
    "value": (lambda **ttl: ValueStateDescriptor("s", int, **ttl), {1: 5, 2: -6}),
    "reducing": (lambda **ttl: ReducingStateDescriptor("s", None, int, **ttl), {1: 5}),
    "aggregating": (lambda **ttl: AggregatingStateDescriptor("s", None, tuple[int, str], **ttl), {1: (5, "a")}),
    "list": (lambda **ttl: ListStateDescriptor("s", str, **ttl), {1: ["a", "", "b,c"], 2: [","]}),
    "map": (lambda **ttl: MapStateDescriptor("s", str, int, **ttl), {1: {"a": 5, "b": 6}}),
    "nullable map": (lambda **ttl: MapStateDescriptor("s", str, int | None, **ttl), {1: {"a": 5, "b": None}}),
    "nullable texts": (
        lambda **ttl: MapStateDescriptor("s", str, str | None, **ttl),
        {1: {"a": "", "b": None}},
    ),
    "list of nullable": (lambda **ttl: ListStateDescriptor("s", int | None, **ttl), {1: [5, None]}),
}


def stamped(value, at):
    if isinstance(value, list):
        return [TtlValue(at, item) for item in value]
    if isinstance(value, dict):
        has_no_null = any(isinstance(item, int) for item in value.values())
        return {key: None if item is None and has_no_null else TtlValue(at, item) for key, item in value.items()}
    return TtlValue(at, value)


@pytest.mark.parametrize("kind", KINDS)
def test_every_value_element_and_map_value_gets_the_reference_time_state_4_e18_g26(tmp_path, migrate, kind):
    state, values = KINDS[kind]
    old = written(tmp_path / "old", job_of(state()), values)

    new = migrate(old, tmp_path / "new", job_of(state(time_to_live=True)), reference_time=AT)

    assert {key: stamped(value, NOW) for key, value in values.items()} == values_of(new)
    assert (count_of(new).read, count_of(new).dropped) == (count_of(new).written, 0)
    assert verify(new).ok


def streams(keyed_streams_of, folder):
    return [source.read_at(0, source.size) for *_, source in keyed_streams_of(folder)]


@pytest.mark.parametrize("kind", KINDS)
def test_on_and_off_gives_the_same_bytes_state_4_and_5_e19(tmp_path, migrate, keyed_streams_of, kind):
    """Up to the last millisecond in which nothing has expired."""
    state, values = KINDS[kind]
    old = written(tmp_path / "old", job_of(state()), values)
    last = AT + DAY - timedelta(milliseconds=1)

    migrate(old, tmp_path / "on", job_of(state(time_to_live=True)), reference_time=AT)
    migrate(tmp_path / "on", tmp_path / "off", job_of(state(former_time_to_live=DAY)), reference_time=last)

    assert streams(keyed_streams_of, old) == streams(keyed_streams_of, tmp_path / "off")


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "nullable map"])
def test_at_the_end_of_their_time_all_have_expired_state_5_g25(tmp_path, migrate, kind):
    """Flink's own bound: a value has expired when its stamp and its time to live make the present."""
    state, values = KINDS[kind]
    old = written(tmp_path / "old", job_of(state(time_to_live=True)), {k: stamped(v, STALE) for k, v in values.items()})

    new = migrate(old, tmp_path / "new", job_of(state(former_time_to_live=DAY)), reference_time=AT)

    assert {} == values_of(new)
    assert (0, count_of(new).read) == (count_of(new).written, count_of(new).dropped)
    assert verify(new).ok


def test_a_null_of_a_map_has_no_stamp_and_does_not_expire_state_5(tmp_path, migrate):
    state, _ = KINDS["nullable map"]
    values = {1: {"a": TtlValue(STALE, 5), "b": None}, 2: {"c": TtlValue(FRESH, 6)}}
    old = written(tmp_path / "old", job_of(state(time_to_live=True)), values)

    new = migrate(old, tmp_path / "new", job_of(state(former_time_to_live=DAY)), reference_time=AT)

    assert {1: {"b": None}, 2: {"c": 6}} == values_of(new)
    assert (3, 2, 1) == (count_of(new).read, count_of(new).written, count_of(new).dropped)


@pytest.mark.parametrize(("hint", "flags"), [(int, ("lossy",)), (str, ()), (BigInt, ()), (LocalDate, ())])
def test_a_null_of_a_map_for_which_its_type_has_no_form_is_lost_to_flink_state_4(tmp_path, hint, flags):
    """A state with TTL lists what has a stamp; `tests/interop` has it from real Flink."""
    old = written(tmp_path / "old", job_of(MapStateDescriptor("s", str, hint | None)), {1: {"a": None}})
    on = job_of(MapStateDescriptor("s", str, hint | None, time_to_live=True))

    ((_, _, finding),) = check(Savepoint.open(old).describe(), on.describe()).findings()

    assert ("${}", "STATE-4", flags) == (finding.path, finding.rule, tuple(map(str, finding.flags)))


def test_elements_of_lists_go_one_by_one_and_are_counted_state_5(tmp_path, migrate):
    """A list is one entry: it goes when all of its elements have expired (RUN-2)."""
    state, _ = KINDS["list"]
    values = {
        1: [TtlValue(STALE, "a"), TtlValue(FRESH, "b"), TtlValue(STALE, ""), TtlValue(FRESH, ",")],
        2: [TtlValue(STALE, "c"), TtlValue(STALE - 1, "d")],
        3: [TtlValue(FRESH, "e")],
    }
    old = written(tmp_path / "old", job_of(state(time_to_live=True)), values)

    new = migrate(old, tmp_path / "new", job_of(state(former_time_to_live=DAY)), reference_time=AT)

    count = count_of(new)
    assert {1: ["b", ","], 3: ["e"]} == values_of(new)
    assert (3, 2, 1, 4) == (count.read, count.written, count.dropped, count.dropped_elements)
    assert 4 == Savepoint.open(tmp_path / "new").lineage.states[0].dropped_elements


def test_without_the_length_nothing_is_dropped_and_the_finding_says_so_state_5(tmp_path, migrate):
    old = written(tmp_path / "old", job_of(ValueStateDescriptor("s", int, time_to_live=True)), {1: TtlValue(0, 5)})
    report = check(Savepoint.open(old).describe(), job_of(ValueStateDescriptor("s", int)).describe())

    new = migrate(old, tmp_path / "new", job_of(ValueStateDescriptor("s", int)), reference_time=AT)

    ((_, _, finding),) = report.findings()
    assert "the savepoint does not store how long values live, so none counts as expired" in finding.reason
    assert {1: 5} == values_of(new)


def test_with_the_length_the_finding_says_what_goes_state_5(tmp_path):
    old = written(tmp_path / "old", job_of(ValueStateDescriptor("s", int, time_to_live=True)), {1: TtlValue(0, 5)})
    new = job_of(ValueStateDescriptor("s", int, former_time_to_live=timedelta(days=90, hours=12)))

    ((_, _, finding),) = check(Savepoint.open(old).describe(), new.describe()).findings()

    assert "what has expired, 90 days 12:00:00 after its last access, is left out and counted" in finding.reason


def test_a_new_type_comes_in_the_same_run_state_4_and_5_e20(tmp_path, migrate):
    plain, wide = (job_of(MapStateDescriptor("s", hint, hint)) for hint in (Int32, int))
    short, long = (job_of(MapStateDescriptor("s", hint, hint, time_to_live=True)) for hint in (Int32, int))
    written(tmp_path / "plain", plain, {1: {-5: 6, 7: 8}})
    written(tmp_path / "short", short, {1: {-5: TtlValue(1, 6)}})

    on = migrate(tmp_path / "plain", tmp_path / "on", long, reference_time=AT)
    off = migrate(tmp_path / "short", tmp_path / "off", wide, reference_time=AT)

    assert {1: {-5: TtlValue(NOW, 6), 7: TtlValue(NOW, 8)}} == values_of(on)
    assert {1: {-5: 6}} == values_of(off)


def test_two_user_keys_that_would_become_one_do_not_where_one_of_them_has_expired_state_5(tmp_path, migrate):
    """MAP-3 holds for what is written."""
    old = job_of(MapStateDescriptor("s", int, int, time_to_live=True))
    values = {1: {2**53: TtlValue(STALE, 5), 2**53 + 1: TtlValue(FRESH, 6)}}
    written(tmp_path / "old", old, values)
    new = job_of(MapStateDescriptor("s", float, int, former_time_to_live=DAY))

    assert {1: {2.0**53: 6}} == values_of(migrate(tmp_path / "old", tmp_path / "new", new, reference_time=AT))


class Noted(LongSerializer):
    """As Flink 2 may write it: the snapshot notes that the state has no TTL."""

    def snapshot_configuration(self):
        return TtlAwareSerializerSnapshot(has_ttl=False, inner=super().snapshot_configuration())


class NotedTtl(TtlSerializer):
    """The same of a state that has TTL."""

    def snapshot_configuration(self):
        return TtlAwareSerializerSnapshot(has_ttl=True, inner=super().snapshot_configuration())


@pytest.mark.parametrize("state", [ValueStateDescriptor, ListStateDescriptor])
def test_flinks_note_whether_there_is_ttl_changes_nothing_state_4_and_5(tmp_path, migrate, state):
    number, stamp = (5, TtlValue(3, 5)) if state is ValueStateDescriptor else ([5], [TtlValue(3, 5)])
    written(tmp_path / "plain", job_of(state("s", Noted())), {1: number})
    written(tmp_path / "stamped", job_of(state("s", NotedTtl(LongSerializer()))), {1: stamp})

    on = migrate(tmp_path / "plain", tmp_path / "on", job_of(state("s", int, time_to_live=True)), reference_time=AT)
    off = migrate(tmp_path / "stamped", tmp_path / "off", job_of(state("s", int)), reference_time=AT)

    assert {1: stamped(number, NOW)} == values_of(on)
    assert {1: number} == values_of(off)


def half(number):
    return number / 2


def test_a_converter_sees_bare_values_and_only_where_these_change_state_4_and_5(tmp_path, migrate):
    """One that was left in the job after its migration is not called again by a change of TTL alone (STATE-8)."""
    written(tmp_path / "ints", job_of(ValueStateDescriptor("s", int)), {1: 5})
    written(tmp_path / "floats", job_of(ValueStateDescriptor("s", float)), {1: 5.0})
    written(tmp_path / "stamped", job_of(ValueStateDescriptor("s", int, time_to_live=True)), {1: TtlValue(3, 5)})
    on = job_of(ValueStateDescriptor("s", float, converter=half, time_to_live=True))
    off = job_of(ValueStateDescriptor("s", float, converter=half))

    assert {1: TtlValue(NOW, 2.5)} == values_of(migrate(tmp_path / "ints", tmp_path / "1", on, reference_time=AT))
    assert {1: 2.5} == values_of(migrate(tmp_path / "stamped", tmp_path / "2", off, reference_time=AT))
    assert {1: TtlValue(NOW, 2.5)} == values_of(migrate(tmp_path / "2", tmp_path / "3", on, reference_time=AT))
    with pytest.raises(IncompatibleState, match="STATE-8"):
        migrate(tmp_path / "floats", tmp_path / "4", on, reference_time=AT)


LAST_MS = (1 << 63) - 1


@pytest.mark.parametrize("kind", KINDS)
def test_the_largest_stamp_is_that_of_a_value_which_has_not_expired_state_5(tmp_path, migrate, kind):
    """As where a program of Flink's stamps what is to stay for ever."""
    state, values = KINDS[kind]
    stored = {key: stamped(value, LAST_MS) for key, value in values.items()}
    old = written(tmp_path / "old", job_of(state(time_to_live=True)), stored)

    new = migrate(old, tmp_path / "new", job_of(state(former_time_to_live=DAY)), reference_time=AT)

    assert (values, 0) == (values_of(new), count_of(new).dropped)


def test_windows_gain_and_lose_stamps_as_keys_do_state_4_and_5(tmp_path, migrate):
    def job(**ttl):
        return job_of(ReducingStateDescriptor("s", None, int, namespace=TimeWindow, **ttl), key=str)

    with SavepointWriter(tmp_path / "old", job(time_to_live=True)) as writer:
        for start, stamp in ((0, FRESH), (10, STALE)):
            writer.put("op", "s", "a", TtlValue(stamp, start), namespace=TimeWindow(start, start + 10))
    off = migrate(tmp_path / "old", tmp_path / "off", job(former_time_to_live=DAY), reference_time=AT)
    on = migrate(tmp_path / "off", tmp_path / "on", job(time_to_live=True), reference_time=AT)

    (was,), (entry,) = (list(found.operator("op").state("s").read_entries()) for found in (off, on))
    assert (TimeWindow(0, 10), 0) == (was.namespace, was.value)
    assert (TimeWindow(0, 10), TtlValue(NOW, 0)) == (entry.namespace, entry.value)


def test_another_length_keeps_the_stamps_with_and_without_a_new_type_state_6_g24(tmp_path, migrate):
    short, long = (job_of(ValueStateDescriptor("s", hint, time_to_live=True)) for hint in (Int32, int))
    old = written(tmp_path / "old", short, {1: TtlValue(STALE, 5)})

    assert "start" == check(Savepoint.open(old).describe(), short.describe()).decision
    assert {1: TtlValue(STALE, 5)} == values_of(migrate(old, tmp_path / "new", long, reference_time=AT))


def test_the_same_reference_time_gives_the_same_files_run_5(tmp_path, migrate):
    old = written(tmp_path / "old", job_of(MapStateDescriptor("s", str, str)), {key: {"a": "b"} for key in range(50)})
    on = job_of(MapStateDescriptor("s", str, str, time_to_live=True))
    for name, at in (("1", AT), ("2", AT), ("later", AT + DAY)):
        migrate(old, tmp_path / name, on, reference_time=at, reverse=name == "2", parallelism=3)

    first, second, later = (
        {file.name: file.read_bytes() for file in (tmp_path / name).iterdir() if file.name != "_stateshift.json"}
        for name in ("1", "2", "later")
    )
    assert first == second
    assert first.keys() == later.keys()
    assert first != later


@given(st.lists(st.tuples(st.booleans(), st.text(max_size=3)), min_size=1, max_size=6))
@settings(max_examples=30, deadline=None)
def test_what_is_left_is_what_had_not_expired_state_5(migrate, tmp_path_factory, drawn):
    folder = tmp_path_factory.mktemp("lists")
    state, _ = KINDS["list"]
    values = [TtlValue(FRESH if fresh else STALE, text) for fresh, text in drawn]
    written(folder / "old", job_of(state(time_to_live=True)), {1: values})

    new = migrate(folder / "old", folder / "new", job_of(state(former_time_to_live=DAY)), reference_time=AT)

    left = [text for fresh, text in drawn if fresh]
    assert ({1: left} if left else {}) == values_of(new)
    assert len(drawn) - len(left) == count_of(new).dropped_elements


@pytest.mark.parametrize(("stamps", "tried"), [([STALE, FRESH], True), ([STALE, STALE], False)])
def test_a_dry_run_tries_an_entry_that_has_not_expired_read_5(tmp_path, stamps, tried):
    job = job_of(ValueStateDescriptor("s", int, time_to_live=True))
    old = Savepoint.open(written(tmp_path / "old", job, {key: TtlValue(at, key) for key, at in enumerate(stamps)}))
    new = job_of(ValueStateDescriptor("s", int, former_time_to_live=DAY))

    assert [tried] == list(try_out(old, prepare(old, new, MigrationOptions(reference_time=AT)).plan).values())


def test_what_has_expired_is_not_converted_and_so_neither_fails_nor_goes_to_quarantine_state_5(tmp_path, migrate):
    old = job_of(ListStateDescriptor("s", bytes, time_to_live=True))
    written(tmp_path / "old", old, {1: [TtlValue(STALE, b"\xff"), TtlValue(FRESH, b"fine")]})
    new = job_of(ListStateDescriptor("s", str, former_time_to_live=DAY))

    assert {1: ["fine"]} == values_of(migrate(tmp_path / "old", tmp_path / "new", new, reference_time=AT))


def test_keys_that_are_neither_written_nor_dropped_stop_the_run_run_2(tmp_path):
    old = written(tmp_path / "old", job_of(ValueStateDescriptor("s", int, time_to_live=True)), {1: TtlValue(0, 5)})
    new = job_of(ValueStateDescriptor("s", int, former_time_to_live=DAY))
    (task,) = prepare(Savepoint.open(old), new, MigrationOptions(reference_time=AT)).tasks
    (state,), (info,) = task.plan.states, read_header(task.handles[0], Folder.at(old)).states
    tally = Tally(read=2, written=1, dropped=1, keys_read=7, keys_written=4, keys_dropped=3)

    assert 1 == tally.result(task.plan, state, info).dropped
    with pytest.raises(MigrationFailed, match="checksums of keys"):
        attrs.evolve(tally, keys_dropped=2).result(task.plan, state, info)


class TestReferenceTime:
    """Of a run: given, or the time of planning; the same gives the same bytes (RUN-5)."""

    @pytest.fixture
    def old(self, tmp_path):
        return Savepoint.open(written(tmp_path / "old", job_of(ValueStateDescriptor("s", int)), {1: 5}))

    on = job_of(ValueStateDescriptor("s", int, time_to_live=True))

    def test_by_default_it_is_when_the_run_is_planned(self, old):
        before = datetime.now(UTC) - timedelta(milliseconds=1)
        planned = prepare(old, self.on, MigrationOptions()).plan

        assert before <= planned.reference_time <= datetime.now(UTC)

    def test_it_is_in_the_plan_in_utc_and_whole_milliseconds(self, old):
        east = datetime(2026, 1, 31, 14, 0, 0, 123999, tzinfo=timezone(timedelta(hours=2)))
        planned = prepare(old, self.on, MigrationOptions(reference_time=east)).plan

        assert "2026-01-31T12:00:00.123Z" == to_data(planned)["reference_time"]

    @pytest.mark.parametrize("lived", [timedelta(milliseconds=1), timedelta.max])
    def test_any_length_can_be_subtracted_from_it(self, tmp_path, lived):
        stamped = written(
            tmp_path / "stamped", job_of(ValueStateDescriptor("s", int, time_to_live=True)), {1: TtlValue(0, 5)}
        )
        off = job_of(ValueStateDescriptor("s", int, former_time_to_live=lived))
        (state,) = prepare(Savepoint.open(stamped), off, MigrationOptions(reference_time=AT)).plan.operators[0].states

        assert NOW - lived // timedelta(milliseconds=1) == state.value.expired_until_ms

    def test_it_lies_within_the_years_of_utc(self):
        with pytest.raises(DeclarationError, match="cannot be converted to UTC"):
            parse_time("0001-01-01T00:00:00+14:00")

    def test_where_no_state_gains_or_loses_ttl_there_is_none(self, old):
        wider = job_of(ValueStateDescriptor("s", float))

        assert prepare(old, wider, MigrationOptions(reference_time=AT)).plan.reference_time is None

    def test_it_has_a_time_zone(self, old):
        report = check(old.describe(), self.on.describe())
        with pytest.raises(DeclarationError, match="2026-01-31T12:00:00 has no time zone"):
            plan(report, reference_time=datetime(2026, 1, 31, 12))  # noqa: DTZ001 - that is the point

    @given(st.datetimes(timezones=st.just(UTC), min_value=datetime(1, 1, 1), max_value=datetime(9999, 12, 31)))  # noqa: DTZ001
    def test_its_text_is_read_again(self, time):
        assert milliseconds(time) == milliseconds(parse_time(time_text(time)))

    def test_a_run_that_died_goes_on_with_its_own(self, old, tmp_path):
        target = Folder.at(tmp_path / "new")
        begun = prepare(old, self.on, MigrationOptions(reference_time=AT))
        target.create()
        for task in begun.tasks:
            begun.journal(target).record(perform(task, old.folder, target))

        again = prepare(old, self.on, MigrationOptions(), resumed=target)
        other = prepare(old, self.on, MigrationOptions(reference_time=AT + DAY), resumed=target)

        assert AT == again.plan.reference_time
        assert begun.stream_names == again.journal(target).finished().keys()
        assert AT + DAY == other.plan.reference_time
        assert {} == other.journal(target).finished()

    def test_the_time_of_another_run_in_the_target_is_not_taken(self, old, tmp_path):
        target = Folder.at(tmp_path / "new")
        begun = prepare(old, self.on, MigrationOptions(reference_time=AT))
        target.create()
        for task in begun.tasks:
            Journal(target, "another", AT).record(perform(task, old.folder, target))

        assert AT < prepare(old, self.on, MigrationOptions(), resumed=target).plan.reference_time
