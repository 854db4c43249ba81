"""Records that contain themselves (COMP-3, harness case C18): bytes, snapshots, verdicts, conversions, limits."""

from __future__ import annotations

import dataclasses
import json
import pickle
import sys
import time
import types
from typing import NamedTuple

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stateshift import (
    AvroSerializer,
    CorruptSavepoint,
    DeclarationError,
    Int32,
    Record,
    ValueNotConvertible,
    Verdict,
    record,
    serializer_for,
)
from stateshift.compat.declarations import declared_facts, with_facts
from stateshift.compat.type_difference import type_text
from stateshift.serializers.containers.lists import ListSerializer
from stateshift.serializers.defaults import Default
from stateshift.serializers.primitives.numeric import IntSerializer, LongSerializer
from stateshift.serializers.records.classes import RecordField
from stateshift.serializers.records.recursion import most_levels
from stateshift.serializers.records.recursive import (
    RecordReference,
    RecordReferenceSnapshot,
    RecursiveRecordSerializer,
    RecursiveRecordSnapshot,
)
from stateshift.serializers.records.serializers import RecordSerializer
from stateshift.serializers.snapshot import SkippedSnapshot, snapshot_from_bytes, snapshot_to_bytes

START, COPY = Verdict.COMPATIBLE, Verdict.COMPATIBLE_AFTER_RECONFIGURATION
MIGRATE, REFUSE = Verdict.REQUIRES_MIGRATION, Verdict.INCOMPATIBLE


@attrs.define
class Node:
    name: str
    size: Int32 = 0
    children: list[Node] = attrs.field(factory=list)
    parent: Node | None = None
    by: dict[str, Node | None] = attrs.field(factory=dict)


@dataclasses.dataclass
class Person:
    name: str
    works_at: Firm | None = None


class Firm(NamedTuple):
    title: str
    staff: list[Person] = []  # noqa: RUF012 - a named tuple's default
    owner: Firm | None = None


@attrs.frozen
class Holding:
    """Contains those that contain themselves, and no one it."""

    node: Node
    firms: tuple[Firm, Person]


@attrs.frozen
class Term:
    pass


@record()
@attrs.frozen
class Number(Term):
    value: int


@record()
@attrs.frozen
class Sum(Term):
    left: Term
    right: Sum | None = None


@record(java_class="com.acme.Node")
@attrs.frozen
class JavaNode:
    children: list[JavaNode]


@attrs.frozen
class AroundJava:
    node: JavaInner | None = None


@record(java_class="com.acme.Inner")
@attrs.frozen
class JavaInner:
    around: AroundJava | None = None


# Each: id, version, length, checksum; name. Then one field: name, optional, the reference; no subclasses, no others.
GOLDEN = bytes.fromhex(
    "001b" + b"stateshift/recursive-record".hex() + "00000001 0000003f 1ace3b25 00014c 00000001 00016e 01"
    "001b" + b"stateshift/record-reference".hex() + "00000001 00000003 9930e5e8 00014c 00000000 00000000"
)
TREE = Node(
    "r", 1, [Node("c", children=[Node("d", 3)]), Node("e")], Node("p"), {"k": None, "l": Node("z", by={"m": None})}
)
ADA = Person("ada", Firm("acme", [Person("bo", Firm("b")), Person("cy")], Firm("holding", [Person("di")])))


def chain(length):
    """A node with so many nodes below it."""
    found = Node("x")
    for _ in range(length):
        found = Node("x", children=[found])
    return found


_HEAD = """
from __future__ import annotations
from typing import Annotated, NamedTuple
import attrs
from stateshift import Field, Int32
"""


def classes(source):
    """What a module of another version declares, under the name of this one."""
    module = types.ModuleType(__name__)
    known, sys.modules[__name__] = sys.modules[__name__], module
    try:
        exec(_HEAD + source, module.__dict__)  # noqa: S102 - the text of a test
        return {name: serializer_for(found) for name, found in module.__dict__.items() if name in {"Node", "Person"}}
    finally:
        sys.modules[__name__] = known


def other_node(fields):
    return classes(f"@attrs.define\nclass Node:\n    {fields}\n")["Node"]


SERIALIZER = serializer_for(Node)


