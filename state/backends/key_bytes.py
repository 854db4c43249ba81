"""What every backend refuses about keys: state without a current key, and keys of other subtasks."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

from ...serializers.errors import DeclarationError, StateShiftError, ValueNotConvertible, located, shown
from ...serializers.flink.namespaces import VOID_NAMESPACE, VoidNamespaceSerializer
from ...serializers.limits import MAX_VALUE_BYTES, require_room
from ...serializers.primitives.numeric import NumberSerializer
from ...serializers.records.rewrites import PackedRecord
from ...serializers.views import DataInputView, DataOutputView
from ..entry_keys import length_bytes
from ..key_groups import key_group, key_hasher, prefix_size

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...serializers.serializer import TypeSerializer


def no_current_key() -> DeclarationError:
    """Return the error for an access to state without a current key."""
    return DeclarationError(
        "state was accessed without a current key",
        advice="access keyed state while an element or a timer of a key is processed; open() has no key",
    )


def require_own(key: object, group: int, key_groups: range) -> None:
    """Refuse a key of another subtask.

    Args:
        key: The key.
        group: Its key group.
        key_groups: Those of this subtask.

    Raises:
        ValueNotConvertible: The subtask does not have this key group.
    """
    if group not in key_groups:
        raise ValueNotConvertible(
            f"the key {shown(key)} is in key group {group}; this subtask has {key_groups.start} to"
            f" {key_groups.stop - 1}",
            advice="partition the elements by the key that the state has",
        )


_REMEMBERED = 1 << 16
_REMEMBERED_TYPES = (int, str)
"""Types of which equal values have equal bytes; 0.0 and -0.0 are equal and have not."""


VOID_BYTES = b"\0"
"""The bytes of the void namespace."""


class _Writer(Protocol):
    def serialize(self, value: Any, target: DataOutputView) -> None: ...


def encoder(serializer: _Writer, state: str = "") -> Callable[[Any], bytes]:
    """Return a function that encodes values of one type, again and again.

    It raises `ValueNotConvertible` where a value does not fit.

    Args:
        serializer: The serializer.
        state: The name of the state in errors.
    """
    serialize, target = serializer.serialize, DataOutputView()
    taken = target.taken

    def encode(value: Any) -> bytes:
        try:
            serialize(value, target)
        except Exception as error:
            taken()
            if isinstance(error, StateShiftError):
                if state:
                    error.where.setdefault("state", state)
                raise
            raise ValueNotConvertible(
                f"{shown(value)} cannot be written: {type(error).__name__}: {error}",
                advice="pass a value of the declared type",
                state=state,
            ) from error
        return taken()

    if not isinstance(serializer, NumberSerializer):
        return encode
    pack, exact = serializer.row.packing.pack, float if serializer.is_rounded else int

    def packed(value: Any) -> bytes:
        try:
            return pack(value) if type(value) is exact else encode(value)
        except (struct.error, OverflowError):
            return encode(value)

    return packed


def exact_integers(serializer: TypeSerializer[Any]) -> tuple[int, int]:
    """Return the least and the greatest `int` that are written and read as they are; (1, 0): there are none."""
    if not isinstance(serializer, NumberSerializer) or serializer.is_rounded or serializer.length < 0:
        return 1, 0
    most = 1 << (8 * serializer.row.size - 1)
    return -most, most - 1


def decoder(serializer: TypeSerializer[Any]) -> Callable[[bytes | bytearray], Any]:
    """Return a function that decodes values of one type, again and again; it raises `CorruptSavepoint`."""
    deserialize = serializer.deserialize

    def decode(data: bytes | bytearray) -> Any:
        return deserialize(DataInputView(bytes(data)))

    if not isinstance(serializer, NumberSerializer):
        return decode
    unpack = serializer.row.packing.unpack

    def unpacked(data: bytes | bytearray) -> Any:
        try:
            return unpack(data)[0]
        except struct.error:
            return decode(data)

    return unpacked


def codec(serializer: TypeSerializer[Any], state: str) -> tuple[Callable[[Any], bytes], Callable[[Any], Any]]:
    """Return `encoder` and `decoder` of the values of a state; records of numbers and texts take a short way.

    A frozen value that was written or read last is not read from its bytes again.
    """
    encode, decode, packed = encoder(serializer, state), decoder(serializer), PackedRecord.of(serializer)
    if packed is None:
        return encode, decode
    pack, unpack, remembers = packed.pack, packed.unpack, packed.is_frozen
    last_data: bytes | bytearray = b""
    last_value: Any = None

    def write(value: Any) -> bytes:
        nonlocal last_data, last_value
        data = pack(value)
        if data is None:
            return encode(value)
        if remembers:
            last_data, last_value = data, value
        return data

    def read(data: bytes | bytearray) -> Any:
        nonlocal last_data, last_value
        if data is last_data:
            return last_value
        value = unpack(data)
        if value is None:
            return decode(data)
        if remembers:
            last_data, last_value = data, value
        return value

    return write, read


class _NoKey(bytes):
    """What the address of an entry begins with before there is a current key."""

    def __add__(self, other: object) -> NoReturn:
        raise no_current_key()

    def __hash__(self) -> NoReturn:
        raise no_current_key()


class CurrentKey:
    """The current key of a backend, as all its handles see it.

    Args:
        serializer: The serializer of the keys.
        max_parallelism: The number of key groups.
        key_groups: Those of the subtask.

    Attributes:
        key: The key.
        plain: Its key group and its bytes.
        framed: The same and, where keys have variable length, that length: for states whose namespace has it, too.
        void: The address of an entry in the void namespace: `plain` and the byte of that. It is made once for a key,
            so that its hash is, too.
        prefix: The number of bytes of the key group.
    """

    __slots__ = (
        "_encode",
        "_group_of",
        "_is_immutable",
        "_is_variable",
        "_key_groups",
        "_known",
        "framed",
        "key",
        "plain",
        "prefix",
        "void",
    )

    def __init__(self, serializer: TypeSerializer[Any], max_parallelism: int, key_groups: range) -> None:
        hashed = key_hasher(serializer)
        self._group_of: Callable[[Any], int] = lambda key: key_group(hashed(key), max_parallelism)
        self._encode, self._is_variable, self._key_groups = encoder(serializer), serializer.length < 0, key_groups
        self._known: dict[Any, tuple[bytes, bytes, bytes]] = {}
        self._is_immutable = serializer.is_immutable_type
        self.prefix = prefix_size(max_parallelism)
        self.unset()

    def unset(self) -> None:
        """Have no current key."""
        self.key: Any = None
        self.plain: bytes = _NoKey()
        self.framed: bytes = _NoKey()
        self.void: bytes = _NoKey()

    def set(self, key: Any) -> None:
        """Change the current key; raises as `encoded`."""
        if key is self.key and self._is_immutable and key is not None:
            return
        self.plain, self.framed, self.void = self.encoded(key)
        self.key = key

    def set_encoded(self, key: Any, group: int, data: bytes) -> None:
        """Change the current key to one whose key group and bytes are known; raises as `encoded`."""
        if group not in self._key_groups:
            require_own(key, group, self._key_groups)
        if len(data) > MAX_VALUE_BYTES:
            self._refuse(key, len(data))
        self.plain, self.framed, self.void = self._places(group, data)
        self.key = key

    def encoded(self, key: Any) -> tuple[bytes, bytes, bytes]:
        """Return `plain`, `framed` and `void` of a key.

        Raises:
            ValueNotConvertible: The key does not fit its type, or is in no key group of this subtask.
        """
        is_remembered = type(key) in _REMEMBERED_TYPES
        if is_remembered:
            found = self._known.get(key)
            if found is not None:
                return found
        data = self._encode(key)
        if len(data) > MAX_VALUE_BYTES:
            self._refuse(key, len(data))
        group = self._group_of(key)
        require_own(key, group, self._key_groups)
        found = self._places(group, data)
        if is_remembered:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            self._known[key] = found
        return found

    def _places(self, group: int, data: bytes) -> tuple[bytes, bytes, bytes]:
        plain = group.to_bytes(self.prefix, "big") + data
        return plain, plain + length_bytes(len(data)) if self._is_variable else plain, plain + VOID_BYTES

    def _refuse(self, key: Any, size: int) -> None:
        with located(key=shown(key)):
            require_room(size, is_key=True)


def namespace_bytes(serializer: TypeSerializer[Any], namespace: Any) -> bytes:
    """Return the bytes of a namespace; for plain state None is the void namespace."""
    if namespace is None and isinstance(serializer, VoidNamespaceSerializer):
        namespace = VOID_NAMESPACE
    return encoder(serializer)(namespace)
