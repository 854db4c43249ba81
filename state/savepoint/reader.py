"""Read access to a savepoint: operators, states, entries. It needs no user classes, and changes nothing.

savepoint = Savepoint.open("/data/savepoint-1")
for entry in savepoint.operator("account-state").state("account").read_entries():
    print(entry.key, entry.value)
"""

from __future__ import annotations

import hashlib
import re
from contextlib import suppress
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, ClassVar

import attrs

from ...compat.description import (
    JobDescription,
    OperatorDescription,
    SerializerDescription,
    StateDescription,
    operator_id_of_uid,
    uid_order,
)
from ...compat.former_job import FormerJob, as_value
from ...compat.lazy_tables import number_of, state_in, with_notes
from ...compat.plain_data import fields_of
from ...serializers.errors import (
    CorruptFile,
    DeclarationError,
    SavepointNotFound,
    SnapshotVersionError,
    StateNotFound,
    StateShiftError,
    UnknownSnapshot,
    UnsupportedFormat,
    located,
)
from ...serializers.wording import many, repr_of
from ..formats.flink.metadata import METADATA, OperatorState, write_metadata
from ..formats.flink.roots import folder_at, moved_from, require_reachable, with_moved
from ..formats.flink.sources import require_digest
from ..publication.lineage import TYPES
from ..publication.stored_savepoint import StoredSavepoint, read_stored_savepoint
from ..publication.stored_serializers import StoredSerializer, place_of, read_stored_serializers
from ..storage.files import Folder
from ..storage.stores import parted
from .heap_timers import missing_timers
from .opaque_state import RAW_KEYED, carried_states
from .quarantine import read_quarantine
from .states import SavepointState, keyed_handles, keyed_states, operator_states

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from datetime import datetime, timedelta

    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.dataset as ds

    from ...compat.profiles import Profile
    from ...serializers.serializer import TypeSerializer
    from ...serializers.snapshot import TypeSerializerConfigSnapshot
    from ..directory.committed_state import QueryFacts
    from ..formats.flink.roots import AllowedRoot
    from ..job import Job
    from ..progress import Progress
    from ..publication.lineage import FileDigest
    from .opaque_state import CarriedState
    from .quarantine import QuarantinedValue
    from .sizes import OperatorSizes

    Snapshot = TypeSerializerConfigSnapshot[Any]

_CHECKPOINT = re.compile(r"chk-\d+")
_MOST_SHOWN = 10
"""How many operators a `repr` names."""
_MOST_JOBS = 100
"""In how many folders checkpoints are looked for if a folder holds no savepoint: on a store each is a request."""


@attrs.frozen
class _Part:
    """The contents of the headers of an operator's keyed streams, or of its other streams, or their error."""

    key: Snapshot | None = None
    states: tuple[SavepointState, ...] = ()
    error: StateShiftError | None = None

    @property
    def why(self) -> str:
        """The reason why the states are not known, or "": it has the class, the state, and the path in its type."""
        if self.error is None:
            return ""
        where = self.error.where
        path = f"at {where['path']} " if where.get("path", "$") != "$" else ""
        state = f"of the state {where['state']!r}" if "state" in where else ""
        return ", ".join(part for part in (self.error.what, (path + state).strip()) if part)


