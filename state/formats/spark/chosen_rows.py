"""Some keys of a store: only their partition is read, and of that only their entries are shown.

A key is written in JSON: the fields of the grouping key by name, or some of them; all of them in order; or the only one
by itself. The partition is known if all fields are given that Spark hashes; else all are read.
"""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import attrs
import pyarrow as pa

from ....compat.queries.columns import group_of, hashed_fields
from ....serializers.errors import StateShiftError, UnsupportedFormat, unless_redacted
from ....serializers.plain_forms import bytes_of, exact_decimal, moment_of, plain
from ....serializers.spark_rows.json_values import json_values
from ....serializers.spark_rows.rows import arrow_type
from ....serializers.spark_rows.spark_types import SparkField, SparkType
from ....serializers.wording import json_text
from .partitioning import partitions_of
from .reader import Block

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from .reader import SparkOperator, SparkStore

_UNKNOWN = "Spark's hash of such a key is not known to this release"
_EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - what Arrow counts from


class _UnlikeError(Exception):
    """The written key cannot be one of the store."""


class _UnknownError(Exception):
    """The hash of the written key is not known."""


@attrs.frozen
class ChosenRows:
    """The entries of a store that are read.

    Attributes:
        partitions: The partitions that may have them; None: all.
        wanted: The texts of the fields that each key gives, by name.
        group: The type of the grouping key.
        is_within: Whether the grouping key is the first field of a key.
        why: Why all partitions are read, or "".
    """

    partitions: frozenset[int] | None
    wanted: tuple[dict[str, str], ...] = attrs.field(repr=False)
    group: SparkType = attrs.field(repr=False)
    is_within: bool
    why: str = ""

    def among(self, block: Block) -> Block:
        """Return the chosen entries of a block."""
        names = {name for one in self.wanted for name in one}
        columns = _columns(block.key, is_within=self.is_within)
        texts = {
            name: [_text(form) for form in json_values(columns.field(at), self.group.fields[at].type)]
            for at, name in enumerate(self.group.names)
            if name in names
        }
        rows = [
            row
            for row in range(len(block.key))
            if any(all(texts[name][row] == text for name, text in one.items()) for one in self.wanted)
        ]
        at = pa.array(rows, pa.int64())
        return Block(
            block.partition, block.key.take(at), block.value.take(at), [block.stored_keys[row] for row in rows]
        )


def choose(store: SparkStore, kind: str, forms: Sequence[Any]) -> ChosenRows | None:
    """Return the choice of written keys among those of a store; None: none of them can be there.

    Args:
        store: The store.
        kind: The kind of its operator.
        forms: The JSON of the keys.

    Raises:
        UnsupportedFormat, CorruptFile, SavepointNotFound: The entries of a partition cannot be read.
    """
    key = store.require_schema().key
    group = group_of(key, kind)
    types, hashed = dict(zip(group.names, group.fields, strict=True)), hashed_fields(group, kind)
    wanted, partitions, why = list[dict[str, str]](), set[int](), ""
    for form in forms:
        given = _given(group, hashed, form)
        if given is None:
            continue
        try:
            arrays = {name: _array(types[name].type, one) for name, one in given.items()}
        except _UnlikeError:
            continue
        except _UnknownError:
            why, arrays = _UNKNOWN, {}
        read = {name: json_values(one, types[name].type)[0] for name, one in arrays.items()}
        wanted.append({name: _text(one) for name, one in (given | read).items()})
        lacking = [name for name in hashed if name not in arrays]
        if lacking:
            why = why or f"the key does not say {', '.join(lacking)}, by which entries are spread over partitions"
            continue
        try:
            of = SparkType("struct", tuple(hashed.values()))
            row = pa.StructArray.from_arrays([arrays[name] for name in hashed], names=[*hashed])
            partitions.add(int(partitions_of(row, of, store.partitions)[0]) if hashed else 0)
        except UnsupportedFormat:
            why = _UNKNOWN
    if not wanted:
        return None
    is_within = group is not key
    if not why and not _are_placed(store, group, hashed, partitions, is_within=is_within):
        why = "keys do not lie where Spark's hash of them says"
    return ChosenRows(None if why else frozenset(partitions), tuple(wanted), group, is_within, why)


def _are_placed(
    store: SparkStore, group: SparkType, hashed: dict[str, SparkField], partitions: set[int], *, is_within: bool
) -> bool:
    """Whether the first stored keys lie where Spark's hash has them: Spark before 3.3 may have hashed fewer columns."""
    at = [place for place, name in enumerate(group.names) if name in hashed]
    of = SparkType("struct", tuple(hashed.values()))
    for partition in (*partitions, *(one for one in range(store.partitions) if one not in partitions)):
        for block in store.blocks_of(partition):
            columns = _columns(block.key, is_within=is_within)
            parts = [columns.field(place) for place in at]
            if not len(columns) or not parts:
                continue
            keys = pa.StructArray.from_arrays(parts, names=[str(place) for place in at])
            return not (partitions_of(keys, of, store.partitions) != partition).any()
    return True


