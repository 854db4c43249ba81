"""Machine code for the primitives of `memory` and the interpreter: a few instructions each, compiled by numba.

Nothing is checked here: callers have checked it. Copies and loads may run past the end of their data, by less than
`PADDING` bytes. Arrays are passed as the addresses of their first items: numba would test each index of an array for
being negative, which costs more than most ops.
"""

from __future__ import annotations

import platform
import sys
from contextlib import suppress
from functools import lru_cache, wraps
from types import FunctionType
from typing import TYPE_CHECKING, Any

import numpy as np
from llvmlite import ir
from llvmlite.binding import get_host_cpu_features
from numba import njit, types
from numba.core.caching import CompileResultCacheImpl, FunctionCache, _CacheLocator
from numba.core.cgutils import get_or_insert_function, global_constant, raw_memcpy
from numba.extending import intrinsic, overload, register_jitable

from ...compat import key_hashes
from . import binary_rows, frames, interpreter, key_shapes, memory, moves, ops, table_entries, table_packing
from . import numba_encodings as encodings
from .executor_choice import code_folder
from .kept_code import keep, source_stamp

if TYPE_CHECKING:
    from collections.abc import Callable

_CHUNK, _LOOKED_AT, _WEIGHED = ops.WORD, 64, 16
_TOP_BITS = 0x8080808080808080


@intrinsic
def _address(typingctx: Any, array: Any) -> Any:  # noqa: ARG001 - numba's signature
    """Return the address of the first item of an array."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return context.make_array(signature.args[0])(context, builder, arguments[0]).data

    return types.CPointer(array.dtype)(array), generate


@intrinsic
def _bytes_at(typingctx: Any, number: Any) -> Any:  # noqa: ARG001 - numba's signature
    """Return the pointer to bytes at an address."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

    return types.CPointer(types.uint8)(types.int64), generate


