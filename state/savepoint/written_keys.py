"""Keys as people write them: `42`, `"a"`, `[7, "x"]`, `{"customer": 42}`.

A key is written in JSON, as an export prints it, or without the tags that say a type which the key has anyway: a tuple
as a list, a record as an object, an enum by its name. What is not JSON is a text. If the key's type has a stable hash,
the written key becomes the bytes and the key group of the stored one; else stored keys are compared with it as JSON.
"""

from __future__ import annotations

import json
from contextlib import suppress
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import attrs

from ...compat.description import StateKind
from ...compat.key_hashes import ROW_DATA, SIMPLE_TYPES, is_stable
from ...serializers.errors import StateShiftError, unless_redacted
from ...serializers.json_forms import tagger_of
from ...serializers.plain_forms import bytes_of, exact_decimal, moment_of, plain
from ...serializers.rows.values import Row
from ...serializers.sql.values import RowData, TimestampData
from ...serializers.wording import json_text
from ..entry_keys import decode
from .chosen_keys import ChosenKeys

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ...serializers.snapshot import TypeSerializerConfigSnapshot
    from ..formats.flink.entries import EntryDecoder
    from ..formats.flink.keyed_stream import KeyedReader
    from .reader import SavepointOperator

    Snapshot = TypeSerializerConfigSnapshot[Any]

_FLOATS = {"float", "double", "FLOAT", "DOUBLE"}
_TEXTS = {"char", "string", "CHAR", "VARCHAR"}
_BOOLEANS = {"boolean", "BOOLEAN"}
_INTEGERS = SIMPLE_TYPES - _FLOATS - _TEXTS - _BOOLEANS | {
    "bigint", "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "DATE", "TIME_WITHOUT_TIME_ZONE",
    "INTERVAL_YEAR_MONTH", "INTERVAL_DAY_TIME",
}  # fmt: skip
_TAGGED: dict[str, tuple[str, Callable[[Any], Any], Callable[[str], Any]]] = {
    "DECIMAL": ("$decimal", lambda form: exact_decimal(*form), Decimal),
    **dict.fromkeys(
        ("TIMESTAMP_WITHOUT_TIME_ZONE", "TIMESTAMP_WITH_LOCAL_TIME_ZONE"),
        ("$timestamp", lambda form: TimestampData(*form), lambda text: _timestamp(*moment_of(text))),
    ),
    **dict.fromkeys(("BINARY", "VARBINARY", "bytes"), ("$bytes", bytes.fromhex, bytes_of)),
}
"""The tag of values of a type, what makes the value of its content, and what makes it of its text."""
_KINDS = ((_INTEGERS, int), (_FLOATS, (int, float)), (_TEXTS, str), (_BOOLEANS, bool))
"""What the JSON of a value is by the name of its type."""
_SPECIAL = ("NaN", "Infinity", "-Infinity")
_RECORDS = frozenset({"pojo", "record"})


class _UnlikeError(Exception):
    """The written key cannot be of the type."""


class _UnknownError(Exception):
    """The value of the written key cannot be made, so that stored keys have to be compared with it as JSON."""


@attrs.frozen
class WrittenKey:
    """A key as its user writes it. Created with `of`.

    Attributes:
        text: What was written.
        form: Its JSON.
    """

    text: str
    form: Any

    @classmethod
    def of(cls, text: str) -> WrittenKey:
        """Return a key; what is not JSON is a text."""
        try:
            return cls(text, json.loads(text))
        except (ValueError, RecursionError):
            return cls(text, text)

    @property
    def shown(self) -> str:
        """What was written, for messages."""
        return str(unless_redacted(self.text))


def choose(snapshot: Snapshot, keys: Sequence[WrittenKey], max_parallelism: int) -> ChosenKeys | None:
    """Return the choice of written keys among those of a type; None: none of them can be of it.

    Args:
        snapshot: The type of the keys.
        keys: The written keys; those that cannot be of the type are left out.
        max_parallelism: The number of key groups.

    Raises:
        OldReaderUnavailable: No serializer reads the keys.
    """
    serializer = snapshot.restore_serializer()
    values, possible, is_known = [], [], is_stable(snapshot)
    for key in keys:
        try:
            if not is_known:
                _require_alike(snapshot, key.form)
            else:
                value = _value(snapshot, key.form)
                ChosenKeys.of([value], serializer, max_parallelism)
                values.append(value)
        except (_UnlikeError, StateShiftError):  # it does not fit the type
            continue
        except _UnknownError:
            is_known = False
        possible.append(key)
    if not possible:
        return None
    if is_known:
        return ChosenKeys.of(values, serializer, max_parallelism)
    tag, wanted, seen = tagger_of(snapshot), {_text(plain(key.form)) for key in possible}, dict[bytes, bool]()

    def takes(key: bytes) -> bool:
        found = seen.get(key)
        if found is None:
            form = plain(tag(decode(serializer, key)))
            found = not wanted.isdisjoint({_text(form), *([_text(form[0])] if _is_single(form) else [])})
            if len(seen) < 1 << 16:
                seen[key] = found
        return found

    return ChosenKeys(None, takes=takes)


