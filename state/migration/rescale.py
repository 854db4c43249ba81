"""The additions to a plan for another format, parallelism or compression, which are independent of types."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from ...compat.plan import Compression, MigrationPlan, OperatorAction, OperatorPlan, SavepointFormatType
from ...serializers.errors import DeclarationError, IncompatibleState, UnsupportedFormat, located
from ...serializers.ways_out import Option, Told, WayOut
from ..formats.flink.handles import DatabaseHandle
from ..formats.flink.sources import open_stream

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..formats.flink.handles import StreamHandle
    from ..formats.flink.metadata import OperatorState
    from ..savepoint.reader import Savepoint, SavepointOperator
    from ..storage.files import Folder

_COMPRESSED_AT = 4
_UNCHANGED = "Nothing was changed."
_KEEP_NUMBER = "leave the parallelism as it is: Flink restores the savepoint with any"


def reshape(
    savepoint: Savepoint,
    plan: MigrationPlan,
    *,
    parallelism: int | None = None,
    compression: Compression = Compression.KEEP,
) -> MigrationPlan:
    """Return a plan with another parallelism or compression added.

    Operators without state keep their number of subtasks. Streams that are already compressed as wanted are not
    rewritten, nor are those of an operator whose states cannot be read.

    Args:
        savepoint: The source.
        plan: The plan for its states.
        parallelism: The number of subtasks of every operator that has state; None to keep it.
        compression: Whether streams are compressed.

    Raises:
        DeclarationError: An operator cannot have so many subtasks.
        IncompatibleState: The state of an operator cannot be redistributed.
    """
    if parallelism is not None and parallelism < 1:
        raise DeclarationError(f"parallelism {parallelism} is not possible", advice="choose 1 or more")
    for was in savepoint.metadata.operators:
        with located(savepoint=savepoint.place, operator=str(was)):
            _check_key_groups(was, plan.max_parallelism_of(was.operator_id.hex()), parallelism)
    stored = {operator.operator_id.hex(): operator for operator in savepoint.metadata.operators}
    operators = []
    for operator in plan.operators:
        new, was = operator, stored[operator.operator_id]
        unreadable = savepoint.operator(operator.operator_id).unreadable
        with located(savepoint=savepoint.place, operator=str(was)):
            if parallelism is not None and any(_managed(was)):
                new = _rescaled(new, was, parallelism, unreadable)
            if not unreadable and _is_compressed_otherwise(savepoint.folder, was, compression):
                new = attrs.evolve(new, compression=compression, action=OperatorAction.REWRITE)
        operators.append(new)
    stateless = (was for identity, was in stored.items() if plan.operator(identity) is None)
    is_needed = any(was.max_parallelism != plan.max_parallelism for was in stateless)
    return attrs.evolve(plan, operators=tuple(operators), max_parallelism=plan.max_parallelism if is_needed else 0)


def reformat(savepoint: Savepoint, plan: MigrationPlan, wanted: SavepointFormatType) -> MigrationPlan:
    """Return a plan with the format of keyed state added.

    Args:
        savepoint: The source.
        plan: The plan for its states.
        wanted: The format.

    Raises:
        UnsupportedFormat: Files of RocksDB are wanted for an operator whose keyed state cannot be read.
    """
    return attrs.evolve(
        plan, operators=tuple(_reformatted(savepoint.operator(one.operator_id), one, wanted) for one in plan.operators)
    )


def _reformatted(stored: SavepointOperator, plan: OperatorPlan, wanted: SavepointFormatType) -> OperatorPlan:
    is_database = stored.keyed_format == DatabaseHandle.keyed_format
    is_native = is_database if wanted is SavepointFormatType.KEEP else wanted is SavepointFormatType.NATIVE
    if not stored.keyed_format or not is_native:
        return plan
    unread = stored.unreadable_keyed or next((state.unsupported for state in stored.states if state.is_hidden), "")
    if unread and is_database:
        return attrs.evolve(plan, is_native=True)  # its files are kept, all of them
    if unread:
        raise UnsupportedFormat(
            f"the keyed state of operator {stored} cannot be written in the native format: {unread}",
            advice=WayOut.telling("leave its format as it is:", Option.FORMAT, "keep"),
        )
    return attrs.evolve(plan, action=OperatorAction.REWRITE, is_reframed=True, is_native=True)


def _managed(stored: OperatorState) -> Iterator[StreamHandle]:
    """Yield the streams of managed state."""
    for subtask in stored.subtasks:
        yield from (handle.stream for handle in (subtask.managed_keyed, subtask.managed_operator) if handle is not None)


def _check_key_groups(stored: OperatorState, max_parallelism: int, parallelism: int | None) -> None:
    """Raise if an operator would have more subtasks than key groups."""
    subtasks = parallelism if parallelism is not None and any(_managed(stored)) else stored.parallelism
    if max_parallelism and subtasks > max_parallelism:
        raise DeclarationError(
            f"max parallelism {max_parallelism} is less than the parallelism of the operator: it has {subtasks} "
            "subtasks, and each needs at least one key group",
            advice=(f"choose {subtasks} or more", WayOut("ask for fewer subtasks:", (Told(Option.PARALLELISM),))),
            written=_UNCHANGED,
        )


def _rescaled(plan: OperatorPlan, stored: OperatorState, parallelism: int, unreadable: str) -> OperatorPlan:
    key_groups = plan.max_parallelism or stored.max_parallelism
    if parallelism > key_groups:
        raise DeclarationError(
            f"parallelism {parallelism} is more than the operator's max parallelism: it has {key_groups}"
            " key groups, and each subtask needs at least one",
            advice=f"choose {key_groups} or less",
            written=_UNCHANGED,
        )
    if parallelism == stored.parallelism:
        return attrs.evolve(plan, parallelism=parallelism)
    why = _why_bound(stored, unreadable)
    if why:
        raise IncompatibleState(
            f"{stored.parallelism} subtasks cannot become {parallelism}: {why}", advice=_KEEP_NUMBER, written=_UNCHANGED
        )
    return attrs.evolve(plan, parallelism=parallelism, is_rescaled=True, action=OperatorAction.REWRITE)


def _why_bound(stored: OperatorState, unreadable: str) -> str:
    """Return why the state cannot be redistributed to another number of subtasks, or ""."""
    if any(subtask.raw_keyed or subtask.raw_operator for subtask in stored.subtasks):
        return "the operator has raw state, which only its own code can read"
    if any(subtask.finished for subtask in stored.subtasks):
        return "some of them have finished, so the state cannot be redistributed"
    return f"its states are not known: {unreadable}" if unreadable else ""


def _is_compressed_otherwise(folder: Folder, stored: OperatorState, wanted: Compression) -> bool:
    """Whether a stream is not compressed as wanted; only the first bytes of streams are read."""
    if wanted is Compression.KEEP:
        return False
    return any(_is_compressed(stream, folder) is not (wanted is Compression.SNAPPY) for stream in _managed(stored))


def _is_compressed(stream: StreamHandle, folder: Folder) -> bool:
    with open_stream(stream, folder) as source:
        return source.size > _COMPRESSED_AT and source.read_at(_COMPRESSED_AT, 1) != b"\0"
