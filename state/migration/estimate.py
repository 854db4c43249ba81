"""The estimate of a run: how much there is to do, how long it may take, and whether the target has enough space.

The streams of rewritten operators are measured on a sample: the first entries of each state that is converted.
"""

from __future__ import annotations

import time
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import attrs

from ...compat.description import ValueFraming
from ...compat.plan import StateAction
from ...serializers.errors import NoSpaceLeft, StateShiftError
from ...serializers.rewrite import Counted, Nullable
from ...serializers.views import SEPARATOR, DataInputView
from ..formats.flink.blocks import Block
from ..formats.flink.keyed_readers import open_keyed
from ..transcode.executor_choice import COMPILING_S, ExecutorName, choose_executor, lacks_numba, must_compile
from ..transcode.factory import program_of
from .block_rewriter import BlockRewriter, Tally
from .engine import Engine, choose_engine, seconds_on_spark
from .tasks import KeepTask, KeyedTask, OperatorTask, RekeyTask

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ...compat.plan import StatePlan
    from ..formats.flink.keyed_stream import KeyedReader
    from ..storage.files import Folder
    from .tasks import Task

SAMPLE_ENTRIES = 500
SAMPLE_BYTES = 256 << 10
"""The approximate size of a state's sample: once it is reached, no more entries are converted."""
BLOCK_ENTRIES, BLOCK_BYTES = 8_000, 1 << 20
"""The size of the timed sample of a state that is converted in blocks: the cost per block is negligible as in a run."""
_COPY_BYTES_PER_S = 400 << 20
_GIANT_BYTES_PER_S = 2 << 20
_ELEMENT_BYTES_PER_S = 2 << 20
_USERS_ENTRY_S = 100e-6
_REKEYED_ENTRY_S = 15e-6
_MARGIN = 1.1
_COUNT_BYTES = 4


@attrs.frozen
class Estimate:
    """The estimate of a run; it is made from a sample, so it is only a hint.

    Attributes:
        bytes_to_read: The size of all streams.
        bytes_to_write: The approximate number of bytes that will be written.
        free_bytes: The free space of the target, including what the run clears or reuses; None if its store does not
            report it.
        engine: The engine that will run the tasks.
        seconds: The approximate time on `cores` cores, including the start of Spark if it is used.
        cores: The number of cores that `seconds` is for.
        compiles: Whether machine code is compiled first; `seconds` includes it.
        executor: The name of the executor of op lists, in this process or one like it.
        lacks_numba: Whether objects do the work only because numba is not installed here.
        replaced_bytes: The size of the savepoint in the target, which is kept until the new one is complete.
    """

    bytes_to_read: int
    bytes_to_write: int
    free_bytes: int | None
    engine: Engine
    seconds: float
    cores: int
    compiles: bool = False
    replaced_bytes: int = 0
    executor: ExecutorName = ExecutorName.OBJECTS
    lacks_numba: bool = False

    def require_space(self, target: Folder) -> None:
        """Check that the target has enough free space; raises as the function `require_space`."""
        require_space(target, int(self.bytes_to_write * _MARGIN), self.free_bytes)


def require_space(target: Folder, needed_bytes: int, free_bytes: int | None) -> None:
    """Check that the target has enough free space.

    Raises:
        NoSpaceLeft: The target has too little free space.
    """
    if free_bytes is not None and needed_bytes > free_bytes:
        raise NoSpaceLeft.before_writing(
            f"the target has {free_bytes:,} bytes free, but the new savepoint needs about {needed_bytes:,}",
            advice="free space there, or choose a target on a larger disk",
            savepoint=target.place,
        )


