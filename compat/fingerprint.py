"""Fingerprints of code: they show whether a function is the same as in another process, on another day.

Two objects have the same fingerprint if a call cannot tell them apart: the bytecode of a function, its constants and
the names it uses, its defaults, its closure, the globals that it names, and the same for everything that it calls,
through the user's own modules. Line numbers, file names, comments and docstrings do not count. Library code (of the
standard library, or installed in site-packages) counts by its name and the version of its distribution. An object
without a stable form (a socket, a generator) gets a fingerprint that equals no other.

Bytecode differs between versions of Python, and so do fingerprints of code: they begin with the version.

All reachable objects form a graph. Each node has a label; then every node repeatedly gets a colour made of its own
colour and the colours of the nodes it refers to, until no further nodes differ. So the result does not depend
on cycles, on the order in which sets and modules are walked, or on whether two equal values are one object.
"""

from __future__ import annotations

import builtins
import copyreg
import dis
import enum
import functools
import importlib
import importlib.util
import re
import sys
import threading
import types
import typing
import uuid
from dataclasses import Field as DataclassField
from hashlib import sha256
from typing import Any, Final

import attrs

from ..serializers.errors import cause_text
from ..serializers.stored_names import known_as, known_place
from .libraries import is_of_package, library_of

if typing.TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

UNKNOWN: Final = "not known"
"""The beginning of a fingerprint that equals no other."""
_PYTHON = f"py{sys.version_info.major}.{sys.version_info.minor}"
_MOST_NODES = 1 << 20
_MOST_WORK = 1 << 23
"""The maximum of nodes times rounds; only a chain of very many equal links takes longer."""
_DOCSTRING_FLAG = 0x4000000  # set by Python 3.13 if there is a docstring, which does not count
_ATOMS = (type(None), bool, int, float, complex, str, bytes, type(...), type(NotImplemented))
_LOCKS = (type(threading.Lock()), type(threading.RLock()))
_READ_BY_NAME = frozenset({"getattr", "vars", "eval", "exec", "__dict__", "attrgetter", "methodcaller"})
"""Code that calls one of these may use any name of a module without naming it."""
_READ_OWN_GLOBALS = frozenset({"globals", "eval", "exec"})
_NOT_OF_A_CLASS = re.compile(
    r"__(dict|weakref|doc|module|firstlineno|static_attributes|annotations|annotate_?|annotate_func|annotations_cache"
    r"|abstractmethods|slotnames|qualname)__|_abc_.*"
)
"""Attributes that Python and copyreg keep in a class, and that calls do not depend on."""
_IMPORTS_BY_NAME = frozenset({"__import__", "import_module"})


def fingerprint(thing: object) -> str:
    """Return the fingerprint of a function, a class, a callable object or a value.

    Returns:
        `py3.12:` and 64 hexadecimal digits if the object contains code, else only the digits; or `not known: …` with
        the reason, which equals no other fingerprint.
    """
    if type(thing) in _ATOMS:
        return _of_atom(_atom(thing))
    graph = _Graph()
    graph.root(thing)
    digest = graph.digest()
    if graph.unknown:
        return f"{UNKNOWN}: {graph.unknown[0]} ({uuid.uuid4().hex})"
    return f"{_PYTHON}:{digest}" if graph.has_code else digest


def fingerprint_of_own_code(thing: object) -> str:
    """Return a fingerprint of the code of a function, or of the methods of an object's class, and of nothing it uses.

    It is for what has no whole fingerprint: if it differs, the code does.

    Raises:
        TypeError: It has no code of Python.
    """
    if isinstance(thing, types.MethodType):
        thing = thing.__func__
    members = [thing] if isinstance(thing, types.FunctionType) else vars(type(thing)).values()
    codes = sorted(_code(one.__code__) for one in members if isinstance(one, types.FunctionType))
    if not codes:
        raise TypeError(f"a {type(thing).__qualname__} has no code of Python")
    return f"{_PYTHON}:{sha256(repr(codes).encode()).hexdigest()}"


