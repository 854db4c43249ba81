"""Loading of several versions of one module side by side, each with its own classes.

Source: harness cases, A13.
"""

from __future__ import annotations

import importlib.util
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ...serializers.errors import JobNotFound
from ...serializers.registry import registry

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from types import ModuleType


@contextmanager
def isolated(file: Path, name: str) -> Iterator[ModuleType]:
    """Load a file as the module `name` for the duration of the `with` block.

    Within the block, imports of `name` return this module, and what it registers is known; afterwards everything is as
    before, but for other modules that it imported: they stay loaded, with what they registered. So
    `accounts_v1.py` and `accounts_v2.py` may both be the module `accounts`, and define `accounts.Account`.

    Raises:
        JobNotFound: The file does not exist.
    """
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None or not file.is_file():
        raise JobNotFound(
            f"there is no Python file {file}", advice="name a file beside the test, such as accounts_v1.py"
        )
    module, shadowed = importlib.util.module_from_spec(spec), sys.modules.get(name)
    with registry.restored(module=name):
        sys.modules[name] = module
        try:
            spec.loader.exec_module(module)
            yield module
        finally:
            if shadowed is None:
                del sys.modules[name]
            else:
                sys.modules[name] = shadowed
