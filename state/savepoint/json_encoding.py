"""State values as JSON: values without a JSON form carry a tag, such as `{"$bytes": "00ff"}`.

The structure and the tags are those of the test fixtures, which record the values that Flink itself read:

    $tuple  fields                            $bytes            hexadecimal
    $pojo   class, and fields by name         $bigint, $bigdec  digits; [unscaled digits, scale]
    $map    pairs, sorted by their JSON text  $enum             name of the constant
    $set    elements, sorted by JSON text     $double           NaN, Infinity, -Infinity (also of a float)
    $row    kind, and fields by position      $left, $right     the side of an either
    $window [start, end]                      $void, $global    the void namespace, the global window
    $date, $sqldate, $sqltime       milliseconds since 1970
    $sqltimestamp, $instant         [milliseconds, nanoseconds of the second]; [seconds, nanoseconds]
    $localdate, $localtime, $localdatetime   their numeric fields, in order
    $pickle the class that the state declares, and the pickle in hexadecimal; or opened: see `opened_json`
    $avro   a value in Avro's JSON encoding
    $opaque text of a value whose type is not built in; for a value that only Kryo reads, its bytes in hexadecimal

A list and an array become lists. A TTL value is written without its time stamp. Null is null.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ...compat.description import StateKind
from ...serializers.avro.json_form import to_json
from ...serializers.avro.schema import parse
from ...serializers.containers.either import Left
from ...serializers.flink.windows import GlobalWindow, TimeWindow, VoidNamespace
from ...serializers.primitives.big_numbers import decimal_of, split_decimal
from ...serializers.records.recursive import RecordReferenceSnapshot
from ..timers import queue_parts
from .opened_json import tagged_pickle

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ...serializers.avro.serializers import AvroSnapshot
    from ...serializers.containers.sequences import SequenceSnapshot
    from ...serializers.records.serializers import RecordSnapshot
    from ...serializers.records.values import Record
    from ...serializers.snapshot import TypeSerializerConfigSnapshot
    from .reader import SavepointOperator
    from .states import SavepointState

Tagger = Callable[[Any], Any]
"""A function that converts a value, as the generic reader returns it, to a value that `json.dumps` takes."""

_MODES = {StateKind.SPLIT_LIST: "SPLIT_DISTRIBUTE", StateKind.UNION_LIST: "UNION"}


def tagger_of(snapshot: TypeSerializerConfigSnapshot[Any]) -> Tagger:
    """Return the function that converts values of a type to JSON.

    Args:
        snapshot: The snapshot of the type; the value alone does not show whether an integer is a long or a
            `BigInteger`.
    """
    make: Callable[[Any], Tagger] = _MAKERS.get(snapshot.kind, _opaque)
    convert = make(snapshot)
    return lambda value: None if value is None else convert(value)


def sorted_by_text(values: Iterable[Any]) -> list[Any]:
    """Return JSON values sorted by their text, so that sets, maps and entries have a defined order."""
    return sorted(values, key=lambda value: json.dumps(value, sort_keys=True))


def _as_is(_: TypeSerializerConfigSnapshot[Any]) -> Tagger:
    return lambda value: value


def _number(snapshot: TypeSerializerConfigSnapshot[Any]) -> Tagger:
    if snapshot.describe() == "bigint":
        return lambda value: {"$bigint": _digits(value)}
    return _float if snapshot.describe() in {"float", "double"} else lambda value: value


def _digits(value: int) -> str:
    """Return the digits of an integer of any length; `str` refuses more than 4300 digits, as its time is quadratic."""
    return format(decimal_of(value), "f")


def _float(value: float) -> Any:
    if math.isfinite(value):
        return value
    return {"$double": "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"}


def _decimal(_: TypeSerializerConfigSnapshot[Any]) -> Tagger:
    def convert(value: Any) -> Any:
        unscaled, scale = split_decimal(value)
        return {"$bigdec": [_digits(unscaled), scale]}

    return convert


def _temporal(snapshot: TypeSerializerConfigSnapshot[Any]) -> Tagger:
    tag = _TEMPORAL_TAGS[snapshot.describe()]

    def convert(value: Any) -> Any:
        parts = value.parts
        return {tag: parts[0] if len(parts) == 1 else list(parts)}

    return convert


_TEMPORAL_TAGS = {
    "java.util.Date": "$date",
    "java.sql.Date": "$sqldate",
    "java.sql.Time": "$sqltime",
    "java.sql.Timestamp": "$sqltimestamp",
    "instant": "$instant",
    "date": "$localdate",
    "time": "$localtime",
    "local datetime": "$localdatetime",
}


def _bytes(_: TypeSerializerConfigSnapshot[Any]) -> Tagger:
    return lambda value: {"$bytes": bytes(value).hex()}


def _list(snapshot: SequenceSnapshot) -> Tagger:
    element = tagger_of(snapshot.element_snapshot())
    return lambda value: [element(item) for item in value]


def _set(snapshot: TypeSerializerConfigSnapshot[Any]) -> Tagger:
    (element,) = map(tagger_of, snapshot.children())
    return lambda value: {"$set": sorted_by_text(element(item) for item in value)}


def _map(snapshot: TypeSerializerConfigSnapshot[Any]) -> Tagger:
    return map_tagger(*map(tagger_of, snapshot.children()))


def map_tagger(key: Tagger, item: Tagger) -> Tagger:
    """Return the tagger of a map from the taggers of its keys and values."""
    return lambda value: {"$map": sorted_by_text([key(name), item(one)] for name, one in value.items())}


def _tuple(snapshot: TypeSerializerConfigSnapshot[Any]) -> Tagger:
    fields = [tagger_of(child) for child in snapshot.children()]
    return lambda value: {"$tuple": [field(item) for field, item in zip(fields, value, strict=True)]}


def _row(snapshot: TypeSerializerConfigSnapshot[Any]) -> Tagger:
    columns = [tagger_of(child) for child in snapshot.children()]

    def convert(value: Any) -> Any:
        fields = [column(item) for column, item in zip(columns, value, strict=True)]
        return {"$row": {"fields": fields, "kind": value._kind.name}}  # noqa: SLF001 - public despite the underscore

    return convert


def _either(snapshot: TypeSerializerConfigSnapshot[Any]) -> Tagger:
    left, right = map(tagger_of, snapshot.children())
    return lambda value: {"$left": left(value.value)} if isinstance(value, Left) else {"$right": right(value.value)}


def _optional(snapshot: TypeSerializerConfigSnapshot[Any]) -> Tagger:
    return tagger_of(snapshot.children()[0])


def _enum(_: TypeSerializerConfigSnapshot[Any]) -> Tagger:
    return lambda value: {"$enum": value.name}


_around: list[Tagger] = []
"""The taggers of the recursive records within which a tagger is being built, the innermost last."""


def _record(snapshot: RecordSnapshot | RecordReferenceSnapshot) -> Tagger:
    if isinstance(snapshot, RecordReferenceSnapshot):
        return _around[-1] if _around else _opaque(snapshot)
    taggers: dict[str, dict[str, Tagger]] = {}

    def convert(value: Record) -> Any:
        name, fields = value._type_name, value._asdict()  # noqa: SLF001 - public despite the underscore
        forms = taggers.get(name, {})
        tagged = {field: forms.get(field, repr)(item) for field, item in fields.items()}
        return {"$pojo": {"class": name, "fields": dict(sorted(tagged.items()))}}

    pending = [snapshot, *snapshot.circle.values()]
    if snapshot.circle:
        _around.append(convert)
    while pending:  # a subclass may have subclasses; values do not distinguish two classes of the same name
        one = pending.pop(0)
        forms = {field.name: tagger_of(field.snapshot) for field in one.stored_fields()}
        taggers.setdefault(one.record_name(), forms)
        pending += [subclass for _, subclass in (*one.registered_subclasses(), *one.unregistered_subclasses())]
    if snapshot.circle:
        _around.pop()
    return convert


def _ttl(snapshot: TypeSerializerConfigSnapshot[Any]) -> Tagger:
    inner = tagger_of(snapshot.children()[1])
    return lambda value: inner(value.value)


def _inner(snapshot: TypeSerializerConfigSnapshot[Any]) -> Tagger:
    return tagger_of(snapshot.children()[0])


def _kryo(snapshot: TypeSerializerConfigSnapshot[Any]) -> Tagger:
    return lambda value: {"$opaque": f"{snapshot.describe()} {value.data.hex()}"}


def _pickle(_: TypeSerializerConfigSnapshot[Any]) -> Tagger:
    return tagged_pickle


def _avro(snapshot: AvroSnapshot) -> Tagger:
    return lambda value: {"$avro": to_json(parse(snapshot.schema), value)}


def _opaque(_: TypeSerializerConfigSnapshot[Any]) -> Tagger:
    def convert(value: Any) -> Any:
        match value:
            case TimeWindow():
                return {"$window": [value.start, value.end]}
            case VoidNamespace():
                return {"$void": True}
            case GlobalWindow():
                return {"$global": True}
            case bool() | int() | str():
                return value
            case float():
                return _float(value)
            case bytes():
                return {"$bytes": value.hex()}
            case _:
                return {"$opaque": repr(value)}

    return convert


_MAKERS: dict[str, Callable[[Any], Tagger]] = {
    "array": _list,
    "avro": _avro,
    "boolean": _as_is,
    "bytes": _bytes,
    "char": _as_is,
    "decimal": _decimal,
    "either": _either,
    "enum": _enum,
    "kryo": _kryo,
    "list": _list,
    "map": _map,
    "number": _number,
    "optional": _optional,
    "pickle": _pickle,
    "record": _record,
    "row": _row,
    "set": _set,
    "string": _as_is,
    "temporal": _temporal,
    "ttl": _ttl,
    "ttl_aware": _inner,
    "tuple": _tuple,
    "void": _as_is,
}


def tagged_rows(operator: SavepointOperator, state: SavepointState) -> Iterator[list[Any]]:
    """Yield the entries of a keyed state as `[key, value]`, or `[key, namespace, value]` where it is namespaced.

    Raises:
        OldReaderUnavailable: This release cannot read the values of the state.
        CorruptSavepoint: The bytes are damaged.
    """
    place, value = place_tagger(operator, state), tagger_of(state.description.value.snapshot)
    for entry in state.read_entries():
        yield [*place(entry.key, entry.namespace), value(entry.value)]


def place_tagger(operator: SavepointOperator, state: SavepointState) -> Callable[[Any, Any], list[Any]]:
    """Return the function that converts key and namespace to `[key]`, or `[key, namespace]` where it is namespaced."""
    space = state.description.namespace
    key = tagger_of(operator.key) if operator.key is not None else repr
    namespace = tagger_of(space.snapshot) if space is not None else repr
    return lambda one, within: [key(one)] if within is None else [key(one), namespace(within)]


def tagged_timers(state: SavepointState) -> Iterator[list[Any]]:
    """Yield the timers of a queue as `[key, namespace, timestamp]`; raises as `tagged_rows`."""
    key, namespace = map(tagger_of, state.description.value.snapshot.children())
    for timer in state.read_timers():
        yield [key(timer.key), namespace(timer.namespace), timer.timestamp]


def timer_label(operator: SavepointOperator, state: SavepointState) -> str:
    """Return the name of a queue in the tagged format: its time domain, and the service if the operator has several."""
    parts = queue_parts(state.name)
    if parts is None:
        return state.name
    service, domain = parts
    others = [queue_parts(other.name) for other in operator.states if other.name != state.name]
    is_one_of_several = any(other is not None and other[1] is domain for other in others)
    return f"{domain}_{service}" if is_one_of_several else str(domain)


def tagged_elements(state: SavepointState) -> list[list[Any]]:
    """Return the elements of an operator's list state by subtask; for broadcast state its map, as one element."""
    return [list(elements) for elements in each_tagged_element(state)]


