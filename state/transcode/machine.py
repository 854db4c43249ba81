"""Machine code for the primitives of `memory` and the interpreter: a few instructions each, compiled by numba.

Nothing is checked here: callers have checked it. Copies and loads may run past the end of their data, by less than
`PADDING` bytes. Arrays are passed as the addresses of their first items: numba would test each index of an array for
being negative, which costs more than most ops.
"""

from __future__ import annotations

import hashlib
from contextlib import suppress
from pathlib import Path
from types import FunctionType
from typing import TYPE_CHECKING, Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core.caching import CompileResultCacheImpl, FunctionCache, _CacheLocator
from numba.core.cgutils import get_or_insert_function, global_constant, raw_memcpy
from numba.extending import intrinsic, overload, register_jitable

from ...compat import key_hashes
from . import binary_rows, frames, interpreter, key_shapes, memory, moves, ops
from . import numba_encodings as encodings
from .executor_choice import code_folder

if TYPE_CHECKING:
    from collections.abc import Callable

PADDING = 96
_CHUNK, _LOOKED_AT, _WEIGHED = ops.WORD, 64, 16
_TOP_BITS = 0x8080808080808080


@intrinsic
def address(typingctx: Any, array: Any) -> Any:  # noqa: ARG001 - numba's signature
    """Return the address of the first item of an array."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return context.make_array(signature.args[0])(context, builder, arguments[0]).data

    return types.CPointer(array.dtype)(array), generate


def _pointer(builder: Any, data: Any, at: Any, kind: Any) -> Any:
    """Return the address of a place as a pointer to a machine type."""
    return builder.bitcast(builder.gep(data, [at]), kind.as_pointer())


def _loader(bits: int, *, is_little: bool = False) -> Any:
    """Return an intrinsic that loads a signed integer, big-endian unless it is little-endian, from any place."""

    @intrinsic
    def load_integer(typingctx: Any, data: Any, at: Any) -> Any:  # noqa: ARG001 - numba's signature
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ARG001
            kind = ir.IntType(bits)
            value = builder.load(_pointer(builder, *arguments, kind), align=1)
            if bits > 8 and not is_little:
                value = builder.bswap(value)
            return value if bits == 64 else builder.sext(value, ir.IntType(64))

        return types.int64(data, types.int64), generate

    return load_integer


def _storer(bits: int, *, is_little: bool = False) -> Any:
    """Return an intrinsic that stores the lowest bits of an integer at any place, as `_loader` loads them."""

    @intrinsic
    def store_integer(typingctx: Any, data: Any, at: Any, value: Any) -> Any:  # noqa: ARG001 - numba's signature
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ARG001
            data, at, value = arguments
            kind = ir.IntType(bits)
            value = value if bits == 64 else builder.trunc(value, kind)
            if bits > 8 and not is_little:
                value = builder.bswap(value)
            builder.store(value, _pointer(builder, data, at, kind), align=1)
            return context.get_dummy_value()

        return types.void(data, types.int64, types.int64), generate

    return store_integer


@intrinsic
def _copy_chunk(typingctx: Any, target: Any, to: Any, source: Any, at: Any) -> Any:  # noqa: ARG001 - numba's signature
    """Copy 32 bytes."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ARG001
        target, to, source, at = arguments
        kind = ir.VectorType(ir.IntType(8), _CHUNK)
        chunk = builder.load(_pointer(builder, source, at, kind), align=1)
        builder.store(chunk, _pointer(builder, target, to, kind), align=1)
        return context.get_dummy_value()

    return types.void(target, types.int64, source, types.int64), generate


