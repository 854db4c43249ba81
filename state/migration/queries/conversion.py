"""Rows of one struct turned into rows of another, by columns: fields pair by name, and nothing is guessed.

A new field needs a value, null or a constant; a renamed one its old name. Where several fields have one name, as two
sums of an aggregation have, and their number changes, each of them needs one of the two.

    key.k, value.total         a field of the key, of the value
    left.value.n               a field of the rows of the left side of a join
    value.sum#2                the second field that is called `sum`
    value.groupState.list[].x  a field of the elements of an array; {} are the values of a map, {key} its keys
"""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import TYPE_CHECKING, Any, assert_never

import attrs
import numpy as np
import pyarrow as pa

from ....compat.queries.changes import Backfill
from ....compat.queries.problems import by_function, dropped_of, never_merged, problem
from ....serializers.compatibility import Finding, Flag, Verdict
from ....serializers.errors import IncompatibleState, cause_text, shown
from ....serializers.spark_rows.pairing import Becomes
from ....serializers.spark_rows.row_encoder import longs_of, offsets_of, validity_of
from ....serializers.spark_rows.rows import arrow_type, bitmap_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ....compat.queries.changes import Convert, FieldChanges
    from ....serializers.spark_rows.pairing import FieldPair
    from ....serializers.spark_rows.spark_types import SparkType


def not_repeated(column: pa.Array) -> pa.Array:
    """Stand for a function or a DataFrame that is no longer known; the values of the field are not compared."""
    return column


@attrs.define
class Conversion:
    """How rows are converted, and what that changes.

    Attributes:
        convert: The conversion of a column; None: the bytes of the rows stay as they are.
        findings: What changes.
        dropped: The paths of the fields that are dropped.
        problems: Why a value that is said does not fit.
        by_function: The paths of the fields of keys that a function returns.
    """

    convert: Convert | None = None
    findings: list[Finding] = attrs.field(factory=list)
    dropped: list[str] = attrs.field(factory=list)
    problems: list[Finding] = attrs.field(factory=list)
    by_function: list[str] = attrs.field(factory=list)


def conversion(pair: FieldPair, changes: FieldChanges) -> Conversion:
    """Return the conversion of rows.

    Args:
        pair: What becomes of the rows, and of each of their fields.
        changes: What the types do not say.
    """
    found = Conversion(
        dropped=dropped_of(pair),
        by_function=[path for path in by_function(pair) if path.partition(".")[0] == "key"],
    )  # fmt: skip
    found.convert = _Builder(changes, found).convert(pair)
    for one in pair.all():
        if one.becomes is Becomes.DROPPED:
            gone = changed(one.source, "SPK-4", "the field is gone; its stored value is dropped", one.old)
            found.findings.append(attrs.evolve(gone, flags=(Flag.DROPS.of(gone.path),)))
    return found


def changed(
    path: str, rule: str, reason: str, old: SparkType | str | None = None, new: SparkType | str | None = None
) -> Finding:
    """Return the finding on what a migration changes at a path."""
    was, becomes = (one or "" if one is None or isinstance(one, str) else one.describe() for one in (old, new))
    return Finding(f"$.{path}", rule, Verdict.REQUIRES_MIGRATION, was, becomes, reason)


def equal_keys(keys: Conversion, values: SparkType, path: str) -> Iterator[Finding]:
    """Yield what happens if keys become equal that have values which no rule merges."""
    never = ", ".join(never_merged(values, path)) if keys.dropped else ""
    if never:
        told = f"keys may become equal, and no rule merges {never}: if any do, the run stops and publishes nothing"
        yield attrs.evolve(changed(path, "SPK-4", told), flags=(Flag.COLLISION_CHECK,))


