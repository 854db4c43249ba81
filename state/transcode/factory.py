"""The factory of transcoders: it returns one for the plan of a state, with the op list for that plan if it has one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...compat.description import StateKind, ValueFraming
from ...compat.plan import StateAction
from ...serializers.containers.ttl import stripped_rewrite
from ...serializers.containers.wrappers import OptionalSerializer
from ...serializers.errors import DeclarationError, StateShiftError
from ...serializers.rewrite import Counted, Nullable, Rest, Sequence, Widened, rewrite_of, tells_apart
from .block_transcoder import BlockTranscoder
from .compiler import compile_value
from .executor_choice import ExecutorName
from .objects import ObjectTranscoder
from .parsing import stays

if TYPE_CHECKING:
    from ...compat.plan import Recoding, StatePlan
    from ...serializers.rewrite import ByteRewrite
    from ...serializers.snapshot import TypeSerializerConfigSnapshot
    from .entry_layout import EntryFraming
    from .program import Program
    from .transcoder import ElementTranscoder, Transcoder


def program_of(plan: StatePlan, entry: EntryFraming) -> Program | None:
    """Return the op list that rewrites the entries of a keyed state; None if objects are needed.

    Objects are needed if user code is involved, or a serializer has no byte rewrite.
    """
    recoding, framing, key = plan.value, plan.kind.row.framing or ValueFraming.WHOLE, None
    if plan.transform is not None:
        return None
    if plan.user_key is not None:
        user_key = _rewrite(plan.user_key)
        if user_key is None or entry.parts is None:
            return None
        key = Sequence((*entry.parts, user_key))
    if recoding is None:
        return compile_value(Rest(), ValueFraming.WHOLE, nullable=False, key=key)
    if framing is ValueFraming.NULLABLE and isinstance(recoding.reader, OptionalSerializer):
        return None  # a null after the entry's own flag must be moved to that flag
    rewrite = _rewrite(recoding)
    if rewrite is None:
        return None
    return compile_value(rewrite, framing, nullable=recoding.nullable and recoding.null_stamp_ms is None, key=key)


def element_program_of(plan: StatePlan) -> Program | None:
    """Return the op list that rewrites elements of an operator's list state, or broadcast maps; None if there is none.

    The op list checks that the keys of such a map stay distinct.
    """
    if plan.transform is not None:
        return None
    rewrite = _piece(plan.value, plan.old.value)
    if plan.kind is StateKind.BROADCAST and rewrite is not None:
        key = _piece(plan.user_key, plan.old.key)
        is_told = key is not None and (tells_apart(key) or stays(key))
        rewrite = Counted(rewrite, key) if is_told else None
    return None if rewrite is None else compile_value(rewrite, ValueFraming.WHOLE, nullable=False)


def _piece(recoding: Recoding | None, stored: TypeSerializerConfigSnapshot[Any] | None) -> ByteRewrite | None:
    """Return the byte rewrite of an element, key or value; without a recoding it is that of the stored type."""
    if recoding is not None:
        return _rewrite(recoding)
    try:
        serializer = stored.restore_serializer() if stored is not None else None
    except StateShiftError:
        return None
    return None if serializer is None else rewrite_of(serializer, None, serializer)


def _rewrite(recoding: Recoding) -> ByteRewrite | None:
    if recoding.converter:
        return None
    reader, conversion, writer = recoding.reader, recoding.conversion, recoding.writer
    bare = stripped_rewrite(reader, conversion, writer, recoding.expired_until_ms)
    if bare is not None or recoding.expired_until_ms is not None:
        return bare
    rewrite = rewrite_of(reader, conversion, writer)
    return None if recoding.is_check and rewrite is not None and not stays(rewrite) else rewrite


def make_transcoder(
    plan: StatePlan, framing: EntryFraming, executor: ExecutorName, *, quarantines: bool = False
) -> Transcoder:
    """Return a transcoder of the entries of a keyed state.

    Args:
        plan: A plan whose action is `convert`; states that are copied or relabelled need no transcoder.
        framing: The layout of the state's entries.
        executor: The name of the executor; machine code runs the op list, if there is one.
        quarantines: Whether values that do not fit are returned instead of raised (rule RUN-4).

    Raises:
        DeclarationError: The plan converts nothing, or the state is not keyed.
    """
    _require(plan, keyed=True)
    if plan.transform is not None:
        from .kind_changes import KindTranscoder

        return KindTranscoder(plan, framing, quarantines)
    objects = ObjectTranscoder(plan, framing, quarantines)
    program = program_of(plan, framing) if executor is ExecutorName.NUMBA else None
    if program is None:
        return objects
    return BlockTranscoder(objects, program, plan.user_key is not None and keeps_user_keys_apart(plan))


def keeps_user_keys_apart(plan: StatePlan) -> bool:
    """Whether it is known that different user keys of a state stay different; states without such keys have none."""
    recoding = plan.user_key
    if recoding is None or recoding.is_check:
        return True
    rewrite = _rewrite(recoding)
    return rewrite is not None and _keeps_apart(rewrite)


def _keeps_apart(rewrite: ByteRewrite) -> bool:
    """Whether different old bytes always become different new bytes; what is odd is left to the objects."""
    match rewrite:
        case Sequence(parts, emitted) if emitted is not None:
            return set(range(len(parts))) <= set(emitted) and all(map(_keeps_apart, parts))
        case Sequence(parts):
            return all(map(_keeps_apart, parts))
        case Nullable(value, padding, present=present, null=null):
            is_told = null is None or (not padding and len({*present[:1], *null[:1]}) == 2)
            return is_told and _keeps_apart(value)
    return stays(rewrite) or isinstance(rewrite, Widened) or tells_apart(rewrite)


def make_element_transcoder(plan: StatePlan, executor: ExecutorName, *, quarantines: bool = False) -> ElementTranscoder:
    """Return a transcoder of the elements of an operator's list state (split or union), or of broadcast maps.

    Raises:
        DeclarationError: The plan converts nothing, or the state is keyed.
    """
    _require(plan, keyed=False)
    from .elements import BroadcastMaps, ElementBlocks, ListElements

    make = BroadcastMaps if plan.kind is StateKind.BROADCAST else ListElements
    objects = make(plan, quarantines)
    program = element_program_of(plan) if executor is ExecutorName.NUMBA else None
    return objects if program is None else ElementBlocks(objects, program)


def _require(plan: StatePlan, *, keyed: bool) -> None:
    if plan.action is not StateAction.CONVERT or plan.kind.is_keyed is not keyed:
        wanted = "keyed" if keyed else "operator"
        raise DeclarationError(
            f"no {wanted} state to be converted: {plan.name!r} is {plan.kind} state, and its plan is {plan.action}",
            advice="ask for a transcoder only where the plan says convert",
            state=plan.name,
        )
