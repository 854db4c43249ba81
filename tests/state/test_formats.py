"""What is read and written, by snapshot class, kind of state, kind of snapshot and Flink: the table in the docs.

A cell names a kind of state where at least one fixture by real Flink has it, all its values equal what Flink itself
read, and the same is read from a savepoint that was rewritten from these values. STATESHIFT_RECORD=1 writes the
page.
"""

from __future__ import annotations

import json
import os
from collections import defaultdict

import pytest
from copying_values import copy_by_value

from stateshift import Savepoint
from stateshift.compat.description import StateKind
from stateshift.serializers.registry import registry
from stateshift.serializers.snapshot import snapshot_from_bytes
from stateshift.state.timers import queue_parts

BEGIN, END = "<!-- table: made by tests/state/test_formats.py -->\n", "<!-- end of table -->\n"
COLUMNS = ("2.3", "2.3 snappy", "1.20", "1.20 snappy", "2.3 heap native", "2.3 heap native snappy")
ROOMS = {
    StateKind.TIMERS: "timers",
    StateKind.SPLIT_LIST: "operator",
    StateKind.UNION_LIST: "operator",
    StateKind.BROADCAST: "broadcast",
}
NOT_MET, BY_VALUE = "not met", "single values"
NOTES = {"AvroSerializer": "named and kept; values not read", "ByteArrayWrapperSerializer": "map of PyFlink 2.3"}


def column_of(folder):
    name, version = folder.parent.name, folder.parents[1].name.removeprefix("flink-").removeprefix("sql-")
    return version + " heap native" * ("-native-" in name) + " snappy" * ("snappy" in name)


def snapshots_of(state):
    for part in state.description.serializers():
        yield from with_nested(part.snapshot)


def part_of(rooms, operator, state):
    """What the groups of an operator's states have of one state."""
    found = rooms.get(operator.operator_id, {}).get(ROOMS.get(state.kind, "keyed"), {})
    return found.get(str(queue_parts(state.name)[1]) if state.kind is StateKind.TIMERS else state.name)


def cells_of(folder, flink_read, contents, target):
    """Snapshot class and kind of every state in a fixture that holds what it should, before and after writing."""
    savepoint = Savepoint.open(folder)
    told, read = flink_read(folder), contents(savepoint)
    written = contents(copy_by_value(savepoint, target))
    for operator in savepoint.operators:
        keys = [operator.key] if operator.key is not None else []
        for state in operator.states:
            expected = part_of(told, operator, state)
            assert expected == part_of(read, operator, state), (folder, operator.title, state.name)
            assert expected == part_of(written, operator, state), (folder, operator.title, state.name)
            for snapshot in [*snapshots_of(state), *(keys if state.kind.is_keyed else [])]:
                yield type(snapshot), str(state.kind).replace("_", " ")


@pytest.fixture(scope="module")
def proven(fixtures, flink_read, contents, tmp_path_factory):
    """By snapshot class and column: kinds of state."""
    found = defaultdict(set)
    for folder in fixtures:
        for snapshot_class, kind in cells_of(folder, flink_read, contents, tmp_path_factory.mktemp("anew") / "new"):
            found[snapshot_class, column_of(folder)].add(kind)
    return found


@pytest.fixture(scope="module")
def fixtures(root):
    return sorted((root / "tests" / "fixtures").glob("flink-*/*/savepoint"))


@pytest.fixture(scope="module")
def by_value(root):
    """Snapshot classes of which Flink wrote single values, to which tests/serializers hold ours byte for byte."""
    text = (root / "tests" / "fixtures" / "flink-values.json").read_text(encoding="utf-8")
    pending = [snapshot_from_bytes(bytes.fromhex(snapshot)) for _, snapshot, _ in json.loads(text).values()]
    return {type(snapshot) for outer in pending for snapshot in with_nested(outer)}


def with_nested(snapshot):
    yield snapshot
    for child in snapshot.children():
        yield from with_nested(child)


def table(head, rows):
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def kinds_table(proven, columns):
    """Kinds of state by kind of snapshot.

    Args:
        proven: The fixture.
        columns: By heading: the kinds of fixtures that it stands for, all of which must have a kind of state.
    """
    found = {column: set().union(*(kinds for (_, at), kinds in proven.items() if at == column)) for column in COLUMNS}
    rows = []
    for kind in (str(kind).replace("_", " ") for kind in StateKind):
        cells = [kind]
        for heading, under in columns.items():
            words = "read, becomes canonical" if "native" in heading else "read, written"
            cells.append(words if all(kind in found[column] for column in under) else NOT_MET)
        rows.append(cells)
    return table(["kind of state", *columns], rows)


def classes_table(proven, by_value):
    rows = []
    for snapshot_id, snapshot_class in registry._snapshots.items():
        if snapshot_id.startswith("org.apache.flink."):
            name = snapshot_class.__name__.removesuffix("Snapshot")
            single = BY_VALUE if snapshot_class in by_value else NOT_MET
            cells = [f"`{name}`"]
            for columns, otherwise in ((COLUMNS[:2], single), (COLUMNS[2:4], single), (COLUMNS[4:], NOT_MET)):
                kinds = {kind for column in columns for kind in proven.get((snapshot_class, column), ())}
                cells.append(", ".join(sorted(kinds)) or NOTES.get(name, otherwise))
            rows.append(cells)
    return table(["snapshot of", "2.3", "1.20", "2.3 heap native"], sorted(rows))


def hold(page, made):
    """Hold what stands between the marks of a page against what was made; STATESHIFT_RECORD=1 writes it."""
    before, _, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    told, _, after = rest.partition(END)
    if os.environ.get("STATESHIFT_RECORD"):
        page.write_text(before + BEGIN + made + END + after, encoding="utf-8")
    else:
        assert made == told
    assert after or rest.endswith(END), f"{page} has no marks"


@pytest.mark.slow
def test_the_page_of_formats_says_what_is_proven(proven, by_value, root):
    kinds = kinds_table(proven, {column: [column] for column in COLUMNS})

    hold(root / "docs" / "reference" / "formats.md", f"\n{kinds}\n{classes_table(proven, by_value)}\n")
