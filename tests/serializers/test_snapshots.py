"""Snapshots of one's own: versions, registration and frames (rules SNAP-1 to SNAP-12, harness cases J02 to J10)."""

import os
import zlib
from collections import defaultdict
from pathlib import Path
from typing import ClassVar

import attrs
import pytest

from stateshift import (
    CorruptSavepoint,
    DeclarationError,
    OldReaderUnavailable,
    SnapshotVersionError,
    TypeSerializer,
    TypeSerializerConfigSnapshot,
    UnknownSnapshot,
    register_snapshot,
)
from stateshift.serializers import registry as registries
from stateshift.serializers.containers.tuples import JavaEitherSerializerSnapshot
from stateshift.serializers.primitives.numeric import LongSerializerSnapshot
from stateshift.serializers.registry import Registry, registry
from stateshift.serializers.snapshot import SkippedSnapshot, snapshot_from_bytes, snapshot_to_bytes

LONG = LongSerializerSnapshot()


def utf(text: str) -> bytes:
    data = text.encode()
    return len(data).to_bytes(2, "big") + data


def i32(*values: int) -> bytes:
    return b"".join(value.to_bytes(4, "big", signed=True) for value in values)


def own(name: str, version: int, body: bytes) -> bytes:
    return utf(name) + i32(version, len(body)) + zlib.crc32(body).to_bytes(4, "big") + body


@attrs.frozen
class Plain(TypeSerializer[int]):
    """The serializer of the snapshots below; it writes a long."""

    def serialize(self, value, target):
        target.write_long(value)

    def deserialize(self, source):
        return source.read_long()

    def snapshot_configuration(self):
        return Versioned()


@attrs.define
class OnlyCurrent(TypeSerializerConfigSnapshot[int]):
    """Version 2, with a label; it reads no other."""

    snapshot_id: ClassVar[str] = "stateshift/tests.only-current"
    version: ClassVar[int] = 2

    label: str = ""

    def write(self, target):
        target.write_utf(self.label)

    def read(self, source):
        self.label = source.read_utf()

    def restore_serializer(self):
        return Plain()


@attrs.define
class Versioned(OnlyCurrent):
    """Version 2 as above; version 1 had no label."""

    snapshot_id: ClassVar[str] = "stateshift/tests.versioned"

    def get_compatible_versions(self):
        return (1, 2)

    def read(self, source):
        self.label = source.read_utf() if self.get_read_version() > 1 else "unlabelled"


@attrs.define
class Unlisted(OnlyCurrent):
    """Does not read what it writes."""

    snapshot_id: ClassVar[str] = "stateshift/tests.unlisted"

    def get_compatible_versions(self):
        return (1,)


@attrs.define
class Demanding(OnlyCurrent):
    """Cannot be created again on a restore."""

    snapshot_id: ClassVar[str] = "stateshift/tests.demanding"

    must: int = attrs.field(kw_only=True)


@attrs.define
class Nameless(OnlyCurrent):
    """Has no id."""

    snapshot_id: ClassVar[str] = ""


class Outer:
    @attrs.define
    class Inner(OnlyCurrent):
        """Not at the top of its module."""

        snapshot_id: ClassVar[str] = "stateshift/tests.inner"


@attrs.define
class _Private(OnlyCurrent):
    """Not public."""

    snapshot_id: ClassVar[str] = "stateshift/tests.private"


@attrs.define
class Taken(OnlyCurrent):
    """Wants the id of another class."""


@pytest.fixture
def registered():
    """The snapshots above, known to the process for one test."""
    with registry.restored():
        for cls in (OnlyCurrent, Versioned):
            register_snapshot(cls)
        yield


