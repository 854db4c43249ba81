"""What becomes of stored rows where compiled plans say what each column is computed from.

Rules SQL-4 to SQL-8, SQL-15, SQL-21 and SQL-22.

The plans decide which stored column a new one takes; here are the types. Flink compares types for equality, so each
other type, length and nullability is a migration, also where the values stay.

    the same value in another type   the time attribute becomes a plain time stamp, NOT NULL becomes nullable,
                                     a longer VARCHAR, a wider integer, a DECIMAL with room for all digits
    inexact                          FLOAT to DOUBLE, a finer time stamp: what the query sends later is not the stored
                                     value, so the plans must allow it
    refused                          everything else

Source: native snapshot notes, 6 to 8.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any

import attrs

from ..compatibility import CompatibilityResult, Finding, Flag, Verdict
from ..errors import ValueNotConvertible, add_step
from ..serializer import KEEP_OLD_TYPE
from ..ways_out import Option, Told, WayOut, by_migration
from .binary_rows import TIMESTAMPS, decimal_of, encode_row, has_reserved_null, rescaled, room_of_null
from .values import RowData

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from .logical_types import LogicalType
    from .serializers import RowDataSerializer, RowDataSerializerSnapshot

_INTEGERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT")
_BITS = {"TINYINT": 8, "SMALLINT": 16, "INTEGER": 32, "BIGINT": 64}
"""Sums of integers go round, as in Java."""
_DIGITS = {"TINYINT": 3, "SMALLINT": 5, "INTEGER": 10, "BIGINT": 19}
_LENGTHS = frozenset({"VARCHAR", "VARBINARY"})
GIVE_TEMPLATE = WayOut("give a savepoint of the new plan, which has them:", (Told(Option.TEMPLATE),))


class WrittenAs(enum.Enum):
    """How a type gets into the new savepoint, in Java serialization."""

    KNOWN = enum.auto()
    """It is stored already, or this release writes it."""
    TEMPLATE = enum.auto()
    """A template has it."""
    NOTHING = enum.auto()
    """It needs objects of Java that nothing at hand has."""


@attrs.frozen
class Filled:
    """A sum that another aggregate has kept.

    Attributes:
        total: The position of the stored sum.
        number: That of the stored number of values in it.
    """

    total: int
    number: int

    def value_in(self, row: RowData, begins: Any, of: LogicalType) -> Any:
        """Return the sum in a new type; what it begins with if there is no value in it.

        Raises:
            ValueNotConvertible: There are values, and no sum: it did not fit its type.
        """
        total = row[self.total]
        if not row[self.number]:
            return begins
        if total is None:
            raise ValueNotConvertible("the stored sum is null, although there are values in it: it was too large")
        bits = _BITS.get(of.root)
        return total if bits is None else (total + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)


@attrs.frozen
class RowColumn:
    """A column of new rows, as two plans say it.

    Attributes:
        name: Its name, for people.
        takes: The position of the stored column whose value it takes; None: it is new.
        begins: The value of a new one.
        is_exact: Whether its value must be the one that the query sends later: a row is found by it.
        why: Why a new column may begin so, or why it may not; of one that takes a value, "" or why it takes another's.
        is_refused: Whether it may not begin.
        is_partial: Whether it begins now, where the others go on: it is of what comes after the upgrade alone.
        keeps_null: Whether a null stays one in a type that is NOT NULL: Flink does not look at it in keys of operators,
            which have the types of one of several inputs.
        filled: What gives the value of a new one, if others do; then `begins` is that of no values.
        written: How its type is written.
    """

    name: str
    takes: int | None = None
    begins: Any = None
    is_exact: bool = True
    why: str = ""
    is_refused: bool = False
    is_partial: bool = False
    keeps_null: bool = False
    filled: Filled | None = None
    written: WrittenAs = WrittenAs.KNOWN


@attrs.frozen
class TypeChange:
    """What a value becomes in a new type.

    Attributes:
        convert: Makes the new value of one that is not null; None: it stays as it is.
        is_exact: Whether the query would send just this value for the same input.
        needs_values: Whether a stored null would fail.
    """

    convert: Callable[[Any], Any] | None = None
    is_exact: bool = True
    needs_values: bool = False


def change_of(old: LogicalType, new: LogicalType) -> TypeChange | None:
    """Return what values of a type become in another one; None: there is no such conversion."""
    found = _change(old, new)
    if found is not None and old.is_nullable and not new.is_nullable:
        return attrs.evolve(found, needs_values=True)
    return found


def _change(old: LogicalType, new: LogicalType) -> TypeChange | None:
    if _bare(old) == _bare(new):
        return TypeChange()
    if old.root in _INTEGERS and new.root in _INTEGERS:
        return TypeChange() if _INTEGERS.index(old.root) < _INTEGERS.index(new.root) else None
    if old.root in _INTEGERS and new.root == "DECIMAL":
        fits = _DIGITS[old.root] <= new.parameter("precision") - new.parameter("scale")
        return TypeChange(Scaled(new.parameter("scale"))) if fits else None
    if old.root == "FLOAT" and new.root == "DOUBLE":
        return TypeChange(is_exact=False)
    if old.root != new.root:
        return None
    if old.root in _LENGTHS:
        return TypeChange() if old.parameter("length") <= new.parameter("length") else None
    if old.root == "DECIMAL":
        before, behind = (_whole_digits(new) - _whole_digits(old), new.parameter("scale") - old.parameter("scale"))
        return TypeChange(Scaled(new.parameter("scale"))) if before >= 0 and behind >= 0 else None
    if old.root in TIMESTAMPS:
        finer = new.parameter("precision") - old.parameter("precision")
        return TypeChange(is_exact=finer == 0) if finer >= 0 else None
    return None


def _bare(of: LogicalType) -> LogicalType:
    """Return a type without what changes no value: whether it is nullable, and whether it is a time attribute."""
    parameters = tuple((name, value) for name, value in of.parameters if name != "kind")
    return attrs.evolve(of, is_nullable=True, parameters=parameters)


def _whole_digits(of: LogicalType) -> int:
    return of.parameter("precision") - of.parameter("scale")


@attrs.frozen
class Scaled:
    """Write a number with another scale, which is not smaller than before."""

    scale: int

    def __call__(self, value: Any) -> Any:
        return decimal_of(rescaled(value, self.scale), self.scale)


@attrs.frozen
class RowChange:
    """Makes a new row of a stored one; its kind is kept, and so is the form of a null that generated code wrote.

    Attributes:
        columns: The new columns: a name, the position that it takes or None, what it begins with, and its conversion.
        types: The stored types, and the new ones.
    """

    columns: tuple[tuple[str, int | None, Any, Callable[[Any], Any] | None, bool], ...]
    types: tuple[tuple[LogicalType, ...], tuple[LogicalType, ...]]

    def __call__(self, value: RowData | None) -> RowData | None:
        if value is None:
            return None
        items, reserved = [], []
        stored = value._stored  # noqa: SLF001 - of this package
        for place, (name, takes, begins, convert, needs_value) in enumerate(self.columns):
            item = begins if takes is None else value[takes]
            if item is None and needs_value:
                error = ValueNotConvertible("the column is null, and the new type is NOT NULL")
                add_step(error, f".{name}")
                raise error
            if takes is not None and item is None and stored and has_reserved_null(stored, self.types[0], takes):
                reserved.append(place)
            items.append(item if item is None or convert is None or takes is None else convert(item))
        row = RowData._read(items, value._kind)  # noqa: SLF001 - of this package
        if reserved:
            row._stored = encode_row(row, self.types[1], reserved)  # noqa: SLF001 - of this package
        return row


@attrs.frozen
class FilledRow:
    """Makes a new row as `RowChange` does, with sums that other aggregates have kept.

    Attributes:
        change: Makes the row.
        filled: The place of each sum, what gives it, and what it is without values.
    """

    change: RowChange
    filled: tuple[tuple[int, Filled, Any], ...]

    def __call__(self, value: RowData | None) -> RowData | None:
        row = self.change(value)
        if row is None or value is None:
            return row
        items, types = list(row), self.change.types[1]
        for place, filled, begins in self.filled:
            items[place] = filled.value_in(value, begins, types[place])
        return RowData._read(items, row._kind)  # noqa: SLF001 - of this package


def resolve_columns(new: RowDataSerializer, old: RowDataSerializerSnapshot) -> CompatibilityResult[RowData]:
    """Judge stored rows for rows whose columns two plans have paired."""
    columns, types = new.columns, new.stored.types
    findings = list(_findings(columns, types, new.stored_columns, old.types))
    verdict = max((one.verdict for one in findings), default=Verdict.COMPATIBLE)
    if verdict is Verdict.INCOMPATIBLE:
        return CompatibilityResult.incompatible(*findings)
    if [one.takes for one in columns] == list(range(len(old.types))) and types == old.types:
        return CompatibilityResult.compatible(*findings)
    taken = [one.takes for one in columns if one.takes is not None]
    if taken != sorted(taken) or not any(one.verdict is Verdict.REQUIRES_MIGRATION for one in findings):
        findings.append(
            Finding(
                "$", "SQL-4", Verdict.REQUIRES_MIGRATION, ", ".join(new.stored_columns),
                ", ".join(one.name for one in columns), "the columns have other places",
                (by_migration("each value goes to its place"), "keep the order of the columns"),
            )
        )  # fmt: skip
    changes = [
        None if one.takes is None else change_of(old.types[one.takes], types[at]) for at, one in enumerate(columns)
    ]
    convert = RowChange(
        tuple(
            (
                one.name,
                one.takes,
                one.begins,
                None if change is None else change.convert,
                change is not None and change.needs_values and not one.keeps_null,
            )
            for one, change in zip(columns, changes, strict=True)
        ),
        (old.types, types),
    )
    filled = tuple((at, one.filled, one.begins) for at, one in enumerate(columns) if one.filled is not None)
    whole = FilledRow(convert, filled) if filled else convert
    return CompatibilityResult.requires_migration(*findings, conversion=whole)


def _findings(
    columns: Sequence[RowColumn],
    types: Sequence[LogicalType],
    stored_names: Sequence[str],
    stored: Sequence[LogicalType],
) -> Iterator[Finding]:
    filled = [one.filled for one in columns if one.filled is not None]
    taken = {one.takes for one in columns}.union(*((one.total, one.number) for one in filled))
    for place, (name, of) in enumerate(zip(stored_names, stored, strict=True)):
        if place not in taken:
            yield Finding(
                f"$.{name}", "SQL-7", Verdict.REQUIRES_MIGRATION, of.describe(), "",
                "the new query does not keep the column; its stored values are dropped",
                (by_migration("the values are dropped"), f"keep the column {name!r} in the query"),
                (Flag.DROPS.of(f"$.{name}"),),
            )  # fmt: skip
    for column, of in zip(columns, types, strict=True):
        if column.written is WrittenAs.TEMPLATE:
            reason = "the type is stored as objects of Java, which are written as in the template"
            ways = by_migration("the type is that of the template"), "keep the columns of the old query"
            yield Finding(f"$.{column.name}", "SQL-22", Verdict.REQUIRES_MIGRATION, "", of.describe(), reason, ways)
        elif column.written is WrittenAs.NOTHING:
            reason = "the type is stored as objects of Java, which this release does not write"
            yield Finding(
                f"$.{column.name}", "SQL-22", Verdict.INCOMPATIBLE, "", of.describe(), reason,
                (GIVE_TEMPLATE, "keep the columns of the old query"),
            )  # fmt: skip
        yield from _begun(column, of) if column.takes is None else _taken(column, stored[column.takes], of)


def _begun(column: RowColumn, of: LogicalType) -> Iterator[Finding]:
    if column.filled is not None:
        yield _filled(column, of)
        return
    is_stored_null = dict(of.parameters).get("kind") == "PROCTIME"  # Flink reads the clock where it needs the time
    refused = column.is_refused or not (of.is_nullable or is_stored_null or column.begins is not None)
    why = (
        column.why if column.is_refused or not refused else "the column is new, and NOT NULL: there is no value for it"
    )
    ways = ("start the query without its state", "keep the columns of the old query") if refused else (
        by_migration("it begins now" if column.is_partial else "stored rows get it"),
    )  # fmt: skip
    verdict = Verdict.INCOMPATIBLE if refused else Verdict.REQUIRES_MIGRATION
    flags = (Flag.PARTIAL,) if column.is_partial and not refused else ()
    rule = "SQL-15" if column.is_partial else "SQL-8"
    yield Finding(f"$.{column.name}", rule, verdict, "", of.describe(), why, ways, flags)


def _filled(column: RowColumn, of: LogicalType) -> Finding:
    ways = by_migration("stored rows get it"), "keep the aggregates of the old query"
    return Finding(f"$.{column.name}", "SQL-21", Verdict.REQUIRES_MIGRATION, "", of.describe(), column.why, ways)


def _taken(column: RowColumn, old: LogicalType, new: LogicalType) -> Iterator[Finding]:
    if column.why:
        yield _filled(column, new)
    if old == new:
        return
    change, words = change_of(old, new), (old.describe(), new.describe())
    path = f"$.{column.name}"
    if change is None:
        reason = "no conversion of these types keeps every value as the query would send it"
        yield Finding(path, "SQL-6", Verdict.INCOMPATIBLE, *words, reason, (KEEP_OLD_TYPE,))
        return
    if not change.is_exact and column.is_exact:
        reason = "the query now sends values that are finer than the stored ones, and finds stored rows by them"
        yield Finding(path, "SQL-6", Verdict.INCOMPATIBLE, *words, reason, (KEEP_OLD_TYPE,))
        return
    if column.is_exact and old.is_nullable and room_of_null(new) > room_of_null(old):
        reason = "rows are found by their bytes, and a null has two forms in the new type: which one is not known"
        yield Finding(path, "SQL-6", Verdict.INCOMPATIBLE, *words, reason, (KEEP_OLD_TYPE,))
        return
    flags = (Flag.MAY_FAIL_PER_VALUE,) if change.needs_values and not column.keeps_null else ()
    reason = "Flink refuses rows of other types; each value is written in the new one"
    ways = by_migration("the values are rewritten"), KEEP_OLD_TYPE
    yield Finding(path, "SQL-5", Verdict.REQUIRES_MIGRATION, *words, reason, ways, flags)
