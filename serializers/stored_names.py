"""Stored names: where something that a pickle, a snapshot or a plan names is today.

Stored data outlives modules. A pickle says `stateshift.serializers.row_values.Row` for good, and so does the snapshot
of a pickled state. Three things keep such data readable:

- `former_modules.txt` lists where the names of former modules are now. Every unpickler uses it: the guarded one calls
`place_of`; Python's own imports a former module, which the package's `__init__` creates with `spec_of`.
- Public value classes are decorated with `lasting`: new pickles name `stateshift.Row`, which never moves.
- Snapshots, and lists of trusted classes, always know each of these classes by one name, that in `VALUES`, because
snapshots are compared by their bytes.

A change that moves a module also adds a line to `former_modules.txt`, with the names of all that the module defines.
Python itself finds a module that becomes a package of the same name; its `__init__` has
`__getattr__ = former_names(__name__)` beside its exports.

A deprecated name works as before, and says since when, until when, and what to use (`warn_deprecated`).
"""

from __future__ import annotations

import inspect
import re
import sys
import warnings
from importlib import import_module
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType


def warn_deprecated(what: str, *, since: str, removed_in: str, use: str, stacklevel: int = 2) -> None:
    """Warn that an argument, a value or a class is deprecated.

    Args:
        what: The deprecated thing, as a caller writes it.
        since: The release that deprecates it.
        removed_in: The release that no longer has it.
        use: What to use instead.
        stacklevel: The frame that the warning points to: 1 is the caller of this function, 2 the caller of that one.
    """
    warnings.warn(
        f"{what} is deprecated since stateshift {since}, and will be removed in {removed_in}: use {use}",
        DeprecationWarning,
        stacklevel=stacklevel + 1,
    )


C = TypeVar("C", bound=type)

FACE = __name__.partition(".")[0]


def _read() -> tuple[dict[str, tuple[str, ...]], dict[tuple[str, str], str]]:
    """Return the tables `MOVED` and `_FORMER`; the file is read through the loader, as it may lie in a zip file."""
    file = Path(__file__).with_name("former_modules.txt")
    moved: dict[str, tuple[str, ...]] = {}
    former: dict[tuple[str, str], str] = {}
    for line in __spec__.loader.get_data(str(file)).decode().splitlines():  # type: ignore[union-attr]
        if line[:1] == "#":
            continue
        module, _, rest = line.partition(": ")
        places, _, names = rest.partition(" | ")
        moved[f"{FACE}.{module}"] = tuple(f"{FACE}.{place}" for place in places.split())
        former |= {(f"{FACE}.{places}", name): f"{FACE}.{module}" for name in names.split()}
    return moved, former


MOVED, _FORMER = _read()
"""Former module -> the modules that have its names now; if it was split, the first of them that has a name counts.

And: module and name today -> the former module by which snapshots and fingerprints know that name for good.
"""

VALUES = {
    "stateshift.serializers.either": ("Either", "Left", "Right"),
    "stateshift.serializers.flink.namespaces": ("CountWindow",),
    "stateshift.serializers.kryo": ("KryoBytes",),
    "stateshift.serializers.pickled_values": ("PickledValue",),
    "stateshift.serializers.record_values": ("Record",),
    "stateshift.serializers.row_values": ("Row", "RowKind"),
    "stateshift.serializers.sql_temporal_values": ("JavaDate", "SqlDate", "SqlTime", "SqlTimestamp"),
    "stateshift.serializers.sql.values": ("RowData", "TimestampData"),
    "stateshift.serializers.symbols": ("Symbol",),
    "stateshift.serializers.temporal_values": ("Instant", "LocalDate", "LocalDateTime", "LocalTime"),
    "stateshift.serializers.timers": ("Timer",),
    "stateshift.serializers.ttl": ("TtlValue",),
    "stateshift.serializers.windows": ("GlobalWindow", "TimeWindow", "VoidNamespace"),
}
"""The modules of the value classes in version 0.1, whose snapshots and pickles name them. No line ever changes."""

