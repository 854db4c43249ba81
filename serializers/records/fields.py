"""Fields of records: as declared in code, and as described by a snapshot."""

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
        serializer: The serializer of its values.
        optional: Whether it may be null. The layout has a null flag before every field, so this costs no byte.
        attribute: Its name in Python, if different.
        init_name: The constructor's argument for it, if different.
        aliases: Former names, in the order in which they are tried.
        default: The default for stored records that lack the field; None: there is none.
        on_none: The value that replaces stored nulls, if the field is no longer optional.
        declared_by: The Java class that declares it, if it is a superclass.
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
        """The path step to its values: `.name`, or `.name?` if it is optional, unless its serializer adds the `?`."""
        return f".{self.name}" + ("?" if self.optional and not isinstance(self.serializer, OptionalSerializer) else "")

    def describe(self) -> str:
        """Return the name of the type: `optional<string>`."""
        inner = self.serializer.describe()
        return f"optional<{inner}>" if self.optional and not inner.startswith("optional<") else inner


@attrs.frozen
class StoredField:
    """A field as its snapshot describes it.

    Attributes:
        name: Its name in the state.
        snapshot: The snapshot of its values.
        optional: Whether it may be null; None where the snapshot does not say (Flink's never does).
        declared_by: The Java class that declares it; "" where the snapshot does not say.
        takes_null: Whether the code that stored it allows null, where the snapshot does not say and that code, or a
            recorded revision of it, is known.
    """

    name: str
    snapshot: TypeSerializerConfigSnapshot[Any]
    optional: bool | None = None
    declared_by: str = ""
    takes_null: bool | None = attrs.field(default=None, eq=False, repr=False)

    def describe(self) -> str:
        """Return the name of the type."""
        inner = self.snapshot.describe()
        return f"optional<{inner}>" if self.optional else inner
