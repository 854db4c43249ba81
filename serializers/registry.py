"""The registry: the one place where snapshot classes and serializers of user types are looked up (rule SNAP-6)."""

from __future__ import annotations

from contextlib import contextmanager
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import attrs

from .errors import DeclarationError
from .families import Family, families

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from .serializer import TypeSerializer, V
    from .snapshot import TypeSerializerConfigSnapshot

S = TypeVar("S", bound="type[TypeSerializerConfigSnapshot[Any]]")


@attrs.frozen
class Additions:
    """What was registered in this process, and a worker lacks.

    Attributes:
        snapshots: Snapshot classes by id.
        families: Families.
    """

    snapshots: dict[str, type[TypeSerializerConfigSnapshot[Any]]] = attrs.field(factory=dict)
    families: tuple[Family, ...] = ()


@cache
def built_in_modules() -> dict[str, str]:
    """Return the modules of built-in snapshots by id: so one is found without loading the others.

    The file is read through the loader, as it may lie in a zip file.
    """
    text: str = __spec__.loader.get_data(str(Path(__file__).with_name("snapshot_modules.txt"))).decode()  # type: ignore[union-attr]
    lines = (line.partition(": ") for line in text.splitlines() if line[:1] != "#")
    return {snapshot_id: module for module, _, ids in lines for snapshot_id in ids.split()}


def _is_built_in(cls: type) -> bool:
    return cls.__module__.startswith(f"{__package__}.")


class Registry:
    """Snapshot ids -> snapshot classes, and Python types -> serializers.

    Attributes:
        edition: A number that changes with every registration: results from before may differ now.
    """

    def __init__(self) -> None:
        self.edition = 0
        self._has_built_in = self._has_installed = False
        self._snapshots: dict[str, type[TypeSerializerConfigSnapshot[Any]]] = {}
        self._serializers: dict[type, TypeSerializer[Any]] = {}

    def register_snapshot(self, cls: S, *, aliases: Iterable[str] = ()) -> S:
        """Register a snapshot class under its `snapshot_id` and former ids; usable as a decorator.

        Raises:
            DeclarationError: The class could not be found or created again on restore, or the id is taken.
        """
        name = f"{cls.__module__}.{cls.__qualname__}"
        if not _is_built_in(cls):
            self._load_built_in()
        if not cls.snapshot_id:
            raise DeclarationError(f"{name} has no snapshot_id", advice="set snapshot_id = 'stateshift/<your name>'")
        if cls.__module__ == "__main__" or "." in cls.__qualname__ or cls.__qualname__.startswith("_"):
            raise DeclarationError(
                f"{name} is not a public class at the top of an importable module, so a restore could not find it",
                advice="move it to the top level of a module that the job imports",
            )
        try:
            sample = cls()
        except TypeError as error:
            raise DeclarationError(
                f"{name} cannot be created without arguments: {error}", advice="give every field a default"
            ) from error
        if sample.get_version() not in sample.get_compatible_versions():
            raise DeclarationError(f"{name} does not list its own version {sample.get_version()} as readable (SNAP-2)")
        for snapshot_id in (cls.snapshot_id, *aliases):
            taken = self._snapshots.get(snapshot_id)
            if taken is not None and (taken.__module__, taken.__qualname__) != (cls.__module__, cls.__qualname__):
                raise DeclarationError(
                    f"the snapshot id {snapshot_id!r} belongs to {taken.__module__}.{taken.__qualname__}"
                )
            self._snapshots[snapshot_id] = cls
        self.edition += 1
        return cls

    def snapshot_class(self, snapshot_id: str) -> type[TypeSerializerConfigSnapshot[Any]] | None:
        """Return the class that is registered under an id or alias, or None."""
        if snapshot_id not in self._snapshots and snapshot_id in built_in_modules():
            import_module(f".{built_in_modules()[snapshot_id]}", __package__)
        if snapshot_id not in self._snapshots and not self._has_installed:
            self._has_installed = True
            for family in families.installed.values():
                family.load_snapshots()
        return self._snapshots.get(snapshot_id)

    def additions(self) -> Additions:
        """Return what was registered from outside this package."""
        snapshots = {name: cls for name, cls in self._snapshots.items() if not _is_built_in(cls)}
        return Additions(snapshots, tuple(family.with_tables() for family in families.registered.values()))

    def add(self, additions: Additions) -> None:
        """Register the additions of another process."""
        self._load_built_in()
        self._snapshots.update(additions.snapshots)
        families.registered.update({family.package: family for family in additions.families})
        self.edition += 1

    def register_family(self, family: Family) -> None:
        """Register the types of a package.

        Raises:
            DeclarationError: It is no family, another family has its package, or a module cannot be imported.
        """
        families.register(family)
        self.edition += 1

    def _load_built_in(self) -> None:
        """Load the built-in families, so that their ids are taken."""
        if self._has_built_in:
            return
        for family in families.built_in.values():
            family.load_snapshots()
        self._has_built_in = True

    @contextmanager
    def restored(self, module: str = "") -> Iterator[None]:
        """Undo, after the `with` block, all registrations made within it.

        Args:
            module: Only what belongs to the module of this name. A module that it imports stays loaded, is not run
                again by a later import, and so keeps what it registered.
        """
        self._load_built_in()
        snapshots, serializers, registered = dict(self._snapshots), dict(self._serializers), dict(families.registered)
        try:
            yield
        finally:
            if module:
                snapshots |= {of: cls for of, cls in self._snapshots.items() if cls.__module__ != module}
                serializers |= {
                    of: one
                    for of, one in self._serializers.items()
                    if module not in {of.__module__, type(one).__module__}
                }
                registered |= {of: one for of, one in families.registered.items() if of != module}
            self._snapshots, self._serializers, families.registered = snapshots, serializers, registered
            self.edition += 1

    def register_serializer(self, python_type: type[V], serializer: TypeSerializer[V]) -> None:
        """Register `serializer` for type hints that name `python_type`."""
        if not isinstance(python_type, type):
            raise DeclarationError(f"{python_type!r} is not a class", advice="pass the class that hints will refer to")
        self._serializers[python_type] = serializer
        self.edition += 1

    def python_types(self) -> tuple[type, ...]:
        """Return the classes for which a serializer was registered."""
        return tuple(self._serializers)

    def serializer_for(self, python_type: object) -> TypeSerializer[Any] | None:
        """Return the serializer that is registered for a class, or None."""
        return self._serializers.get(python_type) if isinstance(python_type, type) else None


registry = Registry()
"""The one registry of the process."""


def register_snapshot(cls: S) -> S:
    """Register a snapshot class, as a decorator; see `Registry.register_snapshot`."""
    return registry.register_snapshot(cls)


def register_serializer(python_type: type[V], serializer: TypeSerializer[V]) -> None:
    """Register `serializer` for type hints that name `python_type`."""
    registry.register_serializer(python_type, serializer)


def register_family(family: Family) -> None:
    """Register the types of a package; an installed package does the same by an entry point of `stateshift.families`.

    Raises:
        DeclarationError: It is no family, another family has its package, or a module cannot be imported.
    """
    registry.register_family(family)