@functools.lru_cache(maxsize=256)
def _of_atom(label: str) -> str:
    """Return the fingerprint of a value without parts; it is cached, since defaults are often the same few values."""
    graph = _Graph()
    graph.root(_Node(label))
    return graph.digest()


def fingerprint_of_all(fingerprints: Iterable[str]) -> str:
    """Return one fingerprint for several objects of one name, in any order."""
    different = sorted(set(fingerprints))
    if len(different) == 1:
        return different[0]
    unknown = next((one for one in different if one.startswith(UNKNOWN)), "")
    return unknown or f"{_PYTHON}:{sha256(repr(different).encode()).hexdigest()}"


def is_users(thing: object) -> bool:
    """Whether a function, a class or the class of an object is the user's: neither stateshift's nor a library's."""
    return not library_of(_module_of(thing))


def is_ours(thing: object) -> bool:
    """Whether a function, a class or the class of an object is stateshift's."""
    return is_of_package(_module_of(thing))


@attrs.frozen(eq=False)
class AsData:
    """A class that only builds values: code that runs by itself counts (constructors, properties), methods do not."""

    cls: type


@attrs.frozen(eq=False)
class _Used:
    """The part of a module that code with these names can reach."""

    module: types.ModuleType
    names: frozenset[str]


@attrs.frozen(eq=False)
class _Unordered:
    """Objects whose order does not matter."""

    items: tuple[Any, ...]


@attrs.frozen(eq=False)
class _Node:
    """The label of an object, and the objects that it refers to."""

    label: str
    children: tuple[Any, ...] = ()
    owner: str = ""


_ABSENT: Final = _Node("absent")
"""The node of an empty cell, and of a global that does not exist."""


class _Graph:
    """All objects that an object refers to. They are walked without recursion, as user data may be nested deeply."""

    def __init__(self) -> None:
        self.unknown: list[str] = []
        self.has_code = False
        self._numbers: dict[Any, int] = {}
        self._kept: list[Any] = []  # as long as they live, no other object can have their id
        self._labels: list[str] = []
        self._children: list[tuple[int, ...]] = []
        self._are_unordered: list[bool] = []

    def root(self, thing: object) -> None:
        """Add an object and all objects that it refers to."""
        self._number(thing)
        index, owners = 0, [""]
        while index < len(self._kept):
            thing = self._kept[index]
            if len(self._kept) > _MOST_NODES:
                self.unknown.append(f"more than {_MOST_NODES:,} objects belong to it")
                return
            node = self._described(thing, owners[index])
            self._labels.append(node.label)
            self._children.append(tuple(map(self._number, node.children)))
            self._are_unordered.append(isinstance(thing, _Unordered | set | frozenset))
            owners += [node.owner or owners[index]] * (len(self._kept) - len(owners))
            index += 1

    def _number(self, thing: Any) -> int:
        if isinstance(thing, AsData):
            place: Any = ("data", id(thing.cls))
        elif isinstance(thing, _Used):
            place = ("used", id(thing.module), thing.names)
        else:
            place = _atom(thing) if type(thing) in _ATOMS else id(thing)
        if place not in self._numbers:
            self._numbers[place] = len(self._kept)
            self._kept.append(thing)
        return self._numbers[place]

    def digest(self) -> str:
        """Return the digest of the graph."""
        colours = [_hash(label.encode("utf-8", "surrogatepass")) for label in self._labels]
        told_apart, work = 0, 0
        while len(set(colours)) > told_apart and not self.unknown:
            told_apart = len(set(colours))
            work += len(colours)
            if work > _MOST_WORK:
                self.unknown.append(f"it takes more than {_MOST_WORK:,} steps to compare")
            colours = [self._coloured(index, colours) for index in range(len(colours))]
        return sha256(b"".join([colours[0], *sorted(set(colours))])).hexdigest()

    def _coloured(self, index: int, colours: list[bytes]) -> bytes:
        children = [colours[child] for child in self._children[index]]
        if self._are_unordered[index]:
            children = sorted(set(children))
        return _hash(b"".join([colours[index], *children]))

    def _described(self, thing: Any, owner: str) -> _Node:
        try:
            node = _node(thing)
        except Exception as error:  # noqa: BLE001 - user objects describe themselves with their own code
            kind = f"{type(thing).__module__}.{type(thing).__qualname__}"
            where = f"{owner} uses " if owner else ""
            self.unknown.append(f"{where}a {kind}, which cannot be compared: {cause_text(error)}")
            return _Node("unknown")
        self.has_code = self.has_code or bool(node.owner)
        return node


