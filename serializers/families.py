"""Families of types: what is registered for the types of one package, beyond their bytes and snapshots.

A family names tables, imported on first use. Tables of abilities have exact classes as keys: a subclass may write other
bytes, so it has only the abilities that its own family registers. What has none is read and written value by value.

Rules between two families, by (stored kind, new kind), belong to the higher one; the lower one finds them in the
registry, and so imports nothing from above.
"""

from __future__ import annotations

import enum
import sys
from functools import cached_property
from importlib import import_module
from importlib.machinery import PathFinder
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from .errors import DeclarationError, StateShiftError, cause_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from importlib.metadata import EntryPoint

    from .compatibility import CompatibilityResult
    from .hints import HintFunction, HintTable
    from .serializer import TypeSerializer
    from .snapshot import TypeSerializerConfigSnapshot

_PACKAGE = __name__.partition(".")[0]
ANY = "*"
"""Matches any kind of snapshot."""

_BUILT_IN = (
    "primitives", "flink", "temporal", "containers", "enums", "records", "rows", "avro", "pickled", "sql", "pyflink",
)  # fmt: skip
_ENTRY_POINTS = "stateshift.families"
"""The group of the entry points by which installed packages register families."""


class Ability(enum.StrEnum):
    """What a family can register for its classes; the value of each names the field of `Family` with its table.

    The tables:
        REWRITES: Serializer class -> function (writer, reader, conversion) -> `ByteRewrite` or None.
        COLUMNS: Serializer class -> function (codecs, serializer) -> `ColumnCodec`.
        JSON_FORMS: Snapshot class -> function (snapshot) -> function that converts a value to JSON. The form of a base
            counts as well. A class of values is also a key: where their snapshot has no form, they have this.
        SOURCES: Snapshot class -> type hint in source that `init` writes, or function (source, snapshot, use) -> hint.
        NULLS: Snapshot class -> function (nulls, value, snapshot) that looks into a value for nulls, for `init`.
        STRATEGIES: Serializer class -> function (drawing, serializer) -> hypothesis strategy of its values.
        HINTS: Type, or generic origin -> serializer, or function (hint, arguments) -> serializer of a generic hint.
    """

    REWRITES = "rewrites"
    COLUMNS = "columns"
    JSON_FORMS = "json_forms"
    SOURCES = "sources"
    NULLS = "nulls"
    STRATEGIES = "strategies"
    HINTS = "hints"


_ONLY_HERE = frozenset({Ability.STRATEGIES, Ability.SOURCES, Ability.NULLS})
"""What no worker asks for."""


def _check_place(family: Family, attribute: attrs.Attribute[str], place: str) -> None:
    module, _, name = place.partition(":")
    if place and not (module and name):
        raise DeclarationError(
            f"{attribute.name}={place!r} of the family of {family.package} names no place",
            advice="write module:name; a module of the package itself begins with a dot",
        )


