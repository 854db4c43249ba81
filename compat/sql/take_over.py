"""What a new query of Flink SQL takes over from stored state: both sides of a check, paired by two compiled plans.

The old plan says what the stored columns are computed from; without it nothing does, and equal types are all that is
known. Rules SQL-9 to SQL-14 are about operators; SQL-4 to SQL-8, about columns, are rules of the serializer of rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from ...serializers.compatibility import Finding, Flag, Verdict
from ...serializers.sql.row_changes import GIVE_TEMPLATE
from ...serializers.ways_out import Option, WayOut
from ..description import JobDescription, OperatorDescription, StateDescription, StateKind, operator_id_of_uid
from .description import computation_of, describe_operator
from .pairing import Match, pair_operators, pair_states
from .query import SqlOperator, SqlQuery, SqlUpgrade, ValueForm
from .stored import operator_in, operators_by_id, unlike_states, with_state
from .time_stamps import STAMPS, writes_stamps
from .ways_out import EMPTY, KEEP_QUERY

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

_REFUSED, _FINE = Verdict.INCOMPATIBLE, Verdict.COMPATIBLE
_OF_SAVEPOINT = "name the plan with which the savepoint was written"
_BESIDE_ROWS = frozenset({ValueForm.VIEW, ValueForm.SORTED_COUNTS})


def taken_over(stored: JobDescription, upgrade: SqlUpgrade) -> tuple[JobDescription, JobDescription]:
    """Return both sides of a check, as the plans of a new side of SQL pair them.

    Args:
        stored: The stored state; of a plan, what that says of it.
        upgrade: The plans of the new side.
    """
    old = upgrade.old if stored.upgrade is None else stored.upgrade.new
    if old is None:
        return stored, _without_old_plan(upgrade, stored)
    return _TakeOver(old, upgrade.new, stored, upgrade).made()


def _without_old_plan(upgrade: SqlUpgrade, stored: JobDescription) -> JobDescription:
    """Return what is known without the old plan: operators by uid, and types."""
    new, by_id, template = upgrade.new, operators_by_id(stored), operators_by_id(upgrade.template)
    operators = []
    for one in new.operators:
        was = by_id.get(operator_id_of_uid(one.uids[0]).hex())
        described = describe_operator(one, None, was, operator_in(template, one))
        if was is not None and (one.unknown or not one.states):
            described = attrs.evolve(was, computation=computation_of(one))
        elif was is not None:
            known = {state.name for state in described.states}
            described = attrs.evolve(described, states=(*described.states, *_others(known, was)))
        operators.append(described)
    return JobDescription(new.origin, tuple(operators), upgrade=SqlUpgrade(new))


@attrs.frozen
class _TakeOver:
    old: SqlQuery
    new: SqlQuery
    stored: JobDescription
    upgrade: SqlUpgrade

    def made(self) -> tuple[JobDescription, JobDescription]:
        matches = pair_operators(self.old, self.new, self._said())
        by_id, template = operators_by_id(self.stored), operators_by_id(self.upgrade.template)
        renamed: dict[str, tuple[str, str]] = {}
        news: list[OperatorDescription] = []
        matched: dict[str, Match] = {}
        for match in matches:
            moved = _ids(match, by_id)
            renamed |= moved
            findings = tuple(self._unlike(match, by_id)) or tuple(self._findings(match))
            described = self._described(match, by_id, moved, operator_in(template, match.becomes))
            news += [attrs.evolve(one, findings=findings) for one in described[:1]] + described[1:]
            if match.was is not None:
                matched |= dict.fromkeys(_stored_ids(match, by_id), match)
        stored = tuple(
            _moved(one, renamed.get(one.operator_id), matched.get(one.operator_id)) for one in by_id.values()
        )
        upgrade = attrs.evolve(self.upgrade, old=self.old)
        return attrs.evolve(self.stored, operators=stored), JobDescription(
            self.new.origin, tuple(news), upgrade=upgrade
        )

    def _said(self) -> dict[int, int]:
        """Return the old node of new ones, where the user renames an operator: by their numbers."""
        were = {operator_id_of_uid(uid).hex(): one.node for one in self.old.operators for uid in one.uids}
        are = {uid: one.node for one in self.new.operators for uid in one.uids}
        renamed = (one for one in self.stored.operators if one.stored_id)
        return {are[one.uid]: were[one.stored_id] for one in renamed if one.uid in are and one.stored_id in were}

    def _described(
        self,
        match: Match,
        by_id: Mapping[str, OperatorDescription],
        moved: Mapping[str, tuple[str, str]],
        template: OperatorDescription | None,
    ) -> list[OperatorDescription]:
        """Return the descriptions of the transformations of a new node."""
        one, was = match.becomes, match.was
        kept = [by_id[place] for place in _stored_ids(match, by_id)]
        is_known = was is None or bool(one.states and not one.unknown)
        stored = with_state(kept) if is_known else None
        carried = [
            attrs.evolve(other, operator_id=moved[other.operator_id][0], uid=moved[other.operator_id][1],
                         computation=computation_of(one))
            for other in kept if other is not stored
        ]  # fmt: skip
        if not is_known:
            return carried
        described = describe_operator(one, was, stored, template, keeps_newest=self.upgrade.keeps_newest)
        if stored is None or was is None:
            return [described, *carried]
        told = {state.name for state in described.states}
        of_plans = {state.name for state in (*was.states, *one.states) if state.form is not ValueForm.SORTED_COUNTS}
        more = (*_views(was, one, stored), *_others(of_plans | told, stored))
        return [attrs.evolve(described, states=(*described.states, *more)), *carried]

    def _findings(self, match: Match) -> Iterator[Finding]:
        was, one = match.was, match.becomes
        if was is None:
            yield from self._begun(match)
            return
        if was.key_set != one.key_set:
            yield _other("SQL-12", was.key_texts, one.key_texts, "the operator has other keys: its state is of others")
        if was.rows != one.rows:
            gone, added = _difference(was.rows, one.rows)
            yield _other("SQL-10", gone, added, "other rows come in than those of which the state was made")
        if was.work != one.work:
            yield _other(
                "SQL-11", (was.work,), (one.work,), "the operator does other work than that which left the state"
            )
        if any(old is not None and new.most > old.most for old, new in pair_states(was, one)):
            kept = [f"{max(state.most for state in side.states):,} rows of each key" for side in (was, one)]
            yield _other("SQL-11", kept[:1], kept[1:], "the rows that are to be kept now were left out before")
        with_more = [(old, new) for old, new in pair_states(was, one) if old is not None and new.form in _BESIDE_ROWS]
        for old, new in with_more if self.upgrade.template is None else ():
            types = [[column.type for column in state.columns] for state in (old, new)]
            if new.form is ValueForm.SORTED_COUNTS and types[0] != types[1]:
                reason = "the order of the rows is stored as objects of Java, which this release does not write"
                words = (old.order_words, new.order_words)
                yield Finding("$", "SQL-22", _REFUSED, *words, reason, (GIVE_TEMPLATE, KEEP_QUERY, EMPTY))
        switched = [new for old, new in with_more if bool(old.ttl_ms) is not bool(new.ttl_ms)]
        is_done = all(new.ttl_ms and new.form is ValueForm.VIEW for new in switched)
        if switched and is_done and writes_stamps(self.new.flink_version):
            yield Finding("$", "SQL-13", _FINE, "", "", f"time to live is switched on beside aggregates, too: {STAMPS}")
        elif switched:
            reason = "what is kept beside rows and aggregates cannot get or lose a time to live in this release"
            yield Finding("$", "SQL-13", _REFUSED, "", "", reason, ("keep the time to live", EMPTY))
        if one.unknown and was.identity == one.identity:
            reason = f"{one.unknown}; it computes the same as before, so its state stays as it is"
            yield Finding("$", "SQL-13", _FINE, "", "", reason, flags=(Flag.UNVERIFIED,))
        elif one.unknown:
            yield Finding("$", "SQL-13", _REFUSED, "", "", one.unknown, (KEEP_QUERY, EMPTY))

    def _begun(self, match: Match) -> Iterator[Finding]:
        one = match.becomes
        if match.may_be:
            found = " or ".join(other.title for other in match.may_be)
            ways = tuple(
                WayOut.telling("say which one it is:", Option.RENAME_UID, other.uids[0], one.uids[0])
                for other in match.may_be
            )
            yield Finding("$", "SQL-9", _REFUSED, found, one.title, "what they compute does not tell them apart", ways)
        elif one.is_keyed:
            reason = "the operator is new, and would begin without the rows that came before"
            yield Finding("$", "SQL-9", _REFUSED, "", one.title, reason, (KEEP_QUERY, EMPTY))

    def _unlike(self, match: Match, by_id: Mapping[str, OperatorDescription]) -> Iterator[Finding]:
        """Refuse stored state that is not that of the old plan: it is of another query."""
        was = match.was
        if was is None or self.stored.upgrade is not None or was.unknown or not was.states:
            return
        stored = with_state(by_id[place] for place in _stored_ids(match, by_id))
        if stored is None:
            ways: tuple[str | WayOut, ...] = (_OF_SAVEPOINT, *_may_be(was, match.becomes.uids[0], by_id.values()))
            reason = (
                f"the savepoint has no operator {was.uids[0]}: it is of another plan, or its query was not started by"
                " EXECUTE PLAN"
            )
            yield Finding("$", "SQL-14", _REFUSED, "", "", reason, ways)
            return
        for name, told, found in unlike_states(was, stored):
            reason = f"the state {name} of {was.title} is another one in the savepoint than in {self.old.origin}"
            yield Finding("$", "SQL-14", _REFUSED, told, found, reason, (_OF_SAVEPOINT,))


def _may_be(was: SqlOperator, uid: str, stored: Iterable[OperatorDescription]) -> Iterator[WayOut]:
    """Yield the ways to say which operator that has no uid is meant: those with just the states of the old node."""
    for one in stored:
        if not one.uid and not any(unlike_states(was, one)):
            yield WayOut.telling("if it is this operator:", Option.RENAME_UID, one.operator_id, uid)


def _others(known: Collection[str], stored: OperatorDescription) -> Iterator[StateDescription]:
    """Yield the stored states beside known ones, such as the watermark of a window; they stay as they are."""
    yield from (one for one in stored.states if one.name not in known and one.kind is not StateKind.TIMERS)


def _views(was: SqlOperator, one: SqlOperator, stored: OperatorDescription) -> Iterator[StateDescription]:
    """Yield the views of an operator, each with the types that are stored, under its new name."""
    there = {state.name: state for state in stored.states}
    for old, new in pair_states(was, one):
        if new.form is ValueForm.VIEW and old is not None and old.name in there:
            yield attrs.evolve(there[old.name], name=new.name)


def _other(rule: str, old: Iterable[str], new: Iterable[str], reason: str) -> Finding:
    return Finding("$", rule, _REFUSED, ", ".join(old), ", ".join(new), reason, (KEEP_QUERY, EMPTY))


def _difference(old: Iterable[str], new: Iterable[str]) -> tuple[list[str], list[str]]:
    were, are = list(old), list(new)
    return [one for one in were if one not in are], [one for one in are if one not in were]


def _stored_ids(match: Match, by_id: Mapping[str, OperatorDescription]) -> list[str]:
    """Return the ids of the stored operators of an old node.

    They are those of its uids, those that begin with its number, and those of which the user says that they are the new
    node: a query that `INSERT INTO` started has no uids.
    """
    if match.was is None:
        return []
    number = f"{match.was.node}_"
    known = {operator_id_of_uid(uid).hex() for uid in match.was.uids}
    return [
        place
        for place, one in by_id.items()
        if (one.stored_id or place) in known
        or (one.uid in match.becomes.uids if one.stored_id else one.uid.startswith(number))
    ]


def _ids(match: Match, by_id: Mapping[str, OperatorDescription]) -> dict[str, tuple[str, str]]:
    """Return the new id and uid of each stored operator of a node, by its present id."""
    was, one = match.was, match.becomes
    if was is None:
        return {}
    found = {}
    named = {operator_id_of_uid(uid).hex(): uid for uid in was.uids}
    for place in _stored_ids(match, by_id):
        uid = by_id[place].uid or named[place]
        is_said = bool(by_id[place].stored_id)  # the user has given it its new uid
        becomes = uid if is_said else f"{one.node}{uid.removeprefix(str(was.node))}"
        found[place] = operator_id_of_uid(becomes).hex(), becomes
    return found


def _moved(one: OperatorDescription, identity: tuple[str, str] | None, match: Match | None) -> OperatorDescription:
    """Return a stored operator under the id that it gets, with what it computes; its views under their new names."""
    told = one
    if match is not None and match.was is not None:
        told = attrs.evolve(one, computation=computation_of(match.was), states=_renamed(one, match.was, match.becomes))
    if identity is None or identity[0] == one.operator_id:
        return told
    return attrs.evolve(told, operator_id=identity[0], uid=identity[1], stored_id=one.operator_id)


def _renamed(stored: OperatorDescription, was: SqlOperator, one: SqlOperator) -> tuple[StateDescription, ...]:
    """Return the stored states; a view gets its new name, and one that no aggregate has any more is dropped."""
    if one.unknown:
        return stored.states
    views = {state.name for state in was.states if state.form is ValueForm.VIEW}
    becomes = {old.name: new.name for old, new in pair_states(was, one) if old is not None}

    def view(state: StateDescription) -> StateDescription:
        new_name = becomes.get(state.name)
        if new_name == state.name:
            return state
        if new_name is not None:
            return attrs.evolve(state, name=new_name, stored_name=state.name)
        if state.name in becomes.values():  # another one gets its name
            return attrs.evolve(state, name=f"{state.name} (as stored)", stored_name=state.name, is_dropped=True)
        return attrs.evolve(state, is_dropped=True)

    return tuple(view(state) if state.name in views else state for state in stored.states)
