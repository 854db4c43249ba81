"""Changes of types from one version of a job to the next, with values of both: which job can go back, and with what?

Each is listed once, and lies in one of the places where a type can lie, in turn: by itself, in a list, in a map, in a
field of a record, as element or value of each kind of state.
"""

from __future__ import annotations

import enum
from datetime import UTC, datetime
from itertools import cycle
from typing import Annotated

import attrs

from stateshift import (
    Array,
    AvroSerializer,
    Either,
    Field,
    Float32,
    Int16,
    Int32,
    JavaDate,
    Job,
    Left,
    ListStateDescriptor,
    MapStateDescriptor,
    Operator,
    Right,
    Row,
    SavepointWriter,
    ValueStateDescriptor,
    enum_options,
    record,
    row_of,
)

MODULE = "back_job"
"""What the classes say that they are from; the job is its attribute `job`."""


@attrs.frozen
class Change:
    """A state in two versions of a job.

    Attributes:
        old: Its type in the first one.
        new: Its type in the second one.
        value: What the first one has written.
        more: What the second one writes.
        renamed: What fields were called that both versions know by both names.
        java: The Java classes of the first version, by name, where Flink can be asked.
        flink: The first type as Flink's descriptors have it.
    """

    old: object
    new: object
    value: object
    more: tuple = ()
    renamed: tuple[tuple[str, str], ...] = ()
    java: tuple[str, ...] = ()
    flink: str = ""


def thing(*, java="", called="Thing", aliases=(), **fields):
    """Make a record class; a field is its hint, or hint and default."""
    made = {
        name: attrs.field(type=given[0], default=given[1]) if isinstance(given, tuple) else attrs.field(type=given)
        for name, given in fields.items()
    }
    cls = attrs.make_class(called, made, kw_only=True, frozen=True)
    cls.__module__ = MODULE
    return record(java_class=f"back.{java}" if java else "", aliases=aliases)(cls)


def letters(name, *symbols, java="", **options):
    made = enum.Enum(name, {symbol: symbol for symbol in symbols}, module=MODULE)
    return enum_options(java_class=f"back.{java}" if java else "", **options)(made)


def was(name, hint):
    return Annotated[hint, Field(aliases=(name,))]


def on_none(value, hint):
    return Annotated[hint, Field(on_none=value)]


def changed(old, new, value, *more, java="", flink="", renamed=()):
    """A change of a record: of its old and its new class, from their fields."""
    versions = old(**value), tuple(new(**one) for one in more)
    return Change(old, new, *versions, tuple(renamed), (java,) if java else (), flink)


def avro(*fields, name="Event"):
    fields = [{"name": one[0], "type": one[1], **({"default": one[2]} if one[2:] else {})} for one in fields]
    return Annotated[object, AvroSerializer({"type": "record", "name": name, "fields": fields})]


def of_records():
    """Changes of records of Python alone."""
    plain = thing(a=int, b=str)
    given = {"a": 1, "b": "x"}
    return {
        "field added": changed(plain, thing(a=int, b=str, c=(str, "new")), given, {**given, "c": "y"}),
        "field removed": changed(plain, thing(a=int), given, {"a": 2}),
        "field with a default removed": changed(thing(a=int, b=(str, "?")), thing(a=int), given, {"a": 2}),
        "field renamed": changed(plain, thing(a=int, c=was("b", str)), given, {"a": 2, "c": "y"}),
        "field renamed that the old class gets again by default": changed(
            thing(a=int, b=(str, "?")), thing(a=int, c=was("b", str)), given, {"a": 2, "c": "y"}
        ),
        "field renamed that the old class knows by both names": changed(
            thing(a=int, b=was("c", str)),
            thing(a=int, c=was("b", str)),
            given,
            {"a": 2, "c": "y"},
            renamed=[("c", "b")],
        ),
        "field widened": changed(thing(a=Int32, b=str), plain, given, {"a": 2**40, "b": "y"}),
        "field rounded": changed(plain, thing(a=float, b=str), given, {"a": 0.5, "b": "y"}),
        "field made optional": changed(plain, thing(a=int, b=str | None), given, given, {"a": 2, "b": None}),
        "field made required": changed(
            thing(a=int, b=str | None), thing(a=int, b=on_none("-", str)), {"a": 1, "b": None}, given
        ),
        "fields reordered": changed(plain, thing(b=str, a=int), given, given),
        "default changed": changed(thing(a=(int, 1), b=str), thing(a=(int, 2), b=str), given, {"b": "y"}),
        "class moved": changed(plain, thing(called="Other", aliases=(f"{MODULE}.Thing",), a=int, b=str), given, given),
        "class moved that the old one knows": changed(
            thing(a=int, b=str, aliases=(f"{MODULE}.Other",)),
            thing(called="Other", aliases=(f"{MODULE}.Thing",), a=int, b=str),
            given,
            given,
        ),
        "text to bytes": changed(plain, thing(a=int, b=bytes), given, {"a": 1, "b": b"y"}, {"a": 1, "b": b"\xff"}),
        "row in place of a record": Change(plain, row_of({"a": int, "b": str}), plain(**given), (Row(2, "y"),)),
        "two changes at once": changed(
            thing(a=Int32, b=(str, "?")), thing(a=int, c=(str, "c")), given, {"a": 5, "c": "d"}
        ),
    }


