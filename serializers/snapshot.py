"""Config snapshots: the versioned description of a serializer that is stored with the state.

A snapshot has three uses: to judge a new serializer (`ensure_compatibility`), to restore a reader of the old bytes
(`restore_serializer`), and to show what the state holds on a machine without the user's code (`describe`; SNAP-9).

Frames (format notes 6.1):

    SNAP    UTF snapshot id, i32 version, body
    SNAP2   i32 2, SNAP

Flink's bodies have no length. Bodies of `stateshift/…` ids have one, and a checksum (rule SNAP-8):

    i32 length of the body, i32 CRC-32 of the body, body
"""

from __future__ import annotations

import hashlib
import zlib
from abc import ABC, abstractmethod
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeVar

import attrs

from .byte_forms import ByteForm, many, marked, stepped
from .errors import (
    CorruptSavepoint,
    DeclarationError,
    OldReaderUnavailable,
    SnapshotVersionError,
    StateShiftError,
    UnknownSnapshot,
    at_step,
    located,
)
from .limits import MAX_NESTING, require_nesting
from .registry import registry
from .views import DataInputView, DataOutputView

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from .byte_forms import Fields
    from .serializer import Counterpart, TypeSerializer

T = TypeVar("T")

OWN_PREFIX = "stateshift/"
COMPOSITE_MAGIC, NESTED_MAGIC, NESTED_VERSION = 911108, 1333245, 1
_SHOWN_ID = 200
_LEAST_SNAPSHOT_BYTES, _HEADS_KEPT = 6, 256


class Speller(Protocol):
    """Decides how much of a type is spelled out; the snapshot's `spell` calls it with the type's parts."""

    def part(self, snapshot: TypeSerializerConfigSnapshot[Any]) -> str:
        """Return the text of a nested type."""

    def record(
        self, word: str, name: str, fields: Iterable[tuple[str, TypeSerializerConfigSnapshot[Any], bool]]
    ) -> str:
        """Return the text of a type with fields: each a name, a type, and whether it may be null."""

    def symbols(self, word: str, name: str, symbols: Iterable[str]) -> str:
        """Return the text of a type whose values are named constants."""


class TypeSerializerConfigSnapshot(ABC, Generic[T]):
    """The versioned configuration of a serializer.

    Subclasses are public classes at the top level of a module, can be created without arguments, and are registered
    with `register_snapshot` under their `snapshot_id` (rule SNAP-6). They use `attrs.define`, so that equality compares
    their content. `version` is the snapshot's own format version, unrelated to the serializer's (rules, section 9).
    """

    snapshot_id: ClassVar[str] = ""
    version: ClassVar[int] = 1
    kind: ClassVar[str] = "custom"
    """The kind of value in one word; rules across families use it."""
    tells_all: ClassVar[bool] = True
    """Whether equal snapshots mean equal values; False where values have a meaning that no snapshot holds."""

    _read_version: int | None = None

    def get_version(self) -> int:
        """Return the version that this code writes (SNAP-1)."""
        return self.version

    def get_compatible_versions(self) -> Collection[int]:
        """Return the versions that this code reads; by default only its own (SNAP-2)."""
        return (self.get_version(),)

    def get_read_version(self) -> int:
        """Return the version that was found; raises `SnapshotVersionError` before a read (SNAP-4)."""
        if self._read_version is None:
            raise SnapshotVersionError(f"a {type(self).__name__} that was not read has no read version")
        return self._read_version

    @property
    def is_flink(self) -> bool:
        """Whether Flink knows this snapshot and all nested ones."""
        if self.snapshot_id.startswith(OWN_PREFIX):
            return False
        children = self.children()
        return not children or all(child.is_flink for child in children)

    def children(self) -> tuple[TypeSerializerConfigSnapshot[Any], ...]:
        """Return the nested snapshots."""
        return ()

    def counterpart(self) -> Counterpart | None:
        """Return the same type in one of stateshift's own families; None if there is none (rule FAM-4)."""
        return None

    def recorded(self) -> TypeSerializerConfigSnapshot[Any]:
        """Return the snapshot that stands for this one in a record, which may hold more than a savepoint does."""
        return self

    def meant(self) -> TypeSerializerConfigSnapshot[Any]:
        """Return the snapshot for which this one stands: the other way of `recorded`."""
        return self

    def describe(self) -> str:
        """Return the type's name as people know it."""
        return self.snapshot_id.removeprefix(OWN_PREFIX)

    def spell(self, speller: Speller) -> str:
        """Return the type spelled out with fields and constants; by default the same as `describe`."""
        return self.describe()

    @abstractmethod
    def write(self, target: DataOutputView) -> None:
        """Write the body, at the current version (SNAP-5)."""

    @abstractmethod
    def read(self, source: DataInputView) -> None:
        """Read the body of version `get_read_version()`."""

    @abstractmethod
    def restore_serializer(self) -> TypeSerializer[T]:
        """Make a serializer of the same bytes that needs no user class; a composite restores its parts (rule COMP-5).

        Raises:
            OldReaderUnavailable: This code cannot read such values.
        """