class TestValues:
    @pytest.mark.parametrize(
        ("hint", "value"),
        [
            (Node, TREE),
            (Person, ADA),
            (Firm, ADA.works_at),
            (Holding, Holding(TREE, (ADA.works_at, ADA))),
            (list[Node], [TREE, TREE.parent]),
            (Term, Sum(Number(1), Sum(Sum(Number(2)), Sum(Number(3))))),
            (Sum, Sum(Sum(Number(1)), Sum(Number(2)))),
        ],
    )
    def test_values_are_as_they_were_with_classes_and_without(self, write, read, copied, stored, hint, value):
        serializer = serializer_for(hint)
        data = write(serializer, value)
        generic = stored(serializer).restore_serializer()

        assert value == read(serializer, data)
        assert data == copied(serializer, data)
        assert data == write(generic, read(generic, data))

    def test_the_bytes_are_those_of_records_in_records(self, write):
        flat = RecordSerializer(
            "Leaf", (RecordField("name", serializer_for(str)), RecordField("next", LongSerializer(), optional=True))
        )
        outer = RecordSerializer("Outer", (RecordField("name", serializer_for(str)), RecordField("next", flat)))
        link = classes("@attrs.define\nclass Node:\n    name: str\n    next: Node | None = None\n")["Node"]

        expected = write(outer, Record("Outer", {"name": "a", "next": Record("Leaf", {"name": "b", "next": None})}))
        inner = Record(link.name, {"name": "b", "next": None})
        assert expected == write(link, Record(link.name, {"name": "a", "next": inner}))

    def test_a_class_in_a_function_may_name_itself(self, write, read):
        @attrs.frozen
        class Local:
            below: Local | None = None

        serializer = serializer_for(Local)

        assert Local(Local()) == read(serializer, write(serializer, Local(Local())))

    def test_a_serializer_and_its_conversions_pickle(self, write, read, ask, stored):
        new = other_node("name: str\n    size: int\n    children: list[Node]")
        convert = pickle.loads(pickle.dumps(ask(new, SERIALIZER).conversion))
        generic = stored(SERIALIZER).restore_serializer()
        kept = pickle.loads(pickle.dumps(SERIALIZER))

        assert TREE == read(kept, write(kept, TREE))
        found = convert(read(generic, write(SERIALIZER, TREE)))
        assert 3 == found.children[0].children[0].size


class TestDeclarations:
    def test_a_cycle_has_each_class_once_and_references_within(self):
        serializer = serializer_for(Person)

        assert isinstance(serializer, RecursiveRecordSerializer)
        assert [f"{__name__}.Person", f"{__name__}.Firm"] == list(serializer.circle)
        assert RecordReference(f"{__name__}.Firm") == serializer.fields[1].serializer
        assert not isinstance(serializer_for(Holding), RecursiveRecordSerializer)

    @pytest.mark.parametrize(("cls", "name"), [(JavaNode, "com.acme.Node"), (AroundJava, "com.acme.Inner")])
    def test_a_java_class_that_contains_itself_is_refused_with_what_flink_does(self, cls, name):
        with pytest.raises(DeclarationError, match=f"{name} contains itself, .* Kryo") as caught:
            serializer_for(cls)

        assert "leave the java_class out" in caught.value.advice

    def test_a_default_within_a_cycle_is_checked_too(self):
        with pytest.raises(DeclarationError, match=r"the default of .*Node\.size does not fit"):
            other_node("size: Int32 = 2**40\n    below: Node | None = None")
        assert other_node("size: Int32 = 2\n    below: list[Node] = ()").circle

    def test_a_failed_declaration_leaves_nothing_behind(self):
        with pytest.raises(DeclarationError, match="no serializer is known for complex"):
            other_node("below: Node | None\n    odd: complex")

        assert serializer_for(Node) == SERIALIZER


