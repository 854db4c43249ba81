"""What a run has finished so far, kept beside its files, so that a run that died can be resumed.

    <stream name>.done     JSON: the run it belongs to, its reference time, the code of the user's that was called, the
                           result of the task, and a digest of that

A result counts only for the run that it was written by: the same source, plan and division into tasks; only where the
stream calls the code that it would call today; and only where every byte of it is as it was written. Everything else
is done again. A run that gives stamps or looks at them gives other results at another reference time: what resumes it
goes on with the time that it had.
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
from ..savepoint.handles import DistributionMode, OperatorStateOffsets
from ..savepoint.metadata import METADATA, write_metadata
from ..storage.lineage import FileDigest, Lineage, StateCount, read_lineage
from ..storage.publish import source_facts
from ..storage.runs import GENERATION_DIGITS, final_name
from ..storage.sink import StoredBytes
from .tasks import TaskResult

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import datetime

    from ...compat.plan import MigrationPlan
    from ..savepoint.reader import Savepoint
    from ..storage.files import Folder

SUFFIX = ".done"


Calls = Mapping[str, Mapping[str, str]]
"""What of the user's a stream calls: by state, the fingerprints of functions by name."""


def run_id(savepoint: Savepoint, plan: MigrationPlan, task_names: Iterable[str]) -> str:
    """Name a run by what it does: two runs of one name, at one reference time, give the same files.

    The same by the same code: what streams call is told for each of them, for a function that was mended since then
    changes those that call it, and no others.
    """
    operators = tuple(operator.without_code() for operator in plan.operators)
    facts = {
        "source": hashlib.sha256(write_metadata(savepoint.metadata)).hexdigest(),
        "plan": to_data(attrs.evolve(plan, reference_time=None, operators=operators)),
        "tasks": sorted(task_names),
    }
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


@attrs.frozen
class Redone:
    """A stream that was finished before, and is done again.

    Attributes:
        stream: Its name.
        why: In words.
    """

    stream: str
    why: str


