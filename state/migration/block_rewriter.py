"""Rewriting of the blocks of one state: they are converted, counted, and read back.

Source: rules RUN-2 to RUN-4 and RUN-7.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

import attrs

from ...compat.description import StateKind, ValueFraming
from ...compat.plan import OperatorPlan, StateAction, StatePlan
from ...serializers.containers.lists import ArrayListSerializer, ListSerializer, MapSerializer
from ...serializers.containers.pieces import STEP, unique
from ...serializers.containers.wrappers import OptionalSerializer
from ...serializers.errors import (
    CorruptSavepoint,
    MigrationFailed,
    StateShiftError,
    at_step,
    cause_text,
    located,
    shown,
)
from ...serializers.pickled.trust import trusting
from ...serializers.views import SEPARATOR, DataInputView, DataOutputView
from ..formats.flink.blocks import Block, whole
from ..formats.flink.meta_info import NAMESPACE_SERIALIZER, StateMetaInfo
from ..formats.flink.state_kinds import info_snapshot, keyed_kind, state_kind
from ..publication.lineage import StateCount
from ..transcode.entry_layout import EntryFraming, entry_framing
from ..transcode.factory import make_transcoder
from ..transcode.frames import Survey, add_keys, survey
from ..transcode.objects import expect_end

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ...compat.plan import Recoding
    from ...serializers.snapshot import TypeSerializerConfigSnapshot
    from ..savepoint.quarantine import StoredTypes
    from ..transcode.executor_choice import ExecutorName
    from ..transcode.key_groups import StateTotal
    from ..transcode.transcoder import Transcoded, Transcoder
    from .quarantine import QuarantineLines

_CHECKSUM = 0xFFFFFFFFFFFFFFFF
_LENGTH_BYTES = 4
_PIECE_BYTES = 64 << 10
_LISTS = (ListSerializer, ArrayListSerializer)


def new_name(info: StateMetaInfo, state: StatePlan | None) -> str:
    """Return the name of a state after the migration."""
    return state.new_name if state is not None and state.new_name else info.name


@attrs.define
class Tally:
    """The running counts of one state's entries."""

    read: int = 0
    written: int = 0
    dropped: int = 0
    quarantined: int = 0
    merged: int = 0
    elements_dropped: int = 0
    keys_read: int = 0
    keys_written: int = 0
    keys_dropped: int = 0
    keys_quarantined: int = 0
    entries: int = 0

    def add(self, transcoded: Transcoded, keys_read: int, keys_written: int) -> None:
        """Add the counts of a converted block, except those of quarantined entries, and the checksums of its keys."""
        self.read += transcoded.entries
        self.written += transcoded.written
        self.dropped += transcoded.dropped
        self.merged += transcoded.merged
        self.entries += transcoded.new_entries
        self.elements_dropped += transcoded.dropped_elements
        self.keys_dropped = add_keys(self.keys_dropped, transcoded.dropped_keys)
        self.keys_read = self.keys_read + keys_read & _CHECKSUM
        self.keys_written = self.keys_written + keys_written & _CHECKSUM

    def leave_out(self, key: bytes) -> None:
        """Count a written entry as dropped: another table of the state has a later value of its key."""
        self.written -= 1
        self.dropped += 1
        if self.keys_written:  # only conversions compute it
            hashed = add_keys(0, (key,))
            self.keys_written = self.keys_written - hashed & _CHECKSUM
            self.keys_dropped = self.keys_dropped + hashed & _CHECKSUM

    def add_total(self, total: StateTotal, *, is_dropped: bool) -> None:
        """Add the counts of entries that were all converted or copied, or all dropped."""
        self.read += total.entries
        self.dropped += total.entries if is_dropped else 0
        self.written += 0 if is_dropped else total.entries
        self.entries += 0 if is_dropped else total.entries
        self.keys_read = self.keys_read + total.keys_read & _CHECKSUM
        self.keys_written = self.keys_written + total.keys_written & _CHECKSUM

    def result(self, plan: OperatorPlan, state: StatePlan | None, info: StateMetaInfo) -> StateCount:
        """Return the counts for the lineage, after checking them (rule RUN-2).

        If keys do not change, the keys written, dropped and quarantined must together be the keys read.
        """
        transform = None if state is None else state.transform
        keeps_keys = state is None or state.user_key is None or state.user_key.is_check or transform is not None
        keys_told = self.keys_written + self.keys_dropped + self.keys_quarantined & _CHECKSUM
        is_whole = self.read == self.written + self.dropped + self.quarantined + self.merged
        if not is_whole or (keeps_keys and self.keys_read != keys_told):
            raise MigrationFailed(
                f"{self.read:,} entries were read, {self.written:,} written, {self.dropped:,} dropped, {self.merged:,} "
                f"merged and {self.quarantined:,} put into quarantine, and the checksums of keys read and of the rest "
                f"are {self.keys_read:x} and {keys_told:x}",
                state=info.name,
                advice="this is a bug in stateshift or in a serializer; nothing is published",
            )
        action = StateAction.COPY if state is None else state.action
        keys = f"{self.keys_written:016x}" if action is StateAction.CONVERT else ""
        kind = str(state_kind(info) if state is None or transform is None else state.kind)
        operator_id, name = plan.new_id or plan.operator_id, new_name(info, state)
        return StateCount(
            operator_id, plan.uid, name, kind, str(action), self.read, self.written, self.dropped, keys,
            self.quarantined, self.elements_dropped, None if transform is None else self.entries, self.merged,
        )  # fmt: skip


