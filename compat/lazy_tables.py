"""The tables of a state that is migrated lazily: their names, and the rule that a state is all of them.

    account                     the values of the first form
    stateshift/lazy-2/account   the values of another form

The present form is that of the table with the largest number: what has another form is left over from before. Whoever
reads or edits a state reads or edits all of its tables. New types judge each of them, but they take over what is left
only as the types of the present form: a value must not depend on when it was touched (rule STATE-10). A migration after
which all tables have one form writes one table, under the name of the state.
`lazy_forms` says how a running program keeps them.

So are the states in which PyFlink keeps what a keyed stream reduces (`reduce`, `sum`, `min`, `max` and others). It
gives them new names in each subtask at each start, and never finds them again. Here all are tables of one state:

    _reduce_state0b4e4bc8-…     or python-state-_reduce_state0b4e4bc8-…

Nothing says which start was the last, so a migration to one table refuses a key that is in two of them.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import attrs

from ..serializers.compatibility import Decision, Finding, Verdict
from ..serializers.containers.wrappers import LazyMigrationSnapshot, without_ttl_awareness
from ..serializers.snapshot import snapshot_to_bytes
from .description import JobDescription, SerializerDescription
from .header_snapshots import label_declared
from .json_files import parse_checked

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from .description import OperatorDescription, StateDescription
    from .header_snapshots import Labels
    from .report import StateReport

_NAME = re.compile(r"stateshift/lazy-([0-9]+)/(.+)", re.DOTALL)
_REDUCED = re.compile(r"((?:python-state-)?_reduce_state)[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def state_in(table: str) -> str:
    """Return the state whose values a table has."""
    if found := _NAME.fullmatch(table):
        return found[2]
    return found[1] if (found := _REDUCED.fullmatch(table)) else table


def is_reduced(table: str) -> bool:
    """Whether a table is one of what a keyed stream of PyFlink reduces, from one of its starts."""
    return _REDUCED.fullmatch(table) is not None


def is_joined(table: str, new_name: str) -> bool:
    """Whether the new name of a table is that of its state, so that it joins the state's other tables."""
    return table != new_name and state_in(table) == new_name


def table_of(state: str, table: str) -> str:
    """Return the name of a table for another state: that with the number of the given one, or of the same start."""
    if is_reduced(table):
        return state + table.removeprefix(state_in(table))
    number = number_of(table)
    return f"stateshift/lazy-{number}/{state}" if number else state


def versions_of(tables: Iterable[str]) -> dict[str, int]:
    """Return which version of its state each table has, by name: of those states that are migrated lazily.

    The table with the state's own name has version 1.
    """
    names = list(tables)
    lazy = {state_in(name) for name in names if number_of(name)}
    return {name: number_of(name) or 1 for name in names if state_in(name) in lazy}


def tables_of(state: str, names: Iterable[str]) -> list[str]:
    """Return those names that are tables of a state, that of its own name first."""
    return sorted((name for name in names if state_in(name) == state), key=number_of)


def free_table(state: str, names: Iterable[str]) -> str:
    """Return the name of a further table of a state, with a number that is larger than those there are."""
    numbers = [int(found[1]) for name in names if (found := _NAME.fullmatch(name)) and found[2] == state]
    return f"stateshift/lazy-{max(numbers, default=1) + 1}/{state}"


def number_of(table: str) -> int:
    """Return the number in the name of a table; 0: it has the state's own name."""
    found = _NAME.fullmatch(table)
    return int(found[1]) if found else 0


def _form(state: StateDescription) -> bytes:
    return snapshot_to_bytes(without_ttl_awareness(state.value.snapshot))


def _grouped(states: Iterable[StateDescription]) -> dict[str, list[StateDescription]]:
    """Return the tables of those keyed states that have several, or one with another name, each sorted by number."""
    groups: dict[str, list[StateDescription]] = {}
    for state in states:
        if state.kind.is_keyed:
            groups.setdefault(state_in(state.name), []).append(state)
    return {
        name: sorted(tables, key=lambda table: number_of(table.name))
        for name, tables in groups.items()
        if {table.name for table in tables} != {name}
    }


