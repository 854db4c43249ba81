"""The rules for Avro, AV-1 to AV-7, as a model; see `book`. It is imported for what it registers there."""

from __future__ import annotations

import ctypes

from evolution.answers import MIGRATE, OK, REFUSE, Answer, Unfit, judges
from evolution.avro_shapes import WIDER
from evolution.fields_book import pair
from evolution.shapes import NOTHING

SAME_BYTES = {("int", "long"), ("string", "bytes")}
ROUNDED = {("int", "float"), ("long", "float"), ("long", "double")}


@judges("avro")
def _record(old, new):
    """AV-4 and AV-5: compatible is only what the new schema alone reads from the old bytes."""
    by_name = {field.name: field for field in old.fields}
    names = dict.fromkeys(field.name for field in new.fields)
    names |= {field.name: name for name, field in pair(old.fields, new.fields).items()}
    parts = {f.name: _resolved(by_name[names[f.name]].shape, f.shape) for f in new.fields if names[f.name]}
    verdicts = [verdict for verdict, _ in parts.values()]
    verdicts += [REFUSE if field.default is NOTHING else MIGRATE for field in new.fields if not names[field.name]]
    if [field.name for field in old.fields] != [names[field.name] for field in new.fields]:
        verdicts.append(MIGRATE)
    if _last(old.name) != _last(new.name) and old.name not in new.aliases:
        verdicts.append(REFUSE)
    retired = new.retired if new.bound != "dict" else ()
    come_back = frozenset((f"$.{field.name}", "REC-16") for field in new.fields if field.name in retired)
    verdicts += [REFUSE] * len(come_back)

    def convert(value, _):
        items = {name: item for (_, name), item in value[1]}
        found = {f.name: parts[f.name][1](items[names[f.name]]) if names[f.name] else f.default for f in new.fields}
        return ("map", frozenset((("str", name), item) for name, item in found.items()))

    taken = set(names.values())
    loses = any(field.name not in taken for field in old.fields)
    loses |= any(f.shape[0] == "enum" and f.shape[3] for f in new.fields)
    loses |= any(
        (_innermost(by_name[names[f.name]].shape), _innermost(f.shape)) in ROUNDED for f in new.fields if names[f.name]
    )
    return Answer(max(verdicts), come_back, convert, new, loses and max(verdicts) == MIGRATE)


def _last(name):
    return name.rpartition(".")[2]


def _innermost(shape):
    """The name of the type within optional ones and arrays."""
    return _innermost(shape[1]) if shape[0] in {"optional", "array"} else shape[0]


def _resolved(old, new):
    """Verdict and conversion of a type within a schema."""
    match old, new:
        case ("optional", was), ("optional", becomes):
            verdict, convert = _resolved(was, becomes)
            return verdict, lambda value: None if value is None else convert(value)
        case ("optional", _), _:
            return REFUSE, None  # a null has no branch (AV-6)
        case _, ("optional", becomes):
            verdict, convert = _resolved(old, becomes)
            return max(verdict, MIGRATE), convert
        case ("array", was), ("array", becomes):
            verdict, convert = _resolved(was, becomes)
            return verdict, lambda value: ("list", tuple(convert(item) for item in value[1]))
        case ("enum", name, symbols, _), ("enum", new_name, becomes, default) if name == new_name:
            return _enum(symbols, becomes, default)
    if old == new:
        return OK, lambda value: value
    if len(old) > 1 or len(new) > 1:
        return REFUSE, None
    return _promoted(old[0], new[0])


def _enum(symbols, becomes, default):
    lacks = any(symbol not in becomes for symbol in symbols)
    if lacks and not default:
        return REFUSE, None
    verdict = OK if becomes[: len(symbols)] == symbols else MIGRATE
    return verdict, lambda value: value if value[1] in becomes else ("str", default)


def _promoted(old, new):
    verdict = OK if (old, new) in SAME_BYTES else MIGRATE
    if (old, new) == ("string", "bytes"):
        return verdict, lambda value: ("bytes", value[1].encode())
    if (old, new) == ("bytes", "string"):
        return verdict, _decoded
    if new not in WIDER.get(old, ()):
        return REFUSE, None
    if new == "float":
        return verdict, lambda value: ("float", ctypes.c_float(value[1]).value.hex())
    return verdict, lambda value: ("float", float(value[1]).hex()) if new == "double" and value[0] == "int" else value


def _decoded(value):
    try:
        return ("str", str(value[1], "utf-8"))
    except UnicodeDecodeError as error:
        raise Unfit("no UTF-8", "may_fail_per_value") from error
