"""The law of one pairing: what a check names is what a migration does, whatever carries it out.

A migration is told what the check's ways out say, as the command line reads them. Fields that findings name as dropped,
new and wider are those that `Fate` says; each value is right by it. A refusal is one of the migration, too.
"""

from __future__ import annotations

import json
import shlex

import attrs
import click
from drawn_queries import COMPUTED, Fate

from stateshift.cli.spark_options import SparkOptions, query_options, spark_change_options
from stateshift.compat.queries.changes import FieldChanges
from stateshift.compat.queries.findings import problems_of
from stateshift.compat.queries.operator_pairs import match_operators
from stateshift.compat.queries.store_pairs import pair_stores
from stateshift.compat.queries.verdict import judge, with_plans
from stateshift.serializers.compatibility import Decision, Flag, Verdict
from stateshift.serializers.ways_out import Option
from stateshift.state.migration.queries.preparation import Said

OF_NO_FIELD = {Option.CONVERT_FIELD, Option.ACCEPT, Option.MAP, Option.WAS}
"""Options that say no word and no value of a field."""
MILLISECONDS = 10**13
"""A time to live that no test outlives."""


@click.command()
@query_options
@spark_change_options
def read(**_):
    """Return what options of the command line say."""
    return SparkOptions.given().said()


@attrs.frozen
class Case:
    """A query with the verdict on it.

    Attributes:
        query: The query, before and after.
        stored: What the checkpoint says of it.
        known: The old query, if it is known.
        new: The new query.
        report: The verdict.
    """

    query: object
    stored: object
    known: object
    new: object
    report: object

    @classmethod
    def of(cls, query):
        stored, old, new = query.descriptions()
        known = old if query.is_known else None
        return cls(query, stored, known, new, judge(stored, new, known=known))

    def matches(self, said):
        return match_operators(with_plans(self.stored, self.known).computations, self.new.computations, said.operators)

    def pairs(self, said):
        """Yield the number of each old operator that goes on, with both sides as they were drawn and described."""
        for one in self.matches(said):
            if one.was is not None and one.becomes is not None and one.problem() is None:
                drawn = self.query.old[one.was.number], self.query.new[one.becomes.number]
                yield one.was.number, drawn, (one.was, one.becomes)

    def problems(self, said):
        """Yield what a migration asks for, or cannot do."""
        yield from (problem for one in self.matches(said) if (problem := one.problem()) is not None)
        for number, _, sides in self.pairs(said):
            changes = said.changes.get(number, FieldChanges())
            pair = pair_stores(*sides, changes.answers)
            yield from problems_of(pair, attrs.evolve(changes, renames=pair.renames))

    @property
    def is_answerable(self):
        """Whether a way out of each finding is a migration."""
        return all(ways_of(one) for one in self.report.all_findings() if one.verdict is not Verdict.COMPATIBLE)

    def said(self, random):
        """Return what one way out of each finding says."""
        words = []
        for finding in self.report.all_findings():
            if finding.verdict is not Verdict.COMPATIBLE and (ways := ways_of(finding)):
                words += shlex.split(random.choice(ways))
        return read.main(words, standalone_mode=False)

    def findings(self, number):
        """Return the findings on an old operator."""
        return [
            finding
            for operator, _, finding in self.report.findings()
            if operator.was is not None and operator.was.computation.number == number
        ]


def is_hopeless(finding):
    return {told.option for way in finding.ways_out for told in way.told} <= OF_NO_FIELD


def ways_of(finding):
    """Return the ways out of a finding that a migration takes, as options that are completed."""
    ways = [" ".join(map(str, one.told)) for one in finding.ways_out if one.command]
    ways = [one for one in ways if not any(word in one for word in ("--convert-field", "NEW_NAME", "OLD_NAME"))]
    ways = [
        one for one in ways if finding.rule == "SPK-2" or "--keep-field" not in one
    ]  # a finding names what it keeps
    plain = [one for one in ways if "--rename-field" not in one] if finding.rule in {"SPK-2", "SPK-4"} else ways
    completed = (one.replace("RULE", "max").replace("MILLISECONDS", str(MILLISECONDS)) for one in plain or ways)
    return [_later(one) for one in completed]


