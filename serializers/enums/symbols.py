"""`Symbol`: the value that a reader without the user's enum class gives."""

from __future__ import annotations

import attrs

from ..stored_names import lasting


@lasting
@attrs.frozen(repr=False)
class Symbol:
    """A symbol of an enum that need not exist here. Equal by name.

    Attributes:
        name: As stored.
        type_name: The stored class name of the enum; for people.
    """

    name: str
    type_name: str = attrs.field(default="", eq=False)

    def __repr__(self) -> str:
        short = self.type_name.rpartition(".")[2].rpartition("$")[2]
        return f"{short}.{self.name}" if short else self.name
