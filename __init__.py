"""Change the types of streaming state without losing the state.

The public API is the list in `__init__.pyi`, and those of `stateshift.serializers`, `stateshift.compat`,
`stateshift.state` and, with pyspark, `stateshift.spark`. A name is imported on first use, so that the command line and
the pytest plugin start without loading the rest.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from importlib.machinery import ModuleSpec

__version__ = "0.1.0"


def _face(package: str) -> tuple[dict[str, str], list[str], Callable[[str], Any], Callable[[], list[str]]]:
    """Return `_PLACES`, `__all__`, `__getattr__` and `__dir__` of a package whose stub has one import per line.

    The stub is read through the loader, because on a Spark worker the package may lie in a zip file.
    """
    module: Any = sys.modules[package]
    text = module.__spec__.loader.get_data(f"{module.__file__}i").decode()
    imports = (line.split() for line in text.splitlines() if line.startswith("from ."))
    places = {name: place for _, place, _, name, *_ in imports}

    def find(name: str) -> Any:
        if name not in places:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(places[name], package), name)
        setattr(module, name, value)
        return value

    return places, sorted(places), find, lambda: sorted({*vars(module), *places})


_PLACES, __all__, __getattr__, __dir__ = _face(__name__)


class _FormerModules:
    """Finds modules by former names, which old pickles contain. It is the last finder that Python asks."""

    @staticmethod
    def find_spec(name: str, *_: object) -> ModuleSpec | None:
        if not name.startswith(f"{__name__}."):
            return None
        found: ModuleSpec | None = import_module(".serializers.stored_names", __name__).spec_of(name)
        return found


sys.meta_path.append(_FormerModules)
