"""Parallel checks of a savepoint's files and streams, one on each core, with progress.

Threads suffice, because machine code and digests release the GIL. Work with Python objects does not run in parallel.
"""

from __future__ import annotations

import time
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, ParamSpec, Self, TypeVar

import attrs

from ...serializers.errors import StateShiftError
from ..progress import Progress
from ..storage.lineage import FileDigest
from ..storage.prefetch import cores
from ..transcode.choice import choose_executor
from .handles import OperatorStateHandle
from .keyed_readers import keyed_reader
from .sources import PassedOn, open_stream
from .stream_proofs import StreamProof, prove_stored_elements, prove_stream

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from concurrent.futures import Future
    from types import TracebackType

    from ..storage.files import Folder
    from ..transcode.choice import ExecutorName
    from .handles import KeyedHandle
    from .reader import SavepointOperator

P = ParamSpec("P")
R = TypeVar("R")


@attrs.frozen
class OperatorLook:
    """The future results of an operator's checks, by stream.

    Attributes:
        operator: The operator.
        framing_only: Whether keys and values are skipped.
        keyed: The results of its keyed streams.
        lists: The results of its streams of list and broadcast state.
    """

    operator: SavepointOperator
    framing_only: bool
    keyed: list[Future[StreamProof]] = attrs.field(factory=list)
    lists: list[Future[StreamProof]] = attrs.field(factory=list)


class Walk:
    """Checks files and streams of a savepoint in threads. Used in a `with` block, at whose end no thread is running.

    Args:
        folder: The savepoint.
        tell: Called with the progress, by one thread at a time.
    """

    def __init__(self, folder: Folder, tell: Callable[[Progress], object]) -> None:
        self._folder, self._tell = folder, tell
        self._pool = ThreadPoolExecutor(cores())
        self._lock = Lock()
        self._has_ended = False
        self._now, self._began = Progress("", 0, 0), 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:
            self._has_ended = True
        self._pool.shutdown(cancel_futures=True)

    def digest_problems(self, files: Mapping[str, FileDigest]) -> dict[str, str]:
        """Read files and check their digests; return the problems by file name."""
        self._begin("digests", [expected.size for expected in files.values()])
        found = {name: self._submit(self._digest_problem, name, expected) for name, expected in files.items()}
        return {name: problem for name, future in found.items() if (problem := future.result())}

    def _digest_problem(self, name: str, expected: FileDigest) -> str:
        try:
            size = self._folder.size(name)
            if size != expected.size:
                return f"the file has {size:,} bytes and should have {expected.size:,}"
            with self._folder.open_range(name) as file:
                found = FileDigest.of_stream(PassedOn(file, self._pass))
        except StateShiftError as error:
            return in_one_line(error)
        return "" if found == expected else "the digest of the file is another one"

    def look(self, operators: Iterable[tuple[SavepointOperator, bool]]) -> list[OperatorLook]:
        """Start the checks of the operators' streams whose headers can be read; return the future results.

        Args:
            operators: The operators, each with whether only the framing of its entries is checked.
        """
        looks = [OperatorLook(*one) for one in operators]
        streams = [(look, handle) for look in looks for handle in stream_handles(look.operator)]
        sizes = [handle.stream.size for _, handle in streams]
        self._begin("streams", sizes)
        executor = choose_executor(sum(sizes), compiles=True)
        alone = self._folder.is_local and len(streams) >= cores()
        for look, handle in streams:
            if isinstance(handle, OperatorStateHandle):
                look.lists.append(self._submit(self._prove_elements, look, handle, executor))
            else:
                look.keyed.append(self._submit(self._prove_keyed, look, handle, executor, alone=alone))
        return looks

    def _prove_keyed(
        self, look: OperatorLook, handle: KeyedHandle, executor: ExecutorName, *, alone: bool
    ) -> StreamProof:
        groups = look.operator.max_parallelism
        with open_stream(handle.stream, self._folder) as source:
            reader = keyed_reader(PassedOn(source, self._pass), handle, groups, executor)
            return prove_stream(reader, groups, alone=alone, framing_only=look.framing_only)

    def _prove_elements(self, look: OperatorLook, handle: OperatorStateHandle, executor: ExecutorName) -> StreamProof:
        opaque = [state.name for state in look.operator.states if not state.kind.is_keyed and state.unsupported]
        with open_stream(handle.stream, self._folder) as source:
            passed = PassedOn(source, self._pass)
            return prove_stored_elements(passed, handle, executor, opaque=opaque, framing_only=look.framing_only)

    def _begin(self, phase: str, sizes: list[int]) -> None:
        self._began = time.monotonic()
        self._now = Progress(phase, 0, len(sizes), bytes_total=sum(sizes))
        self._tell(self._now)

    def _submit(self, go: Callable[P, R], *args: P.args, **options: P.kwargs) -> Future[R]:
        def gone() -> R:
            found = go(*args, **options)
            self._add(done=1)
            return found

        return self._pool.submit(partial(copy_context().run, gone))

    def _pass(self, data: bytes | memoryview) -> None:
        self._add(size=len(data))

    def _add(self, *, done: int = 0, size: int = 0) -> None:
        with self._lock:
            if self._has_ended:
                raise CancelledError
            now = self._now
            self._now = attrs.evolve(
                now,
                done=now.done + done,
                bytes_done=now.bytes_done + size,
                seconds=time.monotonic() - self._began,
            )
            self._tell(self._now)


def in_one_line(error: StateShiftError) -> str:
    """Return the message of an error in one line."""
    return error.what.replace("\n", " ")


def stream_handles(operator: SavepointOperator) -> Iterator[KeyedHandle | OperatorStateHandle]:
    """Yield the handles of an operator's streams whose headers can be read."""
    for subtask in operator.stored.subtasks:
        if subtask.managed_keyed is not None and not operator.unreadable_keyed:
            yield subtask.managed_keyed
        if subtask.managed_operator is not None and not operator.unreadable_lists:
            yield subtask.managed_operator