@intrinsic
def _numbers_at(typingctx: Any, number: Any) -> Any:  # noqa: ARG001 - numba's signature
    """Return the pointer to 64-bit integers at an address."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

    return types.CPointer(types.int64)(types.int64), generate


def _pointer(builder: Any, data: Any, at: Any, kind: Any) -> Any:
    """Return the address of a place as a pointer to a machine type."""
    return builder.bitcast(builder.gep(data, [at]), kind.as_pointer())


def _instructions(result: Any, of: Any = types.int64) -> Callable[[Callable[..., Any]], Any]:
    """Return the decorator of a function that builds instructions, which makes it one for machine code.

    Its arguments are a builder, and the values: addresses, and numbers of the type `of`; None, if it returns nothing.
    """

    def made(build: Callable[..., Any]) -> Any:
        @wraps(build)  # numba takes the names of the arguments from it
        def typed(_: Any, *given: Any) -> Any:
            def generate(context: Any, builder: Any, _: Any, values: Any) -> Any:
                found = build(builder, *values)
                return context.get_dummy_value() if found is None else found

            return result(*(one if isinstance(one, types.CPointer) else of for one in given)), generate

        return intrinsic(typed)

    return made


def _loader(bits: int, *, is_little: bool = False) -> Any:
    """Return what loads a signed integer, big-endian unless it is little-endian, from any place."""

    @_instructions(types.int64)
    def load_integer(builder: Any, data: Any, at: Any) -> Any:
        kind = ir.IntType(bits)
        value = builder.load(_pointer(builder, data, at, kind), align=1)
        if bits > 8 and not is_little:
            value = builder.bswap(value)
        return value if bits == 64 else builder.sext(value, ir.IntType(64))

    return load_integer


def _storer(bits: int, *, is_little: bool = False) -> Any:
    """Return what stores the lowest bits of an integer at any place, as `_loader` loads them."""

    @_instructions(types.void)
    def store_integer(builder: Any, data: Any, at: Any, value: Any) -> None:
        kind = ir.IntType(bits)
        value = value if bits == 64 else builder.trunc(value, kind)
        if bits > 8 and not is_little:
            value = builder.bswap(value)
        builder.store(value, _pointer(builder, data, at, kind), align=1)

    return store_integer


@_instructions(types.void)
def _copy_chunk(builder: Any, target: Any, to: Any, source: Any, at: Any) -> None:
    """Copy 32 bytes."""
    kind = ir.VectorType(ir.IntType(8), _CHUNK)
    chunk = builder.load(_pointer(builder, source, at, kind), align=1)
    builder.store(chunk, _pointer(builder, target, to, kind), align=1)


@_instructions(types.void)
def _copy_many(builder: Any, target: Any, to: Any, source: Any, at: Any, size: Any) -> None:
    """Copy bytes by the C library."""
    kind = ir.IntType(8)
    raw_memcpy(builder, _pointer(builder, target, to, kind), _pointer(builder, source, at, kind), size, 1)


@_instructions(types.boolean)
def _differs(builder: Any, data: Any, at: Any, constants: Any, place: Any) -> Any:
    """Whether 32 bytes under a mask differ from those that follow the mask."""
    kind, bits = ir.VectorType(ir.IntType(8), ops.WORD), ir.IntType(ops.WORD)
    behind = builder.add(place, place.type(ops.WORD))
    found = builder.load(_pointer(builder, data, at, kind), align=1)
    mask, value = (builder.load(_pointer(builder, constants, one, kind), align=1) for one in (place, behind))
    others = builder.icmp_unsigned("!=", builder.and_(found, mask), value)
    return builder.icmp_unsigned("!=", builder.bitcast(others, bits), bits(0))


@_instructions(types.int64)
def _unlike(builder: Any, first: Any, at: Any, second: Any, place: Any) -> Any:
    """Return a bit set of which of 32 bytes differ between two places, the first byte as the lowest bit."""
    kind = ir.VectorType(ir.IntType(8), ops.WORD)
    one = builder.load(_pointer(builder, first, at, kind), align=1)
    other = builder.load(_pointer(builder, second, place, kind), align=1)
    differ = builder.bitcast(builder.icmp_unsigned("!=", one, other), ir.IntType(ops.WORD))
    return builder.zext(differ, ir.IntType(64))


@_instructions(types.uint64)
def _top_bits(builder: Any, data: Any, at: Any) -> Any:
    """Return the top bits of 64 bytes, that of the first byte as the lowest bit."""
    kind = ir.VectorType(ir.IntType(8), _LOOKED_AT)
    found = builder.load(_pointer(builder, data, at, kind), align=1)
    return builder.bitcast(builder.icmp_signed("<", found, kind(None)), ir.IntType(_LOOKED_AT))


@_instructions(types.int64)
def _bytes_before_last(builder: Any, data: Any, at: Any) -> Any:
    """Return the number of bytes before the first of 8 whose top bit is clear; 8 if there is none."""
    kind = ir.IntType(64)
    found = builder.load(_pointer(builder, data, at, kind), align=1)
    clear = builder.and_(builder.not_(found), kind(_TOP_BITS))
    return builder.lshr(builder.cttz(clear, ir.IntType(1)(0)), kind(3))


@_instructions(types.int64, types.float64)
def _bits_of_float(builder: Any, value: Any) -> Any:
    return builder.bitcast(value, ir.IntType(64))


@_instructions(types.int64, types.float64)
def _bits_of_single(builder: Any, value: Any) -> Any:
    single = builder.fptrunc(value, ir.FloatType())
    return builder.sext(builder.bitcast(single, ir.IntType(32)), ir.IntType(64))


@_instructions(types.float64)
def _single_of_bits(builder: Any, bits: Any) -> Any:
    narrow = builder.trunc(bits, ir.IntType(32))
    return builder.fpext(builder.bitcast(narrow, ir.FloatType()), ir.DoubleType())


@_instructions(types.int64)
def _weighed(builder: Any, data: Any, at: Any, size: Any) -> Any:
    """Return the sum of up to 16 bytes, each multiplied by 31 to the power of the bytes after it, modulo 2^32."""
    number, lanes = ir.IntType(32), _WEIGHED
    weights = [pow(31, lanes - 1 - lane, 1 << 32) for lane in range(lanes)] + [0] * lanes
    table = global_constant(builder, "weights", ir.Constant(ir.ArrayType(number, 2 * lanes), weights))
    first = builder.gep(table, [ir.IntType(64)(0), builder.sub(ir.IntType(64)(lanes), size)])
    kind = ir.VectorType(number, lanes)
    chosen = builder.load(builder.bitcast(first, kind.as_pointer()), align=4)
    found = builder.load(_pointer(builder, data, at, ir.VectorType(ir.IntType(8), lanes)), align=1)
    products = builder.mul(builder.zext(found, kind), chosen)
    function = ir.FunctionType(number, [kind])
    total = get_or_insert_function(builder.module, function, f"llvm.vector.reduce.add.v{lanes}i32")
    return builder.zext(builder.call(total, [products]), ir.IntType(64))


@_instructions(types.int64)
def _alike_bytes(builder: Any, data: Any, first: Any, second: Any) -> Any:
    """Return how many of the first 8 bytes at two places are equal."""
    kind = ir.IntType(64)
    one, other = (builder.load(_pointer(builder, data, at, kind), align=1) for at in (first, second))
    return builder.lshr(builder.cttz(builder.xor(one, other), ir.IntType(1)(0)), kind(3))


_CHECKSUMS = {
    "x86_64": ("sse4.2", ("llvm.x86.sse42.crc32.64.64", 64, 64), ("llvm.x86.sse42.crc32.32.8", 32, 8)),
    "aarch64": ("crc", ("llvm.aarch64.crc32cx", 32, 64), ("llvm.aarch64.crc32cb", 32, 32)),
}
"""The instructions of processors for CRC-32C: what a processor must have, and those of eight bytes and of one, each
with the bits of the checksum and of the bytes."""
_PROCESSORS = {"AMD64": "x86_64", "arm64": "aarch64"}


def _checksum_of(name: str, bits: int, data_bits: int) -> Any:
    """Return what goes on with a checksum, by an instruction."""

    @_instructions(types.int64)
    def checksum(builder: Any, code: Any, data: Any) -> Any:
        kinds = [ir.IntType(bits), ir.IntType(data_bits)]
        function = get_or_insert_function(builder.module, ir.FunctionType(kinds[0], kinds), name)
        values = [
            one if kind.width == 64 else builder.trunc(one, kind) for one, kind in zip((code, data), kinds, strict=True)
        ]
        found = builder.call(function, values)
        return found if bits == 64 else builder.zext(found, ir.IntType(64))

    return checksum


def _checksum(of_word: Any, of_byte: Any) -> Any:
    def crc32c(data: Any, at: Any, size: Any) -> Any:
        code, end = 0xFFFFFFFF, at + size
        while at + 8 <= end:
            code = of_word(code, _load64_little(data, at))
            at += 8
        while at < end:
            code = of_byte(code, _load8(data, at))
            at += 1
        return code ^ 0xFFFFFFFF

    return crc32c


_REPLACED: set[Any] = set()
"""The Python functions that machine code has others for."""


def _replaces(function: Any, other: Any) -> None:
    """Let machine code have another function of the same arguments in place of a function."""
    _REPLACED.add(function)
    overload(function, strict=False)(lambda *_: other)


def _loading(load64: Any, load32: Any, load16: Any) -> Any:
    def load(data: Any, at: Any, size: Any) -> Any:
        if size == 4:
            return load32(data, at)
        if size == 8:
            return load64(data, at)
        return load16(data, at) if size == 2 else _load8(data, at)

    return load


def _storing(store64: Any, store32: Any, store16: Any) -> Any:
    def store(data: Any, at: Any, size: Any, value: Any) -> None:
        if size == 8:
            store64(data, at, value)
        elif size == 4:
            store32(data, at, value)
        elif size == 2:
            store16(data, at, value)
        else:
            _store8(data, at, value)

    return store


_replaces(memory.address, lambda array: _address(array))  # noqa: PLW0108 - numba takes functions, not intrinsics
_replaces(memory.bytes_at, lambda number: _bytes_at(number))  # noqa: PLW0108 - as above
_replaces(memory.numbers_at, lambda number: _numbers_at(number))  # noqa: PLW0108 - as above
_load8, _load16, _load32, _load64 = map(_loader, (8, 16, 32, 64))
_store8, _store16, _store32, _store64 = map(_storer, (8, 16, 32, 64))
_replaces(memory.load, _loading(_load64, _load32, _load16))
_replaces(memory.store, _storing(_store64, _store32, _store16))
_load64_little, *_others_little = (_loader(bits, is_little=True) for bits in (64, 32, 16))
_replaces(memory.load_little, _loading(_load64_little, *_others_little))
_replaces(memory.store_little, _storing(*(_storer(bits, is_little=True) for bits in (64, 32, 16))))
_processor = platform.machine()
_needed, *_instructions_of = _CHECKSUMS.get(_PROCESSORS.get(_processor, _processor), ("",))
if get_host_cpu_features().get(_needed):
    _replaces(memory.crc32c, _checksum(*(_checksum_of(*one) for one in _instructions_of)))
_FACTOR, _HALF = np.uint64(memory.MIX), np.uint64(memory.HALF_BITS)
_WHOLE_WEIGHT = pow(31, _WEIGHED, 1 << 32)
_WEIGHTS = np.array([pow(31, size, 1 << 32) for size in range(_WEIGHED + 1)], np.int64)


def _mixed(number: Any, word: Any) -> Any:
    product = np.uint64(number ^ word) * _FACTOR
    return np.int64(product ^ product >> _HALF)


def _store_float(data: Any, at: Any, size: Any, value: Any) -> None:
    if size == 8:
        _store64(data, at, _bits_of_float(value))
    else:
        _store32(data, at, _bits_of_single(value))


def _copy(target: Any, to: Any, source: Any, at: Any, size: Any) -> None:
    _copy_chunk(target, to, source, at)
    if size > _CHUNK:
        _copy_chunk(target, to + _CHUNK, source, at + _CHUNK)
        if size > 2 * _CHUNK:
            _copy_many(target, to + 2 * _CHUNK, source, at + 2 * _CHUNK, size - 2 * _CHUNK)


def _are_unlike(first: Any, at: Any, second: Any, place: Any, size: Any, behind: Any, more: Any) -> Any:
    return _unlike(first, at, second, place) & ((1 << size) - 1 | ((1 << more) - 1) << behind)


def _alike(data: Any, first: Any, second: Any) -> Any:
    return _alike_bytes(data, first, second)


def _ascii_hash(data: Any, at: Any, size: Any) -> Any:
    if size <= _WEIGHED:
        return _weighed(data, at, size)
    code = 0
    while size > _WEIGHED:
        code = code * _WHOLE_WEIGHT + _weighed(data, at, _WEIGHED)
        at += _WEIGHED
        size -= _WEIGHED
    return (code * _WEIGHTS[size] + _weighed(data, at, size)) & 0xFFFFFFFF


def _is_ascii(data: Any, at: Any, size: Any) -> Any:
    while size >= _LOOKED_AT:
        if _top_bits(data, at) != 0:
            return False
        at += _LOOKED_AT
        size -= _LOOKED_AT
    return _top_bits(data, at) & ((np.uint64(1) << np.uint64(size)) - np.uint64(1)) == 0


_replaces(memory.mixed, _mixed)
_replaces(memory.store_float, _store_float)
_replaces(memory.load_single, lambda data, at: _single_of_bits(_load32(data, at)))
_replaces(memory.alike_bytes, _alike)
_replaces(memory.copy, _copy)
_replaces(memory.copy_few, lambda target, to, source, at, _size: _copy_chunk(target, to, source, at))
_replaces(memory.unlike, _are_unlike)
_replaces(memory.put_sign, lambda target, to, _size, byte: _store64(target, to, -(np.int64(byte) >> 7)))
_replaces(memory.matches, lambda data, at, constants, place: not _differs(data, at, constants, place))
_replaces(key_shapes.ascii_hash, _ascii_hash)
_replaces(encodings.varint_bytes, lambda data, at: _bytes_before_last(data, at) + 1)
_replaces(memory.is_ascii, _is_ascii)


_INLINED = frozenset((
    "text_end", "maybe_text_end", "varint_end", "var_text_end", "maybe_var_text_end", "key_sum", "_move_each",
    "_is_before", "_is_placed", "_is_in", "_number_hash", "_size_of", "murmur", "mixed_in", "finished", "_rotate",
    "_is_clear", "_is_full",
))  # fmt: skip
"""The paths of most entries, which are inlined everywhere; those of the others are called."""


@lru_cache
def _register(module: Any) -> None:
    """Let numba compile the functions of a module where other machine code calls them."""
    for name, function in vars(module).items():
        is_own = isinstance(function, FunctionType) and function.__module__ == module.__name__
        if is_own and function not in _REPLACED:
            register_jitable(forceinline=name in _INLINED)(function)


_MODULES = (
    memory, encodings, binary_rows, moves, frames, key_shapes, interpreter, key_hashes, table_entries, table_packing,
)  # fmt: skip
for _module in _MODULES:
    _register(_module)


class _Locator(_CacheLocator):
    """A cache locator for the folder of `choice`, whose name covers all dependencies besides the function."""

    def __init__(self, py_file: str) -> None:
        self._py_file = py_file

    @classmethod
    def from_function(cls, py_func: Any, py_file: str) -> _Locator:  # noqa: ARG003 - numba's signature
        return cls(py_file)

    def get_cache_path(self) -> str:
        return str(code_folder())

    def get_source_stamp(self) -> Any:
        return source_stamp(self._py_file)

    def get_disambiguator(self) -> str:
        return ""


class _Files(CompileResultCacheImpl):
    _locator_classes = [_Locator]  # type: ignore[list-item]  # noqa: RUF012 - numba's declaration

    def get_filename_base(self, fullname: str, abiflags: str) -> str:
        return fullname


class _Kept(FunctionCache):
    """A cache of compiled functions that ignores read-only folders: then each process compiles again."""

    _impl_class = _Files

    def save_overload(self, sig: Any, data: Any) -> None:
        with suppress(OSError):
            super().save_overload(sig, data)
            _keep(self._py_func, data)


_WORDS = {"int64", "bool"}


def _keep(function: Any, made: Any) -> None:
    """Keep the code that numba has made, so that other processes call it without numba."""
    arguments, returns = [_kind(one) for one in made.signature.args], made.signature.return_type.name
    if None in arguments or returns not in {*_WORDS, "none"}:
        return
    _, _, (code, _) = made.library.serialize_using_object_code()
    module = made.library._final_module  # noqa: SLF001 - numba offers no other way
    keep(
        function,
        code,
        [one.name for one in module.functions if one.is_declaration],
        {"name": made.fndesc.llvm_func_name, "arguments": arguments, "returns": returns},
    )


def _kind(argument: Any) -> Any:
    """Return the kind of an argument as of `KeptCode`; None if that has none for it."""
    if isinstance(argument, types.Array):
        return [argument.dtype.name, argument.ndim, argument.mutable] if argument.ndim else None
    return argument.name if argument.name in _WORDS else None


def compiled_by_numba(function: Any) -> Any:
    """Return a function that numba compiles when it is called first, or loads from its cache."""
    if function.__module__ in sys.modules:  # it calls others of its module
        _register(sys.modules[function.__module__])
    made: Any = njit(nogil=True)(function)
    if source_stamp(function.__code__.co_filename) is not None:
        made._cache = _Kept(function)  # noqa: SLF001 - numba offers no other way
    return made