class TestSnapshots:
    def test_it_is_a_tree_that_names_each_class_once(self, stored):
        person = stored(serializer_for(Person))

        assert isinstance(person, RecursiveRecordSnapshot)
        assert [f"{__name__}.Firm"] == [other.record_name() for other in person.others]
        assert (
            f"record {__name__}.Person{{name: string, works_at: optional<record {__name__}.Firm{{owner: "
            f"optional<record {__name__}.Firm{{…}}>, staff: list<record {__name__}.Person{{…}}>, title: string}}>}}"
        ) == type_text(person)
        assert not person.is_flink

    def test_its_bytes_stay_as_they_are_snap_8(self):
        link = RecursiveRecordSerializer("L", (RecordField("n", RecordReference("L"), optional=True),))

        assert GOLDEN == snapshot_to_bytes(link.snapshot_configuration())

    def test_a_release_that_does_not_know_it_shows_it_by_name(self):
        data = snapshot_to_bytes(SERIALIZER.snapshot_configuration()).replace(b"recursive-record", b"recursive-recxyz")

        skipped = snapshot_from_bytes(data)
        assert isinstance(skipped, SkippedSnapshot)
        assert data == snapshot_to_bytes(skipped)

    def test_dangling_references_are_reported_when_they_are_followed(self, read, ask):
        stray = RecordReferenceSnapshot("Gone")
        lost = RecordSerializer("R", (RecordField("a", RecordReference("Gone")),))

        assert ("Gone", "Gone") == (stray.describe(), type_text(stray))
        with pytest.raises(CorruptSavepoint, match="a reference to the record 'Gone', which does not contain it"):
            read(stray.restore_serializer(), b"\x02")
        with pytest.raises(CorruptSavepoint, match="'Gone'"):
            ask(lost, lost)
        with pytest.raises(CorruptSavepoint, match="'Gone'"):
            SERIALIZER.ensure_compatibility(stray)

    def test_two_records_of_one_name_and_a_reference_in_place_of_a_record_are_damage(self):
        twin = RecursiveRecordSnapshot("R", (), (), (RecursiveRecordSnapshot("R"),))
        pointer = RecursiveRecordSnapshot("R", (), (), (RecordReferenceSnapshot("R"),))

        with pytest.raises(CorruptSavepoint, match="two records around R have the same name"):
            snapshot_from_bytes(snapshot_to_bytes(twin))
        with pytest.raises(CorruptSavepoint, match="a record is described by a RecordReferenceSnapshot"):
            snapshot_from_bytes(snapshot_to_bytes(pointer))

    def test_what_the_code_says_beyond_it_comes_back_to_every_record_of_the_cycle(self, ask):
        person = serializer_for(Person)
        facts = json.loads(json.dumps(declared_facts(person)))
        kept = with_facts(person.snapshot_configuration().restore_serializer(), facts)

        assert {field.name: field.default is not None for field in kept.others[0].fields} == {
            "owner": True, "staff": True, "title": False,
        }  # fmt: skip
        assert START is ask(kept, person).verdict


