"""What the entries of a state that stays are held against: a shape of their keys, and an op list that only reads.

Who reads a value as an object takes whatever an op list takes that rewrites it to itself; what that finds odd is for
objects to tell. So entries that pass are sound, and others may be.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from ...compat.description import StateKind
from ...compat.key_hashes import is_checked
from ...serializers.flink.windows import GlobalWindowSerializer, TimeWindowSerializer, VoidNamespaceSerializer
from ...serializers.recipe import Counted, Fixed, Literal, Sequence, Sized, recipe_of
from .compiler import compile_check
from .facts import plain_size
from .framing import ValueFraming, value_framing
from .placed import BOOLEAN, BYTE, CHAR, DOUBLE, FLOAT, INT, LONG, PASSED, SHORT, SIZE, TEXT, ZERO, Shape

if TYPE_CHECKING:
    from ...serializers.recipe import Recipe
    from ...serializers.serializer import TypeSerializer
    from ...serializers.snapshot import TypeSerializerConfigSnapshot
    from .program import Program

    Parts = list[tuple[int, int]]

_KINDS = {
    "byte": BYTE, "short": SHORT, "int": INT, "long": LONG, "boolean": BOOLEAN, "char": CHAR, "float": FLOAT,
    "double": DOUBLE, "string": TEXT,
}  # fmt: skip
_TIME_BYTES, _WINDOW_BYTES, _FACTOR = 8, 16, 31


@attrs.frozen
class EntryCheck:
    """What the entries of a state are held against.

    Attributes:
        shape: Of their keys.
        program: An op list that goes over keys and values; None where the shape tells all that is to be told.
        is_whole: Whether an entry that passes can be read in all its parts.
    """

    shape: Shape
    program: Program | None
    is_whole: bool


@attrs.frozen
class CheckedTypes:
    """The types of a state, as its stream describes them.

    Attributes:
        kind: Of the state.
        key: Of its keys; None where nobody reads them.
        namespace: Of its namespaces; the same.
        value: Of its values: of list and map state that of the whole; the same.
    """

    kind: StateKind
    key: TypeSerializer[Any] | None
    namespace: TypeSerializer[Any] | None
    value: TypeSerializer[Any] | None


def make_entry_check(types: CheckedTypes, *, groups: int, prefix_bytes: int, with_values: bool = True) -> EntryCheck:
    """Make what entries are held against.

    Args:
        types: Of the state.
        groups: Number of key groups.
        prefix_bytes: How many bytes of a key tell its key group.
        with_values: Whether values are to be looked at, too: not where they are read anyway.
    """
    kind = types.kind
    shape_parts, is_told = _shape_parts(types)
    has_user_key = kind is StateKind.MAP
    value, value_is_told = _value_recipe(types) if with_values else (None, True)
    value_size = -1
    if kind is StateKind.TIMERS:
        value_size = 0
    elif value is not None and value_framing(kind) is ValueFraming.WHOLE and plain_size(value):
        value_size, value = plain_size(value), None
    key = _key_recipe(types, prefix_bytes) if has_user_key or not is_told else None
    is_hashed = types.key is not None and is_checked(types.key.snapshot_configuration())
    shape = Shape.of(
        shape_parts,
        groups=groups if is_hashed else 0,
        has_rest=has_user_key or not is_told,
        value_size=value_size,
    )
    program = None if value is None and key is None else compile_check(value, value_framing(kind), key=key)
    return EntryCheck(shape, program, value_is_told and (key is not None or not shape.has_rest))


def element_check(value: TypeSerializer[Any], key: TypeSerializer[Any] | None = None) -> Program | None:
    """Give the op list that goes over elements of an operator's list state; None where only objects can tell.

    Args:
        value: Of an element; of a broadcast state of the values of its map.
        key: Of the keys of such a map.
    """
    recipe = recipe_of(value, None, value)
    if recipe is not None and key is not None:
        of_key = recipe_of(key, None, key)
        recipe = None if of_key is None else Counted(recipe, of_key)
    return None if recipe is None else compile_check(recipe, ValueFraming.WHOLE)


def _value_recipe(types: CheckedTypes) -> tuple[Recipe | None, bool]:
    """Give the recipe of a value, an element, or a map's value; and whether it tells all of it."""
    whole: Any = types.value
    if types.kind is StateKind.TIMERS:
        return None, True
    piece = {StateKind.LIST: "element", StateKind.MAP: "value"}.get(types.kind)
    value = whole if piece is None else getattr(whole, piece, None)
    recipe = None if value is None else recipe_of(value, None, value)
    return recipe, recipe is not None


