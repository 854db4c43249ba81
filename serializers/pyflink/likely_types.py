"""Which of PyFlink's types stored bytes may be of: those whose coders read all of them, and write them again.

Bytes do not say their type: those of a LONG are those of a DOUBLE, too. So all types that fit are found, the likeliest
first: one of few parts, whose values look as such values do. A small LONG, read as a DOUBLE, is a number below 1e-300,
which hardly any job keeps. Whether it is that type only the job knows.

Nothing is opened: a pickle is recognised by its opcodes, which are read and not carried out.
"""

from __future__ import annotations

import heapq
import itertools
import math
import pickletools
import struct
from typing import TYPE_CHECKING, Any

import attrs

from ..containers.arrays import BytesSerializer, PrimitiveArraySerializer
from ..containers.lists import MapSerializer
from ..containers.object_arrays import GenericArraySerializer
from ..containers.tuples import TupleSerializer
from ..errors import StateShiftError
from ..hints import serializer_for
from ..primitives.numeric import (
    BooleanSerializer,
    ByteSerializer,
    DoubleSerializer,
    FloatSerializer,
    IntSerializer,
    LongSerializer,
    ShortSerializer,
)
from ..rows.serializers import RowSerializer
from ..temporal.values import Instant
from ..views import DataInputView, DataOutputView
from .coders import (
    CoderDateSerializer,
    CoderDecimalSerializer,
    CoderStringSerializer,
    CoderTimeSerializer,
    CoderTimestampSerializer,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ..serializer import TypeSerializer

MOST_COLUMNS = 14
"""How many columns of a row, or items of a tuple, are looked for."""
_TRIED = 24
"""How many of the samples are read to look for a type; what is found must read them all."""
_MOST_STEPS = 150
_ODD = 4.0
"""How much less likely a type is whose values all look odd: as if it had so many more parts."""
_OF_MANY = 1.5
_READS_WRONG = (StateShiftError, ValueError, OverflowError, TypeError)


@attrs.frozen
class LikelyType:
    """A type that fits.

    Attributes:
        source: The type as a job declares it: `Types.LONG()`.
        coder: The serializer of its values, as `coder_for` returns it.
        cost: How unlikely it is.
        unseen: The columns of a row, from 1, that are null in each sample: any type fits those.
    """

    source: str
    coder: TypeSerializer[Any] = attrs.field(repr=False)
    cost: float = 1.0
    unseen: tuple[int, ...] = ()

    @property
    def words(self) -> str:
        """The type in few words: `MAP(STRING, LONG)`."""
        return self.source.replace("Types.", "").replace("()", "")

    @property
    def looks_right(self) -> bool:
        """Whether its values look as values of such a type do."""
        return self.cost < _ODD

    def doubted(self, looks: list[bool]) -> LikelyType:
        """Return it, less likely by how many of its values look odd."""
        return attrs.evolve(self, cost=self.cost + _ODD * (1 - sum(looks) / len(looks)) if looks else self.cost)


def _small(bits: int) -> Callable[[Any], bool]:
    most = 1 << bits
    return lambda value: -most < value < most


def _number(least: float, most: float) -> Callable[[Any], bool]:
    return lambda value: value == 0 or least < abs(value) < most


def _readable(text: Any) -> bool:
    return bool(text) and all(one.isprintable() or one.isspace() for one in text)


def _always(_: Any) -> bool:
    return True


def _never(_: Any) -> bool:
    return False


def _each(looks: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda values: all(one is None or looks(one) for one in values)


def _both(of_keys: Callable[[Any], bool], of_values: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda given: of_keys(given) and of_values(given.values())


_INSTANT: Any = serializer_for(Instant)
_SCALARS: tuple[tuple[LikelyType, Callable[[Any], bool]], ...] = tuple(
    (LikelyType(f"Types.{word}()", coder, cost), looks)
    for word, coder, cost, looks in (
        ("LONG", LongSerializer(), 1.0, _small(53)),
        ("DOUBLE", DoubleSerializer(), 1.1, _number(1e-9, 1e15)),
        ("SQL_TIMESTAMP", CoderTimestampSerializer(), 1.2, lambda one: 1990 < one.year < 2100),
        ("INT", IntSerializer(), 1.0, _number(0, 0x30000000)),
        ("FLOAT", FloatSerializer(), 1.1, _number(1e-6, 1e9)),
        ("SQL_DATE", CoderDateSerializer(), 1.2, lambda one: 1990 < one.year < 2100),
        ("SQL_TIME", CoderTimeSerializer(), 1.3, _always),
        ("BOOLEAN", BooleanSerializer(), 1.0, _always),
        ("BYTE", ByteSerializer(), 1.5, _always),
        ("SHORT", ShortSerializer(), 1.6, _always),
        ("BIG_DEC", CoderDecimalSerializer(), 0.4, lambda one: one.as_tuple().exponent != 0),
        ("STRING", CoderStringSerializer(), 0.5, _readable),
        ("INSTANT", attrs.evolve(_INSTANT, allow_null=True), 1.4, lambda one: not one or abs(one.seconds) < 1 << 34),
    )
)  # fmt: skip
_BYTES = LikelyType("Types.PRIMITIVE_ARRAY(Types.BYTE())", BytesSerializer(), 2.0)
_PICKLES = LikelyType("bytes", BytesSerializer(), 0.0)
_ARRAYS = tuple(
    (LikelyType(f"Types.PRIMITIVE_ARRAY({one.source})", PrimitiveArraySerializer(one.coder), 2.1), _each(looks))
    for one, looks in _SCALARS
    if one.words in {"INT", "LONG", "DOUBLE", "FLOAT", "SHORT"}
)


def likely_types(samples: Sequence[bytes], *, many: bool = False) -> list[LikelyType]:
    """Return the types whose coders read each sample to its last byte and write the same bytes, likeliest first.

    Types of more parts are looked for where none of fewer looks right; of a row, or a tuple, the likeliest is returned.

    Args:
        samples: The bytes, at least one.
        many: Whether a sample holds one or more values, one after the other, as those of a list do; else exactly one.
    """
    distinct = list(dict.fromkeys(samples))
    tried = _Tried(_spread(distinct), many=many)
    if tried.are_pickles():
        found = [_PICKLES]
    else:
        found = [one for one in map(tried.judged, _simple()) if one is not None]
        if many or not any(one.looks_right for one in found):
            found += [one for one in map(tried.judged, _nested()) if one is not None]
        if many or not any(one.looks_right for one in found):
            found += [one for one in (tried.row(), tried.items()) if one is not None]
    whole = _Tried(distinct, many=many)
    fitting = [one for one in found if whole.are_pickles() or whole.values(one.coder) is not None]
    return sorted(fitting, key=lambda one: one.cost)


def _spread(samples: list[bytes]) -> list[bytes]:
    """Return some samples, the shortest and the longest among them."""
    ordered = sorted(samples, key=len)
    step = max(1, len(ordered) // _TRIED)
    return [*ordered[::step][:_TRIED], ordered[-1]]


def _simple() -> Iterator[tuple[LikelyType, Callable[[Any], bool]]]:
    yield from _SCALARS
    yield _BYTES, _never
    yield from _ARRAYS
    yield from _lists_of(_SCALARS)
    yield from _maps_to(_SCALARS)


def _nested() -> Iterator[tuple[LikelyType, Callable[[Any], bool]]]:
    lists = list(_lists_of(_SCALARS))
    yield from _lists_of([*lists, *_maps_to(_SCALARS)])
    yield from _maps_to(lists)


_Parts = Any  # an iterable of types with what looks right


def _lists_of(parts: _Parts) -> Iterator[tuple[LikelyType, Callable[[Any], bool]]]:
    for one, looks in parts:
        array = GenericArraySerializer(one.coder, nullable_elements=True)
        yield LikelyType(f"Types.LIST({one.source})", array, one.cost + 1), _each(looks)


def _maps_to(parts: _Parts) -> Iterator[tuple[LikelyType, Callable[[Any], bool]]]:
    for (key, key_looks), (value, looks) in itertools.product(_SCALARS, parts):
        coder = MapSerializer(key.coder, value.coder, nullable_values=True)
        one = LikelyType(f"Types.MAP({key.source}, {value.source})", coder, key.cost + value.cost)
        yield one, _both(_each(key_looks), _each(looks))


def pickled_names(data: bytes) -> tuple[str, ...] | None:
    """Return the classes and functions that a pickle names, in its order; None: the bytes are not exactly one pickle.

    Its opcodes are read, and none is carried out. Pickles of numbers, texts, lists and the like name nothing.
    """
    if not data.startswith(b"\x80") or not data.endswith(b"."):
        return None
    names: dict[str, None] = {}
    memo: dict[int, str | None] = {}
    pushed: list[str | None] = [None, None]
    last = -1
    try:
        for opcode, argument, position in pickletools.genops(data):
            last = position or 0
            if opcode.name == "MEMOIZE" or opcode.name.endswith("PUT"):
                memo[argument if isinstance(argument, int) else len(memo)] = pushed[-1]
                continue
            if opcode.name == "STACK_GLOBAL":
                names[".".join(one or "?" for one in pushed[-2:])] = None
            elif opcode.name == "GLOBAL":
                names[str(argument).replace(" ", ".", 1)] = None
            if opcode.name.endswith("GET"):
                pushed.append(memo.get(argument if isinstance(argument, int) else -1))
            elif opcode.stack_after:
                pushed.append(argument if isinstance(argument, str) and "UNICODE" in opcode.name else None)
    except (ValueError, IndexError, OverflowError, struct.error):
        return None
    return tuple(names) if last == len(data) - 1 else None


@attrs.define
class _Tried:
    """Samples, and what reads them."""

    samples: list[bytes]
    many: bool = attrs.field(kw_only=True)

    def are_pickles(self) -> bool:
        """Whether each sample is pickles: a length, and a whole pickle."""
        values = self.values(BytesSerializer())
        return values is not None and all(pickled_names(one) is not None for one in values)

    def judged(self, given: tuple[LikelyType, Callable[[Any], bool]]) -> LikelyType | None:
        """Return a type with how its values look; None: it does not read the samples."""
        one, looks = given
        values = self.values(one.coder)
        return None if values is None else self._weighed(one.doubted([bool(looks(value)) for value in values]), values)

    def _weighed(self, one: LikelyType, values: list[Any]) -> LikelyType:
        """Return a type, less likely the more values it makes of the samples: anything is many bytes."""
        more = _OF_MANY * math.log10(len(values) / len(self.samples)) if self.many else 0.0
        return attrs.evolve(one, cost=one.cost + more)

    def values(self, coder: TypeSerializer[Any]) -> list[Any] | None:
        """Return the values of all samples; None: a sample is read otherwise."""
        found: list[Any] = []
        for data in self.samples:
            at = 0
            while at < len(data) or not at:
                read = _read(coder, data, at)
                if read is None or (read[1] < len(data) and not self.many):
                    return None
                value, at = read
                found.append(value)
        return found

    def row(self) -> LikelyType | None:
        """Return the likeliest row, whose columns may be null."""
        if any(not data or data[0] & 0b11000000 for data in self.samples):  # another kind than INSERT
            return None
        for mask_bytes in (1, 2):
            most = min(MOST_COLUMNS, 8 * mask_bytes - 2)
            masks = [[bool(data[(at + 2) // 8] & 0x80 >> (at + 2) % 8) for at in range(most)]
                     for data in self.samples if len(data) > mask_bytes]  # fmt: skip
            if len(masks) == len(self.samples):
                nulls = [[mask[at] for mask in masks] for at in range(most)]
                least = max((at + 1 for at in range(most) if any(nulls[at])), default=1)
                least = max(least, 8 * (mask_bytes - 1) - 1)
                found = self._columns(_row_of, [mask_bytes] * len(masks), nulls, least)
                if found is not None:
                    return found
        return None

    def items(self) -> LikelyType | None:
        """Return the likeliest tuple."""
        never = [[False] * len(self.samples)] * MOST_COLUMNS
        return self._columns(_tuple_of, [0] * len(self.samples), never, 2)

    def _columns(
        self,
        make: Callable[[tuple[LikelyType, ...], tuple[int, ...]], LikelyType],
        start: list[int],
        nulls: list[list[bool]],
        least: int,
    ) -> LikelyType | None:
        """Return the likeliest sequence of columns that reads the samples, found by the least cost.

        Args:
            make: Makes the type of its columns, of which some are unseen.
            start: Where the first column begins in each sample.
            nulls: By column: the samples in which it is null.
            least: The least number of columns.
        """
        count = itertools.count()
        ends = tuple(map(len, self.samples))
        pending: list[Any] = [(0.0, next(count), tuple(start), (), ())]
        for _ in range(_MOST_STEPS):
            if not pending:
                return None
            cost, _, at, columns, unseen = heapq.heappop(pending)
            if len(columns) >= least and (at == ends or self.many):
                made = make(columns, unseen)
                values = self.values(made.coder)
                if values is not None:
                    return self._weighed(made, values)
            if len(columns) == len(nulls):
                continue
            for further, after, is_seen in self._steps(at, nulls[len(columns)]):
                hidden = unseen if is_seen else (*unseen, len(columns) + 1)
                heapq.heappush(pending, (cost + further.cost, next(count), after, (*columns, further), hidden))
        return None

    def _steps(self, at: tuple[int, ...], null: list[bool]) -> Iterator[tuple[LikelyType, tuple[int, ...], bool]]:
        """Yield the likeliest type of the next column for each way to go on, and where the samples are after it."""
        if all(null):
            yield next(one for one, _ in _SCALARS if one.words == "STRING"), at, False
            return
        best: dict[tuple[int, ...], LikelyType] = {}
        for one, looks in (*_SCALARS, (_PICKLES, lambda data: pickled_names(data) is not None), *_lists_of(_SCALARS)):
            after: list[int] = []
            seen: list[bool] = []
            for data, place, is_null in zip(self.samples, at, null, strict=True):
                read: tuple[Any, int] | None = (None, place) if is_null else _read(one.coder, data, place)
                if read is None:
                    break
                after.append(read[1])
                seen += [] if is_null else [bool(looks(read[0]))]
            else:
                judged = attrs.evolve(one, cost=max(one.cost, 0.5)).doubted(seen)
                place_after = tuple(after)
                if place_after not in best or judged.cost < best[place_after].cost:
                    best[place_after] = judged
        yield from ((one, after, True) for after, one in best.items() if one.source != "bytes" or one.looks_right)


def _read(coder: TypeSerializer[Any], data: bytes, at: int) -> tuple[Any, int] | None:
    """Return the value at a place and where it ends; None: it cannot be read, or is written as other bytes."""
    source, target = DataInputView(data, at), DataOutputView()
    try:
        value = coder.deserialize(source)
        coder.serialize(value, target)
    except _READS_WRONG:
        return None
    return (value, source.position) if target.getvalue() == data[at : source.position] else None


def _row_of(columns: tuple[LikelyType, ...], unseen: tuple[int, ...]) -> LikelyType:
    types = ", ".join(one.source for one in columns)
    coder = RowSerializer.of([one.coder for one in columns])
    return LikelyType(f"Types.ROW([{types}])", coder, 0.5 + sum(one.cost for one in columns), unseen)


def _tuple_of(columns: tuple[LikelyType, ...], _: tuple[int, ...]) -> LikelyType:
    types = ", ".join(one.source for one in columns)
    return LikelyType(
        f"Types.TUPLE([{types}])", TupleSerializer(tuple(one.coder for one in columns)),
        1 + sum(one.cost for one in columns),
    )  # fmt: skip
