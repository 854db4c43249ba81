"""Guarded unpickling: a pickle may name only what the reader allows, and a few types of the library.

A pickle is a program: it names functions and calls them. Here `Names` decides what a name means, and any other name
raises `UntrustedCode` before its module is imported. What remains possible is what the trusted classes themselves do,
in their constructors, `__setstate__`, `__hash__` and `__eq__`.

The cost of a pickle is limited by its size, and one that costs more is refused as `CorruptSavepoint`:

- It takes at most some hundred times its size in memory. Types of the library, and classes that inherit their
constructors, may be called only as pickles call them: `int(Decimal("1E+6000000"))`, `bytes(1 << 40)` and `str` of a
list make large values from small ones. Copies are counted.
- Keys of dicts and elements of sets are hashed, and hashing a tuple that holds another twice, which holds a third
twice, and so on, takes exponential time. So hashed values are counted each time that they occur.
- Anything else that takes long (keys whose hashes collide) is stopped at a limit on processor time: `_LEAST_S`, and
`_BYTE_S` for each byte.

The value itself may share parts or contain itself, as objects do. Code that makes a tree of it, such as an export or a
migration, counts with `unfolding.Unfolding`.

The interpreter's unpickler, in C, allocates sizes from the pickle before it has seen the bytes, and sets attributes of
classes. So this one uses the same algorithm in Python, where each step can be refused.
"""

from __future__ import annotations

import collections
import datetime as dt
import decimal
import enum
import importlib
import io
import pickle
import struct
import sys
import time
import types
import uuid
import zoneinfo
from collections.abc import Sized
from typing import TYPE_CHECKING, Any, ClassVar

import attrs

from ..errors import CorruptSavepoint, StateShiftError, UntrustedCode, ValueNotConvertible, cause_text, is_tree_within
from ..stored_names import known_as, place_of
from ..ways_out import Option, Told, WayOut

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

BY_VALUE = "by-value:"
"""The prefix of a class name that trusts the code within its cloudpickle pickles."""

_CODE = ("cloudpickle.", "types.CodeType", "types.FunctionType", "builtins.CodeType")


def untrusted(name: str, held_by: str = "") -> UntrustedCode:
    """Return the error for a name that would have to be imported or called, with the option that allows it."""
    if name.startswith((*_CODE, BY_VALUE)):
        name = name if name.startswith(BY_VALUE) else BY_VALUE + held_by
        what = "a pickled value brings code of its own, which unpickling would run"
    else:
        inside = f", within a value of {held_by}" if held_by and held_by != name else ""
        what = f"{name} is not trusted{inside}, and unpickling could run its code"
    return UntrustedCode(
        what, advice=f"if you trust it: --trust {name} (in Python: trust=({name!r},)); nothing was imported or called"
    )


def qualified(module: str, name: str) -> str:
    """Return the one qualified name of a global; old protocols use Python 2's name for the builtins."""
    return known_as("builtins" if module == "__builtin__" else module, name)


@attrs.frozen
class Names:
    """The meaning of the globals in a pickle.

    Attributes:
        held_by: The class that the state declares, for messages.
        known: Objects by name, for which nothing is imported.
        trust: Names that are imported when they occur.
    """

    held_by: str
    known: Mapping[str, Any] = attrs.field(factory=dict)
    trust: frozenset[str] = frozenset()

    def resolve(self, module: str, name: str) -> Any:
        """Return the object that a global means.

        Raises:
            UntrustedCode: The name is neither known nor trusted.
            ValueNotConvertible: It is trusted, and cannot be imported.
        """
        full = qualified(module, name)
        if full in self.known:
            return self.known[full]
        if full in LIBRARY:
            return LIBRARY[full]
        if full not in self.trust:
            raise untrusted(full, self.held_by)
        module, name = place_of(module, name)
        try:
            found: Any = importlib.import_module(module)
            for part in name.split("."):
                found = getattr(found, part)
        except Exception as error:
            raise ValueNotConvertible(
                f"{full}, to which a pickled value refers, cannot be imported: {cause_text(error)}",
                advice=(
                    WayOut("run where it can be imported; files go to workers with", (Told(Option.PY_FILES),)),
                    "give its present name with an alias",
                ),
                rule="PKL-6",
            ) from error
        return found