_KNOWN_AS = {(FACE, name): f"{module}.{name}" for module, names in VALUES.items() for name in names}
_LASTING = {(module, name): (FACE, name) for module, names in VALUES.items() for name in names}
_OF_THE_PACKAGE = re.compile(rf"\b{FACE}(?:\.\w+)+")


def lasting(cls: C) -> C:
    """Make pickles name a class by the package, as `stateshift.Row`, whatever its module is.

    Its hints are resolved first, because they would otherwise be looked up in the module that the class names.
    """
    hints = inspect.get_annotations(cls, eval_str=True)
    if hints:
        cls.__annotations__ = hints
    cls.__module__ = FACE
    return cls


def place_of(module: str, name: str) -> tuple[str, str]:
    """Return the present module and name of what had this name when it was stored."""
    if (module, name) in _LASTING:
        return _LASTING[module, name]
    places = MOVED.get(module, ())
    if len(places) > 1 or (places and places[0].startswith(f"{module}.")):  # else there is no need to import it
        places = tuple(place for place in places if _has(place, name.partition(".")[0]))
    return (places[0] if places else module), name


def _has(place: str, name: str) -> bool:
    """Whether a module has a name that is not a module; a package has its submodules as attributes, too."""
    return not inspect.ismodule(getattr(import_module(place), name, inspect))


def known_place(module: str, name: str) -> tuple[str, str]:
    """Return the module and the name by which snapshots and fingerprints know a class or a function."""
    place = place_of(module, name)[0]
    return _FORMER.get((place, name.partition(".")[0]), place), name


def known_as(module: str, name: str) -> str:
    """Return the one qualified name of a class, for any of its names."""
    return _KNOWN_AS.get(place_of(module, name)) or ".".join(known_place(module, name))


def qualified_name(cls: type) -> str:
    """Return the identity of a Python class: module and qualified name."""
    return known_as(cls.__module__, cls.__qualname__)


def known_name(full: str) -> str:
    """Return the one qualified name of a class of this package; any other text as it is."""
    if not full.startswith(f"{FACE}."):
        return full
    parts = full.split(".")
    splits = ((".".join(parts[:at]), ".".join(parts[at:])) for at in range(len(parts) - 1, 0, -1))
    known = (one for one in splits if one in _KNOWN_AS or one in _FORMER or one[0] in MOVED)
    return next((known_as(*one) for one in known), full)


def in_known_names(text: str) -> str:
    """Return a text in which each class of this package has its one qualified name."""
    return _OF_THE_PACKAGE.sub(lambda found: known_name(found[0]), text)


def former_names(module: str) -> Callable[[str], Any]:
    """Return a `__getattr__` for a former module, which finds names where they are now.

    An import statement of such a name warns that it has moved; a pickle that names it does not.
    """

    def find(name: str) -> Any:
        # Of a module in the package `from … import` asks here first, too, and imports it if there is no such attribute.
        is_own = name.startswith("__") or _has_module(module, name)
        place = module if is_own else place_of(module, name)[0]
        if place == module:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        found = getattr(import_module(place), name)
        if sys._getframe(1).f_code.co_name == "_handle_fromlist":  # noqa: SLF001 - called by `from … import`
            warn_deprecated(f"{module}.{name}", since="0.1", removed_in="1.0", use=f"{place}.{name}")
        return found

    return find


def _has_module(package: str, name: str) -> bool:
    try:
        return find_spec(f"{package}.{name}") is not None
    except ModuleNotFoundError:  # it is no package
        return False


def spec_of(module: str) -> ModuleSpec | None:
    """Return the spec of a former module; None for any other."""
    loader: Any = _FormerModule()  # no `importlib.abc.Loader`: that module takes long to import
    return ModuleSpec(module, loader, is_package=True) if module in MOVED else None


class _FormerModule:
    """A loader: it creates a module that has only names which are elsewhere now."""

    def create_module(self, _: ModuleSpec) -> None:
        """Leave it to Python to create the module."""

    def exec_module(self, module: ModuleType) -> None:
        module.__getattr__ = former_names(module.__name__)  # type: ignore[method-assign]  # the module's own hook