def whole(states: Iterable[StateDescription]) -> Iterator[StateDescription]:
    """Yield states by their own names, those that have several tables once."""
    found = list(states)
    groups = _grouped(found)
    yield from (state for state in found if not state.kind.is_keyed or state_in(state.name) not in groups)
    yield from (attrs.evolve(tables[-1], name=name) for name, tables in groups.items())


def with_tables(old: JobDescription, new: JobDescription) -> JobDescription:
    """Return the new side of a check with all tables of the old side, so that each of them is judged and migrated.

    A new side that is stored, as a probe, may have tables, too: its state has the present form. Where it has just those
    of the old side, as for a migration that keeps all types, each is held against itself.
    """
    theirs = {operator.operator_id: operator for operator in old.operators}
    operators = (
        _with_tables(theirs[operator.operator_id], operator) if operator.operator_id in theirs else operator
        for operator in new.operators
    )
    return attrs.evolve(new, operators=tuple(operators))


def _with_tables(old: OperatorDescription, new: OperatorDescription) -> OperatorDescription:
    stored, ours = _grouped(old.states), _grouped(new.states)
    if not stored and not ours:
        return new
    alike = {name for name, tables in ours.items() if _same_tables(tables, stored.get(name, ()))}
    others = {name: tables for name, tables in ours.items() if name not in alike}
    states = [state for state in new.states if not state.kind.is_keyed or state_in(state.name) not in others]
    states += [_present(name, tables) for name, tables in others.items()]
    for state in tuple(states):
        if state.kind.is_keyed and state.name not in alike:
            tables = stored.get(state.name, ())
            states += [attrs.evolve(state, name=table.name) for table in tables if table.name != state.name]
            if tables and all(is_reduced(table.name) for table in tables):  # its own name is not stored
                states.remove(state)
    return attrs.evolve(new, states=tuple(states))


def _same_tables(ours: Sequence[StateDescription], stored: Sequence[StateDescription]) -> bool:
    forms = [{table.name: _form(table) for table in tables if not table.is_dropped} for tables in (ours, stored)]
    return forms[0] == forms[1]


def _present(name: str, tables: Sequence[StateDescription]) -> StateDescription:
    """Return a state as it is when its migration is over."""
    last = tables[-1].value
    snapshot = without_ttl_awareness(last.snapshot)
    told = tables[-1].value.snapshot
    declared = told.declared if isinstance(told, LazyMigrationSnapshot) else ""
    facts = parse_checked(declared) if declared else None
    return attrs.evolve(tables[-1], name=name, value=SerializerDescription(snapshot, declared=facts, trust=last.trust))


def former_types(stored: JobDescription) -> JobDescription:
    """Return the types that lazy migrations were to bring to all values, as the new side of what finishes them."""
    operators = (
        attrs.evolve(operator, states=tuple(_present(name, tables) for name, tables in groups.items()))
        for operator in stored.operators
        if (groups := {name: of for name, of in _grouped(operator.states).items() if number_of(of[-1].name)})
    )
    return JobDescription("the lazy migration that is not over", tuple(operators))


def with_notes(stored: JobDescription, types: JobDescription) -> JobDescription:
    """Return a description with what code declares of the present tables, where it is recorded beside the state."""
    known = {(one.operator_id, state.name): state.value for one in types.operators for state in one.states}

    def noted(operator: OperatorDescription, state: StateDescription) -> StateDescription:
        snapshot, value = state.value.snapshot, known.get((operator.operator_id, state_in(state.name)))
        if not isinstance(snapshot, LazyMigrationSnapshot) or snapshot.inner is None or snapshot.declared or not value:
            return state
        note = LazyMigrationSnapshot(snapshot.inner, declared_text(value))
        return attrs.evolve(state, value=attrs.evolve(state.value, snapshot=note))

    operators = (
        attrs.evolve(operator, states=tuple(noted(operator, state) for state in operator.states))
        for operator in stored.operators
    )
    return attrs.evolve(stored, operators=tuple(operators))


def declared_text(value: SerializerDescription) -> str:
    """Return what code declares of a type beyond its snapshot, as it is noted in the present table."""
    return json.dumps(value.what_code_says, sort_keys=True)