class TestVerdicts:
    def test_a_cycle_takes_over_its_own_state(self, ask):
        for hint in (Node, Person, Firm, Holding, Term):
            assert (START, ()) == ((found := ask(serializer_for(hint), serializer_for(hint))).verdict, found.findings)

    def test_recursion_terminates_with_one_problem_at_its_first_path_c18(self, ask, rules):
        refused = ask(other_node("name: int\n    children: list[Node]\n    parent: Node | None"), SERIALIZER)

        assert REFUSE is refused.verdict
        assert [("$.by", "REC-4"), ("$.size", "REC-4"), ("$.name", "PRIM-4")] == rules(refused)

    def test_every_problem_of_the_others_is_reported_once(self, ask, rules):
        new = classes(
            "class Firm(NamedTuple):\n    title: int\n    staff: list[Person] = []\n    owner: Firm | None = None\n"
            "@attrs.define\nclass Person:\n    name: str\n    age: int\n    works_at: Firm | None = None\n"
        )["Person"]

        assert [("$.age", "REC-3"), ("$.works_at?.title", "PRIM-4")] == rules(ask(new, serializer_for(Person)))

    def test_a_migration_converts_at_every_level(self, ask, rules, migrate):
        new = other_node(
            "title: Annotated[str, Field(aliases=('name',))]\n    size: int\n    children: list[Node]\n"
            "    parent: Node | None\n    by: dict[str, Node | None]\n    tag: str = '-'"
        )

        assert [("$.tag", "REC-2"), ("$.title", "REC-6"), ("$.size", "PRIM-2")] == rules(ask(new, SERIALIZER))
        found = migrate(new, SERIALIZER, TREE)
        leaf, lost = found.children[0].children[0], found.by["l"].by
        assert (("d", 3, "-"), {"m": None}, "p") == ((leaf.title, leaf.size, leaf.tag), lost, found.parent.title)

    def test_a_copy_is_reconfigured_at_every_level_comp_4(self, ask, read, write):
        new = classes(
            "class Firm(NamedTuple):\n    owner: Firm | None\n    staff: list[Person]\n"
            "    a_title: Annotated[str, Field(aliases=('title',))]\n"
            "@attrs.define\nclass Person:\n    works_at: Firm | None\n"
            "    full: Annotated[str, Field(aliases=('name',))]\n"
        )["Person"]

        result = ask(new, serializer_for(Person))
        found = read(result.reconfigured_serializer, write(serializer_for(Person), ADA))

        assert COPY is result.verdict
        assert ("ada", "acme", "b", "holding", "di") == (
            found.full, found.works_at.a_title, found.works_at.staff[0].works_at.a_title,
            found.works_at.owner.a_title, found.works_at.owner.staff[0].full,
        )  # fmt: skip

    @pytest.mark.parametrize(("field", "verdict"), [("b", COPY), ("zz", MIGRATE)])
    def test_what_is_stored_in_two_ways_is_migrated_and_not_copied_comp_4(
        self, ask, read, write, rules, field, verdict
    ):
        """Two old classes became one: within itself, one copy would read only one of two orders of the fields."""

        def record_of(name, *names, **more):
            within = {"z": RecordField("z", RecordReference("R"), optional=True)}
            fields = (within.get(one) or RecordField(one, LongSerializer(), aliases=("a", field)) for one in names)
            return RecordSerializer(name, tuple(fields), **more)

        def pair_of(x, y, *others):
            fields = (RecordField("x", RecordReference(x)), RecordField("y", RecordReference(y)))
            return RecursiveRecordSerializer("R", fields, others=others)

        old = pair_of("One", "Two", record_of("One", "a", "z"), record_of("Two", *sorted((field, "z"))))
        new = pair_of("One", "One", record_of("One", "c", "z", aliases=("Two",)))
        value = Record("R", {"x": Record("One", {"a": 1, "z": None}), "y": Record("Two", {field: 2, "z": None})})

        result, data = ask(new, old), write(old, value)
        assert (verdict, verdict is MIGRATE) == (result.verdict, ("$", "COMP-4") in rules(result))
        if verdict is MIGRATE:
            found = read(new, write(new, result.conversion(value)))
        else:
            found = read(result.reconfigured_serializer, data)
        assert (1, 2) == (found.x.c, found.y.c)

    def test_recursion_may_begin_and_end(self, ask, migrate):
        flat = other_node("name: str\n    size: Int32")

        assert MIGRATE is ask(SERIALIZER, flat).verdict is ask(flat, SERIALIZER).verdict
        assert Node("n", 4) == migrate(SERIALIZER, flat, Record(flat.name, {"name": "n", "size": 4}))
        assert flat.python_class("r", 1) == migrate(flat, SERIALIZER, TREE)

    def test_a_class_may_leave_a_cycle_and_enter_it(self, migrate):
        circle = serializer_for(Person)
        line = classes(
            "class Firm(NamedTuple):\n    title: str\n"
            "@attrs.define\nclass Person:\n    name: str\n    works_at: Firm | None = None\n"
        )["Person"]

        found = migrate(line, circle, ADA)
        assert not line.circle
        assert ("ada", "acme") == (found.name, found.works_at.title)
        assert Person("ada", Firm("acme")) == migrate(circle, line, found)

    def test_avro_and_records_that_contain_themselves_become_one_another_fam_4(self, ask, rules, migrate):
        serializer, avro = serializer_for(Person), AvroSerializer.of(Person)

        assert [("$", "FAM-4")] == rules(ask(avro, serializer)) == rules(ask(serializer, avro))
        assert ADA == migrate(avro, serializer, ADA)
        assert ADA == migrate(serializer, avro, ADA)


