"""One state of a function in PyFlink's process mode, its thread mode and Flink's own types, each from each other.

The savepoints of both modes are of real PyFlink (tests/interop/pyflink/make_fixtures.py), which restores such results
in tests/interop/pyflink.
"""

import json
from itertools import permutations

import attrs
import pytest

from stateshift import (
    AggregatingStateDescriptor,
    Decision,
    IncompatibleState,
    Job,
    ListStateDescriptor,
    MapStateDescriptor,
    MigrationOptions,
    Operator,
    ReducingStateDescriptor,
    Row,
    Savepoint,
    StateTransform,
    TimeWindow,
    ValueNotConvertible,
    ValueStateDescriptor,
    check,
)
from stateshift.compat.repartition import Repartition
from stateshift.pyflink.common import Types
from stateshift.serializers.compatibility import Verdict
from stateshift.state.testing import migrate_in_process, write_savepoint

LONG, INT, STRING = Types.LONG(), Types.INT(), Types.STRING()
PAIR = Types.TUPLE([LONG, LONG])
STATES = [
    ValueStateDescriptor("count", LONG),
    ValueStateDescriptor("last", Types.ROW_NAMED(["at", "text"], [LONG, STRING])),
    ValueStateDescriptor("note", bytes),
    ValueStateDescriptor("kept", STRING, time_to_live=True),
    ListStateDescriptor("events", STRING),
    MapStateDescriptor("counts", STRING, LONG),
    ReducingStateDescriptor("total", None, LONG),
    AggregatingStateDescriptor("mean", None, PAIR),
]
LAYOUTS = ["process", "thread", "own"]
REKEYED = MigrationOptions(repartition=Repartition())


def job_in(layout, states=STATES, uid="keeps", key=LONG, **others):
    if layout == "own":
        return Job([Operator(uid, states=states, key=key, **others)])
    return Job([Operator.pyflink(uid, states, key=key, execution_mode=layout, **others)])


def contents(place, layout, states=STATES, uid="keeps", key=LONG):
    """Give what each key has, as the function sees it, and when its timers are due."""
    savepoint = Savepoint.open(place)
    operator = (savepoint if layout == "own" else savepoint.told_by(job_in(layout, states, uid, key))).operator(uid)
    found, lists = {}, {one.name for one in states if isinstance(one, ListStateDescriptor)}
    for state in operator.states:
        name = state.name.removeprefix("python-state-")
        if not state.kind.is_keyed:
            continue
        if state.kind == "timers":
            found |= {(name, plain(one.key)): one.timestamp for one in state.read_timers()}
            continue
        for one in state.read_entries():
            is_parts = layout == "process" and name in lists
            value = [each for part in one.value for each in part] if is_parts else one.value
            found[name, plain(one.key)] = value
    return found


def plain(key):
    return key[0] if isinstance(key, Row) else key


@pytest.fixture
def stored(root, tmp_path):
    """`stored(layout)`: the savepoint of a job in a layout; that of Flink's own types is made from process mode."""

    def of(layout):
        if layout != "own":
            return str(root / f"tests/fixtures/pyflink-2.3/values-{layout}/savepoint")
        target = str(tmp_path / "own")
        migrate_in_process(Savepoint.open(of("process")), target, job_in("own"), REKEYED)
        return target

    return of


@pytest.mark.parametrize(("before", "after"), [*permutations(LAYOUTS, 2)])
def test_each_layout_becomes_each_other(stored, tmp_path, before, after):
    place, target = stored(before), str(tmp_path / "after")
    report = check(Savepoint.open(place).told_by(job_in(before)).describe(), job_in(after).describe(),
                   repartition=Repartition())  # fmt: skip

    assert Decision.MIGRATE is report.decision
    changed = [state for _, state in report.states() if any(one.rule == "PYF-3" for one in state.result.findings)]
    assert {"process", "own"} >= {before, after} or len(changed) >= len(STATES) // 4
    migrate_in_process(Savepoint.open(place), target, job_in(after), REKEYED)
    assert contents(place, before) == contents(target, after)
    assert Decision.START is check(Savepoint.open(target).describe(), job_in(after).describe()).decision