class FormedSnapshot(TypeSerializerConfigSnapshot[T]):
    """Base of the snapshots whose body is a table of their attributes."""

    body: ClassVar[Fields]
    """The forms of the attributes, in the order of their bytes."""

    def write(self, target: DataOutputView) -> None:
        for name, form in self.body.items():
            form.write(target, getattr(self, name))

    def read(self, source: DataInputView) -> None:
        for name, form in self.body.items():
            setattr(self, name, form.read(source))


@attrs.define(slots=False)
class SkippedSnapshot(TypeSerializerConfigSnapshot[Any]):
    """A `stateshift/…` snapshot whose class is not registered here: it is shown, kept and rewritten as it is."""

    kind: ClassVar[str] = "unknown"

    stored_id: str = ""
    stored_version: int = 0
    body: bytes = b""

    is_flink = False

    def get_version(self) -> int:
        return self.stored_version

    def describe(self) -> str:
        return f"{self.stored_id} (not registered here)"

    def write(self, target: DataOutputView) -> None:
        target.write(self.body)

    def read(self, source: DataInputView) -> None:
        self.body = source.read_fully(source.remaining())

    def restore_serializer(self) -> TypeSerializer[Any]:
        raise OldReaderUnavailable(
            f"the snapshot {self.stored_id} (version {self.stored_version}, {len(self.body)} bytes) is not registered",
            advice="import the module that registers it",
        )


@attrs.define(slots=False)
class FlinkSnapshot(TypeSerializerConfigSnapshot[T]):
    """A Flink snapshot without configuration: an empty body at version 3 (format notes 6.1).

    A subclass needs no `attrs.define`: it has no content, so instances of one class are equal.
    """

    version: ClassVar[int] = 3

    def get_compatible_versions(self) -> Collection[int]:
        return (2, 3)

    def write(self, target: DataOutputView) -> None:
        """Write nothing: the class name is the whole description."""

    def read(self, source: DataInputView) -> None:
        if self.get_read_version() == 2:
            source.read_utf()


