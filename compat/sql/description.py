"""Queries of Flink SQL as descriptions for a check: what a plan says of states, in the serializers that Flink has."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import attrs

from ...serializers.compatibility import Finding, Flag, Verdict
from ...serializers.containers.lists import ListSerializer, MapSerializer
from ...serializers.containers.ttl import TtlSerializer, TtlSerializerSnapshot
from ...serializers.containers.tuples import TupleSerializer
from ...serializers.errors import UnsupportedFormat
from ...serializers.flink.namespaces import SqlTimeWindowSerializer, VoidNamespaceSerializer
from ...serializers.primitives.numeric import BooleanSerializer, IntSerializer, LongSerializer
from ...serializers.sql.containers import SortedMapSerializer, SortedMapSerializerSnapshot
from ...serializers.sql.logical_types import OPAQUE, LogicalField, LogicalType
from ...serializers.sql.row_changes import WrittenAs, resolve_columns
from ...serializers.sql.serializers import RowDataSerializer, RowDataSerializerSnapshot, RowField
from ...serializers.ways_out import WayOut, by_migration
from ..description import (
    Computation,
    JobDescription,
    OperatorDescription,
    SerializerDescription,
    StateDescription,
    StateKind,
    StateTransform,
    operator_id_of_uid,
)
from .layouts import KEEP_NEWEST, Newest, RowsAnew, is_trimmed, keeps_otherwise, why_not
from .pairing import pair_columns
from .query import Namespace, Removal, SqlOperator, SqlQuery, SqlState, SqlUpgrade, ValueForm
from .ways_out import EMPTY, KEEP_QUERY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ...serializers.serializer import TypeSerializer
    from ...serializers.snapshot import TypeSerializerConfigSnapshot
    from .query import Column

_ITEMS: dict[ValueForm, TypeSerializer[Any]] = {
    ValueForm.COUNT: IntSerializer(), ValueForm.FLAG: BooleanSerializer(), ValueForm.TIME: LongSerializer(),
}  # fmt: skip

_AROUND_ROWS: dict[ValueForm, Callable[[TypeSerializer[Any]], TypeSerializer[Any]]] = {
    ValueForm.ROWS: ListSerializer,
    ValueForm.FLAGGED_ROWS: lambda row: ListSerializer(TupleSerializer((row, BooleanSerializer()))),
    ValueForm.NUMBERED_KEYS: lambda row: ListSerializer(TupleSerializer((row, ListSerializer(LongSerializer())))),
}  # fmt: skip

_NAMESPACES: dict[Namespace, TypeSerializer[Any]] = {
    Namespace.VOID: VoidNamespaceSerializer(), Namespace.SLICE: LongSerializer(),
    Namespace.TIME_WINDOW: SqlTimeWindowSerializer(),
}  # fmt: skip


def describe_query(
    new: SqlQuery,
    old: SqlQuery | None = None,
    *,
    allows_partial: bool = False,
    allows_stale: bool = False,
    template: JobDescription | None = None,
    keeps_newest: bool = False,
) -> JobDescription:
    """Return the description of a query; operators whose layout is not known have no states in it.

    Args:
        new: The query.
        old: The one that wrote the state which it is to take over, where that is known.
        allows_partial: Whether aggregates may begin now where others go on.
        allows_stale: Whether rows that were sent may stay where the new query would not have sent them.
        template: A savepoint of the new query, of which `require_template` has made sure.
        keeps_newest: Whether of stored rows that get one unique key the newest stays, where it is known.
    """
    operators = tuple(describe_operator(one) for one in new.operators)
    upgrade = SqlUpgrade(new, old, allows_partial, allows_stale, template, keeps_newest)
    return JobDescription(new.origin, operators, upgrade=upgrade)


def describe_operator(
    of: SqlOperator,
    was: SqlOperator | None = None,
    stored: OperatorDescription | None = None,
    template: OperatorDescription | None = None,
    *,
    keeps_newest: bool = False,
) -> OperatorDescription:
    """Return the description of an operator; without an order of Java that neither of the two savepoints has.

    Args:
        of: The operator.
        was: The old one whose state it takes over; None: it is described alone.
        stored: That one as it is stored: it has the types which a plan does not show.
        template: The operator in a savepoint of the new query: it has what this release does not write.
        keeps_newest: Whether of stored rows that get one unique key the newest stays, where it is known.
    """
    key = None
    if of.keys or of.states:
        old_keys = None if was is None else was.keys
        snapshots = [None if one is None or one.key is None else one.key.snapshot for one in (stored, template)]
        row = _row(of.keys, old_keys, Removal.BY_KEY, _Known(*snapshots), is_key=True)
        kept = tuple(attrs.evolve(one, keeps_null=True) for one in row.columns)
        key = SerializerDescription.of(attrs.evolve(row, columns=kept))
    old = {} if was is None else {one.name: one for one in was.states}
    there, given = ({} if side is None else {one.name: one for one in side.states} for side in (stored, template))

    def described(one: SqlState) -> StateDescription | None:
        before, newest = old.get(one.name), Newest()
        if before is not None and was is not None:
            newest = Newest.of(before, was, of, is_asked=keeps_newest)
        return describe_state(one, before, there.get(one.name), given.get(one.name), newest)

    states = (described(one) for one in of.states if one.form is not ValueForm.VIEW)
    known = tuple(state for state in states if state is not None)
    uid = of.uids[0]
    return OperatorDescription(
        operator_id_of_uid(uid).hex(), uid, key=key, states=known, computation=computation_of(of)
    )


def computation_of(of: SqlOperator) -> Computation:
    """Return what an operator computes, as reports show it."""
    columns = {one.name: {f"value.{column.name}": column.computed for column in one.columns} for one in of.states}
    facts = {"rows": " and ".join(of.rows)} if of.rows else {}
    if of.work:
        facts["work"] = of.work
    return Computation(of.node, of.kind, columns=columns, facts=facts, source="a compiled plan")


@attrs.frozen
class _Known:
    """What savepoints have of a type: rows, or what holds them.

    Attributes:
        stored: The stored type.
        template: That of a template.
    """

    stored: TypeSerializerConfigSnapshot[Any] | None = None
    template: TypeSerializerConfigSnapshot[Any] | None = None

    def of_keys(self) -> _Known:
        """Return what they have of the keys of a map."""
        both = (self.stored, self.template)
        return _Known(*(None if one is None or not one.children() else one.children()[0] for one in both))


def describe_state(
    of: SqlState,
    was: SqlState | None = None,
    stored: StateDescription | None = None,
    template: StateDescription | None = None,
    newest: Newest = Newest(),  # noqa: B008 - it is frozen
) -> StateDescription | None:
    """Return the description of a state, which takes over the values of an old one if there is one.

    None: it has an order of Java, and neither of the two savepoints has that.
    """
    snapshot = None if stored is None else stored.value.snapshot
    known = _Known(snapshot, None if template is None else template.value.snapshot)
    transform = None if was is None or snapshot is None else _relaid(was, of, snapshot, known, newest)
    old_columns, old_keys = (None, None) if was is None else (was.columns, was.user_key)
    item: TypeSerializer[Any]
    if of.form in _ITEMS:
        item = _ITEMS[of.form]
    elif of.form is ValueForm.SORTED_COUNTS:
        found = _sorted(of, _row(of.columns, old_columns, of.removal, known, is_key=True), known)
        if found is None:
            return None
        item = found
    else:
        item = _row(of.columns, old_columns, of.removal, known, is_key=False)
        if wrap := _AROUND_ROWS.get(of.form):
            item = wrap(item)
    if of.has_number:
        item = TupleSerializer((item, IntSerializer()))
    if of.ttl_ms or (of.ttl_of_job and isinstance(snapshot, TtlSerializerSnapshot)):
        item = TtlSerializer(item)
    if of.kind is StateKind.MAP and not of.user_key:
        item = MapSerializer(LongSerializer(), item, stores_no_null=True)
    elif of.kind is StateKind.MAP:
        counted = of.form is ValueForm.COUNT  # such rows are found as the values of other states are
        key = _row(of.user_key, old_keys, of.removal, known.of_keys(), is_key=not counted)
        item = MapSerializer(attrs.evolve(key, counted=counted), item, stores_no_null=True)
    namespace = SerializerDescription.of(_NAMESPACES[of.namespace])
    lived = timedelta(milliseconds=was.ttl_ms) if was is not None and was.ttl_ms and not of.ttl_ms else None
    described = SerializerDescription.of(item)
    return StateDescription(
        of.name, of.kind, described, namespace=namespace, former_time_to_live=lived, transform=transform
    )


def _sorted(of: SqlState, key: RowDataSerializer, known: _Known) -> SortedMapSerializer | None:
    """Return the serializer of a sorted map with the comparator that is stored, or that of a template (SQL-22)."""
    if known.stored is None:  # Flink writes the order of what begins
        return None
    wanted = tuple((of.columns[place].type, *way) for place, *way in of.order)
    for snapshot in (known.stored, known.template):
        found = snapshot.children()[-1] if isinstance(snapshot, TtlSerializerSnapshot) else snapshot
        if isinstance(found, SortedMapSerializerSnapshot) and found.order == wanted:
            return SortedMapSerializer(
                key, LongSerializer(), nullable_values=True, comparator=found.comparator,
                is_of_template=snapshot is not known.stored,
            )  # fmt: skip
    return None


def _relaid(
    was: SqlState, of: SqlState, stored: TypeSerializerConfigSnapshot[Any], known: _Known, newest: Newest
) -> StateTransform | None:
    """Return what writes stored rows as a new state keeps them; None if entries stay entries.

    Args:
        was: The old state.
        of: The new one.
        stored: The types of the old one.
        known: The same, and those of a template.
        newest: Whether of rows with one unique key the newest stays.
    """
    if not (is_trimmed(was, of) or keeps_otherwise(was, of)):
        return None
    rows = _row_within(stored)
    assert rows is not None  # noqa: S101 - such states hold rows
    found = resolve_columns(_row(of.columns, was.columns, of.removal, known, is_key=False), rows)
    findings, keys = list(found.findings), None
    if of.form is not ValueForm.COUNT and of.user_key:
        from_key = is_trimmed(was, of)
        before = stored.children()[0] if from_key else rows
        assert isinstance(before, RowDataSerializerSnapshot)  # noqa: S101 - the keys of such maps are rows
        columns = was.user_key if from_key else was.columns
        there = _Known(before, known.of_keys().template)
        keyed = resolve_columns(_row(of.user_key, columns, of.removal, there, is_key=True), before)
        keys = keyed.conversion
        findings += [one.below("<key>") for one in keyed.findings if one.verdict is Verdict.INCOMPATIBLE]
    made = RowsAnew(was, of, found.conversion, keys, newest)
    return StateTransform(was.kind, made.title, made, (*_about(was, of, newest), *findings))


def _about(was: SqlState, of: SqlState, newest: Newest) -> Iterator[Finding]:
    """Yield what is to be said of rows that are kept otherwise (SQL-19, SQL-20)."""
    rule, words = ("SQL-19", _kept(was, of)) if is_trimmed(was, of) else ("SQL-20", (was.layout, of.layout))
    if why := why_not(was, of):
        yield Finding("$", rule, Verdict.INCOMPATIBLE, *words, why, (KEEP_QUERY, EMPTY))
    elif rule == "SQL-19":
        reason = "stored rows beyond are left out; those that were sent stay in the table, and are never taken back"
        ways_out = by_migration("the rows beyond are left out"), "keep the number of rows"
        yield Finding("$", rule, Verdict.REQUIRES_MIGRATION, *words, reason, ways_out, (Flag.STALE,))
    else:
        gains = of.form is not ValueForm.COUNT
        reason = "the unique key of the rows decides how Flink keeps them"
        flags = [Flag.COLLISION_CHECK] if gains else []
        ways = [by_migration("the rows are kept in the other way"), WayOut("keep the unique key as it was")]
        if gains and newest.stays:
            reason += "; of rows with one key the newest stays, and what was sent of the others is never taken back"
            flags.append(Flag.STALE)
        elif gains:
            reason += "; two stored rows with one key abort the migration"
            if newest.is_asked:
                reason += f", and the newest does not stay: {newest.lacks}"
            elif not newest.lacks:
                ways.append(KEEP_NEWEST)
        yield Finding("$", rule, Verdict.REQUIRES_MIGRATION, *words, reason, tuple(ways), tuple(flags))


def _kept(was: SqlState, of: SqlState) -> tuple[str, str]:
    return f"{was.most:,} rows of each key", f"{of.most:,} rows of each key"


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
    known: _Known,
    *,
    is_key: bool,
) -> RowDataSerializer:
    """Return the serializer of rows; where the old columns are known, with what each new one takes.

    Args:
        columns: The columns.
        old: The stored ones, where they are known.
        removal: How stored rows are found again.
        known: What savepoints have of them: a type that holds objects of Java is taken from there.
        is_key: Whether the rows are keys.
    """
    paired = None if old is None else pair_columns(old, columns, removal, is_key=is_key)
    there, template = (None if one is None else _row_within(one) for one in (known.stored, known.template))
    takes = list(range(len(columns))) if paired is None else [one.takes for one in paired]
    fields = [
        _kept_field(column, place, old, there) or _new_field(column.type)
        for column, place in zip(columns, takes, strict=True)
    ]
    given = [
        field or (_stand_in(column) if template is None else template.field(place))
        for place, (column, field) in enumerate(zip(columns, fields, strict=True))
    ]
    made = RowDataSerializer(RowDataSerializerSnapshot.of_fields(given))
    if old is None or paired is None:
        return made
    lacks = WrittenAs.NOTHING if template is None else WrittenAs.TEMPLATE
    written = tuple(
        attrs.evolve(one, written=lacks) if field is None else one for one, field in zip(paired, fields, strict=True)
    )
    return attrs.evolve(made, columns=written, stored_columns=tuple(one.name for one in old))


def _kept_field(
    column: Column, takes: int | None, old: Sequence[Column] | None, stored: RowDataSerializerSnapshot | None
) -> RowField | None:
    """Return the field that a column takes as it is stored, if its type stays; else None."""
    if stored is None or takes is None or takes >= len(stored.types):
        return None
    is_of_type = stored.types[takes] == column.type
    is_opaque = column.type.root == OPAQUE and (old is None or old[takes].type == column.type)
    return stored.field(takes) if is_of_type or is_opaque else None


def _new_field(of: LogicalType) -> RowField | None:
    """Return a field of a type as Flink would write it; None if this release does not write it."""
    try:
        return None if of.root == OPAQUE else RowField.of(of)
    except UnsupportedFormat:
        return None


def _stand_in(column: Column) -> RowField:
    """Return a field that stands for a type of which only a plan is known: equal for equal types, and never written."""
    of = column.type
    made = RowField.of(LogicalType("ROW", fields=(LogicalField(of.describe(), LogicalType("BIGINT")),)))
    return attrs.evolve(made, type=of)


def is_stored_as(snapshot: TypeSerializerConfigSnapshot[Any], columns: Sequence[Column]) -> bool:
    """Whether stored rows have just the types of columns."""
    found = _row_within(snapshot)
    if found is None or len(found.types) != len(columns):
        return False
    return all(_is_type(of, column.type) for of, column in zip(found.types, columns, strict=True))


def _is_type(stored: LogicalType, told: LogicalType) -> bool:
    if told.root != OPAQUE:
        return stored == told
    pattern = re.escape(told.describe()).replace(re.escape("..."), "[^']*")
    return re.fullmatch(pattern, stored.describe()) is not None
