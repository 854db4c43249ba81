"""Flink's POJO snapshots: declaring classes, parts that Flink lost, and where damage in nested ones is."""

from typing import Annotated, Any, ClassVar

import attrs
import pytest

from stateshift import (
    CorruptSavepoint,
    DataInputView,
    DataOutputView,
    Field,
    OldReaderUnavailable,
    TypeSerializerConfigSnapshot,
    UnknownSnapshot,
    Verdict,
    record,
    register_snapshot,
    serializer_for,
)
from stateshift.serializers.primitives.numeric import LongSerializerSnapshot
from stateshift.serializers.primitives.text import StringSerializerSnapshot
from stateshift.serializers.records.pojo import PojoField, PojoSerializerSnapshot, PojoSubclass
from stateshift.serializers.registry import registry
from stateshift.serializers.snapshot import (
    SkippedSnapshot,
    read_versioned_snapshot,
    snapshot_from_bytes,
    snapshot_to_bytes,
)

LONG, TEXT = LongSerializerSnapshot(), StringSerializerSnapshot()


@attrs.define
class Later(TypeSerializerConfigSnapshot[Any]):
    """One that a module registers while the process runs."""

    snapshot_id: ClassVar[str] = "stateshift/tests.later"
    word: str = ""

    def write(self, target):
        target.write_utf(self.word)

    def read(self, source):
        self.word = source.read_utf()

    def restore_serializer(self):
        raise OldReaderUnavailable("nobody asks for it")


def again(snapshot):
    return snapshot_from_bytes(snapshot_to_bytes(snapshot))


@record(java_class="fx.Address")
@attrs.frozen
class Address:
    street: str
    number: int


@record(java_class="fx.FancyAddress")
@attrs.frozen
class FancyAddress(Address):
    color: str = "red"


@record(java_class="fx.FancyAddress")
@attrs.frozen
class Flat:
    """As FancyAddress, without the base."""

    street: str
    number: int
    color: str


@record(java_class="fx.FancyAddress")
@attrs.frozen
class FlatAndSaid:
    """As Flat, and it says where Java declares the fields."""

    street: Annotated[str, Field(declared_by="fx.Address")]
    number: Annotated[int, Field(declared_by="fx.Address")]
    color: str


@record(java_class="fx.Place", aliases=["fx.Address"])
@attrs.frozen
class Place:
    street: str
    number: int


@record(java_class="fx.FancyAddress")
@attrs.frozen
class FancyPlace(Place):
    color: str = "red"


FANCY = PojoSerializerSnapshot(
    "fx.FancyAddress",
    (
        PojoField("color", "fx.FancyAddress", TEXT),
        PojoField("number", "fx.Address", LONG),
        PojoField("street", "fx.Address", TEXT),
    ),
)


class TestDeclaringClasses:
    @pytest.mark.parametrize("cls", [FancyAddress, FlatAndSaid])
    def test_a_field_of_a_superclass_is_written_under_that_class(self, cls):
        assert FANCY == serializer_for(cls).snapshot_configuration()

    def test_a_restored_serializer_keeps_the_declaring_classes(self):
        assert FANCY == again(FANCY).restore_serializer().snapshot_configuration()

    @pytest.mark.parametrize("cls", [FancyAddress, FlatAndSaid])
    def test_the_same_declaring_classes_are_compatible(self, cls):
        assert serializer_for(cls).ensure_compatibility(again(FANCY)).verdict is Verdict.COMPATIBLE

    def test_another_declaring_class_is_refused_field_by_field_with_ways_out(self):
        result = serializer_for(Flat).ensure_compatibility(again(FANCY))

        assert result.is_incompatible()
        found = [f for f in result.findings if f.verdict is Verdict.INCOMPATIBLE]
        assert [("$.number", "REC-11"), ("$.street", "REC-11")] == [(f.path, f.rule) for f in found]
        assert {("fx.Address", "fx.FancyAddress")} == {(f.old, f.new) for f in found}
        assert "Field(declared_by='fx.Address')" in str(found[0].ways_out[0])
        assert "@record(java_class='fx.Address')" in str(found[0].ways_out[1])

    def test_a_field_that_moved_up_is_refused_too(self):
        old = serializer_for(Flat).snapshot_configuration()
        result = serializer_for(FancyAddress).ensure_compatibility(again(old))

        found = [f for f in result.findings if f.verdict is Verdict.INCOMPATIBLE]
        assert ["$.number", "$.street"] == [f.path for f in found]
        assert "Field(declared_by='fx.FancyAddress')" in str(found[0].ways_out[0])

    def test_a_renamed_superclass_with_an_alias_needs_only_a_new_label(self):
        result = serializer_for(FancyPlace).ensure_compatibility(again(FANCY))

        assert result.is_compatible_after_reconfiguration()
        copy = result.reconfigured_serializer.snapshot_configuration()
        assert ["fx.FancyAddress", "fx.Place", "fx.Place"] == [field.declared_by for field in copy.fields]

    def test_fields_of_a_renamed_class_go_with_it(self):
        renamed = attrs.evolve(serializer_for(Address), name="fx.New", aliases=("fx.Address",))
        result = renamed.ensure_compatibility(again(serializer_for(Address).snapshot_configuration()))

        assert result.is_compatible_after_reconfiguration()


LOST_FIELD = PojoSerializerSnapshot("fx.A", (PojoField("gone", None, None), PojoField("id", "fx.A", LONG)))
LOST_SUBCLASS = PojoSerializerSnapshot(
    "fx.A",
    (PojoField("id", "fx.A", LONG),),
    (PojoSubclass("fx.B", None, has_key=False),),
    (PojoSubclass("fx.C", None),),
)