@attrs.frozen
class Journal:
    """The finished tasks of one run in one target.

    Attributes:
        folder: The target.
        run: Of `run_id`.
        reference_time: Of the plan.
        calls: By stream name, what of the user's it calls; streams that call nothing are left out.
    """

    folder: Folder
    run: str
    reference_time: datetime | None = None
    calls: Mapping[str, Calls] = attrs.field(factory=dict, repr=False)

    @property
    def generation(self) -> str:
        """What the names of the new savepoint's files end with: two runs of one give the same files."""
        return hashlib.sha256(f"{self.run} {self._time}".encode()).hexdigest()[:GENERATION_DIGITS]

    def record(self, result: TaskResult) -> None:
        """Keep the result of a task whose file is complete."""
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
        """Give the reference time at which a run like this one was begun in the target; None where none was."""
        times = (facts.get("reference_time") for facts in self._records() if facts.get("run") == self.run)
        return next((parse_time(time) for time in times if isinstance(time, str)), None)

    def _records(self) -> Iterator[dict[str, Any]]:
        for name in self.folder.names() if self.folder.exists() else ():
            if name.endswith(SUFFIX):
                with suppress(CorruptFile):  # cut off when the run died
                    facts = parse_json(self.folder.read(name))
                    if isinstance(facts, dict):
                        yield facts

    def is_begun(self) -> bool:
        """Whether a run has finished anything."""
        return bool(self._entries())

    def _entries(self) -> list[str]:
        return [name for name in self.folder.names() if name.endswith(SUFFIX)] if self.folder.exists() else []

    def take_up(self) -> tuple[dict[str, TaskResult], tuple[Redone, ...]]:
        """Give the results of what a run that died has finished, and tell what of it does not count.

        All bytes are read once. What does not count is struck out of the journal: from then on `finished` tells only of
        what was found to be whole, and of what this run has finished itself.
        """
        entries = self._entries()
        by_name, redone = self.finished(), []
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            are_whole = dict(zip(by_name, pool.map(self._has_all_bytes, by_name.values()), strict=True))
        for entry in entries:
            name = entry.removesuffix(SUFFIX)
            if not are_whole.get(name):
                redone.append(Redone(name, self._why_not(entry)))
                by_name.pop(name, None)
                self.folder.delete(entry)
        return by_name, tuple(redone)

    def _has_all_bytes(self, result: TaskResult) -> bool:
        files = [file for file in result.files if file.digest is not None]
        names = [file.attempt or final_name(file.name, self.generation) for file in files]
        return all(
            FileDigest.of_file(self.folder, name) == file.digest for name, file in zip(names, files, strict=True)
        )

    def _why_not(self, entry: str) -> str:
        """Say why a result that does not count does not."""
        try:
            facts = parse_json(self.folder.read(entry))
            if facts["run"] != self.run or facts["reference_time"] != self._time:
                return "it was finished by another plan"
            if facts["xxh128"] == _digest(facts["result"]):
                changed = changed_code(facts["code"], self.calls.get(entry.removesuffix(SUFFIX), {}))
                if changed:
                    return f"{', '.join(changed)}: {_OTHER_CODE}"
        except (ValueError, KeyError, TypeError, AttributeError):
            pass  # cut off when the run died
        return "what was finished is damaged or not there"

    def finished(self) -> dict[str, TaskResult]:
        """Give the results of finished tasks by stream name; what does not belong to the run is left out.

        Of files only the sizes are looked at: a run that takes up another's work calls `take_up` first.
        """
        if not self.folder.exists():
            return {}
        names = set(self.folder.names())
        found = {}
        for name in (name for name in names if name.endswith(SUFFIX)):
            result = self._read(name)
            if result is None:
                continue
            stored = self._found(result.stored, names)
            quarantine = self._found(result.quarantine, names) if result.quarantine is not None else None
            if stored is not None and (quarantine is None) is (result.quarantine is None):
                found[result.stored.name] = attrs.evolve(result, stored=stored, quarantine=quarantine)
        return found

    def results_of(self, names: Iterable[str]) -> list[TaskResult]:
        """Give the results of those of some streams that are finished by now; what they wrote is not looked at."""
        there = set(self.folder.names())
        found = (self._read(name + SUFFIX) for name in names if name + SUFFIX in there)
        return [result for result in found if result is not None]

    def _found(self, stored: StoredBytes, names: set[str]) -> StoredBytes | None:
        """Give what a task wrote as it lies there: under its attempt's name, or renamed already; None: it does not."""
        if not stored.attempt or self._is_whole(stored, names):
            return stored
        return attrs.evolve(stored, attempt="") if self._was_renamed(stored, names) else None

    def _read(self, name: str) -> TaskResult | None:
        try:
            facts = parse_json(self.folder.read(name))
            if facts["run"] != self.run or facts["reference_time"] != self._time:
                return None
            is_same_code = facts["code"] == self.calls.get(name.removesuffix(SUFFIX), {})
            if not is_same_code or facts["xxh128"] != _digest(facts["result"]):
                return None
            result = _from_data(facts["result"])
        except (ValueError, KeyError, TypeError, AttributeError):
            return None  # cut off when the run died: the task is done again
        return result if result.stored.name + SUFFIX == name else None

    def _is_whole(self, stored: StoredBytes, names: set[str]) -> bool:
        return stored.attempt in names and self.folder.size(stored.attempt) == stored.size

    def _was_renamed(self, stored: StoredBytes, names: set[str]) -> bool:
        """Whether the run died while it was publishing."""
        name = final_name(stored.name, self.generation)
        return (
            stored.digest is not None
            and name in names
            and self.folder.size(name) == stored.size
            and FileDigest.of_file(self.folder, name) == stored.digest
        )

    def published(self, savepoint: Savepoint, plan: MigrationPlan) -> Lineage | None:
        """Give the lineage of the savepoint in the target, if this run has published it and died before it cleared up.

        A journal of the run may also lie beside the savepoint of another run that was resumed there; the plan tells.

        Raises:
            CorruptSavepoint: It has, and what it has published is damaged by now.
        """
        names = self.folder.names() if self.folder.exists() else ()
        if METADATA not in names or not any(self._read(name) for name in names if name.endswith(SUFFIX)):
            return None
        data = self.folder.read(METADATA)
        lineage = read_lineage(self.folder, data)
        if lineage is None or not lineage.is_of(data):
            return None
        source = source_facts(savepoint.place, write_metadata(savepoint.metadata))
        is_same_source = (lineage.source or {}).get("metadata_sha256") == source["metadata_sha256"]
        if not is_same_source or lineage.plan != json.loads(json.dumps(to_data(plan))):
            return None
        self._require_whole(lineage)
        return lineage

    def _require_whole(self, lineage: Lineage) -> None:
        """Refuse a savepoint that this run has published and whose files are not what was written."""
        there = set(self.folder.names())
        for name, digest in lineage.files.items():
            if name not in there or FileDigest.of_file(self.folder, name) != digest:
                raise CorruptSavepoint(
                    "the run had published its savepoint before it died, and a file of that is damaged or not there",
                    advice="migrate again, with --target-exists replace",
                    written="Nothing was written.",
                    savepoint=self.folder.place,
                    file=name,
                )


_OTHER_CODE = "the code, or what it calls, is another by now"


def changed_code(before: Calls, now: Calls) -> list[str]:
    """Name the functions whose code is another, or that only one side calls."""
    names = {name for side in (before, now) for calls in side.values() for name in calls}
    return sorted(
        name
        for name in names
        if any(before.get(state, {}).get(name) != now.get(state, {}).get(name) for state in (*before, *now))
    )


def _digest(facts: dict[str, Any]) -> str:
    """Give the digest of a result: bytes that lie in the journal itself are not those of a file."""
    return xxh3_128(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def _to_data(result: TaskResult) -> dict[str, Any]:
    facts = attrs.asdict(result)
    for file in filter(None, (facts["stored"], facts["quarantine"])):
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
    )


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{shown(value)} is no text")
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
