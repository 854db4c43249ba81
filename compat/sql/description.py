"""Queries of Flink SQL as descriptions for a check: what a plan says of states, in the serializers that Flink has."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import attrs

from ...serializers.containers.lists import ListSerializer, MapSerializer
from ...serializers.containers.ttl import TtlSerializer
from ...serializers.containers.tuples import TupleSerializer
from ...serializers.flink.namespaces import SqlTimeWindowSerializer, VoidNamespaceSerializer
from ...serializers.primitives.numeric import BooleanSerializer, IntSerializer, LongSerializer
from ...serializers.sql.logical_types import LogicalField, LogicalType
from ...serializers.sql.serializers import RowDataSerializer, RowDataSerializerSnapshot, RowField
from ..description import (
    Computation,
    JobDescription,
    OperatorDescription,
    SerializerDescription,
    StateDescription,
    StateKind,
    operator_id_of_uid,
)
from .pairing import pair_columns
from .query import OPAQUE, Namespace, Removal, SqlOperator, SqlQuery, SqlState, SqlUpgrade, ValueForm

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...serializers.serializer import TypeSerializer
    from ...serializers.snapshot import TypeSerializerConfigSnapshot
    from .query import Column

_ITEMS: dict[ValueForm, TypeSerializer[Any]] = {
    ValueForm.COUNT: IntSerializer(), ValueForm.FLAG: BooleanSerializer(), ValueForm.TIME: LongSerializer(),
}  # fmt: skip

_NAMESPACES: dict[Namespace, TypeSerializer[Any]] = {
    Namespace.VOID: VoidNamespaceSerializer(), Namespace.SLICE: LongSerializer(),
    Namespace.TIME_WINDOW: SqlTimeWindowSerializer(),
}  # fmt: skip


def describe_query(new: SqlQuery, old: SqlQuery | None = None, *, allows_partial: bool = False) -> JobDescription:
    """Return the description of a query; operators whose layout is not known have no states in it.

    Args:
        new: The query.
        old: The one that wrote the state which it is to take over, where that is known.
        allows_partial: Whether aggregates may begin now where others go on.
    """
    operators = tuple(describe_operator(one) for one in new.operators)
    return JobDescription(new.origin, operators, upgrade=SqlUpgrade(new, old, allows_partial))


def describe_operator(
    of: SqlOperator, was: SqlOperator | None = None, stored: OperatorDescription | None = None
) -> OperatorDescription:
    """Return the description of an operator.

    Args:
        of: The operator.
        was: The old one whose state it takes over; None: it is described alone.
        stored: That one as it is stored: it has the types which a plan does not show.
    """
    key = None
    if of.keys:
        key = SerializerDescription.of(_row(of.keys, None if was is None else was.keys, Removal.BY_KEY, is_key=True))
    old = {} if was is None else {one.name: one for one in was.states}
    there = {} if stored is None else {one.name: one for one in stored.states}
    states = tuple(
        describe_state(one, old.get(one.name), there.get(one.name))
        for one in of.states
        if one.form is not ValueForm.VIEW
    )
    uid = of.uids[0]
    return OperatorDescription(
        operator_id_of_uid(uid).hex(), uid, key=key, states=states, computation=computation_of(of)
    )


def computation_of(of: SqlOperator) -> Computation:
    """Return what an operator computes, as reports show it."""
    columns = {one.name: {f"value.{column.name}": column.computed for column in one.columns} for one in of.states}
    facts = {"rows": " and ".join(of.rows)} if of.rows else {}
    if of.work:
        facts["work"] = of.work
    return Computation(of.node, of.kind, columns=columns, facts=facts, source="a compiled plan")


def describe_state(
    of: SqlState, was: SqlState | None = None, stored: StateDescription | None = None
) -> StateDescription:
    """Return the description of a state, which takes over the values of an old one if there is one."""
    old_columns, old_keys = (None, None) if was is None else (was.columns, was.user_key)
    item: TypeSerializer[Any]
    if of.form in _ITEMS:
        item = _ITEMS[of.form]
    else:
        types = None if stored is None else _row_within(stored.value.snapshot)
        item = _row(of.columns, old_columns, of.removal, is_key=False, stored=types)
        if of.form is ValueForm.ROWS:
            item = ListSerializer(item)
    if of.has_number:
        item = TupleSerializer((item, IntSerializer()))
    if of.ttl_ms:
        item = TtlSerializer(item)
    if of.kind is StateKind.MAP:
        counted = of.form is ValueForm.COUNT  # such rows are found as the values of other states are
        key = _row(of.user_key, old_keys, of.removal, is_key=not counted)
        item = MapSerializer(attrs.evolve(key, counted=counted), item, nullable_values=True)
    namespace = SerializerDescription.of(_NAMESPACES[of.namespace])
    lived = timedelta(milliseconds=was.ttl_ms) if was is not None and was.ttl_ms and not of.ttl_ms else None
    described = SerializerDescription.of(item)
    return StateDescription(of.name, of.kind, described, namespace=namespace, former_time_to_live=lived)


def _row_within(snapshot: TypeSerializerConfigSnapshot[Any]) -> RowDataSerializerSnapshot | None:
    """Return the snapshot of the rows that values are, or hold; the last one within, behind the key of a map."""
    if isinstance(snapshot, RowDataSerializerSnapshot):
        return snapshot
    found = (_row_within(one) for one in reversed(snapshot.children()))
    return next((one for one in found if one is not None), None)


def _row(
    columns: Sequence[Column],
    old: Sequence[Column] | None,
    removal: Removal,
    *,
    is_key: bool,
    stored: RowDataSerializerSnapshot | None = None,
) -> RowDataSerializer:
    """Return the serializer of rows; where the old columns are known, with what each new one takes."""
    paired = None if old is None else pair_columns(old, columns, removal, is_key=is_key)
    takes = range(len(columns)) if paired is None else [one.takes for one in paired]
    fields = (
        _field(column, place if _is_kept(column, place, old) else None, stored)
        for column, place in zip(columns, takes, strict=True)
    )
    made = RowDataSerializer(RowDataSerializerSnapshot.of_fields(fields))
    if old is None or paired is None:
        return made
    return attrs.evolve(made, columns=paired, stored_columns=tuple(one.name for one in old))


def _is_kept(column: Column, takes: int | None, old: Sequence[Column] | None) -> bool:
    """Whether a column has the type of the one that it takes, as far as plans show it; without an old plan, it may."""
    return old is None or (takes is not None and old[takes].type == column.type)


def _field(column: Column, takes: int | None, stored: RowDataSerializerSnapshot | None) -> RowField:
    """Return a field; one whose type holds objects of Java as it is stored, or else as a type that stands for it."""
    if column.type.root != OPAQUE:
        return RowField.of(column.type)
    if stored is not None and takes is not None and takes < len(stored.types):
        return stored.field(takes)
    stands_for = LogicalField(str(dict(column.type.parameters)["summary"]), LogicalType("BIGINT"))
    return RowField.of(LogicalType("ROW", fields=(stands_for,)))


def is_stored_as(snapshot: TypeSerializerConfigSnapshot[Any], columns: Sequence[Column]) -> bool:
    """Whether stored rows have just the types of columns."""
    found = _row_within(snapshot)
    if found is None or len(found.types) != len(columns):
        return False
    return all(_is_type(of, column.type) for of, column in zip(found.types, columns, strict=True))


def _is_type(stored: LogicalType, told: LogicalType) -> bool:
    if told.root != OPAQUE:
        return stored == told
    pattern = re.escape(str(dict(told.parameters)["summary"])).replace(re.escape("..."), "[^']*")
    return re.fullmatch(pattern, stored.describe()) is not None
