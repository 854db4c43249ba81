"""The rules for rows, ROW-1 to ROW-8: pairing of stored columns with new ones, and the findings.

Flink does not store the names of columns. Where the job declares the names of the stored columns, columns pair by name,
then by the new column's aliases; otherwise by position, like the items of a tuple. Source: compatibility rules, section
6.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import attrs

from ..compatibility import Child, CompatibilityResult, Finding, Flag, Verdict, compose
from ..containers.pieces import keep_null_flag, nulls_untold, outer_result
from ..errors import StateShiftError, add_step
from ..field_pairs import pair_fields
from ..records.fields import StoredField
from ..records.rules import come_back
from ..serializer import CONVERTER, KEEP_OLD_TYPE, incompatible
from .values import Row

if TYPE_CHECKING:
    from ..defaults import Default
    from ..records.fields import RecordField
    from ..serializer import TypeDeserializer, TypeSerializer
    from .serializers import RowSerializer, RowSerializerSnapshot

Convert = Callable[[Any], Any]

_SAY_STORED = "name the stored columns, in their order: row_of(…, stored=(…))"


@attrs.frozen
class _Pair:
    """A new column and the stored column that it takes; `reads` is the position of the stored one."""

    column: RecordField
    place: int
    reads: int


def resolve(new: RowSerializer, old: RowSerializerSnapshot) -> CompatibilityResult[Any]:
    """Judge a stored row for a row serializer."""
    if new.stored_names and len(new.stored_names) != len(old.nested):
        counts = f"{len(new.stored_names)} stored columns are named, and the savepoint has {len(old.nested)}"
        way = "leave `stored=` out once the state is migrated; before that, name every stored column"
        return incompatible(new, old, "ROW-7", counts, way, KEEP_OLD_TYPE)
    if not new.stored_names and len(new.columns) != len(old.nested):
        counts = f"the number of columns differs ({len(old.nested)} stored and {len(new.columns)} declared)"
        if new.names:
            reason = f"{counts}, and the savepoint does not store their names"
            return incompatible(new, old, "ROW-7", reason, _SAY_STORED, KEEP_OLD_TYPE)
        reason = f"{counts}, and unnamed columns are paired by position"
        return incompatible(new, old, "ROW-5", reason, KEEP_OLD_TYPE, f"name the columns (row_of), or {CONVERTER}")
    pairs, findings = _by_name(new, old) if new.stored_names else _by_position(new, old)
    if any(finding.verdict is Verdict.REQUIRES_MIGRATION for finding in findings) and _fits_already(new, old):
        reason = "the stored types already are those of the new columns, so they do not show whether this was done"
        ways = ("leave `stored=` out if the savepoint already has the new columns", KEEP_OLD_TYPE)
        names = ", ".join(new.stored_names), ", ".join(new.names)
        findings.append(Finding("$", "ROW-8", Verdict.REQUIRES_MIGRATION, *names, reason, ways, (Flag.UNVERIFIED,)))
    retired = come_back(new.columns, new.retired, new.retired_types)
    return _composed(new, old, pairs, (*_kinds(new, old), *retired, *findings))


def _fits_already(new: RowSerializer, old: RowSerializerSnapshot) -> bool:
    """Whether the new columns fit the stored ones by position, without a migration."""
    return len(new.columns) == len(old.nested) and all(
        column.serializer.ensure_compatibility(stored).verdict < Verdict.REQUIRES_MIGRATION
        for column, stored in zip(new.columns, old.nested, strict=True)
    )


def _by_position(new: RowSerializer, old: RowSerializerSnapshot) -> tuple[list[_Pair], list[Finding]]:
    """Pair columns by position: ROW-5, and ROW-6 and ROW-7 if the new columns have names."""
    pairs = [_Pair(column, place, place) for place, column in enumerate(new.columns)]
    if not new.names or new.names == old.names:
        return pairs, []
    moved = [name for place, name in enumerate(old.names) if name in new.names and new.names[place] != name]
    if moved:
        reason = "savepoints do not store names of columns, so they are paired by position: values would be swapped"
        ways = (f"{_SAY_STORED}, and migrate", "keep the order of the columns")
        order = ", ".join(old.names), ", ".join(new.names)
        return pairs, [Finding("$", "ROW-6", Verdict.INCOMPATIBLE, *order, reason, ways)]
    reason = "the savepoint does not store the names of the columns, so they are paired by position"
    names = ", ".join(new.names)
    finding = Finding(
        "$", "ROW-7", Verdict.COMPATIBLE, old.describe(), names, reason,
        (f"if their order was different, {_SAY_STORED}",), (Flag.UNVERIFIED,),
    )  # fmt: skip
    return pairs, [finding]


def _by_name(new: RowSerializer, old: RowSerializerSnapshot) -> tuple[list[_Pair], list[Finding]]:
    """Pair columns by name: ROW-2 to ROW-4."""
    stored = [StoredField(name, child) for name, child in zip(new.stored_names, old.nested, strict=True)]
    pairing = pair_fields(new.columns, stored)
    findings = []
    for gone in pairing.removed:
        flags = (f"{Flag.DROPS}:$.{gone.name}",)
        ways: tuple[str, ...] = ("migrate the state: the value is dropped", f"keep the column {gone.name!r}")
        reason = "the column is gone; its stored value is dropped"
        findings.append(
            Finding(f"$.{gone.name}", "ROW-4", Verdict.REQUIRES_MIGRATION, gone.describe(), "", reason, ways, flags)
        )
    for added in pairing.added:
        verdict, reason = Verdict.INCOMPATIBLE, "the column is new and has no default; stored rows have no value for it"
        ways = ("give it a default in the class of the columns", CONVERTER)
        if added.default is not None:
            verdict = Verdict.REQUIRES_MIGRATION
            reason = f"the column is new; stored rows get {added.default.title} {added.default.describe()}"
            ways = ("migrate the state: the default is filled in",)
        findings.append(Finding(f"$.{added.name}", "ROW-3", verdict, "", added.describe(), reason, ways))
    places = {column.name: place for place, column in enumerate(new.columns)}
    reads = {name: place for place, name in enumerate(new.stored_names)}
    pairs = [_Pair(column, places[column.name], reads[was.name]) for column, was in pairing.paired]
    if not pairing.added and not pairing.removed and pairing.stored_order != list(new.names):
        reason = "the columns are in another order; snapshots do not store it, and Flink pairs columns by position"
        ways = ("migrate the state: the columns are written in their new order", "keep the order of the columns")
        order = ", ".join(new.stored_names), ", ".join(new.names)
        findings.append(Finding("$", "ROW-2", Verdict.REQUIRES_MIGRATION, *order, reason, ways))
    return pairs, findings


def _kinds(new: RowSerializer, old: RowSerializerSnapshot) -> Iterator[Finding]:
    """Check ROW-1: rows from before Flink 1.11 have no kind; Flink's RowSerializerSnapshot migrates them as well."""
    if new.supports_row_kind == old.supports_row_kind:
        return
    kinds = ("without row kinds", "with row kinds")
    words = kinds[old.supports_row_kind], kinds[new.supports_row_kind]
    if new.supports_row_kind:
        verdict, reason = Verdict.REQUIRES_MIGRATION, "stored rows have no kind; they become INSERT"
        yield Finding("$", "ROW-1", verdict, *words, reason, ("migrate the state: each row gets its kind",))
        return
    reason = "stored rows have a kind, which is kept"
    yield Finding("$", "ROW-1", Verdict.COMPATIBLE_AFTER_RECONFIGURATION, *words, reason)


