"""The verdict on a query against a checkpoint: can its operators go on from the state that is stored?

Types are compared by name (SPK-1 to SPK-6). What stands in the columns is compared where it is known of both sides:
from a recording, or from the old code (SPK-10 to SPK-18).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from ...compat.explain import finding_line
from ...compat.policy import ACCEPT_ALL, Policy
from ...compat.structuring import fields_of
from ...serializers.compatibility import Decision, Finding, Flag, Verdict
from ...serializers.errors import DeclarationError
from ...serializers.escaping import shell_word
from .columns import UNSCALED, Origin, Reading, first_value, of_buffer, origins, said_as, without_places
from .inputs import inputs_changed, tables_not_compared
from .plan_operators import FILTER_ON_KEYS, JOIN, SESSION
from .processors import TIME_TO_LIVE
from .rules import COMMAND, MIGRATE, resolve, with_command
from .spark_types import SparkField, SparkType
from .wording import for_people

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from .plan_text import Detail
    from .query import QueryDescription, QueryOperator
    from .schema_files import StoreSchema

ACCEPTABLE = ("SPK-10", "SPK-12", "SPK-13", "SPK-15", "SPK-21")
"""The rules whose findings a caller may accept: Spark starts, and goes on as the new code says, with the old state."""
_OF_CODE, _CODE = "SPK-21", "code of "
_OF_INPUTS = {"SPK-13", "SPK-15"}
_ORDER = (Decision.START, Decision.MIGRATE, Decision.REFUSE)
_AVRO_NUMBERS = {"tinyint", "smallint", "int", "bigint", "float", "double"}
_REFUSED, _MIGRATE, _FINE = Verdict.INCOMPATIBLE, Verdict.REQUIRES_MIGRATION, Verdict.COMPATIBLE
_COPY = f"migrate a copy: {MIGRATE}"
_SAID_BY_CODE = "name the old code, which says what stands in it: the option --was"
_GONE = "\0"
"""Marks the name of a stored field that another one got."""
_DRAWN_SEED = 1 << 32
"""Spark draws the seed of a sample that has none among 64 bits; below this a person chose it."""
_NEW = "start the new query with a new checkpoint"
_UNSCALED = {"Sum", "Average"}
_OF_VALUES = {"CollectList", "CollectSet", "ListAgg", "Mode", "Percentile", "PercentileCont", "PercentileDisc"}
"""Aggregates that keep the values themselves, as bytes of their type; others keep a summary of them."""
_EARLIER = "of an earlier release; the next start records it"
_KNOWN = {
    "aggregation", "session window", "dropDuplicates", "dropDuplicatesWithinWatermark", "limit", "stream-stream join",
    "applyInPandasWithState", "flatMapGroupsWithState", "transformWithState", "transformWithStateInPandas",
    "transformWithState (Scala)",
}  # fmt: skip
_WITH_FUNCTION = {kind for kind in _KNOWN if "WithState" in kind}
_OF_VARIABLES = {kind for kind in _KNOWN if kind.startswith("transformWithState")}
_OF_SCALA = {"flatMapGroupsWithState", "transformWithState (Scala)"}
_OWN = ("$.value", "$.key.userKey")
"""Where entries of functions have users' own state; the grouping key is of the query."""
_ROWS = ("filters", "rows", FILTER_ON_KEYS)
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
        if name[0] not in ACCEPTABLE or bool(name[2]) is not (name[0] == _OF_CODE):
            raise DeclarationError(
                f"findings of {rule} cannot be accepted",
                advice=f"these can be: {', '.join(ACCEPTABLE)}:FUNCTION; after any other, Spark refuses or reads"
                " wrongly",
            )
    origin = known.origin if known is not None else ""
    is_by_position = old.settings.get(_ENCODING, "unsaferow") == "unsaferow"
    stored = with_plans(old, known)
    whole = list(sources_changed(old, new, known))
    if gap:
        whole.append(Finding("$", "SPK-17", _FINE, "", "", gap, flags=(Flag.UNVERIFIED,)))
    verdicts = [OperatorVerdict(None, None, tuple(whole), origin)]
    for was, becomes in matched(stored, new.operators):
        certain = was is None or becomes is None or is_certain(was, becomes, stored, new.operators)
        findings = tuple(_once(_operator(was, becomes, is_by_position=is_by_position, certain=certain)))
        verdicts.append(OperatorVerdict(was, becomes, findings, origin if was is not None and was.is_planned else ""))
    following = _next_command(verdicts, command)
    done = tuple(
        attrs.evolve(
            one, findings=tuple(_decided(with_command(each, command), accept, policy) for each in one.findings)
        )
        for one in verdicts
        if one.findings or one.new is not None or one.old is not None
    )
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
    recorded = {text for one in known.operators for text in _hidden_types(one)}
    kept = {text for one in known.operators for of in one.columns.values() for text in of.values()}
    for operator in new.operators:
        for of in (one for one in _details(operator) if one.kind == "type"):
            text = of.name.partition(" ")[2]
            if text in kept and _of_type(of)[0] not in recorded:
                yield f"the type of what {text} keeps"
    for operator in known.operators:
        for store, schema in operator.stores.items():
            paths = (f"key.{name}" for name in schema.key.names if "#" in name)
            texts = operator.columns.get(store, {})
            yield from (f"what {path} is computed from" for path in paths if texts and path not in texts)


