"""An example for each decision of the rule book: the code answers with the verdict that the page shows."""

from __future__ import annotations

from decimal import Decimal

import attrs
import pytest

from stateshift import (
    AvroSerializer,
    Instant,
    Int32,
    LocalDate,
    LocalDateTime,
    PickleSerializer,
    Verdict,
    row_of,
    serializer_for,
)
from stateshift.compat.rules import rule_book
from stateshift.serializers.containers.lists import ListSerializer
from stateshift.serializers.containers.object_arrays import GenericArraySerializer
from stateshift.serializers.containers.ttl import TtlSerializer
from stateshift.serializers.containers.wrappers import OptionalSerializer
from stateshift.serializers.enums.serializers import EnumSerializer
from stateshift.serializers.pickled.serializers import PickleSnapshot, UnopenedPickleSerializer
from stateshift.serializers.pickled.values import Shape
from stateshift.serializers.primitives.numeric import LongSerializer
from stateshift.serializers.pyflink.contents import PyFlinkBytes
from stateshift.serializers.records.hints import record_serializer
from stateshift.serializers.snapshot import snapshot_from_bytes, snapshot_to_bytes

LONG = LongSerializer()


def letters(symbols, name="shop.Letter", **options):
    return EnumSerializer(tuple(symbols), name, **options)


def record(name="shop.Account", options=None, /, **fields):
    """A record of fields by name: a hint, or a hint and a default."""
    made = {
        field: attrs.field(type=given[0], default=given[1]) if isinstance(given, tuple) else attrs.field(type=given)
        for field, given in fields.items()
    }
    serializer = record_serializer(attrs.make_class("Account", made, kw_only=True))
    return attrs.evolve(serializer, name=name, **options or {})


def aliased(serializer, **aliases):
    """The record with former names of its fields."""
    fields = tuple(attrs.evolve(field, aliases=aliases.get(field.name, ())) for field in serializer.fields)
    return attrs.evolve(serializer, fields=fields)


def avro(*fields, name="Account"):
    return AvroSerializer(
        {"type": "record", "name": name, "fields": [{"name": field, "type": kind} for field, kind in fields]}
    )


@attrs.frozen
class Ticket:
    """Found by its name, as pickled classes must be."""

    seat: int


@attrs.frozen
class MovedTicket:
    """What it is called in another module."""

    seat: int


PICKLED = PickleSerializer(Ticket)


def stored_pickle(*fields, name=PICKLED.fingerprint.name):
    """Pickles of a class with other fields, or of another class."""
    changed = attrs.evolve(PICKLED.fingerprint, classes=(Shape(name, fields),))
    return UnopenedPickleSerializer(PickleSnapshot(changed))


def as_it_is(ticket):
    return ticket