@intrinsic
def _copy_many(typingctx: Any, target: Any, to: Any, source: Any, at: Any, size: Any) -> Any:  # noqa: ARG001 - as above
    """Copy bytes by the C library."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ARG001
        target, to, source, at, size = arguments
        kind = ir.IntType(8)
        raw_memcpy(builder, _pointer(builder, target, to, kind), _pointer(builder, source, at, kind), size, 1)
        return context.get_dummy_value()

    return types.void(target, types.int64, source, types.int64, types.int64), generate


@intrinsic
def _differs(typingctx: Any, data: Any, at: Any, constants: Any, place: Any) -> Any:  # noqa: ARG001 - as above
    """Whether 32 bytes under a mask differ from those that follow the mask."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ARG001
        data, at, constants, place = arguments
        kind, bits = ir.VectorType(ir.IntType(8), ops.WORD), ir.IntType(ops.WORD)
        behind = builder.add(place, place.type(ops.WORD))
        found = builder.load(_pointer(builder, data, at, kind), align=1)
        mask, value = (builder.load(_pointer(builder, constants, one, kind), align=1) for one in (place, behind))
        others = builder.icmp_unsigned("!=", builder.and_(found, mask), value)
        return builder.icmp_unsigned("!=", builder.bitcast(others, bits), bits(0))

    return types.boolean(data, types.int64, constants, types.int64), generate


@intrinsic
def _unlike(typingctx: Any, first: Any, at: Any, second: Any, place: Any) -> Any:  # noqa: ARG001 - as above
    """Return a bit set of which of 32 bytes differ between two places, the first byte as the lowest bit."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ARG001
        first, at, second, place = arguments
        kind = ir.VectorType(ir.IntType(8), ops.WORD)
        one = builder.load(_pointer(builder, first, at, kind), align=1)
        other = builder.load(_pointer(builder, second, place, kind), align=1)
        differ = builder.bitcast(builder.icmp_unsigned("!=", one, other), ir.IntType(ops.WORD))
        return builder.zext(differ, ir.IntType(64))

    return types.int64(first, types.int64, second, types.int64), generate


@intrinsic
def _top_bits(typingctx: Any, data: Any, at: Any) -> Any:  # noqa: ARG001 - as above
    """Return the top bits of 64 bytes, that of the first byte as the lowest bit."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ARG001
        kind = ir.VectorType(ir.IntType(8), _LOOKED_AT)
        found = builder.load(_pointer(builder, *arguments, kind), align=1)
        return builder.bitcast(builder.icmp_signed("<", found, kind(None)), ir.IntType(_LOOKED_AT))

    return types.uint64(data, types.int64), generate


