"""Is a savepoint sound? Structure, digests where there are any, and key groups as rule RUN-3 says.

Every key and value is read as `export` does: that they are such is proven, and their meaning is not.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

import attrs

from ...compat.description import StateKind
from ...serializers.errors import StateShiftError, located
from ...serializers.views import DataInputView
from ...serializers.wording import many
from .keyed_readers import open_keyed
from .lineage import LINEAGE, FileDigest
from .metadata import METADATA
from .operator_stream import read_operator_stream, require_written_order
from .sources import open_stream
from .states import require_own_key_groups
from .stream_proofs import prove_elements, prove_stream

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .files import Folder
    from .reader import Savepoint, SavepointOperator

_Entries = dict[tuple[str, str, str], int]
"""Entries found, by operator id, room and state."""


class Outcome(enum.StrEnum):
    """What a check came to."""

    OK = "ok"
    UNPROVEN = "unproven"
    FAILED = "failed"


@attrs.frozen
class Check:
    """One thing that was looked at.

    Attributes:
        name: What: structure, digests, key groups, values, counts.
        status: What it came to.
        detail: One sentence.
        where: Operator and state, or file; "" for the whole.
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
        checks: In the order in which they were made.
    """

    place: str
    checks: tuple[Check, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing failed; what is unproven is no failure."""
        return all(check.status is not Outcome.FAILED for check in self.checks)


def verify(savepoint: Savepoint, *, progress: Callable[[str], None] | None = None) -> VerifyReport:
    """Look at everything that can be proven of a savepoint.

    Args:
        savepoint: Which.
        progress: Is called with the operator that is looked at next.
    """
    checks = [Check("structure", Outcome.OK, _summary(savepoint), METADATA)]
    checks += _digests(savepoint)
    entries: _Entries = {}
    damaged = set[str]()
    for operator in savepoint.operators:
        if progress is not None:
            progress(operator.title)
        found = _operator(savepoint, operator, entries)
        if any(check.status is Outcome.FAILED for check in found):
            damaged.add(operator.operator_id)
        checks += found
    checks += _counts(savepoint, entries, damaged)
    checks += _quarantine(savepoint)
    return VerifyReport(savepoint.place, tuple(checks))


def _summary(savepoint: Savepoint) -> str:
    metadata = savepoint.metadata
    with_state = sum(operator.stored.has_state for operator in savepoint.operators)
    return (
        f"version {metadata.version}, checkpoint {metadata.checkpoint_id}, "
        f"{many(len(metadata.operators), 'operator')}, {with_state:,} with state"
    )


def _digests(savepoint: Savepoint) -> Iterator[Check]:
    if savepoint.lineage is None:
        yield Check("digests", Outcome.UNPROVEN, f"there is no {LINEAGE} with digests, as Flink writes none")
        return
    wrong = 0
    for name, expected in savepoint.lineage.files.items():
        problem = _digest_problem(savepoint.folder, name, expected)
        if problem:
            wrong += 1
            yield Check("digests", Outcome.FAILED, problem, name)
    if not wrong:
        count = len(savepoint.lineage.files)
        files = many(count, "file is", "files are")
        yield Check("digests", Outcome.OK, f"{files} what {LINEAGE} says")


def _digest_problem(folder: Folder, name: str, expected: FileDigest) -> str:
    try:
        size = folder.size(name)
        if size != expected.size:
            return f"the file has {size:,} bytes and should have {expected.size:,}"
        found = FileDigest.of_file(folder, name)
    except StateShiftError as error:
        return _told(error)
    return "" if found == expected else "the digest of the file is another one"


def _operator(savepoint: Savepoint, operator: SavepointOperator, entries: _Entries) -> list[Check]:
    checks: list[Check] = []
    with located(savepoint=savepoint.place, operator=operator.title):
        headers = _guarded("structure", operator, lambda: _header_checks(operator))
        checks += headers
        if any(check.status is Outcome.FAILED for check in headers):
            return checks
        if not operator.unreadable_keyed:
            checks += _guarded("key groups", operator, lambda: _keyed_checks(savepoint, operator, entries))
        if not operator.unreadable_lists:
            checks += _guarded("elements", operator, lambda: _operator_checks(savepoint, operator, entries))
    return checks


def _header_checks(operator: SavepointOperator) -> Iterator[Check]:
    """What keeps an operator's streams from being looked at; nothing where they can be."""
    require_own_key_groups(operator.stored)
    for subtask in operator.stored.subtasks:
        for handle in (subtask.managed_keyed, subtask.managed_operator, subtask.raw_keyed, subtask.raw_operator):
            if handle is not None:
                with open_stream(handle.stream, operator.folder):
                    pass  # it is there, and as long as it should be
    for why in (operator.unreadable_keyed, operator.unreadable_lists):
        if why:
            yield Check("structure", Outcome.UNPROVEN, why, operator.title)


def _guarded(name: str, operator: SavepointOperator, look: Callable[[], Iterator[Check]]) -> list[Check]:
    try:
        return list(look())
    except StateShiftError as error:
        places = [
            f"{place} {error.where[place]}" for place in ("state", "file", "offset", "key") if place in error.where
        ]
        return [Check(name, Outcome.FAILED, _told(error), ", ".join([operator.title, *places]))]