def open_pickle(data: bytes, names: Names) -> Any:
    """Unpickle one value.

    Raises:
        UntrustedCode: It names something that is not allowed.
        CorruptSavepoint: It is not a pickle, or the classes that it names cannot read it.
        ValueNotConvertible: A trusted name cannot be imported.
    """
    source = io.BytesIO(data)
    try:
        value = _Guarded(source, names).load()
    except StateShiftError:
        raise
    except Exception as error:
        raise CorruptSavepoint(
            f"a pickled value of {names.held_by} cannot be opened: {cause_text(error)}",
            advice="it is damaged, or its class can no longer read its older pickles",
        ) from error
    if source.tell() != len(data):
        raise CorruptSavepoint(f"{len(data) - source.tell()} bytes follow the pickle of a {names.held_by}")
    return value


_NOT_CHANGED = (
    type,
    types.FunctionType,
    types.BuiltinFunctionType,
    types.MethodType,
    types.ModuleType,
    enum.Enum,
)

_LEAST_S, _BYTE_S = 2.0, 20e-6
"""The processor time that a pickle may take to open, plus that for each of its bytes; a tenth of it is usual."""

_LEAST_HASHED, _HASHED_PER_BYTE = 1_000_000, 16
_LARGEST_NUMBER = 1 << 14  # in bytes; comparing an integer with a decimal takes quadratic time
_DEEPEST_KEY = 100  # the interpreter hashes nested tuples without checking its own stack
_AT_ONCE = 1024
_TICKS = 64
_FREE_TEXT = 64


def _checked(check: Callable[[Any], None], follow: Callable[[Any], None]) -> Callable[[Any], None]:
    """Return a step of an unpickler that is checked before it is followed."""

    def step(unpickler: Any) -> None:
        check(unpickler)
        follow(unpickler)

    return step


def _refused(why: str) -> Callable[[Any], None]:
    def check(_: Any) -> None:
        raise pickle.UnpicklingError(why)

    return check


