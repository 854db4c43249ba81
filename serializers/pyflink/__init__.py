"""What PyFlink stores: the bytes that its coders make of Python values, which Flink keeps without knowing them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..families import family_of

if TYPE_CHECKING:
    from ..serializer import TypeSerializer

FAMILY = family_of(
    __package__, "columns strategies json_forms rewrites sources", snapshots=(".byte_keys", ".coders", ".contents")
)
"""What is registered for bytes of PyFlink's coders."""


def coder_for(hint: Any) -> TypeSerializer[Any]:
    """Return the serializer that writes exactly the bytes of PyFlink's coder of a type; see `coder_hints.coder_for`.

    Raises:
        DeclarationError: PyFlink has no coder for the type.
    """
    found: TypeSerializer[Any] = FAMILY.load(".coder_hints:coder_for")(hint)
    return found


def java_type(hint: Any) -> TypeSerializer[Any]:
    """Return the serializer of the type in which PyFlink's thread mode keeps a type; see `java_types.java_type`.

    Raises:
        DeclarationError: Thread mode cannot keep it.
    """
    found: TypeSerializer[Any] = FAMILY.load(".java_types:java_type")(hint)
    return found
