"""The rule book once more, as a model: plain functions on plain types and values, which call nothing of the library.

`judge(old, new)` says of a stored type and a declared one what the verdict must be, which findings lead to it, and what
becomes of a value. Where the model and the code disagree, the book decides. Records and rows are in `fields_book`.
"""

from __future__ import annotations

import ctypes

import attrs
from evolution.answers import (
    COPY,
    FALLBACK,
    FAMILIES,
    MIGRATE,
    OK,
    REFUSE,
    Answer,
    Unfit,
    apart,
    compose,
    is_sealed,
    item_of,
    judges,
    refused,
    same,
)
from evolution.shapes import (
    FLOATS,
    INTEGERS,
    ArrayOf,
    Avro,
    EitherOf,
    EnumOf,
    Leaf,
    ListOf,
    MapOf,
    Maybe,
    RecordOf,
    RowOf,
    SetOf,
    Stamped,
    TupleOf,
    stripped,
)
from evolution.values import REFERENCE

PRIMITIVES = {"number", "boolean", "char", "string", "bytes"}
SEQUENCES = {"array", "list", "set", "tuple"}
IN_JAVA = {"boolean", "short", "int", "long", "float", "double", "char"}
"""Primitive types of Java: an array of them holds no nulls."""
KINDS = {
    Maybe: "optional",
    Avro: "avro",
    ArrayOf: "array",
    ListOf: "list",
    SetOf: "set",
    MapOf: "map",
    TupleOf: "tuple",
    EitherOf: "either",
    EnumOf: "enum",
    RecordOf: "record",
    RowOf: "row",
}
DATETIME, DAY, CLOCK = "date and time", "date", "time of day"
TIMES = {  # what it is, how it is bound to a zone, units a second
    "instant": (DATETIME, "moment", 10**9),
    "sqltimestamp": (DATETIME, "moment", 10**9),
    "javadate": (DATETIME, "moment", 1000),
    "localdatetime": (DATETIME, "", 10**9),
    "localdate": (DAY, "", 0),
    "sqldate": (DAY, "of the JVM", 0),
    "localtime": (CLOCK, "", 10**9),
    "sqltime": (CLOCK, "of the JVM", 1000),
}
BITS = {"byte": 7, "short": 15, "int": 31, "long": 63}
MANTISSA = {"float": 24, "double": 53}


def has_null_form(shape):
    """Whether values of a type have a form for null of their own; Flink reads that of java.sql.Timestamp wrongly."""
    if isinstance(shape, Leaf):
        return shape.kind in {"string", "bigint", "decimal", *TIMES} - {"sqltimestamp"}
    return isinstance(shape, RecordOf)


def kind_of(shape):
    if not isinstance(shape, Leaf):
        return KINDS[type(shape)]
    if shape.kind in (*INTEGERS, *FLOATS):
        return "number"
    return "time" if shape.kind in TIMES else shape.kind


def judge(old, new):
    """Say what the book says, of a stored type and a declared one."""
    if isinstance(old, Stamped) or isinstance(new, Stamped):
        return _stamped(old, new)
    if isinstance(new, Maybe):
        return _optional(old, new)
    was, becomes = kind_of(old), kind_of(new)
    if was == becomes and was in FAMILIES:
        return FAMILIES[was](old, new)
    if was == becomes:
        return Answer(OK, frozenset(), same, old, is_readable=not is_sealed(old))
    if (was, becomes) in _TEXTS:
        rule, convert = _TEXTS[was, becomes]
        return Answer(MIGRATE, frozenset({("$", rule)}), convert, new)
    if {was, becomes} == {"array", "list"}:
        return _sequence(old, new)
    if (was, becomes) == ("record", "row") and new.names:
        return FAMILIES["record to row"](old, new)
    if (was, becomes) == ("sealed", "opened"):
        return Answer(FALLBACK, frozenset({("$", "TEST-1")}), same, new, is_readable=True)
    return refused(old, new, _between(was, becomes))


def _between(was, becomes):
    """The rule that refuses two types of unlike families."""
    both = {was, becomes}
    if was == "optional":
        return "OPT-2"
    if both <= PRIMITIVES:
        return "PRIM-4"
    if both <= SEQUENCES:
        return "LIST-3"
    if "map" in both:
        return "MAP-4"
    return "ENUM-8" if "enum" in both and both & PRIMITIVES else "FAM-2"