def _next_command(verdicts: Iterable[OperatorVerdict], command: str) -> str:
    """Return the migration with the first option that each finding names; "": one of them is for its author to say."""
    options: list[str] = []
    for operator in verdicts:
        for finding in operator.findings:
            if finding.verdict is not _MIGRATE:
                continue
            ways = [one for one in finding.ways_out if MIGRATE in one]
            is_of_new_key = finding.rule == "SPK-11"  # one value for all stored keys
            if not ways or is_of_new_key or any(one.startswith(Flag.POSSIBLE_RENAME) for one in finding.flags):
                return ""
            options.append(ways[0].partition(MIGRATE)[2])
    return command + "".join(dict.fromkeys(options))


def _once(findings: Iterable[Finding]) -> Iterator[Finding]:
    """Yield findings; what is found on the keys of several stores of an operator is told once."""
    seen = set()
    for finding in findings:
        what = finding.rule, finding.path.rpartition(">")[2], finding.old, finding.new
        if what not in seen or ".key" not in finding.path:
            seen.add(what)
            yield finding


def _decided(finding: Finding, accept: tuple[str, ...], policy: Policy) -> Finding:
    if finding.rule == _OF_CODE:
        is_accepted = f"{finding.rule}:{finding.path[2:-1].removeprefix(_CODE)}" in accept
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
    return tuple(attrs.evolve(theirs[one.number], unreadable=one.unreadable) for one in old.operators)


def _same(one: QueryOperator, other: QueryOperator) -> bool:
    """Whether names and types of all stores are equal, as far as they are read."""

    def shown(operator: QueryOperator) -> dict[str, tuple[str, str]]:
        return {name: (of.key.describe(), of.value.describe()) for name, of in operator.stores.items()}

    return bool(one.unreadable) or shown(one) == shown(other)


def matched(
    old: tuple[QueryOperator, ...], new: tuple[QueryOperator, ...]
) -> Iterator[tuple[QueryOperator | None, QueryOperator | None]]:
    """Pair operators by what they are, not by number alone: one that is added ahead of another shifts the numbers.

    Operators of one kind are paired by all that is known of them, then by keys and number, then by keys alone where one
    only has these, then by number, and the last two of a kind with each other.
    """
    left, open_new = list(old), list(new)
    pairs: list[tuple[QueryOperator, QueryOperator]] = []

    def pair(of: Callable[[QueryOperator], object], *, unique: bool = False) -> None:
        sides: list[dict[tuple[str, object], list[QueryOperator]]] = [{}, {}]
        for side, operators in zip(sides, (left, open_new), strict=True):
            for one in operators:
                side.setdefault((one.kind, of(one)), []).append(one)
        for alike, others in sides[1].items():
            found = sides[0].get(alike, [])
            if len(found) == 1 and (len(others) == 1 or not unique):
                pairs.append((found[0], others[0]))
        paired = {id(one) for both in pairs for one in both}
        for operators in (left, open_new):
            operators[:] = [one for one in operators if id(one) not in paired]

    if all(one.is_planned for one in old):
        known = {id(one): _identity(one) for one in (*old, *new)}
        pair(lambda one: (one.number, *known[id(one)]))
        pair(lambda one: known[id(one)], unique=True)
    pair(lambda one: (one.number, one.keys))
    pair(lambda one: one.keys, unique=True)
    pair(lambda one: one.number)
    pair(lambda one: one.kind, unique=True)
    yield from sorted(pairs, key=lambda both: both[1].number)
    yield from ((None, one) for one in open_new)
    yield from ((one, None) for one in left)