def _text(form: Any) -> str:
    return json.dumps(form, sort_keys=True)


def _is_single(form: Any) -> bool:
    return isinstance(form, list) and len(form) == 1


def _require_alike(snapshot: Snapshot, form: Any) -> None:
    """Refuse a written key whose form is not that of a record or enum, without reading any stored key."""
    form = plain(form)
    if (snapshot.kind in _RECORDS and not isinstance(form, dict)) or (
        snapshot.kind == "enum" and not isinstance(form, str)
    ):
        raise _UnlikeError


def _value(snapshot: Snapshot, form: Any) -> Any:
    """Return the value of a written key whose type has a stable hash."""
    match snapshot.kind:
        case "tuple":
            items = _items(form, "$tuple", len(snapshot.children()))
            return tuple(map(_value, snapshot.children(), items))
        case "list":
            if not isinstance(form, list):
                raise _UnlikeError
            return [_value(snapshot.children()[0], item) for item in form]
        case "row":
            columns = snapshot.children()
            items = _fields(form, "$row", len(columns), getattr(snapshot, "names", ()))
            return Row(*(None if item is None else _value(one, item) for one, item in zip(columns, items, strict=True)))
        case kind if kind == ROW_DATA:
            types: Any = snapshot
            items = _fields(form, "$sqlrow", len(types.types), types.names)
            if None in items:  # generated code of Flink stores some nulls in other bytes
                raise _UnknownError
            return RowData(*(_simple(of.root, item) for of, item in zip(types.types, items, strict=True)))
        case "bytes":
            return _simple("bytes", form)
        case _:
            return _simple(snapshot.describe(), form)


def _items(form: Any, tag: str, count: int) -> list[Any]:
    items = form[tag] if isinstance(form, dict) and set(form) == {tag} else form
    if not isinstance(items, list) or len(items) != count:
        raise _UnlikeError
    return items


def _fields(form: Any, tag: str, count: int, names: Sequence[str]) -> list[Any]:
    """Return the fields of a row: in order, by name, or its only one by itself."""
    if isinstance(form, dict) and set(form) == {tag}:
        form = form[tag].get("fields") if isinstance(form[tag], dict) else None
    if isinstance(form, dict) and names and set(form) == set(names):
        form = [form[name] for name in names]
    if not isinstance(form, list) and count == 1:
        form = [form]
    return _items(form, tag, count)


def _simple(name: str, form: Any) -> Any:
    if name in _TAGGED:
        tag, of_content, of_text = _TAGGED[name]
        with suppress(ValueError, TypeError, LookupError, ArithmeticError):
            if isinstance(form, str):
                return of_text(form)
            if isinstance(form, dict) and set(form) == {tag}:
                return of_content(form[tag])
        raise _UnlikeError
    for names, kinds in _KINDS:
        if name in names:
            if name in _FLOATS and isinstance(form, dict) and form.get("$double") in _SPECIAL:
                return float(form["$double"])
            form = plain(form)
            if not isinstance(form, kinds) or (isinstance(form, bool) and kinds is not bool):
                raise _UnlikeError
            with suppress(OverflowError):
                return float(form) if name in _FLOATS else form
            raise _UnlikeError
    raise _UnknownError


def _timestamp(seconds: int, nanos: int) -> TimestampData:
    return TimestampData(1000 * seconds + nanos // 1_000_000, nanos % 1_000_000)


def stored_key(operator: SavepointOperator) -> str:
    """Return a key that an operator has, as it is written; "": it has none, or none can be read."""
    for state in operator.states:
        if operator.key is None or not state.kind.is_keyed or state.kind is StateKind.TIMERS or state.unsupported:
            continue
        with suppress(StateShiftError):  # what cannot be read is told by what reads it
            for key in state.read_by(_each_key):
                form = tagger_of(operator.key)(decode(operator.key.restore_serializer(), key))
                return str(unless_redacted(json_text(plain(form))))
    return ""


def _each_key(reader: KeyedReader, decoders: dict[int, EntryDecoder]) -> Iterator[bytes]:
    for block in reader.blocks(state_ids=decoders):
        for key, _ in block.items():  # noqa: PERF102 - a block is not a dict
            yield decoders[block.state_id].place(key)[0]
