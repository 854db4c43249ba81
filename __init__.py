"""Change the types of streaming state without losing the state.

The public API is the list in `__init__.pyi`; the subpackages are `stateshift.serializers`, `stateshift.compat`,
`stateshift.state` and, with pyspark, `stateshift.spark`. A name is imported on first use, so that the command line and
the pytest plugin start without loading the rest.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec

__version__ = "0.1.0"


def _places() -> dict[str, str]:
    """Return the module of each name in the stub, which has one import per line.

    The stub is read through the loader, because on a Spark worker the package may lie in a zip file.
    """
    text = __spec__.loader.get_data(f"{__file__}i").decode()
    imports = (line.split() for line in text.splitlines() if line.startswith("from ."))
    return {name: module for _, module, _, name, *_ in imports}


_PLACES = _places()
__all__ = sorted(_PLACES)  # noqa: PLE0605 - tools read the stub


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_PLACES[name], __name__), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


class _FormerModules:
    """Finds modules by former names, which old pickles contain. It is the last finder that Python asks."""

    @staticmethod
    def find_spec(name: str, *_: object) -> ModuleSpec | None:
        if not name.startswith(f"{__name__}."):
            return None
        found: ModuleSpec | None = import_module(".serializers.stored_names", __name__).spec_of(name)
        return found


sys.meta_path.append(_FormerModules)