def is_certain(
    was: QueryOperator, becomes: QueryOperator, old: tuple[QueryOperator, ...], new: tuple[QueryOperator, ...]
) -> bool:
    """Whether a pair is no guess: only these two are alike, or all of their kind keep their numbers."""
    ours, theirs = (tuple(one for one in side if one.kind == was.kind) for side in (old, new))
    if len(ours) == len(theirs) and (len(ours) == 1 or {one.number for one in ours} == {one.number for one in theirs}):
        return True
    alike = [one for side in (ours, theirs) for one in side if one.keys == was.keys]
    return alike == [was, becomes] or _same_columns(was, becomes, ours, theirs)


def _same_columns(
    was: QueryOperator, becomes: QueryOperator, old: tuple[QueryOperator, ...], new: tuple[QueryOperator, ...]
) -> bool:
    """Whether it is known what both compute, and only these two compute it."""

    def of(one: QueryOperator) -> tuple[object, object]:
        return one.columns, one.facts

    if not (was.is_planned and of(was) == of(becomes)):
        return False
    return all(of(one) != of(was) for side in (old, new) for one in side if one is not was and one is not becomes)


def _identity(one: QueryOperator) -> tuple[object, ...]:
    texts = sorted((store, sorted(columns.items())) for store, columns in one.columns.items())
    return one.keys, without_places(repr(texts)), without_places(repr(sorted(one.facts.items())))


def sources_changed(old: QueryDescription, new: QueryDescription, known: QueryDescription | None) -> Iterator[Finding]:
    """Yield what is found on the sources of a query, and on what else it reads."""
    was, now = known.sources if known is not None else old.sources, new.sources
    if known is not None and known.inputs is None:  # then a source that stands twice was recorded once
        was, now = (tuple(dict.fromkeys(names)) for names in (was, now))
    if old.sources and old is not known and len(old.sources) != len(new.sources):
        yield Finding(
            "$<sources>", "SPK-15", _REFUSED, str(len(old.sources)), str(len(new.sources)),
            "the number of streaming sources is another; Spark pairs them with its offsets by position, and refuses",
            ("keep the sources", _NEW),
        )  # fmt: skip
    elif known is not None and was != now:
        is_exchanged = sorted(was) == sorted(now)
        reason = "the sources changed places" if is_exchanged else "a source is another one"
        yield Finding(
            "$<sources>", "SPK-15", _REFUSED, ", ".join(was), ", ".join(now),
            f"{reason}; Spark pairs them with its offsets by position, and goes on from the offset of the other",
            ("keep the sources in the order of the old query", "accept it, if it is the same data: --accept SPK-15"),
        )  # fmt: skip
    if known is not None:
        yield from inputs_changed(known.inputs or (), new.inputs or ())


def _operator(
    was: QueryOperator | None, becomes: QueryOperator | None, *, is_by_position: bool, certain: bool
) -> Iterator[Finding]:
    """Yield what is found on an operator; `certain`: a migration pairs these two without being told."""
    there = was or becomes
    assert there is not None  # noqa: S101 - a pair has one
    if there.kind not in _KNOWN:
        advice = "run one batch of the old query with Spark 4.0 or later, which writes what it is"
        ways = (advice,) if there.kind == "unknown operator" else ()
        yield Finding(
            "$", "SPK-16", _REFUSED, was.kind if was else "", becomes.kind if becomes else "",
            "the kind of the operator is not known, so nothing can be said of its state", (*ways, _NEW),
        )  # fmt: skip
        return
    if was is None or becomes is None:
        yield _one_sided(was, becomes)
        return
    if was.number != becomes.number:
        yield Finding(
            "$", "SPK-14", _MIGRATE if certain else _REFUSED, f"operator {was.number}", f"operator {becomes.number}",
            "the operator has another number; Spark pairs operators by number, and would take the state of another one",
            (
                _COPY if certain else f"{_COPY} --map {was.number}:{becomes.number}",
                "keep the order of the operators, counted from the sink", _NEW,
            ),
        )  # fmt: skip
    if was.unreadable or becomes.unreadable:
        yield Finding(
            "$", "SPK-16", _REFUSED, "", "",
            f"its types cannot be compared: {was.unreadable or becomes.unreadable}",
            ("compare the code by hand, or start with a new checkpoint",),
        )  # fmt: skip
        return
    for store in sorted({*was.stores, *becomes.stores}):
        yield from _store(store, was, becomes, is_by_position=is_by_position)
    for name in sorted({*was.modes} & {*becomes.modes}):
        if was.modes[name] != becomes.modes[name]:
            yield Finding(
                "$", "SPK-20", _REFUSED, was.modes[name], becomes.modes[name],
                f"the {name} is another one; Spark refuses to start", (f"keep the {name} of the old query", _NEW),
            )  # fmt: skip
    if was.is_planned:
        modes = {f"$<{name}>" for name in {*was.modes} & {*becomes.modes}}  # Spark itself refuses another one
        yield from (one for one in facts_changed(was, becomes) if one.path not in modes)
    else:
        yield Finding("$", "SPK-17", _FINE, "", "", hidden_in(was.kind), flags=(Flag.UNVERIFIED,))


