"""Opening pickles under guard: a pickle may name only what its reader was told, and a few types of the library.

A pickle is a program: it names functions and calls them. Here a name means what `Names` says, and any other is
`UntrustedCode`, before its module is imported. What remains possible is what the trusted classes themselves do, and
time: hashing deeply shared tuples takes exponential time, whoever unpickles them. Memory is bounded by the pickle's own
size: nothing that makes much of little (`range`, `bytes(n)`, fractions) is among the types of the library, and copies
are counted.

The interpreter's unpickler in C takes sizes from the pickle before it has seen the bytes, and sets attributes of
classes; so this one goes by the same algorithm in Python, of which each step can be refused.
"""

from __future__ import annotations

import collections
import datetime as dt
import decimal
import importlib
import io
import pickle
import struct
import types
import uuid
import zoneinfo
from collections.abc import Sized
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, ClassVar

import attrs

from .errors import CorruptSavepoint, StateShiftError, UntrustedCode, ValueNotConvertible, cause_text

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

BY_VALUE = "by-value:"
"""Before the name of a class, the word that trusts code which comes within pickles of cloudpickle."""

_CODE = ("cloudpickle.", "types.CodeType", "types.FunctionType", "builtins.CodeType")
_scope: ContextVar[frozenset[str] | None] = ContextVar("_scope", default=None)


@contextmanager
def trusting(names: Collection[str]) -> Iterator[None]:
    """Let pickled values be opened in the `with` block that name nothing else; a serializer then gives them unopened.

    A migration reads in such a block: there pickles of a savepoint go by what its caller trusts, and by nothing that
    the job declares.
    """
    token = _scope.set(frozenset(names))
    try:
        yield
    finally:
        _scope.reset(token)


def trusted_names() -> frozenset[str] | None:
    """What the `with` block around trusts; None outside of any."""
    return _scope.get()


def untrusted(name: str, held_by: str = "") -> UntrustedCode:
    """Make the error for a name that would have to be imported or called, with the option that allows it."""
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
    """Give the one name of a global; Python 2 had another for the builtins, which old protocols keep."""
    return f"{'builtins' if module == '__builtin__' else module}.{name}"


@attrs.frozen
class Names:
    """What the globals of a pickle mean.

    Attributes:
        held_by: The class that the state declares, for messages.
        known: Objects at hand, by name: nothing is imported for them.
        trust: Names that are imported when they are met.
    """

    held_by: str
    known: Mapping[str, Any] = attrs.field(factory=dict)
    trust: frozenset[str] = frozenset()

    def resolve(self, module: str, name: str) -> Any:
        """Give what a global means.

        Raises:
            UntrustedCode: It is none of those that were told.
            ValueNotConvertible: It is trusted, and cannot be imported.
        """
        full = qualified(module, name)
        if full in self.known:
            return self.known[full]
        if full in LIBRARY:
            return LIBRARY[full]
        if full not in self.trust:
            raise untrusted(full, self.held_by)
        try:
            found: Any = importlib.import_module(module)
            for part in name.split("."):
                found = getattr(found, part)
        except Exception as error:
            raise ValueNotConvertible(
                f"{full}, which a pickled value names, cannot be imported: {cause_text(error)}",
                advice="run where it can be imported (--py-files gives files to workers), or name what it is called "
                "today as an alias",
                rule="PKL-6",
            ) from error
        return found


def open_pickle(data: bytes, names: Names) -> Any:
    """Unpickle one value.

    Raises:
        UntrustedCode: It names something that it may not.
        CorruptSavepoint: It is no pickle, or is not read by the classes that it names.
    """
    source = io.BytesIO(data)
    try:
        value = _Guarded(source, names).load()
    except StateShiftError:
        raise
    except Exception as error:
        raise CorruptSavepoint(
            f"a pickled value of {names.held_by} cannot be opened: {cause_text(error)}",
            advice="it is damaged, or its class reads its own older pickles no longer",
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
)


