"""Modules of which several generations live side by side: each sees its own classes, and no other's.

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
    """Load a file as the module `name`, for the `with` block alone.

    Within, imports of `name` give this module, and what it registers is known; afterwards everything is as before. So
    `accounts_v1.py` and `accounts_v2.py` may both be the module `accounts`, and define `accounts.Account`.

    Raises:
        JobNotFound: There is no such file.
    """
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None or not file.is_file():
        raise JobNotFound(
            f"there is no Python file {file}", advice="name a file beside the test, such as accounts_v1.py"
        )
    module, shadowed = importlib.util.module_from_spec(spec), sys.modules.get(name)
    with registry.restored():
        sys.modules[name] = module
        try:
            spec.loader.exec_module(module)
            yield module
        finally:
            if shadowed is None:
                del sys.modules[name]
            else:
                sys.modules[name] = shadowed