def hidden_in(kind: str) -> str:
    """Return what a checkpoint does not show of an operator of this kind, and how it would be known."""
    hidden = _HIDDEN.get(kind, _HIDDEN_OF_FUNCTIONS)
    return f"the checkpoint does not show {hidden}, and filters; name the old code with --was, or record the query"


def _one_sided(was: QueryOperator | None, becomes: QueryOperator | None) -> Finding:
    keep = "keep the stateful operators of the old query"
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
            (keep, f"drop its state: {MIGRATE} --map {was.number}:", _NEW),
        )
    reason = (
        "the checkpoint has no state for the operator: in a migrated copy it starts empty; it may shift the numbers of"
        " others"
    )
    return Finding("$", "SPK-14", _MIGRATE, "", becomes.kind, reason, (_COPY, keep, _NEW))


def _store(store: str, was: QueryOperator, becomes: QueryOperator, *, is_by_position: bool) -> Iterator[Finding]:
    """Yield what is found on a store of an operator."""
    old, new = was.stores.get(store), becomes.stores.get(store)
    if old is None and was.kind in _OF_VARIABLES and not store.startswith("$"):
        reason = "the variable is new, and has nothing for any key; Spark starts with it so"
        yield Finding(f"$<{store}>", "SPK-19", _FINE, "", store, reason)
        return
    if old is None or new is None:
        is_gone = was.kind in _OF_VARIABLES and not store.startswith("$")
        yield Finding(
            f"$<{store}>", "SPK-14", _REFUSED, store if old else "", store if new else "",
            "only one of both queries has the store: the format of its state, or its variables, changed",
            (
                f"migrate a copy, without it: {MIGRATE} --drop-variable {was.number}:{shell_word(store)}",
                f"take it under its new name: {MIGRATE} --rename-field {was.number}:{shell_word(store)}=NEW_NAME", _NEW,
            ) if is_gone else (_NEW,),
        )  # fmt: skip
        return
    found = list(origins(store, was, becomes))
    texts = becomes.columns.get(store, {}) if was.is_planned else {}
    renamed = {one.source: one.name for one in found if one.source}
    old_entry, new_entry = _entry(old, renamed), _entry(new, {})
    is_avro = not is_by_position and was.kind in _OF_VARIABLES
    pair = _Pair(store, was, old, new, Reading.of(was.kind, was.stores, becomes.stores, store, is_by_name=is_avro))
    if is_by_position and was.kind in _WITH_FUNCTION:
        old_entry, told = _in_place(old_entry, new_entry, "$")
        yield from map(pair.said, told)
    unclear = pair.unclear(old_entry, new_entry, {one.path for one in found if one.source})
    for finding in resolve(old_entry, new_entry):
        if finding.rule == "SPK-2" and finding.path in unclear:
            continue
        finding = pair.judged(_shown(finding), known=texts)  # noqa: PLW2901 - the same
        yield pair.said(_evolved(finding) if is_avro else finding)
    yield from map(pair.said, unclear.values())
    yield from (pair.said(pair.otherwise(one)) for one in found if not one.source)


