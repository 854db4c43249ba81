"""Records: bytes, snapshots and rules REC-1 to REC-17, for attrs classes, dataclasses and named tuples."""

import dataclasses
import pickle
import sys
import textwrap
import types
from typing import Annotated, Any, NamedTuple

import attrs
import cloudpickle
import pytest

from stateshift import (
    CompatibilityResult,
    DeclarationError,
    Field,
    Int32,
    OldReaderUnavailable,
    Record,
    ValueNotConvertible,
    Verdict,
    record,
    serializer_for,
)
from stateshift.compat.description import SerializerDescription
from stateshift.compat.type_difference import compare_types
from stateshift.serializers.avro.schema import AvroField, parse
from stateshift.serializers.containers.lists import MapSerializer
from stateshift.serializers.defaults import NO_VALUE
from stateshift.serializers.primitives.text import StringSerializer
from stateshift.serializers.records.hints import record_serializer
from stateshift.serializers.records.serializers import RecordSerializer
from stateshift.serializers.snapshot import SkippedSnapshot

SHOP = "shop.Account"


def named(cls: type, name: str = SHOP, **options: Any) -> RecordSerializer:
    """The serializer of a class, under a name that two versions of it share."""
    return attrs.evolve(record_serializer(cls), name=name, **options)


@attrs.frozen
class One:
    id: int
    name: str
    visits: Int32
    note: str | None = None


@dataclasses.dataclass(frozen=True)
class SameAsDataclass:
    note: str | None
    name: str
    id: int
    visits: Int32


class SameAsNamedTuple(NamedTuple):
    id: int
    name: str
    visits: Int32
    note: str | None = None


@attrs.frozen
class Two:
    id: int
    name: str
    visits: int
    email: str | None = None
    tags: list[str] = attrs.field(factory=list)


@attrs.frozen
class Renamed:
    id: int
    title: Annotated[str, Field(aliases=("label", "name"))]
    visits: Int32
    note: str | None = None


@attrs.frozen
class AlmostSame:
    id: int
    nama: Annotated[str, Field(aliases=("name",))]
    visits: Int32
    note: str | None = None


class TestBytes:
    def test_a_record_is_a_flag_and_its_fields_by_name_each_after_a_null_flag(self, write) -> None:
        data = write(record_serializer(One), One(7, "ab", 3))

        assert bytes.fromhex("0200000000000000000700036162010000000003") == data

    @pytest.mark.parametrize("cls", [One, SameAsDataclass, SameAsNamedTuple])
    def test_values_of_each_kind_of_class_come_back_equal(self, write, read, cls: type) -> None:
        value = cls(id=1, name="é", visits=-2, note="n")

        assert value == read(record_serializer(cls), write(record_serializer(cls), value))

    def test_a_restored_serializer_reads_generic_records_and_writes_the_same_bytes(self, write, read, stored) -> None:
        data = write(named(One), One(7, "ab", 3))
        generic = stored(named(One)).restore_serializer()

        value = read(generic, data)

        assert Record(SHOP, {"id": 7, "name": "ab", "note": None, "visits": 3}) == value
        assert value == pickle.loads(pickle.dumps(value))
        assert data == write(generic, value)
        assert data == write(named(One), value)

    def test_snap_9_names_fields_and_types_are_reported_where_the_class_is_not(self, stored) -> None:
        snapshot = stored(attrs.evolve(named(One), name="gone.shop.Account"))

        assert "gone.shop.Account" == snapshot.record_name()
        assert [("id", "long"), ("name", "string"), ("note", "optional<string>"), ("visits", "int")] == [
            (field.name, field.describe()) for field in snapshot.stored_fields()
        ]

    def test_a_null_in_a_field_that_is_not_optional_names_the_field(self, write) -> None:
        with pytest.raises(ValueNotConvertible, match=r"found null in the field 'name'.*\n.*path \$\.name") as caught:
            write(record_serializer(One), Record(SHOP, {"id": 1, "name": None, "visits": 1, "note": None}))

        assert "$.name" == caught.value.where["path"]

    def test_an_error_in_a_nested_value_has_the_whole_path(self, write) -> None:
        @attrs.frozen
        class Order:
            account: One
            lines: list[Int32]

        serializer = RecordSerializer("Order", _nested_fields())
        with pytest.raises(ValueNotConvertible) as caught:
            write(serializer, Order(One(1, "a", 2), [1, 2**40]))

        assert "$.lines[]" == caught.value.where["path"]

    def test_a_subclass_that_is_not_registered_is_refused_by_name(self, write) -> None:
        class Special(One):
            pass

        with pytest.raises(ValueNotConvertible, match=r"Special is a subclass of .*One that is not registered"):
            write(record_serializer(One), Special(1, "a", 2))

    def test_a_constructor_that_refuses_stored_values_says_which_class(self, write, read) -> None:
        @attrs.frozen
        class Picky:
            id: int = attrs.field(validator=attrs.validators.gt(10))

        data = write(record_serializer(Picky), Record("x", {"id": 3}))

        with pytest.raises(ValueNotConvertible, match="Picky cannot be built from its stored fields"):
            read(record_serializer(Picky), data)


