"""There and back: each change is migrated, and what the way back was said to be, it is, of every value.

The first version writes and is recorded; a check says what the way back will be; the second version takes over, and
writes what only it can write; then the state goes back by `migrate --downgrade`, if that was promised.
"""

from __future__ import annotations

import sys
from itertools import zip_longest
from types import ModuleType

import pytest
from back_changes import MODULE, job, placed, write

from stateshift import (
    Int32,
    Job,
    Left,
    ListStateDescriptor,
    Operator,
    Record,
    Right,
    Row,
    Savepoint,
    SavepointWriter,
    StateTransform,
    Symbol,
    TtlValue,
    ValueStateDescriptor,
)

ACCEPTED, REFUSED, FAILED = 0, 1, 6
JOB = ("--job", f"{MODULE}:job")


@pytest.fixture
def module(monkeypatch):
    """The module `back_job`, of which `job` is the job."""
    module = ModuleType(MODULE)
    monkeypatch.setitem(sys.modules, MODULE, module)
    return module


@pytest.fixture
def program(module):
    """`program(place, hint)`: the job `back_job:job` has a state of that type from now on."""

    def declare(place, hint):
        module.job = job(place, hint)
        return module.job

    return declare


def tree(value, names=None):
    """A value as what it holds: records by their fields, which may have other names."""

    def within(items):
        return [tree(item, names) for item in items]

    match value:
        case Record():
            return (
                "record",
                {(names or {}).get(name, name): tree(one, names) for name, one in value._asdict().items()},
            )
        case Row():
            return ("row", within(value))  # without names, which no savepoint has
        case Left() | Right():
            return ("record", {type(value).__name__: tree(value.value, names)})
        case Symbol():
            return value.name
        case dict():
            return ("map", {repr(key): tree(item, names) for key, item in value.items()})
        case list() | tuple():
            return ("list", within(value))
        case set() | frozenset():
            return ("list", sorted(within(value)))
    return value


def stored(place, folder, names=None):
    """What a savepoint holds of the state: by key, or of all subtasks; `names` are other names of fields."""
    state = next(one for one in Savepoint.open(folder).operators[0].states if one.name == "s")
    if place == "split":
        return {"": ("list", [tree(one, names) for part in state.read_elements() for one in part])}
    if place == "cast":
        return {"": tree(state.read_elements()[0][0], names)}
    return {entry.key: tree(entry.value, names) for entry in state.read_entries()}


def changed_paths(place, one, other, renamed=()):
    """Paths at which two savepoints differ under any key, by the names of the second one."""
    ones, others = stored(place, one, dict(renamed)), stored(place, other)
    assert ones.keys() == others.keys()
    return [path for key in ones for path in differences(ones[key], others[key])]


def differences(one, other, path="$"):
    """Paths at which two trees differ."""
    match one, other:
        case ("record", ones), ("record", others):
            for name in ones.keys() | others.keys():
                yield from differences(ones.get(name), others.get(name), f"{path}.{name}")
        case ("map", ones), ("map", others):
            for name in ones.keys() | others.keys():
                yield from differences(ones.get(name), others.get(name), f"{path}{{}}")
        case ("list", ones), ("list", others):
            for item, its in zip_longest(ones, others):
                yield from differences(item, its, f"{path}[]")
        case ("row", _), ("row", _):
            yield from [f"{path}?"] if one != other else []
        case _ if type(one) is not type(other) or one != other:
            yield path


def is_told(path, findings):
    """Whether a finding is about a path, or about what it lies in.

    A savepoint has no names of a row's columns, and an Avro record is a dict: these are known by what they lie in.
    """
    bare, paths = path.replace("?", "").removesuffix("{}"), [one["path"].replace("?", "") for one in findings]
    return any(bare.startswith(one) or (path[-1] in "?}" and one.startswith(bare)) for one in paths)


def losing(findings):
    """Those about a value that changes, rather than about its bytes."""
    return [one for one in findings if one["flags"] or not one["old"] or one["rule"] == "STATE-5"]


@pytest.mark.usefixtures("job_folder")
@pytest.mark.parametrize("name", placed())
def test_a_way_back_is_as_predicted(run, program, tmp_path, name):
    as_predicted(run, program, tmp_path, name)


RENAMED = [name for name in placed() if "renamed" in name or "moved" in name]
"""Changes by which the way back depends on whether the history has the new version, and so its aliases."""


@pytest.mark.usefixtures("job_folder")
@pytest.mark.parametrize("name", RENAMED)
def test_a_way_back_from_a_recorded_version_is_as_predicted(run, program, tmp_path, name):
    as_predicted(run, program, tmp_path, name, records=True)