def whole_runs(blocks: Iterator[Block], rewriters: Sequence[BlockRewriter | None]) -> Iterator[Block]:
    """Yield blocks; the pieces of a long block are joined if its transcoder needs all entries of a key group."""
    found = enumerate(rewriters)
    return whole(blocks, {at for at, one in found if one is not None and one.transcoder.needs_whole_run})


@attrs.frozen
class Converted:
    """A block that was converted, and is not counted yet.

    Attributes:
        block: The new block.
        transcoded: The result of the transcoder.
        keys_read: The checksum of the keys read.
        keys_written: The checksum of the keys written.
    """

    block: Block
    transcoded: Transcoded
    keys_read: int
    keys_written: int


@attrs.define
class BlockRewriter:
    """A converter of the blocks of one state of one stored stream.

    Attributes:
        plan: The plan of the state.
        framing: The layout of its entries.
        transcoder: The transcoder of the bytes of blocks.
        executor: The name of the executor that surveys what was written.
        quarantine: The quarantine for values that do not fit.
        types: The types by which such values are read.
        proven: Whether a converted entry was read back (rule RUN-7).
    """

    plan: StatePlan
    framing: EntryFraming
    transcoder: Transcoder
    executor: ExecutorName
    quarantine: QuarantineLines | None = None
    types: StoredTypes | None = None
    proven: bool = False

    @classmethod
    def of(
        cls,
        info: StateMetaInfo,
        plan: StatePlan | None,
        key: TypeSerializerConfigSnapshot[Any],
        max_parallelism: int,
        executor: ExecutorName,
        quarantine: QuarantineLines | None = None,
        types: StoredTypes | None = None,
        *,
        forgets: bool = False,
    ) -> BlockRewriter | None:
        """Return the rewriter of a state; None if its entries are copied or dropped.

        Args:
            info: The stored metadata of the state.
            plan: The plan of the state.
            key: The snapshot of the operator's key.
            max_parallelism: The number of key groups.
            executor: The name of the executor that runs the op list, if there is one.
            quarantine: The quarantine for values that do not fit; None to raise the first one.
            types: The types by which such values are read; needed for a quarantine.
            forgets: Whether such values are left out without a quarantine, for a trial.
        """
        if plan is None or plan.action is not StateAction.CONVERT:
            return None
        framing = entry_framing(
            keyed_kind(info),
            key.restore_serializer(),
            info_snapshot(info, NAMESPACE_SERIALIZER).restore_serializer(),
            max_parallelism,
        )
        transcoder = make_transcoder(plan, framing, executor, quarantines=forgets or quarantine is not None)
        return cls(plan, framing, transcoder, executor, quarantine, types)

    def rewrite(self, block: Block, new_id: int, tally: Tally) -> Block:
        """Convert a block, and count it."""
        return self.count(self.convert(block, new_id), tally)

    def convert(self, block: Block, new_id: int) -> Converted:
        """Convert a block, and check that its entries belong to its key group."""
        block.refuse_oversized()
        prefix = block.key_group.to_bytes(self.framing.keys.prefix, "big")
        try:
            with trusting(self.plan.trust):
                transcoded = self.transcoder.transcode(block.data, prefix)
        except StateShiftError as error:
            error.where.pop("offset", None)  # it is relative to the block, not to the file
            raise
        keys_read, found = self._surveyed(block, transcoded, prefix)
        result = Block(block.key_group, new_id, transcoded.data, transcoded.new_entries, found.last)
        keys_written = found.keys
        if self.plan.transform is not None:
            keys_read = add_keys(0, self._addresses(block, self.plan.transform.old_kind))
            keys_written = add_keys(0, self._addresses(result, self.plan.kind))
        if not self.proven:
            self.prove_one(result)
        return Converted(result, transcoded, keys_read, keys_written)

    def count(self, converted: Converted, tally: Tally) -> Block:
        """Count a converted block, and quarantine what does not fit; return the new block."""
        self._put_aside(converted.transcoded, tally)
        tally.add(converted.transcoded, converted.keys_read, converted.keys_written)
        return converted.block

    def prove_one(self, block: Block) -> None:
        """Read back the first entry of a new block (rule RUN-7)."""
        for key, value in islice(block.items(), 1):
            with located(key=self.framing.show_key(key), path="$", rule="RUN-7"):
                prove_readable(self.plan, value)
            self.proven = True

    def _surveyed(self, block: Block, transcoded: Transcoded, prefix: bytes) -> tuple[int, Survey]:
        """Return the checksum of the keys read, and the survey of the new block; check the entries' key group.

        A transcoder that has computed the checksum does not change keys: then the keys written and left out are checked
        instead of the keys read.
        """
        found = transcoded.seen or survey(transcoded.data, prefix, self.executor)
        if transcoded.keys_read is None:
            read = survey(block.data, prefix, self.executor)
            entries, keys_read, misplaced, data = read.entries, read.keys, read.misplaced, block.data
        else:
            entries, keys_read, misplaced, data = (
                transcoded.entries,
                transcoded.keys_read,
                found.misplaced,
                transcoded.data,
            )
        left_out = (*transcoded.dropped_keys, *(bad.key_bytes for bad in transcoded.quarantined))
        key = next((key for key in left_out if not key.startswith(prefix)), None)
        if misplaced >= 0:
            size_at = misplaced + _LENGTH_BYTES
            key = bytes(data[size_at : size_at + int.from_bytes(data[misplaced:size_at], "big")])
        if key is not None:
            raise CorruptSavepoint(
                f"an entry in key group {block.key_group} is stored as belonging to another key group",
                state=self.plan.name,
                key=self.framing.show_key(key),
                rule="RUN-3",
            )
        if entries != block.entries or found.entries != transcoded.new_entries:
            raise CorruptSavepoint(f"the block of key group {block.key_group} does not hold {block.entries} entries")
        return keys_read, found

    def _addresses(self, block: Block, kind: StateKind) -> Iterable[bytes]:
        """Return the distinct pairs of key and namespace: they are what is counted if the kind of state changes."""
        keys = (key for key, _ in block.items())
        return dict.fromkeys(map(self.framing.keys.address, keys) if kind.has_user_keys else keys)

    def first_of(self, block: Block) -> Block:
        """Return a block of the first entry, for a trial; of the first key, if its entries are transformed together."""
        items = block.items()
        if self.plan.transform is None or not self.plan.transform.old_kind.has_user_keys:
            return Block.of(block.key_group, block.state_id, islice(items, 1))
        address: bytes | None = None
        chosen = []
        for key, value in items:
            address = address or self.framing.keys.address(key)
            if self.framing.keys.address(key) == address:
                chosen.append((key, value))
        return Block.of(block.key_group, block.state_id, chosen)

    def _put_aside(self, transcoded: Transcoded, tally: Tally) -> None:
        """Write bad values to the quarantine, and count them and their keys."""
        tally.quarantined += len(transcoded.quarantined)
        keys = (bad.key_bytes for bad in transcoded.quarantined)
        tally.keys_quarantined = add_keys(tally.keys_quarantined, keys)
        if self.quarantine is not None:
            self.quarantine.put(self.plan, transcoded.quarantined, self.types)