@attrs.define
class _Builder:
    changes: FieldChanges
    found: Conversion

    def convert(self, pair: FieldPair) -> Convert | None:
        """Return the conversion of values; None: they are the same in bytes, too."""
        new, path = pair.new, pair.path
        assert new is not None  # noqa: S101 - what is dropped is not converted
        match pair.becomes:
            case Becomes.CARRIED:
                old, _ = pair.types
                if old.word == "struct":
                    return self._structs(pair)
                return self._lists(pair) if old.fields else None
            case Becomes.WIDENED:
                old, _ = pair.types
                self._tell(path, "SPK-5", "each value is written in the new type", old, new)
                kind = arrow_type(new)
                return lambda column: column.cast(kind)
            case Becomes.CONVERTED:
                return self._by_function(new, pair)
            case Becomes.FILLED:
                return self._filled(new, path, is_nullable=pair.is_nullable)
            case (
                Becomes.NEW | Becomes.UNCONVERTED | Becomes.UNSCALED | Becomes.OTHERWISE | Becomes.UNCLEAR
                | Becomes.SEVERAL | Becomes.MISSING
            ):  # fmt: skip
                return None  # a migration asks for more, and converts nothing
            case Becomes.DROPPED:
                raise AssertionError("what is dropped is not converted")
            case _:
                assert_never(pair.becomes)

    def _lists(self, pair: FieldPair) -> Convert | None:
        old, new = pair.types
        parts = [self.convert(one) for one in pair.below]
        if not any(parts):
            return None
        kind = arrow_type(new)

        def convert(column: pa.Array) -> pa.Array:
            offsets = offsets_of(column)
            inner = column.values.slice(int(offsets[0]), int(offsets[-1] - offsets[0]))
            if old.word == "array":
                inner = _applied(parts[0], inner)
            else:
                pairs = [_applied(part, inner.field(index)) for index, part in enumerate(parts)]
                fields = [kind.key_field.with_type(pairs[0].type), kind.item_field.with_type(pairs[1].type)]
                inner = pa.Array.from_buffers(pa.struct(fields), len(inner), [None], children=pairs)
            starts = pa.py_buffer((offsets - offsets[0]).astype(np.int32))
            return pa.Array.from_buffers(kind, len(column), [bitmap_of(validity_of(column)), starts], children=[inner])

        return convert

    def _structs(self, pair: FieldPair) -> Convert | None:
        old, new = pair.types
        fields = [one for one in pair.below if one.becomes is not Becomes.DROPPED]
        parts = []
        for one in fields:
            if one.becomes is not Becomes.CONVERTED and one.is_kept and one.is_said:
                self._tell(one.path, "SPK-2", "the field has another name", one.source, one.path)
            parts.append(self.convert(one))
        if pair.is_same:
            return None
        places = dict(zip(old.names, range(len(old.names)), strict=True))
        sources = [places[pair.stored_name(one)] if one.is_kept else None for one in fields]
        names = new.names
        if pair.is_moved:
            self._tell(pair.path, "SPK-2", "the fields have another order", ", ".join(pair.order()), ", ".join(names))

        def convert(column: pa.Array) -> pa.Array:
            columns = [
                _applied(part, column if index is None else column.field(index))
                for index, part in zip(sources, parts, strict=True)
            ]
            fields = [pa.field(name, one.type) for name, one in zip(names, columns, strict=True)]
            bitmap = bitmap_of(validity_of(column))
            return pa.Array.from_buffers(pa.struct(fields), len(column), [bitmap], children=columns)

        return convert

    def _by_function(self, of: SparkType, pair: FieldPair) -> Convert:
        """Return the call of a user's function, whose result is checked."""
        path, is_nullable = pair.path, pair.is_nullable
        function = self.changes.converters[path]
        name = f"{function.__module__}.{getattr(function, '__qualname__', type(function).__name__)}"
        self._tell(path, "SPK-6", f"it is converted by {name}", pair.old, of)
        kind = arrow_type(of)
        if function is not_repeated:
            return lambda column: pa.nulls(len(column), kind)

        def convert(column: pa.Array) -> pa.Array:
            try:
                made: Any = function(column)
                made = made.combine_chunks() if isinstance(made, pa.ChunkedArray) else made
                if not isinstance(made, pa.Array):
                    raise TypeError(f"it returned {shown(made)}, and not an Arrow array")
                if len(made) != len(column):
                    raise ValueError(f"it returned {len(made):,} values for {len(column):,}")
                if made.null_count and not is_nullable:
                    raise ValueError(f"it returned {made.null_count:,} nulls, and the field may not be null")
                return made.cast(kind)
            except Exception as error:
                raise IncompatibleState(
                    f"{name} failed on the old values: {cause_text(error)}",
                    path=path,
                    advice=f"let the function take an array of {column.type}, and return one of {kind}",
                ) from error

        return convert

    def _filled(self, of: SparkType, path: str, *, is_nullable: bool) -> Convert | None:
        """Return the function that returns as many values of a new field as a column has."""
        value = self.changes.fills[path]
        if isinstance(value, Backfill):
            struct = path.rpartition(".")[0]
            if "." in struct or struct == "key" or struct.endswith(("]", "}")):
                self._refuse(
                    path,
                    "a DataFrame fills whole fields of a value, as value.NAME or VARIABLE.NAME, and not for joins; a"
                    " converter gets the stored struct, of which it can make the field",
                )
            if value.is_complete is False and not is_nullable:
                self._refuse(path, "the field may not be null, so each key needs a row")
            self._tell(path, "SPK-3", f"it is new: from column {value.column!r} of a DataFrame", "", of)
            kind = arrow_type(of)
            return lambda column: pa.nulls(len(column), kind)
        self._tell(path, "SPK-3", f"it is new: {'null' if value is None else shown(value)}", "", of)
        if value is None and not is_nullable and of.word != "void":
            self._refuse(path, "the field may not be null: say a value")
        try:
            one = pa.array([_constant(value, of)], arrow_type(of))
        except (pa.ArrowException, ValueError, TypeError, OverflowError, ArithmeticError) as error:
            self._refuse(path, f"{shown(value)} is no {of.describe()}: {cause_text(error)}")
            return None
        return lambda column: one.take(longs_of(np.zeros(len(column), np.int64)))

    def _tell(self, path: str, rule: str, reason: str, old: SparkType | str | None, new: SparkType | str) -> None:
        self.found.findings.append(changed(path, rule, reason, old, new))

    def _refuse(self, path: str, words: str) -> None:
        self.found.problems.append(problem(path, "SPK-3", words, "say something else of it"))


def _applied(convert: Convert | None, column: pa.Array) -> pa.Array:
    return column if convert is None else convert(column)


def _constant(value: Any, of: SparkType) -> Any:
    """Return a value for Arrow; what JSON has no type for is text there."""
    if of.word == "decimal" and isinstance(value, int | str) and not isinstance(value, bool):
        return Decimal(value)
    if isinstance(value, dict) and set(value) == {"$bytes"}:
        return bytes.fromhex(value["$bytes"])
    if isinstance(value, str) and of.word == "date":
        return dt.date.fromisoformat(value)
    if isinstance(value, str) and of.word.startswith("timestamp"):
        at = dt.datetime.fromisoformat(value)
        if (at.tzinfo is None) is (of.word == "timestamp"):
            raise ValueError("a timestamp needs a time zone" if of.word == "timestamp" else "it has a time zone")
        return at
    if isinstance(value, bool) and of.word != "boolean":
        raise TypeError("it is true or false")
    return value