@intrinsic
def _bytes_before_last(typingctx: Any, data: Any, at: Any) -> Any:  # noqa: ARG001 - as above
    """Return the number of bytes before the first of 8 whose top bit is clear; 8 if there is none."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ARG001
        kind = ir.IntType(64)
        found = builder.load(_pointer(builder, *arguments, kind), align=1)
        clear = builder.and_(builder.not_(found), kind(_TOP_BITS))
        return builder.lshr(builder.cttz(clear, ir.IntType(1)(0)), kind(3))

    return types.int64(data, types.int64), generate


@intrinsic
def _bits_of_float(typingctx: Any, value: Any) -> Any:  # noqa: ARG001 - numba's signature
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ARG001
        return builder.bitcast(arguments[0], ir.IntType(64))

    return types.int64(types.float64), generate


@intrinsic
def _bits_of_single(typingctx: Any, value: Any) -> Any:  # noqa: ARG001 - numba's signature
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ARG001
        single = builder.fptrunc(arguments[0], ir.FloatType())
        return builder.sext(builder.bitcast(single, ir.IntType(32)), ir.IntType(64))

    return types.int64(types.float64), generate


@intrinsic
def _single_of_bits(typingctx: Any, bits: Any) -> Any:  # noqa: ARG001 - numba's signature
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ARG001
        narrow = builder.trunc(arguments[0], ir.IntType(32))
        return builder.fpext(builder.bitcast(narrow, ir.FloatType()), ir.DoubleType())

    return types.float64(types.int64), generate


_REPLACED: set[Any] = set()
"""The Python functions that machine code has others for."""


def _replaces(function: Any) -> Callable[[Any], Any]:
    """Return the decorator of what machine code has in place of a function."""
    _REPLACED.add(function)
    return overload(function)


_load8, _load16, _load32, _load64 = map(_loader, (8, 16, 32, 64))
_store8, _store16, _store32, _store64 = map(_storer, (8, 16, 32, 64))


@_replaces(memory.load)
def _load(data: Any, at: Any, size: Any) -> Any:  # noqa: ARG001 - types to compile the function below for
    def load(data: Any, at: Any, size: Any) -> Any:
        if size == 4:
            return _load32(data, at)
        if size == 8:
            return _load64(data, at)
        return _load16(data, at) if size == 2 else _load8(data, at)

    return load


@_replaces(memory.store)
def _store(data: Any, at: Any, size: Any, value: Any) -> Any:  # noqa: ARG001 - as above
    def store(data: Any, at: Any, size: Any, value: Any) -> None:
        if size == 8:
            _store64(data, at, value)
        elif size == 4:
            _store32(data, at, value)
        elif size == 2:
            _store16(data, at, value)
        else:
            _store8(data, at, value)

    return store


_little16, _little32, _little64 = (_loader(bits, is_little=True) for bits in (16, 32, 64))
_put_little16, _put_little32, _put_little64 = (_storer(bits, is_little=True) for bits in (16, 32, 64))


@_replaces(memory.load_little)
def _load_little(data: Any, at: Any, size: Any) -> Any:  # noqa: ARG001 - as above
    def load_little(data: Any, at: Any, size: Any) -> Any:
        if size == 8:
            return _little64(data, at)
        if size == 4:
            return _little32(data, at)
        return _little16(data, at) if size == 2 else _load8(data, at)

    return load_little


@_replaces(memory.store_little)
def _store_little(data: Any, at: Any, size: Any, value: Any) -> Any:  # noqa: ARG001 - as above
    def store_little(data: Any, at: Any, size: Any, value: Any) -> None:
        if size == 8:
            _put_little64(data, at, value)
        elif size == 4:
            _put_little32(data, at, value)
        elif size == 2:
            _put_little16(data, at, value)
        else:
            _store8(data, at, value)

    return store_little


@_replaces(memory.mixed)
def _mixed(number: Any, word: Any) -> Any:  # noqa: ARG001 - as above
    factor, half = np.uint64(memory.MIX), np.uint64(memory.HALF_BITS)

    def mixed(number: Any, word: Any) -> Any:
        product = np.uint64(number ^ word) * factor
        return np.int64(product ^ product >> half)

    return mixed


@_replaces(memory.store_float)
def _store_float(data: Any, at: Any, size: Any, value: Any) -> Any:  # noqa: ARG001 - as above
    def store_float(data: Any, at: Any, size: Any, value: Any) -> None:
        if size == 8:
            _store64(data, at, _bits_of_float(value))
        else:
            _store32(data, at, _bits_of_single(value))

    return store_float


@_replaces(memory.load_single)
def _load_single(data: Any, at: Any) -> Any:  # noqa: ARG001 - as above
    def load_single(data: Any, at: Any) -> Any:
        return _single_of_bits(_load32(data, at))

    return load_single


@_replaces(memory.copy)
def _copy(target: Any, to: Any, source: Any, at: Any, size: Any) -> Any:  # noqa: ARG001 - as above
    def copy(target: Any, to: Any, source: Any, at: Any, size: Any) -> None:
        _copy_chunk(target, to, source, at)
        if size > _CHUNK:
            _copy_chunk(target, to + _CHUNK, source, at + _CHUNK)
            if size > 2 * _CHUNK:
                _copy_many(target, to + 2 * _CHUNK, source, at + 2 * _CHUNK, size - 2 * _CHUNK)

    return copy


@_replaces(memory.copy_few)
def _copy_few(target: Any, to: Any, source: Any, at: Any, size: Any) -> Any:  # noqa: ARG001 - as above
    def copy_few(target: Any, to: Any, source: Any, at: Any, size: Any) -> None:  # noqa: ARG001 - as above
        _copy_chunk(target, to, source, at)

    return copy_few


@_replaces(memory.unlike)
def _are_unlike(first: Any, at: Any, second: Any, place: Any, size: Any, behind: Any, more: Any) -> Any:  # noqa: ARG001 - as above
    def unlike(first: Any, at: Any, second: Any, place: Any, size: Any, behind: Any, more: Any) -> Any:
        return _unlike(first, at, second, place) & ((1 << size) - 1 | ((1 << more) - 1) << behind)

    return unlike


@_replaces(memory.put_sign)
def _put_sign(target: Any, to: Any, size: Any, byte: Any) -> Any:  # noqa: ARG001 - as above
    def put_sign(target: Any, to: Any, size: Any, byte: Any) -> None:  # noqa: ARG001 - as above
        _store64(target, to, -(np.int64(byte) >> 7))

    return put_sign


@_replaces(memory.matches)
def _matches(data: Any, at: Any, constants: Any, place: Any) -> Any:  # noqa: ARG001 - as above
    def matches(data: Any, at: Any, constants: Any, place: Any) -> bool:
        return not _differs(data, at, constants, place)

    return matches


@intrinsic
def _weighed(typingctx: Any, data: Any, at: Any, size: Any) -> Any:  # noqa: ARG001 - as above
    """Return the sum of up to 16 bytes, each multiplied by 31 to the power of the bytes after it, modulo 2^32."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ARG001
        data, at, size = arguments
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

    return types.int64(data, types.int64, types.int64), generate


