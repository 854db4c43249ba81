"""Families of types: what is registered for the types of one package, beyond their bytes and snapshots.

A family names tables, imported on first use. Tables of abilities have exact classes as keys: a subclass may write other
bytes, so it has only the abilities that its own family registers. What has none is read and written value by value.

Rules between two families, by (stored kind, new kind), belong to the higher one; the lower one finds them in the
registry, and so imports nothing from above.
"""

from __future__ import annotations

import enum
from functools import cached_property
from importlib import import_module
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any

import attrs

from .errors import DeclarationError, cause_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from .compatibility import CompatibilityResult
    from .serializer import TypeSerializer
    from .snapshot import TypeSerializerConfigSnapshot

ANY = "*"
"""Matches any kind of snapshot."""

_BUILT_IN = ("primitives", "flink", "temporal", "containers", "enums", "records", "rows", "avro", "pickled")
_ENTRY_POINTS = "stateshift.families"
"""The group of the entry points by which installed packages register families."""


class Ability(enum.StrEnum):
    """What a family can register for its classes; the value of each names the field of `Family` with its table.

    The tables:
        REWRITES: Serializer class -> function (writer, reader, conversion) -> `ByteRewrite` or None.
        JSON_FORMS: Snapshot class -> function (snapshot) -> function that converts a value to JSON. The form of a base
            counts as well. A class of values is also a key: where their snapshot has no form, they have this.
        SOURCES: Snapshot class -> type hint in source that `init` writes, or function (source, snapshot, use) -> hint.
        NULLS: Snapshot class -> function (nulls, value, snapshot) that looks into a value for nulls, for `init`.
    """

    REWRITES = "rewrites"
    JSON_FORMS = "json_forms"
    SOURCES = "sources"
    NULLS = "nulls"


@attrs.frozen
class Family:
    """The types of one package. Nothing is imported before it is needed.

    A place is `module:name`; a module that begins with a dot is within the package.

    Attributes:
        package: The package or module whose classes belong to the family.
        snapshots: The modules that register snapshot classes.
        rules: (stored kind, new kind) -> the place of a function that takes the new serializer and the stored snapshot.
            It returns a result, or None where it does not apply. A kind may be `ANY`.
        rewrites: The place of the table of `Ability.REWRITES`.
        json_forms: The place of the table of `Ability.JSON_FORMS`.
        sources: The place of the table of `Ability.SOURCES`.
        nulls: The place of the table of `Ability.NULLS`.
    """

    package: str
    snapshots: tuple[str, ...] = ()
    rules: Mapping[tuple[str, str], str] = attrs.field(factory=dict)
    rewrites: str = ""
    json_forms: str = ""
    sources: str = ""
    nulls: str = ""

    def table(self, ability: Ability) -> Mapping[type, Any]:
        """Return the table of an ability; it is empty where the family has none."""
        place: str = getattr(self, ability)
        table: Mapping[type, Any] = self.load(place) if place else {}
        return table

    def load(self, place: str) -> Any:
        """Return the object at a place."""
        module, _, name = place.partition(":")
        return getattr(import_module(module, self.package), name)

    def load_snapshots(self) -> None:
        """Import the modules that register snapshot classes."""
        for module in self.snapshots:
            import_module(module, self.package)


class Families:
    """All families of the process: the built-in ones, those of installed packages, and those registered by a call.

    Attributes:
        registered: The families registered by a call, which a worker lacks, by package.
    """

    def __init__(self) -> None:
        self.registered: dict[str, Family] = {}

    @cached_property
    def built_in(self) -> dict[str, Family]:
        """The families of this package."""
        modules = (import_module(f".{name}.family", __package__) for name in _BUILT_IN)
        return {module.FAMILY.package: module.FAMILY for module in modules}

    @cached_property
    def installed(self) -> dict[str, Family]:
        """The families of installed packages; found on the first look-up of a class that is not built in."""
        found: dict[str, Family] = {}
        for point in entry_points(group=_ENTRY_POINTS):
            try:
                family = point.load()
            except Exception as error:
                raise DeclarationError(
                    f"the entry point {point.name!r} ({point.value}) cannot be loaded: {cause_text(error)}",
                    advice="repair or uninstall the package that declares it",
                ) from error
            self._require_new(family, found)
            found[family.package] = family
        return found

    def register(self, families: Iterable[Family]) -> None:
        """Register families.

        Raises:
            DeclarationError: One of them is no family, or another family has its package.
        """
        for family in families:
            self._require_new(family, self.installed | self.registered)
            self.registered[family.package] = family

    def _require_new(self, family: Family, others: Mapping[str, Family]) -> None:
        if not isinstance(family, Family):
            raise DeclarationError(f"{family!r} is not a Family")
        if (self.built_in | dict(others)).get(family.package, family) != family:
            raise DeclarationError(f"the classes of {family.package} already belong to another family")

    def find(self, ability: Ability, cls: type) -> Any:
        """Return what the family of a class has registered for exactly this class; None if there is nothing."""
        family = self._family_of(cls)
        return None if family is None else family.table(ability).get(cls)

    def find_nearest(self, ability: Ability, cls: type) -> Any:
        """Return what is registered for a class or, if nothing is, for the first of its bases for which something is.

        It is for what only concerns values: a subclass may write other bytes.
        """
        for base in cls.__mro__[:-1]:
            found = self.find(ability, base)
            if found is not None:
                return found
        return None

    def tables(self, ability: Ability) -> Iterator[Mapping[type, Any]]:
        """Yield the table of each family, for look-ups of classes that do not say by their module where they belong."""
        for families in self._in_order():
            yield from (family.table(ability) for family in families.values())

    def _family_of(self, cls: type) -> Family | None:
        """Return the family of the innermost package around a class."""
        module = cls.__module__
        for families in self._in_order():
            name = module
            while name:
                if name in families:
                    return families[name]
                name = name.rpartition(".")[0]
        return None

    def judge(
        self, stored: str, new: str, serializer: TypeSerializer[Any], snapshot: TypeSerializerConfigSnapshot[Any]
    ) -> CompatibilityResult[Any] | None:
        """Return the result of the rule for a stored and a new kind; None if there is none. See `Family.rules`."""
        for families in self._in_order():
            for family in families.values():
                if (stored, new) in family.rules:
                    result: CompatibilityResult[Any] | None = family.load(family.rules[stored, new])(
                        serializer, snapshot
                    )
                    return result
        return None

    def _in_order(self) -> Iterator[dict[str, Family]]:
        """Yield built-in, registered and installed families; the last are loaded only where they are asked for."""
        yield self.built_in
        yield self.registered
        yield self.installed


families = Families()
"""The families of the process."""


def register_family(family: Family) -> None:
    """Register the types of a package; an installed package does the same by an entry point of `stateshift.families`.

    Raises:
        DeclarationError: Another family has the package.
    """
    families.register([family])
    family.load_snapshots()