def _nested_fields() -> tuple[Any, ...]:
    from stateshift.serializers.records.classes import RecordField

    return (
        RecordField("account", record_serializer(One)),
        RecordField("lines", serializer_for(list[Int32])),
    )


class TestSameRecord:
    def test_rec_1_the_same_class_is_compatible(self, ask) -> None:
        assert CompatibilityResult.compatible() == ask(named(One), named(One))

    @pytest.mark.parametrize("other", [SameAsDataclass, SameAsNamedTuple])
    def test_rec_5_and_12_order_and_kind_of_class_do_not_matter(self, ask, other: type) -> None:
        assert ask(named(other), named(One)).is_compatible_as_is()
        assert ask(named(One), named(other)).is_compatible_as_is()

    def test_rec_9_a_changed_default_is_invisible(self, ask) -> None:
        @attrs.frozen
        class OtherDefault:
            id: int
            name: str = "none"
            visits: Int32 = 5
            note: str | None = "x"

        assert ask(named(OtherDefault), named(One)).is_compatible_as_is()


class TestChangedFields:
    def test_rec_13_every_change_is_found_and_the_worst_decides(self, ask, rules) -> None:
        result = ask(named(Two), named(One))

        assert Verdict.REQUIRES_MIGRATION == result.verdict
        assert [("$.note", "REC-4"), ("$.email", "REC-2"), ("$.tags", "REC-2"), ("$.visits", "PRIM-2")] == rules(result)
        assert ("$.note", "drops:$.note") in result.flags

    def test_migrated_records_keep_values_widen_and_get_defaults(self, migrate) -> None:
        assert Two(7, "ab", 3) == migrate(named(Two), named(One), One(7, "ab", 3, "gone"))

    def test_a_default_factory_is_called_for_each_record(self, ask) -> None:
        conversion = ask(named(Two), named(One)).conversion
        assert conversion is not None
        first, second = (conversion(Record(SHOP, attrs.asdict(One(i, "a", 1)))) for i in range(2))

        assert first.tags == second.tags == []
        assert first.tags is not second.tags

    def test_rec_3_a_field_without_default_is_refused_and_optional_alone_is_no_default(self, ask) -> None:
        @attrs.frozen
        class More:
            id: int
            name: str
            visits: Int32
            note: str | None
            plan: str | None

        result = ask(named(More), named(One))

        assert result.is_incompatible()
        (finding,) = result.findings
        assert ("$.plan", "REC-3") == (finding.path, finding.rule)
        assert "optional alone is not a default" in finding.reason
        assert "plan = None" in str(finding.ways_out[0])

    def test_rec_3_a_field_that_may_be_renamed_has_the_alias_as_a_way_out(self, ask) -> None:
        @attrs.frozen
        class NoAlias:
            id: int
            visits: Int32
            title: str
            note: str | None = None

        (_, finding) = ask(named(NoAlias), named(One)).findings

        assert ("$.title", "REC-3") == (finding.path, finding.rule)
        assert finding.reason.endswith("; was it called 'name'?")
        assert "if it was called 'name': Field(aliases=['name']) on title" == str(finding.ways_out[0])
        assert str(finding.ways_out[1]).startswith("give it a default: title = …")

    def test_rec_7_a_drop_and_an_add_of_one_type_may_be_a_rename(self, ask) -> None:
        @attrs.frozen
        class NoAlias:
            id: int
            visits: Int32
            note: str | None = None
            title: str = ""

        result = ask(named(NoAlias), named(One))

        assert ("$.name", "possible_rename:name->title") in result.flags
        assert any("aliases=['name']" in way for finding in result.findings for way in map(str, finding.ways_out))

    def test_rec_8_a_changed_type_has_the_verdict_of_the_types(self, ask, rules) -> None:
        @attrs.frozen
        class TextVisits:
            id: int
            name: str
            visits: str
            note: str | None = None

        result = ask(named(TextVisits), named(One))

        assert result.is_incompatible()
        assert [("$.visits", "PRIM-4")] == rules(result)

    def test_rec_15_a_default_that_came_and_went_fits_the_latest_version_and_not_the_first(self, ask, rules) -> None:
        first, latest, candidate = (
            named(cls)
            for cls in (
                attrs.make_class("First", {"id": attrs.field(type=int)}),
                attrs.make_class("Latest", {"id": attrs.field(type=int), "tag": attrs.field(type=str, default="")}),
                attrs.make_class("Candidate", {"id": attrs.field(type=int), "tag": attrs.field(type=str)}),
            )
        )

        assert ask(candidate, latest).is_compatible_as_is()
        assert [("$.tag", "REC-3")] == rules(ask(candidate, first))

    def test_rec_16_a_retired_name_must_not_come_back(self, ask, rules) -> None:
        new = named(Two, retired=("email",))

        assert ("$.email", "REC-16") in rules(ask(new, named(One)))
        assert ask(new, named(One)).is_incompatible()
        assert ask(named(One, retired=("name",)), named(One)).is_incompatible()

    def test_rec_16_a_retired_name_may_come_back_with_the_type_that_it_had(self, ask, rules) -> None:
        @record(retired={"tag": str, "rank": Int32, "gone": list[int]})
        @attrs.frozen
        class Back:
            tag: str | None = None
            rank: int = 0

        @attrs.frozen
        class Bare:
            pass

        result = ask(record_serializer(Back), attrs.evolve(record_serializer(Bare), name=record_serializer(Back).name))

        assert [("$.rank", "REC-16"), ("$.tag", "REC-2")] == rules(result)
        assert "the name is retired and must not come back as a long: it was an int" == result.findings[0].reason
        assert ("int", "long") == (result.findings[0].old, result.findings[0].new)