class TestPartsThatFlinkLost:
    @pytest.mark.parametrize("snapshot", [LOST_FIELD, LOST_SUBCLASS], ids=["field", "subclass"])
    def test_they_are_written_again_as_they_were(self, snapshot):
        assert snapshot == again(snapshot)
        assert snapshot_to_bytes(snapshot) == snapshot_to_bytes(again(snapshot))
        assert again(snapshot).registered == snapshot.registered

    @pytest.mark.parametrize("snapshot", [LOST_FIELD, LOST_SUBCLASS], ids=["field", "subclass"])
    def test_flink_still_knows_the_snapshot(self, snapshot):
        assert again(snapshot).is_flink

    @pytest.mark.parametrize(
        ("snapshot", "what"), [(LOST_FIELD, "the field 'gone' of fx.A"), (LOST_SUBCLASS, "the subclass fx.B")]
    )
    def test_the_error_says_that_flink_lost_them(self, snapshot, what):
        with pytest.raises(OldReaderUnavailable, match="when it restored an earlier savepoint") as caught:
            again(snapshot).restore_serializer()
        assert what in caught.value.what

    def test_they_can_be_described_in_words(self):
        assert "fx.A" == again(LOST_FIELD).describe()
        assert "lost by Flink" in again(LOST_FIELD).children()[0].describe()


class TestFieldsOfOneType:
    def test_a_class_that_is_registered_meanwhile_reads_the_same_bytes(self):
        data = snapshot_to_bytes(PojoSerializerSnapshot("fx.A", (PojoField("a", "fx.A", Later("kept")),)))
        before = snapshot_from_bytes(data).fields[0].snapshot

        with registry.restored():
            register_snapshot(Later)
            known = snapshot_from_bytes(data).fields[0].snapshot
        after = snapshot_from_bytes(data).fields[0].snapshot

        assert [SkippedSnapshot, Later, SkippedSnapshot] == [type(one) for one in (before, known, after)]
        assert "kept" == known.word

    def test_a_type_that_was_read_before_is_refused_where_it_lies_too_deep(self):
        data = snapshot_to_bytes(FANCY)
        assert FANCY == snapshot_from_bytes(data)
        deep = DataInputView(data)
        deep.nesting = 99

        with pytest.raises(CorruptSavepoint, match="nested more than 100 deep"):
            read_versioned_snapshot(deep)


class TestDamage:
    def test_an_unknown_class_in_a_nested_snapshot_is_reported_with_its_offset_in_the_whole(self):
        whole = PojoSerializerSnapshot("fx.Outer", (PojoField("inner", "fx.Outer", FANCY),))
        data = b"\xff" * 7 + snapshot_to_bytes(whole)
        damaged = data.replace(b"StringSerializer$", b"StringSerialize_$", 1)
        at = damaged.index(b"org.apache.flink.api.common.typeutils.base.StringSerialize_$")

        with pytest.raises(UnknownSnapshot) as caught:
            read_versioned_snapshot(DataInputView(damaged, 7))
        assert at - 2 == caught.value.where["offset"]

    def test_bytes_after_a_nested_snapshot_are_reported_with_their_offset(self):
        data = snapshot_to_bytes(PojoSerializerSnapshot("fx.A", (PojoField("id", "fx.A", LONG),)))
        nested = snapshot_to_bytes(LONG)
        at = data.index(nested)
        damaged = data[: at - 4] + (len(nested) + 1).to_bytes(4, "big") + nested + b"!" + data[at + len(nested) :]

        with pytest.raises(CorruptSavepoint, match="1 bytes follow") as caught:
            snapshot_from_bytes(damaged)
        assert at + len(nested) == caught.value.where["offset"]

    def test_a_subclass_that_is_no_record_is_refused(self):
        snapshot = PojoSerializerSnapshot("fx.A", (), (PojoSubclass("fx.B", LONG),))

        with pytest.raises(CorruptSavepoint, match="a subclass is described by a LongSerializerSnapshot"):
            again(snapshot)


@record(java_class="fx.Basket")
@attrs.frozen
class JavaBasket:
    items: list[int] | None = None


@record(aliases=["fx.Basket"])
@attrs.frozen
class Basket:
    items: list[int] | None = None


def test_a_container_keeps_its_second_null_flag_where_a_record_loses_its_java_class_snap_7_opt_3(
    ask, read, write, rules
):
    old = serializer_for(JavaBasket)

    result = ask(serializer_for(Basket), old)

    assert [("$", "REC-11"), ("$.items", "OPT-3")] == rules(result)
    for items in ([1, 2], None):
        stored = write(old, JavaBasket(items))
        assert Basket(items) == read(result.reconfigured_serializer, stored)
        assert stored == write(result.reconfigured_serializer, Basket(items))


def test_the_fields_of_a_snapshot_are_cached_until_it_is_read_again():
    snapshot, other = again(serializer_for(Address).snapshot_configuration()), DataOutputView()
    fields, restored = snapshot.stored_fields(), snapshot.restore_serializer()

    assert fields is snapshot.stored_fields()
    assert restored is snapshot.restore_serializer()

    serializer_for(FancyAddress).snapshot_configuration().write(other)
    snapshot.read(DataInputView(other.getvalue()))

    assert ["color", "number", "street"] == [field.name for field in snapshot.stored_fields()]
    assert "fx.FancyAddress" == snapshot.restore_serializer().name
