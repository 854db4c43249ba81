"""The time to live of each state of a compiled plan: shown, questioned, and edited.

A plan has it for the states of some operators. It does not say whether a value came from a hint of the query or from
the pipeline. The state of other operators follows the running job's `table.exec.state.ttl`, or goes when time passes.

Durations are read and written as by Flink's `TimeUtils`: a number and a unit; a number alone is milliseconds; 0 means
that state never expires. Source: specs of SQL operators, C; `TimeUtils` of Flink 2.3.
"""

from __future__ import annotations

import enum
import re
from collections import Counter
from typing import TYPE_CHECKING

import attrs

from ...serializers.errors import CorruptFile, DeclarationError, StateShiftError
from .lineage import Lineage

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from .compiled_plan import CompiledPlan, PlanNode, PlanState

_UNITS = {
    "d day days": 86_400_000_000_000, "h hour hours": 3_600_000_000_000, "m min minute minutes": 60_000_000_000,
    "s sec second seconds": 1_000_000_000, "ms milli millis millisecond milliseconds": 1_000_000,
    "µs micro micros microsecond microseconds": 1_000, "ns nano nanos nanosecond nanoseconds": 1,
}  # fmt: skip
_NANOS = {label: nanos for labels, nanos in _UNITS.items() for label in labels.split()}
_WRITTEN = {labels.split()[0]: nanos for labels, nanos in _UNITS.items()}
_DURATION = re.compile(r"(?P<number>\d+)\s*(?P<unit>[a-zµ]*)")
_MOST_NANOS = (1 << 63) * 1_000_000_000
_MILLI = 1_000_000


class Expiry(enum.Enum):
    """What decides how long an operator keeps state, where the plan has no time to live for it."""

    OF_THE_JOB = "table.exec.state.ttl of the running job"
    BY_TIME = "the passing of time; a time to live changes nothing"


EXPIRY = {
    **dict.fromkeys(("over-aggregate", "temporal-join", "match", "python-group-aggregate"), Expiry.OF_THE_JOB),
    **dict.fromkeys(
        (
            "window-aggregate", "global-window-aggregate", "group-window-aggregate", "window-table-function",
            "window-join", "window-rank", "window-deduplicate", "interval-join", "temporal-sort",
        ),
        Expiry.BY_TIME,
    ),
}  # fmt: skip
"""By kind of operator."""


@attrs.frozen
class Duration:
    """A time to live.

    Attributes:
        nanos: Its nanoseconds; 0: for ever.
        is_bare: Whether it was written without a unit.
    """

    nanos: int
    is_bare: bool = False

    @classmethod
    def parsed(cls, text: str) -> Duration | None:
        """Return the duration of a text; None if Flink would not read it."""
        found = _DURATION.fullmatch(text.strip().lower())
        nanos = _NANOS.get(found["unit"] or "ms") if found else None
        if found is None or nanos is None or int(found["number"]) * nanos >= _MOST_NANOS:
            return None
        return cls(int(found["number"]) * nanos, not found["unit"])

    @property
    def millis(self) -> int:
        """Its whole milliseconds."""
        return self.nanos // _MILLI

    def written(self) -> str:
        """Return it as Flink writes it: in the largest unit of which it is a whole number."""
        if not self.nanos:
            return "0 ms"
        unit, nanos = next((unit, nanos) for unit, nanos in _WRITTEN.items() if not self.nanos % nanos)
        return f"{self.nanos // nanos} {unit}"

    def describe(self) -> str:
        """Return it in words."""
        return self.written() if self.nanos else "never"

    def is_shorter(self, other: Duration) -> bool:
        """Whether state with this time to live goes before state with the other one."""
        return bool(self.nanos) and (not other.nanos or self.nanos < other.nanos)


def ttl_of(plan: CompiledPlan, node: PlanNode, state: PlanState) -> Duration:
    """Return the time to live of a state.

    Raises:
        CorruptFile: Flink would not read it.
    """
    found = Duration.parsed(state.ttl)
    if found is None:
        raise CorruptFile(
            f"line {node.line}, {node.title}: the time to live {state.ttl!r} of {state.name} is no duration of Flink",
            file=plan.place,
            advice="correct it, such as to 3 s, 1 d or 0 ms",
        )
    return found


@attrs.frozen
class Doubt:
    """A time to live that may not be meant.

    Attributes:
        node: The operator.
        state: The name of the state.
        why: What is odd.
    """

    node: PlanNode
    state: str
    why: str