class TestNulls:
    @attrs.frozen
    class Required:
        id: int
        name: str
        visits: Int32
        note: str

    @attrs.frozen
    class WithOnNone:
        id: int
        name: str
        visits: Int32
        note: Annotated[str, Field(on_none="-")]

    def test_rec_10_making_a_field_optional_changes_no_byte(self, ask) -> None:
        assert ask(named(One), named(self.Required)).is_compatible_as_is()

    def test_opt_2_making_it_required_is_refused(self, ask, rules) -> None:
        result = ask(named(self.Required), named(One))

        assert result.is_incompatible()
        assert [("$.note", "OPT-2")] == rules(result)

    def test_rec_10_with_on_none_it_migrates_and_is_lossy(self, ask, migrate) -> None:
        new = named(self.WithOnNone)

        assert ("$.note", "lossy") in ask(new, named(One)).flags
        assert self.WithOnNone(1, "a", 2, "-") == migrate(new, named(One), One(1, "a", 2, None))
        assert self.WithOnNone(1, "a", 2, "kept") == migrate(new, named(One), One(1, "a", 2, "kept"))


class TestNames:
    def test_rec_6_a_rename_by_alias_keeps_the_stored_order(self, write, read, ask, rules) -> None:
        result = ask(named(Renamed), named(One))

        assert Verdict.COMPATIBLE_AFTER_RECONFIGURATION == result.verdict
        assert [("$.title", "REC-6")] == rules(result)
        copy = result.reconfigured_serializer
        data = write(named(One), One(1, "x", 2))
        assert Renamed(1, "x", 2) == read(copy, data)
        assert data == write(copy, Renamed(1, "x", 2))

    def test_a_kept_order_is_kept_by_the_next_generation_too(self, write, ask) -> None:
        copy = ask(named(Renamed), named(One)).reconfigured_serializer

        again = ask(named(Renamed), copy)

        assert Verdict.COMPATIBLE_AFTER_RECONFIGURATION == again.verdict
        assert write(copy, Renamed(1, "x", 2)) == write(again.reconfigured_serializer, Renamed(1, "x", 2))

    def test_two_fields_that_claim_one_stored_field_are_an_error(self, ask) -> None:
        @attrs.frozen
        class Twice:
            id: int
            name: str
            title: Annotated[str, Field(aliases=("name",))]
            visits: Int32
            note: str | None = None

        with pytest.raises(DeclarationError, match="claimed by 'name' and, as an alias, by 'title'"):
            ask(named(Twice), named(One))

    def test_fields_that_would_swap_by_their_aliases_are_an_error_where_both_are_stored(self, ask) -> None:
        @attrs.frozen
        class Swapped:
            email: Annotated[str, Field(aliases=("name",))]
            name: Annotated[str, Field(aliases=("email",))]

        fields = [attrs.evolve(field, aliases=()) for field in named(Swapped).fields]
        with pytest.raises(DeclarationError, match="the aliases of 'email', 'name' swap them"):
            ask(named(Swapped), named(Swapped, fields=tuple(fields)))

    def test_a_field_may_keep_the_name_that_another_one_had_once(self, ask) -> None:
        @attrs.frozen
        class Later:
            id: int
            title: Annotated[str, Field(aliases=("name",))]
            name: str = ""

        assert ask(named(Later), named(Later)).is_compatible_as_is()

    def test_rec_11_another_class_name_needs_an_alias(self, ask, rules) -> None:
        assert [("$", "REC-11")] == rules(ask(named(One, "shop.Customer"), named(One)))
        assert ask(named(One, "shop.Customer"), named(One)).is_incompatible()

    def test_rec_11_with_an_alias_it_is_reconfigured_and_composes_with_changes(self, ask) -> None:
        moved = named(Two, "shop.Customer", aliases=(SHOP,))

        assert ask(named(One, "shop.Customer", aliases=(SHOP,)), named(One)).is_compatible_after_reconfiguration()
        assert Verdict.REQUIRES_MIGRATION == ask(moved, named(One)).verdict