@pytest.mark.usefixtures("registered")
class TestVersions:
    def test_default_accepts_only_current(self):
        """J02."""
        with pytest.raises(SnapshotVersionError, match="has version 1; this release reads 2") as caught:
            snapshot_from_bytes(own("stateshift/tests.only-current", 1, b""))

        assert (1, (2,)) == (caught.value.found, caught.value.readable)
        assert "stateshift/tests.only-current" == caught.value.where["snapshot"]

    def test_listed_version_is_read(self):
        """J03, SNAP-4: with a default for what that version lacks."""
        stored = snapshot_from_bytes(own("stateshift/tests.versioned", 1, b""))

        assert 1 == stored.get_read_version()
        assert "unlabelled" == stored.label

    def test_read_version_before_read_fails(self):
        """J04."""
        with pytest.raises(SnapshotVersionError, match="has no read version"):
            Versioned().get_read_version()

    def test_rewrite_uses_current_version(self):
        """J05, SNAP-5."""
        stored = snapshot_from_bytes(own("stateshift/tests.versioned", 1, b""))

        assert own("stateshift/tests.versioned", 2, utf("unlabelled")) == snapshot_to_bytes(stored)

    def test_newer_version_says_so(self):
        """J06."""
        with pytest.raises(SnapshotVersionError, match="written by a newer release"):
            snapshot_from_bytes(own("stateshift/tests.versioned", 3, b""))
        with pytest.raises(SnapshotVersionError, match="written by a newer release"):
            snapshot_from_bytes(utf(LONG.snapshot_id) + i32(4))

    def test_a_version_that_was_dropped_says_so(self):
        with pytest.raises(SnapshotVersionError, match="no longer read"):
            snapshot_from_bytes(utf(LONG.snapshot_id) + i32(1))

    def test_the_version_is_judged_before_the_body_is_parsed_snap_3(self):
        with pytest.raises(SnapshotVersionError):
            snapshot_from_bytes(own("stateshift/tests.versioned", 9, b"\xff\xff"))


class TestRegistration:
    def test_zero_argument_construction(self):
        """J07: refused when it is registered, not when a savepoint is restored."""
        with pytest.raises(DeclarationError, match="cannot be created without arguments"):
            Registry().register_snapshot(Demanding)

    @pytest.mark.parametrize("name", ["Inner", "_Private", "Local", "Script"])
    def test_anonymous_or_local_classes_rejected(self, name, monkeypatch):
        """J08: a class that a restore could not find by its name is refused when it is registered."""

        @attrs.define
        class Local(OnlyCurrent):
            snapshot_id: ClassVar[str] = "stateshift/tests.local"

        monkeypatch.setattr(OnlyCurrent, "__module__", "__main__")
        classes = {"Inner": Outer.Inner, "_Private": _Private, "Local": Local, "Script": OnlyCurrent}

        with pytest.raises(DeclarationError, match="not a public class at the top of an importable module"):
            Registry().register_snapshot(classes[name])

    def test_a_class_without_an_id_is_rejected(self):
        with pytest.raises(DeclarationError, match="has no snapshot_id"):
            Registry().register_snapshot(Nameless)

    def test_a_class_that_does_not_read_its_own_version_is_rejected(self):
        with pytest.raises(DeclarationError, match="SNAP-2"):
            Registry().register_snapshot(Unlisted)

    def test_an_id_belongs_to_one_class(self):
        here = Registry()
        here.register_snapshot(OnlyCurrent)
        here.register_snapshot(OnlyCurrent)

        with pytest.raises(DeclarationError, match="belongs to"):
            here.register_snapshot(Taken)

    def test_former_ids_lead_to_the_class_snap_6(self):
        here = Registry()
        here.register_snapshot(Versioned, aliases=["stateshift/tests.former"])

        assert Versioned is here.snapshot_class("stateshift/tests.former")