def _composed(
    new: RowSerializer, old: RowSerializerSnapshot, pairs: list[_Pair], findings: tuple[Finding, ...]
) -> CompatibilityResult[Any]:
    children = []
    for pair in pairs:
        bare, stored = f".{pair.column.name}" if pair.column.name else f"({pair.place})", old.nested[pair.reads]
        serializer, kept = keep_null_flag(pair.column.serializer, stored, bare, nullable=pair.column.optional)
        findings += kept + nulls_untold(serializer, stored, bare, nullable=pair.column.optional)
        step = attrs.evolve(pair.column, serializer=serializer).step if pair.column.name else bare
        result = serializer.ensure_compatibility(stored)
        children.append(Child(step, serializer, result, stored.restore_serializer))

    def rebuild(nested: list[TypeSerializer[Any]]) -> RowSerializer:
        columns = list(new.columns)
        for pair, serializer in zip(pairs, nested, strict=True):
            columns[pair.place] = attrs.evolve(pair.column, serializer=serializer)
        return attrs.evolve(new, columns=tuple(columns), supports_row_kind=old.supports_row_kind)

    def convert(conversions: list[Convert | None]) -> Convert | None:
        in_place = all(pair.place == pair.reads for pair in pairs) and len(pairs) == len(old.nested)
        if in_place and len(pairs) == len(new.columns) and not any(conversions):
            return None
        taken = {pair.place: (pair.reads, one) for pair, one in zip(pairs, conversions, strict=True)}
        return RowConversion(
            new.names,
            tuple(
                (new.step(place), *taken[place]) if place in taken else (new.step(place), column.default, None)
                for place, column in enumerate(new.columns)
            ),
        )

    def read_with(readers: list[TypeDeserializer[Any]]) -> TypeDeserializer[Any]:
        return old.restore_with({pair.reads: reader for pair, reader in zip(pairs, readers, strict=True)})

    return compose(outer_result(findings), children, rebuild=rebuild, convert=convert, read_with=read_with)


@attrs.frozen
class RowConversion:
    """Converts an old row to a new one: values are moved and converted, defaults filled in; the kind is kept.

    Attributes:
        names: The names of the new columns; by these a serializer with any column order accepts the row.
        columns: For each new column its step, the origin of its value (a position in the old row, or a default), and
            its conversion. Other columns are dropped.
    """

    names: tuple[str, ...]
    columns: tuple[tuple[str, int | Default | None, Convert | None], ...]

    def __call__(self, value: Any) -> Any:
        items = []
        for step, origin, convert in self.columns:
            item = value[origin] if isinstance(origin, int) else origin.make() if origin is not None else None
            if item is not None and convert is not None:
                try:
                    item = convert(item)
                except StateShiftError as error:
                    add_step(error, step)
                    raise
            items.append(item)
        return Row._of(items, self.names, value._kind)  # noqa: SLF001 - public API of Row