@record(java_class="com.shop.Account")
@attrs.frozen
class JavaOne:
    id: int
    name: str
    visits: Int32
    tags: list[str] | None = None


class TestJavaClass:
    def test_snap_7_giving_a_record_its_java_class_is_a_reconfiguration(self, ask) -> None:
        @attrs.frozen
        class Plain:
            id: int
            name: str
            visits: Int32

        python = record_serializer(Plain)
        java = serializer_for(Plain)
        from stateshift.serializers.records.pojo import PojoSerializer

        java = PojoSerializer("com.shop.Account", python.fields, Plain, python.name)

        assert ask(java, python).is_compatible_after_reconfiguration()
        assert ask(attrs.evolve(python, aliases=("com.shop.Account",)), java).is_compatible_after_reconfiguration()

    def test_rec_17_required_fields_of_a_java_class_may_fail_per_value(self, ask) -> None:
        result = ask(record_serializer(JavaOne), record_serializer(JavaOne))

        assert result.is_compatible_as_is()
        assert {
            ("$.id", "may_fail_per_value"),
            ("$.name", "may_fail_per_value"),
            ("$.visits", "may_fail_per_value"),
        } == set(result.flags)

    def test_rec_10_on_none_of_a_java_class_migrates_so_that_no_null_stays(self, ask, migrate) -> None:
        @record(java_class="com.shop.Account")
        @attrs.frozen
        class Boxed:
            visits: int | None = None

        @record(java_class="com.shop.Account")
        @attrs.frozen
        class Primitive:
            visits: Annotated[int, Field(on_none=-1)] = 0

        new, old = record_serializer(Primitive), record_serializer(Boxed)
        result = ask(new, old)

        assert Verdict.REQUIRES_MIGRATION is result.verdict
        assert (("$.visits", "lossy"),) == result.flags
        assert "remove on_none" in str(result.findings[0].ways_out[0])
        assert Primitive(-1) == migrate(new, old, Boxed(None))
        assert Primitive(7) == migrate(new, old, Boxed(7))

    def test_an_optional_container_is_written_as_flink_2_writes_it(self, write, read) -> None:
        serializer = record_serializer(JavaOne)

        assert (
            "optional<list<string>>" == serializer.fields[2].describe() if serializer.fields[2].name == "tags" else True
        )
        assert JavaOne(1, "a", 2, ["x"]) == read(serializer, write(serializer, JavaOne(1, "a", 2, ["x"])))
        assert JavaOne(1, "a", 2, None) == read(serializer, write(serializer, JavaOne(1, "a", 2, None)))

    def test_rec_6_a_rename_that_moves_the_field_must_be_migrated(self, stored, ask, migrate) -> None:
        @record(java_class="com.shop.Account")
        @attrs.frozen
        class Moved:
            id: int
            title: Annotated[str, Field(aliases=("name",))]
            visits: Int32
            tags: list[str] | None = None

        new = record_serializer(Moved)
        result = ask(new, record_serializer(JavaOne))

        assert Verdict.REQUIRES_MIGRATION == result.verdict
        assert Moved(1, "a", 2, ["t"]) == migrate(new, record_serializer(JavaOne), JavaOne(1, "a", 2, ["t"]))
        names = [field.name for field in stored(new).fields]
        assert sorted(names) == names

    def test_rec_6_a_rename_within_the_same_order_is_reconfigured(self, ask) -> None:
        @record(java_class="com.shop.Account")
        @attrs.frozen
        class Near:
            id: int
            nick: Annotated[str, Field(aliases=("name",))]
            visits: Int32
            tags: list[str] | None = None

        result = ask(record_serializer(Near), record_serializer(JavaOne))

        assert result.is_compatible_after_reconfiguration()


