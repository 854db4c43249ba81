"""Names for the way back: what a later revision renamed is found by its old name's revision, too.

An alias says that a field of a new class is one of an old class, under another name. On the way back the old class
reads what the new one stored. It knows nothing of the new name; but a history has both, and so the alias can be turned
round. It is followed through all revisions between, as a state would have been migrated by each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from ..serializers.avro.rules import same_name
from ..serializers.avro.schema import parse, with_aliases
from ..serializers.avro.serializers import AvroSerializer
from ..serializers.enums.serializers import EnumSerializer
from ..serializers.errors import StateShiftError
from ..serializers.records.serializers import DescribedRecordSerializer
from ..serializers.serializer import DECLARED, IDENTITY

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ..serializers.avro.schema import Node
    from .declarations import Facts
    from .description import JobDescription, OperatorDescription, SerializerDescription, StateDescription


def knowing_later_names(job: JobDescription, later: Sequence[JobDescription]) -> JobDescription:
    """Return a recorded revision that knows the names which later revisions gave to what it declares.

    Args:
        job: The revision to go back to.
        later: The revisions that follow it, the oldest first; the last one has written the state.
    """
    if not later:
        return job
    return attrs.evolve(job, operators=tuple(_operator(operator, later) for operator in job.operators))


def _operator(operator: OperatorDescription, later: Sequence[JobDescription]) -> OperatorDescription:
    followed = [next((one for one in job.operators if one.operator_id == operator.operator_id), None) for job in later]
    found = [one for one in followed if one is not None]
    if len(found) < len(later):
        return operator
    states = tuple(_state(state, found) for state in operator.states)
    return attrs.evolve(operator, key=_part(operator.key, [one.key for one in found]), states=states)


def _state(state: StateDescription, later: Sequence[OperatorDescription]) -> StateDescription:
    followed = [
        next((one for one in operator.states if (one.kind, one.name) == (state.kind, state.name)), None)
        for operator in later
    ]
    found = [one for one in followed if one is not None]
    if len(found) < len(later):
        return state
    key = _part(state.key, [one.key for one in found])
    value = _part(state.value, [one.value for one in found])
    assert value is not None  # noqa: S101 - a state has a value
    return attrs.evolve(state, key=key, value=value)


def _part(part: SerializerDescription | None, later: Sequence[SerializerDescription | None]) -> Any:
    """Return the description of a serializer with further aliases among its declarations."""
    if part is None or part.serializer is not None or None in later:
        return part
    facts: Facts = {}
    try:
        _follow(part.new_side(), [one.new_side() for one in later if one is not None], "", facts)
    except StateShiftError:
        return part  # one of them cannot be restored, and is not known
    if not facts:
        return part
    declared = {path: dict(said) for path, said in (part.declared or {}).items()}
    for path, said in facts.items():
        declared.setdefault(path, {}).update(said)
    return attrs.evolve(part, declared=declared)


def _follow(here: Any, later: Sequence[Any], path: str, facts: Facts) -> None:
    """Collect the aliases of a part and of all that is within it."""
    if isinstance(here, tuple):
        for index, one in enumerate(here):
            if all(isinstance(other, tuple) and len(other) > index for other in later):
                _follow(one, [other[index] for other in later], f"{path}[{index}]", facts)
    elif isinstance(here, DescribedRecordSerializer):
        if all(isinstance(other, DescribedRecordSerializer) for other in later):
            _follow_record(here, later, path, facts)
    elif isinstance(here, EnumSerializer):
        if all(isinstance(other, EnumSerializer) for other in later):
            _follow_enum(here, later, path, facts)
    elif isinstance(here, AvroSerializer):
        if all(isinstance(other, AvroSerializer) for other in later):
            found: dict[tuple[str, str], list[str]] = {}
            _follow_node(parse(here.schema), [parse(other.schema) for other in later], found)
            if any(found.values()):
                facts.setdefault(path, {})["read_as"] = with_aliases(here.schema, found)
    elif attrs.has(type(here)) and all(type(other) is type(here) for other in later):
        _follow_parts(here, later, path, facts)


def _follow_parts(here: Any, later: Sequence[Any], path: str, facts: Facts, *, without: str = "") -> None:
    for field in attrs.fields(type(here)):
        is_declared = DECLARED.items() <= field.metadata.items() or IDENTITY.items() <= field.metadata.items()
        if field.init and not is_declared and not field.name.startswith("_") and field.name != without:
            others = [getattr(other, field.name) for other in later]
            _follow(getattr(here, field.name), others, f"{path}.{field.name}", facts)


def _follow_record(here: Any, later: Sequence[Any], path: str, facts: Facts) -> None:
    if not _follow_name(here, later, path, facts):
        return
    names = [field.name for field in here.fields]
    steps = [{field.name: field.aliases for field in other.fields} for other in later]
    for index, field in enumerate(here.fields):
        became = _became(field.name, names, steps)
        if not became:
            continue
        place = f"{path}.fields[{index}]"
        if became[-1] not in {*names, *field.aliases}:
            facts.setdefault(place, {})["aliases"] = [*field.aliases, became[-1]]
        others = [
            next(one.serializer for one in other.fields if one.name == name)
            for other, name in zip(later, became, strict=True)
        ]
        _follow(field.serializer, others, f"{place}.serializer", facts)
    _follow_parts(here, later, path, facts, without="fields")


def _follow_enum(here: Any, later: Sequence[Any], path: str, facts: Facts) -> None:
    if not _follow_name(here, later, path, facts):
        return
    steps = []
    for other in later:
        former = dict(other.symbol_aliases)
        steps.append({symbol: tuple(former.get(symbol, ())) for symbol in other.symbols})
    known = dict(here.symbol_aliases)
    claimed = {name for names in known.values() for name in names} | set(here.symbols)
    more = {}
    for symbol in here.symbols:
        became = _became(symbol, here.symbols, steps)
        if became and became[-1] not in claimed:
            more[symbol] = [*known.get(symbol, ()), became[-1]]
            claimed.add(became[-1])
    if more:
        every = {symbol: list(names) for symbol, names in known.items()} | more
        facts.setdefault(path, {})["symbol_aliases"] = [[symbol, names] for symbol, names in every.items()]


def _follow_name(here: Any, later: Sequence[Any], path: str, facts: Facts) -> bool:
    """Follow the name of a class; return False if a later class is not said to be the same one."""
    names = {here.name, here.python_name}
    for other in later:
        if not (names - {""}) & {other.name, other.python_name, *other.aliases}:
            return False
        names = {other.name, other.python_name}
    name = later[-1].name
    if name not in {here.name, here.python_name, *here.aliases}:
        facts.setdefault(path, {})["aliases"] = [*here.aliases, name]
    return True


def _follow_node(here: Node, later: Sequence[Node], found: dict[tuple[str, str], list[str]]) -> None:
    """Collect the aliases of a type of an Avro schema and of all that is within it; each named type once."""
    if any(other.type != here.type for other in later) or (here.name, "") in found:
        return
    if here.type in {"array", "map"}:
        _follow_node(here.inner, [other.inner for other in later], found)
    elif here.type == "union":
        for branch in here.branches:
            chain = [branch]
            for other in later:
                chain += _goes_on(chain[-1], other)
            if len(chain) == len(later) + 1:
                _follow_node(branch, chain[1:], found)
    elif here.name:
        before = here
        for other in later:
            if not same_name(before, other):
                return
            before = other
        is_known = later[-1].short_name == here.short_name or later[-1].name in here.aliases
        found[here.name, ""] = [] if is_known else [later[-1].name]
        names = [field.name for field in here.fields]
        steps = [{field.name: field.aliases for field in other.fields} for other in later]
        for field in here.fields:
            became = _became(field.name, names, steps)
            if not became:
                continue
            if became[-1] not in {*names, *field.aliases}:
                found[here.name, field.name] = [became[-1]]
            nodes = [
                next(one.node for one in other.fields if one.name == name)
                for other, name in zip(later, became, strict=True)
            ]
            _follow_node(field.node, nodes, found)


def _goes_on(branch: Node, union: Node) -> list[Node]:
    """Return the branch of a later union that goes on from one, if there is just one."""
    alike = [one for one in union.branches if one.type == branch.type and (not one.name or same_name(branch, one))]
    return alike if len(alike) == 1 else []


def _became(name: str, names: Iterable[str], steps: Sequence[Mapping[str, Sequence[str]]]) -> list[str]:
    """Return the name of a field or symbol in each later revision, or nothing if it is gone in one (rule REC-6).

    Args:
        name: The name in the revision to go back to.
        names: All names there.
        steps: The names in each later revision, with their aliases.
    """
    found: list[str] = []
    before = set(names)
    for step in steps:
        by_alias = {
            next((alias for alias in aliases if alias in before), ""): one
            for one, aliases in step.items()
            if one not in before
        }
        became = name if name in step else by_alias.get(name, "")
        if not became:
            return []
        found.append(became)
        name, before = became, set(step)
    return found