def as_predicted(run, program, tmp_path, name, *, records=False):
    place, change = placed()[name]
    first = write(tmp_path / "first", place, program(place, change.old), [change.value])
    run("snapshot", *JOB, "-m", "One")
    second_job = program(place, change.new)
    renamed = change.renamed
    if records:
        renamed = renamed or [("c", "b")]  # the history knows both names
        assert ACCEPTED == run("snapshot", *JOB, "-m", "Two").status
    checked = run("check", first, *JOB, "--json").data
    state = next(one for one in checked["operators"][0]["states"] if one["name"] == "s")
    way = state["way_back"]
    assert ACCEPTED == run("migrate", first, tmp_path / "second", *JOB).status
    ways = [tmp_path / "second"] if state["decision"] == "migrate" else []  # else it is as the first one left it
    if change.more:
        ways.append(write(tmp_path / "live", place, second_job, change.more))
    program(place, change.old)

    for folder in ways:
        back = tmp_path / f"{folder.name}-back"
        ran = run("migrate", folder, back, "--downgrade", "1")
        if way["decision"] == "refuse":
            assert (REFUSED, True) == (ran.status, all(one["path"] in ran.stderr for one in way["findings"]))
            assert way["findings"] or way["note"]
            continue
        if ran.status == FAILED:  # a value that does not fit, of which it was said that there may be one
            assert "may_fail_per_value" in {flag for one in way["findings"] for flag in one["flags"]}
            continue
        assert ACCEPTED == ran.status, ran.stderr
        assert "start" == run("check", back, *JOB, "--json").data["decision"]
        assert all(one["path"] in ran.stdout for one in losing(way["findings"]))
        for path in changed_paths(place, folder, back, renamed):
            assert is_told(path, way["findings"]), path
        if folder.name == "second":
            for path in changed_paths(place, first, back):
                assert is_told(path, losing(state["findings"] + way["findings"])), path


def test_the_changes_are_many():
    assert len(placed()) >= 40


def of_states(*states, key=str):
    return Job([Operator("op", key=key, states=[ValueStateDescriptor("beside", str), *states])])


def counted(**ttl):
    return of_states(ValueStateDescriptor("s", int, **ttl))


WHOLE = {  # old job, new job, options of the check and the migration, the way back, the reported losses
    "ttl on": (counted(), counted(time_to_live=True), [], "migrate", "STATE-5"),
    "ttl off": (counted(time_to_live=True), counted(), [], "migrate", "STATE-4"),
    "state renamed": (
        counted(), of_states(ValueStateDescriptor("t", int)), ["--rename-state", "op/s=t"], "refuse", "now called t"
    ),
    "state not taken": (counted(), of_states(), ["--allow-non-restored-state"], "start", ""),
    "kind changed": (
        counted(),
        of_states(ListStateDescriptor("s", int, transform=StateTransform.from_value(lambda value: [value]))),
        [], "refuse", "STATE-1",
    ),
    "key widened": (
        of_states(ValueStateDescriptor("s", int), key=Int32), of_states(ValueStateDescriptor("s", int), key=int),
        ["--repartition"], "refuse", "no way back",
    ),
}  # fmt: skip


@pytest.mark.usefixtures("job_folder")
@pytest.mark.parametrize("name", WHOLE)
def test_a_way_back_of_a_whole_state_is_as_predicted(run, module, tmp_path, name):
    old, new, options, way, told = WHOLE[name]
    module.job, first, second, back = old, *(tmp_path / one for one in ("first", "second", "back"))
    with SavepointWriter(first, old) as writer:
        key = 1 if name == "key widened" else "k"
        writer.put("op", "s", key, TtlValue(1, 5) if name == "ttl off" else 5)
    run("snapshot", *JOB, "-m", "One")
    module.job = new
    checked = run("check", first, *JOB, *options, "--json").data
    state = next(one for one in checked["operators"][0]["states"] if "long" in one["old"])["way_back"]
    moved = [one for one in options if one != "--allow-non-restored-state"]
    assert ACCEPTED == run("migrate", first, second, *JOB, *moved).status

    ran = run("migrate", second, back, "--downgrade", "1")

    assert way == state["decision"]
    assert told in str(state)
    if way == "refuse":
        assert REFUSED == ran.status
    else:
        assert ACCEPTED == ran.status
        assert [5] == [getattr(one, "value", one) for one in stored("value", back).values()]
        assert (told in ran.stdout) or told == "STATE-4"