def each_tagged_element(state: SavepointState) -> Iterator[Iterator[Any]]:
    """Yield for each subtask an iterator over what `tagged_elements` returns; one element is converted at a time."""
    value = tagger_of(state.description.value.snapshot)
    if state.description.key is not None:
        value = map_tagger(tagger_of(state.description.key.snapshot), value)
    for elements in state.each_element():
        yield map(value, elements)


def has_ttl(state: SavepointState) -> bool:
    """Whether the values of a state have time stamps."""
    pending = [state.description.value.snapshot]
    while pending:
        snapshot = pending.pop()
        if snapshot.kind == "ttl":
            return True
        pending += snapshot.children()
    return False


def tagged_operator(operator: SavepointOperator, states: Iterable[SavepointState]) -> dict[str, Any]:
    """Return one operator in the tagged format.

    Args:
        operator: The operator.
        states: The states to include; all of them can be read.

    Returns:
        `operator_id`, `uid` where it is known, and `keyed`, `timers`, `operator` and `broadcast` where such states
        exist. Entries and timers are sorted by their JSON text; elements keep their order.
    """
    rooms: dict[str, dict[str, Any]] = {}
    for state in states:
        if state.kind is StateKind.TIMERS:
            rooms.setdefault("timers", {})[timer_label(operator, state)] = sorted_by_text(tagged_timers(state))
        elif state.kind.is_keyed:
            entries = sorted_by_text(tagged_rows(operator, state))
            content: Any = {"kind": str(state.kind).upper(), "ttl": has_ttl(state), "entries": entries}
            rooms.setdefault("keyed", {})[state.name] = content
        elif state.kind is StateKind.BROADCAST:
            rooms.setdefault("broadcast", {})[state.name] = [part for parts in tagged_elements(state) for part in parts]
        else:
            content = {"mode": _MODES[state.kind], "subtasks": tagged_elements(state)}
            rooms.setdefault("operator", {})[state.name] = content
    names = {"operator_id": operator.operator_id} | ({"uid": operator.uid} if operator.uid else {})
    return names | {room: dict(sorted(content.items())) for room, content in sorted(rooms.items())}
