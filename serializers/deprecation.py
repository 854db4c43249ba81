"""Deprecation warnings: a deprecated name works as before, and says since when, until when, and what to use."""

from __future__ import annotations

import functools
import warnings
from typing import TYPE_CHECKING, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

P = ParamSpec("P")
R = TypeVar("R")


def deprecated(*, since: str, removed_in: str, use: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Return a decorator that makes each call of a function or method warn its caller.

    Args:
        since: The release that deprecates it.
        removed_in: The release that no longer has it; a test fails once the source has that version.
        use: What to use instead, as a caller writes it.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(function)
        def called(*args: P.args, **kwargs: P.kwargs) -> R:
            what = f"{function.__qualname__}()"
            warn_deprecated(what, since=since, removed_in=removed_in, use=use, stacklevel=2)
            return function(*args, **kwargs)

        return called

    return decorate


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
