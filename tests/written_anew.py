"""Savepoints of Flink SQL, every key, value and timer of which is read, made anew, and written again."""

from __future__ import annotations

import attrs

from stateshift import MigrationOptions, RowData, TtlValue
from stateshift.compat.description import Converter, JobDescription, StateTransform
from stateshift.compat.repartition import Repartition
from stateshift.state.migration.edits import parse_edits


def bare(value):
    """Make a value of what it holds, without the bytes that it was read from."""
    if isinstance(value, RowData):
        return RowData._read([bare(one) for one in value], value._kind)
    if isinstance(value, TtlValue):
        return attrs.evolve(value, value=bare(value.value))
    if isinstance(value, dict):
        return {bare(key): bare(one) for key, one in value.items()}
    return type(value)(map(bare, value)) if isinstance(value, list | tuple) else value


def as_read(value):
    return value


def anew(stored, made):
    """Describe the same state, all keys and values of which are made anew."""

    def state(one):
        transform = StateTransform(one.kind, made.__name__, made)
        return attrs.evolve(one, transform=transform) if one.kind.is_keyed and one.kind.has_values else one

    def operator(one):
        key = one.key and attrs.evolve(one.key, converter=Converter.of(made))
        return attrs.evolve(one, key=key, states=tuple(map(state, one.states)))

    return JobDescription("written anew", tuple(map(operator, stored.operators)))


def options_for(stored):
    """Return the options with which keys are written again, too."""
    edits = parse_edits(convert=[f"{one.uid or one.operator_id}/<key>" for one in stored.operators if one.key])
    return MigrationOptions(repartition=Repartition(), edits=edits)