def estimate(
    tasks: Sequence[Task],
    source: Folder,
    target: Folder,
    cores: int,
    *,
    held_bytes: int = 0,
    with_spark: bool = False,
) -> Estimate:
    """Return the estimate of a run from a sample; errors are ignored, since the run itself will raise them.

    Args:
        tasks: All tasks of the run.
        source: The folder of the streams.
        target: The folder of the result, which need not exist yet.
        cores: The number of tasks that run at a time on Spark; 0: there is no Spark.
        held_bytes: The size of the files in the target that will be cleared or reused.
        with_spark: Whether Spark is requested, however little there is to do.
    """
    read = sum(task.size_bytes for task in tasks)
    share = read // (max(cores, 1) if with_spark else 1)
    executor = choose_executor(share, compiles=True)
    compiling = COMPILING_S if must_compile(executor) else 0.0
    sampler = _Sampler(executor, loads=not with_spark and not compiling)
    samples: dict[str, _Sample] = {}
    kept = sum(one.size for task in tasks if isinstance(task, KeyedTask | KeepTask) for one in task.kept_states)
    written = 0.0 if kept and _is_one_disk(source, target) else float(kept)
    seconds, longest = written / _COPY_BYTES_PER_S, 0.0
    for task in tasks:
        sample = _ELEMENTS if isinstance(task, OperatorTask) else _PLAIN
        if isinstance(task, KeyedTask | RekeyTask):
            operator_id = task.plan.operator_id
            if operator_id not in samples:
                samples[operator_id] = sampler.sample_of(task, source)
            sample = samples[operator_id]
        written += task.size_bytes * sample.growth
        taken = task.size_bytes * sample.seconds_per_byte
        seconds += taken
        longest = max(longest, 0.0 if isinstance(task, RekeyTask) else taken)
    engine = choose_engine(tasks, seconds, cores, longest, with_spark=with_spark)
    free = target.free_space_bytes()
    left = None if free is None else free + held_bytes
    seconds, cores = (seconds, 1) if engine is Engine.PROCESS else (seconds_on_spark(seconds, cores, longest), cores)
    return Estimate(
        read, int(written), left, engine, seconds + compiling, cores, compiling > 0,
        executor=executor, lacks_numba=sampler.has_op_lists and lacks_numba(executor, share),
    )  # fmt: skip


def _is_one_disk(source: Folder, target: Folder) -> bool:
    """Whether files of the source can be linked into the target, as far as their places show."""
    if not source.is_local or not target.is_local:
        return False
    place = Path(target.place)
    there = next(one for one in (place, *place.parents) if one.exists())
    return there.stat().st_dev == Path(source.place).stat().st_dev


@attrs.frozen
class _Sample:
    """The bytes written per byte read, and the seconds per byte on one core."""

    growth: float
    seconds_per_byte: float


_PLAIN = _Sample(1.0, 1 / _COPY_BYTES_PER_S)
_ELEMENTS = _Sample(1.0, 1 / _ELEMENT_BYTES_PER_S)


@attrs.define
class _Sampler:
    """Measures the conversion of the first entries of streams.

    Attributes:
        executor: The name of the executor of the run.
        loads: Whether machine code may be used for the sample. It may not if another process runs the tasks, or if it
            must be compiled first. Then the sample is converted as objects, and what has an op list is not timed.
        has_op_lists: Whether the sample has entries that an op list rewrites or checks.
    """

    executor: ExecutorName
    loads: bool
    has_op_lists: bool = False

    @property
    def _is_timed(self) -> bool:
        return self.loads or self.executor is not ExecutorName.NUMBA

    @property
    def _here(self) -> ExecutorName:
        return self.executor if self._is_timed else ExecutorName.OBJECTS

    def sample_of(self, task: KeyedTask | RekeyTask, source: Folder) -> _Sample:
        """Return the measures of a stream, from its first entries."""
        return self._sampled(task, source) if isinstance(task, KeyedTask) else _rekeyed(task, source)

    def _sampled(self, task: KeyedTask, source: Folder) -> _Sample:
        """Convert the first entries of a stream; converters and state transforms are not called before the run.

        CPU time is measured, since a sample of a few entries would look slow on a busy machine. For a giant value the
        time is derived from its size, and only its beginning is converted, to find how it grows.
        """
        groups, here = task.max_parallelism, self._here
        read, written, passed = 0, 0.0, 0.0
        rewriters: dict[int, BlockRewriter | None] = {}
        if not task.read:
            return _PLAIN
        with suppress(StateShiftError), open_keyed(task.read[0], source, groups, executor=here) as reader:
            key = reader.header.key_snapshot
            for block, sample in _first_entries(reader, task.key_groups):
                info = reader.header.states[sample.state_id]
                state = task.plan.state(info.name, keyed=True)
                read += len(sample.data)
                if state is not None and state.action is StateAction.DROP:
                    continue
                giant_s = 0.0
                if len(sample.data) > 2 * SAMPLE_BYTES and state is not None and state.action is StateAction.CONVERT:
                    giant_s = len(sample.data) / _GIANT_BYTES_PER_S
                if state is not None and state.calls_users_code:
                    passed += max(sample.entries * _USERS_ENTRY_S, giant_s)
                    written += len(sample.data)
                    continue
                if giant_s:
                    passed += giant_s
                    written += len(sample.data) * _growth(sample, BlockRewriter.of(info, state, key, groups, here))
                    continue
                if sample.state_id not in rewriters:
                    rewriters[sample.state_id] = BlockRewriter.of(info, state, key, groups, here)
                    _rewritten(rewriters[sample.state_id], sample)  # not timed: it also loads code
                rewriter = rewriters[sample.state_id]
                has_op_list = rewriter is None or program_of(rewriter.plan, rewriter.framing) is not None
                self.has_op_lists |= has_op_list
                by_blocks = rewriter is not None and has_op_list and here is ExecutorName.NUMBA
                timed = sample
                if by_blocks:
                    is_short = len(block.data) <= 2 * BLOCK_BYTES
                    timed = block if is_short else _begin_of(block, BLOCK_ENTRIES, BLOCK_BYTES)
                part, began = len(sample.data) / max(len(timed.data), 1), time.thread_time()
                written += len(_rewritten(rewriter, timed).data) * part
                if rewriter is not None and (self._is_timed or not has_op_list):
                    passed += (time.thread_time() - began) * part
        if not read:
            return _PLAIN
        return _Sample(written / read, max(passed / read, _PLAIN.seconds_per_byte))