def _hash(data: bytes) -> bytes:
    return sha256(data).digest()


def _node(thing: Any) -> _Node:
    """Return the node of an object, which holds everything but the objects that it refers to."""
    if type(thing) in _ATOMS:
        return _Node(_atom(thing))
    if type(thing) in _NODES:
        return _NODES[type(thing)](thing)
    if isinstance(thing, type):
        return _class(thing, as_data=False)
    if isinstance(thing, enum.Enum):
        return _Node(f"member {thing.name}", (AsData(type(thing)), thing._value_))
    return _reduced(thing)


def _reduced(thing: Any) -> _Node:
    """Return the node of an object as pickle sees it: its constructor, and its state."""
    by_type = copyreg.dispatch_table.get(type(thing))
    found: Any = thing.__reduce_ex__(4) if by_type is None else by_type(thing)
    if isinstance(found, str):
        return _Node(f"global {_named_in(_module_of(thing), found)}", (type(thing),))
    made, arguments = found[:2]
    state, items, pairs = (*found[2:5], None, None, None)[:3]
    attributes = _by_name(state) if isinstance(state, dict) else state
    return _Node("object", (made, arguments, attributes, tuple(items or ()), tuple(pairs or ())))


def _by_name(facts: Mapping[Any, Any]) -> _Unordered:
    """Return attributes or globals without their order, which depends on the order of assignment."""
    return _Unordered(tuple(facts.items()))


def _function(function: types.FunctionType) -> _Node:
    module = function.__globals__.get("__name__") or function.__module__ or ""
    settings = (function.__defaults__, _by_name(function.__kwdefaults__ or {}), closure_of(function))
    library = library_of(module)
    if library:
        return _Node(f"function {_named_in(module, function.__code__.co_qualname)}", settings)
    names, loaded, imported = _names(function.__code__)
    if names & _IMPORTS_BY_NAME:
        raise ValueError("it imports modules by names that are known only when it runs")
    if names & _READ_OWN_GLOBALS:
        loaded |= {name for name in function.__globals__ if not name.startswith("__")}
    facts = _by_name({name: _reached(_global(function, name), names) for name in loaded})
    modules = _by_name({name: _imported(name, level, function.__globals__, names) for name, level in imported})
    others = _by_name({name: value for name, value in vars(function).items() if name != "__wrapped__"})
    label = f"function {_code(function.__code__) if not _is_attrs_hash(function) else function.__code__.co_names}"
    return _Node(label, (*settings, facts, modules, others), owner=function.__qualname__)


def _is_attrs_hash(function: types.FunctionType) -> bool:
    """Whether attrs generated the function: its code contains a number that differs between processes."""
    code = function.__code__
    return code.co_name == "__hash__" and code.co_filename.startswith("<attrs generated")


def closure_of(function: types.FunctionType) -> tuple[Any, ...]:
    """Return the objects in a function's closure."""
    return tuple(map(_content, function.__closure__ or ()))