@_replaces(key_shapes.ascii_hash)
def _ascii_hash(data: Any, at: Any, size: Any) -> Any:  # noqa: ARG001 - as above
    whole = pow(31, _WEIGHED, 1 << 32)
    powers = np.array([pow(31, size, 1 << 32) for size in range(_WEIGHED + 1)], np.int64)

    def ascii_hash(data: Any, at: Any, size: Any) -> Any:
        if size <= _WEIGHED:
            return _weighed(data, at, size)
        code = 0
        while size > _WEIGHED:
            code = code * whole + _weighed(data, at, _WEIGHED)
            at += _WEIGHED
            size -= _WEIGHED
        return (code * powers[size] + _weighed(data, at, size)) & 0xFFFFFFFF

    return ascii_hash


@_replaces(encodings.varint_bytes)
def _varint_bytes(data: Any, at: Any) -> Any:  # noqa: ARG001 - as above
    def varint_bytes(data: Any, at: Any) -> Any:
        return _bytes_before_last(data, at) + 1

    return varint_bytes


@_replaces(memory.is_ascii)
def _is_ascii(data: Any, at: Any, size: Any) -> Any:  # noqa: ARG001 - as above
    def is_ascii(data: Any, at: Any, size: Any) -> Any:
        while size >= _LOOKED_AT:
            if _top_bits(data, at) != 0:
                return False
            at += _LOOKED_AT
            size -= _LOOKED_AT
        return _top_bits(data, at) & ((np.uint64(1) << np.uint64(size)) - np.uint64(1)) == 0

    return is_ascii


_INLINED = frozenset((
    "text_end", "maybe_text_end", "varint_end", "var_text_end", "maybe_var_text_end", "key_sum", "_move_each",
    "_is_before", "_is_placed", "_is_in", "_number_hash", "_size_of", "murmur", "mixed_in", "finished", "_rotate",
    "_is_clear", "_is_full",
))  # fmt: skip
"""The paths of most entries, which are inlined everywhere; those of the others are called."""

for _module in (memory, encodings, binary_rows, moves, frames, key_shapes, interpreter, key_hashes):
    for _name, _function in vars(_module).items():
        is_own = isinstance(_function, FunctionType) and _function.__module__ == _module.__name__
        if is_own and _function not in _REPLACED:  # compiled where other machine code calls it
            register_jitable(forceinline=_name in _INLINED)(_function)


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
        return hashlib.sha256(Path(self._py_file).read_bytes()).hexdigest()

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


def compiled(function: Any) -> Any:
    """Return a function that is compiled when first called, or loaded from the cache of this package.

    A function without a source file, as in a zipped package, is compiled by each process: without the file its version
    is unknown.
    """
    made: Any = njit(nogil=True)(function)
    if Path(function.__code__.co_filename).is_file():
        made._cache = _Kept(function)  # noqa: SLF001 - numba offers no other way
    return made
