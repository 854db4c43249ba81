"""Formatting of a difference: plain data for programs, lines for people."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...compat.explain import IF_NO_KEY_GROUPS, MUST_DECLARE, STYLES, finding_line
from ...compat.likeness import alike
from ...compat.plain_data import fields_of, plain
from ...compat.type_difference import Kind, state_type_text
from ...serializers.compatibility import Decision
from ...serializers.wording import many

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...compat.description import StateDescription
    from ...compat.difference import Difference, OperatorDifference, StateDifference, Way
    from ...compat.type_difference import Change
    from ...serializers.compatibility import Finding, Flagged, Path
    from ..output import Line, Span

_SIGNS = {Kind.ADDED: ("+", "green"), Kind.REMOVED: ("-", "red")}
_WIDEST = 94
"""Types are cut to this, so that one fits a line of its own."""
_FORWARDS, _BACKWARDS = "A -> B", "B -> A"
_SAID = "said of another"


def to_data(difference: Difference) -> dict[str, Any]:
    """Return a difference as plain data; its field names are stable.

    Returns:
        `equal`, `a` and `b` (the origins of the sides), `forwards` and `backwards` (the worst decision of B on the
        state of A, and of A on the state of B; null if they have no state in common), `query` (findings on a query of
        SQL beside its operators), and `operators`. Each operator has `operator_id`, `uid`, `moved` (its uid in B if
        that is another one), `sides` (both, a, b), `equal`, `flink_restorable` (`a` and `b`), `max_parallelism` (null
        if equal, else `a`, `b`, `forwards` and `backwards`), `unreadable`, `key` and `work` (null, or `changes`,
        `forwards`, `backwards`) and `states`. Each state has `name`, `sides`, `equal`, `kind` and `type` (each `a` and
        `b`, null if a side lacks it), `changes` (each `path`, `kind`, `a`, `b`), `forwards` and `backwards`: null if it
        is not on both sides, else `decision`, `verdict`, `findings`.
    """
    return fields_of(difference, "equal=is_equal a=a.origin b=b.origin forwards backwards") | {
        "query": plain(difference.query),
        "operators": [_operator_data(operator) for operator in difference.operators],
    }


def _operator_data(operator: OperatorDifference) -> dict[str, Any]:
    groups, key = operator.max_parallelism, operator.key
    return {
        **fields_of(operator, "operator_id uid moved?"),
        "sides": _sides(operator.a, operator.b),
        "equal": operator.is_equal,
        "flink_restorable": fields_of(operator, "a=a.is_flink_restorable b=b.is_flink_restorable"),
        "max_parallelism": None if groups is None else _both(*groups) | _directions(operator),
        **fields_of(operator, "unreadable?"),
        "key": None if key is None else _ways_data(key),
        "work": None if operator.work is None else _ways_data(operator.work),
        "states": [
            {
                "name": state.name,
                "sides": _sides(state.a, state.b),
                "equal": state.is_equal,
                "kind": fields_of(state, "a=a.kind b=b.kind"),
                "type": _both(state.a and state_type_text(state.a), state.b and state_type_text(state.b)),
                **_ways_data(state),
            }
            for state in operator.states
        ],
    }


def _both(a: Any, b: Any) -> dict[str, Any]:
    return {"a": a, "b": b}


def _sides(a: object, b: object) -> str:
    return "both" if a and b else "a" if a else "b"


def _ways_data(state: StateDifference) -> dict[str, Any]:
    return {
        "changes": plain(state.changes, "path kind a? b? what?"),
        **_directions(state),
    }


def _directions(of: OperatorDifference | StateDifference) -> dict[str, Any]:
    return {
        "forwards": plain(of.forwards, "decision verdict findings"),
        "backwards": plain(of.backwards, "decision verdict findings"),
    }


def text_lines(difference: Difference, *, everything: bool = False) -> list[Line]:
    """Return a difference as lines: equal states are counted, changes are shown.

    Args:
        difference: The difference to print.
        everything: Whether equal changes are printed for each state, instead of once for all.
    """
    lines: list[Line] = [
        _headline(difference),
        [(f"  A  {difference.a.origin}", "dim")],
        [(f"  B  {difference.b.origin}", "dim")],
    ]
    if difference.forwards is None or difference.backwards is None:
        lines.append([("  A and B have no state in common", "yellow")])
    elif not difference.is_equal or any(operator.moved for operator in difference.operators):
        lines += [
            [(f"  {_FORWARDS}: ", "dim"), _meaning(difference.forwards, "B", "A", asks=_asks(difference, "forwards"))],
            [
                (f"  {_BACKWARDS}: ", "dim"),
                _meaning(difference.backwards, "A", "B", asks=_asks(difference, "backwards")),
            ],
        ]
    lines += [[(f"  {finding_line(one)}", "yellow")] for one in difference.query]
    places = {} if everything else _places(difference)
    for operator in difference.operators:
        if (not operator.is_equal or operator.moved) and (told := list(_operator_lines(operator, places))):
            lines += [[], *told]
    return lines


def _places(difference: Difference) -> dict[int, str]:
    """Return, by the id of each changed state, the other places with equal changes, or SAID if one of them is shown."""
    changed = [
        (operator, state)
        for operator in difference.operators
        for state in operator.states
        if state.a and state.b and not state.is_equal
    ]
    shown = alike(
        changed,
        lambda one: _shown(one[1]),
        lambda one: f"{one[0].uid or one[0].operator_id}/{one[1].name}",
    )
    return {id(state): _SAID for _, state in changed} | {id(state): places for (_, state), places in shown}


def _shown(state: StateDifference) -> tuple[object, ...]:
    """Return what is shown of a state beside its name and type, as data."""
    ways = [one for one in (state.forwards, state.backwards) if one is not None]
    findings = state.forwards.findings if state.forwards is not None else ()
    within = [one for change in state.changes for one in _within(change, sorted(findings, key=_path))]
    return state.changes, within, [(way.decision, _flags(way), way.refusals, way.note) for way in ways]


def _headline(difference: Difference) -> Line:
    states = [state for operator in difference.operators for state in operator.states]
    if difference.is_equal:
        words = f": {many(len(difference.operators), 'operator')} with {many(len(states), 'state')}"
        if any(operator.moved for operator in difference.operators):
            words += ", of which some have another uid in B, which a migration gives them"
        return [("equal", "green"), (words, "bold")]
    hidden = [operator for operator in difference.operators if operator.unreadable]
    if hidden and not difference.is_different:
        return [("unclear", "yellow"), (f": states of {many(len(hidden), 'operator')} cannot be read", "bold")]
    differing = sum(not state.is_equal for state in states)
    if not differing:
        return [("different", "yellow"), (f": {many(len(states), 'state')} are equal, their operators are not", "bold")]
    keys = sum(bool(operator.key and operator.key.changes) for operator in difference.operators)
    what = f": {differing:,} of {many(len(states), 'state')}"
    return [("different", "yellow"), (what + (f", {many(keys, 'key')}" if keys else ""), "bold")]


def _asks(difference: Difference, direction: str) -> bool:
    """Whether one direction depends on whether a job sets its max parallelism."""
    return any(getattr(operator, direction) is not None for operator in difference.operators)


def _meaning(decision: Decision, taker: str, giver: str, *, asks: bool) -> Span:
    """Return the sentence on the decision of one direction, for all states that both sides have."""
    condition = f", {IF_NO_KEY_GROUPS}" if asks and decision is Decision.START else ""
    meanings = {
        Decision.START: f"{taker} can use the state of {giver} as it is",
        Decision.MIGRATE: f"{taker} can use the state of {giver} after a migration",
        Decision.REFUSE: f"{taker} cannot use all of the state of {giver}",
    }
    return f"{decision}{condition}; {meanings[decision]}", STYLES[decision]


def _operator_lines(operator: OperatorDifference, places: dict[int, str]) -> list[Line]:
    """Return the lines on an operator; empty if all its changes were printed for another one."""
    own = list(_own_lines(operator))
    shown = [state for state in operator.states if not state.is_equal and places.get(id(state)) != _SAID]
    if len(own) == 1 and operator.a and operator.b and not shown and not operator.moved:
        return []
    for state in shown:
        own += _state_lines(state)
        if elsewhere := places.get(id(state)):
            own.append([(f"    {elsewhere}", "dim")])
    equal = [state.name for state in operator.states if state.is_equal]
    return [*own, *([[(f"  equal: {', '.join(equal)}", "dim")]] if equal else [])]


def _own_lines(operator: OperatorDifference) -> Iterator[Line]:
    title = f"operator {operator.uid} ({operator.operator_id})" if operator.uid else f"operator {operator.operator_id}"
    if operator.moved:
        title += f", in B {operator.moved}"
    if operator.a is None or operator.b is None:
        only = f": only in {_sides(operator.a, operator.b).upper()}"
        yield [(title, "bold"), (f"{only}, with {many(len(operator.states), 'state')}", "")]
    else:
        yield [(title, "bold")]
    if operator.unreadable:
        yield [(f"  not all states can be read, {operator.unreadable}", "red")]
        yield [("  what to do: import the module that registers the class (--import MODULE)", "")]
    if operator.max_parallelism is not None:
        yield [(f"  max parallelism  {operator.max_parallelism[0]} -> {operator.max_parallelism[1]}", "")]
        for arrow, way in ((_FORWARDS, operator.forwards), (_BACKWARDS, operator.backwards)):
            if way is not None:
                yield from _way_lines(arrow, way)
                yield from ([(f"      {finding_line(one)}", "")] for one in way.findings if one.flags)
    if operator.a and operator.b and operator.a.is_flink_restorable is not operator.b.is_flink_restorable:
        words = (_restorable(side.is_flink_restorable) for side in (operator.a, operator.b))
        yield [(f"  restorable by Flink  {' -> '.join(words)}", "")]
    if any(side and side.is_flink_restorable and side.has_custom_raw_keyed_state for side in (operator.a, operator.b)):
        yield [(f"  {MUST_DECLARE}", "yellow")]
    if operator.work is not None:
        yield [("  what it does", "bold")]
        yield from _change_lines(operator.work)
    if operator.key is not None and operator.key.changes:
        yield [("  key", "bold")]
        yield from _change_lines(operator.key)


def _restorable(known: bool | None) -> str:  # noqa: FBT001 - a value, not a switch
    return {True: "yes", False: "no", None: "unknown"}[known]


def _state_lines(state: StateDifference) -> Iterator[Line]:
    if state.a is None or state.b is None:
        side: StateDescription | None = state.a or state.b
        assert side is not None  # noqa: S101 - a state is on at least one side
        sign, style = _SIGNS[Kind.REMOVED if state.a else Kind.ADDED]
        yield [(f"  {sign} {state.name}", style), (f"  {side.kind}  {state_type_text(side, _WIDEST)}", "")]
        return
    types = state.a.describe()
    if state.a.kind is state.b.kind:
        types = f"{state.a.kind}  {types}"
    yield [(f"  {state.name}", "bold"), (f"  {types}", "")]
    yield from _change_lines(state)


def _change_lines(state: StateDifference) -> Iterator[Line]:
    width = min(max((len(change.path) for change in state.changes), default=0), _WIDEST // 2)
    findings = sorted(state.forwards.findings if state.forwards is not None else (), key=_path)
    for change in state.changes:
        sign, style = _SIGNS.get(change.kind, ("~", "yellow"))
        yield [(f"    {sign} {change.path:<{width}}", style), (f"  {_words(change)}", "")]
        for finding in _within(change, findings):
            yield [(f"        {finding_line(finding)}", "dim")]
    for arrow, way in ((_FORWARDS, state.forwards), (_BACKWARDS, state.backwards)):
        if way is not None:
            yield from _way_lines(arrow, way)


def _within(change: Change, findings: list[Finding]) -> Iterator[Finding]:
    """Yield the findings inside a type without described fields, such as an Avro schema."""
    if change.kind in {Kind.TYPE, Kind.VALUES}:
        yield from (one for one in findings if one.path != change.path and one.path.is_within(change.path))


def _path(finding: Finding) -> Path:
    return finding.path


def _words(change: Change) -> str:
    if change.kind in {Kind.ADDED, Kind.REMOVED}:
        return change.a or change.b
    if change.kind is Kind.VALUES:
        return "the types are equal, what the values are is not"
    kind = change.what or change.kind
    word = "" if change.kind in {Kind.TYPE, Kind.OPTIONAL} else f"{kind}  "
    return f"{word}{change.a} -> {change.b}"


def _flags(way: Way) -> list[Flagged]:
    """Return the flags of what a migration does."""
    if way.decision is not Decision.MIGRATE:
        return []
    causes = (finding for finding in way.findings if finding.verdict.decision is Decision.MIGRATE)
    return list(dict.fromkeys(flag for finding in causes for flag in finding.flags))


def _way_lines(arrow: str, way: Way) -> Iterator[Line]:
    flags = _flags(way)
    told = f"  {' '.join(map(str, flags))}" if flags else ""
    yield [(f"    {arrow}: ", "dim"), (str(way.decision), STYLES[way.decision]), (told, "")]
    for finding in way.refusals:
        yield [(f"      {finding_line(finding)}", "")]
    if way.note and way.decision is not Decision.MIGRATE:
        yield [(f"      {way.note}", "")]
