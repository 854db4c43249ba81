"""The registry: the one place where snapshot classes and serializers of user types are looked up (rule SNAP-6)."""

from __future__ import annotations

from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar

from .errors import DeclarationError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from .serializer import TypeSerializer
    from .snapshot import TypeSerializerConfigSnapshot
    from .type_variables import V

S = TypeVar("S", bound="type[TypeSerializerConfigSnapshot[Any]]")

_FAMILIES = (
    *("primitives.big_numbers", "primitives.numeric", "primitives.text"),
    *("flink.avro", "flink.kryo", "flink.timers", "flink.void", "flink.windows"),
    *("temporal.java_sql", "temporal.java_time"),
    *("containers.arrays", "containers.either", "containers.lists", "containers.maps", "containers.object_arrays"),
    *("containers.optional", "containers.ttl", "containers.ttl_aware", "containers.tuples"),
    *("enums.serializers", "records.pojo", "records.recursive", "records.serializers", "rows.serializers"),
    *("avro.serializers", "pickled.serializers"),
)
"""The modules that register the built-in families: loaded on the first look-up, which few commands need."""

_HINTS = ".hints"


def is_built_in(cls: type) -> bool:
    """Whether a class belongs to this package; a user's subclass may write other bytes."""
    return cls.__module__.startswith(f"{__package__}.")


class Registry:
    """Snapshot ids -> snapshot classes, and Python types -> serializers.

    Attributes:
        edition: A number that changes with every registration: results from before may differ now.
    """

    def __init__(self) -> None:
        self.edition = 0
        self._has_families = False
        self._snapshots: dict[str, type[TypeSerializerConfigSnapshot[Any]]] = {}
        self._serializers: dict[type, TypeSerializer[Any]] = {}
        self._record_serializer: Callable[[type], TypeSerializer[Any]] | None = None

    def register_snapshot(self, cls: S, *, aliases: Iterable[str] = ()) -> S:
        """Register a snapshot class under its `snapshot_id` and former ids; usable as a decorator.

        Raises:
            DeclarationError: The class could not be found or created again on restore, or the id is taken.
        """
        name = f"{cls.__module__}.{cls.__qualname__}"
        if not is_built_in(cls):
            self._load_families()
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
        self._load_families()
        return self._snapshots.get(snapshot_id)

    def additions(self) -> dict[str, type[TypeSerializerConfigSnapshot[Any]]]:
        """Return the snapshot classes registered from outside this package, by id: a worker lacks them."""
        return {name: cls for name, cls in self._snapshots.items() if not is_built_in(cls)}

    def add(self, snapshots: dict[str, type[TypeSerializerConfigSnapshot[Any]]]) -> None:
        """Register the result of `additions` of another process."""
        self._load_families()
        self._snapshots.update(snapshots)
        self.edition += 1

    def _load_families(self) -> None:
        """Load the built-in families, so that their ids are taken."""
        if not self._has_families:
            for name in _FAMILIES:
                import_module(f".{name}", __package__)
            self._has_families = True

    @contextmanager
    def restored(self) -> Iterator[None]:
        """Undo, after the `with` block, all registrations made within it."""
        self._load_families()
        snapshots, serializers = dict(self._snapshots), dict(self._serializers)
        try:
            yield
        finally:
            self._snapshots, self._serializers = snapshots, serializers
            self.edition += 1

    def register_serializer(self, python_type: type[V], serializer: TypeSerializer[V]) -> None:
        """Register `serializer` for type hints that name `python_type`."""
        if not isinstance(python_type, type):
            raise DeclarationError(f"{python_type!r} is not a class", advice="pass the class that hints will name")
        self._serializers[python_type] = serializer
        self.edition += 1

    def make_records_with(self, record_serializer: Callable[[type], TypeSerializer[Any]]) -> None:
        """Set the function that makes serializers of record classes; it is in `hints`, which imports all families."""
        self._record_serializer = record_serializer

    def record_serializer(self, cls: type) -> TypeSerializer[Any]:
        """Return the serializer of a record class.

        Raises:
            DeclarationError: A field cannot be stored, or a class with a Java class contains itself.
        """
        if self._record_serializer is None:
            import_module(_HINTS, __package__)
            return self.record_serializer(cls)
        return self._record_serializer(cls)

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