@attrs.frozen(slots=False)
class SavepointOperator:
    """One operator of a savepoint. The headers of its streams are read when they are first needed.

    Attributes:
        stored: The operator's entry in `_metadata`.
        folder: The folder of the savepoint.
        naming: What names the columns of rows, by the name of the state, "" for the key; None: they have no names.
        former: The job that wrote the state, and says what PyFlink's bytes hold; None: it is not known.
    """

    stored: OperatorState = attrs.field(repr=False)
    folder: Folder
    naming: Callable[[str, Snapshot], Snapshot] | None = attrs.field(default=None, repr=False)
    former: FormerJob | None = attrs.field(default=None, repr=False)

    is_of_spark: ClassVar[bool] = False

    @property
    def operator_id(self) -> str:
        """The operator id in 32 hexadecimal digits."""
        return self.stored.operator_id.hex()

    @property
    def uid(self) -> str:
        """The uid as set in the job; "" where `_metadata` does not have it (before Flink 2)."""
        return self.stored.uid

    @property
    def name(self) -> str:
        """The display name; "" where `_metadata` does not have it."""
        return self.stored.name

    @property
    def title(self) -> str:
        """The operator's name in messages: its uid, else its id."""
        return self.uid or self.operator_id

    @property
    def heading(self) -> str:
        """The operator as the heading of what is said of it."""
        words = f"operator {self.uid} ({self.operator_id})" if self.uid else f"operator {self.operator_id}"
        return f"{words}, {self.name}" if self.name and self.name != self.uid else words

    @property
    def has_state(self) -> bool:
        """Whether it has any."""
        return self.stored.has_state

    def __repr__(self) -> str:
        told = f"{self.title} of {self.folder.place}: parallelism {self.parallelism}"
        return repr_of(self, f"{told}, max parallelism {self.max_parallelism}, {self.size_bytes:,} bytes")

    def own_facts(self, *, is_damaged: bool, foreign: int | None) -> dict[str, Any]:
        """Return what only operators of Flink have, as plain data.

        Args:
            is_damaged: Whether its streams cannot be read.
            foreign: The number of entries of other subtasks' key groups, if they were counted.
        """
        return {
            "finished": self.stored.finished,
            "custom_raw_keyed_state": None if is_damaged else self.has_custom_raw_keyed_state,
            "format": self.keyed_format or None,
            "foreign_entries": foreign,
        }

    @property
    def parallelism(self) -> int:
        """The number of subtasks."""
        return self.stored.parallelism

    @property
    def max_parallelism(self) -> int:
        """The number of key groups."""
        return self.stored.max_parallelism

    @property
    def size_bytes(self) -> int:
        """The bytes of all streams and files of the operator."""
        handles = (
            handle
            for subtask in self.stored.subtasks
            for handle in (subtask.managed_keyed, subtask.raw_keyed, subtask.managed_operator, subtask.raw_operator)
        )
        return sum(part.size for part in (*handles, self.stored.coordinator) if part is not None)

    @cached_property
    def _keyed(self) -> _Part:
        """The contents of the headers of the keyed streams."""
        return self._part(lambda: keyed_states(self.stored, self.folder))

    @cached_property
    def _lists(self) -> _Part:
        """The contents of the headers of the streams of list and broadcast state."""
        return self._part(lambda: (None, operator_states(self.stored, self.folder)))

    def _part(self, read: Callable[[], tuple[Snapshot | None, list[SavepointState]]]) -> _Part:
        try:
            with located(savepoint=self.folder.place, operator=self.title):
                key, states = read()
                return _Part(key, tuple(states))
        except (UnknownSnapshot, SnapshotVersionError, UnsupportedFormat) as error:
            return _Part(error=error)

    @property
    def key(self) -> Snapshot | None:
        """The snapshot of the key serializer; None where there is no keyed state, or its headers cannot be read."""
        key = self._keyed.key
        return key if key is None or self.naming is None else self.naming("", key)

    @property
    def states(self) -> tuple[SavepointState, ...]:
        """All states whose headers can be read: keyed states, timers, operator lists, broadcast states."""
        keyed = self._keyed.states
        states = (keyed if self.naming is None else tuple(map(self._named, keyed))) + self._lists.states
        return states if self.former is None else tuple(map(self._read, states))

    def _read(self, state: SavepointState) -> SavepointState:
        description = as_value(self._told(state.description))
        return attrs.evolve(state, kind=description.kind, description=description)

    def _told(self, stored: StateDescription) -> StateDescription:
        with located(savepoint=self.folder.place, operator=self.title):
            return stored if self.former is None else self.former.state(self.operator_id, stored)

    def _named(self, state: SavepointState) -> SavepointState:
        assert self.naming is not None  # noqa: S101 - else it is not called
        value = state.description.value
        with located(savepoint=self.folder.place, operator=self.title):
            named = attrs.evolve(value, snapshot=self.naming(state.name, value.snapshot))
        return attrs.evolve(state, description=attrs.evolve(state.description, value=named))

    @property
    def unreadable_keyed(self) -> str:
        """Why keyed states and timers are not known, or "": an unknown snapshot class makes a header unreadable."""
        return self._keyed.why

    @property
    def unreadable_lists(self) -> str:
        """Why list and broadcast states are not known, or ""."""
        return self._lists.why

    @property
    def unreadable(self) -> str:
        """Why some states are not known, or "". Unreadable keyed state does not hide operator state, nor vice versa."""
        return self.unreadable_keyed or self.unreadable_lists

    def state(self, name: str) -> SavepointState:
        """Return a state by name; where it is migrated lazily, all its tables as one.

        Raises:
            StateNotFound: There is no such state; the message has the names that exist.
            UnknownSnapshot, SnapshotVersionError, UnsupportedFormat: Not all headers can be read, and the state is not
                in those that can.
        """
        found = [one for one in self.states if name in {one.name, state_in(one.name) if one.kind.is_keyed else ""}]
        tables = sorted((one for one in found if one.kind.is_keyed), key=lambda one: number_of(one.name))
        if tables and [one.name for one in tables] != [name]:
            return SavepointState.over(name, tables)
        if found:
            return found[0]
        for part in (self._keyed, self._lists):
            if part.error is not None:
                raise part.error
        names = ", ".join(sorted({state_in(state.name) for state in self.states})) or "none"
        raise StateNotFound(
            f"the operator has no state {name!r}; it has: {names}", savepoint=self.folder.place, operator=self.title
        )

    def measure(
        self,
        *,
        states: Collection[str] | None = None,
        keys: int = 0,
        progress: Callable[[int], None] | None = None,
    ) -> OperatorSizes:
        """Count entries and bytes by state and by key group, in one pass without decoding.

        Damaged states have an error instead of a measure.

        Args:
            states: The names of the states to measure; None: all.
            keys: How many of the largest keys to find in each keyed state. Keys may be personal data.
            progress: Called at intervals with the number of bytes of entries read so far.

        Raises:
            CorruptSavepoint: The header of a stream is damaged, so that its states are not known.
            SavepointNotFound: A file is missing.
        """
        from .sizes import measure_operator  # not needed for a compatibility check

        return measure_operator(self, states=states, keys=keys, progress=progress)

    @property
    def keyed_format(self) -> str:
        """The format of keyed state: `canonical`, `heap` (the heap backend's own) or `database` (files of RocksDB).

        It is "" where there is no keyed state.
        """
        formats = {handle.keyed_format for handle in keyed_handles(self.stored)}
        return next((one for one in ("database", "heap", "canonical") if one in formats), "")

    @property
    def is_native(self) -> bool:
        """Whether keyed state is stored in the native format of a state backend."""
        return any(not handle.is_canonical for handle in keyed_handles(self.stored))

    @property
    def _is_reframed(self) -> bool:
        """Whether a migration can convert native keyed state to the canonical format."""
        return self.is_native and not self.unreadable_keyed and not any(state.is_hidden for state in self.states)

    @property
    def _bound(self) -> str:
        """Why keys cannot be moved to other key groups or subtasks, or ""."""
        if any(subtask.raw_keyed for subtask in self.stored.subtasks):
            return "the operator has raw keyed state, which only its own code can read"
        if any(subtask.finished for subtask in self.stored.subtasks):
            return "some subtasks of the operator have finished, so its state cannot be redistributed"
        return ""

    @property
    def carried(self) -> tuple[CarriedState, ...]:
        """The state that is carried over as bytes, since only the operator itself can read it."""
        return tuple(carried_states(self.stored, self.folder))

    @property
    def keeps(self) -> tuple[str, ...]:
        """The kinds of state that are neither checked nor changed, in words."""
        return tuple(one.what for one in self.carried)

    @property
    def has_custom_raw_keyed_state(self) -> bool:
        """Whether it has raw keyed state that is not timers: Flink restores that for operators alone that declare it.

        Other operators take it for timers, and fail. Source: `AbstractStreamOperator.isUsingCustomRawKeyedState`.
        """
        return any(one.kind == RAW_KEYED and not one.is_timers for one in self.carried)

    @property
    def description(self) -> OperatorDescription:
        """The description for a compatibility check."""
        return self.describe()

    def describe(
        self,
        stored: Callable[[SavepointState], Callable[[], TypeSerializer[Any]] | None] = lambda _: None,
    ) -> OperatorDescription:
        """Return a description of the operator for the compatibility check.

        Args:
            stored: Returns the loader of a state's stored serializer, where the caller trusts it (rule READ-2).
        """
        states = tuple(
            self._told(
                attrs.evolve(state.description, value=attrs.evolve(state.description.value, stored=stored(state)))
            )
            for state in attrs.evolve(self, former=None).states
        )
        return OperatorDescription(
            operator_id=self.operator_id,
            uid=self.uid,
            name=self.name,
            key=None if self.key is None else SerializerDescription(self.key),
            states=states,
            parallelism=self.parallelism,
            max_parallelism=self.max_parallelism,
            unreadable=self.unreadable,
            keeps=self.keeps,
            is_reframed=self._is_reframed,
            bound=self._bound,
            has_custom_raw_keyed_state=self.has_custom_raw_keyed_state,
        )


