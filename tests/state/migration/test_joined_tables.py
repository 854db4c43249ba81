"""Tables of one state that become one: each key once, with the newest value, whatever the order of the entries."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stateshift import serializer_for
from stateshift.compat.description import StateKind
from stateshift.compat.header_snapshots import Labels
from stateshift.compat.plan import OperatorAction, OperatorPlan, StateAction, StatePlan
from stateshift.serializers.flink.namespaces import VoidNamespaceSerializer
from stateshift.state.formats.flink.blocks import Block
from stateshift.state.formats.flink.meta_info import keyed_state
from stateshift.state.migration import joined_tables
from stateshift.state.migration.joined_tables import JoinedTables

NAMES = ("v", "other", "stateshift/lazy-2/v", "stateshift/lazy-3/v")
NEW_IDS = (0, 1, 0, 0)


VOID, INT = (one.snapshot_configuration() for one in (VoidNamespaceSerializer(), serializer_for(int)))
INFOS = [keyed_state(name, "VALUE", VOID, INT) for name in NAMES]


def tables(own=StateAction.CONVERT, new_ids=NEW_IDS):
    labels = Labels(INT)
    actions = dict.fromkeys(NAMES, StateAction.CONVERT) | {"v": own}
    states = tuple(StatePlan(name, StateKind.VALUE, action, labels, labels) for name, action in actions.items())
    plan = OperatorPlan("00", "f", OperatorAction.REWRITE, None, relabels_key=False, states=states)
    return JoinedTables.of(plan, INFOS, new_ids)


def test_states_of_one_table_are_left_alone():
    assert tables(new_ids=(0, 1, 2, None)) is None


@pytest.mark.parametrize(
    ("own", "ages"), [(StateAction.CONVERT, {3: 0, 2: 1, 0: 2}), (StateAction.RELABEL, {0: 0, 3: 1, 2: 2})]
)
def test_the_newest_table_is_the_present_one(own, ages):
    """The state's own name is free again only for values that have the present form."""
    assert ages == tables(own).ages


keys = st.binary(min_size=1, max_size=2).map(lambda data: b"\0" + data)
entries = st.dictionaries(keys, st.binary(max_size=3)).map(lambda found: list(found.items()))


@given(st.lists(st.tuples(entries, entries, entries, entries), max_size=3), st.booleans(), st.integers(1, 8))
def test_what_is_written_is_what_a_dict_has(groups, is_sorted, at_once):
    """The tables come in pieces; a table that is not sorted is sorted."""
    blocks, expected, older = [], {}, []
    for group, found in enumerate(groups):
        whole = {}
        for at, items in enumerate(found):
            ordered = sorted(items) if is_sorted else items
            pieces = [ordered[start : start + at_once] for start in range(0, len(ordered), at_once)]
            blocks += [(at, Block.of(group, NEW_IDS[at], piece)) for piece in pieces]
            if NEW_IDS[at]:
                expected |= {(group, 1, key): value for key, value in items}
                continue
            older += [(group, key) for key, _ in items if key in whole]
            whole |= dict(items)  # of what is converted, the table of the largest number is the newest
        expected |= {(group, 0, key): value for key, value in whole.items()}
    left_out = []
    written = list(tables().blocks(iter(blocks), lambda at, key: left_out.append((at, key))))
    read = [((block.key_group, block.state_id, key), value) for block in written for key, value in block.items()]

    assert expected == dict(read)
    assert len(expected) == len(read)
    assert sorted(key for _, key in older) == sorted(key for _, key in left_out)
    places = [(block.key_group, block.state_id) for block in written]
    assert sorted(set(places), key=places.index) == [
        place for at, place in enumerate(places) if places[at - 1] != place or not at
    ]


def _nothing(at, key):
    """What is left out is not looked at."""


def test_long_tables_are_written_in_blocks(monkeypatch):
    monkeypatch.setattr(joined_tables, "_BLOCK_BYTES", 20)
    items = [(b"\0" + bytes([number]), bytes(8)) for number in range(30)]
    blocks = [(0, Block.of(0, 0, items[::2])), (2, Block.of(0, 0, items[1::2]))]
    written = list(tables().blocks(iter(blocks), _nothing))
    assert items == [entry for block in written for entry in block.items()]
    assert {2} == {block.entries for block in written}
