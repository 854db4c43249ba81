"""The interpreter of op lists as machine code: one function for all, compiled once per machine and kept on disk.

The interpreter checks every place; here nothing is checked. Copies and loads may run over the end of an entry, by less
than `PADDING` bytes: the last entries of a block are copied to where that is harmless.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic, overload, register_jitable

from . import framed, interpreter, memory, ops
from .executors import Rewritten
from .interpreter import FULL, NEAR_END, interpret

if TYPE_CHECKING:
    from .program import Program

PADDING = 64
_WORD, _CHUNK = 8, 16
_TOP_BITS = -0x7F7F7F7F7F7F7F80  # 0x80 in each byte


def _pointer(context: Any, builder: Any, array_type: Any, array: Any, at: Any, kind: Any) -> Any:
    """Give the address of a place in an array, as that of a value of a machine type."""
    data = context.make_array(array_type)(context, builder, array).data
    address = builder.add(builder.ptrtoint(data, ir.IntType(64)), at)
    return builder.inttoptr(address, kind.as_pointer())


def _loader(bits: int) -> Any:
    """Make what loads a signed big-endian integer from any place."""

    @intrinsic
    def load_integer(typingctx: Any, data: Any, at: Any) -> Any:  # noqa: ARG001 - numba calls it so
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            kind = ir.IntType(bits)
            value = builder.load(_pointer(context, builder, signature.args[0], *arguments, kind), align=1)
            if bits > 8:
                value = builder.bswap(value)
            return value if bits == 64 else builder.sext(value, ir.IntType(64))

        return types.int64(data, types.int64), generate

    return load_integer


def _storer(bits: int) -> Any:
    """Make what stores the lowest bits of an integer, big-endian, at any place."""

    @intrinsic
    def store_integer(typingctx: Any, data: Any, at: Any, value: Any) -> Any:  # noqa: ARG001 - numba calls it so
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            array, at, value = arguments
            kind = ir.IntType(bits)
            value = value if bits == 64 else builder.trunc(value, kind)
            if bits > 8:
                value = builder.bswap(value)
            builder.store(value, _pointer(context, builder, signature.args[0], array, at, kind), align=1)
            return context.get_dummy_value()

        return types.void(data, types.int64, types.int64), generate

    return store_integer


@intrinsic
def _copy_chunk(typingctx: Any, target: Any, to: Any, source: Any, at: Any) -> Any:  # noqa: ARG001 - numba calls it so
    """Copy 16 bytes."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        target, to, source, at = arguments
        kind = ir.VectorType(ir.IntType(8), _CHUNK)
        chunk = builder.load(_pointer(context, builder, signature.args[2], source, at, kind), align=1)
        builder.store(chunk, _pointer(context, builder, signature.args[0], target, to, kind), align=1)
        return context.get_dummy_value()

    return types.void(target, types.int64, source, types.int64), generate


@intrinsic
def _bits_of_float(typingctx: Any, value: Any) -> Any:  # noqa: ARG001 - numba calls it so
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ARG001
        return builder.bitcast(arguments[0], ir.IntType(64))

    return types.int64(types.float64), generate


@intrinsic
def _bits_of_single(typingctx: Any, value: Any) -> Any:  # noqa: ARG001 - numba calls it so
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ARG001
        single = builder.fptrunc(arguments[0], ir.FloatType())
        return builder.sext(builder.bitcast(single, ir.IntType(32)), ir.IntType(64))

    return types.int64(types.float64), generate


@intrinsic
def _single_of_bits(typingctx: Any, bits: Any) -> Any:  # noqa: ARG001 - numba calls it so
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ARG001
        narrow = builder.trunc(arguments[0], ir.IntType(32))
        return builder.fpext(builder.bitcast(narrow, ir.FloatType()), ir.DoubleType())

    return types.float64(types.int64), generate


_load8, _load16, _load32, _load64 = map(_loader, (8, 16, 32, 64))
_store8, _store16, _store32, _store64 = map(_storer, (8, 16, 32, 64))


@overload(memory.load)
def _load(data: Any, at: Any, size: Any) -> Any:  # noqa: ARG001 - types, for which the function below is compiled
    def load(data: Any, at: Any, size: Any) -> Any:
        if size == 4:
            return _load32(data, at)
        if size == 8:
            return _load64(data, at)
        return _load16(data, at) if size == 2 else _load8(data, at)

    return load


@overload(memory.store)
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


@overload(memory.load_rest)
def _load_rest(data: Any, at: Any, size: Any) -> Any:  # noqa: ARG001 - as above
    def load_rest(data: Any, at: Any, size: Any) -> Any:
        if size > 0 and at + _WORD <= len(data):
            return np.int64(np.uint64(_load64(data, at)) >> np.uint64(8 * (_WORD - size)))
        number = np.int64(0)
        for place in range(at, at + size):
            number = number << 8 | np.int64(data[place])
        return number

    return load_rest


@overload(memory.mixed)
def _mixed(number: Any, word: Any) -> Any:  # noqa: ARG001 - as above
    factor, half = np.uint64(0x9E3779B97F4A7C15), np.uint64(32)

    def mixed(number: Any, word: Any) -> Any:
        product = np.uint64(number ^ word) * factor
        return np.int64(product ^ product >> half)

    return mixed