def _content(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return _ABSENT


def _global(function: types.FunctionType, name: str) -> Any:
    if name in function.__globals__:
        return function.__globals__[name]
    return vars(builtins).get(name, _ABSENT)


def _reached(value: Any, names: frozenset[str]) -> Any:
    return _Used(value, names) if isinstance(value, types.ModuleType) else value


@functools.lru_cache(maxsize=4096)
def _names(code: types.CodeType) -> tuple[frozenset[str], frozenset[str], frozenset[tuple[str, int]]]:
    """Return all names in code and nested functions, the names loaded from globals, and the imports."""
    names, loaded, imported = set(code.co_names), set[str](), set[tuple[str, int]]()
    instructions = [one for one in dis.get_instructions(code) if one.opname != "EXTENDED_ARG"]
    for index, one in enumerate(instructions):
        if one.opname in {"LOAD_GLOBAL", "LOAD_NAME"}:
            loaded.add(one.argval)
        elif one.opname == "IMPORT_NAME":
            imported.add((one.argval, instructions[index - 2].argval))  # the level, the names, then this
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            inner = _names(constant)
            names |= inner[0]
            loaded |= inner[1]
            imported |= inner[2]
        elif isinstance(constant, tuple) and all(isinstance(item, str) for item in constant):
            names |= set(constant)  # the names that a function imports from a module
    return frozenset(names), frozenset(loaded), frozenset(imported)


def _imported(name: str, level: int, own: Mapping[str, Any], names: frozenset[str]) -> Any:
    """Return a module that code imports at run time, importing an installed module for it if needed."""
    if level:
        name = importlib.util.resolve_name("." * level + name, own.get("__package__") or "")
    library = library_of(name)
    if library:
        return library
    try:
        return _Used(importlib.import_module(name), names)
    except Exception:  # noqa: BLE001 - importing may fail in any way, and the code may do without the module
        return f"missing {name}"


def _module(used: _Used) -> _Node:
    module, names = used.module, used.names
    library = library_of(module.__name__)
    if library:
        return _Node(f"module {library} {module.__name__}")
    if names & _READ_BY_NAME:
        names |= _own_names(module)
    facts = {name: _reached(value, used.names) for name, value in vars(module).items() if name in names}
    return _Node(f"module {module.__name__}", (_by_name(facts),))


def _own_names(module: types.ModuleType) -> frozenset[str]:
    return frozenset(name for name in vars(module) if not name.startswith("__"))


def _class(cls: type, *, as_data: bool) -> _Node:
    name = known_as(cls.__module__, cls.__qualname__)
    library = library_of(cls.__module__)
    if library:
        return _Node(f"class {library} {name}")
    members = {name: value for name, value in vars(cls).items() if not _NOT_OF_A_CLASS.fullmatch(name)}
    if as_data:
        members = _running(members)
    bases = [AsData(base) if as_data else base for base in cls.__bases__]
    return _Node(f"class {cls.__qualname__}", (*bases, type(cls), _by_name(members)), owner=cls.__qualname__)


def _running(members: dict[str, Any]) -> dict[str, Any]:
    """Leave out methods that are not called by code that runs by itself."""
    plain = (types.FunctionType, staticmethod, classmethod)
    kept = {name for name, value in members.items() if name.startswith("__") or not isinstance(value, plain)}
    while True:
        named = {word for name in kept for word in _words(members[name])}
        more = (named & members.keys()) - kept
        if not more:
            return {name: value for name, value in members.items() if name in kept}
        kept |= more


def _words(member: Any) -> Iterator[str]:
    """Yield the names in the code of a class member."""
    parts = [member, *(getattr(member, name, None) for name in ("__func__", "fget", "fset", "fdel", "func"))]
    for part in parts:
        if isinstance(part, types.FunctionType):
            yield from _names(part.__code__)[0]


@functools.lru_cache(maxsize=4096)
def _code(code: types.CodeType) -> str:
    """Return the text of code as calls depend on it: only loaded constants, so that docstrings are left out."""
    instructions = [
        (one.opname, _constant(one.argval) if one.opcode in dis.hasconst else one.arg)
        for one in dis.get_instructions(code)
    ]
    counts = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags & ~_DOCSTRING_FLAG)
    names = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
    return repr((instructions, counts, names, code.co_exceptiontable))


