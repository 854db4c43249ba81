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
from collections import Counter
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
import pyarrow as pa

from ....compat.fingerprint import fingerprint
from ....serializers.errors import IncompatibleState, cause_text, shown
from ..columns import BY_NAME, UNSCALED, Reading
from ..rows import arrow_type, bitmap_of
from ..rules import UNCONVERTED, holds_all
from .backfill import Backfill
from .row_encoder import longs_of, offsets_of, validity_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from ..spark_types import SparkField, SparkType

    Convert = Callable[[pa.Array], pa.Array]


@attrs.frozen
class FieldChanges:
    """What types do not say of the changes of an operator's rows.

    Attributes:
        renames: The old paths of fields by their new paths.
        fills: The values of new fields by path; None is null, and a `Backfill` has them by key.
        merges: How the values of keys that become equal are merged: `sum`, `min` or `max` by path.
        ttls: Times to live of what variables have stored, by variable: milliseconds from the last committed batch, or
            with a sign, by how much later or earlier than now each entry expires.
        drops: Variables that the new query does not have, and whose entries are dropped.
        converters: Functions by the path of a new field: each takes the old values of the field as an Arrow array, and
            returns as many new ones. Of a field without an old one it takes the old struct that the field is to be in.
    """

    renames: Mapping[str, str] = attrs.field(factory=dict)
    fills: Mapping[str, Any] = attrs.field(factory=dict)
    merges: Mapping[str, str] = attrs.field(factory=dict)
    ttls: Mapping[str, str] = attrs.field(factory=dict)
    converters: Mapping[str, Convert] = attrs.field(factory=dict)
    drops: Collection[str] = ()

    def digest(self) -> list[Any]:
        """Return what tells these changes from others, also in another process."""
        functions = {path: fingerprint(function) for path, function in self.converters.items()}
        said = (self.renames, self.fills, self.merges, self.ttls, functions, dict.fromkeys(self.drops))
        return [repr(sorted(one.items())) for one in said]

    @property
    def backfills(self) -> Mapping[str, Backfill]:
        """The fields of which a DataFrame has the values."""
        return {path: value for path, value in self.fills.items() if isinstance(value, Backfill)}

    def paths(self) -> set[str]:
        """Return the paths of all fields of which something is said."""
        return {*self.renames, *self.fills, *self.merges, *self.converters}


def not_repeated(column: pa.Array) -> pa.Array:
    """Stand for a function or a DataFrame that is not known any more: nobody compares what the field has."""
    return column


@attrs.define
class Conversion:
    """How rows are converted, and what that changes.

    Attributes:
        convert: The conversion of a column; None: the bytes of the rows stay as they are.
        notes: What changes, a line each.
        dropped: The paths of the fields that are dropped.
        problems: Why it cannot be done, a line each.
        added: The paths of the fields that are new.
        by_function: The paths of the fields of keys that a function returns.
        paths: The paths of all fields of the new type.
    """

    convert: Convert | None = None
    notes: list[str] = attrs.field(factory=list)
    dropped: list[str] = attrs.field(factory=list)
    problems: list[str] = attrs.field(factory=list)
    added: list[str] = attrs.field(factory=list)
    by_function: list[str] = attrs.field(factory=list)
    paths: set[str] = attrs.field(factory=set)


def conversion(
    old: SparkType,
    new: SparkType,
    path: str,
    changes: FieldChanges,
    *,
    old_path: str | None = None,
    reading: Reading = BY_NAME,
) -> Conversion:
    """Return the conversion of rows.

    Args:
        old: The stored type, a struct.
        new: The new type, a struct.
        path: What the paths of fields begin with: `key`, `value`, or the latter behind the name of a side; or the name
            of a variable, with `[]`, `{}` or `{key}` behind it.
        changes: What the types do not say.
        old_path: The path that the rows had before; None: the same.
        reading: Whether names say which stored field is which.
    """
    found = Conversion()
    builder = _Builder(changes, found, reading)
    if path in changes.converters:
        found.paths.add(path)
        found.convert = builder.by_function(new, path)
    else:
        found.convert = builder.convert(old, new, path if old_path is None else old_path, path)
    return found


