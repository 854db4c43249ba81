"""The journal of finished tasks, kept beside a run's files, so that a dead run can be resumed.

    <stream name>.done     JSON: the run it belongs to, its reference time, the user code that was called, the result of
                           the task, and a digest of the result

A result counts only for the same run (source, plan and division into tasks), only if the user code that the stream
calls is unchanged, and only if every byte of it is unchanged. Everything else is done again. A run that writes or
compares timestamps depends on its reference time: resuming it keeps the original time.
"""

from __future__ import annotations

import base64
import hashlib
import json
import operator
import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import attrs
from xxhash import xxh3_128

from ...compat.json_files import parse_json
from ...compat.plan_data import to_data
from ...compat.reference_time import parse_time, time_text
from ...serializers.errors import CorruptFile, CorruptSavepoint, shown
from ...serializers.ways_out import Option, WayOut
from ..formats.flink.handles import DistributionMode, OperatorStateOffsets
from ..formats.flink.metadata import METADATA, write_metadata
from ..publication.lineage import FileDigest, Lineage, StateCount, StateFiles, read_lineage
from ..publication.publish import source_facts
from ..publication.runs import GENERATION_DIGITS, final_name, has_claim_or_list
from ..publication.sink import StoredBytes
from .tasks import DatabasePart, TaskResult

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence
    from datetime import datetime

    from ...compat.plan import MigrationPlan
    from ..savepoint.reader import Savepoint
    from ..storage.files import Folder

SUFFIX = ".done"


Calls = Mapping[str, Mapping[str, str]]
"""The user code that a stream calls: by state, the fingerprints of functions by name."""


def run_id(savepoint: Savepoint, plan: MigrationPlan, task_names: Iterable[str]) -> str:
    """Return the id of a run: two runs with the same id, reference time and user code write the same files.

    User code is not part of the id but recorded per stream: a corrected function affects only the streams that call it.
    """
    operators = tuple(operator.without_code() for operator in plan.operators)
    facts = {
        "source": hashlib.sha256(write_metadata(savepoint.metadata)).hexdigest(),
        "plan": to_data(attrs.evolve(plan, reference_time=None, operators=operators)),
        "tasks": sorted(task_names),
    }
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def lineage_of(folder: Folder, savepoint: Savepoint, plan: MigrationPlan) -> Lineage | None:
    """Return the lineage of the savepoint in a folder, if it is of a migration of this one by this plan.

    The plan does not tell the code of functions that it calls.

    Args:
        folder: The folder.
        savepoint: The source.
        plan: The plan.
    """
    data = folder.read(METADATA)
    lineage = read_lineage(folder, data)
    if lineage is None or not lineage.is_of(data):
        return None
    source = source_facts(savepoint.place, write_metadata(savepoint.metadata))
    is_same_source = (lineage.source or {}).get("metadata_sha256") == source["metadata_sha256"]
    return lineage if is_same_source and lineage.plan == json.loads(json.dumps(to_data(plan))) else None


def damaged_file(folder: Folder, lineage: Lineage) -> str:
    """Return a file of a savepoint that is missing, or is not as it was written; "": there is none."""
    there = set(folder.names())
    for name, digest in lineage.files.items():
        if name not in there or not digest.fits(folder, name):
            return name
    return ""


@attrs.frozen
class Redone:
    """A stream that was finished before, and is done again.

    Attributes:
        stream: The name of the stream.
        why: The reason as text.
    """

    stream: str
    why: str