def _constant(value: Any) -> str:
    if isinstance(value, types.CodeType):
        return _code(value)
    if isinstance(value, tuple):
        return f"({', '.join(map(_constant, value))})"
    if isinstance(value, frozenset):
        return f"{{{', '.join(sorted(map(_constant, value)))}}}"
    return _atom(value) if type(value) in _ATOMS else f"{type(value).__name__} {value!r}"


def _atom(value: Any) -> str:
    return f"{type(value).__name__} {hex(value) if type(value) is int else repr(value)}"


def _named(thing: Any) -> str:
    return _named_in(getattr(thing, "__module__", None) or "builtins", thing.__qualname__)


def _named_in(module: str, name: str) -> str:
    return " ".join((library_of(module), *known_place(module, name)))


def _built_in(thing: Any) -> _Node:
    bound = thing.__self__
    is_free = bound is None or isinstance(bound, types.ModuleType)
    return _Node(f"C {_named(thing)}", () if is_free else (bound,))


def _parts_of_items(thing: Mapping[Any, Any]) -> _Node:
    return _Node("dict", tuple(part for item in thing.items() for part in item))


_NODES: Final[dict[type, Callable[[Any], _Node]]] = {
    **dict.fromkeys((tuple, list, set, frozenset), lambda one: _Node(type(one).__name__, tuple(one))),
    _Unordered: lambda one: _Node("unordered", one.items),
    _Node: lambda one: one,
    dict: _parts_of_items,
    types.MappingProxyType: _parts_of_items,
    types.FunctionType: _function,
    AsData: lambda one: _class(one.cls, as_data=True),
    _Used: _module,
    types.ModuleType: lambda one: _module(_Used(one, _own_names(one))),
    types.MethodType: lambda one: _Node("method", (one.__self__, one.__func__)),
    types.BuiltinFunctionType: _built_in,
    types.MethodWrapperType: _built_in,
    **dict.fromkeys(
        (
            types.WrapperDescriptorType, types.MethodDescriptorType, types.ClassMethodDescriptorType,
            types.GetSetDescriptorType, types.MemberDescriptorType,
        ),
        lambda one: _Node(f"C {one.__name__}", (AsData(one.__objclass__),)),
    ),
    **dict.fromkeys((staticmethod, classmethod), lambda one: _Node(type(one).__name__, (one.__func__,))),
    property: lambda one: _Node("property", (one.fget, one.fset, one.fdel)),
    functools.cached_property: lambda one: _Node("cached property", (one.func,)),
    functools._lru_cache_wrapper: lambda one: _Node("cache", (one.__wrapped__, one.cache_parameters())),  # noqa: SLF001
    **dict.fromkeys(
        (attrs.Attribute, DataclassField),
        lambda one: _Node(type(one).__name__, tuple(getattr(one, name) for name in one.__slots__ if name != "type")),
    ),
    **dict.fromkeys(_LOCKS, lambda one: _Node(f"a {type(one).__name__}")),
    types.UnionType: lambda one: _Node("union", one.__args__),
    typing.ForwardRef: lambda one: _Node(f"reference {one.__forward_arg__}"),
}  # fmt: skip
"""How objects of each kind are described; what is none of these is as pickle sees it."""


def _module_of(thing: Any) -> str:
    """Return the module of a function or a class, or of the class of an object."""
    if isinstance(thing, types.FunctionType):
        return thing.__globals__.get("__name__") or thing.__module__ or ""
    kind = thing if isinstance(thing, type | types.BuiltinFunctionType) else type(thing)
    return getattr(kind, "__module__", None) or "builtins"