class _Guarded(pickle._Unpickler):  # noqa: SLF001 - single steps of the documented class, in C, cannot be refused
    """Executes a pickle, and refuses the steps that the module docstring lists."""

    dispatch: ClassVar[dict[int, Callable[[Any], None]]] = dict(pickle._Unpickler.dispatch)  # noqa: SLF001 - as above
    stack: list[Any]
    metastack: list[list[Any]]
    read: Callable[[int], bytes]
    append: Callable[[Any], None]

    def __init__(self, source: io.BytesIO, names: Names) -> None:
        super().__init__(source)
        size = source.getbuffer().nbytes
        self._names = names
        self._left = size  # each copied item has taken at least one byte
        self._left_to_hash = _LEAST_HASHED + _HASHED_PER_BYTE * size
        self._most_s = _LEAST_S + _BYTE_S * size
        self._until = 0.0
        self._ticks = 0
        self._kinds: dict[type, type | None] = {}

    def find_class(self, module: str, name: str) -> Any:
        return self._names.resolve(module, name)

    def persistent_load(self, pid: Any) -> Any:
        raise pickle.UnpicklingError("it refers to something outside of itself")

    def _tick(self, steps: int = 1) -> None:
        """Check the processor time once in a while."""
        self._ticks += steps
        if self._ticks >= _TICKS:
            self._ticks, now = 0, time.thread_time()
            self._until = self._until or now + self._most_s
            if now > self._until:
                raise pickle.UnpicklingError("it takes far longer to open than pickles of its size do")

    def _check_build(self) -> None:
        self._tick()
        made, state = self.stack[-2:]
        if isinstance(made, _NOT_CHANGED):
            raise pickle.UnpicklingError("it would change a class, a function or a member of an enum")
        if type(made) is uuid.UUID and not (isinstance(state, dict) and type(state.get("int")) is int):
            raise pickle.UnpicklingError("it makes a UUID from something other than its number")

    def _check_call(self, function: Any, positional: object, by_name: object = None) -> None:
        """Refuse calls that make large values from small ones: repeated copies, conversions that no pickle needs."""
        self._tick()
        if type(positional) is not tuple or type(by_name) not in (dict, type(None)):
            raise pickle.UnpicklingError("it calls something with invalid arguments")
        kind = self._kind_of(function)
        if kind is None:
            return
        arguments = (*positional, *by_name.values()) if isinstance(by_name, dict) else positional
        self._count(arguments)
        if not _takes(kind, arguments):
            raise pickle.UnpicklingError(f"it makes a value by {kind.__name__} in a way that pickles do not")
        if kind in _HASHING:
            for argument in arguments:
                if isinstance(argument, list | tuple | collections.deque):
                    self._hash([item[0] if isinstance(item, list) and item else item for item in argument])

    def _kind_of(self, function: Any) -> Any:
        """Return the type of the library whose constructor a call runs; None for a class with its own constructor."""
        if not isinstance(function, type):
            return function if function is _latin_1 else None
        if function not in self._kinds:
            new: Any = function.__new__
            found = (kind for kind in _INHERITED if issubclass(function, kind) and new is kind.__new__)
            is_enum = issubclass(function, enum.Enum)
            self._kinds[function] = function if function in _TYPES else enum.Enum if is_enum else next(found, None)
        return self._kinds[function]

    def _count(self, arguments: tuple[Any, ...]) -> None:
        for argument in arguments:
            if isinstance(argument, str | bytes) and len(argument) <= _FREE_TEXT:
                continue
            self._left -= len(argument) if isinstance(argument, Sized) else 0
        if self._left < 0:
            raise pickle.UnpicklingError("it copies more than it contains")

    def _hash(self, keys: list[Any]) -> None:
        """Refuse keys that take too long to hash, or many with the same hash."""
        steps = len(keys)
        if not _CHEAP_KEYS.issuperset(map(type, keys)):
            steps = _hashing_steps(keys, self._left_to_hash)
            self._left_to_hash -= steps
        self._tick(max(1, steps >> 3))
        if len(keys) <= _AT_ONCE:
            return
        tried: set[Any] = set()
        for first in range(0, len(keys), _AT_ONCE):
            tried.update(keys[first : first + _AT_ONCE])
            self._tick(_TICKS)

    def _hash_set_item(self) -> None:
        if isinstance(self.stack[-3], dict):
            self._hash([self.stack[-2]])

    def _hash_set_items(self) -> None:
        if isinstance(self.metastack[-1][-1], dict):
            self._hash(self.stack[::2])

    def _bytearray(self) -> None:
        (size,) = struct.unpack("<Q", self.read(8))
        self.append(bytearray(self.read(size)))

    dispatch[pickle.BYTEARRAY8[0]] = _bytearray
    for _code, _check in {
        pickle.BUILD: _check_build,
        pickle.REDUCE: lambda self: self._check_call(*self.stack[-2:]),
        pickle.NEWOBJ: lambda self: self._check_call(*self.stack[-2:]),
        pickle.NEWOBJ_EX: lambda self: self._check_call(*self.stack[-3:]),
        pickle.SETITEM: _hash_set_item,
        pickle.SETITEMS: _hash_set_items,
        pickle.ADDITEMS: lambda self: self._hash(self.stack),
        pickle.FROZENSET: lambda self: self._hash(self.stack),
        pickle.DICT: lambda self: self._hash(self.stack[::2]),
        **dict.fromkeys((pickle.INST, pickle.OBJ), _refused("it makes objects as protocols before 2 did")),
        **dict.fromkeys((pickle.EXT1, pickle.EXT2, pickle.EXT4), _refused("it names a class by an extension code")),
    }.items():
        dispatch[_code[0]] = _checked(_check, dispatch[_code[0]])


def _hashing_steps(keys: list[Any], most: int) -> int:
    """Count what is hashed with keys, level by level; a tuple within a key counts each time that it occurs.

    Raises:
        UnpicklingError: The count exceeds `most`, a number is too large, or a key is nested too deep.
    """
    steps, level = 0, keys
    for _ in range(_DEEPEST_KEY):
        steps += len(level)
        level = [one for one in level if type(one) not in _CHEAP_KEYS]
        sizes = [sys.getsizeof(one) for one in level if isinstance(one, int | decimal.Decimal)]
        if sizes and max(sizes) > _LARGEST_NUMBER:
            raise pickle.UnpicklingError("a key is a number of far too many digits")
        steps += sum(sizes) >> 6
        within = [one for one in level if isinstance(one, tuple)]
        if steps + sum(map(len, within)) > most:
            raise pickle.UnpicklingError("it hashes far more than it contains")
        if not within:
            return steps
        level = [part for one in within for part in one]
    raise pickle.UnpicklingError(f"a key is nested deeper than {_DEEPEST_KEY} levels")


