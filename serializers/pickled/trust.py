"""What a caller trusts in pickles, and where no pickle may be. It loads nothing of what reads and writes them."""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from ..errors import DeclarationError
from ..stored_names import known_name

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from ..serializer import TypeSerializer

_scope: ContextVar[frozenset[str] | None] = ContextVar("_scope", default=None)


@contextmanager
def trusting(names: Collection[str]) -> Iterator[None]:
    """Trust the given names, and no others, in pickled values that are opened in the `with` block.

    A migration reads in such a block, where serializers return pickles unopened. Pickles of a savepoint are opened by
    what its caller trusts, whatever the job declares.
    """
    token = _scope.set(frozenset(map(known_name, names)))
    try:
        yield
    finally:
        _scope.reset(token)


def trusted_names() -> frozenset[str] | None:
    """Return the names that the enclosing `trusting` block trusts; None outside of one."""
    return _scope.get()


def refuse_pickles(serializer: TypeSerializer[Any], what: str) -> None:
    """Refuse pickles where values are looked up by their bytes: equal objects may have unequal pickles.

    Args:
        serializer: The serializer of a key or a namespace.
        what: What it serializes, such as "a key".

    Raises:
        DeclarationError: It is a serializer of pickles, or contains one.
    """
    pending = [serializer.snapshot_configuration()]
    while pending:
        snapshot = pending.pop()
        if snapshot.kind == "pickle":
            raise DeclarationError(
                f"{what} cannot be a pickle ({snapshot.describe()}): it is looked up by its bytes, and equal objects "
                "may have unequal pickles",
                advice="describe the class: an attrs class, a dataclass, a named tuple; or use a plain type",
            )
        pending += snapshot.children()
