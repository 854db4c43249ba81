"""The values of columns: how many are null, the smallest and largest, the most frequent constants and classes.

Columns come as record batches, as a data frame of the state has them; nothing is done for a single value.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...compat.profiles import Ages, FieldProfile, Frequent
from ...serializers.columns.bytes_at import numbers_at
from ...serializers.columns.codec import CounterpartCodec, is_array, is_binary, is_text, spark_name
from ...serializers.containers.columns import TtlCodec
from ...serializers.enums.columns import EnumCodec
from ...serializers.records.columns import RecordCodec
from .distributions import DistributionTally

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...serializers.columns.bytes_at import Places
    from ...serializers.columns.codec import ColumnCodec

MOST_FREQUENT = 10
MOST_SHOWN = 256
"""How many characters or bytes of a smallest or largest value are kept."""
_CLASS = "class"
_WORD, _FEW = 8, 64
_MASKS = np.array([((1 << 64) - 1) ^ ((1 << 8 * (_WORD - size)) - 1) for size in range(_WORD + 1)], np.uint64)
_MOST_AGE = np.uint64((1 << 63) - 1)
_TWO_FORMS = "values of this field came in two forms, as some do not fit a column"


@attrs.define
class AgesTally:
    """Counts the ages of stamped values.

    Attributes:
        reference_ms: The time to which ages are counted.
        time_to_live_ms: How long a value lives; None: it is not known.
        is_left: Whether stamps are the times at which values expire.
        ages: The ages, or the times left.
        ahead: The number of others.
        expired: The number of values that have expired.
    """

    reference_ms: int
    time_to_live_ms: int | None = None
    is_left: bool = False
    ages: DistributionTally = attrs.field(factory=DistributionTally)
    ahead: int = 0
    expired: int = 0

    def add(self, stamps: pa.Array) -> None:
        """Add stamps, in milliseconds since 1970."""
        numbers = stamps.drop_null().to_numpy(zero_copy_only=False)
        is_past = numbers <= self.reference_ms
        is_counted = ~is_past if self.is_left else is_past
        # As unsigned numbers, differences of any two stamps fit; those above 2^63 are cut there.
        now, stamped = np.int64(self.reference_ms).astype(np.uint64), numbers[is_counted].astype(np.uint64)
        ages = np.minimum(stamped - now if self.is_left else now - stamped, _MOST_AGE).astype(np.int64)
        self.ages.add(ages)
        self.ahead += int(len(numbers) - is_counted.sum())
        if self.is_left:
            self.expired += int(is_past.sum())
        elif self.time_to_live_ms is not None:
            self.expired += int((ages >= self.time_to_live_ms).sum())

    def merge(self, other: AgesTally) -> None:
        """Add what another tally has counted."""
        self.ages.merge(other.ages)
        self.ahead += other.ahead
        self.expired += other.expired

    def result(self) -> Ages:
        """Return the ages."""
        is_known = self.is_left or self.time_to_live_ms is not None
        ttl, expired = self.time_to_live_ms, self.expired if is_known else None
        return Ages(self.ages.result(), self.is_left, self.ahead, ttl, expired)


@attrs.define
class FieldTally:
    """What is known of one field.

    Attributes:
        kind: The type of its column.
        valid: The number of values that are not null.
        nulls: The number of nulls.
        smallest, largest: The smallest and largest value; None: there is none yet.
        counts: How often each constant occurs, if it has constants.
        lengths: The lengths of lists and maps.
        is_mixed: Whether its columns had several types, so that values cannot be compared.
        classes: The path of the classes, and those that have the field; None: all records have it.
    """

    kind: pa.DataType
    valid: int = 0
    nulls: int = 0
    smallest: Any = None
    largest: Any = None
    counts: Counter[Any] | None = None
    lengths: DistributionTally | None = None
    is_mixed: bool = False
    classes: tuple[str, frozenset[str]] | None = None

    def add_range(self, smallest: Any, largest: Any) -> None:
        """Take smallest and largest of some values."""
        if smallest is None or self.is_mixed:
            return
        self.smallest = smallest if self.smallest is None or smallest < self.smallest else self.smallest
        self.largest = largest if self.largest is None or largest > self.largest else self.largest

    def merge(self, other: FieldTally) -> None:
        """Add what another tally has counted."""
        self.valid += other.valid
        self.nulls += other.nulls
        if other.counts is not None:
            self.counts = (self.counts or Counter()) + other.counts
        if other.lengths is not None:
            self.lengths = self.lengths or DistributionTally()
            self.lengths.merge(other.lengths)
        if other.is_mixed or other.kind != self.kind:
            self.mix()
        self.add_range(other.smallest, other.largest)

    def mix(self) -> None:
        """Forget the smallest and the largest value: values of several types have none."""
        self.is_mixed, self.smallest, self.largest = True, None, None


@attrs.define
class FieldTallies:
    """The fields of the entries of one state, and the ages of its values.

    Attributes:
        ages: Counts the ages of its values, if they have stamps.
        fields: What is known of each field, by path.
    """

    ages: AgesTally
    fields: dict[str, FieldTally] = attrs.field(factory=dict)
    has_ages: bool = False
    _roles: dict[str, dict[str, _Role]] = attrs.field(factory=dict)

    def add(self, name: str, column: pa.Array, codec: ColumnCodec | None = None) -> None:
        """Add a column of values; `codec` decoded them."""
        if name not in self._roles:
            self._roles[name] = dict(_roles(codec, name)) if codec is not None else {}
        self._add(name, column, self._roles[name])

    def _add(self, path: str, column: pa.Array, roles: dict[str, _Role], above: int = 0) -> None:
        """Add the values of a field; `above` of them are null because a record around them is."""
        kind = column.type
        known = self.fields.get(path)
        if known is None:
            known = self.fields[path] = FieldTally(kind)
        elif known.kind != kind:
            known.mix()
        nulls = column.null_count
        known.valid += len(column) - nulls
        known.nulls += nulls - above
        role = roles.get(path, _PLAIN)
        known.classes = role.classes
        if pa.types.is_struct(kind):
            if role.is_stamped:
                self.has_ages = True
                self.ages.add(_children(column)[0])
            for name, child in zip(_names(kind), _children(column), strict=True):
                self._add(f"{path}.{name}", child, roles, nulls)
        elif is_array(kind) or pa.types.is_map(kind):
            self._add_items(path, known, column, roles)
        elif role.is_constant or pa.types.is_boolean(kind):
            self._add_constants(known, column)
        elif _has_order(kind):
            known.add_range(*_range(column))

    def _add_items(self, path: str, known: FieldTally, column: pa.Array, roles: dict[str, _Role]) -> None:
        known.lengths = known.lengths or DistributionTally()
        known.lengths.add(_lengths(column))
        if pa.types.is_map(column.type):
            self._add(f"{path}{{key}}", column.keys, roles)
            self._add(f"{path}{{}}", column.items, roles)
        else:
            self._add(f"{path}[]", column.flatten(), roles)

    @staticmethod
    def _add_constants(known: FieldTally, column: pa.Array) -> None:
        found = pc.value_counts(column.drop_null())
        values, counts = (found.field(name).to_pylist() for name in ("values", "counts"))
        known.counts = known.counts if known.counts is not None else Counter()
        known.counts.update(dict(zip(values, counts, strict=True)))

    def merge(self, other: FieldTallies) -> None:
        """Add what another tally has counted."""
        self.ages.merge(other.ages)
        self.has_ages |= other.has_ages
        for path, field in other.fields.items():
            if path in self.fields:
                self.fields[path].merge(field)
            else:
                self.fields[path] = field

    def result(self) -> tuple[FieldProfile, ...]:
        """Return the fields in the order of the columns."""
        return tuple(self._field(path, field) for path, field in self.fields.items())

    def _field(self, path: str, field: FieldTally) -> FieldProfile:
        count = field.valid + field.nulls
        if field.classes is not None:  # it is null in records of other classes, which do not have it
            of, owners = field.classes
            counts = self.fields[of].counts or Counter[Any]()
            count = sum(counts[name] for name in owners)
        frequent = field.counts.most_common(MOST_FREQUENT) if field.counts else []
        smallest, largest = (_plain(value, field.kind) for value in (field.smallest, field.largest))
        return FieldProfile(
            path,
            spark_name(field.kind),
            count,
            count - field.valid,
            smallest,
            largest,
            tuple(Frequent(value, times) for value, times in frequent),
            field.valid - sum(times for _, times in frequent) if field.counts is not None else 0,
            None if field.lengths is None else field.lengths.result(),
            _TWO_FORMS if field.is_mixed else "",
        )


@attrs.frozen
class _Role:
    """What the type of a field says beside its column.

    Attributes:
        is_constant: Whether it is an enum, or the class of a record.
        is_stamped: Whether it is a value with the time of its last access.
        classes: The path of the classes, and those that have the field; None: all records have it.
    """

    is_constant: bool = False
    is_stamped: bool = False
    classes: tuple[str, frozenset[str]] | None = None


_PLAIN = _Role()


def _roles(codec: ColumnCodec, path: str) -> Iterator[tuple[str, _Role]]:
    """Yield the roles of fields by path; those without one are left out."""
    while isinstance(codec, CounterpartCodec):
        codec = codec.own
    if isinstance(codec, RecordCodec) and codec.others:
        yield from _roles_of_classes(codec, path)
        return
    if isinstance(codec, EnumCodec | TtlCodec):
        yield path, _Role(isinstance(codec, EnumCodec), isinstance(codec, TtlCodec))
    for part, _, inner in codec.within(codec.kind, path):
        yield from _roles(part, inner)


def _roles_of_classes(codec: RecordCodec, path: str) -> Iterator[tuple[str, _Role]]:
    of = f"{path}.{_CLASS}"
    yield of, _Role(is_constant=True)
    classes = {codec.name: {part.name: part for part in codec.parts}}
    classes |= {name: dict(parts) for name, parts in codec.others}
    for column in dict.fromkeys(column for parts in classes.values() for column in parts):
        owners = {name: parts[column] for name, parts in classes.items() if column in parts}
        at = f"{path}.{column}"
        inner = dict(_roles(next(iter(owners.values())).codec, at))
        inner[at] = attrs.evolve(inner.get(at, _PLAIN), classes=(of, frozenset(owners)))
        yield from inner.items()


def _names(kind: pa.StructType) -> Iterator[str]:
    """Yield the names of the fields; of two of one name, which a query of Spark may have, the second has a number."""
    seen: Counter[str] = Counter()
    for field in kind:
        seen[field.name] += 1
        yield field.name if seen[field.name] == 1 else f"{field.name}#{seen[field.name]}"


def _children(column: pa.StructArray) -> list[pa.Array]:
    """Return the fields of a struct, null where the struct is."""
    if column.null_count:
        return column.flatten()  # type: ignore[no-any-return]
    return [column.field(at) for at in range(column.type.num_fields)]


def _lengths(column: pa.Array) -> Places:
    if not pa.types.is_map(column.type):
        return pc.list_value_length(column.drop_null()).to_numpy().astype(np.int64)  # type: ignore[no-any-return]
    lengths: Places = np.diff(column.offsets.to_numpy().astype(np.int64))
    return lengths[pc.is_valid(column).to_numpy(zero_copy_only=False)] if column.null_count else lengths


def _has_order(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_decimal(kind)
        or (pa.types.is_temporal(kind) and not pa.types.is_interval(kind))
        or is_text(kind)
        or is_binary(kind)
    )


def _range(column: pa.Array) -> tuple[Any, Any]:
    """Return the smallest and largest value as Python can compare it: times as numbers."""
    kind = column.type
    if pa.types.is_temporal(kind):
        column = column.cast(pa.int32() if kind.bit_width == 32 else pa.int64())
    elif is_text(kind) or is_binary(kind):
        column = _extremes(column)
        if is_text(kind):  # Spark accepts text that is not UTF-8
            column = column.cast(pa.large_binary())
    found = pc.min_max(column)
    smallest, largest = found["min"].as_py(), found["max"].as_py()
    return (None, None) if smallest != smallest else (smallest, largest)  # noqa: PLR0124 - all are NaN


def _extremes(column: pa.Array) -> pa.Array:
    """Return the few texts among which the smallest and largest are: those whose first 8 bytes are."""
    column = column.drop_null() if column.null_count else column
    _, places, buffer = column.buffers()
    size = 0 if buffer is None else len(buffer)
    wide = pa.types.is_large_string(column.type) or pa.types.is_large_binary(column.type)
    offsets = np.frombuffer(places, np.dtype(np.int64 if wide else np.int32))[
        column.offset : column.offset + len(column) + 1
    ]
    rows = int(np.searchsorted(offsets[:-1], size - _WORD, side="right")) if size >= _WORD else 0
    if rows < _FEW:
        return column
    # An unaligned load from each offset; what lies behind a short text is masked.
    words = numbers_at(np.frombuffer(buffer, np.uint8), offsets[:rows].astype(np.int64), ">u8")
    words &= _MASKS[np.minimum(np.diff(offsets[: rows + 1]), _WORD)]
    among = np.flatnonzero((words == words.min()) | (words == words.max()))
    return column.take(pa.array(np.concatenate([among, np.arange(rows, len(column))])))


def _plain(value: Any, kind: pa.DataType) -> Any:
    """Return a smallest or largest value as plain data."""
    if value is None:
        return None
    if pa.types.is_temporal(kind):
        try:
            return (
                pa.scalar(value, pa.int32() if kind.bit_width == 32 else pa.int64())
                .cast(kind)
                .cast(pa.string())
                .as_py()
            )
        except (pa.ArrowException, ValueError):
            return value
    if is_text(kind):
        text = value.decode("utf-8", "replace")
        return text[:MOST_SHOWN] + "…" * (len(text) > MOST_SHOWN)
    if isinstance(value, bytes):
        return value[:MOST_SHOWN].hex() + "…" * (len(value) > MOST_SHOWN)
    if isinstance(value, float) and value in {float("inf"), float("-inf")}:
        return str(value)
    return value if isinstance(value, int | float) else str(value)