def _with_done(operator: OperatorDescription, done: dict[tuple[str, str], frozenset[str]]) -> OperatorDescription:
    """Return the description with the conversions of key and states that the lineage records (rule STATE-8)."""
    known = {name: what for (operator_id, name), what in done.items() if operator_id == operator.operator_id and what}
    if not known:
        return operator
    key = operator.key if operator.key is None else attrs.evolve(operator.key, done=known.get("", frozenset()))
    states = (
        attrs.evolve(state, value=attrs.evolve(state.value, done=known.get(state.name, frozenset())))
        for state in operator.states
    )
    return attrs.evolve(operator, key=key, states=tuple(states))


@attrs.frozen(slots=False)
class Savepoint(StoredSavepoint):
    """A savepoint, which is only read. Created with `open`.

    Attributes:
        query: The query whose state this is, read from its state directory; None for a savepoint or checkpoint.
        namings: What names the columns of rows, by operator id; see `SavepointOperator`.
        former: The job that wrote it: recorded beside it, or named; see `told_by`.
    """

    query: QueryFacts | None = attrs.field(default=None, repr=False)
    namings: Mapping[str, Callable[[str, Snapshot], Snapshot]] = attrs.field(factory=dict, repr=False)
    former: FormerJob | None = attrs.field(default=None, repr=False)

    is_of_spark: ClassVar[bool] = False

    def __repr__(self) -> str:
        operators = self.metadata.operators
        names = [f"operator {one.uid or one.operator_id.hex()}" for one in operators if one.has_state]
        told = f"{self.place}: {many(len(operators), 'operator')}, {len(names):,} with state, by {self.written_by}"
        return repr_of(self, told, *names[:_MOST_SHOWN], "…" if len(names) > _MOST_SHOWN else "")

    def _repr_html_(self) -> str:
        from ...compat.pages.description import description_pieces
        from ...compat.pages.rendering import fragment

        facts = [("written by", self.written_by), ("bytes", f"{sum(one.size_bytes for one in self.operators):,}")]
        if self.lineage is not None and self.lineage.source is not None:
            facts.append(("made of", str(self.lineage.source.get("place"))))
        what = "savepoint" if self.query is None else "query"
        return fragment(description_pieces(self.describe(), what, self.place, facts))

    @classmethod
    def of(cls, stored: StoredSavepoint, query: QueryFacts | None = None) -> Savepoint:
        """Return a savepoint whose `_metadata` and lineage have been read; `query`: as the attribute."""
        return cls(stored.folder, stored.metadata, stored.lineage, stored.metadata_digest, query)

    @classmethod
    def open(cls, place: str | os.PathLike[str], *, allow_roots: Iterable[AllowedRoot] = ()) -> Savepoint:
        """Open a savepoint or checkpoint: read `_metadata` and the lineage; state is read later.

        The state directory of a streaming query is opened as the state after its last committed batch.

        Args:
            place: A local path, or a URI of any store (s3:, gs:, hdfs:); the folder, or `_metadata` in it.
            allow_roots: Further folders, local or on stores, that may contain files of the savepoint. Files that it
                names by absolute URIs are read only from these, from its own folder, and for a checkpoint from `shared`
                and `taskowned` beside it, also of other jobs. A pair (old, new) says that files which it names in the
                old folder lie in the new one.

        Raises:
            SavepointNotFound: There is no `_metadata`.
            CorruptSavepoint: `_metadata` is damaged.
            CorruptFile: The types recorded beside it are damaged, or those of another savepoint.
            UntrustedPlace: Files of the savepoint are elsewhere; the message has all roots that are needed.
            UnsupportedFormat: It is of a kind that this release does not read.
        """
        folder = folder_at(str(place).removesuffix("/" + METADATA), allow_roots)
        with located(savepoint=folder.place):
            if not folder.exists(METADATA):
                return cls._of_query(folder)
            savepoint = cls.of(read_stored_savepoint(folder))
            if not folder.exists(TYPES):
                return savepoint
            from ..publication.recorded_types import read_recorded_types

            recorded = read_recorded_types(folder, savepoint.metadata_sha256)
            return attrs.evolve(savepoint, former=FormerJob.of(recorded))

    @classmethod
    def _of_query(cls, folder: Folder) -> Savepoint:
        """Open the state of a query; raise the error for a folder that has neither that nor a savepoint."""
        from ..directory.committed_state import read_state
        from ..directory.directory import STREAM_FILE  # most savepoints are of Flink: they need none of it

        if not folder.exists(STREAM_FILE):
            raise _not_found(folder)
        stored, query = read_state(folder)
        folder = with_moved(stored.metadata, stored.folder)
        require_reachable(stored.metadata, folder)
        return cls.of(attrs.evolve(stored, folder=folder), query)

    def told_by(self, former: Job | JobDescription) -> Savepoint:
        """Return the same savepoint with what the job that wrote it says of its types: what PyFlink's bytes hold.

        Its entries are then read as values, and a check compares types with types.

        Args:
            former: The job that wrote it, as it was then. It need not declare every state.

        Raises:
            DeclarationError: It is another job.
        """
        description = former if isinstance(former, JobDescription) else former.describe()
        known = FormerJob.of(description)
        known.described(self.describe())
        return attrs.evolve(self, former=known)

    @property
    def metadata_sha256(self) -> str:
        """The SHA-256 of `_metadata` in hexadecimal, which identifies the state."""
        data = write_metadata(self.metadata) if self.query is not None else self.folder.read(METADATA)
        return hashlib.sha256(data).hexdigest()

    @property
    def position(self) -> Any:
        """The position of the state in its sources, if it is known; else None."""
        if self.query is not None:
            return self.query.position
        return None if self.lineage is None else self.lineage.position

    @property
    def has_digests(self) -> bool:
        """Whether each file has a digest, so that damage cannot be mistaken for another value."""
        return self.lineage is not None and bool(self.lineage.files)

    def digest_of(self, name: str) -> FileDigest | None:
        """Return the expected digest of a file; None where there are no digests.

        Raises:
            CorruptSavepoint: There are digests, but none of this file.
        """
        return self.lineage.digest_of(name) if self.lineage is not None else None

    def without_digests(self) -> Savepoint:
        """Return the same savepoint without the digests of its files."""
        return self if self.lineage is None else attrs.evolve(self, lineage=attrs.evolve(self.lineage, files={}))

    def require_intact_metadata(self) -> None:
        """Refuse a `_metadata` whose digest differs from the lineage's, before its content is carried over.

        Raises:
            CorruptSavepoint: The digest differs.
        """
        expected = self.digest_of(METADATA)
        if expected is not None and self.metadata_digest is not None:
            require_digest(METADATA, self.metadata_digest.xxh128, expected.xxh128)

    @property
    def moved_from(self) -> tuple[str, ...]:
        """The folders in which a moved checkpoint names its files; Flink looks for them only there."""
        return moved_from(self.metadata, self.folder)

    @property
    def place(self) -> str:
        """The folder of the savepoint, as a path or URI."""
        return self.folder.place

    @property
    def where(self) -> dict[str, Any]:
        """Where an error is."""
        return {"savepoint": self.place}

    @property
    def is_of_flink(self) -> bool:
        """Whether Flink wrote the state, so that every key lies where Flink's hash has it."""
        return self.lineage is None and self.query is None

    @property
    def written_by(self) -> str:
        """The name of the program that wrote the state, with its release if that is known."""
        if self.lineage is not None:
            return f"stateshift {self.lineage.stateshift}"
        return "Flink" if self.query is None else "stateshift"

    def own_facts(self) -> dict[str, Any]:
        """Return what only savepoints and state directories have, as plain data."""
        lineage = self.lineage
        return {
            **fields_of(self.metadata, "version checkpoint_id"),
            "master_states": len(self.metadata.master_states),
            "source": None if lineage is None else lineage.source,
            "query": None if self.query is None else fields_of(self.query, "checkpoint batch epoch unproven?"),
            "position": self.position,
            "quarantined": 0 if lineage is None else lineage.quarantined,
            "missing_timers": self.missing_timers or None,
            **({} if lineage is None or lineage.proof is None else {"proof": lineage.proof}),
        }

    def named_by(self, plan: str) -> Savepoint:
        """Return this savepoint of Flink SQL with the names that columns of keys and rows have in a compiled plan.

        Keys and states are described by these names, and so is what is shown of them; entries that are read in Python
        have rows by position, as before.

        Args:
            plan: The path or URI of the plan with which it was written.

        Raises:
            DeclarationError: The plan is not that of the savepoint.
            CorruptFile: The file is no compiled plan.
            StorageFailed: The file cannot be read.
        """
        from ..plans.column_names import namings_of  # other savepoints need none of it
        from ..plans.operators import read_query

        named = attrs.evolve(self, namings=namings_of(read_query(plan)))
        tried = [operator.states for operator in named.operators if operator.naming is not None]
        if not tried:
            raise DeclarationError(
                f"the savepoint {self.place} has none of the operators of the plan {plan}",
                advice="name the plan with which it was written; a query of INSERT INTO has other ids than its plan",
            )
        return named

    @cached_property
    def operators(self) -> tuple[SavepointOperator, ...]:
        """All operators, sorted by uid and id, including those without state."""
        operators = (
            SavepointOperator(stored, self.folder, self.namings.get(stored.operator_id.hex()), self.former)
            for stored in self.metadata.operators
        )
        return tuple(sorted(operators, key=lambda operator: uid_order(operator.uid, operator.operator_id)))

    def operator(self, uid_or_id: str) -> SavepointOperator:
        """Return an operator by its uid, or by its id (32 hexadecimal digits).

        Raises:
            StateNotFound: There is no such operator; the message has the operators that exist.
        """
        ids = {uid_or_id, operator_id_of_uid(uid_or_id).hex()}
        for operator in self.operators:
            if operator.uid == uid_or_id or operator.operator_id in ids:
                return operator
        titles = ", ".join(operator.title for operator in self.operators) or "none"
        raise StateNotFound(f"no operator has the uid or id {uid_or_id!r}; there are: {titles}", savepoint=self.place)

    def measure(self, *, keys: int = 0) -> tuple[OperatorSizes, ...]:
        """Return the sizes of all operators with state; raises as `SavepointOperator.measure`."""
        return tuple(operator.measure(keys=keys) for operator in self.operators if operator.stored.has_state)

    def profile(
        self,
        *,
        operator: str | None = None,
        state: str | None = None,
        reference_time: datetime | None = None,
        time_to_live: Mapping[str, timedelta] | timedelta | None = None,
        progress: Callable[[Progress], None] = lambda _: None,
    ) -> Profile:
        """Return what the entries are: how many, how large, how old, of which keys and values; found in one pass.

        Args:
            operator: The uid or id of an operator; None: all.
            state: The name of a state; None: all.
            reference_time: The time to which ages of values with TTL are counted; None: now.
            time_to_live: How long values with TTL live, which Flink does not store: of each state by name, or by
                `operator/state`; or of all.
            progress: Called with the progress.

        Raises:
            StateNotFound: There is no such operator or state.
            DeclarationError: The reference time has no time zone, or a time to live is of no state.
            CorruptSavepoint: The bytes are damaged; the error has file, state and key.
        """
        from ..profiles.savepoint_profile import profile  # Arrow and numpy are not needed for most work

        return profile(
            self,
            operator=operator,
            state=state,
            reference_time=reference_time,
            time_to_live=time_to_live,
            progress=progress,
        )

    def dataset(self, state: str | None = None, operator: str | None = None, *, exact: bool = False) -> ds.Dataset:
        """Return a state as a dataset of Arrow, for DuckDB, Polars and others that read those.

        Its columns are those of the Spark data source `savepoint`. Columns that are not asked for are not decoded. A
        filter on some values of `key` or `key_group` (=, in) reads only the key groups that can have them.

        Args:
            state: The name of the state; None: the rows are the states of the savepoint, with their sizes.
            operator: The uid or id of its operator; not needed if one operator alone has such a state.
            exact: Whether big numbers and times become text, and rows have their kind, exactly as they are stored.

        Raises:
            StateNotFound: There is no such state, or several operators have one.
            OldReaderUnavailable: No serializer reads its keys or values.
            DeclarationError: It is migrated lazily, so that its values have several types.
        """
        from ..columnar.dataset import dataset_of  # Arrow and numpy are not needed for most work

        return dataset_of(self, state, operator, exact=exact)

    def to_arrow(
        self,
        state: str | None = None,
        operator: str | None = None,
        *,
        columns: Sequence[str] | None = None,
        filter: pc.Expression | None = None,  # noqa: A002 - as pyarrow calls it
    ) -> pa.Table:
        """Return a state as a table of Arrow.

        Args:
            state: As in `dataset`.
            operator: As in `dataset`.
            columns: The names of the columns; None: all.
            filter: An expression of `pyarrow.compute` that is true for the rows to return; None: all.

        Raises:
            ValueNotConvertible: A column cannot represent a value, such as nanoseconds; `dataset(…, exact=True)` can.
            CorruptSavepoint: The bytes are damaged; the error has file, offset, key and path.
            StateNotFound, OldReaderUnavailable, DeclarationError: As `dataset`.
        """
        return self.dataset(state, operator).to_table(columns=columns, filter=filter)

    def to_pandas(
        self,
        state: str | None = None,
        operator: str | None = None,
        *,
        columns: Sequence[str] | None = None,
        filter: pc.Expression | None = None,  # noqa: A002 - as pyarrow calls it
    ) -> Any:
        """Return a state as a DataFrame of pandas, which must be installed; arguments and errors as `to_arrow`."""
        return self.to_arrow(state, operator, columns=columns, filter=filter).to_pandas()

    @property
    def missing_timers(self) -> str:
        """A warning if Flink may have left timers out of this native savepoint, or ""."""
        return missing_timers(self)

    def quarantine(self) -> Iterator[QuarantinedValue]:
        """Yield the values that a migration could not convert when it wrote the savepoint, as they were stored (RUN-4).

        Raises:
            SavepointNotFound, CorruptSavepoint: A quarantine file is missing or damaged.
        """
        return read_quarantine(self.folder, self.lineage)

    def describe(self, *, trust_stored_serializers: bool = False, trust: Iterable[str] = ()) -> JobDescription:
        """Return a description of all operators with state for the compatibility check.

        Args:
            trust_stored_serializers: Whether serializers stored beside the savepoint may be unpickled where no reader
                can be restored from a snapshot (rule READ-2).
            trust: The qualified names of pickled classes whose values a migration may open: `shop.Account`;
                `by-value:shop.Account` also runs code within such values. The check itself opens no pickles.
        """
        found = read_stored_serializers(self.folder, self.lineage)

        def stored(operator_id: str, state: SavepointState) -> StoredSerializer | None:
            place = place_of(operator_id, state.kind.scope, state.name)
            return StoredSerializer(place, found[place], trust_stored_serializers) if place in found else None

        done = self.lineage.done() if self.lineage is not None else {}
        operators = tuple(
            _with_done(operator.describe(partial(stored, operator.operator_id)), done)
            for operator in self.operators
            if operator.stored.has_state
        )
        described = JobDescription(f"savepoint {self.place}", operators, stored_by=self.metadata.stored_by)
        if self.query is not None and self.query.types:
            from ...compat.gate.recording import from_json

            described = with_notes(described, from_json(self.query.types))
        return described.trusting(trust)


