"""The verdict on a query against a checkpoint: can its operators go on from the state that is stored?

Types are compared by name (SPK-1 to SPK-6). What stands in the columns is compared where it is known of both sides:
from a recording, or from the old code (SPK-10 to SPK-18).
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any

import attrs

from ...serializers.compatibility import CompatibilityResult, Decision, Finding, Flag, Path, Verdict, worst
from ...serializers.errors import DeclarationError
from ...serializers.spark_rows.pairing import KEY
from ...serializers.spark_rows.rules import COMMAND, COPY, NEW, by_copy, with_command
from ...serializers.ways_out import Does, Option, Told, WayOut
from ..description import JobDescription, StateKind
from ..policy import ACCEPT_ALL, Policy
from ..report import CheckReport, OperatorReport, RoleReport, StateReport, Status
from ..targets import Target
from .columns import path_of_values
from .conditions import OF_CODE, details_of, facts_changed, hidden_types, of_type
from .description import describe_query_operator
from .findings import findings_of
from .inputs import inputs_changed, tables_not_compared
from .kinds import KNOWN, OF_VARIABLES
from .operator_pairs import match_operators
from .store_pairs import pair_stores

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from ..description import Computation, OperatorDescription, StateDescription
    from .operator_pairs import Match
    from .store_pairs import OperatorPair

ACCEPTABLE = ("SPK-10", "SPK-12", "SPK-13", "SPK-15", "SPK-21")
"""The rules whose findings a caller may accept: Spark starts, and goes on as the new code says, with the old state."""
_OF_INPUTS = {"SPK-13", "SPK-15"}
_OF_KEY = Path("$").then(KEY)
_REFUSED, _MIGRATE, _FINE = Verdict.INCOMPATIBLE, Verdict.REQUIRES_MIGRATION, Verdict.COMPATIBLE
_EARLIER = "of an earlier release; the next start records it"
_ENCODING = "spark.sql.streaming.stateStore.encodingFormat"
_HIDDEN = {
    "aggregation": "what each aggregate and key is computed from (two aggregates of one function exchanged), the length"
    " of a window",
    "session window": "what each aggregate and key is computed from, the gap of the sessions",
    "stream-stream join": "which columns are joined on, the condition, what the kept columns are computed from",
    "dropDuplicates": "what the columns are computed from",
    "dropDuplicatesWithinWatermark": "what the columns are computed from, how long a row counts as seen",
    "limit": "the limit",
}
_HIDDEN_OF_FUNCTIONS = "what the keys are computed from, the code of the function, times to live and time-outs"


def judge(
    old: JobDescription,
    new: JobDescription,
    *,
    known: JobDescription | None = None,
    accept: tuple[str, ...] = (),
    policy: Policy = ACCEPT_ALL,
    gap: str = "",
    command: str = COMMAND,
) -> CheckReport:
    """Compare a query with a checkpoint.

    Args:
        old: The checkpoint.
        new: The query.
        known: The query that wrote it, if it is known: from a recording, or from the old code.
        accept: The rules whose findings are accepted, of `ACCEPTABLE`.
        policy: Flags that are refused.
        gap: What is not known of the query that wrote it, in a sentence, or "".
        command: The command that migrates a copy, for ways out.

    Raises:
        DeclarationError: A finding of a rule cannot be accepted.
    """
    for rule in accept:
        name = rule.partition(":")
        if name[0] not in ACCEPTABLE or bool(name[2]) is not (name[0] == OF_CODE):
            raise DeclarationError(
                f"findings of {rule} cannot be accepted",
                advice=f"these can be: {', '.join(ACCEPTABLE)}:FUNCTION; after any other, Spark refuses or reads"
                " wrongly",
            )
    origin = known.origin if known is not None else ""
    is_by_name = old.settings.get(_ENCODING, "unsaferow") != "unsaferow"
    before, after = with_plans(old, known), new
    whole = list(sources_changed(old, new, known))
    if gap:
        whole.append(Finding("$", "SPK-17", _FINE, "", "", gap, flags=(Flag.UNVERIFIED,)))
    matches = match_operators(before.computations, after.computations)
    sides = [(before.operator_of(one.was), after.operator_of(one.becomes)) for one in matches]
    pairs = [_paired(*one, is_by_name=is_by_name) for one in sides]

    def found(*, starts: bool) -> list[tuple[Finding, ...]]:
        both = zip(matches, pairs, strict=True)
        of_operators = (_operator(*one, is_by_name=is_by_name, starts=starts) for one in both)
        return [tuple(_accepted(each, accept) for each in of) for of in (whole, *of_operators)]

    findings = found(starts=True)
    if any(map(_leads_to_a_copy, chain(*findings))):  # then nothing of it is read by Spark
        findings = found(starts=False)
    reads, *told = ([with_command(each, command) for each in of] for of in findings)
    reports = (_report(*one, of) for one, of in zip(sides, told, strict=True))
    unseen = (what for one in new.computations for what in one.unseen)
    report = CheckReport(
        before,
        after,
        Target.AUTO,
        tuple(map(policy.applied, reports)),
        policy,
        reads=policy.of_role(_role(reads)) if reads else None,
        known_from=origin,
        is_whole=known is not None and not gap,
        not_compared=tuple(
            f"{what} is not compared" for what in dict.fromkeys((*unseen, *nobody_compared(new, known)))
        ),
    )
    is_possible = report.decision is Decision.MIGRATE
    options = _next_options(chain(*findings)) if is_possible else None
    if options is None:
        return report
    return attrs.evolve(report, next_command=" ".join((command, *map(str, options))), next_options=options)


def _report(
    was: OperatorDescription | None, becomes: OperatorDescription | None, findings: Sequence[Finding]
) -> OperatorReport:
    """Return the report on an operator: each finding with the key, or with the state that it is about."""
    side = becomes or was
    assert side is not None  # noqa: S101 - a pair has one
    status = Status.MATCHED if was and becomes else Status.NEW if becomes else Status.ORPHANED
    before, after = map(_states, (was, becomes))
    names = {*before, *after}
    placed: dict[str, list[Finding]] = {}
    for finding in findings:
        placed.setdefault(_place(finding.path, names, side), []).append(finding)
    states = []
    for name in sorted(names):
        found = placed.get(name, ())
        both = before.get(name), after.get(name)
        of = Status.MATCHED if all(both) else Status.NEW if both[1] else Status.ORPHANED
        result = _result(found)
        is_lost = of is Status.ORPHANED and not found  # its operator is gone
        decision = Decision.REFUSE if is_lost else result.verdict.decision
        states.append(StateReport(name, StateKind.VALUE, of, result, decision, was=both[0], becomes=both[1]))
    of_key, of_whole = (_role(placed[name]) if name in placed else None for name in (KEY, ""))
    return OperatorReport(
        side.operator_id, side.uid, "", status, of_key, tuple(states), was=was, becomes=becomes, whole=of_whole
    )


def _states(of: OperatorDescription | None) -> dict[str, StateDescription]:
    """Return the states that a query goes on from: not what a checkpoint still has of forgotten variables."""
    computes = None if of is None else of.computation
    return {} if computes is None else {one.name: one for one in describe_query_operator(computes).states}


def _role(findings: Sequence[Finding]) -> RoleReport:
    result = _result(findings)
    return RoleReport(result, result.verdict.decision, "", "")


def _result(findings: Sequence[Finding]) -> CompatibilityResult[Any]:
    return CompatibilityResult(worst([one.verdict for one in findings]), tuple(findings))


def _place(path: Path, states: Collection[str], operator: OperatorDescription) -> str:
    """Return the state that a finding is about, `KEY` for the key of all of them, or "" for the operator itself."""
    if path.subject in states:
        return path.subject
    if path.is_within(_OF_KEY) and path != _OF_KEY:
        return KEY
    assert operator.computation is not None  # noqa: S101 - it is of a query
    kind = operator.computation.kind
    for state in sorted(states, key=len, reverse=True):
        if path.is_within(f"$.{state if kind in OF_VARIABLES else path_of_values(state, kind)}"):
            return state
    return ""


def nobody_compared(new: JobDescription, known: JobDescription | None) -> Iterator[str]:
    """Yield the parts of a query that are not compared with the old one, besides those that its plan does not show."""
    details = (one for operator in new.computations for of in operator.details.values() for one in of)
    functions = dict.fromkeys(one for one in details if one.kind == "function")
    if known is None:
        yield from (f"the code of {one.name}" for one in functions)
    elif known.inputs is None:
        yield (
            f"what decides the rows of sources and tables, and the code of functions ({known.origin} is {_EARLIER}),"
        )
    else:
        yield from (f"{what} ({known.origin} is {_EARLIER})" for what in _not_recorded(new, known))
        yield from tables_not_compared(new.inputs or ())
        yield from (
            f"{'what' if one.value else 'the code of'} {one.name} {'uses ' if one.value else ''}({one.unread})"
            for one in functions
            if one.unread
        )


def _not_recorded(new: JobDescription, known: JobDescription) -> Iterator[str]:
    """Yield what this release compares, and an earlier one did not record."""
    recorded = {text for one in known.computations for text in hidden_types(one)}
    kept = {text for one in known.computations for of in one.columns.values() for text in of.values()}
    for operator in new.computations:
        for of in (one for one in details_of(operator) if one.kind == "type"):
            text = of.name.partition(" ")[2]
            if text in kept and of_type(of)[0] not in recorded:
                yield f"the type of what {text} keeps"
    for operator in known.computations:
        for store, schema in operator.stores.items():
            paths = (KEY.then(name) for name in schema.key.names if "#" in name)
            texts = operator.columns.get(store, {})
            yield from (f"what {path} is computed from" for path in paths if texts and path not in texts)


def _next_options(findings: Iterable[Finding]) -> tuple[Told, ...] | None:
    """Return the first option that each finding names; None: one of them is for its author to say."""
    options: list[Told] = []
    for finding in findings:
        if finding.verdict is not _MIGRATE:
            continue
        ways = [one for one in finding.ways_out if one.does is Does.MIGRATE and one.is_ready]
        is_of_new_key = finding.rule == "SPK-11"  # one value for all stored keys
        if not ways or is_of_new_key or finding.has(Flag.POSSIBLE_RENAME):
            return None
        options += ways[0].told
    return tuple(dict.fromkeys(options))


def _leads_to_a_copy(finding: Finding) -> bool:
    """Whether a finding needs a migration, or one is a way out of it."""
    is_way = finding.verdict is _REFUSED and any(way.does is Does.MIGRATE for way in finding.ways_out)
    return finding.verdict is _MIGRATE or is_way


def _accepted(finding: Finding, accept: tuple[str, ...]) -> Finding:
    if finding.rule == OF_CODE:
        is_accepted = f"{finding.rule}:{finding.path.subject}" in accept
    else:
        is_accepted = finding.rule in accept and (finding.verdict is not _FINE or finding.rule in _OF_INPUTS)
    if not is_accepted:
        return finding
    return attrs.evolve(finding, verdict=_FINE, reason=f"accepted: {finding.reason}", ways_out=(), flags=())


def difference(old: JobDescription, known: JobDescription) -> str:
    """Return the difference that shows that a query did not write a checkpoint; "": there is none."""
    theirs = {one.number: one for one in known.computations}
    for one in old.computations:
        other = theirs.pop(one.number, None)
        if other is None or other.kind != one.kind:
            return f"operator {one.title} is not one of its operators"
        described = old.operator_of(one)
        if not (described is not None and described.unreadable) and _types(one) != _types(other):
            return f"the types of operator {one.title} are others in the checkpoint"
    return f"the checkpoint has no operator {', '.join(one.title for one in theirs.values())}" if theirs else ""


def with_plans(old: JobDescription, known: JobDescription | None) -> JobDescription:
    """Return the description of a checkpoint with what is known of the query that wrote it.

    Raises:
        DeclarationError: That query did not write this checkpoint.
    """
    if known is None:
        return old
    if told := difference(old, known):
        raise DeclarationError(
            f"the checkpoint was not written by {known.origin}: {told}",
            advice="name the code that wrote the checkpoint; or leave it out: then the checkpoint alone is compared",
        )
    theirs = {one.number: one for one in known.computations}
    described = old.computing(lambda one: attrs.evolve(theirs[one.number], stores=one.stores))
    return attrs.evolve(described, sources=known.sources, inputs=known.inputs)


def without_code(of: Computation) -> Computation:
    """Return what is known of an operator by its types alone."""
    return attrs.evolve(of, columns={}, facts={}, unseen=(), source="", details={})


def _types(of: Computation) -> dict[str, tuple[str, str]]:
    return {name: (one.key.describe(), one.value.describe()) for name, one in of.stores.items()}


def sources_changed(old: JobDescription, new: JobDescription, known: JobDescription | None) -> Iterator[Finding]:
    """Yield the findings on what a query reads."""
    was, now = known.sources if known is not None else old.sources, new.sources
    if known is not None and known.inputs is None:  # then a source that stands twice was recorded once
        was, now = (tuple(dict.fromkeys(names)) for names in (was, now))
    if old.sources and old is not known and len(old.sources) != len(new.sources):
        yield Finding(
            Path.naming("sources"), "SPK-15", _REFUSED, str(len(old.sources)), str(len(new.sources)),
            "the number of streaming sources is another; Spark pairs them with its offsets by position, and refuses",
            ("keep the sources", NEW),
        )  # fmt: skip
    elif known is not None and was != now:
        is_exchanged = sorted(was) == sorted(now)
        reason = "the sources changed places" if is_exchanged else "a source is another one"
        yield Finding(
            Path.naming("sources"), "SPK-15", _REFUSED, ", ".join(was), ", ".join(now),
            f"{reason}; Spark pairs them with its offsets by position, and goes on from the offset of the other",
            (
                "keep the sources in the order of the old query",
                WayOut.telling("accept it, if it is the same data:", Option.ACCEPT, "SPK-15"),
            ),
        )  # fmt: skip
    if known is not None:
        yield from inputs_changed(known.inputs or (), new.inputs or ())


def _paired(
    was: OperatorDescription | None, becomes: OperatorDescription | None, *, is_by_name: bool
) -> OperatorPair | str:
    """Return what becomes of the stores of an operator, or why that is not known."""
    if was is None or becomes is None or was.computation is None or becomes.computation is None:
        return "only one side has the operator"
    if unreadable := was.unreadable or becomes.unreadable:
        return unreadable
    if was.computation.kind not in KNOWN:
        return "its kind is not known"
    return pair_stores(was.computation, becomes.computation, is_by_name=is_by_name)


def _operator(match: Match, pair: OperatorPair | str, *, is_by_name: bool, starts: bool) -> Iterator[Finding]:
    """Yield the findings on an operator; `starts` as in `findings_of`."""
    was, becomes = match.was, match.becomes
    there = was or becomes
    assert there is not None  # noqa: S101 - a pair has one
    if there.kind not in KNOWN:
        advice = "run one batch of the old query with Spark 4.0 or later, which writes what it is"
        ways = (advice,) if there.kind == "unknown operator" else ()
        yield Finding(
            "$", "SPK-16", _REFUSED, was.kind if was else "", becomes.kind if becomes else "",
            "the kind of the operator is not known, so nothing can be said of its state", (*ways, NEW),
        )  # fmt: skip
        return
    if was is None or becomes is None:
        yield _one_sided(was, becomes)
        return
    if was.number != becomes.number or not (match.is_certain or starts):
        told = (
            "the operator has another number; Spark pairs operators by number, and would take the state of another one"
            if was.number != becomes.number
            else "another operator of its kind could take its state, and the types do not say which one it is"
        )
        yield Finding(
            "$", "SPK-14", _MIGRATE if match.is_certain or was.number == becomes.number else _REFUSED,
            f"operator {was.number}", f"operator {becomes.number}", told,
            (
                COPY if match.is_certain else by_copy(COPY.words, Told.of(Option.MAP, was.number, becomes.number)),
                "keep the order of the operators, counted from the sink", NEW,
            ),
        )  # fmt: skip
    if isinstance(pair, str):
        yield Finding(
            "$", "SPK-16", _REFUSED, "", "",
            f"its types cannot be compared: {pair}",
            ("compare the code by hand, or start with a new checkpoint",),
        )  # fmt: skip
        return
    found = tuple(findings_of(pair, is_by_name=is_by_name, starts=starts))
    yield from found
    for name in sorted({*was.modes} & {*becomes.modes}):
        if was.modes[name] != becomes.modes[name]:
            yield Finding(
                "$", "SPK-20", _REFUSED, was.modes[name], becomes.modes[name],
                f"the {name} is another one; Spark refuses to start", (f"keep the {name} of the old query", NEW),
            )  # fmt: skip
    if was.is_known:
        told_of = {f"$<{name}>" for name in {*was.modes} & {*becomes.modes}}  # Spark itself refuses another one
        told_of |= {one.path for one in found}
        yield from (one for one in facts_changed(pair) if one.path not in told_of)
    else:
        yield Finding("$", "SPK-17", _FINE, "", "", hidden_in(was.kind), flags=(Flag.UNVERIFIED,))


def hidden_in(kind: str) -> str:
    """Return what a checkpoint does not show of an operator of this kind, and how it would be known."""
    hidden = _HIDDEN.get(kind, _HIDDEN_OF_FUNCTIONS)
    return f"the checkpoint does not show {hidden}, and filters; the old code says it, or a recording"


def _one_sided(was: Computation | None, becomes: Computation | None) -> Finding:
    keep = WayOut("keep the stateful operators of the old query")
    if becomes is None:
        assert was is not None  # noqa: S101 - a pair has one
        reason = "the new query does not have the operator, and its state would be lost"
        return Finding(
            "$",
            "SPK-14",
            _REFUSED,
            was.kind,
            "",
            reason,
            (keep, by_copy("drop its state:", Told.of(Option.MAP, was.number, "")), NEW),
        )
    reason = (
        "the checkpoint has no state for the operator: in a migrated copy it starts empty; it may shift the numbers of"
        " others"
    )
    return Finding("$", "SPK-14", _MIGRATE, "", becomes.kind, reason, (COPY, keep, NEW))