@attrs.frozen
class _Pair:
    """A store of both queries.

    Attributes:
        store: Its name.
        was: The old operator.
        old: The old types.
        new: The new types.
        reading: Whether the names of fields say which stored ones they are.
    """

    store: str
    was: QueryOperator
    old: StoreSchema
    new: StoreSchema
    reading: Reading

    def said(self, finding: Finding) -> Finding:
        """Return a finding under the path that the options of a migration have for it."""
        path = f"$.{self._path(finding.path.removeprefix('$.'))}"
        flags = (one.replace(finding.path, path) for one in finding.flags)
        return attrs.evolve(finding, path=path, flags=tuple(flags))

    def judged(self, finding: Finding, known: Collection[str]) -> Finding:
        """Return a finding by what is possible in this store; `known` are the columns of which both texts are known.

        Where the types of all places are equal, a new field stands in the place of an old one, and Spark takes its
        value.
        """
        path = finding.path.removeprefix("$.")
        is_key = path.startswith("key.")
        if self.was.kind in _OF_SCALA and finding.verdict is _MIGRATE:
            return attrs.evolve(
                finding, verdict=_REFUSED, ways_out=("keep the types of the old query", _NEW),
                reason=f"{finding.reason}; state of Scala is what an encoder made of objects, and is never changed",
            )  # fmt: skip
        if finding.rule == "SPK-5" and self._is_unscaled(path):
            return attrs.evolve(
                finding, rule="SPK-6", verdict=_REFUSED, reason=UNSCALED,
                ways_out=("keep the type of the old query", _NEW),
            )  # fmt: skip
        if finding.rule == "SPK-6" and self._is_convertible(path):
            option = self._option("convert-field", self._path(path), "module:function")
            way = f"convert it with a function of yours: {MIGRATE} {option}"
            return attrs.evolve(finding, ways_out=(way, *finding.ways_out))
        if finding.rule == "SPK-4":
            return self._gone(finding, path, known)
        if finding.rule != "SPK-3":
            return finding
        if is_key and self.was.kind == JOIN:
            return attrs.evolve(
                finding, rule="SPK-11", verdict=_REFUSED,
                reason="the join is on more columns, and stored rows of one key would belong to several",
                ways_out=("keep the columns of the join", _NEW),
            )  # fmt: skip
        finding = attrs.evolve(finding, ways_out=(*self._filled(path), "leave it out", _NEW))
        if is_key:
            reason = (
                "the field is new in the key, and no stored key has a value for it: with one for all of them, only rows"
                " that have this value too find what is stored"
            )
            finding = attrs.evolve(finding, rule="SPK-11", reason=reason)
        is_unclear = self.reading.is_silent and not self.reading.is_buffer(path)
        if is_unclear and path not in known:
            return attrs.evolve(
                finding, verdict=_REFUSED,
                reason="a new field, or a stored one with another name: Spark reads what stood in its place, and the"
                " types do not say whether that is right",
                ways_out=(*self._renamed(path), *self._by_code(path), *finding.ways_out),
            )  # fmt: skip
        return attrs.evolve(finding, verdict=_REFUSED) if is_unclear and is_key else finding

    def _is_convertible(self, path: str) -> bool:
        """Whether a migration takes a function for a field: of keys not where those that become equal never merge."""
        part, _, name = path.partition(".")
        is_of_key = part == "key" or (self.was.kind == SESSION and name in self.old.key.names)
        never = {JOIN, SESSION, *_OF_VARIABLES}
        is_field = "{key}" not in path and not path.endswith(("]", "}"))
        return is_field and self.was.kind not in _OF_SCALA and not (is_of_key and self.was.kind in never)

    def _gone(self, finding: Finding, path: str, known: Collection[str]) -> Finding:
        """Return what is found on a field that is gone, and may be one that is new, if nobody says what both are."""
        renamed = [one for one in finding.flags if one.startswith(Flag.POSSIBLE_RENAME)]
        for flag in renamed:
            now = f"{path.rpartition('.')[0]}.{flag.rpartition('->')[2]}"
            if now in known or self.reading.is_buffer(now):
                kept = tuple(one for one in finding.flags if one != flag)
                return attrs.evolve(finding, flags=kept)
            option = self._option("rename-field", self._path(path), self._path(now))
            way = f"say that it is {now.rpartition('.')[2]!r} now: {MIGRATE} {option}"
            finding = attrs.evolve(finding, ways_out=(way, *self._by_code(path), *finding.ways_out))
        return finding

    def unclear(self, old: SparkType, new: SparkType, known: Collection[str]) -> dict[str, Finding]:
        """Return what is found on structs of which names and places say different things, by path."""
        found = {}
        for one, other in zip(old.fields, new.fields, strict=True):
            for path, before, after, names in self.reading.all_unclear(one.type, other.type, other.name, known):
                reason = (
                    f"names and places of {', '.join(names)} say different things: Spark reads by place, a migration by"
                    " name, and the types do not say which is right"
                )
                ways = (*self._by_code(path), *self._both_ways(path, before, after, names), _NEW)
                if self.reading.is_buffer(path):
                    reason = "the order of the fields decides which struct is the largest, and it is another one"
                    ways = ("keep the order of the old query", _NEW)
                listed = ", ".join(before.names), ", ".join(after.names)
                found[f"$.{path}"] = _shown(Finding(f"$.{path}", "SPK-2", _REFUSED, *listed, reason, ways))
        return found

    def otherwise(self, one: Origin) -> Finding:
        """Return what is found on a column that is computed from something else."""
        ways = () if one.is_of_key else self._filled(one.path)
        return Finding(
            f"$.{one.path}", "SPK-10", _REFUSED if one.is_of_key else _MIGRATE, one.was, one.now,
            "the column is computed from something else, and Spark goes on with what is stored",
            (
                *ways, "keep it as the old query computes it", _NEW,
                "accept that old and new values mix: --accept SPK-10",
            ),
        )  # fmt: skip

    def _path(self, path: str) -> str:
        return said_as(path, self.store, self.was)

    def _option(self, name: str, *paths: str) -> str:
        return f"--{name} {shell_word(f'{self.was.number}:' + '='.join(paths))}"

    def _filled(self, path: str) -> tuple[str, ...]:
        """Return how a migration gives values to a column."""
        part, _, name = path.partition(".")
        is_buffer = self.reading.is_buffer(path)
        is_whole = name in (self.new.key if part == "key" else self.new.value).names
        value = first_value(name, self.new.value) if is_buffer and is_whole else "" if is_buffer else "null"
        said = self._path(path)
        option = self._option("fill", said, value)
        ways = [f"start again from {value}: {MIGRATE} {option}"] if value else []
        if part == "value" and is_whole and (is_buffer or self.was.kind in _OF_VARIABLES):
            values = f'FieldChanges(fills={{"{said}": Backfill(history, "COLUMN")}})'
            ways.append(f"with the values of all history, in Python: migrate_checkpoint with {values}")
        return tuple(ways)

    def _renamed(self, path: str) -> tuple[str, ...]:
        """Return how a migration is told that a field is the one that stood in its place."""
        part, _, name = path.partition(".")
        before, after = (one.key if part == "key" else one.value for one in (self.old, self.new))
        if name not in after.names:
            return ()
        was = before.names[after.names.index(name)]
        option = self._option("rename-field", self._path(f"{part}.{was}"), self._path(path))
        return (f"say that it is {was!r}: {MIGRATE} {option}",)

    def _by_code(self, path: str) -> tuple[str, ...]:
        """Return that the old code would say it; it does not where it was named, nor of what a function keeps."""
        is_of_function = self.was.kind in _WITH_FUNCTION and f"$.{path}".startswith(_OWN)
        return () if self.was.is_planned or is_of_function else (_SAID_BY_CODE,)

    def _both_ways(self, path: str, before: SparkType, after: SparkType, names: Iterable[str]) -> tuple[str, ...]:
        """Return how a migration is told which stored field each one is: by place, or by name."""
        at = self._path(path)
        places = (pair for pair in zip(before.names, after.names, strict=True) if pair[0] != pair[1])
        renames = (self._option("rename-field", f"{at}.{was}", f"{at}.{now}") for was, now in places)
        keeps = (self._option("keep-field", f"{at}.{name}") for name in names)
        return (
            f"say that names were exchanged: {MIGRATE} {' '.join(renames)}",
            f"say that places were: {MIGRATE} {' '.join(keeps)}",
        )

    def _is_unscaled(self, path: str) -> bool:
        name = path.removeprefix("value.")
        if name not in self.old.value.names or name not in self.new.value.names:
            return False
        was, now = (one.fields[one.names.index(name)].type for one in (self.old.value, self.new.value))
        return self.reading.is_unscaled(path, was, now)