def _not_found(folder: Folder) -> SavepointNotFound:
    """Return the error for a folder without `_metadata`, with what to take instead where that can be seen."""
    base, options = parted(folder.place)
    above, _, name = base.rpartition("/")
    is_there = folder.exists()
    advice, why = "", f"the file {METADATA} is missing"
    if _CHECKPOINT.fullmatch(name):
        why = why if is_there else "the folder does not exist"
        last = _last_checkpoint(Folder(above + options), depth=1)
        advice = f"the last checkpoint beside it is {last}: name that folder" if last else ""
        if is_there:
            instead = advice or "take an earlier one of the job"
            advice = f"this checkpoint was never completed, or was not downloaded whole; {instead}"
    elif is_there and looks_like_spark(folder):
        advice = _advice_on_spark(folder)
    elif is_there:
        last = _last_checkpoint(folder, depth=2)
        advice = f"it holds checkpoints; the last one is {last}: name that folder" if last else ""
    what = f"there is no savepoint in {folder.place}: {why}"
    return SavepointNotFound(what, advice=advice) if advice else SavepointNotFound(what)


def looks_like_spark(folder: Folder) -> bool:
    """Whether a folder has what the checkpoint of a Spark query has."""
    return folder.exists("offsets") and folder.exists("commits")


def _advice_on_spark(folder: Folder) -> str:
    """Return what to name instead of the checkpoint of a Spark query."""
    from ..formats.spark.commit_log import read_note

    with suppress(CorruptFile):
        if (note := read_note(folder)) is not None:
            return f"it is the checkpoint of a query whose state is in {note.state_dir}: name that folder"
    return f"it is the checkpoint of a Spark query: `stateshift inspect`, `get` and `export` take spark:{folder.place}"