class CompositeTypeSerializerSnapshot(TypeSerializerConfigSnapshot[T]):
    """A snapshot with an outer part of its own and nested snapshots (format notes 6.1).

        i32 911108, i32 outer version, outer part, i32 1333245, i32 1, i32 n, n x SNAP

    The outer part has a version of its own, so nested snapshots may change without it (rule SNAP-10).
    """

    version: ClassVar[int] = 3
    outer_version: ClassVar[int] = 1
    outer: ClassVar[Fields] = {}
    """The forms of the attributes in the outer part, in the order of their bytes."""
    nested_count: ClassVar[int] = -1
    """The required number of nested snapshots, or -1."""
    steps: ClassVar[tuple[str, ...]] = ()
    """The path step to the values of each nested snapshot; where none is listed, its index: `(0)`."""

    nested: tuple[TypeSerializerConfigSnapshot[Any], ...]

    def children(self) -> tuple[TypeSerializerConfigSnapshot[Any], ...]:
        return self.nested

    def describe(self) -> str:
        """Return the kind and the nested types: `list<string>`; for a user's own class, its id."""
        if self.kind == TypeSerializerConfigSnapshot.kind:
            return super().describe()
        return f"{self.kind}<{', '.join(snapshot.describe() for snapshot in self.nested)}>"

    def spell(self, speller: Speller) -> str:
        if self.kind == TypeSerializerConfigSnapshot.kind:
            return self.describe()
        return f"{self.kind}<{', '.join(map(speller.part, self.nested))}>"

    def restore_nested(self, index: int) -> TypeSerializer[Any]:
        """Restore the serializer of a nested snapshot; an error names the step that leads to it."""
        with at_step(self.step(index)):
            return self.nested[index].restore_serializer()

    def step(self, index: int) -> str:
        """Return the path step that leads to the values of a nested snapshot."""
        return self.steps[index] if index < len(self.steps) else f"({index})"

    def get_compatible_outer_versions(self) -> Collection[int]:
        """Return the outer versions that this code reads."""
        return (self.outer_version,)

    def write_outer_snapshot(self, target: DataOutputView) -> None:
        """Write the outer part: by default the attributes in `outer`."""
        for name, form in self.outer.items():
            form.write(target, getattr(self, name))

    def read_outer_snapshot(self, read_outer_version: int, source: DataInputView) -> None:
        """Read the outer part: by default the attributes in `outer`."""
        for name, form in self.outer.items():
            setattr(self, name, form.read(source))

    def write(self, target: DataOutputView) -> None:
        target.write_int(COMPOSITE_MAGIC)
        target.write_int(self.outer_version)
        self.write_outer_snapshot(target)
        NESTED.write(target, self.nested)

    def read(self, source: DataInputView) -> None:
        source.expect(COMPOSITE_MAGIC, "the magic number of a composite snapshot")
        outer_version = source.read_int()
        _check_version(self.snapshot_id, outer_version, tuple(self.get_compatible_outer_versions()))
        self.read_outer_snapshot(outer_version, source)
        source.expect(NESTED_MAGIC, "the magic number before nested snapshots")
        source.expect(NESTED_VERSION, "the version of nested snapshots")
        start = source.position
        count = source.read_size("nested snapshots", least_bytes_each=_LEAST_SNAPSHOT_BYTES)
        if self.nested_count not in {-1, count}:
            raise CorruptSavepoint(
                f"{type(self).__name__} has {count} nested snapshots and should have {self.nested_count}", offset=start
            )
        self.nested = tuple([stepped(self.step(index), SNAPSHOT).read(source) for index in range(count)])


def require_readable(snapshot: TypeSerializerConfigSnapshot[Any]) -> None:
    """Refuse a type that is nested more deeply than its stored snapshot is read back.

    Raises:
        DeclarationError: It is nested too deeply.
    """
    level, levels = [snapshot], 0
    while level:
        require_nesting(levels)
        level = list({id(child): child for one in level for child in one.children()}.values())
        levels += 1


def write_versioned_snapshot(target: DataOutputView, snapshot: TypeSerializerConfigSnapshot[Any]) -> None:
    """Write SNAP: id, version, body; with length and checksum where the id is stateshift's own (rule SNAP-8).

    Raises:
        DeclarationError: It is nested more deeply than `read_versioned_snapshot` reads.
    """
    require_nesting(target.nesting)
    if isinstance(target, _RecordView):
        snapshot = snapshot.recorded()
    snapshot_id = snapshot.stored_id if isinstance(snapshot, SkippedSnapshot) else snapshot.snapshot_id
    target.write(_head(snapshot_id, snapshot.get_version()))
    if not snapshot_id.startswith(OWN_PREFIX):
        target.nesting += 1
        snapshot.write(target)
        target.nesting -= 1
        return
    body = type(target)()
    body.nesting = target.nesting + 1
    snapshot.write(body)
    data = body.getvalue()
    target.write_int(len(data))
    target.write(zlib.crc32(data).to_bytes(4, "big"))
    target.write(data)


