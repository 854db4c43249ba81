"""The verdict on a query against a checkpoint: can its operators go on from the state that is stored?

Types are compared by name (SPK-1 to SPK-6). What stands in the columns is compared where it is known of both sides:
from a recording, or from the old code (SPK-10 to SPK-18).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from ...compat.explain import finding_line
from ...compat.policy import ACCEPT_ALL, Policy
from ...compat.queries.kinds import KNOWN
from ...compat.structuring import fields_of
from ...serializers.compatibility import Decision, Finding, Flag, Verdict
from ...serializers.errors import DeclarationError
from ...serializers.ways_out import Does, Option, Told, WayOut
from .facts import CODE, OF_CODE, details_of, facts_changed, hidden_types, of_type
from .findings import findings_of
from .inputs import inputs_changed, tables_not_compared
from .operator_pairs import match_operators
from .processors import TIME_TO_LIVE
from .rules import COMMAND, COPY, NEW, by_copy, with_command
from .store_pairs import pair_stores
from .wording import for_people

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from .operator_pairs import Match
    from .query import QueryDescription, QueryOperator

ACCEPTABLE = ("SPK-10", "SPK-12", "SPK-13", "SPK-15", "SPK-21")
"""The rules whose findings a caller may accept: Spark starts, and goes on as the new code says, with the old state."""
_OF_INPUTS = {"SPK-13", "SPK-15"}
_ORDER = (Decision.START, Decision.MIGRATE, Decision.REFUSE)
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
_CONDITIONS = {
    "SPK-13": "static tables have the same rows",
    "SPK-15": "sources have the same rows",
    "SPK-17": "what the checkpoint does not show is unchanged",
    "SPK-18": "only names of fields changed",
    "SPK-21": "functions that changed compute the same",
    "SPK-22": "summaries of the old type count for the new one",
}
"""What has to hold where a finding of a rule has a flag."""
_HIDDEN_OF_FUNCTIONS = "what the keys are computed from, the code of the function, times to live and time-outs"


@attrs.frozen
class OperatorVerdict:
    """The verdict on an operator.

    Attributes:
        old: The operator of the checkpoint; None: it has none.
        new: The operator of the query; None: it has none.
        findings: Every difference.
        source: From where it is known what stands in the stored columns, in words; "": it is not.
    """

    old: QueryOperator | None
    new: QueryOperator | None
    findings: tuple[Finding, ...]
    source: str = ""

    @property
    def title(self) -> str:
        """The operator in messages."""
        operator = self.new or self.old
        return operator.title if operator is not None else "the query"

    @property
    def shown(self) -> tuple[Finding, ...]:
        """The findings in the words of the query's author; `findings` have the stored names."""
        return tuple(for_people(one, self.old, self.new) for one in self.findings)

    @property
    def decision(self) -> Decision:
        """The worst decision of its findings."""
        return _worst(Decision.REFUSE if one.forbidden else one.verdict.decision for one in self.findings)