def _evolved(finding: Finding) -> Finding:
    """Return what is found on a value in avro: Spark itself reads it by the names of its fields, as it was written."""
    is_wider = finding.rule == "SPK-5" and {finding.old, finding.new} <= _AVRO_NUMBERS
    if not finding.path.startswith("$.value") or not (is_wider or finding.rule in {"SPK-2", "SPK-3"}):
        return finding
    reason = "values are in avro: Spark reads fields by name, a new one as null, and a number as the wider one"
    return attrs.evolve(finding, verdict=_FINE, reason=reason, ways_out=())


def _entry(schema: StoreSchema, renamed: Mapping[str, str]) -> SparkType:
    """Return the type of the entries of a store, under other names for some columns and fields, by their paths."""
    parts = ((part, _named(struct, part, renamed)) for part, struct in (("key", schema.key), ("value", schema.value)))
    return SparkType("struct", tuple(SparkField(part, of, is_nullable=False) for part, of in parts))


def _named(of: SparkType, path: str, renamed: Mapping[str, str]) -> SparkType:
    """Return a type with other names; a field whose name another one got is told apart by `_GONE`."""
    steps = {"array": ("[]",), "map": ("{key}", "{}")}.get(of.word)
    paths = [f"{path}{step}" for step in steps] if steps else [f"{path}.{name}" for name in of.names]
    fields = [
        attrs.evolve(field, type=_named(field.type, at, renamed)) for at, field in zip(paths, of.fields, strict=True)
    ]
    if of.word != "struct":
        return attrs.evolve(of, fields=tuple(fields))
    taken = {renamed[at] for at in paths if at in renamed}
    names = [
        renamed.get(at, f"{name}{_GONE}" if name in taken else name) for at, name in zip(paths, of.names, strict=True)
    ]
    named = (attrs.evolve(field, name=name) for field, name in zip(fields, names, strict=True))
    return attrs.evolve(of, fields=tuple(named))