def _rekeyed(task: RekeyTask, source: Folder) -> _Sample:
    """Return the measures for rewriting the keys of a stream, from the size of its first entries."""
    entries = size = 0
    with suppress(StateShiftError), open_keyed(task.handles[0], source, task.stored_max_parallelism) as reader:
        for block in islice(reader.blocks(), 4 * len(reader.header.states)):
            entries += block.entries
            size += block.size_bytes
    return _Sample(1.0, max(_REKEYED_ENTRY_S * entries / size, _PLAIN.seconds_per_byte)) if size else _PLAIN


def _first_entries(reader: KeyedReader, key_groups: range) -> Iterator[tuple[Block, Block]]:
    """Yield the first blocks, each with its first entries, until each state has enough or many blocks were read."""
    wanted = dict.fromkeys(range(len(reader.header.states)), SAMPLE_ENTRIES)
    for block in islice(reader.blocks(key_groups), 4 * len(wanted)):
        if wanted[block.state_id] > 0:
            sample = _begin_of(block, SAMPLE_ENTRIES, SAMPLE_BYTES)
            yield block, sample
            is_enough = len(sample.data) >= SAMPLE_BYTES
            wanted[block.state_id] -= SAMPLE_ENTRIES if is_enough else sample.entries
        if max(wanted.values()) <= 0:
            break


def _begin_of(block: Block, entries: int, size_bytes: int) -> Block:
    """Return the first entries of a block, until they have enough bytes."""
    few, size = [], 0
    for key, value in islice(block.items(), entries):
        few.append((key, value))
        size += len(value)
        if size >= size_bytes:
            break
    return Block.of(block.key_group, block.state_id, few)


def _growth(sample: Block, rewriter: BlockRewriter | None) -> float:
    """Return the growth of giant values, from converting their beginning; 1.0 if they cannot be cut."""
    begun = [(key, None if rewriter is None else _beginning(value, rewriter.plan)) for key, value in sample.items()]
    few = [(key, value) for key, value in begun if value is not None]
    if len(few) < len(begun):
        return 1.0
    part = Block.of(sample.key_group, sample.state_id, few)
    return len(_rewritten(rewriter, part).data) / len(part.data)


def _beginning(value: bytes, plan: StatePlan) -> bytes | None:
    """Return the first items of a list, set, map or array as a value of its own; None if a long value cannot be cut."""
    layout = getattr(plan.value and plan.value.reader, "layout", None)
    if layout is None or not layout.can_skip:
        return None
    source, framing = DataInputView(value), plan.kind.row.framing
    if framing is ValueFraming.SEPARATED:
        layout.skip(source)
        while source.remaining() and source.position < SAMPLE_BYTES:
            source.skip_bytes(len(SEPARATOR))
            layout.skip(source)
        return source.span(0) if source.position <= 2 * SAMPLE_BYTES else None
    if framing is ValueFraming.NULLABLE:
        layout = Nullable(layout)
    while isinstance(layout, Nullable) and source.read_boolean() != layout.null_flag:
        layout = layout.value
    if not isinstance(layout, Counted):
        return None if len(value) > 2 * SAMPLE_BYTES else value
    start, count = source.position, 0
    left = source.read_size("items")
    while count < left and source.position < SAMPLE_BYTES:
        layout.skip_item(source)
        count += 1
    if source.position > 2 * SAMPLE_BYTES:
        return None
    return b"".join([value[:start], count.to_bytes(_COUNT_BYTES, "big"), source.span(start + _COUNT_BYTES)])


def _rewritten(rewriter: BlockRewriter | None, sample: Block) -> Block:
    return sample if rewriter is None else rewriter.rewrite(sample, sample.state_id, Tally())