def _shape_parts(types: CheckedTypes) -> tuple[Parts, bool]:
    """Give the parts of a key, as far as a shape tells them; and whether that is all before a user key."""
    parts: Parts = [(PASSED + _TIME_BYTES, 0)] if types.kind is StateKind.TIMERS else []
    key, namespace = types.key, types.namespace
    if key is None or namespace is None:
        return [], False
    of_key = _key_parts(key.snapshot_configuration(), 1)
    if of_key is None:
        return [], False
    is_ambiguous = types.kind is not StateKind.TIMERS and key.length < 0 and namespace.length < 0
    size = [(SIZE, 0)] if is_ambiguous else []
    of_namespace = _namespace_parts(namespace)
    if of_namespace is None:
        return [*parts, *of_key, *size], False
    return [*parts, *of_key, *size, *of_namespace, *size], True


def _key_parts(snapshot: TypeSerializerConfigSnapshot[Any], factor: int) -> Parts | None:
    """Give the parts of a key with their factors; None where it has others than those that are known."""
    if not is_checked(snapshot):
        return None
    if snapshot.kind != "tuple":
        return [(_KINDS[snapshot.describe()], factor)]
    children = snapshot.children()
    parts: Parts = []
    for place, child in enumerate(children):
        parts += _key_parts(child, factor * _FACTOR ** (len(children) - 1 - place) & 0xFFFFFFFF) or []
    return parts


def _namespace_parts(namespace: TypeSerializer[Any]) -> Parts | None:
    if isinstance(namespace, VoidNamespaceSerializer | GlobalWindowSerializer):
        return [(ZERO, 0)]
    if isinstance(namespace, TimeWindowSerializer):
        return [(PASSED + _WINDOW_BYTES, 0)]
    parts = _key_parts(namespace.snapshot_configuration(), 0)
    return None if parts is None else [(kind, 0) for kind, _ in parts]


def _key_recipe(types: CheckedTypes, prefix_bytes: int) -> Recipe | None:
    """Give the recipe of the whole key of an entry; None where only objects tell of a part."""
    key, namespace, whole = types.key, types.namespace, types.value
    if key is None or namespace is None:
        return None
    is_timer, is_map = types.kind is StateKind.TIMERS, types.kind is StateKind.MAP
    is_ambiguous = not is_timer and key.length < 0 and namespace.length < 0
    both = (_recipe(key), _recipe(namespace))
    parts: list[Recipe | None] = [
        Fixed(prefix_bytes + (_TIME_BYTES if is_timer else 0)),
        *(Sized(part) if is_ambiguous and part is not None else part for part in both),
    ]
    user_key: Any = getattr(whole, "key", None)
    if is_map:
        parts.append(None if user_key is None else _recipe(user_key))
    found = tuple(part for part in parts if part is not None)
    return Sequence(found) if len(found) == len(parts) else None


def _recipe(serializer: TypeSerializer[Any]) -> Recipe | None:
    if isinstance(serializer, VoidNamespaceSerializer | GlobalWindowSerializer):
        return Literal(0)
    if isinstance(serializer, TimeWindowSerializer):
        return Fixed(_WINDOW_BYTES)
    return recipe_of(serializer, None, serializer)