class TestLimits:
    def test_values_are_followed_to_a_depth_that_is_reported(self, write, read):
        deepest = most_levels()

        assert chain(deepest) == read(SERIALIZER, write(SERIALIZER, chain(deepest)))
        with pytest.raises(ValueNotConvertible, match=f"nested within itself more than {deepest} levels") as caught:
            write(SERIALIZER, chain(deepest + 1))
        assert "map state or list state" in caught.value.advice

    @pytest.mark.parametrize("length", [10_000])
    def test_a_value_that_is_far_too_deep_is_an_error_and_soon(self, write, length):
        value = chain(length)
        began = time.monotonic()

        with pytest.raises(ValueNotConvertible, match="or contains itself"):
            write(SERIALIZER, value)
        assert time.monotonic() - began < 1

    def test_a_value_that_contains_itself_is_an_error(self, write):
        node = Node("x")
        node.children.append(node)

        with pytest.raises(ValueNotConvertible, match="or contains itself"):
            write(SERIALIZER, node)

    @pytest.mark.parametrize("generic", [False, True])
    def test_bytes_that_go_deeper_and_deeper_are_damage(self, write, read, stored, generic):
        serializer = stored(SERIALIZER).restore_serializer() if generic else SERIALIZER
        inner, outer = write(SERIALIZER, chain(0)), write(SERIALIZER, chain(1))
        opening = outer[: outer.index(inner, 1)]
        began = time.monotonic()

        with pytest.raises(CorruptSavepoint, match="nested within itself") as caught:
            read(serializer, opening * 200_000)
        assert time.monotonic() - began < 2
        assert 0 == caught.value.where["offset"]
        assert "path" not in caught.value.where

    def test_a_type_that_takes_many_calls_a_level_is_no_recursion_error(self, write):
        hint = "Node | None"
        for _ in range(12):
            hint = f"list[{hint}]"
        nested = other_node(f"below: {hint}")
        value = Record(nested.name, {"below": []})
        for _ in range(90):
            inner = value
            for _ in range(12):
                inner = [inner]
            value = Record(nested.name, {"below": inner})

        with pytest.raises(ValueNotConvertible, match="nested within itself"):
            write(nested, value)

    def test_levels_are_counted_from_zero_for_each_value(self, write, read):
        values = [chain(most_levels()) for _ in range(3)]
        serializer = serializer_for(list[Node])

        assert values == read(serializer, write(serializer, values))


def tree(name, size, below=(), after=None):
    return {"name": name, "size": size, "below": list(below), "next": after}


NAMES, SIZES = st.text(max_size=2), st.integers(-9, 9)
TREES = st.recursive(
    st.builds(tree, NAMES, SIZES),
    lambda inner: st.builds(tree, NAMES, SIZES, st.lists(inner, max_size=3), st.none() | inner),
    max_leaves=12,
)


def link(size, *, renamed=False, dropped=False, added=False):
    """The record of these trees, changed in some ways."""
    name = RecordField("title" if renamed else "name", serializer_for(str), aliases=("name",) if renamed else ())
    within = RecordReference("Tree")
    fields = [name, RecordField("below", ListSerializer(within)), RecordField("next", within, optional=True)]
    fields += [] if dropped else [RecordField("size", size)]
    fields += [RecordField("z", LongSerializer(), default=Default(7))] if added else []
    return RecursiveRecordSerializer("Tree", tuple(sorted(fields, key=lambda field: field.name)))


@given(TREES, st.booleans(), st.booleans(), st.booleans(), st.booleans())
def test_what_the_verdict_says_happens_at_every_level_v_5(
    write, read, ask, stored, drawn, wide, renamed, dropped, added
):
    old = link(IntSerializer())
    new = link(LongSerializer() if wide else IntSerializer(), renamed=renamed, dropped=dropped, added=added)

    def given_as(data, model):
        parts = {**data, "below": [given_as(one, model) for one in data["below"]]}
        parts["next"] = None if data["next"] is None else given_as(data["next"], model)
        return Record("Tree", model(parts))

    def expected(parts):
        found = dict(parts)
        if renamed:
            found["title"] = found.pop("name")
        if dropped:
            del found["size"]
        return found | ({"z": 7} if added else {})

    data = write(old, given_as(drawn, dict))
    result = ask(new, old)

    migrates = dropped or added or wide
    assert (MIGRATE if migrates else COPY if renamed else START) is result.verdict
    if migrates:
        stored_value = read(stored(old).restore_serializer(), data)
        found = read(new, write(new, result.conversion(stored_value)))
    else:
        found = read(result.reconfigured_serializer if renamed else new, data)
    assert given_as(drawn, expected) == found
