"""Findings on the stored types of an operator, with the options of a migration as ways out.

What becomes of each field is decided by `pairing`; what no migration carries over, by `problems`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from ...serializers.compatibility import Finding, Flag, Flagged, Path, Verdict
from ...serializers.spark_rows.pairing import KEY, Becomes, FieldPair, is_within
from ...serializers.spark_rows.rules import COPY, NEW, by_copy, findings_on
from ...serializers.spark_rows.spark_types import holds_all
from ...serializers.ways_out import Does, Option, Told, WayOut
from .changes import FieldChanges
from .columns import first_value
from .kinds import OF_SCALA, OF_VARIABLES, SESSION, TIME_TO_LIVE, WITH_FUNCTION
from .problems import NEVER_MERGED, impossible, is_of_key, misfits, never_merged, unmerged

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .store_pairs import OperatorPair, StorePair

_REFUSED, _MIGRATE, _FINE = Verdict.INCOMPATIBLE, Verdict.REQUIRES_MIGRATION, Verdict.COMPATIBLE
_AVRO_NUMBERS = {"tinyint", "smallint", "int", "bigint", "float", "double"}
_NOTHING_SAID = FieldChanges()
_SAID_BY_CODE = WayOut("name the old code, which says what stands in it: the option", (Told(Option.WAS),))


def problems_of(pair: OperatorPair, changes: FieldChanges) -> Iterator[Finding]:
    """Yield the findings that stand in the way of a migration: those that what is said of it does not answer.

    Args:
        pair: What becomes of an operator's state by what is said.
        changes: What is said.
    """
    told = set[tuple[Path, str]]()
    for one in findings_of(pair, changes, is_by_name=False, starts=False):
        is_done = any(way.does is Does.MIGRATE and not way.told for way in one.ways_out)
        place = one.path, one.rule
        if (one.verdict is _REFUSED or (one.verdict is _MIGRATE and not is_done)) and place not in told:
            told.add(place)
            yield attrs.evolve(one, verdict=_REFUSED)
    yield from misfits(pair, changes)


def findings_of(
    pair: OperatorPair, changes: FieldChanges = _NOTHING_SAID, *, is_by_name: bool, starts: bool
) -> Iterator[Finding]:
    """Yield the findings on the types of an operator's state.

    Args:
        pair: What becomes of it.
        changes: What is said of a migration.
        is_by_name: Whether entries are in avro.
        starts: Whether Spark starts the query as far as everything else goes; else all of its state is migrated, and
            what Spark itself would read rightly is asked for, too.
    """
    told = _Findings(pair, changes, is_by_name and pair.was.kind in OF_VARIABLES, starts)
    yield from told.all()


@attrs.define
class _Findings:
    pair: OperatorPair
    changes: FieldChanges
    is_avro: bool
    starts: bool
    problems: dict[str, Finding] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.problems = {one.path: one for one in impossible(self.pair)}

    def all(self) -> Iterator[Finding]:
        """Yield the findings: of stores that one side has, of variables, then of fields."""
        refused = set[str]()
        for one in (*self._one_sided(), *self._of_variables(), *self._fields()):
            if one.verdict is _REFUSED:
                refused.add(one.path)
            yield one
        if self.pair.was.kind in OF_SCALA and refused:
            return  # it is said of each field
        yield from (one for path, one in self.problems.items() if path not in refused)

    def _one_sided(self) -> Iterator[Finding]:
        is_processor = self.pair.was.kind in OF_VARIABLES
        for store in sorted({*self.pair.gone, *self.pair.added} - {*self.changes.drops}):
            is_variable = is_processor and not store.startswith("$")
            is_gone = store in self.pair.gone
            if is_variable and not is_gone:
                reason = "the variable is new, and has nothing for any key; Spark starts with it so"
                yield Finding(Path.naming(store), "SPK-19", _FINE, "", store, reason)
                continue
            yield Finding(
                Path.naming(store), "SPK-14", _REFUSED, store if is_gone else "", "" if is_gone else store,
                "only one of both queries has the store: the format of its state, or its variables, changed",
                self._without_a_variable(store) if is_variable else (NEW,),
            )  # fmt: skip

    def _without_a_variable(self, store: str) -> tuple[WayOut, ...]:
        """Return the ways out for a variable that the new query lacks."""
        renamed = self._told(Option.RENAME_FIELD, store, "NEW_NAME")
        return (
            by_copy("migrate a copy, without it:", self._told(Option.DROP_VARIABLE, store)),
            by_copy("take it under its new name:", renamed, is_ready=False),
            NEW,
        )

    def _of_variables(self) -> Iterator[Finding]:
        """Yield the findings on variables as a whole: their kinds, and whether their entries expire."""
        for store in self.pair.stores:
            if store.variables is None:
                continue
            was, becomes = store.variables
            if was.kind == becomes.kind and was.expires is not becomes.expires:
                sides = ("", "it expires") if becomes.expires else ("it expires", "")
                after = self.pair.becomes.facts.get(TIME_TO_LIVE + store.store, "").removesuffix(" ms")
                expiring = by_copy(
                    "say how long after the last batch stored ones expire:",
                    self._told(Option.TTL, store.store, after or "MILLISECONDS"), is_ready=bool(after),
                )  # fmt: skip
                reason = (
                    "its entries expire now, and stored ones have no time at which they do"
                    if becomes.expires
                    else "its entries do not expire any more; those that were not removed yet stay"
                )
                reason += "; Spark refuses to start"
                yield Finding(
                    Path.naming(TIME_TO_LIVE + store.store, store.store), "SPK-14", _MIGRATE, *sides, reason,
                    (expiring if becomes.expires and store.store not in self.changes.ttls else COPY, NEW),
                )  # fmt: skip

    def _fields(self) -> Iterator[Finding]:
        told = set[tuple[str, str, str, str]]()
        for store in self.pair.stores:
            for part in store.parts:
                for one in self._of(part, store):
                    what = one.rule, one.path, one.old, one.new
                    if what not in told:  # all stores of an operator have its key
                        told.add(what)
                        yield one

    def _of(self, part: FieldPair, store: StorePair) -> Iterator[Finding]:
        """Yield the findings on one part of a store's entries."""
        moved = {at.instead for one in part.all() if (at := self._in_place(one)) is not None}
        for one in part.all():
            yield from self._unclear(one, store)
        for one, finding in findings_on(part, "$."):
            if one.becomes is Becomes.DROPPED and one.path in moved:
                continue  # it is told under its new name
            if one.becomes is Becomes.CARRIED and any(below.becomes is Becomes.UNCLEAR for below in one.below):
                continue  # so is the order of its fields
            yield self._judged(finding, one, store)
            if one.becomes is Becomes.OTHERWISE:  # where types differ, too, Spark refuses to start
                ways = (*self._filled(one, store), NEW)
                yield from (
                    attrs.evolve(each, verdict=_MIGRATE, ways_out=ways) for _, each in findings_on(one.below[0], "$.")
                )

    def _in_place(self, one: FieldPair) -> FieldPair | None:
        """Return a field that Spark would read by position from one of another name; None: it would not."""
        is_own = self.pair.was.kind in WITH_FUNCTION and not one.path.is_within(KEY)
        is_read = self.starts and is_own and not self.is_avro
        return one if is_read and one.becomes is Becomes.NEW and one.instead else None

    def _judged(self, finding: Finding, one: FieldPair, store: StorePair) -> Finding:
        """Return a finding by what is possible in this store, with the options that solve it."""
        if self.pair.was.kind in OF_SCALA and finding.verdict is _MIGRATE:
            return attrs.evolve(
                finding, verdict=_REFUSED, ways_out=("keep the types of the old query", NEW),
                reason=f"{finding.reason}; state of Scala is what an encoder made of objects, and is never changed",
            )  # fmt: skip
        if self._in_place(one) is not None:
            was, becomes = one.instead.last, one.path.last
            return Finding(
                finding.path, "SPK-18", _FINE, was, becomes,
                "the field has another name in the same place; Spark reads the old value, which is right if only the"
                " name changed",
                flags=(Flag.POSSIBLE_RENAME.of(was, becomes),),
            )  # fmt: skip
        if self.is_avro and self.starts and self._is_evolved(finding, one, store):
            reason = "values are in avro: Spark reads fields by name, a new one as null, and a number as the wider one"
            return attrs.evolve(finding, verdict=_FINE, reason=reason, ways_out=())
        if finding.path in self.problems and one.becomes in {Becomes.NEW, Becomes.DROPPED}:
            return self._impossible(finding)
        match one.becomes:
            case Becomes.UNCONVERTED:
                return self._unconverted(finding, one, store)
            case Becomes.NEW:
                return self._new(finding, one, store)
            case Becomes.DROPPED:
                return self._dropped(finding, one, store)
            case Becomes.OTHERWISE:
                return self._otherwise(finding, one, store)
            case Becomes.SEVERAL:
                return self._several(finding, one, store)
            case _:
                return finding

    def _impossible(self, finding: Finding) -> Finding:
        """Return a finding with what no migration carries over there, if there is something."""
        of = self.problems.get(finding.path)
        if of is None:
            return finding
        return attrs.evolve(of, old=finding.old, new=finding.new, flags=finding.flags)

    def _is_evolved(self, finding: Finding, one: FieldPair, store: StorePair) -> bool:
        is_wider = finding.rule == "SPK-5" and {finding.old, finding.new} <= _AVRO_NUMBERS
        is_value = one.path.is_within(store.parts[-1].path) and not one.path.is_within_map_key
        return is_value and store.variables is not None and (is_wider or finding.rule in {"SPK-2", "SPK-3"})

    def _unconverted(self, finding: Finding, one: FieldPair, store: StorePair) -> Finding:
        if not self._is_convertible(one, store):
            return finding
        option = self._told(Option.CONVERT_FIELD, one.path, "module:function")
        way = by_copy("convert it with a function of yours:", option, is_ready=False)
        return attrs.evolve(finding, ways_out=(way, *finding.ways_out))

    def _is_convertible(self, one: FieldPair, store: StorePair) -> bool:
        """Whether a migration accepts a function for a field: not for keys that may become equal and never merge."""
        kind = self.pair.was.kind
        part = one.path.first
        is_repeated = kind == SESSION and one.path.after(part) in self.pair.was.stores[store.source].key.names
        is_field = not one.path.is_within_map_key and not one.path.is_of_elements
        is_never = kind in NEVER_MERGED or self.pair.was.kind in OF_VARIABLES
        return is_field and kind not in OF_SCALA and not ((part == KEY or is_repeated) and is_never)

    def _new(self, finding: Finding, one: FieldPair, store: StorePair) -> Finding:
        is_key = one.path.is_within(KEY)
        if is_key:
            reason = (
                "the field is new in the key, and no stored key has a value for it: with one for all of them, only rows"
                " that have this value too find what is stored"
            )
            finding = attrs.evolve(finding, rule="SPK-11", reason=reason)
        renamed: tuple[WayOut, ...] = ()
        is_unclear = store.reading.is_silent and not store.reading.is_buffer(one.path) and not one.is_known
        if is_unclear:
            finding = attrs.evolve(
                finding, verdict=_REFUSED,
                reason="a new field, or a stored one with another name: Spark reads what stood in its place, and the"
                " types do not say whether that is right",
            )  # fmt: skip
            renamed = (*(self._renamed(one) if one.instead else ()), *self._by_code(one))
        elif store.reading.is_silent and is_key and not store.reading.is_buffer(one.path):
            finding = attrs.evolve(finding, verdict=_REFUSED)
        old = self._told(Option.RENAME_FIELD, one.path.beside(one.path.last, "OLD_NAME"), one.path)
        named = by_copy("say which stored field it was:", old, is_ready=False)
        return attrs.evolve(finding, ways_out=(*renamed, *self._filled(one, store), named, "leave it out", NEW))

    def _renamed(self, one: FieldPair) -> tuple[WayOut, ...]:
        """Return the way out that says that a field is the one that stood in its place."""
        option = self._told(Option.RENAME_FIELD, one.instead, one.path)
        return (by_copy(f"say that it is {one.instead.last!r}:", option),)

    def _dropped(self, finding: Finding, one: FieldPair, store: StorePair) -> Finding:
        """Return the finding on a removed field: it may be renamed, or merged where keys become equal."""
        ways, reason = finding.ways_out, finding.reason
        if one.instead:
            option = self._told(Option.RENAME_FIELD, one.path, one.instead)
            ways = (by_copy(f"say that it is {one.instead.last!r} now:", option), *self._by_code(one), *ways)
        *keys, values = store.parts
        if values.new is None or not is_within(one.path, (key.source for key in keys)):
            return attrs.evolve(finding, reason=reason, ways_out=ways)
        reason, flags = f"{reason}; keys may become equal without it", finding.flags
        if never := [*never_merged(values.new, values.path)]:
            reason += f", and no rule merges {', '.join(never)}: if any do, the migration writes nothing"
            flags = (*flags, Flagged(Flag.COLLISION_CHECK))
        if merges := [*unmerged(values.new, values.path, self.changes.merges)]:
            rules = (self._told(Option.MERGE_FIELD, path, "RULE") for path in merges)
            words = "say how the values of such keys are merged (sum, min or max):"
            way = by_copy(words, *rules, is_ready=False)
            ways = (way, *(one for one in ways if one != COPY))
        return attrs.evolve(finding, reason=reason, ways_out=ways, flags=flags)

    def _otherwise(self, finding: Finding, one: FieldPair, store: StorePair) -> Finding:
        """Return the finding on a column that is computed from something else."""
        of_key = is_of_key(one)
        same = by_copy(
            "say that the stored value is the same:", self._told(Option.KEEP_FIELD, one.path), is_ready=False
        )
        ways = () if of_key else (*self._filled(one, store), same)
        accept = WayOut.telling("accept that old and new values mix:", Option.ACCEPT, "SPK-10")
        verdict = _REFUSED if of_key else _MIGRATE
        return attrs.evolve(finding, verdict=verdict, ways_out=(*ways, *finding.ways_out, accept))

    def _several(self, finding: Finding, one: FieldPair, store: StorePair) -> Finding:
        """Return the finding on a field whose name several fields have."""
        ways = tuple(
            by_copy(
                f"say that it is {each.source.last!r}:",
                self._told(Option.RENAME_FIELD, each.source, one.path), is_ready=False,
            )
            for each in one.below
        )  # fmt: skip
        filled = (attrs.evolve(way, is_ready=False) for way in self._filled(one, store))  # it may lose a stored one
        rest = (way for way in finding.ways_out if way != COPY)
        return attrs.evolve(finding, ways_out=(*self._by_code(one), *ways, *filled, *rest))

    def _unclear(self, one: FieldPair, store: StorePair) -> Iterator[Finding]:
        """Yield the finding on a struct in which the names and the positions of fields disagree."""
        unclear = [below for below in one.below if below.becomes is Becomes.UNCLEAR]
        if not unclear or one.old is None or one.new is None:
            return
        names = [below.path.after(one.path) for below in unclear]
        reason = (
            f"names and places of {', '.join(names)} say different things: Spark reads by place, a migration by name,"
            " and the types do not say which is right"
        )
        places = (below for below in unclear if below.instead)
        renames = (self._told(Option.RENAME_FIELD, below.instead, below.path) for below in places)
        keeps = (self._told(Option.KEEP_FIELD, below.path) for below in unclear)
        is_by_name = all(_holds(below) for below in unclear)  # else only names can have changed
        ways: tuple[WayOut | str, ...] = (
            *self._by_code(one), by_copy("say that names were exchanged:", *renames),
            *([by_copy("say that places were:", *keeps)] if is_by_name else []), NEW,
        )  # fmt: skip
        listed = ", ".join(one.old.names), ", ".join(one.new.names)
        yield self._impossible(Finding(f"$.{one.path}", "SPK-2", _REFUSED, *listed, reason, ways))

    def _told(self, option: Option, *values: str) -> Told:
        return Told.of(option, self.pair.was.number, *values)

    def _filled(self, one: FieldPair, store: StorePair) -> tuple[WayOut, ...]:
        """Return the ways out that give values to a field."""
        of_value = store.parts[-1]
        name = one.path.after(of_value.path)
        is_value = one.path != name and of_value.new is not None and name in of_value.new.names
        is_buffer = store.reading.is_buffer(one.path)
        value = "null"
        if is_buffer and is_value and of_value.new is not None:  # within the struct of a buffer nothing is known: null
            value = first_value(name, of_value.new)
        told = self._told(Option.FILL, one.path, value)
        ways = [by_copy(f"start again from {value}:", told)] if value else []
        is_whole = is_value and of_value.path.first == of_value.path and not of_value.path.is_of_elements
        if is_whole and (is_buffer or self.pair.was.kind in OF_VARIABLES):
            values = f'FieldChanges(fills={{"{one.path}": Backfill(history, "COLUMN")}})'
            ways.append(WayOut(f"with the values of all history, in Python: migrate_checkpoint with {values}"))
        return tuple(ways)

    def _by_code(self, one: FieldPair) -> tuple[WayOut, ...]:
        """Return the way out to name the old code; none if it is named already, or a function decides what is kept."""
        is_of_function = self.pair.was.kind in WITH_FUNCTION and not one.path.is_within(KEY)
        return () if self.pair.was.is_known or is_of_function else (_SAID_BY_CODE,)


def _holds(one: FieldPair) -> bool:
    """Whether the new type of a field holds every value of the stored field of its name."""
    old, new = one.types
    return old.describe() == new.describe() or holds_all(new, old)
