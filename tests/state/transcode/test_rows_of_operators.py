"""Rows in what operators of real Flink SQL have stored: each shape of state is rewritten by an op list, every entry."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import attrs
import pytest
from plain_executor import plainly
from transcoding import planned

from stateshift.compat.description import StateKind
from stateshift.serializers.serializer import TypeSerializer
from stateshift.serializers.sql.row_changes import RowColumn
from stateshift.serializers.sql.serializers import RowDataSerializer, RowDataSerializerSnapshot, RowField
from stateshift.state.formats.flink.keyed_readers import open_keyed
from stateshift.state.formats.flink.state_kinds import NAMESPACE_SERIALIZER, info_snapshot, keyed_kind
from stateshift.state.formats.flink.value_readers import value_reader
from stateshift.state.plans.column_types import type_of
from stateshift.state.savepoint.reader import Savepoint
from stateshift.state.storage.files import Folder
from stateshift.state.transcode.block_transcoder import BlockTranscoder
from stateshift.state.transcode.entry_layout import entry_framing
from stateshift.state.transcode.executor_choice import ExecutorName
from stateshift.state.transcode.factory import make_transcoder
from stateshift.state.transcode.interpreter import DONE

FIXTURES = Path(__file__).parents[2] / "fixtures" / "flink-sql-2.3"


def grown(serializer: Any) -> Any:
    """The serializer with a column more in each row."""
    if isinstance(serializer, RowDataSerializer):
        stored = serializer.stored
        fields = [stored.field(at) for at in range(len(stored.types))]
        names = tuple(f"c{at}" for at in range(len(fields)))
        columns = (RowColumn("n", begins=None, why="new"), *(RowColumn(one, at) for at, one in enumerate(names)))
        added = RowField.of(type_of("BIGINT", ""))
        return RowDataSerializer(RowDataSerializerSnapshot.of_fields([added, *fields]), columns, names)
    changed = {}
    for field in attrs.fields(type(serializer)):
        value = getattr(serializer, field.name)
        if isinstance(value, TypeSerializer):
            changed[field.name] = grown(value)
        elif isinstance(value, tuple) and value and all(isinstance(one, TypeSerializer) for one in value):
            changed[field.name] = tuple(map(grown, value))
    return attrs.evolve(serializer, **changed)


def states_of(name):
    """Each keyed state of a sample: its kind, namespace, serializer, and blocks of its entries."""
    savepoint = Savepoint.open(FIXTURES / name / "savepoint")
    for operator in savepoint.metadata.operators:
        for subtask in operator.subtasks:
            if subtask.managed_keyed is None:
                continue
            with open_keyed(
                subtask.managed_keyed, Folder.at(FIXTURES / name / "savepoint"), operator.max_parallelism
            ) as reader:
                infos = reader.header.states
                blocks = list(reader.blocks(range(operator.max_parallelism)))
                for at, info in enumerate(infos):
                    yield operator, reader.header.key_snapshot, info, [b for b in blocks if b.state_id == at]


@pytest.mark.parametrize("name", sorted(one.name for one in FIXTURES.iterdir() if (one / "savepoint").exists()))
def test_every_entry_that_flink_wrote_is_rewritten_by_the_op_list(name):
    for operator, key, info, blocks in states_of(name):
        kind = keyed_kind(info)
        if kind is StateKind.TIMERS:
            continue
        old = value_reader(kind, info.value)
        new = grown(old)
        if new == old:
            continue
        namespace = info_snapshot(info, NAMESPACE_SERIALIZER).restore_serializer()
        framing = entry_framing(kind, key.restore_serializer(), namespace, operator.max_parallelism)
        rewrite: Any = make_transcoder(planned(old, new, kind), framing, ExecutorName.NUMBA)
        assert isinstance(rewrite, BlockTranscoder)
        plain = plainly(rewrite)
        for block in blocks:
            done = plain._made.rewrite(block.data, 0)

            assert (DONE, block.entries) == (done.status, done.entries)
            assert rewrite.objects.transcode(block.data).data == done.data