def _columns(key: pa.StructArray, *, is_within: bool) -> pa.StructArray:
    return key.field(0) if is_within else key


def _given(group: SparkType, hashed: dict[str, SparkField], form: Any) -> dict[str, Any] | None:
    """Return the fields that a written key gives, by name; None: they are not those of the type."""
    names = [*hashed]
    if isinstance(form, dict) and form and set(form) <= set(group.names):
        return form
    if isinstance(form, list) and len(form) == len(names):
        return dict(zip(names, form, strict=True))
    if len(names) == 1:
        return {names[0]: form}
    return {} if form == {} and not group.fields else None


def _text(form: Any) -> str:
    return json.dumps(plain(form), sort_keys=True)


def _array(of: SparkType, form: Any) -> pa.Array:
    """Return a column of one value."""
    if of.word == "void" or form is None:
        return pa.nulls(1, pa.null() if of.word == "void" else arrow_type(of))
    if of.word == "struct":
        if not isinstance(form, dict) or set(form) != set(of.names):
            raise _UnlikeError
        parts = [_array(field.type, form[name]) for name, field in zip(of.names, of.fields, strict=True)]
        return pa.StructArray.from_arrays(parts, names=list(of.names))
    if of.word not in _MADE:
        raise _UnknownError
    kinds, tag, make = _MADE[of.word]
    if tag and isinstance(form, str):
        kinds, make = str, _OF_TEXT[of.word]
    elif tag:
        form = form.get(tag) if isinstance(form, dict) else None
    if not isinstance(form, kinds) or (isinstance(form, bool) and kinds is not bool):
        raise _UnlikeError
    try:
        return pa.array([make(form)], arrow_type(of))
    except (pa.ArrowException, ValueError, TypeError, OverflowError, ArithmeticError):
        raise _UnlikeError from None


def _same(form: Any) -> Any:
    return form


def _instant(form: Sequence[int]) -> dt.datetime:
    return _EPOCH + dt.timedelta(seconds=form[0], microseconds=form[1] // 1000)


def _local(form: list[int]) -> dt.datetime:
    year, month, day, hour, minute, second, nanos = form
    return dt.datetime(year, month, day, hour, minute, second, nanos // 1000)  # noqa: DTZ001 - without a zone


_MADE: dict[str, tuple[Any, str, Callable[[Any], Any]]] = {
    **dict.fromkeys(("tinyint", "smallint", "int", "bigint"), (int, "", _same)),
    **dict.fromkeys(("string", "char", "varchar"), (str, "", _same)),
    **dict.fromkeys(("float", "double"), ((int, float), "", float)),
    "boolean": (bool, "", _same),
    "binary": (str, "$bytes", bytes.fromhex),
    "decimal": (list, "$bigdec", lambda parts: exact_decimal(*parts)),
    "date": (list, "$localdate", lambda parts: dt.date(*parts)),
    "timestamp": (list, "$instant", _instant),
    "timestamp_ntz": (list, "$localdatetime", _local),
}
"""What the JSON of a value is by the name of its type, its tag, and what makes the value."""
_OF_TEXT: dict[str, Callable[[str], Any]] = {
    "binary": bytes_of,
    "decimal": Decimal,
    "date": dt.date.fromisoformat,
    **dict.fromkeys(("timestamp", "timestamp_ntz"), lambda text: _instant(moment_of(text))),
}
"""What makes the value of its text, of types whose JSON has a tag."""


def key_type(store: SparkStore, kind: str) -> str:
    """Return the type of the grouping key of a store in words; "": it is not known."""
    if store.schema is None:
        return ""
    return SparkType("struct", tuple(hashed_fields(group_of(store.schema.key, kind), kind).values())).describe()


def stored_key(operator: SparkOperator) -> str:
    """Return a key that an operator has, as it is written; "": it has none, or none can be read."""
    return next(_keys(operator), "")


def _keys(operator: SparkOperator) -> Iterator[str]:
    for store in operator.stores:
        if store.unsupported or store.is_index:
            continue
        try:
            group = group_of(store.require_schema().key, operator.kind)
            for block in store.blocks():
                columns = _columns(block.key, is_within=group is not store.require_schema().key)
                if len(columns):
                    first = json_values(columns.slice(0, 1), group)[0]
                    shown = {name: first[name] for name in hashed_fields(group, operator.kind)}
                    yield str(unless_redacted(json_text(plain(shown))))
        except StateShiftError:  # what cannot be read is told by what reads it
            continue