@record()
@attrs.frozen
class Shape:
    name: str


@record()
@attrs.frozen
class Circle(Shape):
    radius: int = 0


class TestSubclasses:
    def test_a_decorated_subclass_keeps_its_class(self, write, read) -> None:
        serializer = record_serializer(Shape)
        data = write(serializer, Circle("c", 3))

        assert 8 == data[0]
        assert Circle("c", 3) == read(serializer, data)
        assert Shape("s") == read(serializer, write(serializer, Shape("s")))

    def test_a_restored_reader_keeps_it_too(self, write, read, stored) -> None:
        generic = stored(record_serializer(Shape)).restore_serializer()
        data = write(record_serializer(Shape), Circle("c", 3))

        assert Record(record_serializer(Circle).name, {"name": "c", "radius": 3}) == read(generic, data)
        assert data == write(generic, read(generic, data))

    def test_rec_14_stored_tags_stay_when_subclasses_come_and_are_reordered(self, write, read, ask) -> None:
        new = record_serializer(Shape)
        circle = new.registered[0]
        square = ("shop.Square", RecordSerializer("shop.Square", new.fields))
        old = attrs.evolve(new, registered=(square, circle))

        result = ask(attrs.evolve(new, registered=(circle, square)), old)

        assert result.is_compatible_after_reconfiguration()
        copy = result.reconfigured_serializer
        assert ["shop.Square", circle[0]] == [name for name, _ in copy.registered]
        assert Circle("c", 3) == read(copy, write(old, Circle("c", 3)))

    def test_rec_14_a_subclass_that_is_no_longer_registered_keeps_its_tag(self, write, read, ask, rules) -> None:
        old = record_serializer(Shape)
        undecorated = attrs.evolve(old, registered=())

        result = ask(undecorated, old)

        assert [("$", "REC-14")] == rules(result)
        assert Circle("c", 3) == read(result.reconfigured_serializer, write(old, Circle("c", 3)))
        with pytest.raises(ValueNotConvertible, match=r"Circle is a subclass of .*Shape that is not registered"):
            write(undecorated, Circle("c", 3))

    def test_rec_14_a_subclass_without_its_decorator_is_found_in_its_last_make(self, ask, write, read) -> None:
        @dataclasses.dataclass(frozen=True)
        class Animal:
            name: str

        @dataclasses.dataclass(frozen=True, slots=True)
        class Cat(Animal):
            lives: int

        new = record_serializer(Animal)
        old = attrs.evolve(new, registered=((record_serializer(Cat).name, record_serializer(Cat)),))

        assert () == new.registered
        assert Cat("c", 9) == read(ask(new, old).reconfigured_serializer, write(old, Cat("c", 9)))

    def test_rec_14_an_unknown_subclass_is_incompatible(self, ask, rules) -> None:
        new = record_serializer(Shape)
        square = ("shop.Square", RecordSerializer("shop.Square", new.fields))

        result = ask(new, attrs.evolve(new, registered=(*new.registered, square)))

        assert result.is_incompatible()
        assert [("$", "REC-14")] == rules(result)


