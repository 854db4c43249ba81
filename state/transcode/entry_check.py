"""The checks of the entries of an unchanged state: the shape of their keys, and an op list that only reads.

The object reader of a value accepts everything that an op list accepts which rewrites the value to itself. Entries that
pass are therefore valid; others may be valid too, and are left to the object readers. Machine code checks blocks at
once: an entry that it cannot accept is not yet an error, since the caller checks it in plain Python.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from ...compat.description import StateKind, ValueFraming
from ...compat.key_hashes import ROW_DATA, is_checked
from ...serializers.flink.namespaces import GlobalWindowSerializer, TimeWindowSerializer, VoidNamespaceSerializer
from ...serializers.rewrite import Counted, Fixed, Literal, Rest, Sequence, Sized, rewrite_of
from ..entry_keys import is_ambiguous
from .binary_rows import fixed_size
from .block_transcoder import entry_end, make_executor
from .compiler import compile_check
from .executor_choice import ExecutorName, load_machine_code
from .interpreter import DONE, FULL, ODD
from .key_shapes import (
    AHEAD,
    BOOLEAN,
    BYTE,
    CHAR,
    CRAMPED,
    DOUBLE,
    FIXED_ROW,
    FLOAT,
    INT,
    LONG,
    PASSED,
    ROW,
    SHORT,
    SIZE,
    TEXT,
    ZERO,
    Shape,
    table_size,
)
from .parsing import plain_size

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...serializers.rewrite import ByteRewrite
    from ...serializers.serializer import TypeSerializer
    from ...serializers.snapshot import TypeSerializerConfigSnapshot
    from .numba_executor import NumbaExecutor
    from .program import Program

    Parts = list[tuple[int, int]]

_KINDS = {
    "byte": BYTE, "short": SHORT, "int": INT, "long": LONG, "boolean": BOOLEAN, "char": CHAR, "float": FLOAT,
    "double": DOUBLE, "string": TEXT,
}  # fmt: skip
_TIME_BYTES, _WINDOW_BYTES, _FACTOR = 8, 16, 31


@attrs.frozen
class EntryCheck:
    """The check of the entries of a state.

    Attributes:
        shape: The shape of their keys.
        program: An op list that parses keys and values; None if the shape covers everything that can be checked.
        is_whole: Whether all parts of an entry that passes are readable.
    """

    shape: Shape
    program: Program | None
    is_whole: bool


@attrs.frozen
class CheckedTypes:
    """The types of a state, as its stream describes them.

    Attributes:
        kind: The kind of the state.
        key: The serializer of its keys; None if they cannot be read.
        namespace: The serializer of its namespaces; None if they cannot be read.
        value: The serializer of its values, for list and map state that of the whole; None if they cannot be read.
    """

    kind: StateKind
    key: TypeSerializer[Any] | None
    namespace: TypeSerializer[Any] | None
    value: TypeSerializer[Any] | None


def make_entry_check(
    types: CheckedTypes, *, groups: int, prefix_bytes: int, with_values: bool = True, with_user_keys: bool = True
) -> EntryCheck:
    """Return the check of a state's entries.

    Args:
        types: The types of the state.
        groups: The number of key groups.
        prefix_bytes: The number of key bytes that hold the key group.
        with_values: Whether values are checked too; not needed if they are read anyway.
        with_user_keys: Whether user keys are checked too, as values.
    """
    kind = types.kind
    shape_parts, is_told = _shape_parts(types)
    has_user_key = kind.has_user_keys
    value, value_is_told = _value_rewrite(types) if with_values else (None, True)
    value_size = -1
    if kind is StateKind.TIMERS:
        value_size = 0
    elif value is not None and kind.row.framing is ValueFraming.WHOLE and plain_size(value):
        value_size, value = plain_size(value), None
    is_more = (has_user_key and with_user_keys) or not is_told or any(part == ROW for part, _ in shape_parts)
    key = _key_rewrite(types, prefix_bytes, with_user_keys=with_user_keys) if is_more else None
    of_key = types.key.snapshot_configuration() if types.key is not None else None
    is_hashed = of_key is not None and _key_parts(of_key, 1) is not None
    hash_is_told = of_key is None or is_hashed or not is_checked(of_key)
    shape = Shape.of(
        shape_parts,
        groups=groups if is_hashed else 0,
        has_rest=has_user_key or not is_told,
        value_size=value_size,
    )
    program = (
        None if value is None and key is None else compile_check(value, kind.row.framing or ValueFraming.WHOLE, key=key)
    )
    return EntryCheck(shape, program, value_is_told and hash_is_told and (key is not None or not is_more))


def element_check(value: TypeSerializer[Any], key: TypeSerializer[Any] | None = None) -> Program | None:
    """Return the op list that checks elements of an operator's state; None if only objects can check them.

    Args:
        value: The serializer of an element; for broadcast state that of the map's values.
        key: The serializer of the keys of a broadcast state's map.
    """
    rewrite = rewrite_of(value, None, value)
    if rewrite is not None and key is not None:
        of_key = rewrite_of(key, None, key)
        rewrite = None if of_key is None else Counted(rewrite, of_key)
    return None if rewrite is None else compile_check(rewrite, ValueFraming.WHOLE)


def _value_rewrite(types: CheckedTypes) -> tuple[ByteRewrite | None, bool]:
    """Return the byte rewrite of a value, an element, or a map's value; and whether it covers the whole value."""
    if not types.kind.has_values:
        return None, True
    value = types.kind.item_of(types.value)
    rewrite = None if value is None else rewrite_of(value, None, value)
    return rewrite, rewrite is not None