@judges("number")
def _number(old, new):
    was, becomes = old.kind, new.kind
    if was == becomes:
        return Answer(OK, frozenset(), same, old)
    wider = was in INTEGERS and becomes in INTEGERS and INTEGERS.index(was) < INTEGERS.index(becomes)
    if wider or (was, becomes) == ("float", "double"):
        return Answer(MIGRATE, frozenset({("$", "PRIM-2")}), same, new)
    if was in BITS and becomes in MANTISSA:
        number = (lambda value: ctypes.c_float(value).value) if becomes == "float" else float
        return Answer(
            MIGRATE,
            frozenset({("$", "PRIM-2")}),
            lambda value, _: ("float", number(value[1]).hex()),
            new,
            loses=BITS[was] > MANTISSA[becomes],
        )
    return refused(old, new, "PRIM-3")


def _encoded(value, _):
    if any("\ud800" <= char <= "\udfff" for char in value[1]):
        raise Unfit("half a character")
    return ("bytes", bytes(value[1], "utf-8"))


def _decoded(value, _):
    try:
        return ("str", str(value[1], "utf-8"))
    except UnicodeDecodeError as error:
        raise Unfit("no UTF-8", "may_fail_per_value") from error


_TEXTS = {("string", "bytes"): ("TEXT-1", _encoded), ("bytes", "string"): ("TEXT-2", _decoded)}


@judges("time")
def _time(old, new):
    (what, zone, units), (new_what, new_zone, new_units) = TIMES[old.kind], TIMES[new.kind]
    if old.kind == new.kind:
        return Answer(OK, frozenset(), same, old)
    if what != new_what:
        return refused(old, new, "TIME-5")
    if zone != new_zone:
        return refused(old, new, "TIME-4")
    if units > new_units:
        return refused(old, new, "TIME-3")
    return Answer(MIGRATE, frozenset({("$", "TIME-2" if units < new_units else "FAM-4")}), same, new)


def _stamped(old, new):
    """STATE-4, STATE-5 and STATE-6: the path to a value is the same with a stamp before it."""
    was, had = (old.inner, True) if isinstance(old, Stamped) else (old, False)
    becomes, has = (new.inner, True) if isinstance(new, Stamped) else (new, False)
    inner = judge(was, becomes)

    def convert(value, as_read):
        bare = value[2] if had else value
        converted = None if bare is None else inner.convert(bare, as_read)
        return ("stamped", value[1] if had else REFERENCE, converted) if has else converted

    outer = {} if had == has else {("$", "STATE-4" if has else "STATE-5"): MIGRATE}

    def label(parts):
        return Stamped(*parts) if has else parts[0]

    return compose(new, outer, [("", inner, becomes)], convert, label, old=old)


def _optional(old, new):
    inner = judge(old.inner if isinstance(old, Maybe) else old, new.inner)

    def convert(value, as_read):
        return None if value is None else inner.convert(value, as_read)

    outer = {} if isinstance(old, Maybe) else {("$", "OPT-1"): MIGRATE}
    return compose(new, outer, [("?", inner, new.inner)], convert, lambda parts: Maybe(*parts), old=old)


@judges("enum")
def _enum(old, new):
    former = {name: symbol for symbol, names in new.renamed for name in names}
    became = {name: name if name in new.symbols else former.get(name) for name in old.symbols}
    kept = {name: symbol for name, symbol in became.items() if symbol is not None}
    gone, present = [name for name in old.symbols if became[name] is None], list(kept.values())
    merged = {symbol for symbol in present if present.count(symbol) > 1}
    added = [symbol for symbol in new.symbols if symbol not in present]
    found = {}
    if old.name != new.name:
        found["ENUM-7"] = COPY if old.name in new.aliases else REFUSE
    if gone:
        found["ENUM-5" if new.default else "ENUM-4"] = MIGRATE if new.default else REFUSE
    if any(name != symbol for name, symbol in kept.items()):
        found["ENUM-6"] = MIGRATE if merged else COPY
    if added:
        found["ENUM-2"] = COPY
    if list(dict.fromkeys(present)) != [symbol for symbol in new.symbols if symbol in present]:
        found["ENUM-3"] = COPY
    pinned = attrs.evolve(new, symbols=(*dict.fromkeys(present), *added))
    return Answer(
        max(found.values(), default=OK),
        frozenset(("$", rule) for rule in found),
        lambda value, _: ("symbol", kept.get(value[1], new.default)),
        pinned,
        loses=bool(gone or merged),
    )


@judges("list")
def _list(old, new):
    element = judge(old.element, new.element)

    def convert(value, as_read):
        return ("list", tuple(element.convert(item, as_read) for item in value[1]))

    return compose(new, {}, [("[]", element, new.element)], convert, lambda parts: ListOf(*parts), old=old)


@judges("array")
def _array(old, new):
    return _sequence(old, new) if _sort(old) != _sort(new) else _same_arrays(old, new)