@attrs.frozen
class Journal:
    """The finished tasks of one run in one target.

    Attributes:
        folder: The target.
        run: The id from `run_id`.
        reference_time: The reference time of the plan.
        calls: The user code that streams call, by stream name; streams that call none are left out.
    """

    folder: Folder
    run: str
    reference_time: datetime | None = None
    calls: Mapping[str, Calls] = attrs.field(factory=dict, repr=False)

    @property
    def generation(self) -> str:
        """The suffix of the names of the new savepoint's files; equal generations have equal files."""
        return hashlib.sha256(f"{self.run} {self._time}".encode()).hexdigest()[:GENERATION_DIGITS]

    def record(self, result: TaskResult) -> None:
        """Write the result of a task whose file is complete to the journal."""
        name, facts = result.stored.name, _to_data(result)
        entry = {
            "run": self.run,
            "reference_time": self._time,
            "code": self.calls.get(name, {}),
            "result": facts,
            "xxh128": _digest(facts),
        }
        self.folder.write(name + SUFFIX, json.dumps(entry).encode())

    @property
    def _time(self) -> str | None:
        return time_text(self.reference_time) if self.reference_time else None

    def reference_time_before(self) -> datetime | None:
        """Return the reference time of an earlier run with the same id in the target; None if there is none."""
        times = (facts.get("reference_time") for facts in self._records() if facts.get("run") == self.run)
        return next((parse_time(time) for time in times if isinstance(time, str)), None)

    def _records(self) -> Iterator[dict[str, Any]]:
        for name in self._entries():
            with suppress(CorruptFile):  # cut off when the run died
                facts = parse_json(self.folder.read(name))
                if isinstance(facts, dict):
                    yield facts

    def is_begun(self) -> bool:
        """Whether a run has finished anything."""
        return bool(self._entries())

    def _names(self) -> Sequence[str]:
        return self.folder.names() if self.folder.exists() else ()

    def _entries(self) -> list[str]:
        return list(filter(_is_entry, self._names()))

    def take_up(self) -> tuple[dict[str, TaskResult], tuple[Redone, ...]]:
        """Return the valid results of a dead run by stream name, and the streams that must be done again.

        All bytes are read once. Invalid results are deleted from the journal: from then on `finished` returns only
        results that were verified, and those of this run itself.
        """
        entries = self._entries()
        by_name, redone = self.finished(), []
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            are_whole = dict(zip(by_name, pool.map(self._has_all_bytes, by_name.values()), strict=True))
        for entry in entries:
            name = entry.removesuffix(SUFFIX)
            if not are_whole.get(name):
                found = self._read(entry)
                redone.append(found if isinstance(found, Redone) else Redone(name, _DAMAGED))
                by_name.pop(name, None)
                self.folder.delete(entry)
        return by_name, tuple(redone)

    def _has_all_bytes(self, result: TaskResult) -> bool:
        return all(
            file.digest.fits(self.folder, file.attempt or final_name(file.name, self.generation))
            for file in result.files
            if file.digest is not None
        )

    def finished(self, streams: Collection[str] | None = None) -> dict[str, TaskResult]:
        """Return the results of finished tasks by stream name; those of other runs are left out.

        Only the sizes of files are checked: a run that resumes another one calls `take_up` first.

        Args:
            streams: The names of the streams that are asked for; None: all.
        """
        names, found = set(self._names()), {}
        wanted = filter(_is_entry, names) if streams is None else names & {name + SUFFIX for name in streams}
        for result in self._valid(wanted):
            stored = self._found(result.stored, names)
            quarantine = self._found(result.quarantine, names) if result.quarantine is not None else None
            parts = [(part, self._found(part.stored, names)) for part in result.database]
            database = tuple(attrs.evolve(part, stored=there) for part, there in parts if there is not None)
            is_whole = len(database) == len(parts) and (quarantine is None) is (result.quarantine is None)
            if stored is not None and is_whole:
                found[result.stored.name] = attrs.evolve(
                    result, stored=stored, quarantine=quarantine, database=database
                )
        return found

    def _valid(self, entries: Iterable[str]) -> Iterator[TaskResult]:
        return (result for result in map(self._read, entries) if isinstance(result, TaskResult))

    def _found(self, stored: StoredBytes, names: set[str]) -> StoredBytes | None:
        """Return a task's file under its present name: that of the attempt, or the final one; None if it is missing."""
        if not stored.attempt or self._is_whole(stored, names):
            return stored
        return attrs.evolve(stored, attempt="") if self._was_renamed(stored, names) else None

    def _read(self, entry: str) -> TaskResult | Redone:
        """Return the result in an entry, or why it is not valid."""
        name = entry.removesuffix(SUFFIX)
        with suppress(ValueError, KeyError, TypeError, AttributeError):  # cut off when the run died
            facts = parse_json(self.folder.read(entry))
            if facts["run"] != self.run or facts["reference_time"] != self._time:
                return Redone(name, "it was finished by another plan")
            if facts["xxh128"] == _digest(facts["result"]):
                if changed := changed_code(facts["code"], self.calls.get(name, {})):
                    return Redone(name, f"{', '.join(changed)}: the code, or what it calls, has changed since")
                result = _from_data(facts["result"])
                if result.stored.name == name:
                    return result
        return Redone(name, _DAMAGED)

    def _is_whole(self, stored: StoredBytes, names: set[str]) -> bool:
        return stored.attempt in names and self.folder.size(stored.attempt) == stored.size

    def _was_renamed(self, stored: StoredBytes, names: set[str]) -> bool:
        """Whether the file has its final name already, since the run died while publishing."""
        name = final_name(stored.name, self.generation)
        return (
            stored.digest is not None
            and name in names
            and self.folder.size(name) == stored.size
            and stored.digest.fits(self.folder, name)
        )

    def published(self, savepoint: Savepoint, plan: MigrationPlan) -> Lineage | None:
        """Return the lineage of the savepoint in the target, if this run published it and died before cleaning up.

        The journal of the run may also lie beside the savepoint of another run; the plan in the lineage shows it. Once
        all of the journal is removed, nothing tells which user code was called.

        Raises:
            CorruptSavepoint: The run published its savepoint, which is damaged now.
        """
        names = self._names()
        if METADATA not in names:
            return None
        if not any(self._valid(filter(_is_entry, names))) and (self.calls or not has_claim_or_list(names)):
            return None
        lineage = lineage_of(self.folder, savepoint, plan)
        if lineage is not None:
            self._require_whole(lineage)
        return lineage

    def _require_whole(self, lineage: Lineage) -> None:
        """Check that the files of a savepoint that this run published are unchanged."""
        damaged = damaged_file(self.folder, lineage)
        if damaged:
            raise CorruptSavepoint.before_writing(
                "the run published its savepoint before it died, and a file of that savepoint is damaged or missing",
                advice=WayOut.telling("migrate again, with", Option.TARGET_EXISTS, "replace"),
                savepoint=self.folder.place,
                file=damaged,
            )


