"""Types and values as JSON, for two processes that have the same words of PyFlink but not the same classes.

A type is a list: a word of `Types` and its arguments, as in ["MAP", ["STRING"], ["LONG"]].
"""

from __future__ import annotations

import datetime as dt
import decimal


def type_of(types, spelled):
    """Return the type that a list spells, with the words of one `Types`."""
    word, *arguments = spelled
    return getattr(types, word)(*(_argument(types, one) for one in arguments))


def _argument(types, spelled):
    if isinstance(spelled, dict):
        return spelled["names"]
    if not spelled or isinstance(spelled[0], list):
        return [type_of(types, one) for one in spelled]
    return type_of(types, spelled)


_TEXTS = {
    dt.datetime: ("datetime", str, dt.datetime.fromisoformat),
    dt.date: ("date", str, dt.date.fromisoformat),
    dt.time: ("time", str, dt.time.fromisoformat),
    decimal.Decimal: ("decimal", str, decimal.Decimal),
    bytes: ("bytes", bytes.hex, bytes.fromhex),
    float: ("float", float.hex, float.fromhex),
    int: ("int", str, int),
}
_FROM_TEXT = {name: back for name, _, back in _TEXTS.values()}


def told(value):
    """Return a value as JSON."""
    if value is None or isinstance(value, bool | str):
        return value
    name = type(value).__name__
    if type(value) in _TEXTS:
        name, tell, _ = _TEXTS[type(value)]
        return {name: tell(value)}
    if isinstance(value, list | tuple):
        return {name: [told(item) for item in value]}
    if isinstance(value, dict):
        return {"map": [[told(key), told(item)] for key, item in value.items()]}
    if name == "Instant":
        return {"Instant": [value.seconds, value.nanos]}
    kind = value.get_row_kind()
    return {"Row": [kind.value, [told(item) for item in value]]}


def taken(form, classes):
    """Return the value of a form, with the classes Row, RowKind and Instant of one of the two."""
    if not isinstance(form, dict):
        return form
    ((name, held),) = form.items()
    if name in _FROM_TEXT:
        return _FROM_TEXT[name](held)
    if name == "map":
        return {taken(key, classes): taken(item, classes) for key, item in held}
    if name == "Instant":
        return classes["Instant"](*held)
    if name == "Row":
        row = classes["Row"](*(taken(item, classes) for item in held[1]))
        row.set_row_kind(classes["RowKind"](held[0]))
        return row
    items = [taken(item, classes) for item in held]
    return tuple(items) if name == "tuple" else items