def test_the_other_mode_has_the_bytes_of_real_pyflink(stored, tmp_path):
    """Values and pickles are those that PyFlink itself wrote in thread mode, of the same elements."""
    migrate_in_process(Savepoint.open(stored("process")), str(tmp_path / "after"), job_in("thread"))

    def bare(place):
        operator = Savepoint.open(place).operator("keeps")
        return {
            (state.name, one.key[0]): one.value
            for state in operator.states
            if state.kind.has_values and state.name != "kept"
            for one in state.read_entries()
        }

    assert bare(stored("thread")) == bare(tmp_path / "after")


@pytest.mark.parametrize(("before", "after"), [("process", "thread"), ("thread", "process")])
def test_a_change_of_the_mode_is_a_finding(stored, before, after):
    report = check(Savepoint.open(stored(before)).describe(), job_in(after).describe())

    found = [one for _, _, one in report.findings() if one.rule == "PYF-3"]
    assert len(STATES) == len(found)
    assert {(f"PyFlink's {before} mode", f"PyFlink's {after} mode")} == {(one.old, one.new) for one in found}


def test_what_no_one_says_of_bytes_is_not_verified(stored):
    here = Savepoint.open(stored("process"))
    unknown, known = (
        {one.rule for _, _, one in check(of.describe(), job_in("thread").describe()).findings()}
        for of in (here, here.told_by(job_in("process")))
    )
    assert {"PYF-1", "PYF-3"} == unknown
    assert {"PYF-3"} == known


def test_bytes_that_are_not_of_the_declared_type_end_the_run(stored, tmp_path):
    wrong = [ValueStateDescriptor("count", STRING)]
    with pytest.raises(Exception, match="count") as raised:
        migrate_in_process(Savepoint.open(stored("process")), str(tmp_path / "after"), job_in("own", wrong), REKEYED)

    assert "bytes of PyFlink go on after" in str(raised.value)
    assert not (tmp_path / "after" / "_metadata").exists()


def test_keys_are_rewritten_only_where_that_is_allowed(stored, tmp_path):
    with pytest.raises(IncompatibleState) as raised:
        migrate_in_process(Savepoint.open(stored("process")), str(tmp_path / "after"), job_in("own"))

    assert "ROLE-2" in str(raised.value)
    assert "repartition" in str(raised.value)


def test_a_converter_gets_the_value_of_the_old_layout(stored, tmp_path):
    states = [
        ValueStateDescriptor("count", STRING, converter=str),
        ListStateDescriptor("events", LONG, converter=number),
    ]
    migrate_in_process(Savepoint.open(stored("thread")), str(tmp_path / "after"), job_in("process", states))

    found = contents(tmp_path / "after", "process", states)
    assert "6" == found["count", 4]
    assert [4, 11, 18, 25, 32, 39] == found["events", 4]


def number(text):
    return int(text.removeprefix("e"))


def test_what_is_of_another_kind_for_the_function_is_refused(stored):
    states = [ListStateDescriptor("count", LONG)]
    old = Savepoint.open(stored("process")).told_by(job_in("process")).describe()
    report = check(old, job_in("thread", states).describe())

    assert "STATE-1" in {one.rule for _, _, one in report.findings()}
    assert Decision.REFUSE is report.decision


NARROW = [
    ValueStateDescriptor("short", Types.SHORT()), ValueStateDescriptor("float", Types.FLOAT()),
    MapStateDescriptor("map", INT, Types.FLOAT()), ListStateDescriptor("list", Types.CHAR()),
]  # fmt: skip


def narrow_savepoint(place, values):
    job = job_in("thread", NARROW, "n")
    return write_savepoint(place, job, {f"n/{name}": {Row(1): value} for name, value in values.items()})


def test_what_thread_mode_keeps_wider_becomes_narrow_again(tmp_path):
    given = {"short": -3, "float": 0.25, "map": {1: 0.5}, "list": ["a", "é"]}
    before = narrow_savepoint(tmp_path / "before", given)
    for layout in ("own", "process"):
        migrate_in_process(before, str(tmp_path / layout), job_in(layout, NARROW, "n"), REKEYED)
    found = contents(tmp_path / "own", "own", NARROW, "n")

    assert given == {name: value for (name, _), value in found.items()}
    migrate_in_process(
        Savepoint.open(tmp_path / "own"), str(tmp_path / "again"), job_in("thread", NARROW, "n"), REKEYED
    )
    assert contents(before.place, "thread", NARROW, "n") == contents(tmp_path / "again", "thread", NARROW, "n")