def of_subclasses():
    def family(*names, called="Base", **more):
        base = record()(thing(called=called, at=int))
        found = {}
        for name in names:
            cls = attrs.make_class(name, {"page": attrs.field(type=str)}, bases=(base,), kw_only=True, frozen=True)
            cls.__module__ = MODULE
            found[name] = record(**more.get(name, {}))(cls)
        return base, found

    one, first = family("Click")
    two, second = family("Click", "Sale")
    named, renamed = family("Tap", Tap={"aliases": (f"{MODULE}.Click",)})
    click = {"at": 1, "page": "p"}
    return {
        "subclass added": Change(one, two, first["Click"](**click), (second["Sale"](**click),)),
        "subclass added and not used": Change(one, two, first["Click"](**click), (second["Click"](**click),)),
        "subclass renamed": Change(one, named, first["Click"](**click), (renamed["Tap"](**click),)),
    }


def of_others():
    low, more_of_it = letters("Level", "LOW", "HIGH"), letters("Level", "LOW", "MIDDLE", "HIGH")
    fewer, other_order = letters("Level", "LOW", default="LOW"), letters("Level", "HIGH", "LOW")
    renamed = letters("Level", "LOW", "TOP", symbol_aliases={"TOP": ("HIGH",)})
    moment = datetime(2026, 1, 2, tzinfo=UTC)
    return {
        "int to long": Change(Int32, int, 1, (2, 2**40)),
        "short to int": Change(Int16, Int32, 1, (2,)),
        "int to double": Change(Int32, float, 1, (0.5,)),
        "float to double": Change(Float32, float, 0.5, (0.1,)),
        "long to double": Change(int, float, 2**60, (1.0,)),
        "bytes to text": Change(bytes, str, b"x", ("y",)),
        "time made finer": Change(JavaDate, datetime, JavaDate.at(1, 5_000_000), (moment,)),
        "symbol added": Change(low, more_of_it, low.HIGH, (more_of_it.HIGH, more_of_it.MIDDLE)),
        "symbol removed": Change(low, fewer, low.HIGH, (fewer.LOW,)),
        "symbols reordered": Change(low, other_order, low.HIGH, (other_order.LOW,)),
        "symbol renamed": Change(low, renamed, low.HIGH, (renamed.TOP,)),
        "items of a list": Change(list[Int32], list[int], [1], ([2**40],)),
        "list to array": Change(list[int], Array[int], [1, 2], ([3],)),
        "elements of a set": Change(set[Int32], set[int], {1, 2}, ({3},)),
        "values of a map made optional": Change(dict[str, int], dict[str, int | None], {"k": 1}, ({"k": None},)),
        "keys of a map": Change(dict[Int32, str], dict[int, str], {1: "a"}, ({2**40: "b"},)),
        "item of a tuple": Change(tuple[str, Int32], tuple[str, int], ("a", 1), (("a", 2),)),
        "item of a tuple made optional": Change(tuple[str], tuple[str | None], ("a",), ((None,),)),
        "side of an either": Change(Either[Int32, str], Either[int, str], Left(1), (Right("a"), Left(2))),
        "column added": Change(
            row_of({"a": int}),
            row_of(
                attrs.make_class("C", {"a": attrs.field(type=int), "b": attrs.field(type=str, default="-")}),
                stored=("a",),
            ),
            Row(1),
            (Row(2, "x"),),
        ),
        "column made optional": Change(row_of({"a": int}), row_of({"a": int | None}), Row(1), (Row(None),)),
        "int to long in Avro": Change(avro(("a", "int")), avro(("a", "long")), {"a": 1}, ({"a": 2}, {"a": 2**40})),
        "field added in Avro": Change(
            avro(("a", "int")), avro(("a", "int"), ("b", "string", "-")), {"a": 1}, ({"a": 2, "b": "x"},)
        ),
        "field removed in Avro": Change(
            avro(("a", "int"), ("b", "string", "-")), avro(("a", "int")), {"a": 1, "b": "x"}, ({"a": 2},)
        ),
        "field made optional in Avro": Change(
            avro(("a", "int")), avro(("a", ["null", "int"])), {"a": 1}, ({"a": 2}, {"a": None})
        ),
    }