def _shown(finding: Finding) -> Finding:
    """Return a finding without the marks of `_named`."""
    texts = {name: getattr(finding, name).replace(_GONE, "") for name in ("path", "old", "new", "reason")}
    ways, flags = (tuple(one.replace(_GONE, "") for one in of) for of in (finding.ways_out, finding.flags))
    return attrs.evolve(finding, **texts, ways_out=ways, flags=flags)


def _replaced(old: SparkType, new: SparkType) -> Iterator[tuple[str, str, bool]]:
    """Yield fields in the place of which another one stands, with its name, and whether it has the same type."""
    for at, (was, becomes) in enumerate(zip(old.names, new.names, strict=False)):
        if was not in new.names and becomes not in old.names:
            yield was, becomes, old.fields[at].type.describe() == new.fields[at].type.describe()


def _in_place(old: SparkType, new: SparkType, path: str) -> tuple[SparkType, list[Finding]]:
    """Return the type of users' own state under the names that its fields have now, and what is said of that.

    Of such a field only the name is known. Spark reads it by its position, which is right if only the name changed.
    """
    told = []
    is_own = path.startswith(_OWN)
    names = {was: becomes for was, becomes, is_alike in _replaced(old, new) if is_alike} if is_own else {}
    for was, becomes in names.items():
        told.append(
            Finding(
                f"{path}.{becomes}", "SPK-18", _FINE, was, becomes,
                "the field has another name in the same place; Spark reads the old value, which is right if only the"
                " name changed",
                flags=(f"{Flag.POSSIBLE_RENAME}:{was}->{becomes}",),
            )
        )  # fmt: skip
    fields = []
    for field, name in zip(old.fields, old.names, strict=True):
        now = names.get(name, name)
        of, kind = new.fields[new.names.index(now)].type if now in new.names else field.type, field.type
        if kind.word == of.word == "struct":
            kind, below = _in_place(kind, of, f"{path}.{now}")
            told += below
        fields.append(attrs.evolve(field, name=names.get(name, field.name), type=kind))
    return attrs.evolve(old, fields=tuple(fields)), told


def facts_changed(was: QueryOperator, becomes: QueryOperator) -> Iterator[Finding]:
    """Yield what decides what an operator keeps, and is another: filters, a time-out, a limit, code of functions."""
    yield from _details_changed(was, becomes)
    facts = [{without_places(name): text for name, text in one.facts.items()} for one in (was, becomes)]
    for name in sorted({*facts[0], *facts[1]}):
        before, after = (one.get(name, "") for one in facts)
        if without_places(before) == without_places(after) or (name.startswith(FILTER_ON_KEYS) and after):
            continue  # a new condition on keys: the state of a key has all of its rows, or is no longer asked for
        is_rows = name.startswith(_ROWS)
        rule = "SPK-13" if is_rows else "SPK-12"
        told = (
            "other rows reach the operator; its state is of those that reached it before"
            if is_rows
            else "it decides what the state keeps and how long; Spark leaves what is stored as the old one had it, and"
            " only new rows follow the new one"
        )
        yield Finding(
            f"$<{name}>", rule, _REFUSED, before, after, told,
            (
                "keep it as the old query has it", *_of_times(was, name, after), _NEW,
                f"accept that the state goes on: --accept {rule}",
            ),
        )  # fmt: skip


