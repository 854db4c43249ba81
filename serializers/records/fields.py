"""Fields of records: as code declares them, and as a snapshot knows them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from ..containers.optional import OptionalSerializer
from ..serializer import DECLARED

if TYPE_CHECKING:
    from ..defaults import Default
    from ..serializer import TypeSerializer
    from ..snapshot import TypeSerializerConfigSnapshot


@attrs.frozen
class RecordField:
    """A field of a record that is declared in code.

    Attributes:
        name: Its name in the state.
        serializer: Of its values.
        optional: Whether it may be null. The layout has a null flag in front of every field, so this costs no byte.
        attribute: Its name in Python, if that is another one.
        init_name: The constructor's argument for it, if that is another one.
        aliases: Former names, in the order in which they are tried.
        default: For stored records that lack the field; None: there is none.
        on_none: For stored nulls, where the field is not optional any more.
        declared_by: The Java class that declares it, where that is a superclass.
        declared_aliases: Former names of that superclass.
    """

    name: str = attrs.field(metadata=DECLARED)
    serializer: TypeSerializer[Any]
    optional: bool = attrs.field(default=False, metadata=DECLARED)
    attribute: str = ""
    init_name: str = ""
    aliases: tuple[str, ...] = attrs.field(default=(), metadata=DECLARED)
    default: Default | None = attrs.field(default=None, metadata=DECLARED)
    on_none: Default | None = attrs.field(default=None, metadata=DECLARED)
    declared_by: str = ""
    declared_aliases: tuple[str, ...] = attrs.field(default=(), metadata=DECLARED)

    @property
    def step(self) -> str:
        """The path step to its values: `.name`, or `.name?` where it is optional, unless its own type adds the `?`."""
        return f".{self.name}" + ("?" if self.optional and not isinstance(self.serializer, OptionalSerializer) else "")

    def describe(self) -> str:
        """Name the type: `optional<string>`."""
        inner = self.serializer.describe()
        return f"optional<{inner}>" if self.optional and not inner.startswith("optional<") else inner


@attrs.frozen
class StoredField:
    """A field as a snapshot knows it.

    Attributes:
        name: Its name in the state.
        snapshot: Of its values.
        optional: Whether it may be null; None where the snapshot does not say (Flink's never does).
        declared_by: The Java class that declares it; "" where the snapshot does not say.
        takes_null: Whether the code that stored it lets it be null, where the snapshot does not say and the code, or a
            record of it, is at hand.
    """

    name: str
    snapshot: TypeSerializerConfigSnapshot[Any]
    optional: bool | None = None
    declared_by: str = ""
    takes_null: bool | None = attrs.field(default=None, eq=False, repr=False)

    def describe(self) -> str:
        """Name the type."""
        inner = self.snapshot.describe()
        return f"optional<{inner}>" if self.optional else inner