@pytest.mark.usefixtures("registered")
class TestOwnFrame:
    DATA = own("stateshift/tests.versioned", 2, utf("shelf"))

    def test_it_has_a_version_a_length_and_a_checksum_snap_1_snap_8(self):
        assert self.DATA == snapshot_to_bytes(Versioned("shelf"))
        assert Versioned("shelf") == snapshot_from_bytes(self.DATA)

    @pytest.mark.parametrize("position", range(len(DATA) - 4, len(DATA)))
    def test_a_damaged_body_is_found_by_its_checksum(self, position):
        damaged = bytearray(self.DATA)
        damaged[position] ^= 1

        with pytest.raises(CorruptSavepoint, match=r"checksum of the snapshot stateshift/tests.versioned"):
            snapshot_from_bytes(bytes(damaged))

    def test_bytes_that_the_class_leaves_are_an_error_that_names_it_snap_12(self):
        with pytest.raises(CorruptSavepoint, match=r"1 bytes follow the snapshot stateshift/tests.versioned"):
            snapshot_from_bytes(own("stateshift/tests.versioned", 2, utf("shelf") + b"\0"))

    def test_missing_bytes_are_an_error_that_names_it(self):
        with pytest.raises(CorruptSavepoint) as caught:
            snapshot_from_bytes(own("stateshift/tests.versioned", 2, utf("shelf")[:-1]))
        assert "stateshift/tests.versioned" == caught.value.where["snapshot"]

    def test_a_class_that_fails_on_the_body_is_named(self, monkeypatch):
        monkeypatch.setattr(Versioned, "read", lambda self, _: self.gone.lower())

        with pytest.raises(CorruptSavepoint, match=r"Versioned cannot read the snapshot .*: AttributeError") as caught:
            snapshot_from_bytes(self.DATA)
        assert "stateshift/tests.versioned" == caught.value.where["snapshot"]
        assert "fix its read()" in caught.value.advice

    def test_an_announced_size_beyond_the_end_is_refused(self):
        data = utf("stateshift/tests.versioned") + i32(2, 2**31 - 1, 0) + b"rest"

        with pytest.raises(CorruptSavepoint, match=r"2147483647 bytes of stateshift/tests.versioned are declared"):
            snapshot_from_bytes(data)


class TestUnknown:
    def test_unknown_snapshot_is_skippable(self):
        """J10: one of ours is shown with version and length, and written again; what lies next to it is read."""
        gone = SkippedSnapshot("stateshift/tests.gone", 7, b"\x80\x04whatever")
        data = snapshot_to_bytes(JavaEitherSerializerSnapshot((gone, LONG)))

        stored = snapshot_from_bytes(data)

        assert own("stateshift/tests.gone", 7, gone.body) in data
        assert "either<stateshift/tests.gone (not registered here), long>" == stored.describe()
        assert data == snapshot_to_bytes(stored)
        assert not stored.is_flink
        with pytest.raises(OldReaderUnavailable, match=r"stateshift/tests.gone \(version 7, 10 bytes\)"):
            stored.nested[0].restore_serializer()

    def test_an_unknown_one_alone_keeps_its_version(self):
        stored = snapshot_from_bytes(own("stateshift/tests.gone", 7, b""))

        assert SkippedSnapshot("stateshift/tests.gone", 7, b"") == stored

    def test_a_foreign_one_is_an_error_that_names_it_and_its_place(self):
        foreign = utf("com.acme.Snapshot") + i32(1)
        data = snapshot_to_bytes(JavaEitherSerializerSnapshot((LONG, LONG)))
        data = data.removesuffix(snapshot_to_bytes(LONG)) + foreign

        with pytest.raises(UnknownSnapshot, match=r"'com\.acme\.Snapshot' is not known") as caught:
            snapshot_from_bytes(data)

        assert "com.acme.Snapshot" == caught.value.snapshot_id
        assert len(data) - len(foreign) == caught.value.where["offset"]


def test_the_module_of_each_built_in_snapshot_is_listed():
    """So one of them is found without loading all others. With STATESHIFT_RECORD=1 the list is written anew."""
    registry._load_built_in()
    modules = defaultdict(list)
    for snapshot_id, cls in registry._snapshots.items():
        if registries._is_built_in(cls) and "spark_rows" not in cls.__module__:
            modules[cls.__module__.removeprefix("stateshift.serializers.")].append(snapshot_id)
    lines = [f"{module}: {' '.join(sorted(ids))}" for module, ids in sorted(modules.items())]
    file = Path(registries.__file__).with_name("snapshot_modules.txt")
    if os.environ.get("STATESHIFT_RECORD"):
        head = "# Module: the ids of the built-in snapshots that it registers. A test writes this file."
        file.write_text("\n".join([head, *lines, ""]))

    assert lines == file.read_text().splitlines()[1:]
