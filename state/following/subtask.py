"""One subtask that is followed: its converted states in a database of ours, brought from snapshot to snapshot.

    WORK/OPERATOR-SUBTASK/progress.json     what is converted, written after the flush of the database
                          converted/        the database
                          snapshot-…/       files of the job, linked until they are applied

A change is applied by what the snapshots hold: each key that may have changed is read in the new one as a whole, and
converted by the same code as in a migration. So it may be applied any number of times, and from any point on.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import time
from collections import Counter
from contextlib import ExitStack
from functools import cached_property
from typing import TYPE_CHECKING

import attrs

from ...compat.plan import MigrationPlan, StateAction
from ...compat.plan_data import to_data
from ...serializers.errors import (
    CorruptFile,
    CorruptSavepoint,
    MigrationFailed,
    ValueNotConvertible,
    located,
)
from ..formats.flink.database_files import open_database_of
from ..formats.flink.database_stream import DatabaseStreamReader, framed_entries
from ..formats.flink.handles import DatabaseHandle, InlineHandle
from ..formats.flink.keyed_readers import open_keyed, read_header
from ..key_groups import prefix_size
from ..migration.block_rewriter import Tally, new_name
from ..migration.kept_families import StoredParts
from ..migration.outputs import keyed_output, options_of
from ..migration.quarantine import QuarantineLines
from ..migration.rewrite import new_keyed_header
from ..migration.stream_rewriter import StreamRewriter, is_dropped
from ..migration.tasks import NOTHING_KEPT
from ..progress import count_bytes
from ..storage.files import Folder
from ..transcode.executor_choice import choose_executor
from ..transcode.factory import keeps_user_keys_apart
from ..transcode.frames import survey
from .checkpoints import LinkedSnapshot, held_bytes
from .comparison import Changes, changes, different_files
from .database import ConvertedDatabase

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence
    from pathlib import Path

    from ..formats.flink.blocks import Block
    from ..formats.flink.keyed_stream import KeyedStreamHeader
    from ..migration.tasks import KeyedTask
    from ..rocksdb.database import Items
    from ..transcode.executor_choice import ExecutorName

_PROGRESS, _CONVERTED, _SNAPSHOT = "progress.json", "converted", "snapshot-"
_NOTED_EACH_S = 20.0
_PIECE_BYTES = 4 << 20
_FIRST_BYTES = 32 << 20
"""How much is converted before the first note: it shows how much is in the time between two."""
_CHECKSUMS = 1 << 64
_MOST_ABANDONED = 3


@attrs.define
class Record:
    """What is noted of a subtask.

    Attributes:
        identity: What must not change, as text by its name: else the subtask begins again.
        applied: The snapshot that the database is converted from; "": none is as a whole yet.
        current: The snapshot that is being applied; "": none is.
        abandoned: Snapshots of which some values may be in the database, besides.
        converted: While nothing is applied: the first key group that is not converted yet.
        position: While a snapshot is being applied to another one: the state and the key (in hexadecimal) up to which
            it is; None: nothing is.
        counts: The counts of the applied snapshot, by the stored name of the state.
        running: The same of the current one, as far as it is applied.
    """

    identity: dict[str, str]
    applied: str = ""
    current: str = ""
    abandoned: list[str] = attrs.field(factory=list)
    converted: int = 0
    position: list[str] | None = None
    counts: dict[str, dict[str, int]] = attrs.field(factory=dict)
    running: dict[str, dict[str, int]] = attrs.field(factory=dict)

    @property
    def snapshots(self) -> set[str]:
        """The names of all snapshots that are needed."""
        return {self.applied, self.current, *self.abandoned} - {""}


@attrs.frozen
class Followable:
    """What of a subtask can be followed.

    Attributes:
        stored: The stored database without the states whose files stay as they are: a migration links them at the end.
        left: The states of it that are converted at the end only, by their name, each with the reason.
        states: The states of it that are followed.
        next_file: A number above those of all files of the stored database.
    """

    stored: StoredParts
    left: dict[str, str]
    states: frozenset[str]
    next_file: int

    @classmethod
    def of(cls, task: KeyedTask, source: Folder) -> Followable | None:
        """Return what of a task can be followed; None where its state is not in one database of the same key groups.

        Args:
            task: The task.
            source: The folder of the stored state.
        """
        (handle, *_), read = task.handles, task.read or task.handles
        if not isinstance(handle, DatabaseHandle) or handle.key_groups != task.key_groups:
            return None
        stored = StoredParts.read(read[0], source) if isinstance(read[0], DatabaseHandle) else None
        if stored is None:
            return None
        infos = stored.header.states if task.read else ()
        plans = {info.name: task.plan.state(info.name, keyed=True) for info in infos}
        names = Counter(new_name(info, plans[info.name]) for info in infos if not is_dropped(plans[info.name]))
        left: dict[str, str] = {}
        for info in infos:
            state = plans[info.name]
            if task.plan.max_bad_values:
                left[info.name] = "values that do not fit are put aside"
            elif state is not None and state.transform is not None:
                left[info.name] = "its kind changes: one entry may become several, or several one"
            elif state is not None and not keeps_user_keys_apart(state):
                left[info.name] = "its user keys change, and several may become one"
            elif names[new_name(info, state)] > 1:
                left[info.name] = "several states become one"
        states = frozenset(info.name for info in infos) - left.keys()
        next_file = task.kept.next_file if task.kept.files else stored.next_file
        return cls(stored, left, states, next_file)


class FollowedSubtask:
    """A subtask whose states are followed.

    Args:
        home: The folder of everything that is kept of it.
        task: The task of the newest snapshot.
        source: The folder of that snapshot.
        found: What can be followed, which is some state.
        tell: Called with the number of bytes that were compared or converted, now and then.
    """

    def __init__(
        self, home: Path, task: KeyedTask, source: Folder, found: Followable, tell: Callable[[int], None]
    ) -> None:
        self.home, self._task, self._source, self._found, self._tell = home, task, source, found, tell
        self.begun_again, self._newest = "", ""
        identity = self._identity()
        self._record = _read_record(home) or Record(identity)
        differs = [name for name in identity if self._record.identity.get(name) != identity[name]]
        if differs:
            self.begin_again(f"{' and '.join(differs)} changed")
        elif len(self._record.abandoned) > _MOST_ABANDONED:
            self.begin_again(f"{_MOST_ABANDONED} checkpoints could not be applied")
        self._delete_others()

    def _identity(self) -> dict[str, str]:
        task = self._task
        followed = tuple(
            state for state in task.plan.states if state.kind.is_keyed and state.name in self._found.states
        )
        plan = attrs.evolve(task.plan, states=followed)
        planned = {"plan": to_data(MigrationPlan("", "", (plan,))), "states": sorted(self._found.states)}
        planned["code"] = plan.code(keyed=True)
        header = self._handle.stream
        assert isinstance(header, InlineHandle)  # noqa: S101 - a database without some states has a header of ours
        return {
            "the plan": hashlib.sha256(json.dumps(planned, sort_keys=True).encode()).hexdigest(),
            "the description of the states": hashlib.sha256(header.data).hexdigest(),
            "the key groups": f"{task.key_groups.start}-{task.key_groups.stop - 1} of {task.max_parallelism}",
            "the id of the backend": self.backend_id,
        }

    @cached_property
    def _handle(self) -> DatabaseHandle:
        return self._found.stored.without(self._found.left)

    def begin_again(self, why: str) -> None:
        """Forget everything that was converted.

        Args:
            why: The reason, for the status.
        """
        if self._record.applied or self._record.current:
            self.begun_again = why
        (self.home / _PROGRESS).unlink(missing_ok=True)
        shutil.rmtree(self.home / _CONVERTED, ignore_errors=True)
        self._record = Record(self._identity())
        self._delete_others()

    # Linking

    def link(self) -> None:
        """Link the files of the snapshot; errors as in `LinkedSnapshot.linked`."""
        handle, manifest = self._handle, self._found.stored.manifest
        name = f"{_SNAPSHOT}{hashlib.sha256(f'{self._source.place} {handle.handle_id}'.encode()).hexdigest()[:16]}"
        self._newest = name
        if name not in self._record.snapshots:
            before = [self._snapshot(one) for one in sorted(self._record.snapshots)]
            shutil.rmtree(self.home / name, ignore_errors=True)
            LinkedSnapshot.linked(handle, manifest, self._source, self.home / name, before)

    def _snapshot(self, name: str) -> LinkedSnapshot:
        if name not in self._read:
            self._read[name] = LinkedSnapshot.read(self.home / name)
        return self._read[name]

    @cached_property
    def _read(self) -> dict[str, LinkedSnapshot]:
        return {}

    @property
    def backend_id(self) -> str:
        """The id of the backend that is followed."""
        return self._found.stored.handle.backend_id

    @property
    def held_bytes(self) -> int:
        """The bytes of linked files that only we hold."""
        names = self._record.snapshots | ({self._newest} - {""})
        return held_bytes(map(self._snapshot, sorted(names)))

    @property
    def outstanding_bytes(self) -> int:
        """About how many bytes of files must be looked at until the newest snapshot is applied."""
        if not self._newest:
            return 0
        record, newest = self._record, self._snapshot(self._newest)
        if not record.applied:
            groups = self._task.key_groups
            left = groups.stop - max(record.converted, groups.start)
            return newest.table_bytes * left // len(groups)
        if record.applied == self._newest and not record.current:
            return 0
        bases = [self._snapshot(name) for name in sorted({record.applied, record.current, *record.abandoned} - {""})]
        files = different_files([*bases, newest])
        return sum(file.listed.size for state in files.values() for file in state)

    def _delete_others(self) -> None:
        """Delete the files of snapshots that are applied, or were not linked to the end."""
        for folder in self.home.glob(f"{_SNAPSHOT}*"):
            if folder.name not in self._record.snapshots:
                shutil.rmtree(folder, ignore_errors=True)

    # Applying

    def apply(self) -> None:
        """Convert what has changed up to the snapshot that was linked; what was begun before is ended first.

        Raises:
            ValueNotConvertible: A value does not fit its new type.
            CorruptSavepoint: A file of the snapshot is damaged.
            NoSpaceLeft, StorageFailed: The database cannot be written.
        """
        record = self._record
        try:
            if record.current and record.current != self._newest:
                self._bring_to(record.current)
            if record.applied != self._newest or record.current or record.abandoned:
                self._bring_to(self._newest)
        except (ValueNotConvertible, CorruptSavepoint, MigrationFailed):
            self._abandon()
            raise
        finally:
            self._converted.close()
        self._delete_others()

    def _abandon(self) -> None:
        """Note that a snapshot will not be applied; the next one is compared with it, too."""
        record = self._record
        self._converted.close()
        if not record.applied:
            self.begin_again("")
            return
        if record.current and record.current not in {record.applied, *record.abandoned}:
            record.abandoned.append(record.current)
        record.current, record.position, record.running = "", None, {}
        self._note()

    def _bring_to(self, name: str) -> None:
        record = self._record
        if record.current != name:
            record.current, record.position = name, None
            record.running = {state: dict(counts) for state, counts in record.counts.items()}
            self._note()
        task = attrs.evolve(self._task, handles=(self._snapshot(name).handle,), digests={}, kept=NOTHING_KEPT)
        with located(savepoint=self._snapshot(name).place, operator=task.title):
            if record.applied:
                self._apply_changes(task, self._snapshot(name))
            else:
                self._convert_all(task, self._snapshot(name))
        self._converted.flush()
        record.applied, record.current, record.abandoned, record.position = name, "", [], None
        record.counts, record.running = record.running, {}
        self._note()

    def _note(self) -> None:
        self.home.mkdir(parents=True, exist_ok=True)
        Folder.at(self.home).write(_PROGRESS, json.dumps(attrs.asdict(self._record)).encode())

    @cached_property
    def _stored_header(self) -> KeyedStreamHeader:
        name = self._record.current or self._record.applied or self._newest
        return read_header(self._snapshot(name).handle, self._snapshot(name).source)

    @cached_property
    def _header(self) -> KeyedStreamHeader:
        return new_keyed_header(self._task.plan, [self._stored_header])

    @cached_property
    def _converted(self) -> ConvertedDatabase:
        snapshot = self._snapshot(self._record.current or self._record.applied or self._newest)
        task = attrs.evolve(self._task, handles=(snapshot.handle,), kept=NOTHING_KEPT)
        options = options_of(task, self._header, snapshot.source)
        return ConvertedDatabase(self.home / _CONVERTED, options, self._task.max_parallelism)

    def _tallies(self) -> dict[str, Tally]:
        return {info.name: Tally(**self._record.running.get(info.name, {})) for info in self._stored_header.states}

    def _convert_all(self, task: KeyedTask, snapshot: LinkedSnapshot) -> None:
        """Convert everything, some key groups at a time; what they became is noted after each time."""
        record, groups, place = self._record, task.key_groups, Folder.at(self.home / "written")
        executor = choose_executor(snapshot.table_bytes, compiles=True)
        start, step = (
            max(record.converted, groups.start),
            max(1, len(groups) * _FIRST_BYTES // (snapshot.table_bytes + 1)),
        )
        shutil.rmtree(place.place, ignore_errors=True)
        place.create()
        while start < groups.stop:
            began = time.monotonic()
            part, tallies = range(start, min(start + step, groups.stop)), self._tallies()
            piece = attrs.evolve(task, key_groups=part)
            with (
                keyed_output(piece, self._header, snapshot.source, place, executor) as output,
                open_keyed(snapshot.handle, snapshot.source, task.max_parallelism, executor=executor) as reader,
                count_bytes.heard_by(self._tell),
            ):
                aside = QuarantineLines(task.plan, lambda _: None)
                stream = StreamRewriter(task.plan, task.max_parallelism, reader, self._header, tallies, aside)
                stream.write(part, output.writer)
                written = output.finish()
            self._converted.add(written, place, start)
            start = record.converted = part.stop
            step = max(1, min(4 * step, int(step * _NOTED_EACH_S / (time.monotonic() - began + 0.01))))
            record.running = {name: attrs.asdict(tally) for name, tally in tallies.items()}
            self._note()
        shutil.rmtree(place.place, ignore_errors=True)

    def _apply_changes(self, task: KeyedTask, snapshot: LinkedSnapshot) -> None:
        """Apply what differs between the applied snapshot, those that were abandoned, and a new one."""
        record, prefix = self._record, prefix_size(task.max_parallelism)
        bases = [self._snapshot(name) for name in (record.applied, *record.abandoned)]
        different = different_files([*bases, snapshot])
        size = sum(file.listed.size for files in different.values() for file in files)
        first, stop = (group.to_bytes(prefix, "big") for group in (task.key_groups.start, task.key_groups.stop))
        done, key = record.position or ("", "")
        with ExitStack() as opened:
            databases = [opened.enter_context(open_database_of(one.handle, one.source)) for one in (*bases, snapshot)]
            conversion = _Conversion(task, self._stored_header, self._header, choose_executor(size))
            for state in sorted(different.keys() & self._found.states):
                if state < done:
                    continue
                start = bytes.fromhex(key) + b"\0" if state == done else first
                whole = sum(file.size for file in snapshot.manifest.families.get(state, ()))
                with located(state=state):
                    found = changes(state, databases, different[state], whole, start, stop, conversion.executor)
                    self._apply_state(state, found, conversion)
                self._tell(sum(file.listed.size for file in different[state]))

    def _apply_state(self, state: str, found: Iterator[tuple[bytes, Changes]], conversion: _Conversion) -> None:
        held: list[Changes] = []
        size, noted_s = 0, time.monotonic()
        for last, some in found:
            held.append(some)
            size += some.size_bytes
            is_due = time.monotonic() - noted_s > _NOTED_EACH_S
            if size > _PIECE_BYTES or is_due:
                self._write(state, held, conversion)
                held, size = [], 0
            if is_due:
                self._converted.flush()
                self._record.position, noted_s = [state, last.hex()], time.monotonic()
                self._note()
        self._write(state, held, conversion)

    def _write(self, state: str, parts: Sequence[Changes], conversion: _Conversion) -> None:
        """Put what the new values have become, delete what only the earlier ones had become, and count both."""
        if not any(map(len, parts)):
            return
        found = Changes.joined(parts)
        puts, added = conversion.converted(state, found.keys, found.after)
        gone, counts = set[bytes](), self._record.running.setdefault(state, {})
        for at, values in enumerate(found.before):
            before, removed = conversion.removed(state, found.keys, values)
            gone |= set(before) - puts.keys()
            if at == 0:
                for name, count in attrs.asdict(added).items():
                    changed = counts.get(name, 0) + count - getattr(removed, name)
                    counts[name] = changed % _CHECKSUMS if name.startswith("keys_") else changed
        if puts or gone:
            self._converted.write(conversion.new_name(state), puts, gone)

    # Publication

    def followed(self) -> KeyedTask:
        """Return the task that links what is converted, after the snapshot that it migrates was applied."""
        self._converted.close()
        task, found, counts = self._task, self._found, []
        for info in self._stored_header.states:
            tally = Tally(**self._record.counts.get(info.name, {}))
            counts.append(tally.result(task.plan, task.plan.state(info.name, keyed=True), info))
        left = (found.stored.without(found.states),) if found.left else ()
        place, tables = Folder.at(self._converted.folder), self._converted.tables()
        return attrs.evolve(task, kept=task.kept.joined(tables, place, tuple(counts), left, found.next_file))


@attrs.frozen
class _Conversion:
    """Converts entries of single states, as a migration does it.

    Attributes:
        task: The task.
        stored: The header of the stored states.
        new: The header of the new ones.
        executor: The executor of op lists.
    """

    task: KeyedTask
    stored: KeyedStreamHeader
    new: KeyedStreamHeader
    executor: ExecutorName

    def new_name(self, state: str) -> str:
        """Return the name of a state after the migration."""
        info = self.stored.states[self.stored.state_id(state)]
        return new_name(info, self.task.plan.state(state, keyed=True))

    def removed(
        self, state: str, keys: Sequence[bytes], values: Sequence[bytes | None]
    ) -> tuple[Collection[bytes], Tally]:
        """Return the keys of what some entries had become, and the counts, as `converted`.

        Values are converted for that only where entries get other keys, or some are left out.
        """
        plan = self.task.plan.state(state, keyed=True)
        value = None if plan is None or plan.action is not StateAction.CONVERT else plan.value
        if plan is None or value is None or value.expired_until_ms is not None or plan.user_key is not None:
            entries, tally = self.converted(state, keys, values)
            return entries.keys(), tally
        there = [key for key, stored in zip(keys, values, strict=True) if stored is not None]
        count = len(there)
        checksum = survey(framed_entries(there, [b""] * count), b"", self.executor).keys
        return there, Tally(read=count, written=count, entries=count, keys_read=checksum, keys_written=checksum)

    def converted(
        self, state: str, keys: Sequence[bytes], values: Sequence[bytes | None]
    ) -> tuple[dict[bytes, bytes], Tally]:
        """Return what some entries of a state become, and the counts.

        Args:
            state: The stored name of the state.
            keys: The keys of the entries, in order.
            values: Their values; None: there is no such entry.
        """
        task, tallies = self.task, {info.name: Tally() for info in self.stored.states}
        there = [(key, value) for key, value in zip(keys, values, strict=True) if value is not None]
        if not there:
            return {}, tallies[state]
        prefix = prefix_size(task.max_parallelism)
        groups = range(*(int.from_bytes(key[:prefix], "big") for key in (there[0][0], there[-1][0])))
        groups = range(groups.start, groups.stop + 1)
        reader = DatabaseStreamReader(
            self.stored, "changed entries", self.executor, _Held(state, there), groups, prefix
        )
        collected = _Collected()
        aside = QuarantineLines(task.plan, lambda _: None)
        stream = StreamRewriter(task.plan, task.max_parallelism, reader, self.new, tallies, aside)
        stream.write(groups, collected, alone=True)
        return collected.entries, tallies[state]


@attrs.frozen
class _Held:
    """Entries of one state in memory, beside other states that have none."""

    state: str
    entries: list[tuple[bytes, bytes]]

    @property
    def families(self) -> frozenset[str]:
        return frozenset({self.state})

    def items(self, family: str, start: bytes | None = None, stop: bytes | None = None) -> Iterator[Items]:
        if family == self.state and self.entries:
            keys, values = zip(*self.entries, strict=True)
            yield keys, values


@attrs.frozen
class _Collected:
    """Takes new blocks."""

    entries: dict[bytes, bytes] = attrs.field(factory=dict)

    def add(self, block: Block) -> None:
        self.entries.update(block.items())


def _read_record(home: Path) -> Record | None:
    """Return what was noted; None if nothing was."""
    try:
        facts = json.loads((home / _PROGRESS).read_bytes())
        return Record(**facts)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError) as error:
        raise CorruptFile(
            "the notes on what was converted are damaged",
            file=str(home / _PROGRESS),
            advice=f"delete {home}: the subtask then begins again",
        ) from error
