"""Output of a check report for people: lines for a pipe, blocks for a terminal.

The decision comes first (start, migrate, refuse), then each state with its verdict and its differences.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import attrs

from ..serializers.compatibility import Decision, Verdict
from ..serializers.ways_out import Option, Told, WayOut, in_python, on_command_line
from ..serializers.wording import many
from .description import StateKind
from .likeness import FEW, Subject, as_there, condensed, elsewhere, likeness, some
from .report import Status
from .way_back import ways_back

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator

    from ..serializers.compatibility import Finding
    from .description import JobDescription
    from .report import CheckReport, OperatorReport, RoleReport, StateReport
    from .scan_report import ScannedState
    from .targets import Target
    from .way_back import WayBack, WaysBack

NOTHING_OLD, NOTHING_NEW = "(none)", "(gone)"
STYLES = {Decision.START: "green", Decision.MIGRATE: "yellow", Decision.REFUSE: "bold red"}
MUST_DECLARE = "Flink restores it only if the operator declares its raw keyed state"
"""Said of an operator with raw keyed state of its own, of which Flink knows all types."""
_WAYS = {Decision.START: "as they are", Decision.MIGRATE: "after migrate --downgrade", Decision.REFUSE: "not at all"}
IF_NO_KEY_GROUPS = "if the job does not set its max parallelism"
_WIDEST_COLUMN, _WORD = 44, len(Decision.MIGRATE)
_MOST_ALIKE = 3
_MOST_RULES = 4
"""How many rules a summary tells."""


def change(finding: Finding) -> str:
    """Return the types of a finding as `int -> long`; a missing side is `(none)` or `(gone)`."""
    if finding.old == finding.new:
        return finding.old
    return f"{finding.old or NOTHING_OLD} -> {finding.new or NOTHING_NEW}"


def finding_line(finding: Finding) -> str:
    """Return a finding in one line: path, types, reason, rule, flags."""
    return "  ".join(filter(None, (finding.path, change(finding), reason_of(finding))))


def reason_of(finding: Finding) -> str:
    """Return why a finding is one: the reason, the rule, and the flags."""
    flags = (f" {flag}{' (forbidden)' * (flag.flag in finding.forbidden)}" for flag in finding.flags)
    return f"{finding.reason}  [{finding.rule}]{''.join(flags)}"


@attrs.frozen
class Row:
    """One difference of the output: its own decision, its path, the types, the reason, and the ways out."""

    word: str
    path: str
    types: str
    reason: str
    ways_out: tuple[WayOut, ...]
    style: str


def _rows(findings: Iterable[Finding]) -> list[Row]:
    """Return a row for every difference. Fields with the same remark, which blocks nothing, share one row."""
    rows: list[Row] = []
    remarks: dict[str, list[Finding]] = {}
    for finding in findings:
        if finding.verdict < Verdict.REQUIRES_MIGRATION and not finding.forbidden:
            remarks.setdefault(reason_of(finding), []).append(finding)
            continue
        decision = Decision.REFUSE if finding.forbidden else finding.verdict.decision
        types, reason = change(finding), reason_of(finding)
        rows.append(Row(decision, finding.path, types, reason, finding.ways_out, STYLES[decision]))
    for reason, same in remarks.items():
        paths = ", ".join(finding.path for finding in same)
        rows.append(Row("note", paths, change(same[0]) if len(same) == 1 else "", reason, (), "dim"))
    return rows


@attrs.frozen
class Words:
    """Pieces of text, or ways out, each with a style for the terminal."""

    indent: int
    pieces: tuple[tuple[str | WayOut, str], ...]


@attrs.frozen
class Differences:
    """A table of the differences of one state or key."""

    indent: int
    rows: tuple[Row, ...]

    @classmethod
    def of(cls, findings: Iterable[Finding]) -> Differences:
        """Return the table of the given findings."""
        return cls(4, tuple(_rows(findings)))


def blocks(report: CheckReport, *, everything: bool = False) -> Iterator[Words | Differences]:
    """Yield a report as lines and tables, which the terminal wraps.

    Args:
        report: The report of a check.
        everything: Whether to list all states. Otherwise, in a report on very many states, those without changes are
            counted, and equal reports are combined.
    """
    yield from head(report)
    asked = None if report.decision is Decision.REFUSE else ways_back(report)
    backs = None if report.is_of_query else asked
    yield from _renames_first(report)
    if report.reads is not None:
        yield from (Words(0, ()), *_whole("what it reads", report.reads, 0))
    subjects = [
        subject
        for at in range(len(report.operators))
        for subject in _subjects(at, report, backs, everything=everything)
    ]
    is_whole = everything or len(subjects) <= FEW
    shown, fine = ({}, "") if is_whole else condensed(subjects)
    if is_whole:
        alike: dict[tuple[Hashable, ...], list[Subject[Words | Differences]]] = {}
        for subject in subjects:
            has_more = any(isinstance(block, Differences) and block.rows for block in subject.body)
            if not (everything or subject.is_fine or not has_more):
                alike.setdefault(likeness(subject.told), []).append(subject)
        for subject in subjects:
            first, *others = alike.get(likeness(subject.told), [subject])
            is_first = subject is first or subject not in others
            there = Words(4, ((as_there(first.place, subject.told), "dim"),))
            listed = subject if is_first else attrs.evolve(subject, body=(there,))
            places = [one.place for one in others] if len(others) >= _MOST_ALIKE else []
            if is_first or not places:
                told = elsewhere(places) if subject is first else ""
                shown.setdefault(subject.operator, []).append((listed, told))
    for at, operator in enumerate(report.operators):
        notes = list(operator_notes(operator, report.target))
        if not is_whole and not notes and at not in shown:
            continue
        yield Words(0, ())
        yield _operator_line(operator)
        yield from notes
        for subject, others_too in shown.get(at, ()):
            yield subject.title
            yield from subject.body
            if others_too:
                yield Words(4, ((others_too, "dim"),))
    if fine:
        yield from (Words(0, ()), Words(0, ((fine, "dim"),)))
    yield from (Words(0, ((f"note: {line}", "dim"),)) for line in report.not_compared)
    if asked is not None and (lines := list(back_lines(asked, report))):
        yield from (Words(0, ()), *lines)


def back_lines(backs: WaysBack, report: CheckReport) -> Iterator[Words]:
    """Yield what the old side can do with what the new one writes."""
    return _back_of_query(backs, report) if report.is_of_query else _back_summary(backs, report.code)


def summary(report: CheckReport) -> Iterator[Words]:
    """Yield a report in about ten lines: the verdict, what answers it if one option does, and how often each rule."""
    yield from head(report)
    yield from list(_renames_first(report))[:_MOST_ALIKE]
    groups: dict[tuple[int, str], list[tuple[str, Finding]]] = {}
    for place, finding in _placed(report):
        worst = Verdict.INCOMPATIBLE if finding.forbidden else finding.verdict
        if worst.decision is not Decision.START or finding.flags:
            groups.setdefault((worst, finding.rule), []).append((place, finding))
    ordered = sorted(groups.items(), key=lambda group: (-group[0][0], -len(group[1])))
    for (verdict, rule), found in ordered[:_MOST_RULES]:
        (place, first), decision = found[0], Verdict(verdict).decision
        word = "note" if decision is Decision.START else decision
        told = f"{many(len(found), 'time')} [{rule}], as at {place} {first.path}: {first.reason}"
        yield Words(2, ((f"{word:{_WORD}}", STYLES[decision] if word != "note" else "dim"), (f"  {told}", "")))
    if others := sum(len(found) for _, found in ordered[_MOST_RULES:]):
        yield Words(2, ((f"and {many(others, 'other finding')}", "dim"),))


def head(report: CheckReport) -> Iterator[Words]:
    """Yield the verdict, both sides, and of a query from where the old one is known."""
    told_if = f", {held}" if (held := condition_of(report)) else ""
    yield Words(0, ((str(report.decision), STYLES[report.decision]), (f"{told_if}: {headline(report)}", "bold")))
    yield Words(2, ((sides_of(report), "dim"),))
    if report.is_of_query:
        known = f"known from {report.known_from}" if report.known_from else "not known"
        yield Words(2, ((f"what stood in it: {known}", "dim"),))


def sides_of(report: CheckReport) -> str:
    """Return both sides of a report in words."""
    return f"from {report.old.origin} to {report.new.origin}"


def _placed(report: CheckReport) -> Iterator[tuple[str, Finding]]:
    """Yield all findings, each with what it is about, in words."""
    yield from (("what it reads", finding) for finding in (report.reads.result.findings if report.reads else ()))
    for operator, state, finding in report.findings():
        is_whole = operator.whole is not None and finding in operator.whole.result.findings
        of_operator = f"operator {operator.title}" if is_whole else f"the key of {operator.title}"
        yield f"{operator.title}/{state.name}" if state is not None else of_operator, finding


def obstacles(report: CheckReport) -> Iterator[str]:
    """Yield what keeps a query from starting, a line each, as its author writes it."""
    from .queries.wording import for_people

    report = for_people(report)
    reads = () if report.reads is None else report.reads.result.findings
    of_operators = ((f"operator {operator.title}", finding) for operator, _, finding in report.findings())
    for place, finding in (*(("what it reads", one) for one in reads), *of_operators):
        if finding.forbidden or finding.verdict.decision is not Decision.START:
            yield f"{place}: {finding_line(finding)}"


def _whole(what: str, role: RoleReport, indent: int) -> Iterator[Words | Differences]:
    """Yield what is found on no state."""
    yield attrs.evolve(_subject(what, "", role.decision, role.result.verdict), indent=indent)
    yield attrs.evolve(Differences.of(role.result.findings), indent=indent + 2)


def _renames_first(report: CheckReport) -> Iterator[Words]:
    """Yield the one option that answers several refusals."""
    yield from (Words(2, ((first, "bold"), (f": {told}", ""))) for first, told in first_tries(report))


def first_tries(report: CheckReport) -> Iterator[tuple[WayOut, str]]:
    """Yield the one option that answers several refusals, and how many."""
    for operator in report.operators:
        if len(answered := operator.started_by_mistake) > 1:
            first = WayOut.telling("first try", Option.RENAME_UID, operator.likely_uid, operator.uid)
            told = f"if it is the same operator, it answers {len(answered)} of the {report.counts[Decision.REFUSE]}"
            yield first, told


def _subjects(
    at: int, report: CheckReport, backs: WaysBack | None, *, everything: bool
) -> Iterator[Subject[Words | Differences]]:
    """Yield the reports on the key and on each state of an operator."""
    operator = report.operators[at]
    if operator.key_groups is not None:
        body = tuple(_whole("max parallelism", operator.key_groups, 2))
        told: tuple[object, ...] = (operator.key_groups.result.findings,)
        yield _made(at, f"the max parallelism of {operator.title}", body, told, is_fine=False)
    if operator.key is not None:
        key = operator.key
        more = f"; converter: {key.converter}" if key.converter else ""
        title = _subject("key", key.old, key.decision, key.result.verdict, more)
        back = backs.keys.get(operator.operator_id) if backs else None
        scanned = report.scan_of(operator, None)
        body = (title, Differences.of(key.result.findings), *scan_lines(scanned), *back_line(back))
        told = (key.result.findings, _scanned(scanned), _told_back(back))
        is_fine = key.decision is Decision.START and (scanned is None or scanned.is_fine)
        yield _made(at, f"the key of {operator.title}", body, told, is_fine=is_fine)
    alike = () if everything else operator.started_by_mistake
    if len(alike) > _MOST_ALIKE:
        yield _made(at, operator.title, tuple(_of_all(operator, alike)), (alike,), is_fine=False)
    for state in operator.states:
        if len(alike) > _MOST_ALIKE and state in alike:
            continue
        back = backs.of(operator, state) if backs else None
        scanned = report.scan_of(operator, state)
        shown_here = None if state.kind is StateKind.TIMERS else scanned  # timers are scanned with the key
        body = (*_state_blocks(state), *scan_lines(shown_here), *back_line(back))
        is_taken = state.status is Status.MATCHED or state.kind is StateKind.TIMERS
        is_fine = state.decision is Decision.START and is_taken and (scanned is None or scanned.is_fine)
        status = "" if is_taken else state.status
        told = (status, state.note, state.result.findings, _scanned(shown_here), _told_back(back))
        yield _made(at, f"{operator.title}/{state.name}", body, told, is_fine=is_fine)
    if operator.whole is not None:
        body = tuple(_whole("the operator", operator.whole, 2))
        yield _made(at, operator.title, body, (operator.whole.result.findings,), is_fine=False)


def _of_all(operator: OperatorReport, states: tuple[StateReport, ...]) -> Iterator[Words | Differences]:
    """Yield what is found on several states that would start empty for the same reason."""
    first = states[0]
    finding = next(one for one in first.result.findings if one.rule == "STATE-7")
    of_one = Told.of(Option.ALLOW_EMPTY, f"{operator.uid}/STATE")
    each = WayOut("if they are meant to start empty:", (of_one,), more=" for each")
    yield _subject(f"{len(states)} states", "", first.decision, first.result.verdict)
    yield Words(4, ((some([state.name for state in states]), ""),))
    yield Differences.of([attrs.evolve(finding, old="", new="", ways_out=(finding.ways_out[0], each))])


def scan_lines(scanned: ScannedState | None) -> Iterator[Words]:
    """Yield what a scan of the stored values found."""
    if scanned is not None:
        for line in scanned.lines():
            yield Words(4, ((line, "dim" if scanned.is_fine else "yellow"),))


def _made(
    at: int, place: str, blocks: tuple[Words | Differences, ...], told: tuple[object, ...], *, is_fine: bool
) -> Subject[Words | Differences]:
    title, *body = blocks
    return Subject(at, place, title, tuple(body), told, is_fine)


def _scanned(one: ScannedState | None) -> tuple[object, ...]:
    """Return what the lines on a scan show, as data."""
    return () if one is None else (one.entries, one.failing, one.not_scanned, one.places)


def _told_back(back: WayBack | None) -> tuple[object, ...]:
    """Return what the lines on the way back show, as data."""
    return (back,) if any(back_line(back)) else ()


def condition_of(report: CheckReport) -> str:
    """Return the condition under which a decision to start holds, or ""."""
    if report.decision is not Decision.START:
        return ""
    groups = any(operator.key_groups is not None for operator in report.operators)
    return " and ".join(filter(None, (report.condition, IF_NO_KEY_GROUPS if groups else "")))


def headline(report: CheckReport) -> str:
    """Return the reason of the decision."""
    counts, left = report.counts, _one_sided(report)
    concerned = counts[report.decision]
    states = f"{concerned:,} of {many(sum(counts.values()), 'state')}"
    if not concerned:
        worst = [operator for operator in report.operators if operator.decision is report.decision]
        is_key = any(operator.key is not None and operator.key.decision is report.decision for operator in worst)
        states = many(len(worst), "key" if is_key else "operator") if worst else "what it reads"
    what = "query" if report.is_of_query else "job"
    if report.scanned is not None and report.scanned.failing:
        entries = many(report.scanned.entries, "stored entry", "stored entries")
        return f"{report.scanned.failing:,} of {entries} would fail{_under_policy(report)}{left}"
    if report.decision is Decision.START:
        told = "every state that both sides have can be used as it is" if left else "every state can be used as it is"
    elif report.decision is Decision.MIGRATE:
        told = f"{states} must be rewritten before the {what} can start"
    else:
        taker = "query" if report.is_of_query else "types"
        told = f"{states} cannot be taken over by the new {taker}{_under_policy(report)}"
    if report.scanned is not None and not report.scanned.states:
        told += "; there was nothing to scan"
    elif report.scanned is not None and not report.scanned.not_scanned:
        told += f"; none of {many(report.scanned.entries, 'scanned entry', 'scanned entries')} would fail"
    return told + left


def _one_sided(report: CheckReport) -> str:
    """Return a sentence on the amount of state that only one side has, or ""."""
    not_taken, starting = len(report.not_taken), len(report.starting_empty)
    told = f"; {many(not_taken, 'stored state')} {'is' if not_taken == 1 else 'are'} not taken" if not_taken else ""
    return told + (f"; {many(starting, 'state')} {'starts' if starting == 1 else 'start'} empty" if starting else "")


def _under_policy(report: CheckReport) -> str:
    """Return a remark if the policy refuses, and not only the types do."""
    forbidden = dict.fromkeys(flag for finding in report.all_findings() for flag in finding.forbidden)
    if not forbidden:
        return ""
    told = "not accepted by default:" if report.policy.accepted_by else "the policy forbids"
    return f"; {told} {', '.join(sorted(forbidden))}"


def _operator_line(operator: OperatorReport) -> Words:
    title = f"operator {operator.title}"
    if operator.uid and not operator.computations:
        title += f" ({operator.operator_id})"
    if operator.name and operator.name != operator.uid:
        title += f", {operator.name}"
    if operator.status is not Status.MATCHED and operator.whole is None:
        return Words(0, ((title, "bold"), (f": {operator.status.words}", "dim")))
    return Words(0, ((f"{title}: ", "bold"), (str(operator.decision), STYLES[operator.decision])))


def operator_notes(operator: OperatorReport, target: Target) -> Iterator[Words]:
    """Yield what there is to know of an operator as a whole."""
    if operator.was is not None and operator.was.unreadable:
        yield Words(2, ((f"not all of its state can be read: {operator.was.unreadable}", "red"),))
    if operator.is_another:
        yield Words(2, (("it has none of the stored states; if it is another operator, give it a new uid", "yellow"),))
    if operator.was is not None and operator.was.keeps:
        yield Words(2, ((f"also kept as is: {', '.join(operator.was.keeps)}", "dim"),))
    if operator.was is not None and operator.was.has_custom_raw_keyed_state and operator.flink_restorable_after:
        yield Words(2, ((MUST_DECLARE, "yellow"),))
    if operator.max_parallelism and operator.key is None:
        number = f"max parallelism becomes {operator.max_parallelism:,}; it has no keyed state to redistribute"
        yield Words(2, ((number, ""),))
    before, is_lost = operator.flink_restorable_before, operator.flink_restorable_after is False
    if operator.status is Status.MATCHED and before and is_lost:
        note = "Flink can restore this operator now, but not afterwards: it has types that Flink does not know"
        yield Words(2, ((note, "yellow"),))
    elif target.is_flink and before is False and is_lost:
        note = "Flink can restore this operator neither now nor afterwards: give each record its java_class"
        yield Words(2, ((note, "yellow"),))


def _subject(what: str, words: str, decision: Decision, verdict: Verdict, more: str = "") -> Words:
    pieces = [(what, "bold"), (f"  {words}: " if words else ": ", ""), (str(decision), STYLES[decision])]
    return Words(2, (*pieces, (f" ({verdict.label}{more})", "dim")))


def _state_blocks(state: StateReport) -> Iterator[Words | Differences]:
    what = f"{state.name}  {state.kind}"
    one_sided = {Status.ORPHANED, Status.NEW, Status.NOT_IN_PROBE, Status.DROPPED}
    if state.status in one_sided and state.decision is not Decision.REFUSE and not state.result.findings:
        yield Words(2, ((what, "bold"), (f"  {state.old or state.new}: ", ""), (presence(state), "dim")))
        if state.note:
            yield Words(4, ((state.note, ""),))
        return
    more = f"; reader: {state.reader}" if state.reader else ""
    if state.converter:
        more += f"; converter: {state.converter}"
    if state.transform:
        more += f"; transform: {state.transform}"
    yield _subject(what, state.old or state.new, state.decision, state.result.verdict, more)
    if state.note:
        yield Words(4, ((state.note, ""),))
    yield Differences.of(state.result.findings)


def presence(state: StateReport) -> str:
    """Return the sides that have a state, in words. Jobs need not declare timers, so those count as kept."""
    is_left = state.status in {Status.ORPHANED, Status.NOT_IN_PROBE}
    return "kept" if state.kind is StateKind.TIMERS and is_left else state.status.words


def back_line(back: WayBack | None) -> Iterator[Words]:
    """Yield a line about what the old job can do with a state or key, if there is anything to say."""
    if back is None:
        return
    for one in back.flagged:
        yield Words(4, (("way back: as it is, but ", "dim"), (finding_line(one), "yellow")))
    if back.decision is Decision.START and not back.note:
        return
    if back.decision is Decision.REFUSE:
        reasons = [f"{one.path}  {change(one)}  [{one.rule}]" for one in back.findings]
        yield Words(4, (("way back: none; ", "dim"), ("; ".join(reasons) or back.note, "dim")))
    elif back.decision is Decision.MIGRATE:
        yield Words(4, ((f"way back: after migrate --downgrade{back.loss}", "dim"),))
    else:
        yield Words(4, ((f"way back: as it is, {back.note}", "dim"),))


_WITHOUT_CODE = (
    "as far as the stored types show; defaults and aliases of the old code are in its history: check --against"
)


def _back_of_query(backs: WaysBack, report: CheckReport) -> Iterator[Words]:
    """Yield what the old query can do with what the new one writes, if it cannot go on from it as it is."""
    if backs.worst is not Decision.START:
        known = "" if report.known_from else ", as far as the types show"
        uses = "can use only a migrated copy of" if backs.worst is Decision.MIGRATE else "cannot go on from"
        line = f"the old query {uses} what the new one writes{known}; --json says why"
        yield Words(0, (("way back: ", "bold"), (line, "")))


def _back_summary(backs: WaysBack, code: JobDescription | None) -> Iterator[Words]:
    if not backs.states:
        return
    counts = Counter(back.decision for back in backs.states.values())
    told = ", ".join(f"{counts[decision]:,} {words}" for decision, words in _WAYS.items() if counts[decision])
    flagged = any(back.flagged for back in backs.states.values())
    if counts.keys() == {Decision.START}:
        line = "the old job can use what the new one writes" + (", except as flagged above" if flagged else "")
    else:
        line = f"of {many(counts.total(), 'state')}, the old job can use {told}"
    yield Words(0, (("way back: ", "bold"), (line, "")))
    if flagged or any(back.decision is not Decision.START and back.findings for back in backs.states.values()):
        known = _WITHOUT_CODE if code is None else f"to {code.origin}, according to all that it declares"
        yield Words(2, ((known, "dim"),))


def text_lines(report: CheckReport, *, everything: bool = False, python: bool = False) -> list[str]:
    """Return a report as lines of plain text, for a pipe or for an error; see `blocks`.

    Args:
        report: The report of a check.
        everything: As in `blocks`.
        python: Whether ways out name options as a caller in Python passes them.
    """
    lines: list[str] = []
    words = in_python if python else on_command_line
    for block in blocks(report, everything=everything):
        if isinstance(block, Words):
            text = "".join(words(one) if isinstance(one, WayOut) else one for one, _ in block.pieces)
            lines.append((" " * block.indent + text).rstrip())
        else:
            told = difference_lines(block, None, words=words)
            lines.extend("".join(text for text, _ in line) for line in told)
    return lines


def difference_lines(
    block: Differences, width: int | None, *, words: Callable[[WayOut], str] = on_command_line
) -> Iterator[list[tuple[str, str]]]:
    """Yield the differences as lines of text with styles: a reason that does not fit stands below, as ways out do."""
    rows = block.rows
    path, types = (
        min(max((len(cell) for cell in cells), default=0), _WIDEST_COLUMN)
        for cells in ([row.path for row in rows], [row.types for row in rows])
    )
    margin = " " * block.indent
    below = f"{margin}{'':<{_WORD}}  "
    for row in rows:
        head, what = f"{margin}{row.word:<{_WORD}}", f"  {row.path:<{path}}  {row.types:<{types}}"
        if width is None or len(head) + len(what) + 2 + len(row.reason) <= width:
            yield [(head, row.style), (f"{what}  {row.reason}", "")]
        else:
            yield [(head, row.style), (what.rstrip() if row.types else f"  {row.path}", "")]
            yield [(f"{below}{row.reason}", "")]
        if row.ways_out:
            yield [(f"{below}ways out: {'; or '.join(map(words, row.ways_out))}", "dim")]