@pytest.mark.parametrize(("name", "value"), [("short", 1 << 20), ("float", 0.1), ("map", {1: 0.1})])
def test_what_a_narrow_type_does_not_hold_ends_the_run(tmp_path, name, value):
    before = narrow_savepoint(tmp_path / "before", {name: value})
    with pytest.raises(ValueNotConvertible, match=name):
        migrate_in_process(before, str(tmp_path / "own"), job_in("own", NARROW, "n"), REKEYED)


def test_pickles_stay_unopened(tmp_path):
    states = [ValueStateDescriptor("any", Types.PICKLED_BYTE_ARRAY())]
    hostile = b"\x80\x04cos\nsystem\n\x8c\x04true\x85R."
    before = write_savepoint(tmp_path / "before", job_in("thread", states, "n"), {"n/any": {Row(1): hostile}})
    for layout in ("own", "process"):
        migrate_in_process(before, str(tmp_path / layout), job_in(layout, states, "n"), REKEYED)
        back = str(tmp_path / f"{layout}-back")
        migrate_in_process(Savepoint.open(tmp_path / layout), back, job_in("thread", states, "n"), REKEYED)
        assert {("any", 1): hostile} == contents(back, "thread", states, "n")


def test_a_row_that_is_a_hostile_pickle_is_not_opened(tmp_path):
    pickles, rows = [ValueStateDescriptor("row", bytes)], [ValueStateDescriptor("row", PAIR)]
    hostile = b"\x80\x04cos\nsystem\n\x8c\x04true\x85R."
    before = write_savepoint(tmp_path / "before", job_in("thread", pickles, "n"), {"n/row": {Row(7): hostile}})
    with pytest.raises(Exception, match=r"os\.system") as raised:
        migrate_in_process(before, str(tmp_path / "after"), job_in("process", rows, "n"))

    assert "7" in str(raised.value)


def test_broadcast_state_changes_its_layout(root, tmp_path):
    place = root / "tests/fixtures/pyflink-2.3/broadcast"
    expected = json.loads((place / "expected.json").read_text("utf-8"))["last"]
    rules, seen = MapStateDescriptor("rules", STRING, LONG), [ListStateDescriptor("seen", LONG)]
    jobs = {layout: job_in(layout, seen, "rules", broadcast_states=[rules]) for layout in LAYOUTS}
    source = Savepoint.open(place / "savepoint")
    for layout in ("own", "thread"):
        there, back = str(tmp_path / layout), str(tmp_path / f"{layout}-back")
        migrate_in_process(source, there, jobs[layout], REKEYED)
        migrate_in_process(Savepoint.open(there), back, jobs["process"], REKEYED)

        assert [[expected["rules"]]] == Savepoint.open(there).operator("rules").state("rules").read_elements()
        told = Savepoint.open(back).told_by(jobs["process"]).operator("rules")
        assert [[expected["rules"]]] == told.state("python-state-rules").read_elements()


def test_state_with_the_stored_name_is_not_paired_with_another(stored):
    """A job file of `Operator` that has PyFlink's own names keeps bytes."""
    states = [ListStateDescriptor("python-state-count", bytes), ValueStateDescriptor("count", LONG)]
    job = Job([Operator("keeps", states=states, key=Types.ROW([LONG]))])
    report = check(Savepoint.open(stored("process")).describe(), job.describe())

    assert "PYF-3" not in {one.rule for _, _, one in report.findings()}


PAIRS = Types.TUPLE([LONG, LONG])
WINDOWS = {
    "lists": [ListStateDescriptor("window-contents", PAIRS, namespace=TimeWindow)],
    "reduced": [ReducingStateDescriptor("window-contents", None, PAIRS, namespace=TimeWindow)],
}


def windows_in(layout):
    return Job([job_in(layout, states, uid).operators[0] for uid, states in WINDOWS.items()])


def of_windows(place, layout):
    """Give what each key has in each window, and its timers with the name of their service."""
    savepoint, found, timers = Savepoint.open(place), {}, set()
    savepoint = savepoint if layout == "own" else savepoint.told_by(windows_in(layout))
    for uid in WINDOWS:
        for state in savepoint.operator(uid).states:
            if state.kind == "timers":
                timers |= {
                    (uid, state.name, plain(one.key), one.namespace, one.timestamp) for one in state.read_timers()
                }
                continue
            for one in state.read_entries():
                is_parts = uid == "lists" and layout == "process"
                value = [each for part in one.value for each in part] if is_parts else one.value
                found[uid, plain(one.key), one.namespace] = value
    return found, timers