class TestDeclarations:
    def test_a_default_that_does_not_fit_is_refused(self) -> None:
        @attrs.frozen
        class Bad:
            visits: Int32 = 2**40

        with pytest.raises(DeclarationError, match=r"the default of .*Bad\.visits does not fit"):
            record_serializer(Bad)

    def test_one_string_is_not_taken_for_names_of_one_letter(self):
        with pytest.raises(DeclarationError, match="not a string"):
            Field(aliases="name")

    def test_a_default_none_needs_an_optional_field(self) -> None:
        @attrs.frozen
        class Bad:
            visits: Int32 = None  # type: ignore[assignment]

        with pytest.raises(DeclarationError, match="not declared optional"):
            record_serializer(Bad)

    def test_a_field_may_have_another_name_in_the_state(self, write, read) -> None:
        @attrs.frozen
        class Camel:
            last_seen: Annotated[int, Field(name="lastSeen")]

        serializer = record_serializer(Camel)

        assert ["lastSeen"] == [field.name for field in serializer.fields]
        assert Camel(5) == read(serializer, write(serializer, Camel(5)))

    def test_fields_that_the_snapshot_cannot_restore_name_their_path(self, stored) -> None:
        snapshot = stored(named(One))
        broken = attrs.evolve(snapshot.fields[1], snapshot=SkippedSnapshot(stored_id="stateshift/gone"))
        snapshot.fields = (snapshot.fields[0], broken, *snapshot.fields[2:])

        with pytest.raises(OldReaderUnavailable) as caught:
            snapshot.restore_serializer()

        assert "$.name" == caught.value.where["path"]


@attrs.frozen
class Part:
    count: Int32 | None


@attrs.frozen
class Parts:
    part: Part | None
    by_name: dict[str, Part] | None
    first: Part


@attrs.frozen
class CountedPart:
    count: int | None


@attrs.frozen
class CountedParts:
    part: CountedPart | None
    by_name: dict[str, CountedPart] | None
    first: CountedPart


@attrs.frozen
class RequiredPart:
    count: Int32