def skips_types(tables: Sequence[StateReport], *, goes_on: bool = False) -> bool:
    """Whether the new types of a state are not those to which it is being migrated, while another form is left.

    What is left would then get the new types past those in between.

    Args:
        tables: The reports on all tables of the state.
        goes_on: Whether a program starts again. Older releases did not note what the code of the present table
            declared, and its number did not say that it is the present one: there any form may be that of the program.
    """
    stored = [table.was for table in tables if table.was is not None]
    if len({_form(was) for was in stored}) < 2:
        return False
    last = max(tables, key=lambda table: number_of(table.name))
    told = last.was.value.snapshot if last.was is not None else None
    noted = told.declared if isinstance(told, LazyMigrationSnapshot) else ""
    if not noted:
        return not any(map(_is_same, tables if goes_on else [last]))
    value = last.becomes.value if last.becomes is not None else None
    return not _is_same(last) or (value is not None and value.knows_code and declared_text(value) != noted)


def _is_same(table: StateReport) -> bool:
    """Whether the new type reads the values of a table as they are."""
    return table.values is not None and table.values.verdict.decision is Decision.START


def judged_together(states: Sequence[StateReport], *, is_rekeyed: bool) -> Iterator[StateReport]:
    """Yield the reports on the states of an operator; the tables of one state are judged together.

    A migration makes one table of all those that get the same form. Tables that have to be finished first are refused.

    Args:
        states: The reports on all states of the operator.
        is_rekeyed: Whether its keys are rewritten: keys of two tables may then become one, which no table shows.
    """
    taken = (state for state in states if state.was is not None and not state.was.is_dropped)
    groups = _grouped(state.was for state in taken if state.was is not None)
    names = {table.name: name for name, tables in groups.items() for table in tables}
    reports: dict[str, list[StateReport]] = {}
    for state in states:
        if state.was is not None and state.was.kind.is_keyed and state.name in names:
            reports.setdefault(names[state.name], []).append(state)
    why, joined = {}, {}
    for name, tables in reports.items():
        labels = _labels_of_one(tables)
        if all(table.becomes is not None for table in tables) and skips_types(tables):
            why[name] = "what is left in an old form would skip the types to which the state is being migrated"
        elif any(is_reduced(table.name) for table in tables):
            if labels is not None and all(table.becomes and table.becomes.value.knows_code for table in tables):
                joined[name] = labels  # otherwise each stays as it is
        elif len(tables) > 1 and any(table.transform for table in tables):
            why[name] = "its values are in several tables, and a transform is given only those of one at a time"
        elif labels is not None:
            joined[name] = labels
        elif is_rekeyed and len(tables) > 1:
            why[name] = "its values are in several tables, and the keys of two of them may become one"
    for state in states:
        name = names.get(state.name, "") if state.was is not None and state.was.kind.is_keyed else ""
        if name in why and state.decision is not Decision.REFUSE:
            yield _refused(state, name, why[name])
        else:
            yield attrs.evolve(state, joined=joined[name]) if name in joined else state


def _labels_of_one(tables: Sequence[StateReport]) -> Labels | None:
    """Return the snapshots of the one table that these tables become; None: their forms differ, or one is refused."""
    found = {}
    for table in tables:
        labels = table.labels_after
        if table.decision is Decision.REFUSE or table.becomes is None or table.values is None or labels is None:
            return None
        value = label_declared(table.values, table.becomes.value)
        if isinstance(value, LazyMigrationSnapshot) and value.inner is not None:
            value = value.inner
        labels = attrs.evolve(labels, value=value)
        found[labels.digest()] = labels
    return found.popitem()[1] if len(found) == 1 else None


def _refused(state: StateReport, name: str, why: str) -> StateReport:
    finding = Finding(
        "$<state>", "STATE-10", Verdict.INCOMPATIBLE, state.old, state.new,
        f"the lazy migration of {name!r} is not over: {why}",
        (
            "finish it first: migrate to the types of the job that began it, and take the result from there",
            "start that job once more, until `stateshift inspect` does not list the state as migrated lazily",
        ),
    )  # fmt: skip
    return state.refused(finding)