@lru_cache(maxsize=_HEADS_KEPT)
def _head(snapshot_id: str, version: int) -> bytes:
    """Return the bytes that every snapshot of a class begins with."""
    target = DataOutputView()
    target.write_utf(snapshot_id)
    target.write_int(version)
    return target.getvalue()


def read_versioned_snapshot(source: DataInputView) -> TypeSerializerConfigSnapshot[Any]:
    """Read SNAP.

    Raises:
        UnknownSnapshot: The class is Flink's or another framework's, and is not registered.
        SnapshotVersionError: The snapshot has a version that this code does not read.
        CorruptSavepoint: The bytes are damaged, or are not a snapshot.
    """
    start = source.position
    if source.nesting >= MAX_NESTING:
        raise CorruptSavepoint(f"snapshots are nested more than {MAX_NESTING} deep", offset=start)
    source.nesting += 1
    snapshot_id = source.read_utf()
    with located(snapshot=snapshot_id[:_SHOWN_ID]):
        version = source.read_int()
        try:
            if snapshot_id.startswith(OWN_PREFIX):
                snapshot = _read_own(snapshot_id, version, source, start)
            else:
                found = registry.snapshot_class(snapshot_id)
                if found is None:
                    raise UnknownSnapshot(
                        f"the snapshot class {snapshot_id[:_SHOWN_ID]!r} is not known",
                        snapshot_id=snapshot_id,
                        offset=start,
                    )
                snapshot = _read_body(found(), snapshot_id, version, source)
        except RecursionError:  # the callers had used up most of the stack
            raise CorruptSavepoint("snapshots are nested deeper than can be read", offset=start) from None
    source.nesting -= 1
    return snapshot


def _read_own(snapshot_id: str, version: int, source: DataInputView, start: int) -> TypeSerializerConfigSnapshot[Any]:
    size = source.read_size(f"bytes of {snapshot_id}")
    checksum = int.from_bytes(source.read_fully(4), "big")
    body = source.read_fully(size)
    if zlib.crc32(body) != checksum:
        raise CorruptSavepoint(f"the checksum of the snapshot {snapshot_id} is wrong", offset=start)
    view = source.part(source.position - size, size)
    found = registry.snapshot_class(snapshot_id)
    if found is None:
        skipped = SkippedSnapshot(stored_id=snapshot_id, stored_version=version)
        skipped.read(view)
        return skipped
    try:
        snapshot = _read_body(found(), snapshot_id, version, view)
    except StateShiftError:
        raise
    except Exception as error:
        raise CorruptSavepoint(
            f"{found.__qualname__} cannot read the snapshot {snapshot_id}: {type(error).__name__}: {error}",
            advice="fix its read(); if what it writes has changed, give it a new version (SNAP-5)",
            offset=start,
        ) from error
    if view.remaining():
        raise CorruptSavepoint(f"{view.remaining()} bytes follow the snapshot {snapshot_id}", offset=start)
    return snapshot.meant()


def _read_body(
    snapshot: TypeSerializerConfigSnapshot[Any], snapshot_id: str, version: int, source: DataInputView
) -> TypeSerializerConfigSnapshot[Any]:
    _check_version(snapshot_id, version, tuple(snapshot.get_compatible_versions()))
    snapshot._read_version = version  # noqa: SLF001 - the frame knows the version, the snapshot keeps it
    snapshot.read(source)
    return snapshot


def _check_version(snapshot_id: str, found: int, readable: tuple[int, ...]) -> None:
    if found in readable:
        return
    newer = "it was written by a newer release" if found > max(readable) else "it is no longer read"
    versions = " and ".join(map(str, sorted(readable)))
    raise SnapshotVersionError(
        f"the snapshot {shorten(snapshot_id)} has version {found}; this release reads {versions}: {newer}",
        advice="use a release of stateshift that reads it, or write the savepoint again with the older job",
        found=found,
        readable=readable,
    )


