"""Verification of a savepoint: its structure, its digests if there are any, and its key groups by rule RUN-3.

Every key and value is read as `export` does it: this proves that they are valid, but not what they mean. Where the
caller trusts digests, entries are only found and counted.
"""

from __future__ import annotations

import enum
from collections import Counter
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

import attrs

from ...compat.description import StateKind
from ...serializers.errors import LibraryNotFound, StateShiftError, StorageFailed, located
from ...serializers.wording import many, repr_of
from ..formats.flink.handles import InlineHandle, RelativeFileHandle
from ..formats.flink.metadata import METADATA
from ..formats.flink.missing_files import require_files
from ..publication.lineage import LINEAGE
from ..runner import InProcess
from ..storage.prefetch import cores
from .entry_checks import Misfits
from .heap_timers import unmarked_timers
from .opaque_state import COORDINATOR, RAW_KEYED
from .proof_tasks import PART_BYTES, DigestTask, Proofs, stream_handles, stream_tasks
from .reader import Savepoint, open_savepoint
from .states import require_own_key_groups
from .stream_proofs import StreamProof

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from ..formats.flink.handles import StreamHandle
    from ..progress import Progress
    from ..runner import Runner
    from .proof_tasks import Answer, ProofTask, StreamTask
    from .reader import SavepointOperator

    Run = Callable[[str, Sequence[ProofTask]], list[Answer]]
    """Runs the tasks of a phase."""

_Entries = Counter[tuple[str, str, str]]
"""The number of entries found, by operator id, `StateKind.scope` and state."""
_PARTS_PER_SLOT = 2
_COMMITTED = "committed"
"""The name of the checks of state directories."""
_VALUES = "values"
_WRITTEN = "entries"
"""The name of the check of operators whose digests are trusted."""


class Outcome(enum.StrEnum):
    """The result of a check."""

    OK = "ok"
    UNPROVEN = "unproven"
    FAILED = "failed"


@attrs.frozen
class Check:
    """One check and its result.

    Attributes:
        name: The check: structure, committed, digests, entries, key groups, values, elements, raw state, counts,
            kept, quarantine.
        status: The result.
        detail: The details in one sentence.
        where: The operator and state, or the file; "" for the whole savepoint.
    """

    name: str
    status: Outcome
    detail: str
    where: str = ""


@attrs.frozen
class VerifyReport:
    """All checks of a savepoint.

    Attributes:
        place: The savepoint.
        checks: The checks, in the order in which they were made.
    """

    place: str
    checks: tuple[Check, ...]

    def __repr__(self) -> str:
        failed = (f"{one.name} {one.where}: {one.detail}" for one in self.checks if one.status is Outcome.FAILED)
        return repr_of(self, self.headline, *failed)

    def _repr_html_(self) -> str:
        from ...compat.pages.rendering import fragment
        from ...compat.pages.verification import verification_pieces

        return fragment(verification_pieces(self.place, self.checks))

    @property
    def headline(self) -> str:
        """The answer in a sentence."""
        counts = Counter(check.status for check in self.checks)
        checks = many(len(self.checks), "check")
        if counts[Outcome.FAILED]:
            return f"not verified: {self.place} ({counts[Outcome.FAILED]} of {checks} failed)"
        unproven = f", {counts[Outcome.UNPROVEN]} unproven" if counts[Outcome.UNPROVEN] else ""
        return f"{'verified by digests' if self.by_digests else 'verified'}: {self.place} ({checks}{unproven})"

    @property
    def ok(self) -> bool:
        """Whether no check failed; an unproven check has not failed."""
        return not _has_failed(self.checks)

    @property
    def by_digests(self) -> bool:
        """Whether keys and values of some operator were not read, because its digests are trusted."""
        return any(check.name == _WRITTEN for check in self.checks)