def _later(way):
    """Return a way out whose time to live is one that no test outlives."""
    before, option, rest = way.partition("--ttl ")
    return f"{before}{option}{rest.partition('=')[0]}={MILLISECONDS}" if option else way


def holds(query, random, migrated):
    """Hold the law for a drawn query; `migrated` as in `holds_for`."""
    return holds_for(Case.of(query), random, migrated)


def holds_for(case, random, migrated):
    """Hold the law for a case; `migrated` migrates what it keeps, as it is said, and compares each value.

    Returns:
        The decision, and whether a migration ran.
    """
    decision = case.report.decision
    if decision is Decision.START:
        starts(case)
        return decision, False
    if decision is Decision.REFUSE:
        bare = [*case.problems(Said())]
        assert bare, "a refusal that a migration carries"
        if not case.is_answerable:
            assert any(is_hopeless(one) for one in bare), "a refusal that a migration could be told to carry"
            return decision, False
    said = case.said(random)
    found = list(map(str, case.problems(said)))
    assert found == [], f"{found} after {said}"
    fates = {}
    for number, drawn, _ in case.pairs(said):
        fates[number] = Fates.of(case.query, drawn, said.changes.get(number, FieldChanges()))
    migrated(case, said, fates, random)
    if decision is Decision.MIGRATE:
        for number, fate in fates.items():
            named(case, number, fate, said.changes.get(number, FieldChanges()))
        assert all(one.verdict is not Verdict.INCOMPATIBLE for one in case.report.all_findings())
    return decision, True


def starts(case):
    """Spark starts only where what it reads by place is what the new query means."""
    told = {one.rule for one in case.report.all_findings()}
    for _, _, sides in case.pairs(Said()):
        pair = pair_stores(*sides)
        assert all(part.is_same for store in pair.stores for part in store.parts) or "SPK-18" in told


@attrs.frozen
class Fates:
    """What becomes of all that an operator keeps.

    Attributes:
        kept: The old entries of each new one that has some, by name, with what makes their parts.
        fate: What becomes of the fields.
    """

    kept: dict
    fate: Fate

    @classmethod
    def of(cls, query, drawn, changes):
        was, becomes = drawn
        fates = Fate(False, changes.fills, changes.renames)
        old = {one.name: one for one in was.kept}
        taken = {changes.renames[one.name] for one in becomes.kept if one.name in changes.renames}
        kept = {}
        for one in becomes.kept:
            source = changes.renames.get(one.name, one.name if one.name not in taken else "")
            if source not in old:
                continue
            of = old[source]
            makes = []
            for at, ((path, new), (stored, before)) in enumerate(zip(one.parts, of.parts, strict=True)):
                fates.by_text = query.is_known and (at == 0 or was.kind in COMPUTED)
                makes.append(fates.rows(before, new, path, stored))
            kept[one.name] = (of, one, makes)
        return cls(kept, fates)


def named(case, number, fates, changes):
    """Findings name the fields that are dropped, filled and widened, and no other."""
    findings, fate = case.findings(number), fates.fate
    flags = {
        path.removeprefix("$.")
        for one in findings
        for flag in one.flags
        if flag.flag is Flag.DROPS
        for path in flag.details
    }
    several = {one.path[2:] for one in findings if one.rule == "SPK-2" and not one.old}  # it is said that each is new
    otherwise = {one.path[2:] for one in findings if one.rule == "SPK-10"}
    names = {path.partition("#")[0] for path in several}
    alike = {path for path in fate.dropped if path.partition("#")[0] in names}
    gone = {path for path in fate.dropped if path.partition(".")[0].rstrip("[]{}") in changes.drops}
    assert fate.dropped - gone == (flags - several) | otherwise | alike
    assert fate.filled == {one.path[2:] for one in findings if one.rule in {"SPK-3", "SPK-11"}} | otherwise | several
    assert fate.widened == {one.path[2:] for one in findings if one.rule == "SPK-5"} - otherwise


def as_json(rows):
    return json.dumps(rows, default=str, sort_keys=True)