class _Guarded(pickle._Unpickler):  # noqa: SLF001 - the documented class is in C, and cannot be refused single steps
    """Follows a pickle, and refuses what the module tells."""

    dispatch: ClassVar[dict[int, Callable[[Any], None]]] = dict(pickle._Unpickler.dispatch)  # noqa: SLF001 - as above
    stack: list[Any]
    read: Callable[[int], bytes]
    append: Callable[[Any], None]

    def __init__(self, source: io.BytesIO, names: Names) -> None:
        super().__init__(source)
        self._names = names
        self._left = source.getbuffer().nbytes  # each item of what is copied has taken a byte at least

    def find_class(self, module: str, name: str) -> Any:
        return self._names.resolve(module, name)

    def persistent_load(self, pid: Any) -> Any:
        raise pickle.UnpicklingError("it refers to something outside of itself")

    def _refuse_extension(self) -> None:
        raise pickle.UnpicklingError("it names a class by an extension code of the process that wrote it")

    def _build(self) -> None:
        if isinstance(self.stack[-2], _NOT_CHANGED):
            raise pickle.UnpicklingError("it would change a class or a function")
        self._follow(pickle.BUILD)

    def _reduce(self) -> None:
        self._count(self.stack[-2], self.stack[-1])
        self._follow(pickle.REDUCE)

    def _new(self) -> None:
        self._count(self.stack[-2], self.stack[-1])
        self._follow(pickle.NEWOBJ)

    def _new_by_name(self) -> None:
        self._count(self.stack[-3], self.stack[-2])
        self._follow(pickle.NEWOBJ_EX)

    def _count(self, function: object, arguments: object) -> None:
        """Refuse to copy the same again and again."""
        if not isinstance(function, type | types.FunctionType) or function not in _COPYING:
            return
        sized = arguments if isinstance(arguments, tuple) else ()
        self._left -= sum(len(argument) for argument in sized if isinstance(argument, Sized))
        if self._left < 0:
            raise pickle.UnpicklingError("it copies more than it holds")

    def _follow(self, opcode: bytes) -> None:
        follow: Any = pickle._Unpickler.dispatch[opcode[0]]  # noqa: SLF001 - as above
        follow(self)

    def _refuse_old_form(self) -> None:
        raise pickle.UnpicklingError("it makes objects as protocols before 2 did")

    def _bytearray(self) -> None:
        (size,) = struct.unpack("<Q", self.read(8))
        self.append(bytearray(self.read(size)))

    dispatch[pickle.BUILD[0]] = _build
    dispatch[pickle.BYTEARRAY8[0]] = _bytearray
    dispatch[pickle.REDUCE[0]] = _reduce
    dispatch[pickle.NEWOBJ[0]] = _new
    dispatch[pickle.NEWOBJ_EX[0]] = _new_by_name
    for _code in (pickle.INST, pickle.OBJ):
        dispatch[_code[0]] = _refuse_old_form
    for _code in (pickle.EXT1, pickle.EXT2, pickle.EXT4):
        dispatch[_code[0]] = _refuse_extension


def _latin_1(text: str, encoding: str) -> bytes:
    """Stand for `_codecs.encode`, by which protocol 2 writes bytes; any other codec is refused."""
    if encoding not in {"latin1", "latin-1"}:
        raise pickle.UnpicklingError(f"it asks for the codec {encoding!r}")
    return text.encode("latin-1")


def _bytes_of(content: object, encoding: str = "latin-1") -> bytes:
    """Stand for `bytes`, without the form that makes n bytes of a number n."""
    if isinstance(content, str):
        return _latin_1(content, encoding)
    if not isinstance(content, bytes | bytearray | list | tuple):
        raise pickle.UnpicklingError("it makes bytes of something else than their content")
    return bytes(content)


def _bytearray_of(content: object = b"", encoding: str = "latin-1") -> bytearray:
    return bytearray(_bytes_of(content, encoding))


def _zone_method(owner: object, name: str) -> Any:
    """Stand for `getattr`, by which a `ZoneInfo` is pickled; any other attribute is refused."""
    if owner is not zoneinfo.ZoneInfo or name != "_unpickle":
        raise pickle.UnpicklingError("it asks for an attribute by name")
    return zoneinfo.ZoneInfo._unpickle  # type: ignore[attr-defined]  # noqa: SLF001 - what its own pickles call


_TYPES: tuple[type, ...] = (
    bool, complex, dict, float, frozenset, int, list, object, set, str, tuple,
    collections.Counter, collections.OrderedDict, collections.defaultdict, collections.deque,
    dt.date, dt.datetime, dt.time, dt.timedelta, dt.timezone,
    decimal.Decimal, uuid.SafeUUID, uuid.UUID, zoneinfo.ZoneInfo,
)  # fmt: skip

LIBRARY: dict[str, Any] = {f"{found.__module__}.{found.__qualname__}": found for found in _TYPES} | {
    "_codecs.encode": _latin_1,
    "builtins.bytearray": _bytearray_of,
    "builtins.bytes": _bytes_of,
    "builtins.getattr": _zone_method,
}
"""What every pickle may name: types that hold values and do nothing else."""

_COPYING = {
    dict, frozenset, list, set, tuple,
    collections.Counter, collections.OrderedDict, collections.defaultdict, collections.deque,
    _bytearray_of, _bytes_of,
}  # fmt: skip


class Unmade:
    """Stands for an object of a class that keeps plain fields: what its pickle says, without the class.

    So the fields are seen as they were stored. The class as it is today would drop those that it no longer has, and
    not tell.
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
        self.is_called = True  # by __reduce__: unpickling alone does not

    def __setstate__(self, state: Any) -> None:
        self.state = state


def unmade(name: str) -> type[Unmade]:
    """Give a class that stands for the one of that name."""
    return type(name.rpartition(".")[2], (Unmade,), {"__slots__": (), "stored_name": name})