def doubts(plan: CompiledPlan) -> Iterator[Doubt]:
    """Yield what may not be meant: state that goes before that of the operators whose changes it has to find."""
    longest, lineage = _LongestBefore(plan), Lineage(plan)
    for node in plan.nodes.values():
        inputs = plan.inputs(node)
        for state in node.states:
            own = ttl_of(plan, node, state)
            if own.is_bare:
                yield Doubt(node, state.name, f"{state.ttl!r} has no unit: Flink reads milliseconds")
            sides = inputs if len(inputs) != len(node.states) else [inputs[state.index]]
            changing = [side for side in sides if _may_change(lineage, side)]
            before = [found for side in changing if (found := longest.of(side)) is not None]
            for other, its_ttl in before:
                if own.is_shorter(its_ttl):
                    yield Doubt(
                        node, state.name,
                        f"it goes after {own.describe()}, and {other.title} before it keeps state"
                        f" {'for ever' if not its_ttl.nanos else f'for {its_ttl.describe()}'}: a later change of a row"
                        " that is gone finds nothing",
                    )  # fmt: skip


def _may_change(lineage: Lineage, node: PlanNode) -> bool:
    """Whether rows that an operator has sent may be changed or taken back later, as far as the plan can tell."""
    try:
        return not lineage.rows(node).is_insert_only
    except StateShiftError:  # a node that is not understood may do anything
        return True


class _LongestBefore:
    """Finds the operator at or before another one that keeps its state the longest."""

    def __init__(self, plan: CompiledPlan) -> None:
        self._plan = plan
        self._found: dict[int, tuple[PlanNode, Duration] | None] = {}

    def of(self, node: PlanNode) -> tuple[PlanNode, Duration] | None:
        """Return it, with that time; None if none keeps state for a time that the plan has."""
        pending = [node]
        while pending:
            one = pending[-1]
            inputs = self._plan.inputs(one)
            missing = [other for other in inputs if other.id not in self._found and other not in pending]
            if missing:
                pending += missing
                continue
            pending.pop()
            own = [(one, ttl_of(self._plan, one, state)) for state in one.states]
            known = [*own, *(found for other in inputs if (found := self._found.get(other.id)))]
            self._found[one.id] = max(known, key=lambda found: found[1].nanos or _MOST_NANOS) if known else None
        return self._found[node.id]


@attrs.frozen
class Edit:
    """A new time to live.

    Attributes:
        node: The operator.
        state: The state.
        ttl: The new time.
        was: The time before.
    """

    node: PlanNode
    state: PlanState
    ttl: Duration
    was: Duration


def parse_edit(plan: CompiledPlan, text: str) -> Edit:
    """Return the edit of a text, `NODE=TTL` or `NODE:INDEX=TTL`; the index may be a state's name.

    Raises:
        DeclarationError: There is no such node or state, it is not said which of several is meant, or the time is none.
    """
    target, equals, given = text.partition("=")
    number, colon, which = target.partition(":")
    ttl = Duration.parsed(given)
    if not equals or not number:
        raise DeclarationError.before_writing(f"{text!r} sets nothing", advice="write NODE=TTL or NODE:INDEX=TTL")
    if ttl is None:
        raise DeclarationError.before_writing(
            f"{given!r} is no duration of Flink",
            advice="write a number and a unit, such as 3s, 15 min or 1d; 0 is never",
        )
    node = _chosen_node(plan, number)
    states = [one for one in node.states if not colon or which in {str(one.index), one.name}]
    if len(states) != 1:
        known = ", ".join(f"{node.id}:{one.index} ({one.name})" for one in node.states)
        what = f"has no state {which!r}" if colon else f"has {len(node.states)} states"
        raise DeclarationError.before_writing(f"{node.title} {what}", advice=f"name one of {known}")
    return Edit(node, states[0], ttl, ttl_of(plan, node, states[0]))


def _chosen_node(plan: CompiledPlan, name: str) -> PlanNode:
    found = [node for node in plan.nodes.values() if name in {str(node.id), node.title}]
    known = ", ".join(node.title for node in plan.nodes.values() if node.states) or "none"
    if not found:
        raise DeclarationError.before_writing(
            f"the plan has no operator {name!r}", advice=f"those with a time to live are {known}"
        )
    if not found[0].states:
        why = EXPIRY.get(found[0].kind)
        more = f": its state follows {why.value}" if why else ""
        raise DeclarationError.before_writing(
            f"the plan has no time to live for {found[0].title}{more}", advice=f"those with one are {known}"
        )
    return found[0]


def edited(plan: CompiledPlan, edits: Sequence[Edit]) -> str:
    """Return the text of the plan with new times; all other characters are as they were.

    Raises:
        DeclarationError: A state is given two times.
    """
    twice = next((place for place, count in Counter(edit.state.start for edit in edits).items() if count > 1), None)
    if twice is not None:
        edit = next(edit for edit in edits if edit.state.start == twice)
        raise DeclarationError.before_writing(
            f"{edit.state.name} of {edit.node.title} is given two times", advice="give it one"
        )
    text = plan.text
    for edit in sorted(edits, key=lambda edit: -edit.state.start):
        text = f'{text[: edit.state.start]}"{edit.ttl.written()}"{text[edit.state.end :]}'
    return text