def _sort(shape):
    """Which of Java's sorts of sequences: they have bytes of their own each."""
    element, optional = stripped(shape.element)
    if element == Leaf("string"):
        return "strings"
    return "primitives" if isinstance(element, Leaf) and element.kind in IN_JAVA and not optional else "objects"


def _same_arrays(old, new):
    (was, _), (becomes, takes_null) = stripped(old.element), stripped(new.element)
    element = judge(was, becomes)
    each = item_of(element, takes_null=takes_null)

    def convert(value, as_read):
        return ("list", tuple(each(item, as_read) for item in value[1]))

    def label(parts):
        return ArrayOf(Maybe(*parts) if takes_null else parts[0])

    return compose(new, {}, [("[]", element, becomes)], convert, label, old=old)


def _sequence(old, new):
    """FAM-4: the same elements in the same order, in other bytes; arrays of objects have flags for nulls."""
    was, becomes, takes_null = old.element, new.element, True
    if isinstance(new, ArrayOf):
        becomes, takes_null = stripped(becomes)
        if isinstance(old, ArrayOf):
            was = stripped(was)[0]
        elif takes_null and isinstance(was, Maybe):
            becomes = Maybe(becomes)  # whose nulls use the flag of the array
    elif isinstance(old, ArrayOf):
        was, takes_null = stripped(was)[0], isinstance(becomes, Maybe)
    element = judge(was, becomes)

    def convert(value, as_read):
        if not takes_null and any(item is None for item in value[1]):
            raise Unfit("a null among the elements", "may_fail_per_value" if isinstance(old, ArrayOf) else "")
        return ("list", tuple(None if item is None else element.convert(item, as_read) for item in value[1]))

    return compose(new, {("$", "FAM-4"): MIGRATE}, [("[]", element, becomes)], convert, old=old)


@judges("set")
def _set(old, new):
    (was, _), (becomes, takes_null) = stripped(old.element), stripped(new.element)
    element = judge(was, becomes)
    each = item_of(element, takes_null=takes_null)

    def convert(value, as_read):
        return ("set", apart([each(item, as_read) for item in value[1]], "elements"))

    outer = {("$[]", "LIST-2"): MIGRATE} if element.migrates and element.loses else {}

    def label(parts):
        return SetOf(Maybe(*parts) if takes_null else parts[0])

    return compose(new, outer, [("[]", element, becomes)], convert, label, old=old)


@judges("map")
def _map(old, new):
    (was, _), (becomes, takes_null) = stripped(old.value), stripped(new.value)
    key, value_answer = judge(old.key, new.key), judge(was, becomes)
    in_place = item_of(value_answer, takes_null=takes_null)

    def each(item, as_read):
        """After a stamp a null has the form of its own type, if that has one."""
        has_form = isinstance(becomes, Stamped) and has_null_form(becomes.inner)
        if item is None and takes_null and has_form and as_read and not isinstance(was, Stamped):
            return ("stamped", REFERENCE, None)
        found = in_place(item, as_read)
        is_null = found is None or (found[0] == "stamped" and found[2] is None)
        if as_read and is_null and item is not None and not (takes_null and (found is None or has_form)):
            raise Unfit("a null that has no place")
        return found

    def convert(value, as_read):
        names, items = [name for name, _ in value[1]], [item for _, item in value[1]]
        names = [key.convert(name, as_read) for name in names]
        apart(names, "keys")  # that two became one stops a run, whatever its values are
        return ("map", frozenset(zip(names, [each(item, as_read) for item in items], strict=True)))

    def label(parts):
        return MapOf(parts[0], Maybe(parts[1]) if takes_null else parts[1])

    outer = {("$<key>", "MAP-3"): MIGRATE} if key.migrates else {}
    children = [("<key>", key, new.key), ("{}", value_answer, becomes)]
    return compose(new, outer, children, convert, label, old=old)


@judges("tuple")
def _tuple(old, new):
    if len(old.items) != len(new.items):
        return refused(old, new, "TUP-3")
    items = [judge(was, becomes) for was, becomes in zip(old.items, new.items, strict=True)]

    def convert(value, as_read):
        return ("tuple", tuple(one.convert(item, as_read) for one, item in zip(items, value[1], strict=True)))

    children = [(f"({at})", one, part) for at, (one, part) in enumerate(zip(items, new.items, strict=True))]
    return compose(new, {}, children, convert, lambda parts: TupleOf(tuple(parts)), old=old)


@judges("either")
def _either(old, new):
    sides = {"left": judge(old.left, new.left), "right": judge(old.right, new.right)}

    def convert(value, as_read):
        return (value[0], sides[value[0]].convert(value[1], as_read))

    children = [("|0", sides["left"], new.left), ("|1", sides["right"], new.right)]
    return compose(new, {}, children, convert, lambda parts: EitherOf(*parts), old=old)