@pytest.mark.parametrize(("before", "after"), [*permutations(LAYOUTS, 2)])
def test_windows_change_their_layout_with_their_timers(root, tmp_path, before, after):
    places = {layout: root / f"tests/fixtures/pyflink-2.3/{name}/savepoint"
              for layout, name in (("process", "windows"), ("thread", "windows-thread"))}  # fmt: skip
    if before == "own":
        places["own"] = tmp_path / "own"
        migrate_in_process(Savepoint.open(places["thread"]), places["own"], windows_in("own"), REKEYED)
    migrate_in_process(Savepoint.open(places[before]), tmp_path / "after", windows_in(after), REKEYED)
    was, became = of_windows(places[before], before), of_windows(tmp_path / "after", after)

    assert was[0] == became[0]
    assert 14 == len(became[0])
    service = {"process": "_timer_state/event_user-timers"}.get(after, "_timer_state/event_window-timers")
    assert {(uid, service, *rest) for uid, _, *rest in was[1]} == became[1]
    assert Decision.START is check(Savepoint.open(tmp_path / "after").describe(), windows_in(after).describe()).decision


def of_odd_and_even(counts):
    return [counts.get("even", 0), counts.get("odd", 0)]


TRANSFORMED = [
    ListStateDescriptor("counts", LONG, transform=StateTransform.from_map(of_odd_and_even)),
    ValueStateDescriptor("events", LONG, transform=StateTransform.from_list(len)),
    MapStateDescriptor("count", STRING, LONG, transform=StateTransform.from_value(lambda count: {"n": count})),
]


@pytest.mark.parametrize(("before", "after"), [("process", "process"), ("process", "own"), ("thread", "process")])
def test_a_transform_takes_what_the_function_had(stored, tmp_path, before, after):
    new = attrs.evolve(job_in(after, TRANSFORMED), former=job_in(before))
    migrate_in_process(Savepoint.open(stored(before)), tmp_path / "after", new, REKEYED)
    found = contents(tmp_path / "after", after, [attrs.evolve(one, transform=None) for one in TRANSFORMED])

    assert [[3, 3], 6, {"n": 6}] == [found[name, 4] for name in ("counts", "events", "count")]


def test_a_transform_needs_types(stored):
    report = check(Savepoint.open(stored("process")).describe(), job_in("process", TRANSFORMED).describe())

    assert Decision.REFUSE is report.decision
    assert "PYF-1" in {one.rule for _, _, one in report.findings() if one.verdict is Verdict.INCOMPATIBLE}


def test_a_type_without_a_coder_is_refused_by_name(stored):
    states = [ValueStateDescriptor("count", int | None)]
    new = job_in("own", states).describe()
    report = check(Savepoint.open(stored("process")).describe(), new, repartition=Repartition())

    assert Decision.REFUSE is report.decision
    assert "PyFlink has no coder for" in " ".join(one.reason for _, _, one in report.findings())


def row_of_account(account):
    return Row(account["id"], account["name"])


ACCOUNT = Types.ROW_NAMED(["id", "name"], [INT, STRING])


@pytest.mark.parametrize("layout", ["process", "own"])
def test_state_of_a_java_job_becomes_that_of_pyflink(savepoint_of, tmp_path, layout):
    source = Savepoint.open(savepoint_of("rocksdb-account-v1"))
    with_converter = [ValueStateDescriptor("account", ACCOUNT, converter=row_of_account)]
    old = {one.key: one.value for one in source.operator("account-state").state("account").read_entries()}
    new = job_in(layout, with_converter, "account-state")
    migrate_in_process(source, tmp_path / "after", new, REKEYED)
    found = contents(tmp_path / "after", layout, [ValueStateDescriptor("account", ACCOUNT)], "account-state")

    assert {key: row_of_account(value) for key, value in old.items()} == {
        key: value for (name, key), value in found.items() if name == "account"
    }
    without = job_in(layout, [ValueStateDescriptor("account", ACCOUNT)], "account-state").describe()
    report = check(source.describe(), without, repartition=Repartition())
    assert Decision.REFUSE is report.decision
    assert "fx.evo.Account" in " ".join(one.old for _, _, one in report.findings())