def _latin_1(text: str, encoding: str) -> bytes:
    """Replace `_codecs.encode`, with which protocol 2 writes bytes; any other codec is refused."""
    if encoding not in {"latin1", "latin-1"}:
        raise pickle.UnpicklingError(f"it asks for the codec {encoding!r}")
    return text.encode("latin-1")


def _zone_method(owner: object, name: str) -> Any:
    """Replace `getattr`, with which a `ZoneInfo` is pickled; any other attribute is refused."""
    if owner is not zoneinfo.ZoneInfo or name != "_unpickle":
        raise pickle.UnpicklingError("it asks for an attribute by name")
    return zoneinfo.ZoneInfo._unpickle  # type: ignore[attr-defined]  # noqa: SLF001 - its own pickles call it


_CONTAINERS: tuple[type, ...] = (
    dict, frozenset, list, set, tuple,
    collections.Counter, collections.OrderedDict, collections.defaultdict, collections.deque,
)  # fmt: skip
_TYPES: tuple[type, ...] = (
    *_CONTAINERS,
    bool, bytearray, bytes, complex, float, int, object, str,
    dt.date, dt.datetime, dt.time, dt.timedelta, dt.timezone,
    decimal.Decimal, uuid.SafeUUID, uuid.UUID, zoneinfo.ZoneInfo,
)  # fmt: skip

LIBRARY: dict[str, Any] = {f"{found.__module__}.{found.__qualname__}": found for found in _TYPES} | {
    "_codecs.encode": _latin_1,
    "builtins.getattr": _zone_method,
}
"""The names that every pickle may use: types that hold values and do nothing else."""

_INHERITED = tuple(kind for kind in _TYPES if "__new__" in vars(kind) and kind is not object)
_HASHING = {dict, frozenset, set, collections.Counter, collections.OrderedDict, collections.defaultdict}
_NUMBERS = (bool, int, float)
_PLAIN = {type(None), bool, int, float, complex, str, bytes, dt.timedelta, dt.timezone, zoneinfo.ZoneInfo}
_CHEAP_KEYS = {type(None), bool, float, str, bytes}
_MOST_IN_A_MEMBER = 1 << 14


def _takes(kind: Any, arguments: tuple[Any, ...]) -> bool:
    """Whether pickles call a type in this way. Other calls could make large values from small ones."""
    if kind in _CONTAINERS:
        return True
    if kind is enum.Enum:  # its error message prints a value that no member has
        return is_tree_within(arguments, _MOST_IN_A_MEMBER)
    if kind in {bytes, bytearray}:
        content, *encoding = arguments or (b"",)
        return isinstance(content, bytes | bytearray | list | tuple | str) and encoding in ([], ["latin-1"], ["latin1"])
    if kind in {str, decimal.Decimal}:
        return len(arguments) <= 1 and all(type(argument) is str for argument in arguments)
    if kind in {bool, complex, float, int}:
        return all(type(argument) in (*_NUMBERS, str) for argument in arguments)
    return all(type(argument) in _PLAIN or isinstance(argument, dt.tzinfo) for argument in arguments)


class Unmade:
    """Stands for an object of a class that keeps plain fields: the contents of its pickle, without the class.

    So the fields are seen as they were stored. The present class would silently drop those that it no longer has.
    """

    __slots__ = ("arguments", "is_called", "state")

    arguments: tuple[Any, ...]
    state: Any
    is_called: bool

    def __new__(cls, *arguments: Any) -> Unmade:  # noqa: PYI034 - pickles call it
        made = object.__new__(cls)
        made.arguments, made.state, made.is_called = arguments, None, False
        return made

    def __init__(self, *_: Any) -> None:
        self.is_called = True  # called by __reduce__; unpickling alone does not call it

    def __setstate__(self, state: Any) -> None:
        self.state = state


def unmade(name: str) -> type[Unmade]:
    """Return a class that stands for the class of that name."""
    return type(name.rpartition(".")[2], (Unmade,), {"__slots__": (), "stored_name": name})