def of_java():
    """Changes of classes that have Java's of the same name, each with its first version."""

    def java(name, fields, old, new, value, *more, renamed=()):
        source = f"public class {name} {{ {fields} }}"
        versions = thing(java=name, **old), thing(java=name, **new)
        return changed(*versions, value, *more, java=source, flink=f"POJO(back.{name})", renamed=renamed)

    ab = {"a": 1, "b": "x"}
    low = letters("Level", "LOW", "HIGH", java="Level")
    more_of_it = letters("Level", "LOW", "HIGH", "TOP", java="Level")
    inner = thing(java="Inner", called="Inner", n=Int32)
    wider = thing(java="Inner", called="Inner", n=Int32, m=(str, "m"))
    level = "public enum Level { LOW, HIGH }"
    holds = "public class Holder { public Inner inner; }"
    pair = "public long a; public String b;"
    return {
        "field added to a Java class": java(
            "Added", pair, {"a": int, "b": str}, {"a": int, "b": str, "c": (int, 7)}, ab, {**ab, "c": 8}
        ),
        "field removed from a Java class": java(
            "Removed", pair, {"a": int, "b": (str | None, None)}, {"a": int}, ab, {"a": 2}
        ),
        "field with a default removed from a Java class": java(
            "Default", pair, {"a": (int, 9), "b": str}, {"b": str}, ab, {"b": "y"}
        ),
        "field renamed in a Java class": java(
            "Renamed",
            pair,
            {"a": int, "b": was("z", str)},
            {"a": int, "z": was("b", str)},
            ab,
            {"a": 2, "z": "y"},
            renamed=[("z", "b")],
        ),
        "field that keeps its place renamed in a Java class": java(
            "Kept",
            pair,
            {"a": int, "b": was("c", str)},
            {"a": int, "c": was("b", str)},
            ab,
            {"a": 2, "c": "y"},
            renamed=[("c", "b")],
        ),
        "field added and removed in a Java class": java(
            "Both", pair, {"a": int, "b": (str, "")}, {"a": int, "c": (str, "")}, ab, {"a": 2, "c": "y"}
        ),
        "field reordered in a Java class": java("Order", pair, {"a": int, "b": str}, {"b": str, "a": int}, ab, ab),
        "field made optional in a Java class": java(
            "Boxed", pair, {"a": int, "b": str}, {"a": int, "b": str | None}, ab, ab
        ),
        "text to bytes in a Java class": java(
            "Text", pair, {"a": int, "b": str}, {"a": int, "b": bytes}, ab, {"a": 1, "b": b"y"}
        ),
        "field added between in a Java class": java(
            "Between", pair, {"a": int, "b": str}, {"a": int, "aa": (bool, False), "b": str}, ab, {**ab, "aa": True}
        ),
        "list added to a Java class": java(
            "Listed",
            pair,
            {"a": int, "b": str},
            {"a": int, "b": str, "c": (list[str | None] | None, None)},
            ab,
            {**ab, "c": ["x"]},
        ),
        "symbol added in Java": Change(low, more_of_it, low.HIGH, (more_of_it.LOW,), (), (level,), "ENUM(back.Level)"),
        "field added within a Java class": Change(
            thing(java="Holder", inner=inner),
            thing(java="Holder", inner=wider),
            thing(java="Holder", inner=inner)(inner=inner(n=1)),
            (),
            (),
            ("public class Inner { public int n; }", holds),
            "POJO(back.Holder)",
        ),
        "number widened in a Java class": java(
            "Wider", "public int a;", {"a": Int32}, {"a": int}, {"a": 1}, {"a": 2**40}
        ),
        "null in a number of a Java class": java(
            "Null", "public int a;", {"a": Int32}, {"a": Int32 | None}, {"a": 1}, {"a": None}
        ),
    }


CHANGES = of_records() | of_subclasses() | of_others() | of_java()
PLACES = ("value", "list", "map", "field", "items", "split", "cast")


def placed():
    """Give each change with a place, in turn: {what it is called: (place, change)}; those of Java by themselves."""
    in_turn = cycle(PLACES)
    return {
        f"{name} ({place})": (place, change)
        for name, change in CHANGES.items()
        for place in ["value" if change.java else next(in_turn)]
    }


def job(place, hint):
    """A job with one state of a type, or of what the type lies in."""
    if place == "field":
        hint = thing(called="Around", x=hint)
    state = {
        "list": lambda: ListStateDescriptor("s", hint),
        "map": lambda: MapStateDescriptor("s", str, hint),
        "items": lambda: ValueStateDescriptor("s", list[hint]),
        "split": lambda: ListStateDescriptor("s", hint),
        "cast": lambda: MapStateDescriptor("s", str, hint),
    }.get(place, lambda: ValueStateDescriptor("s", hint))()
    beside = ValueStateDescriptor("beside", str)
    rooms = {"split": "list_states", "cast": "broadcast_states"}
    if place in rooms:
        return Job([Operator("op", key=str, states=[beside], **{rooms[place]: [state]})])
    return Job([Operator("op", key=str, states=[state, beside])])


def write(folder, place, program, values):
    """Write a savepoint of a job, with a value under each key."""
    with SavepointWriter(folder, program) as writer:
        writer.put("op", "beside", "k", "as it was")
        for at, value in enumerate(values):
            if place == "split":
                writer.add("op", "s", value)
            elif place == "cast":
                writer.put_broadcast("op", "s", f"k{at}", value)
            else:
                writer.put("op", "s", f"k{at}", _in(place, program, value))
    return folder


def _in(place, program, value):
    match place:
        case "field":
            return program.operators[0].states[0].state_serializer().python_class(x=value)
        case "list" | "items":
            return [value, value]
        case "map":
            return {"k": value}
    return value