def _shape_parts(types: CheckedTypes) -> tuple[Parts, bool]:
    """Return the parts of a key that a shape can describe, and whether these are all parts before the user key."""
    parts: Parts = [(PASSED + _TIME_BYTES, 0)] if types.kind is StateKind.TIMERS else []
    key, namespace = types.key, types.namespace
    if key is None or namespace is None:
        return [], False
    of_key = _key_parts(key.snapshot_configuration(), 1)
    if of_key is None:
        return [], False
    size = [(SIZE, 0)] if is_ambiguous(types.kind, key, namespace) else []
    of_namespace = _namespace_parts(namespace)
    if of_namespace is None:
        return [*parts, *of_key, *size], False
    return [*parts, *of_key, *size, *of_namespace, *size], True


def _key_parts(snapshot: TypeSerializerConfigSnapshot[Any], factor: int) -> Parts | None:
    """Return the parts of a key with their hash factors; None if the key has an unknown part."""
    if not is_checked(snapshot):
        return None
    if snapshot.kind == ROW_DATA:
        serializer = snapshot.restore_serializer()
        size = fixed_size(rewrite_of(serializer, None, serializer))
        return [(FIXED_ROW + size if size else ROW, factor)]
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


def _key_rewrite(types: CheckedTypes, prefix_bytes: int, *, with_user_keys: bool) -> ByteRewrite | None:
    """Return the byte rewrite of the whole key of an entry; None if a part has no byte rewrite."""
    key, namespace, whole = types.key, types.namespace, types.value
    if key is None or namespace is None:
        return None
    is_timer, is_map = types.kind is StateKind.TIMERS, types.kind.has_user_keys
    has_sizes = is_ambiguous(types.kind, key, namespace)
    both = (_rewrite(key), _rewrite(namespace))
    parts: list[ByteRewrite | None] = [
        Fixed(prefix_bytes + (_TIME_BYTES if is_timer else 0)),
        *(Sized(part) if has_sizes and part is not None else part for part in both),
    ]
    user_key: Any = getattr(whole, "key", None)
    if is_map and not with_user_keys:
        parts.append(Rest())
    elif is_map:
        parts.append(None if user_key is None else _rewrite(user_key))
    found = tuple(part for part in parts if part is not None)
    return Sequence(found) if len(found) == len(parts) else None


def _rewrite(serializer: TypeSerializer[Any]) -> ByteRewrite | None:
    if isinstance(serializer, VoidNamespaceSerializer | GlobalWindowSerializer):
        return Literal(0)
    if isinstance(serializer, TimeWindowSerializer):
        return Fixed(_WINDOW_BYTES)
    return rewrite_of(serializer, None, serializer)


@attrs.frozen
class SeenKeys:
    """The result for a block whose keys are distinct and belong to its key group.

    Attributes:
        last: The offset of the last entry.
        ascends: Whether the keys ascend, compared as unsigned bytes.
        hashes: A 64-bit hash of each key, as an array; None if the keys ascend.
    """

    last: int
    ascends: bool
    hashes: Any = None


@attrs.define
class BlockChecker:
    """Checks the blocks of one state, in one thread.

    Attributes:
        check: The check of an entry.
        prefix_bytes: The number of key bytes that hold the key group.
        executor: The name of the executor that runs the check.
    """

    check: EntryCheck
    prefix_bytes: int
    executor: ExecutorName
    _executor: NumbaExecutor | None = attrs.field(default=None, init=False)
    _table: Any = attrs.field(default=None, init=False)
    _shape: Any = attrs.field(default=None, init=False)

    def keys(self, data: bytes | memoryview, key_group: int) -> SeenKeys | None:
        """Check the keys of a block; return None if they must be checked one by one."""
        return self._by_machine_code(data, key_group) if self.executor is ExecutorName.NUMBA else None

    def _by_machine_code(self, data: bytes | memoryview, key_group: int) -> SeenKeys | None:
        import numpy as np

        from .numba_executor import with_margin

        fast = load_machine_code()
        if self._shape is None:
            self._shape, self._table = np.array(self.check.shape.numbers, np.int64), np.zeros(2, np.int64)
        block, result = with_margin(data), np.zeros(4, np.int64)
        numbers = len(data), key_group, self.prefix_bytes
        found = fast.find_placed(block, *numbers, self._shape, self._table, result)
        if found == CRAMPED:
            self._table = np.zeros(table_size(int(result[2])), np.int64)
            found = fast.find_placed(block, *numbers, self._shape, self._table, result)
        stop, last, entries, ascends = result.tolist()
        if found != AHEAD or stop != len(data):
            return None
        return SeenKeys(last, bool(ascends), None if ascends else fast.key_hashes(block, stop, entries))

    def odd_entries(self, data: bytes | memoryview) -> Iterator[tuple[int, int]]:
        """Yield the start and end of each entry that the op list does not accept; nothing if there is no op list.

        It is for blocks whose keys machine code has accepted.
        """
        program = self.check.program
        at = 0 if program is not None else len(data)
        while at < len(data) and program is not None:
            if self._executor is None:
                self._executor = make_executor(program)
            done = self._executor.rewrite(data, at)
            at = done.stop
            if done.status == ODD:
                end = entry_end(data, at)
                yield at, end
                at = end
            elif done.status not in {DONE, FULL}:
                yield at, len(data)
                return