def _piece_writer(plan: StatePlan, recoding: Recoding) -> Any:
    """Return the writer of a new entry's value or elements; a transform is planned with that of the whole state."""
    return recoding.writer if plan.transform is None else plan.kind.item_of(recoding.writer)


def prove_readable(plan: StatePlan, value: bytes) -> None:
    """Check that the new serializer reads a written value, and writes the same bytes again (rule RUN-7).

    Raises:
        MigrationFailed: The bytes differ, or the serializer fails.
        ValueNotConvertible: The new class does not accept the value. The caller adds key and rule.
    """
    recoding = plan.value
    if recoding is None:
        return
    framing, writer = plan.kind.row.framing, _piece_writer(plan, recoding)
    if framing is ValueFraming.NULLABLE and DataInputView(value).read_boolean():
        return
    data = value[1:] if framing is ValueFraming.NULLABLE else value
    try:
        with trusting(()):  # pickles are not opened: copied ones are not trusted, and sets have no fixed order
            for stored, again in _read_and_written(writer, data, is_separated=framing is ValueFraming.SEPARATED):
                if stored != again:
                    raise _unlike(plan, stored, again)
    except StateShiftError:
        raise
    except Exception as error:
        raise MigrationFailed(
            f"the new serializer fails on its own bytes {shown(data.hex())}: {cause_text(error)}",
            state=plan.name,
            advice="fix the serializer; nothing is published",
        ) from error