@overload(memory.store_float)
def _store_float(data: Any, at: Any, size: Any, value: Any) -> Any:  # noqa: ARG001 - as above
    def store_float(data: Any, at: Any, size: Any, value: Any) -> None:
        if size == 8:
            _store64(data, at, _bits_of_float(value))
        else:
            _store32(data, at, _bits_of_single(value))

    return store_float


@overload(memory.load_single)
def _load_single(data: Any, at: Any) -> Any:  # noqa: ARG001 - as above
    def load_single(data: Any, at: Any) -> Any:
        return _single_of_bits(_load32(data, at))

    return load_single


@overload(memory.copy)
def _copy(target: Any, to: Any, source: Any, at: Any, size: Any) -> Any:  # noqa: ARG001 - as above
    def copy(target: Any, to: Any, source: Any, at: Any, size: Any) -> None:
        done = 0
        while done < size:
            _copy_chunk(target, to + done, source, at + done)
            done += _CHUNK

    return copy


@overload(memory.is_ascii)
def _is_ascii(data: Any, at: Any, size: Any) -> Any:  # noqa: ARG001 - as above
    def is_ascii(data: Any, at: Any, size: Any) -> bool:
        while size >= _WORD:
            if _load64(data, at) & _TOP_BITS:
                return False
            at += _WORD
            size -= _WORD
        rest = _load64(data, at) >> 8 * (_WORD - size) if size else 0
        return rest & _TOP_BITS == 0

    return is_ascii


for _function in (
    memory.unit_end,
    memory.text_end,
    memory.big_integer_end,
    memory.varint_end,
    memory.key_sum,
    memory.varint,
    memory.var_size,
    memory.put_varint,
    memory.put_bits,
    memory.clear_keys,
    memory.is_same,
    memory.add_key,
    memory.is_utf8,
    memory.is_little_number,
    memory.is_date,
    memory.is_number,
    memory.is_less,
):
    register_jitable(_function)


def _compiled(function: Any) -> Any:
    """Compile a function, or take what was compiled of the same files: numba itself looks at one file only.

    Where nothing can be kept, in a folder that is read only or a package that is zipped, each process compiles.
    """
    try:
        compiled: Any = njit(nogil=True, cache=True)(function)
        kept = compiled._cache._cache_file  # noqa: SLF001 - numba offers no other way
        files = (
            Path(str(module.__file__)).stat() for module in (interpreter, memory, framed, ops, sys.modules[__name__])
        )
        kept._source_stamp = tuple((file.st_mtime, file.st_size) for file in files)  # noqa: SLF001 - as above
    except (RuntimeError, OSError):
        return njit(nogil=True)(function)
    return compiled


run = _compiled(interpret)
"""The interpreter; buffers are arrays of bytes, the op list, registers and result of 64-bit integers."""
find_run = _compiled(framed._find_run)  # noqa: SLF001 - what is compiled here is marked so
survey = _compiled(framed._survey)  # noqa: SLF001 - as above
find_entries = _compiled(framed._find_entries)  # noqa: SLF001 - as above


def call(function: Any, data: bytes, *numbers: int) -> tuple[int, list[int]]:
    """Call one of `framed`'s functions; give what it returns, and its result."""
    result = np.zeros(4, np.int64)
    returned = function(np.frombuffer(data, np.uint8), *numbers, result)
    return int(returned), result.tolist()


class NumbaExecutor:
    """Carries out an op list in machine code."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._code = np.array(program.code, np.int64)
        self._constants = _padded(program.constants)
        self._registers = np.zeros(program.registers + 1, np.int64)
        self._result = np.zeros(4, np.int64)
        self._room = np.empty(0, np.uint8)

    def rewrite(self, block: bytes, start: int) -> Rewritten:
        """Rewrite the entries of a block from `start` on, until one stops it."""
        first = self._run(np.frombuffer(block, np.uint8), start, len(block), len(block) - PADDING)
        if first.status != NEAR_END:
            return first
        rest = self._run(_padded(block[first.stop :]), 0, len(block) - first.stop, len(block))
        data = first.data + rest.data if first.entries else rest.data
        return Rewritten(
            rest.status, data, first.stop + rest.stop, first.entries + rest.entries, first.keys + rest.keys
        )

    def _run(self, data: Any, start: int, size: int, most: int) -> Rewritten:
        room = self._program.room(size - start)
        while True:
            if len(self._room) < room + PADDING:
                self._room = np.empty(room + PADDING, np.uint8)
            status = run(
                data, start, size, most, self._code, self._constants, self._room, room, self._registers, self._result
            )
            stop, written, entries, keys = self._result.tolist()
            if status != FULL or entries:
                return Rewritten(status, self._room[:written].tobytes(), stop, entries, keys)
            room *= 2


def _padded(data: bytes) -> Any:
    """Give bytes as an array with room behind them."""
    return np.frombuffer(data + bytes(PADDING), np.uint8)