def _of_times(was: QueryOperator, name: str, after: str) -> tuple[str, ...]:
    """Return how a migration changes the time to live of what a variable has stored."""
    variable = shell_word(name.removeprefix(TIME_TO_LIVE))
    if not name.startswith(TIME_TO_LIVE) or not after:
        return ()
    said = f"{was.number}:{variable}={after.removesuffix(' ms')}"
    return (f"let stored entries expire so many milliseconds after the last batch: {MIGRATE} --ttl {said}",)


def _details_changed(was: QueryOperator, becomes: QueryOperator) -> Iterator[Finding]:
    """Yield what is another in types, the code of functions and the seeds of samples, which no text has."""
    yield from _types_changed(was, becomes)
    told = set()
    for what in was.details.keys() & becomes.details.keys():
        sides = was.details[what], becomes.details[what]
        if len(sides[0]) == len(sides[1]):  # else the texts differ
            told |= set(zip(*sides, strict=True))
    used = [set(_details(side)) for side in (was, becomes)]
    for before in used[0] - used[1] - {one for one, _ in told}:  # what a column of another name uses
        told |= {(before, after) for after in used[1] - used[0]}
    told = {
        (one, other)
        for one, other in told
        if (one.kind, one.name) == (other.kind, other.name) and one.value != other.value
    }
    for before, after in sorted(told, key=str):
        if before.kind == "function":
            pythons = [one.value.partition(":")[0] for one in (before, after)]
            reason = (
                "the code of the function, or what it uses, is another; the state is of what it did before"
                if pythons[0] == pythons[1]
                else "the code of the function cannot be compared: another version of Python read it, or none could"
            )
            yield Finding(
                f"$<{_CODE}{before.name}>", _OF_CODE, _FINE, before.value[:16], after.value[:16], reason,
                flags=(Flag.UNVERIFIED,),
            )  # fmt: skip
        elif before.kind == "seed" and min(abs(int(before.value)), abs(int(after.value))) < _DRAWN_SEED:
            yield Finding(
                "$<seed of the sample>", "SPK-13", _REFUSED, before.value, after.value,
                "other rows reach the operator; its state is of those that reached it before",
                ("keep the seed of the old query", _NEW, "accept that the state goes on: --accept SPK-13"),
            )  # fmt: skip


def _details(of: QueryOperator) -> Iterator[Detail]:
    return (one for details in of.details.values() for one in details)


def _of_type(detail: Detail) -> tuple[str, tuple[str, str]]:
    """Return an aggregate, the kind of its function, and the types in its buffers."""
    kind, _, text = detail.name.partition(" ")
    return of_buffer(without_places(text)), (kind, detail.value)


def _hidden_types(of: QueryOperator) -> dict[str, tuple[str, str]]:
    """Return the types that decide what is in the buffers of an operator, and that buffers do not show, by these."""
    return dict(_of_type(one) for one in _details(of) if one.kind == "type")


def _scale(decimal: str) -> str:
    return decimal.partition(",")[2]


def _types_changed(was: QueryOperator, becomes: QueryOperator) -> Iterator[Finding]:
    """Yield aggregates whose buffers have equal types, and mean something else: what is in them has another type."""
    before, after = _hidden_types(was), _hidden_types(becomes)
    for text in sorted(before.keys() & after.keys()):
        (kind, old), (_, new) = before[text], after[text]
        is_unscaled = kind in _UNSCALED
        if old == new or (is_unscaled and _scale(old) == _scale(new)):
            continue
        if is_unscaled or kind in _OF_VALUES:
            told = (
                "Spark sums decimals of up to 8 digits as whole numbers, and goes on as if those had the new scale"
                if is_unscaled
                else "Spark keeps the values as bytes, and goes on as if those were of the new type"
            )
            ways = ("keep the type of the old query", _NEW)
            yield Finding(f"$<{text}>", "SPK-22", _REFUSED, old, new, told, ways)
        else:
            yield Finding(
                f"$<{text}>", "SPK-22", _FINE, old, new,
                "Spark keeps a summary as bytes; it is not known whether one of the old type counts for the new one",
                flags=(Flag.UNVERIFIED,),
            )  # fmt: skip


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