@attrs.define
class _Builder:
    changes: FieldChanges
    found: Conversion
    reading: Reading

    def convert(self, old: SparkType, new: SparkType, old_path: str, path: str) -> Convert | None:
        """Return the conversion of values; None: they are the same in bytes, too."""
        if old.word == new.word == "struct":
            return self._structs(old, new, old_path, path)
        if old.word == new.word and old.fields:
            return self._lists(old, new, old_path, path)
        if (old.word, old.precision, old.scale) == (new.word, new.precision, new.scale):
            return None
        if not holds_all(new, old):
            words = f"{old.describe()} -> {new.describe()}"
            self.found.problems.append(f"{path}: {words}: {UNCONVERTED}")
            return None
        if self.reading.is_unscaled(path, old, new):
            self.found.problems.append(f"{path}: {old.describe()} -> {new.describe()}: {UNSCALED}")
            return None
        self.found.notes.append(f"{path}: {old.describe()} -> {new.describe()}")
        kind = arrow_type(new)
        return lambda column: column.cast(kind)

    def _lists(self, old: SparkType, new: SparkType, old_path: str, path: str) -> Convert | None:
        steps = ("[]",) if old.word == "array" else ("{key}", "{}")
        parts = [
            self.convert(was.type, now.type, old_path + step, path + step)
            for step, was, now in zip(steps, old.fields, new.fields, strict=True)
        ]
        if lost := [one for one in self.found.dropped if one.startswith(f"{old_path}{{key}}")]:
            self.found.problems.append(f"{path}: keys of one map could become equal without {', '.join(lost)}")
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

    def _structs(self, old: SparkType, new: SparkType, old_path: str, path: str) -> Convert | None:
        stored = dict(zip(old.names, range(len(old.fields)), strict=True))
        sources: list[int | None] = []
        parts: list[Convert | None] = []
        taken = {self.changes.renames[one] for name in new.names if (one := f"{path}.{name}") in self.changes.renames}
        ambiguous = _ambiguous(old, new)
        unclear = self.reading.unclear(old, new, path)
        asked = set()
        for name, field in zip(new.names, new.fields, strict=True):
            below = f"{path}.{name}"
            self.found.paths.add(below)
            said = self.changes.renames.get(below)
            is_new = below in self.changes.fills
            if said is None and not is_new and below not in self.changes.converters and field.name in ambiguous:
                self.found.problems.append(
                    f"{below}: several fields are called {field.name!r}, and their number changes: say which one it"
                    " was, or what it begins with"
                )
                continue
            if said is None and not is_new and below not in self.changes.converters and name in unclear:
                at = new.names.index(name)
                places = f", and of {old.names[at]!r} by place" if at < len(old.names) else ""
                asked.add(name)
                self.found.problems.append(
                    f"{below}: it is the new place of {name!r} by name{places}: say which field it was"
                )
                continue
            was = old_path + below[len(path) :] if said is None else said
            index = stored.get(was.removeprefix(f"{old_path}.")) if was.startswith(f"{old_path}.") else None
            if is_new or (said is None and was in taken):
                index = None
            if said is not None and index is None:
                self.found.problems.append(f"{below}: there is no field {said!r} that it could be renamed from")
                continue
            sources.append(index)
            if below in self.changes.converters:
                parts.append(self.by_function(field.type, below, is_nullable=field.is_nullable))
                continue
            if index is None:
                parts.append(self._filled(field, below))
                continue
            if said is not None and said != below:
                self.found.notes.append(f"{said} is called {below} now")
            parts.append(self.convert(old.fields[index].type, field.type, was, below))
        gone = [name for name, index in stored.items() if index not in sources and name not in asked]
        self.found.dropped += (f"{old_path}.{name}" for name in gone)
        if sources == list(range(len(old.fields))) and not any(parts):
            return None
        kept = [index for index in sources if index is not None]
        if kept != sorted(kept):
            self.found.notes.append(f"{path}: the order of fields is {', '.join(new.names)}")
        names = new.names

        def convert(column: pa.Array) -> pa.Array:
            columns = [
                _applied(part, column if index is None else column.field(index))
                for index, part in zip(sources, parts, strict=True)
            ]
            fields = [pa.field(name, one.type) for name, one in zip(names, columns, strict=True)]
            bitmap = bitmap_of(validity_of(column))
            return pa.Array.from_buffers(pa.struct(fields), len(column), [bitmap], children=columns)

        return convert

    def by_function(self, of: SparkType, path: str, *, is_nullable: bool = False) -> Convert:
        """Return the call of a user's function, whose result is checked."""
        function = self.changes.converters[path]
        if "{key}" in path:
            self.found.problems.append(f"{path}: keys of one map could become equal by a function")
        elif path.partition(".")[0] == "key":
            self.found.by_function.append(path)
        name = f"{function.__module__}.{getattr(function, '__qualname__', type(function).__name__)}"
        self.found.notes.append(f"{path} is converted by {name}")
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

    def _filled(self, field: SparkField, path: str) -> Convert | None:
        """Return the function that returns as many values of a new field as a column has."""
        self.found.added.append(path)
        if path not in self.changes.fills:
            self.found.problems.append(
                f"{path}: the field is new: say what stored rows have in it, or which field it was"
            )
            return None
        value = self.changes.fills[path]
        if isinstance(value, Backfill):
            struct = path.rpartition(".")[0]
            if "." in struct or struct == "key" or struct.endswith(("]", "}")):
                self.found.problems.append(
                    f"{path}: a DataFrame fills whole fields of a value, as value.NAME or VARIABLE.NAME, and"
                    " not for joins; a converter gets the stored struct, of which it can make the field"
                )
            if value.is_complete is False and not field.is_nullable:
                self.found.problems.append(f"{path}: the field may not be null, so each key needs a row")
            self.found.notes.append(f"{path} is new: from column {value.column!r} of a DataFrame")
            kind = arrow_type(field.type)
            return lambda column: pa.nulls(len(column), kind)
        self.found.notes.append(f"{path} is new: {'null' if value is None else shown(value)}")
        if value is None and not field.is_nullable and field.type.word != "void":
            self.found.problems.append(f"{path}: the field may not be null: say a value")
        try:
            one = pa.array([_constant(value, field.type)], arrow_type(field.type))
        except (pa.ArrowException, ValueError, TypeError, OverflowError, ArithmeticError) as error:
            self.found.problems.append(f"{path}: {shown(value)} is no {field.type.describe()}: {cause_text(error)}")
            return None
        return lambda column: one.take(longs_of(np.zeros(len(column), np.int64)))


def _applied(convert: Convert | None, column: pa.Array) -> pa.Array:
    return column if convert is None else convert(column)


def _ambiguous(old: SparkType, new: SparkType) -> set[str]:
    """Return the names that several fields have, on either side, and not as many on both."""
    was, now = (Counter(field.name for field in of.fields) for of in (old, new))
    return {name for name in now if was[name] and was[name] != now[name]}


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