_DAMAGED = "its result is damaged or missing"


def _is_entry(name: str) -> bool:
    return name.endswith(SUFFIX)


def changed_code(before: Calls, now: Calls) -> list[str]:
    """Return the names of the functions whose code has changed, or that only one side calls."""
    names = {name for side in (before, now) for calls in side.values() for name in calls}
    return sorted(
        name
        for name in names
        if any(before.get(state, {}).get(name) != now.get(state, {}).get(name) for state in (*before, *now))
    )


def _digest(facts: dict[str, Any]) -> str:
    """Return the digest of a result: bytes stored in the journal itself have no file digest."""
    return xxh3_128(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def _to_data(result: TaskResult) -> dict[str, Any]:
    facts = attrs.asdict(result)
    for file in filter(None, (facts["stored"], facts["quarantine"], *(part["stored"] for part in facts["database"]))):
        file["data"] = None if file["data"] is None else base64.b64encode(file["data"]).decode("ascii")
    return facts


def _from_data(facts: dict[str, Any]) -> TaskResult:
    quarantine = facts["quarantine"]
    return TaskResult(
        _stored(facts["stored"]),
        offsets=_numbers(facts["offsets"]),
        states=tuple(
            OperatorStateOffsets(_text(state["name"]), DistributionMode(state["mode"]), _numbers(state["offsets"]))
            for state in facts["states"]
        ),
        counts=tuple(StateCount(**count) for count in facts["counts"]),
        quarantine=None if quarantine is None else _stored(quarantine),
        sent=tuple(StateCount(**count) for count in facts["sent"]),
        lacks_numba=facts.get("lacks_numba") is True,
        foreign=int(facts.get("foreign", 0)),
        database=tuple(
            DatabasePart(_text(part["name"]), _stored(part["stored"])) for part in facts.get("database", ())
        ),
        kept=tuple(StateFiles(**kept) for kept in facts.get("kept", ())),
    )


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{shown(value)} is not a string")
    return value


def _numbers(values: Any) -> tuple[int, ...]:
    return tuple(map(operator.index, values))


def _stored(facts: dict[str, Any]) -> StoredBytes:
    data, digest = facts["data"], facts["digest"]
    return StoredBytes(
        _text(facts["name"]),
        operator.index(facts["size"]),
        attempt=_text(facts["attempt"]),
        data=None if data is None else base64.b64decode(data, validate=True),
        digest=None if digest is None else FileDigest(**digest),
    )
