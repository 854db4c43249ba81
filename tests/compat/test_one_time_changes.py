"""What is declared of stored values and must be done once, where their type does not show (STATE-8)."""

from __future__ import annotations

import attrs
import pytest

from stateshift import (
    Decision,
    IncompatibleState,
    Job,
    ListStateDescriptor,
    MapStateDescriptor,
    MigrationOptions,
    Operator,
    Repartition,
    Row,
    Savepoint,
    SavepointWriter,
    ValueStateDescriptor,
    check,
    parse_edits,
    row_of,
)
from stateshift.state.migration.preparation import prepare
from stateshift.state.migration.run import publish_result
from stateshift.state.migration.run_task import perform
from stateshift.state.storage.files import Folder


def to_cents(euros):
    return euros * 100


def twice(value):
    return value * 2


SWAPPED = row_of({"b": int, "a": int}, stored=("a", "b"))


def job(row=SWAPPED, converter=to_cents, **key):
    states = [
        ValueStateDescriptor("price", int, converter=converter),
        ListStateDescriptor("prices", int, converter=converter),
        MapStateDescriptor("by-name", str, int, converter=converter),
        ValueStateDescriptor("pair", row),
    ]
    return Job([Operator("shop", key=int, states=states, **key)])


STATES = ("price", "prices", "by-name", "pair")


@pytest.fixture
def stored(tmp_path):
    """A savepoint in euros, with columns `a` and `b`."""
    with SavepointWriter(tmp_path / "v1", job(row_of({"a": int, "b": int}), None)) as writer:
        writer.put("shop", "price", 1, 5)
        writer.put("shop", "prices", 1, [5, 6])
        writer.put("shop", "by-name", 1, {"x": 7})
        writer.put("shop", "pair", 1, Row(1, 2))
    return Savepoint.open(tmp_path / "v1")


def migrated(savepoint, new, target, *, convert=(), repartition=None):
    options = MigrationOptions(edits=parse_edits(convert=convert), repartition=repartition)
    ready, folder = prepare(savepoint, new, options), Folder.at(target)
    folder.create()
    results = [perform(task, ready.savepoint.folder, folder) for task in ready.tasks]
    publish_result(ready.savepoint, ready.plan, ready.tasks, results, folder)
    return Savepoint.open(target)


def contents(savepoint):
    operator = savepoint.operator("shop")
    values = {name: [entry.value for entry in operator.state(name).read_entries()] for name in STATES}
    return values | {"pair": [tuple(row) for row in values["pair"]]}


def decisions(savepoint, new, **edits):
    report = check(parse_edits(**edits).apply(savepoint.describe()), new.describe())
    return {
        state.name: (state.decision, {one.rule for one in state.result.findings} - {"OPT-5"})
        for _, state in report.states()
    }


def test_what_may_have_been_done_already_is_refused_until_it_is_declared_as_not_done(stored, tmp_path):
    found = decisions(stored, job())

    assert dict.fromkeys(STATES, Decision.REFUSE) == {name: decision for name, (decision, _) in found.items()}
    assert all("STATE-8" in rules for _, rules in found.values())
    with pytest.raises(IncompatibleState, match=r'parse_edits\(convert=\["STATE"\]\)'):
        migrated(stored, job(), tmp_path / "v2")
    assert {Decision.MIGRATE} == {decision for decision, _ in decisions(stored, job(), convert=STATES).values()}


def test_it_is_done_once_and_the_lineage_knows(stored, tmp_path):
    after = migrated(stored, job(), tmp_path / "v2", convert=STATES)

    assert {"price": [500], "prices": [[500, 600]], "by-name": [{"x": 700}], "pair": [(2, 1)]} == contents(after)
    for convert in ((), STATES):
        found = decisions(after, job(), convert=convert)
        for name in STATES[:3]:
            assert (Decision.START, {"STATE-8"}) == found[name], "the same converter is not called again"
        assert Decision.REFUSE is found["pair"][0], "`stored=` left in place would swap the columns back"
    settled = decisions(after, job(row_of({"b": int, "a": int})))
    assert {Decision.START} == {decision for decision, _ in settled.values()}


def test_the_lineage_goes_with_copies_and_new_names(stored, tmp_path):
    once = migrated(stored, job(), tmp_path / "v2", convert=STATES)
    edits = parse_edits(rename_states=["price=cents"], rename_uids=["shop=store"])
    options = MigrationOptions(edits=edits, parallelism=2)
    ready, folder = prepare(once, None, options), Folder.at(tmp_path / "v3")
    folder.create()
    results = [perform(task, ready.savepoint.folder, folder) for task in ready.tasks]
    publish_result(ready.savepoint, ready.plan, ready.tasks, results, folder)
    renamed = Job([Operator("store", key=int, states=[ValueStateDescriptor("cents", int, converter=to_cents)])])

    assert (Decision.START, {"STATE-8"}) == decisions(Savepoint.open(tmp_path / "v3"), renamed)["cents"]


def test_another_converter_or_order_must_be_requested_again(stored, tmp_path):
    after = migrated(stored, job(), tmp_path / "v2", convert=STATES)
    back = row_of({"a": int, "b": int}, stored=("b", "a"))

    assert {Decision.REFUSE} == {decision for decision, _ in decisions(after, job(back, twice)).values()}
    again = migrated(after, job(back, twice), tmp_path / "v3", convert=STATES)
    assert {"price": [1000], "pair": [(1, 2)]}.items() <= contents(again).items()
    assert Decision.MIGRATE is decisions(again, job(), convert=STATES)["pair"][0], "what was last done counts"


def test_without_a_lineage_it_is_unknown(stored, tmp_path):
    """Flink takes a savepoint of its own once it has restored ours."""
    migrated(stored, job(), tmp_path / "v2", convert=STATES)
    (tmp_path / "v2" / "_stateshift.json").unlink()

    found = decisions(Savepoint.open(tmp_path / "v2"), job())

    assert {Decision.REFUSE} == {decision for decision, _ in found.values()}


def test_where_the_type_changes_the_converter_is_called_without_a_word(stored):
    texts = Job([Operator("shop", key=int, states=[ValueStateDescriptor("price", str, converter=str)])])

    assert Decision.MIGRATE is decisions(stored, texts)["price"][0]


def test_a_key_converter_is_asked_for_where_keys_are_rewritten(stored, tmp_path):
    new, anew = job(row_of({"a": int, "b": int}), None, key_converter=twice), Repartition()

    def decided(savepoint, **edits):
        report = check(parse_edits(**edits).apply(savepoint.describe()), new.describe(), repartition=anew)
        return report.decision, {finding.rule for finding in report.operators[0].key.result.findings}

    assert (Decision.REFUSE, "STATE-8") == (decided(stored)[0], *(decided(stored)[1] - {"ROLE-2"}))
    assert Decision.MIGRATE is decided(stored, convert=["shop/<key>"])[0]
    assert Decision.START is check(stored.describe(), new.describe()).decision, "without --repartition no key moves"
    after = migrated(stored, new, tmp_path / "v2", convert=["shop/<key>"], repartition=anew)
    assert [2] == [entry.key for entry in after.operator("shop").state("price").read_entries()]
    assert (Decision.START, {"STATE-8"}) == decided(after)


def test_an_edited_lineage_is_ignored(stored, tmp_path):
    after = migrated(stored, job(), tmp_path / "v2", convert=STATES)
    for plan in (None, {}, {"operators": 3}, {"operators": [{"operator_id": 1}]}, {"operators": [{"states": [None]}]}):
        assert {} == attrs.evolve(after.lineage, plan=plan).done()