def _place() -> str:
    place: str = attrs.field(default="", validator=_check_place)
    return place


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
        columns: The place of the table of `Ability.COLUMNS`.
        json_forms: The place of the table of `Ability.JSON_FORMS`.
        sources: The place of the table of `Ability.SOURCES`.
        nulls: The place of the table of `Ability.NULLS`.
        strategies: The place of the table of `Ability.STRATEGIES`.
        hints: The place of the table of `Ability.HINTS`.
        classes: The place of a function that returns the serializer of a class that no table has as a hint, or None.
    """

    package: str
    snapshots: tuple[str, ...] = ()
    rules: Mapping[tuple[str, str], str] = attrs.field(factory=dict)
    rewrites: str = _place()
    columns: str = _place()
    json_forms: str = _place()
    sources: str = _place()
    nulls: str = _place()
    strategies: str = _place()
    hints: str = _place()
    classes: str = _place()
    _found: dict[str, Any] = attrs.field(factory=dict, init=False, eq=False, repr=False)

    def table(self, ability: Ability) -> Mapping[Any, Any]:
        """Return the table of an ability; it is empty where the family has none."""
        place: str = getattr(self, ability)
        table: Mapping[Any, Any] = self.load(place) if place else {}
        return table

    def load(self, place: str) -> Any:
        """Return the object at a place, or the module where the place has no name.

        Raises:
            DeclarationError: The module or the name does not exist, or the module cannot be imported.
        """
        if place not in self._found:
            module, _, name = place.partition(":")
            try:
                found = import_module(module, self.package)
                self._found[place] = getattr(found, name) if name else found
            except StateShiftError:
                raise
            except (ImportError, AttributeError) as error:
                raise DeclarationError(
                    f"the family of {self.package} names {place}, which cannot be loaded: {cause_text(error)}",
                    advice="correct the place, or the module that it names",
                ) from error
        return self._found[place]

    def load_snapshots(self) -> None:
        """Import the modules that register snapshot classes.

        Raises:
            DeclarationError: One of them does not exist, or cannot be imported.
        """
        for module in self.snapshots:
            self.load(module)

    def with_tables(self) -> Family:
        """Return a copy that has all which a worker can ask for; a worker may lack the package."""
        copy = attrs.evolve(self)
        for place in (
            *(getattr(self, one) for one in Ability if one not in _ONLY_HERE),
            self.classes,
            *self.rules.values(),
        ):
            if place:
                copy._found[place] = self.load(place)  # noqa: SLF001 - of the same class
        return copy


def family_of(package: str, abilities: str, **others: Any) -> Family:
    """Return a family of this package, by the names of its abilities: their tables are in its module `abilities`.

    Those of columns and strategies are in modules of these names, which import numpy and hypothesis.
    """
    places: dict[str, Any] = {
        name: f".{name if name in {'columns', 'strategies'} else 'abilities'}:{name.upper()}"
        for name in abilities.split()
    }
    return Family(package, **places, **others)


def _entry_points() -> Iterable[EntryPoint]:
    if not _may_be_declared():
        return ()
    from importlib.metadata import entry_points

    return entry_points(group=_ENTRY_POINTS)


def _may_be_declared() -> bool:
    """Whether some place may have such entry points: what reads them takes longer to import than this takes."""
    if any(hasattr(finder, "find_distributions") and finder is not PathFinder for finder in sys.meta_path):
        return True
    for place in map(Path, dict.fromkeys(sys.path)):
        if place.suffix == ".egg" or (place.exists() and not place.is_dir()):  # such as a zip file
            return True
        declared = place.glob("*-info/entry_points.txt")
        if any(f"[{_ENTRY_POINTS}]" in file.read_text(encoding="utf-8", errors="replace") for file in declared):
            return True
    return False


def _is_of_others(hint: object) -> bool:
    """Whether a hint is a class that is neither Python's nor of this package: no table of a built-in family has it."""
    if not isinstance(hint, type):
        return False
    top = hint.__module__.partition(".")[0]
    return top not in {_PACKAGE, "builtins"} and top not in sys.stdlib_module_names


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
        modules = (import_module(f".{name}", __package__) for name in _BUILT_IN)
        return {module.FAMILY.package: module.FAMILY for module in modules}

    @cached_property
    def installed(self) -> dict[str, Family]:
        """The families of installed packages; found on the first look-up of a class that is not built in."""
        found: dict[str, Family] = {}
        for point in _entry_points():
            try:
                family = point.load()
            except Exception as error:
                raise DeclarationError(
                    f"the entry point {point.name!r} ({point.value}) cannot be loaded: {cause_text(error)}",
                    advice="repair or uninstall the package that declares it",
                ) from error
            self._require_new(family, found, of=f" of the entry point {point.name!r} ({point.value})")
            found[family.package] = family
        return found

    def register(self, family: Family) -> None:
        """Register a family, and import the modules of its snapshots.

        Raises:
            DeclarationError: It is no family, another family has its package, or a module cannot be imported.
        """
        self._require_new(family, self.installed | self.registered)
        family.load_snapshots()
        self.registered[family.package] = family

    def _require_new(self, family: Family, others: Mapping[str, Family], *, of: str = "") -> None:
        if not isinstance(family, Family):
            raise DeclarationError(f"{family!r}{of} is not a Family", advice="name an object of the class Family")
        if (self.built_in | dict(others)).get(family.package, family) != family:
            raise DeclarationError(
                f"the classes of {family.package} already belong to another family{', beside that' + of if of else ''}",
                advice="one family has all the classes of a package: register it once",
            )

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

    def hint(self, hint: object) -> TypeSerializer[Any] | HintFunction | None:
        """Return what a family has registered for a type or a generic origin as a hint; None if none has."""
        own = () if _is_of_others(hint) else self.built_in.values()
        tables: Iterator[HintTable] = (family.table(Ability.HINTS) for family in chain(own, self._of_others()))
        return next((table[hint] for table in tables if hint in table), None)

    def serializer_of_class(self, cls: type) -> TypeSerializer[Any] | None:
        """Return the serializer of a class that is no hint by itself, as an enum or a record class; see `Family`."""
        for family in chain(self.built_in.values(), self._of_others()):
            serializer: TypeSerializer[Any] | None = family.load(family.classes)(cls) if family.classes else None
            if serializer is not None:
                return serializer
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

    def _of_others(self) -> Iterator[Family]:
        """Yield the families that are not built in."""
        yield from self.registered.values()
        yield from self.installed.values()

    def _in_order(self) -> Iterator[dict[str, Family]]:
        """Yield built-in, registered and installed families; the last are loaded only where they are asked for."""
        yield self.built_in
        yield self.registered
        yield self.installed


families = Families()
"""The families of the process."""