@attrs.frozen
class QueryReport:
    """The verdict on a query.

    Attributes:
        checkpoint: The place of the checkpoint.
        query: The new query, in words.
        operators: The verdicts on its operators; the first is on the query as a whole if there is something to say.
        source: From where the old query is known beyond the checkpoint, in words; "": it is not.
        is_recorded: Whether a recording says which query wrote all of the state.
        not_compared: What was not compared, a line each.
        next_command: The migration with the first option that each finding names; "": there is none, or something is to
            be said first that nobody else knows.
        next_asks: What a trial of that command asked for beyond it, a line each; then there is no such command.
    """

    checkpoint: str
    query: str
    operators: tuple[OperatorVerdict, ...]
    source: str = ""
    is_recorded: bool = False
    not_compared: tuple[str, ...] = ()
    next_command: str = ""
    next_asks: tuple[str, ...] = ()

    @property
    def decision(self) -> Decision:
        """The worst decision of all operators."""
        return _worst(one.decision for one in self.operators)

    def findings(self) -> Iterator[Finding]:
        """Yield all findings."""
        for operator in self.operators:
            yield from operator.findings

    def conditions(self) -> tuple[str, ...]:
        """Return what has to hold for a start to be right, and was not compared; empty: nothing, or it is no start."""
        if self.decision is not Decision.START:
            return ()
        flagged = (one for one in self.findings() if one.flags)
        return tuple(dict.fromkeys(_CONDITIONS.get(one.rule, "what is flagged changes nothing") for one in flagged))

    def obstacles(self) -> Iterator[str]:
        """Yield what keeps the query from starting, a line each."""
        for operator in self.operators:
            for finding in operator.shown:
                if finding.forbidden or finding.verdict.decision is not Decision.START:
                    yield f"operator {operator.title}: {finding_line(finding)}"

    def exit_status(self, *, allow_migration: bool = False, require_recording: bool = False) -> int:
        """Return the exit status of a check: 0 start, 1 refuse, 4 migrate, or a missing recording that is required."""
        if self.decision is Decision.REFUSE:
            return 1
        needs = self.decision is Decision.MIGRATE and not allow_migration
        return 4 if needs or (require_recording and not self.is_recorded) else 0


def _worst(decisions: Iterable[Decision]) -> Decision:
    return max(decisions, key=_ORDER.index, default=Decision.START)


