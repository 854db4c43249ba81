"""Rows: Flink's Row, with its kind; a snapshot holds types and order of the columns, not their names.

    mask      with row kinds 2 bits of the kind, its low bit first; then a bit a column, 1 for null; zeros to full bytes
    columns   those that are not null, one after the other

The outer part of the snapshot says whether rows have a kind:

    outer version 4   bool: whether the rows' bytes hold a row kind
    outer version 3   nothing: they do
    below             nothing: they do not

Source: format notes 6.1 and 7.

The rules ROW-1 to ROW-8: pairing of stored columns with new ones, and the findings.

Flink does not store the names of columns. Where the job declares the names of the stored columns, columns pair by name,
then by the new column's aliases; otherwise by position, like the items of a tuple. Source: compatibility rules, section
6.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, ClassVar

import attrs

from .. import rewrite
from ..compatibility import Child, CompatibilityResult, Finding, Flag, Verdict, compose
from ..containers.pieces import keep_null_flag, nulls_untold, outer_result
from ..errors import CorruptSavepoint, DeclarationError, StateShiftError, ValueNotConvertible, add_step, shown
from ..field_pairs import gone, pair_fields
from ..records.classes import RecordField, StoredField, field_of
from ..records.rules import come_back
from ..records.serializers import RecordSerializer
from ..registry import register_snapshot
from ..serializer import CONVERTER, DECLARED, KEEP_OLD_TYPE, Counterpart, TypeSerializer, incompatible, unrelated
from ..snapshot import CompositeTypeSerializerSnapshot, TypeSerializerConfigSnapshot
from ..ways_out import Does, WayOut, by_migration
from .values import Row, RowKind

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from ..defaults import Default
    from ..serializer import TypeDeserializer
    from ..views import DataInputView, DataOutputView

if TYPE_CHECKING:
    AnyRow = Row[*tuple[Any, ...]]

_FIRST_WITH_KIND, _FIRST_THAT_SAYS_SO = 3, 4
_KIND_BITS = 2


@attrs.frozen
class RowSerializer(TypeSerializer["AnyRow"]):
    """Flink's RowSerializer: the serializer for `Row[int, str]` and `row_of(…)`.

    Attributes:
        columns: The columns, by position. A column may be null only if it is optional, although the bytes allow it for
            any. Either all columns have names, or none has.
        stored_names: The names of the stored columns, in stored order, which a savepoint lacks (rule ROW-7).
        supports_row_kind: Whether the bytes hold the kind; only rows of Flink before 1.11 have none.
        retired: Names of columns that must not come back.
        retired_types: The types with which they may come back: name, type in words, digest of the type's snapshot.
    """

    columns: tuple[RecordField, ...]
    stored_names: tuple[str, ...] = ()
    supports_row_kind: bool = True
    retired: tuple[str, ...] = attrs.field(default=(), metadata=DECLARED)
    retired_types: tuple[tuple[str, str, str], ...] = attrs.field(default=(), metadata=DECLARED)

    def __attrs_post_init__(self) -> None:
        names = [column.name for column in self.columns]
        if any(names) and (not all(names) or len(set(names)) < len(names)):
            raise DeclarationError(
                f"the columns of a row are called {', '.join(map(repr, names))}",
                advice="give each column a name of its own, or none to any",
            )
        if self.stored_names and names and not any(names):
            raise DeclarationError("stored columns have names, but those of the row do not", advice="name them")

    @classmethod
    def of(cls, fields: Iterable[TypeSerializer[Any]], names: Sequence[str] = ()) -> RowSerializer:
        """Make the serializer of rows whose columns may all be null.

        Args:
            fields: The serializers of the columns.
            names: The names of the columns; without names, columns are identified by position.
        """
        serializers = tuple(fields)
        if names and len(names) != len(serializers):
            raise DeclarationError(f"{len(names)} names are given for {len(serializers)} columns of a row")
        given = names or [""] * len(serializers)
        return cls(tuple(RecordField(name, one, optional=True) for name, one in zip(given, serializers, strict=True)))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns; empty if they have none."""
        return tuple(column.name for column in self.columns if column.name)

    def counterpart(self) -> Counterpart | None:
        """Return a record whose fields are the columns, if these have names; else None (FAM-4)."""
        if not self.names:
            return None
        fields = tuple(sorted(self.columns, key=lambda column: column.name))
        return Counterpart(_AnyRecord("row", fields), _as_it_is, _RowOf(self.names))

    @property
    def leading_bits(self) -> int:
        """Bits of the mask before those of the columns."""
        return _KIND_BITS if self.supports_row_kind else 0

    @property
    def layout(self) -> rewrite.ByteRewrite:
        return rewrite.Masked.kept(tuple(column.serializer.layout for column in self.columns), self.leading_bits)

    def step(self, index: int) -> str:
        """Return the path step to a column: `.name`, or `(i)` if it has no name; with `?` if it is optional.

        Columns without names have no `?`: those of a restored snapshot may all be null, whatever is declared.
        """
        column = self.columns[index]
        return column.step if column.name else f"({index})"

    def serialize(self, value: AnyRow, target: DataOutputView) -> None:
        items = self._items(value)
        mask = self._mask_of_kind(value._kind)  # noqa: SLF001 - public API of Row
        for item in items:
            mask = mask << 1 | (item is None)
        bits = self.leading_bits + len(items)
        target.write((mask << -bits % 8).to_bytes((bits + 7) // 8, "big"))
        for place, (column, item) in enumerate(zip(self.columns, items, strict=True)):
            try:
                if item is None:
                    _check_null(column)
                else:
                    column.serializer.serialize(item, target)
            except StateShiftError as error:
                add_step(error, self.step(place))
                raise

    def _items(self, value: object) -> tuple[Any, ...]:
        """Return the values in the order of the columns: by name if both sides have names."""
        if not isinstance(value, Row):
            raise ValueNotConvertible(f"{shown(value)} is not a Row")
        if len(value) != len(self.columns):
            raise ValueNotConvertible(f"{shown(value)} has {len(value)} columns, but {len(self.columns)} are declared")
        if not value._names or not self.names:  # noqa: SLF001 - public API of Row
            return tuple(value)
        try:
            return tuple(value[name] for name in self.names)
        except KeyError as error:
            raise ValueNotConvertible(f"{shown(value)} has no column {error.args[0]!r}") from None

    def _mask_of_kind(self, kind: RowKind) -> int:
        if self.supports_row_kind:
            return (kind.value & 1) << 1 | kind.value >> 1
        if kind is not RowKind.INSERT:
            raise ValueNotConvertible(
                f"a row of kind {kind.name} cannot be stored here: these rows were first written without kinds",
                advice="store rows of kind INSERT, or handle the others in a converter",
            )
        return 0

    def deserialize(self, source: DataInputView) -> AnyRow:
        start, bits = source.position, self.leading_bits + len(self.columns)
        padding = -bits % 8
        padded = int.from_bytes(source.read_fully((bits + padding) // 8), "big")
        if padded & (1 << padding) - 1:
            raise CorruptSavepoint("the mask of a row has bits beyond its last column", offset=start)
        mask = padded >> padding
        kind = mask >> len(self.columns)
        items: list[Any] = [None] * len(self.columns)
        for place, column in enumerate(self.columns):
            try:
                if mask >> len(items) - 1 - place & 1:
                    _check_null(column)
                else:
                    items[place] = column.serializer.deserialize(source)
            except StateShiftError as error:
                add_step(error, self.step(place))
                raise
        return Row._of(items, self.names, RowKind((kind & 1) << 1 | kind >> 1))  # noqa: SLF001 - public API of Row

    def snapshot_configuration(self) -> TypeSerializerConfigSnapshot[AnyRow]:
        nested = tuple(column.serializer.snapshot_configuration() for column in self.columns)
        return RowSerializerSnapshot(nested, self.supports_row_kind, self.names)

    def ensure_compatibility(self, snapshot: TypeSerializerConfigSnapshot[Any]) -> CompatibilityResult[AnyRow]:
        if not isinstance(snapshot, RowSerializerSnapshot):
            return unrelated(self, snapshot)
        return resolve(self, snapshot)


@attrs.frozen
class _AnyRecord(RecordSerializer[Any]):
    """A record that is identified by its fields alone, because a row has no name."""

    def is_named(self, stored_name: str) -> bool:
        return True


@attrs.frozen
class _RowOf:
    """Converts a record to a row."""

    names: tuple[str, ...]

    def __call__(self, value: Any) -> Any:
        if value is None:
            return None
        items = [field_of(value, name, name) for name in self.names]
        return Row._of(items, self.names, RowKind.INSERT)  # noqa: SLF001 - public API of Row


def _as_it_is(value: Any) -> Any:
    return value


def _check_null(column: RecordField) -> None:
    if not column.optional:
        raise ValueNotConvertible(
            "the column of a row is null, but not declared optional", advice="declare the column optional: … | None"
        )


@register_snapshot
@attrs.define
class RowSerializerSnapshot(CompositeTypeSerializerSnapshot[Any]):
    """Snapshot of `RowSerializer`. It does not say whether nulls are stored, so a restored serializer reads them.

    Attributes:
        nested: The columns, by position.
        supports_row_kind: Whether each row begins with its kind (insert, update, delete). Kept when an older version is
            rewritten at the current one, because it describes the layout of the stored bytes.
        names: The names of the columns, if they are known from the code or a recorded revision of it; they are not
            written.
    """

    snapshot_id: ClassVar[str] = "org.apache.flink.api.java.typeutils.runtime.RowSerializer$RowSerializerSnapshot"
    kind: ClassVar[str] = "row"
    java_class: ClassVar[str] = "org.apache.flink.types.Row"
    outer_version: ClassVar[int] = 4

    nested: tuple[TypeSerializerConfigSnapshot[Any], ...] = ()
    supports_row_kind: bool = True
    names: tuple[str, ...] = attrs.field(default=(), eq=False, repr=False)

    def get_compatible_outer_versions(self) -> Collection[int]:
        return (1, 2, 3, 4)

    def write_outer_snapshot(self, target: DataOutputView) -> None:
        target.write_boolean(self.supports_row_kind)

    def read_outer_snapshot(self, read_outer_version: int, source: DataInputView) -> None:
        if read_outer_version >= _FIRST_THAT_SAYS_SO:
            self.supports_row_kind = source.read_boolean()
        else:
            self.supports_row_kind = read_outer_version >= _FIRST_WITH_KIND

    def restore_serializer(self) -> TypeSerializer[Any]:
        return self.restore_with({})

    def restore_with(self, readers: dict[int, TypeDeserializer[Any]]) -> TypeSerializer[Any]:
        """Make a reader of these rows, with other readers for some columns; the rest is restored."""
        columns = []
        for index in range(len(self.nested)):
            reader: Any = readers[index] if index in readers else self.restore_nested(index)
            columns.append(RecordField(self.names[index] if self.names else "", reader, optional=True))
        return RowSerializer(tuple(columns), supports_row_kind=self.supports_row_kind)


Convert = Callable[[Any], Any]

_NAME_COLUMNS = WayOut(f"name the columns (row_of), or {CONVERTER.words}", does=Does.CONVERT)
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
        return incompatible(
            new,
            old,
            "ROW-5",
            reason,
            KEEP_OLD_TYPE,
            _NAME_COLUMNS,
        )
    pairs, findings = _by_name(new, old) if new.stored_names else _by_position(new, old)
    if any(finding.verdict is Verdict.REQUIRES_MIGRATION for finding in findings) and _fits_already(new, old):
        reason = "the stored types already are those of the new columns, so they do not show whether this was done"
        ways = ("leave `stored=` out if the savepoint already has the new columns", KEEP_OLD_TYPE)
        names = ", ".join(new.stored_names), ", ".join(new.names)
        findings.append(Finding("$", "ROW-8", Verdict.REQUIRES_MIGRATION, *names, reason, ways, (Flag.UNVERIFIED,)))
    retired = come_back(new.columns, new.retired, new.retired_types)
    return _composed(new, old, pairs, (*_kinds(new, old), *retired, *findings))


def by_told_names(new: TypeSerializer[Any], old: TypeSerializerConfigSnapshot[Any]) -> TypeSerializer[Any]:
    """Return a serializer that pairs the columns of a row by the names that the job which wrote them is said to have.

    It does where their order or number has changed. Elsewhere a new name is that of the column in this position.

    Args:
        new: The serializer; of another type than a row it is returned as it is.
        old: The stored row, as that job describes it.
    """
    if not isinstance(new, RowSerializer) or not isinstance(old, RowSerializerSnapshot):
        return new
    if not new.names or not old.names or new.stored_names:
        return new
    stays = len(new.names) == len(old.names) and all(
        new.names[place] == name for place, name in enumerate(old.names) if name in new.names
    )
    return new if stays else attrs.evolve(new, stored_names=old.names)


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
    findings = [gone("ROW-4", f"$.{one.name}", one.name, one.describe(), what="column") for one in pairing.removed]
    for added in pairing.added:
        verdict, reason = Verdict.INCOMPATIBLE, "the column is new and has no default; stored rows have no value for it"
        ways: tuple[WayOut | str, ...] = ("give it a default in the class of the columns", CONVERTER)
        if added.default is not None:
            verdict = Verdict.REQUIRES_MIGRATION
            reason = f"the column is new; stored rows get {added.default.title} {added.default.describe()}"
            ways = (by_migration("the default is filled in"),)
        findings.append(Finding(f"$.{added.name}", "ROW-3", verdict, "", added.describe(), reason, ways))
    places = {column.name: place for place, column in enumerate(new.columns)}
    reads = {name: place for place, name in enumerate(new.stored_names)}
    pairs = [_Pair(column, places[column.name], reads[was.name]) for column, was in pairing.paired]
    if not pairing.added and not pairing.removed and pairing.stored_order != list(new.names):
        reason = "the columns are in another order; snapshots do not store it, and Flink pairs columns by position"
        ways = (by_migration("the columns are written in their new order"), "keep the order of the columns")
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
        yield Finding("$", "ROW-1", verdict, *words, reason, (by_migration("each row gets its kind"),))
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
        is_renamed = bool(old.names and new.names) and old.names != new.names
        if in_place and len(pairs) == len(new.columns) and not is_renamed and not any(conversions):
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
