"""`Symbol`: an enum's value as read without the user's enum class."""

from __future__ import annotations

import attrs

from ..stored_names import lasting


@lasting
@attrs.frozen(repr=False)
class Symbol:
    """A symbol of an enum whose class need not exist here. Equal by name.

    Attributes:
        name: The name, as stored.
        type_name: The stored class name of the enum; for display only.
    """

    name: str
    type_name: str = attrs.field(default="", eq=False)

    def __repr__(self) -> str:
        short = self.type_name.rpartition(".")[2].rpartition("$")[2]
        return f"{short}.{self.name}" if short else self.name
