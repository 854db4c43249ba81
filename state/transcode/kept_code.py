"""Machine code that is kept on disk, and called without numba, whose import takes longer than a small migration.

numba turns a function of arrays and numbers into a plain function of machine words. LLVM alone links its object code
again, in some milliseconds, and `ctypes` calls it. numba is loaded only to compile: what is not kept, and a call with
arrays of another kind than the kept code is for.

A file has a checksum, a line of JSON that describes the code, and two pieces of object code: of the function, and of an
entry, which is called with one address, and takes the words from there and from arrays: `ctypes` would take as long
for each word as for this address.
"""

from __future__ import annotations

import hashlib
import json
import os
from array import array
from ctypes import CDLL, CFUNCTYPE, c_int32, c_void_p, cast
from functools import cached_property, lru_cache, reduce, update_wrapper
from importlib import import_module
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np

from .executor_choice import code_folder

if TYPE_CHECKING:
    from collections.abc import Callable

_RETURNED, _RETURNED_NONE = 0, -2
"""What numba's functions return if they have not raised."""
_BOOLEANS = bool, np.bool_
_SMALL = 1 << 10
_RESULTS = 2
"""The words for what a function returns, and for the error that it raises."""
_DATA, _SHAPE, _STRIDES = 0, 2, 3
"""The places of words in the object of an array, after what every object has (numpy's `PyArrayObject_fields`)."""
_ONE_AT_A_TIME = Lock()
_BY_NUMBA = ("NRT_", "numba_")
"""How the names of functions begin that numba's own libraries have."""


class CompiledFunction:
    """A function in machine code: that which is kept on disk, else numba compiles it when it is called, and keeps it.

    A function without a source file, as in a zipped package, is compiled by each process: without the file its version
    is unknown.

    Attributes:
        function: The function in Python.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        update_wrapper(self, function)

    def __call__(self, *arguments: Any) -> Any:
        words = None if self.kept is None else self.kept.words(arguments)
        if self.kept is None or words is None:
            return self.by_numba(*arguments)
        return self.kept.call(words)

    @cached_property
    def kept(self) -> KeptCode | None:
        """The code on disk, None if there is none for this function as it is."""
        stamp = source_stamp(self.function.__code__.co_filename)
        read = None if stamp is None else _read(kept_file(self.function), stamp)
        return None if read is None else _link(*read)

    @cached_property
    def by_numba(self) -> Any:
        """The function as numba compiles it, once for all threads."""
        with _ONE_AT_A_TIME:
            if "by_numba" not in vars(self):
                vars(self)["by_numba"] = import_module(f"{__package__}.machine").compiled_by_numba(self.function)
            return vars(self)["by_numba"]


class KeptCode:
    """Machine code that was linked.

    Args:
        address: The address of its entry.
        arguments: The kind of each argument: `int64` or `bool`, or of an array the name of its items' type, the number
            of its dimensions, and whether it may be written.
        returns: `int64`, `bool` or `none`.
    """

    def __init__(self, address: int, arguments: list[Any], returns: str) -> None:
        self._kinds = [one if isinstance(one, str) else (np.dtype(one[0]), *one[1:]) for one in arguments]
        self._call = CFUNCTYPE(c_int32, c_void_p)(address)
        self._returns = returns
        self._known: list[Any] = [None] * len(arguments)  # small arrays that fit: most are those of the last call

    def words(self, arguments: tuple[Any, ...]) -> list[int] | None:
        """Return what the entry takes for arguments; None if the code is not for such."""
        words, known = [0] * _RESULTS, self._known
        for place, (kind, given) in enumerate(zip(self._kinds, arguments, strict=True)):
            if isinstance(kind, str):
                if isinstance(given, _BOOLEANS) != (kind == "bool"):
                    return None
                words.append(int(given))
                continue
            if given is not known[place]:
                dtype, dimensions, is_written = kind
                flags = given.flags
                fits = given.dtype == dtype and given.ndim == dimensions and flags.c_contiguous and flags.aligned
                if not fits or (is_written and not flags.writeable):
                    return None
                if given.size <= _SMALL:
                    known[place] = given
            words.append(id(given))
        return words

    def call(self, words: list[int]) -> Any:
        """Call it, without Python's lock.

        Raises:
            RuntimeError: It has raised an error, which it never does for valid arguments.
        """
        passed = array("q", words)
        status = self._call(passed.buffer_info()[0])
        if status not in (_RETURNED, _RETURNED_NONE):
            raise RuntimeError(f"machine code has ended with status {status}")
        if self._returns == "none":
            return None
        return bool(passed[0]) if self._returns == "bool" else passed[0]


def compiled(function: Callable[..., Any]) -> Any:
    """Return a function in machine code."""
    return CompiledFunction(function)


def kept_file(function: Any) -> Path:
    """Return the file of a function's code."""
    return code_folder() / f"{function.__module__.rpartition('.')[2]}.{function.__qualname__}.code"


