"""`java_type`: the type in which PyFlink's thread mode keeps a type."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from ..containers.lists import MapSerializer
from ..errors import DeclarationError
from ..hints import serializer_for
from .coder_hints import coder_for
from .contents import PyFlinkPickle
from .row_pickles import is_held

if TYPE_CHECKING:
    from ..serializer import TypeSerializer

_WIDENED = {**dict.fromkeys(("byte", "short", "int"), int), "float": float, "char": str}
_KEPT = frozenset({"boolean", "long", "double", "string", "decimal"})
_PICKLED = frozenset({"bytes", "pickle", "row", "tuple"})


def java_type(hint: Any) -> TypeSerializer[Any]:
    """Return the type in which thread mode keeps a type: a wider one, or `bytes`, a pickle, where Java gets no values.

    Source: `to_java_typeinfo` in `pyflink.fn_execution.embedded.java_utils` of PyFlink 2.3, and its savepoints.

    Raises:
        DeclarationError: PyFlink fails at the first checkpoint of the type, or it is not known what it writes.
    """
    given: Any = serializer_for(hint)
    snapshot = given.snapshot_configuration()
    word = snapshot.describe()
    if word in _KEPT:
        return given  # type: ignore[no-any-return]
    if word in _WIDENED:
        return serializer_for(_WIDENED[word])
    if snapshot.kind == "map":
        return MapSerializer(java_type(given.key), java_type(given.value), nullable_values=True)
    if snapshot.kind == "array" and snapshot.children():
        return attrs.evolve(given, element=java_type(given.element))
    if snapshot.kind in _PICKLED:
        return _pickle(given) or serializer_for(bytes)
    raise DeclarationError(
        f"PyFlink was not seen to keep {word} in thread mode: of lists, big integers, instants, and arrays of numbers"
        " and texts its first checkpoint fails",
        advice='leave the state out, or declare what runs in process mode: execution_mode="process"',
    )


def _pickle(given: TypeSerializer[Any]) -> TypeSerializer[Any] | None:
    """Return the serializer of pickles of a row or tuple; None: they are left as bytes."""
    if given.snapshot_configuration().kind not in {"row", "tuple"}:
        return None
    content = coder_for(given)
    return PyFlinkPickle(content) if is_held(content.snapshot_configuration()) else None
