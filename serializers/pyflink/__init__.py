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


def is_of_pyflink(given: object) -> bool:
    """Whether something is of a class of PyFlink itself, or of one that a job derives from it."""
    return any(cls.__module__.partition(".")[0] == "pyflink" for cls in type(given).__mro__)


def type_as_ours(given: Any) -> Any:
    """Return a type of PyFlink itself as ours; anything else as it is. See `type_infos.type_as_ours`.

    Raises:
        DeclarationError: It is a type that no state of PyFlink has.
    """
    return FAMILY.load(".type_infos:type_as_ours")(given) if is_of_pyflink(given) else given