def _told(error: StateShiftError) -> str:
    """Give an error in one line."""
    return error.what.replace("\n", " ")


def _keyed_checks(savepoint: Savepoint, operator: SavepointOperator, entries: _Entries) -> Iterator[Check]:
    found, unread, hidden, stable = 0, set[str](), set[str](), True
    subtasks = [subtask for subtask in operator.stored.subtasks if subtask.managed_keyed is not None]
    for subtask in subtasks:
        handle = subtask.managed_keyed
        assert handle is not None  # noqa: S101 - chosen above
        with open_keyed(handle, savepoint.folder, operator.max_parallelism) as reader:
            part = prove_stream(reader, operator.max_parallelism)
        for state, count in part.entries.items():
            _count(entries, operator, "keyed", state, count)
        found += sum(part.entries.values())
        unread |= part.unread
        hidden |= part.hidden
        stable &= part.hashed
    if not subtasks:
        return
    if hidden:
        detail = f"the entries of {', '.join(sorted(hidden))} cannot be reached in the heap backend's native format"
        yield Check("key groups", Outcome.UNPROVEN, detail, operator.title)
    if stable:
        lying = many(found, "entry lies where its key hashes", "entries lie where their keys hash")
        yield Check("key groups", Outcome.OK, f"{lying} to", operator.title)
    else:
        key = operator.key.describe() if operator.key else "?"
        lying = many(found, "entry lies in the range of its", "entries lie in the range of their")
        detail = f"{lying} subtask; keys of type {key} have no stable hash to prove more"
        yield Check("key groups", Outcome.UNPROVEN, detail, operator.title)
    if unread:
        names = ", ".join(sorted(unread))
        detail = f"the values of {names} are not read by this release, only their framing"
        yield Check("values", Outcome.UNPROVEN, detail, operator.title)
    elif found:
        yield Check("values", Outcome.OK, "every value ends where its type says", operator.title)


def _count(entries: _Entries, operator: SavepointOperator, room: str, state: str, found: int) -> None:
    place = (operator.operator_id, room, state)
    entries[place] = entries.get(place, 0) + found


def _operator_checks(savepoint: Savepoint, operator: SavepointOperator, entries: _Entries) -> Iterator[Check]:
    states = {state.name: state for state in operator.states if not state.kind.is_keyed}
    found, unread = 0, set[str]()
    for subtask in operator.stored.subtasks:
        if subtask.managed_operator is None:
            continue
        require_written_order(subtask.managed_operator)
        with open_stream(subtask.managed_operator.stream, savepoint.folder) as source:
            stream = read_operator_stream(source, subtask.managed_operator)
            with located(file=source.name):
                for info in stream.header.states:
                    state = states[info.name]
                    is_map, parts = info.name in stream.broadcast, stream.parts_of(info)
                    count = sum(DataInputView(part).read_int() for part in parts) if is_map else len(parts)
                    _count(entries, operator, state.kind.room, info.name, count)
                    found += count
                    if state.unsupported or not prove_elements(info, parts):
                        unread.add(info.name)
    if unread:
        detail = f"the elements of {', '.join(sorted(unread))} are not read by this release"
        yield Check("elements", Outcome.UNPROVEN, detail, operator.title)
    elif found:
        detail = many(found, "element ends where its type says", "elements end where their types say")
        yield Check("elements", Outcome.OK, detail, operator.title)


def _counts(savepoint: Savepoint, entries: _Entries, damaged: set[str]) -> Iterator[Check]:
    """Whether there are as many entries as recorded; of a damaged operator, whose end was not reached, none can say."""
    if savepoint.lineage is None or not savepoint.lineage.states:
        return
    counted = [count for count in savepoint.lineage.states if count.operator_id not in damaged]
    wrong = 0
    for count in counted:
        found = entries.get((count.operator_id, StateKind(count.kind).room, count.state), 0)
        wanted = count.written if count.entries is None else count.entries
        if found != wanted:
            wrong += 1
            detail = f"{many(found, 'entry', 'entries')}, and {LINEAGE} says {wanted:,}"
            where = f"{count.operator or count.operator_id}, state {count.state}"
            yield Check("counts", Outcome.FAILED, detail, where)
    if counted and not wrong:
        states = many(len(counted), "state has", "states have")
        yield Check("counts", Outcome.OK, f"{states} as many entries as recorded")
    if uncounted := len(savepoint.lineage.states) - len(counted):
        states = many(uncounted, "state was", "states were")
        yield Check("counts", Outcome.UNPROVEN, f"{states} not read to the end, as something else is wrong there")


def _quarantine(savepoint: Savepoint) -> Iterator[Check]:
    """Whether what was put aside is there, line by line; nothing where nothing was."""
    expected = savepoint.lineage.quarantined if savepoint.lineage is not None else 0
    try:
        found = sum(1 for _ in savepoint.quarantine())
    except StateShiftError as error:
        yield Check("quarantine", Outcome.FAILED, _told(error), str(error.where.get("file", "")))
        return
    if found != expected:
        detail = f"{many(found, 'value')} in quarantine, and {LINEAGE} says {expected:,}"
        yield Check("quarantine", Outcome.FAILED, detail)
    elif found:
        yield Check("quarantine", Outcome.OK, f"{many(found, 'value lies', 'values lie')} there, as recorded")
