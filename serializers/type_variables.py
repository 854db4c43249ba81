"""Type variables that stand for anything where a type checker finds out nothing: `K` and `V`.

Without a default a checker would ask for an annotation of each `ValueStateDescriptor("x", int | None)`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    K = TypeVar("K", default=Any)
    V = TypeVar("V", default=Any)
else:  # before Python 3.13 a default is known to checkers alone
    from typing import TypeVar

    K, V = TypeVar("K"), TypeVar("V")