def judge(
    old: QueryDescription,
    new: QueryDescription,
    *,
    known: QueryDescription | None = None,
    accept: tuple[str, ...] = (),
    policy: Policy = ACCEPT_ALL,
    is_recorded: bool = False,
    gap: str = "",
    command: str = COMMAND,
) -> QueryReport:
    """Compare a query with a checkpoint.

    Args:
        old: The checkpoint.
        new: The query.
        known: The query that wrote it, if it is known: from a recording, or from the old code.
        accept: The rules whose findings are accepted, of `ACCEPTABLE`.
        policy: Flags that are refused.
        is_recorded: Whether `known` is a recording that reaches to the last batch.
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
    stored = with_plans(old, known)
    whole = list(sources_changed(old, new, known))
    if gap:
        whole.append(Finding("$", "SPK-17", _FINE, "", "", gap, flags=(Flag.UNVERIFIED,)))
    matches = match_operators(stored, new.operators)

    def decided(*, starts: bool) -> tuple[list[OperatorVerdict], tuple[OperatorVerdict, ...]]:
        verdicts = [OperatorVerdict(None, None, tuple(whole), origin)]
        for one in matches:
            findings = tuple(_operator(one, is_by_name=is_by_name, starts=starts))
            is_known = one.was is not None and one.was.is_planned
            verdicts.append(OperatorVerdict(one.was, one.becomes, findings, origin if is_known else ""))
        done = (
            attrs.evolve(
                one, findings=tuple(_decided(with_command(each, command), accept, policy) for each in one.findings)
            )
            for one in verdicts
            if one.findings or one.new is not None or one.old is not None
        )
        return verdicts, tuple(done)

    verdicts, done = decided(starts=True)
    if any(each.verdict is _MIGRATE for one in done for each in one.findings):  # then nothing of it is read by Spark
        verdicts, done = decided(starts=False)
    following = _next_command(verdicts, command)
    unseen = (what for operator in new.operators for what in operator.unseen)
    lines = (f"{what} is not compared" for what in dict.fromkeys((*unseen, *nobody_compared(new, known))))
    following = following if _worst(one.decision for one in done) is Decision.MIGRATE else ""
    return QueryReport(old.origin, new.origin, done, origin, is_recorded, tuple(lines), following)


def nobody_compared(new: QueryDescription, known: QueryDescription | None) -> Iterator[str]:
    """Yield what of a query is not compared with the old one, beside what its plan does not show."""
    details = (one for operator in new.operators for of in operator.details.values() for one in of)
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


def _not_recorded(new: QueryDescription, known: QueryDescription) -> Iterator[str]:
    """Yield what an earlier release did not record of a query, and this one compares."""
    recorded = {text for one in known.operators for text in hidden_types(one)}
    kept = {text for one in known.operators for of in one.columns.values() for text in of.values()}
    for operator in new.operators:
        for of in (one for one in details_of(operator) if one.kind == "type"):
            text = of.name.partition(" ")[2]
            if text in kept and of_type(of)[0] not in recorded:
                yield f"the type of what {text} keeps"
    for operator in known.operators:
        for store, schema in operator.stores.items():
            paths = (f"key.{name}" for name in schema.key.names if "#" in name)
            texts = operator.columns.get(store, {})
            yield from (f"what {path} is computed from" for path in paths if texts and path not in texts)


def _next_command(verdicts: Iterable[OperatorVerdict], command: str) -> str:
    """Return the migration with the first option that each finding names; "": one of them is for its author to say."""
    options: list[Told] = []
    for operator in verdicts:
        for finding in operator.findings:
            if finding.verdict is not _MIGRATE:
                continue
            ways = [one for one in finding.ways_out if one.does is Does.MIGRATE and one.is_ready]
            is_of_new_key = finding.rule == "SPK-11"  # one value for all stored keys
            if not ways or is_of_new_key or any(one.startswith(Flag.POSSIBLE_RENAME) for one in finding.flags):
                return ""
            options += ways[0].told
    return " ".join((command, *map(str, dict.fromkeys(options))))


def _decided(finding: Finding, accept: tuple[str, ...], policy: Policy) -> Finding:
    if finding.rule == OF_CODE:
        is_accepted = f"{finding.rule}:{finding.path[2:-1].removeprefix(CODE)}" in accept
    else:
        is_accepted = finding.rule in accept and (finding.verdict is not _FINE or finding.rule in _OF_INPUTS)
    if is_accepted:
        reason = f"accepted: {finding.reason}"
        finding = attrs.evolve(finding, verdict=_FINE, reason=reason, ways_out=(), flags=())
    return policy.forbidden(finding)


def difference(old: QueryDescription, known: QueryDescription) -> str:
    """Return what shows that a query did not write a checkpoint; "": nothing does."""
    theirs = {one.number: one for one in known.operators}
    for one in old.operators:
        other = theirs.pop(one.number, None)
        if other is None or other.kind != one.kind:
            return f"operator {one.title} is not one of its operators"
        if not _same(one, other):
            return f"the types of operator {one.title} are others in the checkpoint"
    return f"the checkpoint has no operator {', '.join(one.title for one in theirs.values())}" if theirs else ""


def with_plans(old: QueryDescription, known: QueryDescription | None) -> tuple[QueryOperator, ...]:
    """Return the operators of a checkpoint with what is known of the query that wrote them.

    Raises:
        DeclarationError: That query did not write this checkpoint.
    """
    if known is None:
        return old.operators
    if told := difference(old, known):
        raise DeclarationError(
            f"the checkpoint was not written by {known.origin}: {told}",
            advice="name the code that wrote the checkpoint; or leave it out: then the checkpoint alone is compared",
        )
    theirs = {one.number: one for one in known.operators}
    return tuple(
        attrs.evolve(theirs[one.number], stores=one.stores, unreadable=one.unreadable) for one in old.operators
    )


def _same(one: QueryOperator, other: QueryOperator) -> bool:
    """Whether names and types of all stores are equal, as far as they are read."""

    def shown(operator: QueryOperator) -> dict[str, tuple[str, str]]:
        return {name: (of.key.describe(), of.value.describe()) for name, of in operator.stores.items()}

    return bool(one.unreadable) or shown(one) == shown(other)


def sources_changed(old: QueryDescription, new: QueryDescription, known: QueryDescription | None) -> Iterator[Finding]:
    """Yield what is found on the sources of a query, and on what else it reads."""
    was, now = known.sources if known is not None else old.sources, new.sources
    if known is not None and known.inputs is None:  # then a source that stands twice was recorded once
        was, now = (tuple(dict.fromkeys(names)) for names in (was, now))
    if old.sources and old is not known and len(old.sources) != len(new.sources):
        yield Finding(
            "$<sources>", "SPK-15", _REFUSED, str(len(old.sources)), str(len(new.sources)),
            "the number of streaming sources is another; Spark pairs them with its offsets by position, and refuses",
            ("keep the sources", NEW),
        )  # fmt: skip
    elif known is not None and was != now:
        is_exchanged = sorted(was) == sorted(now)
        reason = "the sources changed places" if is_exchanged else "a source is another one"
        yield Finding(
            "$<sources>", "SPK-15", _REFUSED, ", ".join(was), ", ".join(now),
            f"{reason}; Spark pairs them with its offsets by position, and goes on from the offset of the other",
            (
                "keep the sources in the order of the old query",
                WayOut.telling("accept it, if it is the same data:", Option.ACCEPT, "SPK-15"),
            ),
        )  # fmt: skip
    if known is not None:
        yield from inputs_changed(known.inputs or (), new.inputs or ())


def _operator(match: Match, *, is_by_name: bool, starts: bool) -> Iterator[Finding]:
    """Yield what is found on an operator; `starts` as in `findings_of`."""
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
    if was.unreadable or becomes.unreadable:
        yield Finding(
            "$", "SPK-16", _REFUSED, "", "",
            f"its types cannot be compared: {was.unreadable or becomes.unreadable}",
            ("compare the code by hand, or start with a new checkpoint",),
        )  # fmt: skip
        return
    pair = pair_stores(was, becomes, is_by_name=is_by_name)
    found = tuple(findings_of(pair, is_by_name=is_by_name, starts=starts))
    yield from found
    for name in sorted({*was.modes} & {*becomes.modes}):
        if was.modes[name] != becomes.modes[name]:
            yield Finding(
                "$", "SPK-20", _REFUSED, was.modes[name], becomes.modes[name],
                f"the {name} is another one; Spark refuses to start", (f"keep the {name} of the old query", NEW),
            )  # fmt: skip
    if was.is_planned:
        told_of = {f"$<{name}>" for name in {*was.modes} & {*becomes.modes}}  # Spark itself refuses another one
        told_of |= {one.path for one in found}
        told_of |= {f"$<{TIME_TO_LIVE}{one}>" for one in (*pair.gone, *pair.added)}  # it has no entries on both sides
        yield from (one for one in facts_changed(was, becomes) if one.path not in told_of)
    else:
        yield Finding("$", "SPK-17", _FINE, "", "", hidden_in(was.kind), flags=(Flag.UNVERIFIED,))


def hidden_in(kind: str) -> str:
    """Return what a checkpoint does not show of an operator of this kind, and how it would be known."""
    hidden = _HIDDEN.get(kind, _HIDDEN_OF_FUNCTIONS)
    return f"the checkpoint does not show {hidden}, and filters; name the old code with --was, or record the query"


def _one_sided(was: QueryOperator | None, becomes: QueryOperator | None) -> Finding:
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


def report_data(report: QueryReport) -> dict[str, Any]:
    """Return a report as plain data; its field names are stable."""
    return {
        **fields_of(report, "decision checkpoint query"),
        "source": report.source or None,
        "is_recorded": report.is_recorded,
        "conditions": list(report.conditions()),
        "not_compared": list(report.not_compared),
        "next_command": report.next_command or None,
        "next_asks": list(report.next_asks),
        "operators": [
            {
                "kind": (one.new or one.old).kind if one.new or one.old else None,  # type: ignore[union-attr]
                "old": one.old.number if one.old else None,
                "new": one.new.number if one.new else None,
                "decision": str(one.decision),
                "source": one.source or None,
                **fields_of(one, "findings"),
            }
            for one in report.operators
        ],
    }