def verify(
    savepoint: Savepoint | str | os.PathLike[str],
    *,
    trust_digests: bool = False,
    progress: Callable[[Progress], None] = lambda _: None,
    runner: Runner | None = None,
) -> VerifyReport:
    """Return a report of the checks of a savepoint.

    Args:
        savepoint: An open savepoint, or its place.
        trust_digests: Whether to trust digests: if all files of an operator have the right digest, its entries are
            found and counted, but keys and values are not read.
        progress: Called with the progress, by several threads, one at a time.
        runner: Runs the tasks; None: as many threads of this process as there are cores.

    Raises:
        SavepointNotFound, CorruptSavepoint, UntrustedPlace, UnsupportedFormat: `open_savepoint` refuses the given
            place. Damage in an open savepoint is reported as a failed check.
        StorageFailed: The savepoint's store fails, for example rejects the credentials, so that nothing can be said
            about the savepoint.
        LibraryNotFound: Its state is read by an optional library that is not installed.
    """
    if not isinstance(savepoint, Savepoint):
        savepoint = open_savepoint(savepoint)
    folder, by = savepoint.folder, runner or InProcess(cores())

    def run(phase: str, tasks: Sequence[ProofTask]) -> list[Answer]:
        return by.run([Proofs.of(phase, tasks, folder)], progress)

    checks = [Check("structure", Outcome.OK, _summary(savepoint), METADATA), *_of_query(savepoint)]
    entries: _Entries = Counter()
    damaged = set[str]()
    files = savepoint.lineage.files if savepoint.lineage is not None else {}
    answers = run("digests", [DigestTask(*file) for file in files.items()])
    problems = {name: _problem(answer) for name, answer in zip(files, answers, strict=True) if answer}
    checks += _digests(savepoint, problems)
    digested = {name for name, digest in files.items() if digest.xxh128}
    trusted = digested - problems.keys() if trust_digests else set[str]()
    headers = [_guarded("structure", one, partial(_header_checks, one)) for one in savepoint.operators]
    found = list(zip(savepoint.operators, headers, strict=True))
    sound = [operator for operator, of_header in found if not _has_failed(of_header)]
    size = sum(operator.size_bytes for operator in sound)
    proofs = iter(_proofs(_trusting(sound, trusted), run, size // (_PARTS_PER_SLOT * by.slots(size, progress))))
    for operator, of_operator in found:
        raw: list[Check] = []
        if not _has_failed(of_operator):
            of_operator.extend(_operator(next(proofs), entries))
            raw = _guarded("raw state", operator, partial(_raw_checks, operator))
        if _has_failed(one for one in of_operator if one.name != _VALUES):
            damaged.add(operator.operator_id)
        checks += [*of_operator, *raw]
    checks += counts_as_recorded(savepoint, entries, damaged)
    checks += _kept(savepoint, entries, damaged)
    checks += _quarantine(savepoint)
    return VerifyReport(savepoint.place, tuple(checks))


@attrs.frozen
class _OperatorProof:
    """The answers of the tasks that prove an operator's streams.

    Attributes:
        operator: The operator.
        framing_only: Whether keys and values were skipped.
        tasks: The tasks.
        answers: Their answers.
    """

    operator: SavepointOperator
    framing_only: bool
    tasks: tuple[StreamTask, ...]
    answers: tuple[Answer, ...]

    def parts(self, *, keyed: bool) -> list[StreamProof]:
        """Return the proofs of keyed streams, or of the others; raise the error of the first that has none."""
        parts = []
        for task, answer in zip(self.tasks, self.answers, strict=True):
            if task.is_keyed is keyed:
                if isinstance(answer, StateShiftError):
                    raise answer
                assert isinstance(answer, StreamProof)  # noqa: S101 - the answer of a `StreamTask`
                parts.append(answer)
        return parts


def _proofs(operators: Iterable[tuple[SavepointOperator, bool]], run: Run, part_bytes: int) -> Iterator[_OperatorProof]:
    """Run the proofs of operators, each given with whether only its framing is checked."""
    part = max(PART_BYTES, part_bytes)
    planned = [(*one, tuple(stream_tasks(one[0], part, framing_only=one[1]))) for one in operators]
    answers = iter(run("streams", [task for *_, tasks in planned for task in tasks]))
    for operator, framing_only, tasks in planned:
        yield _OperatorProof(operator, framing_only, tasks, tuple(islice(answers, len(tasks))))


def _problem(answer: Answer) -> str:
    """Return the problem of a file, or the reason why it cannot be read; a failure of its store is raised."""
    if isinstance(answer, StorageFailed):
        raise answer
    return in_one_line(answer) if isinstance(answer, StateShiftError) else str(answer)


def in_one_line(error: StateShiftError) -> str:
    """Return the message of an error in one line."""
    return error.what.replace("\n  ", "; ").replace("\n", " ")


def _has_failed(checks: Iterable[Check]) -> bool:
    return any(check.status is Outcome.FAILED for check in checks)


def _trusting(operators: list[SavepointOperator], trusted: Collection[str]) -> Iterator[tuple[SavepointOperator, bool]]:
    """Yield operators, each with whether all its files, including `_metadata`, have trusted digests."""
    for operator in operators:
        files = {METADATA, *(_file_of(handle.stream) for handle in stream_handles(operator))}
        yield operator, files <= set(trusted)


def _file_of(stream: StreamHandle) -> str:
    """Return the name of the savepoint's file that contains a stream; "" for a file elsewhere."""
    if isinstance(stream, InlineHandle):
        return METADATA
    return stream.path if isinstance(stream, RelativeFileHandle) else ""


def _summary(savepoint: Savepoint) -> str:
    metadata = savepoint.metadata
    with_state = sum(operator.stored.has_state for operator in savepoint.operators)
    return (
        f"version {metadata.version}, checkpoint {metadata.checkpoint_id}, "
        f"{many(len(metadata.operators), 'operator')}, {with_state:,} with state"
    )


def _of_query(savepoint: Savepoint) -> Iterator[Check]:
    """Yield what was found of a state directory when it was opened."""
    if savepoint.query is None:
        return
    from ..directory.directory import StateDirectory

    if savepoint.query.unproven:
        yield Check(_COMMITTED, Outcome.UNPROVEN, savepoint.query.unproven)
    else:
        yield Check(_COMMITTED, Outcome.OK, f"the manifests of batch {savepoint.query.batch} are those that Spark has")
    if names := StateDirectory.open(savepoint.folder).without_seals():
        files = many(len(names), "file has no seal", "files have no seals")
        yield Check(_COMMITTED, Outcome.UNPROVEN, f"{files}: an earlier release wrote them, the first is {names[0]}")


def _digests(savepoint: Savepoint, problems: dict[str, str]) -> Iterator[Check]:
    if savepoint.lineage is None or not savepoint.has_digests:
        absent = f"there is no {LINEAGE} with digests; Flink does not write one"
        if any(operator.keyed_format == "database" for operator in savepoint.operators):
            absent += "; the checksums of RocksDB cover the blocks that were read"
        yield Check("digests", Outcome.UNPROVEN, absent)
        return
    for name, problem in problems.items():
        yield Check("digests", Outcome.FAILED, problem, name)
    if not problems:
        linked = sum(not digest.xxh128 for digest in savepoint.lineage.files.values())
        files = many(len(savepoint.lineage.files) - linked, "file is", "files are")
        yield Check("digests", Outcome.OK, f"{files} as recorded in {LINEAGE}")
        if linked:
            files = many(linked, "file was", "files were")
            sizes = f"{files} linked and not read, so {LINEAGE} has only the sizes, which are right"
            yield Check(
                "digests", Outcome.UNPROVEN, f"{sizes}; the checksums of RocksDB cover the blocks that were read"
            )


def _operator(proof: _OperatorProof, entries: _Entries) -> list[Check]:
    if proof.framing_only:
        return _guarded(_WRITTEN, proof.operator, lambda: _written_checks(proof, entries))
    return [
        *_guarded("key groups", proof.operator, lambda: _keyed_checks(proof, entries)),
        *_guarded("elements", proof.operator, lambda: _operator_checks(proof, entries)),
    ]


def _header_checks(operator: SavepointOperator) -> Iterator[Check]:
    """Yield the reasons why an operator's streams cannot be checked; nothing if they can."""
    require_own_key_groups(operator.stored)
    require_files(operator.stored.streams, operator.folder)
    for why in (operator.unreadable_keyed, operator.unreadable_lists):
        if why:
            yield Check("structure", Outcome.UNPROVEN, why, operator.title)


def _guarded(name: str, operator: SavepointOperator, look: Callable[[], Iterator[Check]]) -> list[Check]:
    try:
        with located(savepoint=operator.folder.place, operator=operator.title):
            return list(look())
    except (LibraryNotFound, StorageFailed):
        raise  # they say nothing about the savepoint
    except StateShiftError as error:
        return [Check(name, Outcome.FAILED, in_one_line(error), _place(operator, error))]


def _written_checks(proof: _OperatorProof, entries: _Entries) -> Iterator[Check]:
    if not proof.tasks:
        return
    parts = [*proof.parts(keyed=True), *proof.parts(keyed=False)]
    found = sum(_count(proof.operator, part, entries) for part in parts)
    written = many(found, "entry is as it was", "entries are as they were")
    detail = f"{written} written, according to the digests; no keys and values were read"
    yield Check(_WRITTEN, Outcome.OK, detail, proof.operator.title)


def _keyed_checks(proof: _OperatorProof, entries: _Entries) -> Iterator[Check]:
    operator, title = proof.operator, proof.operator.title
    parts = proof.parts(keyed=True)
    if not parts:
        return
    found = sum(_count(operator, part, entries) for part in parts)
    if foreign := sum(part.foreign for part in parts):
        left_out = many(foreign, "entry is", "entries are")
        detail = f"{left_out} of key groups that subtasks gave away in a rescaling; Flink leaves them out, and so do we"
        yield Check("key groups", Outcome.OK, detail, title)
    if hidden := set[str]().union(*(part.hidden for part in parts)):
        detail = f"the entries of {', '.join(sorted(hidden))} cannot be located in the heap backend's native format"
        yield Check("key groups", Outcome.UNPROVEN, detail, title)
    if all(part.hashed for part in parts):
        lying = many(found, "entry is in the key group of its key", "entries are in the key group of their key")
        yield Check("key groups", Outcome.OK, lying, title)
    else:
        key = operator.key.describe() if operator.key else "?"
        lying = many(found, "entry is in the range of its", "entries are in the range of their")
        detail = f"{lying} subtask; keys of type {key} have no stable hash to prove more"
        yield Check("key groups", Outcome.UNPROVEN, detail, title)
    if unread := set[str]().union(*(part.unread for part in parts)):
        detail = f"the values of {', '.join(sorted(unread))} cannot be read by this release, only their framing"
        yield Check(_VALUES, Outcome.UNPROVEN, detail, title)
    elif found and not any(part.misfits for part in parts):
        yield Check(_VALUES, Outcome.OK, "every value ends where its type requires", title)
    yield from _misfit_checks(operator, parts)


def _operator_checks(proof: _OperatorProof, entries: _Entries) -> Iterator[Check]:
    parts = proof.parts(keyed=False)
    found = sum(_count(proof.operator, part, entries) for part in parts)
    if unread := set[str]().union(*(part.unread for part in parts)):
        detail = f"the elements of {', '.join(sorted(unread))} are not read by this release"
        yield Check("elements", Outcome.UNPROVEN, detail, proof.operator.title)
    elif found and not any(part.misfits for part in parts):
        detail = many(found, "element ends where its type requires", "elements end where their types require")
        yield Check("elements", Outcome.OK, detail, proof.operator.title)
    yield from _misfit_checks(proof.operator, parts)


def _misfit_checks(operator: SavepointOperator, parts: Iterable[StreamProof]) -> Iterator[Check]:
    """Yield a failed check for each state with values that do not match their type."""
    misfits: dict[tuple[str, str], Misfits] = {}
    entries: Counter[tuple[str, str]] = Counter()
    for part in parts:
        for state, found in part.misfits.items():
            if state in misfits:
                misfits[state].add(found)
            else:
                misfits[state] = Misfits(found.count, found.first)
        entries.update(part.entries)
    for (scope, name), found in misfits.items():
        of_all = many(entries[scope, name], "value does not match its type", "values do not match their type")
        detail = f"{found.count:,} of {of_all}; the first: {in_one_line(found.first)}"
        yield Check(_VALUES, Outcome.FAILED, detail, _place(operator, found.first, state=name))


def _place(operator: SavepointOperator, error: StateShiftError, **known: str) -> str:
    """Return the place of an error in words, from the operator on."""
    where = error.where | known
    places = [f"{place} {where[place]}" for place in ("state", "file", "offset", "key") if place in where]
    return ", ".join([operator.title, *places])


def _raw_checks(operator: SavepointOperator) -> Iterator[Check]:
    """Yield what is known of state that only the operator itself can read: timers on the heap have a mark."""
    for carried in operator.carried:
        if carried.kind == COORDINATOR:
            continue
        if carried.kind == RAW_KEYED and (lacking := unmarked_timers(operator.stored, operator.folder)):
            detail = f"{carried.what}: the mark of timers is missing in {lacking}, although others have it"
            yield Check("raw state", Outcome.FAILED, detail, operator.title)
            continue
        size = f"{many(len(carried.streams), 'stream')} with {carried.size_bytes:,} bytes"
        detail = f"{carried.what}: {size}, which only the operator itself can read"
        yield Check("raw state", Outcome.UNPROVEN, detail, operator.title)


def _count(operator: SavepointOperator, part: StreamProof, entries: _Entries) -> int:
    """Add the entries of one stream to the counts by state; return their total."""
    entries.update({(operator.operator_id, *state): found for state, found in part.entries.items()})
    return sum(part.entries.values())


def counts_as_recorded(savepoint: Savepoint, entries: _Entries, damaged: set[str]) -> Iterator[Check]:
    """Check that there are as many entries as recorded; damaged operators, not read to the end, are unproven."""
    if savepoint.lineage is None or not savepoint.lineage.states:
        return
    counted = [count for count in savepoint.lineage.states if count.operator_id not in damaged]
    wrong = 0
    for count in counted:
        found = entries[count.operator_id, StateKind(count.kind).scope, count.state]
        wanted = count.written if count.entries is None else count.entries
        if found != wanted:
            wrong += 1
            detail = f"{many(found, 'entry', 'entries')}, but {LINEAGE} has {wanted:,}"
            where = f"{count.operator or count.operator_id}, state {count.state}"
            yield Check("counts", Outcome.FAILED, detail, where)
    if counted and not wrong:
        states = many(len(counted), "state has", "states have")
        yield Check("counts", Outcome.OK, f"{states} as many entries as recorded")
    if uncounted := len(savepoint.lineage.states) - len(counted):
        states = many(uncounted, "state was", "states were")
        yield Check("counts", Outcome.UNPROVEN, f"{states} not read to the end, because of another error there")


def _kept(savepoint: Savepoint, entries: _Entries, damaged: set[str]) -> Iterator[Check]:
    """Yield the number of entries of each state whose files the migration kept, and so did not count."""
    for one in savepoint.lineage.kept if savepoint.lineage is not None else ():
        where = f"{one.operator or one.operator_id}, state {one.state}"
        files = f"{many(one.files, 'file')} of the source"
        if not one.state:
            yield Check("kept", Outcome.UNPROVEN, f"{files}, of states that cannot be read", where.rpartition(",")[0])
        elif one.operator_id in damaged:
            detail = f"{files}, not read to the end, because of another error there"
            yield Check("kept", Outcome.UNPROVEN, detail, where)
        else:
            found = many(entries[one.operator_id, StateKind.VALUE.scope, one.state], "entry", "entries")
            yield Check("kept", Outcome.OK, f"{files}, which the migration did not read: {found} found here", where)


def _quarantine(savepoint: Savepoint) -> Iterator[Check]:
    """Check that as many values as recorded can be read in quarantine; yield nothing where there are none."""
    expected = savepoint.lineage.quarantined if savepoint.lineage is not None else 0
    try:
        found = sum(1 for _ in savepoint.quarantine())
    except StorageFailed:
        raise
    except StateShiftError as error:
        yield Check("quarantine", Outcome.FAILED, in_one_line(error), str(error.where.get("file", "")))
        return
    if found != expected:
        detail = f"{many(found, 'value')} in quarantine, but {LINEAGE} has {expected:,}"
        yield Check("quarantine", Outcome.FAILED, detail)
    elif found:
        yield Check("quarantine", Outcome.OK, f"{many(found, 'value is', 'values are')} there, as recorded")