EXAMPLES = [  # rule, stored, new: hints or serializers
    ("PRIM-1", int, int),
    ("PRIM-2", Int32, int),
    ("PRIM-3", int, Int32),
    ("PRIM-4", int, str),
    ("TEXT-1", str, bytes),
    ("TEXT-2", bytes, str),
    ("TIME-1", Instant, Instant),
    ("TIME-4", Instant, LocalDateTime),
    ("TIME-5", LocalDate, LocalDateTime),
    ("OPT-1", LONG, OptionalSerializer(LONG)),
    ("OPT-2", OptionalSerializer(LONG), LONG),
    ("OPT-4", dict[str, int], dict[str, int | None]),
    ("OPT-4", set[int], set[int | None]),
    ("ENUM-1", letters("AB"), letters("AB")),
    ("ENUM-2", letters("AB"), letters("ACB")),
    ("ENUM-3", letters("AB"), letters("BA")),
    ("ENUM-4", letters("AB"), letters("A")),
    ("ENUM-5", letters("AB"), letters("A", default="A")),
    ("ENUM-7", letters("AB"), letters("AB", "shop.Moved", aliases=("shop.Letter",))),
    ("ENUM-8", letters("AB"), str),
    ("LIST-1", list[int], list[int]),
    ("LIST-3", list[int], set[int]),
    ("LIST-3", tuple[int, int], list[int]),
    ("MAP-1", dict[str, int], dict[str, int]),
    ("MAP-4", dict[str, int], list[int]),
    ("TUP-1", tuple[int, str], tuple[int, str]),
    ("TUP-3", tuple[int, str], tuple[int, str, int]),
    ("REC-1", record(id=int), record(id=int)),
    ("REC-2", record(id=int), record(id=int, tag=(str, ""))),
    ("REC-3", record(id=int), record(id=int, tag=str)),
    ("REC-3", record(id=int), record(id=int, tag=str | None)),
    ("REC-4", record(id=int, tag=str), record(id=int)),
    ("REC-5", record(id=int, tag=str), record(tag=str, id=int)),
    ("REC-6", record(id=int, tag=str), aliased(record(id=int, aaa=str), aaa=("tag",))),
    ("REC-9", record(id=int, tag=(str, "")), record(id=int, tag=str)),
    ("REC-10", record(id=int), record(id=int | None)),
    ("REC-11", record("shop.Was", id=int), record("shop.Is", {"aliases": ("shop.Was",)}, id=int)),
    ("REC-16", record(id=int), record("shop.Account", {"retired": ("tag",)}, id=int, tag=(int, 0))),
    ("ROW-2", row_of({"a": int, "b": int}), row_of({"b": int, "a": int}, stored={"a": int, "b": int})),
    ("ROW-6", row_of({"a": int, "b": int}), row_of({"b": int, "a": int}, stored={"a": int, "b": int})),
    ("ROW-4", row_of({"a": int, "b": int}), row_of({"a": int}, stored={"a": int, "b": int})),
    ("FAM-1", PICKLED, Ticket),
    ("FAM-3", Ticket, PICKLED),
    ("PKL-1", PICKLED, PICKLED),
    ("PKL-2", PickleSerializer(Ticket, protocol=2), PICKLED),
    ("PKL-3", PICKLED, PickleSerializer(MovedTicket, aliases=(PICKLED.fingerprint.name,))),
    ("PKL-4", stored_pickle("row"), PickleSerializer(Ticket, upgrade=as_it_is)),
    ("FAM-2", letters("AB"), list[int]),
    ("FAM-4", ListSerializer(LONG), GenericArraySerializer(LONG, "java.lang.Long")),
    ("FAM-4", record(id=int, tag=str | None), avro(("tag", ["null", "string"]), ("id", "long"))),
    ("FAM-4", avro(("id", "int"), name="shop.Account"), record(id=int)),
    ("DEC-3", Decimal, AvroSerializer({"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2})),
    ("PYF-1", PyFlinkBytes(LONG), PyFlinkBytes(LONG)),
    ("AV-3", avro(("a", "string")), avro(("a", "int"))),
    ("AV-4", avro(("a", "int")), avro(("a", "long"))),
    ("AV-5", avro(("a", "int")), avro(("a", "double"))),
    ("AV-10", avro(("a", "int")), avro(("a", "int"), name="Other")),
    ("STATE-4", LONG, TtlSerializer(LONG)),
    ("STATE-5", TtlSerializer(LONG), LONG),
]
"""For a verdict that names two, the example is of the first."""


def first_of(rule):
    """The verdict that stands first on the page; what is refused in this release is incompatible."""
    label = "incompatible" if rule.release == "Refused." else rule.verdict.split()[0].strip(",;")
    return Verdict[label.upper()]


@pytest.mark.parametrize(("identifier", "old", "new"), EXAMPLES, ids=[example[0] for example in EXAMPLES])
def test_the_code_answers_as_the_page_says(identifier, old, new):
    result = serializer_for(new).ensure_compatibility(
        snapshot_from_bytes(snapshot_to_bytes(serializer_for(old).snapshot_configuration()))
    )

    assert first_of(rule_book()[identifier]) is result.verdict