def _last_checkpoint(folder: Folder, *, depth: int) -> str:
    """Return the path of the completed checkpoint with the highest number in a folder, or "".

    Args:
        folder: The folder.
        depth: 1 to look for checkpoints directly inside, 2 to look in the folders of jobs inside, too.
    """
    if not folder.exists():
        return ""
    names = folder.names()
    found = [one for one in names if _CHECKPOINT.fullmatch(one) and folder.exists(f"{one}/{METADATA}")]
    for job in names[:_MOST_JOBS] if depth > 1 and not found else ():
        with suppress(StateShiftError):  # it is a file, or not readable: then nothing is known of it
            if last := _last_checkpoint(folder.folder(job), depth=depth - 1):
                found.append(f"{job}/{last}")
    return max(found, key=lambda one: int(one.rpartition("-")[2]), default="")


def open_savepoint(place: str | os.PathLike[str], *, allow_roots: Iterable[AllowedRoot] = ()) -> Savepoint:
    """Return the savepoint in `place` for reading: `Savepoint.open` as a function.

    Args:
        place: A local path, or a URI of any store (s3:, gs:, hdfs:); its folder, or `_metadata` in it.
        allow_roots: Further folders that may contain files of the savepoint; a pair (old, new) says that files which it
            names in the old folder lie in the new one.

    Raises:
        SavepointNotFound: There is no `_metadata`.
        CorruptSavepoint: `_metadata` is damaged.
        UntrustedPlace: Files of the savepoint are elsewhere; the message has all roots that are needed.
        UnsupportedFormat: It is of a kind that this release does not read.
    """
    return Savepoint.open(place, allow_roots=allow_roots)
