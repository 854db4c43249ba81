"""The way back to Flink: what was migrated and taken back, the old Java classes restore, and see the values.

The changes are those of Java classes in `back_changes`; each is a state of one job. The second version takes over what
the first one wrote, writes on, and `migrate --downgrade` (by the recorded types) leads back.
"""

from __future__ import annotations

import attrs
import pytest
from back_changes import of_java

from stateshift import Decision, Job, Operator, Savepoint, SavepointWriter, ValueStateDescriptor, check, migrate
from stateshift.compat.gate.recording import from_json, to_json
from stateshift.compat.way_back import ways_back
from stateshift.state.savepoint.json_encoding import tagged_operator

CHANGES = of_java()
NAMES = {name: f"s{at}" for at, name in enumerate(CHANGES)}
NO_WAY = {"number widened in a Java class", "symbol added in Java"}
"""Of which no way back is promised."""
A_NULL = "null in a number of a Java class"
"""It is reported that the old job may fail on a value; that of the second version is one."""


def job(names, version):
    states = [ValueStateDescriptor(NAMES[name], (CHANGES[name].old, CHANGES[name].new)[version]) for name in names]
    return Job([Operator("op", key=int, states=states)])


def write(folder, names, version):
    """Write what a version writes: of the second one its own values, where it has some."""
    with SavepointWriter(folder, job(names, version)) as writer:
        for name in names:
            change = CHANGES[name]
            for key, value in enumerate(change.more if version else [change.value]):
                writer.put("op", NAMES[name], key, value)
    return folder


@pytest.fixture(scope="module")
def old_classes(flink, tmp_path_factory):
    sources = dict.fromkeys(source for change in CHANGES.values() for source in change.java)
    return flink("2.3").compile(
        tmp_path_factory.mktemp("classes"),
        *(f"package back; import java.util.*; {source}" for source in sources),
    )


def contents(savepoint):
    return {"operators": [tagged_operator(one, one.states) for one in Savepoint.open(savepoint).operators]}


def scenario(folder, names):
    """Give the first version's descriptors, as Flink is given them."""
    lines = ["key LONG", *(f"value {NAMES[name]} {CHANGES[name].flink}" for name in names)]
    (folder / "job").write_text("\n".join(lines), encoding="utf-8")
    return f"@{folder / 'job'}"


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
@pytest.mark.parametrize("written_by", ["the first version", "the second version"])
def test_the_old_classes_restore_what_came_back(
    flink_restore, same_contents, old_classes, spark, tmp_path, backend, written_by
):
    names = [name for name in CHANGES if name not in NO_WAY]
    names = [name for name in names if written_by == "the first version" or name != A_NULL]
    first = write(tmp_path / "first", names, 0)
    report = check(Savepoint.open(first).describe(), job(names, 1).describe())
    recorded = from_json(to_json(job(names, 0).describe()))
    ways = ways_back(attrs.evolve(report, code=recorded)).states
    assert [] == [place for place, way in ways.items() if way.decision is Decision.REFUSE]

    if written_by == "the first version":
        migrate(first, tmp_path / "second", job(names, 1), session=spark)
    else:
        write(tmp_path / "second", names, 1)
    migrate(tmp_path / "second", tmp_path / "back", recorded, session=spark)

    for folder in (first, tmp_path / "back"):
        restored = flink_restore(folder, scenario=scenario(tmp_path, names), backend=backend, classes=old_classes)
        assert same_contents(contents(folder), restored) == []


def test_the_old_classes_fail_on_what_was_flagged(flink_restore, old_classes, spark, tmp_path):
    report = check(Savepoint.open(write(tmp_path / "first", [A_NULL], 0)).describe(), job([A_NULL], 1).describe())
    (way,) = ways_back(report).states.values()
    migrate(write(tmp_path / "second", [A_NULL], 1), tmp_path / "back", job([A_NULL], 0).describe(), session=spark)
    restored = flink_restore(tmp_path / "back", scenario=scenario(tmp_path, [A_NULL]), classes=old_classes)

    assert ["may_fail_per_value"] == [str(flag) for one in way.flagged for flag in one.flags]
    assert "Can not set int field back.Null.a to null value" in str(restored["causes"])


def test_the_kinds_are_many():
    assert len(CHANGES) - len(NO_WAY) >= 10