def _read_and_written(writer: Any, data: bytes, *, is_separated: bool) -> Iterator[tuple[bytes, bytes]]:
    """Yield the bytes of a value and the bytes after reading and writing it again; a long list in pieces."""
    source, start = DataInputView(data), 0
    target = DataOutputView()
    for _ in _each_separated(writer, source, target) if is_separated else _parts(writer, source, target):
        if len(target) >= _PIECE_BYTES:
            yield source.span(start), target.taken()
            start = source.position
    yield source.span(start), target.taken()
    expect_end(source)


def _parts(writer: Any, source: DataInputView, target: DataOutputView) -> Iterator[None]:
    """Read a value and write it again; yield after each part, also of nested lists; of maps after each entry."""
    if type(writer) is OptionalSerializer and source.peek(1) == b"\0":
        target.write_byte(source.read_byte())
        with at_step("?"):
            yield from _parts(writer.value, source, target)
    elif type(writer) in _LISTS:
        count = source.read_size("elements of a list")
        target.write_int(count)
        with at_step(STEP):
            yield from _elements(writer.element, count, source, target)
    elif type(writer) is MapSerializer:
        yield from _pairs(writer, source, target)
    else:
        writer.serialize(writer.deserialize(source), target)
        yield


def _elements(element: Any, count: int, source: DataInputView, target: DataOutputView) -> Iterator[None]:
    """Read elements and write them again; yield after each, or after many if they are small."""
    if type(element) in {*_LISTS, MapSerializer, OptionalSerializer}:
        for _ in range(count):
            yield from _parts(element, source, target)
        return
    at_a_time = max(_PIECE_BYTES // element.length, 1) if element.length > 0 else 1
    for done in range(0, count, at_a_time):
        for _ in range(min(at_a_time, count - done)):
            element.serialize(element.deserialize(source), target)
        yield


def _pairs(writer: MapSerializer[Any, Any], source: DataInputView, target: DataOutputView) -> Iterator[None]:
    """Read the entries of a map and write them again, one by one; only the keys, which must differ, are all held."""
    count, keys = source.read_size("entries of a map", least_bytes_each=2), list[Any]()
    target.write_int(count)
    for _ in range(count):
        with at_step("<key>"):
            key = writer.key.deserialize(source)
            writer.key.serialize(key, target)
        with at_step("{}"):
            item = None if source.read_boolean() else writer.value.deserialize(source)
        writer.write_value(key, item, target)
        keys.append(key)
        yield
    unique(keys, "stored keys of a map are, for Python,", "<key>")


def _each_separated(element: Any, source: DataInputView, target: DataOutputView) -> Iterator[None]:
    while source.remaining():
        yield from _parts(element, source, target)
        if source.remaining():
            source.skip_bytes(len(SEPARATOR))
            target.write(SEPARATOR)


def _unlike(plan: StatePlan, stored: bytes, again: bytes) -> MigrationFailed:
    return MigrationFailed(
        f"the new serializer does not write the same bytes that it read: {shown(stored.hex())}, then "
        f"{shown(again.hex())}",
        state=plan.name,
        advice="make the serializer deterministic; nothing is published",
    )
