"""Type variables that default to `Any`: `K` and `V`.

Without a default, a checker would require an annotation of each `ValueStateDescriptor("x", int | None)`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    K = TypeVar("K", default=Any)
    V = TypeVar("V", default=Any)
else:  # before Python 3.13, only type checkers know defaults
    from typing import TypeVar

    K, V = TypeVar("K"), TypeVar("V")