class TestPathsOfOptionals:
    """A path goes through an optional field by `?`, in verdicts as in errors (compatibility-rules, path syntax)."""

    PLACES = ("$.by_name?{}.count?", "$.first.count?", "$.part?.count?")

    @pytest.fixture
    def new(self):
        part = named(CountedPart, "shop.Part")
        hints = {"part": part, "first": part, "by_name": MapSerializer(StringSerializer(), part)}
        return named(CountedParts, fields=tuple(
            attrs.evolve(field, serializer=hints[field.name]) for field in record_serializer(CountedParts).fields
        ))  # fmt: skip

    @pytest.fixture
    def old(self):
        part = named(Part, "shop.Part")
        hints = {"part": part, "first": part, "by_name": MapSerializer(StringSerializer(), part)}
        return named(Parts, fields=tuple(
            attrs.evolve(field, serializer=hints[field.name]) for field in record_serializer(Parts).fields
        ))  # fmt: skip

    def test_findings_have_it(self, ask, rules, old, new):
        assert [(place, "PRIM-2") for place in self.PLACES] == rules(ask(new, old))

    @pytest.mark.parametrize(("at", "place"), list(enumerate(PLACES)))
    def test_so_have_the_errors_of_values(self, write, old, at, place):
        good, bad = Part(7), Part("seven")
        parts = [Parts(None, {"a": bad}, good), Parts(None, None, bad), Parts(bad, None, good)]

        with pytest.raises(ValueNotConvertible) as caught:
            write(old, parts[at])

        assert place == caught.value.where["path"]

    def test_so_have_the_differences_of_two_types(self, old, new):
        changes = compare_types(old.snapshot_configuration(), new.snapshot_configuration())

        assert list(self.PLACES) == [change.path for change in changes]

    def test_a_field_that_may_not_be_null_any_more_is_named_itself(self, ask, rules):
        """OPT-2 is about the field, and not about what is in it."""
        assert [("$.count", "OPT-2")] == rules(ask(named(RequiredPart), named(Part)))


class TestClassesThatTravelByValue:
    """A class of a module that workers do not have is pickled whole, and comes back as another object."""

    @staticmethod
    def test_their_fields_are_those_of_the_class(monkeypatch):
        shop = types.ModuleType("by_value_shop")
        monkeypatch.setitem(sys.modules, shop.__name__, shop)
        source = """
            import dataclasses
            from typing import Annotated, NamedTuple
            import attrs
            from stateshift import Field, record

            @attrs.frozen
            class WithAttrs:
                amount: Annotated[int, Field(aliases=["total"])]
                owner: Annotated[str, Field(on_none="nobody")] = ""
                tags: list[str] = attrs.field(factory=list)

            @record(aliases=["shop.Old"])
            @dataclasses.dataclass
            class AsDataclass:
                amount: Annotated[int, Field(aliases=["total"])]
                owner: Annotated[str, Field(on_none="nobody")] = ""
                tags: list[str] = dataclasses.field(default_factory=list)

            class AsNamedTuple(NamedTuple):
                amount: Annotated[int, Field(aliases=["total"])]
                owner: str = ""
        """
        exec(textwrap.dedent(source), vars(shop))  # noqa: S102 - a module without a file
        classes = [shop.WithAttrs, shop.AsDataclass, shop.AsNamedTuple]
        expected = list(map(SerializerDescription.of, map(serializer_for, classes)))
        cloudpickle.register_pickle_by_value(shop)
        shipped = cloudpickle.dumps(classes)
        cloudpickle.unregister_pickle_by_value(shop)
        monkeypatch.delitem(sys.modules, shop.__name__)
        found = [SerializerDescription.of(serializer_for(cls)) for cls in pickle.loads(shipped)]

        assert [one.identity for one in expected] == [one.identity for one in found]
        required = [[one.default is None for one in side.serializer.fields] for side in found]
        assert [[True, False, False], [True, False, False], [True, False]] == required


@pytest.mark.parametrize("pickler", [pickle, cloudpickle])
def test_what_stands_for_no_value_is_the_same_after_pickling(pickler):
    assert NO_VALUE is pickle.loads(pickler.dumps(NO_VALUE))
    assert Field() == pickle.loads(pickler.dumps(Field()))
    assert NO_VALUE is pickle.loads(pickler.dumps(AvroField("a", parse('"int"')))).default