def source_stamp(file: str) -> str | None:
    """Return what identifies the source of a function besides the folder; None if there is no such file."""
    source = Path(file)
    return hashlib.sha256(source.read_bytes()).hexdigest() if source.is_file() else None


def keep(function: Any, code: bytes, symbols: list[str], description: dict[str, Any]) -> None:
    """Keep the object code of a function, unless there is some, which is for arguments of other kinds.

    Args:
        function: The function in Python.
        code: The object code.
        symbols: All functions that it calls: those of numba are for calls from Python and for errors.
        description: Its name in the object code, and the arguments of `KeptCode`.

    Raises:
        OSError: The folder cannot be written to.
    """
    file, stamp = kept_file(function), source_stamp(function.__code__.co_filename)
    if any("lloc" in name for name in symbols) or _read(file, stamp) is not None:
        return  # it takes memory from numba; or there is some
    absent = [name for name in symbols if name.startswith(_BY_NUMBA)]
    described = json.dumps(description | {"source": stamp, "size": len(code), "absent": absent})
    whole = b"%s\n%s" % (described.encode(), code + _entry(description["name"], description["arguments"]))
    written = file.with_name(f"{file.name}.{os.getpid()}")
    written.write_bytes(b"%s\n%s" % (hashlib.sha256(whole).hexdigest().encode(), whole))
    written.replace(file)


def _entry_name(name: str) -> str:
    return f"entry.{name}"


def _entry(name: str, arguments: list[Any]) -> bytes:
    """Return the object code of an entry: it takes numbers and the addresses of arrays, after room for the results.

    The function takes of an array, as numba has it, two words for an owner, the number of items, the size of an item,
    the address of the first one, and its shape and strides.
    """
    from llvmlite import binding, ir

    word, status = ir.IntType(64), ir.IntType(32)
    place, module = word.as_pointer(), ir.Module()
    module.triple = binding.get_default_triple()
    entry = ir.Function(module, ir.FunctionType(status, [place]), _entry_name(name))
    builder = ir.IRBuilder(entry.append_basic_block())

    def at(base: Any, number: int) -> Any:
        return builder.gep(base, [word(number)])

    words = []
    for number, kind in enumerate(arguments, _RESULTS):
        given = builder.load(at(entry.args[0], number))
        if isinstance(kind, str):
            words.append(builder.trunc(given, ir.IntType(8)) if kind == "bool" else given)
            continue
        fields = builder.inttoptr(builder.add(given, word(object.__basicsize__)), place)
        shape, strides = (
            [builder.load(at(builder.inttoptr(builder.load(at(fields, field)), place), one)) for one in range(kind[1])]
            for field in (_SHAPE, _STRIDES)
        )
        items = reduce(builder.mul, shape)
        words += [word(0), word(0), items, word(np.dtype(kind[0]).itemsize), builder.load(at(fields, _DATA))]
        words += [*shape, *strides]
    results = [at(entry.args[0], number) for number in range(_RESULTS)]
    types = [one.type for one in (*results, *words)]
    called = ir.Function(module, ir.FunctionType(status, types), name)
    builder.ret(builder.call(called, [*results, *words]))
    made: bytes = _machine().emit_object(binding.parse_assembly(str(module)))
    return made


def _read(file: Path, stamp: str | None) -> tuple[dict[str, Any], bytes] | None:
    """Return what a file says and its code; None if there is no such file, not of this source, or it is damaged."""
    if not file.exists():
        return None
    checksum, _, whole = file.read_bytes().partition(b"\n")
    if checksum != hashlib.sha256(whole).hexdigest().encode():
        return None
    head, _, code = whole.partition(b"\n")
    described: dict[str, Any] = json.loads(head)
    return (described, code) if described["source"] == stamp else None


def _link(described: dict[str, Any], code: bytes) -> KeptCode | None:
    """Link what `_read` has returned; None if this process lacks a function that it calls."""
    from llvmlite import binding

    size, entry = described["size"], _entry_name(described["name"])
    linked = binding.JITLibraryBuilder().add_object_img(code[:size]).add_object_img(code[size:]).add_current_process()
    for name in described["absent"]:
        linked.import_symbol(name, _abort())
    linked.export_symbol(entry)
    try:
        library = linked.link(_linker(), f"{entry} {len(_LINKED)}")
    except RuntimeError:
        return None
    _LINKED.append(library)
    return KeptCode(library[entry], described["arguments"], described["returns"])


_LINKED: list[Any] = []
"""What was linked, which would be freed otherwise."""


@lru_cache(maxsize=1)
def _linker() -> Any:
    from llvmlite import binding

    return binding.create_lljit_compiler(_machine())


@lru_cache(maxsize=1)
def _machine() -> Any:
    from llvmlite import binding

    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    return binding.Target.from_default_triple().create_target_machine(jit=True)


@lru_cache(maxsize=1)
def _abort() -> int:
    """Return the address of what stands for numba's own functions, which kept code never calls."""
    return cast(CDLL(None).abort, c_void_p).value or 0