SNAPSHOT = ByteForm(read_versioned_snapshot, write_versioned_snapshot, 6)
"""SNAP as a part of a snapshot."""
NESTED = marked(
    NESTED_MAGIC,
    "the magic number before nested snapshots",
    marked(NESTED_VERSION, "the version of nested snapshots", many(SNAPSHOT, "nested snapshots")),
)
"""The snapshots of the parts of a type."""


def write_serializer_snapshot(target: DataOutputView, snapshot: TypeSerializerConfigSnapshot[Any]) -> None:
    """Write SNAP2: the frame used in state metadata and for the key serializer."""
    target.write_int(2)
    write_versioned_snapshot(target, snapshot)


def read_serializer_snapshot(source: DataInputView) -> TypeSerializerConfigSnapshot[Any]:
    """Read SNAP2; raises the errors of `read_versioned_snapshot`."""
    source.expect(2, "the version of a serializer snapshot's frame")
    return read_versioned_snapshot(source)


def snapshot_to_bytes(snapshot: TypeSerializerConfigSnapshot[Any], *, nesting: int = 0) -> bytes:
    """Return the SNAP frame as bytes; equal bytes mean equal configuration.

    Args:
        snapshot: The snapshot.
        nesting: The number of snapshots that contain it; the limit counts them too.

    Raises:
        DeclarationError: It is nested too deeply.
    """
    target = DataOutputView()
    target.nesting = nesting
    write_versioned_snapshot(target, snapshot)
    return target.getvalue()


class _RecordView(DataOutputView):
    """Takes the snapshots of a record."""

    __slots__ = ()


def recorded_to_bytes(snapshot: TypeSerializerConfigSnapshot[Any]) -> bytes:
    """Return the SNAP frame with all that is known of the type; `snapshot_from_bytes` reads it, too.

    It is that of `snapshot_to_bytes` unless a part says more than a savepoint holds, as those of PyFlink's bytes do.
    """
    target = _RecordView()
    write_versioned_snapshot(target, snapshot)
    return target.getvalue()


def type_digest(snapshot: TypeSerializerConfigSnapshot[Any]) -> str:
    """Return the digest of a snapshot's bytes, which identifies the type."""
    return hashlib.sha256(snapshot_to_bytes(snapshot)).hexdigest()


def snapshot_from_bytes(data: bytes) -> TypeSerializerConfigSnapshot[Any]:
    """Read one SNAP frame that fills `data` exactly (rule SNAP-12)."""
    source = DataInputView(data)
    snapshot = read_versioned_snapshot(source)
    if source.remaining():
        raise CorruptSavepoint(
            f"{source.remaining()} bytes follow the snapshot",
            offset=source.position,
            snapshot=snapshot.stored_id if isinstance(snapshot, SkippedSnapshot) else snapshot.snapshot_id,
        )
    return snapshot


def shorten(class_name: str) -> str:
    """Return a Java class name without its package."""
    return class_name.rpartition(".")[2] or class_name


def require_registered(snapshot: TypeSerializerConfigSnapshot[Any], what: str) -> None:
    """Refuse to keep state under a snapshot class that no later process would find (rule SNAP-6).

    Args:
        snapshot: The snapshot of a declared serializer.
        what: What the serializer is of, such as "the state 'total'".

    Raises:
        DeclarationError: Its class, or that of a nested snapshot, is not registered.
    """
    pending = [snapshot]
    while pending:
        one = pending.pop()
        pending += one.children()
        if not isinstance(one, SkippedSnapshot) and registry.snapshot_class(one.snapshot_id) is None:
            name = f"{type(one).__module__}.{type(one).__qualname__}"
            raise DeclarationError(
                f"{what} has the snapshot class {name} ({one.snapshot_id or 'without a snapshot_id'}), which is not "
                "registered: the next process could not restore it",
                advice="decorate the class with @register_snapshot, in a module that the job imports",
            )
