"""`Default`: what fields and columns get that stored records and rows lack."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from .errors import shown

if TYPE_CHECKING:
    from collections.abc import Callable


@attrs.frozen
class Default:
    """A value for fields that stored records lack: a constant, or made for each record.

    Attributes:
        value: The constant.
        factory: Makes a value for each record, in place of the constant.
        title: Whose default it is, for sentences.
        null: What no value is called there.
    """

    value: Any = None
    factory: Callable[[], Any] | None = None
    title: str = attrs.field(default="the default", eq=False)
    null: str = attrs.field(default="None", eq=False)

    def make(self) -> Any:
        """Return the value for one record."""
        return self.value if self.factory is None else self.factory()

    def describe(self) -> str:
        """Return its name in a sentence: `0`, `list()`."""
        if self.factory is None:
            return self.null if self.value is None else shown(self.value)
        return f"{getattr(self.factory, '__qualname__', repr(self.factory))}()"
