"""The journal of a run: what is finished is not done again, and only what belongs to the same run counts."""

import attrs
import pytest

from stateshift import BigInt, Job, Operator, Savepoint, ValueStateDescriptor, check
from stateshift.compat.planner import plan
from stateshift.state.migration.journal import SUFFIX, Journal, run_id
from stateshift.state.migration.run import name_of, publish_result, split
from stateshift.state.migration.run_task import perform
from stateshift.state.publication.runs import final_name
from stateshift.state.savepoint.verify import verify
from stateshift.state.storage.files import Folder


@pytest.fixture
def run(savepoint_of, tmp_path):
    """A migration of a savepoint whose streams are files, and its journal."""
    source = Savepoint.open(savepoint_of("rocksdb-long-p2-m200-files"))
    job = Job([Operator("keyed-op", key=int, states=[ValueStateDescriptor("count", BigInt)])])
    migration = plan(check(source.describe(), job.describe()))
    tasks = split(source, migration)
    target = Folder.at(tmp_path / "target")
    target.create()
    return source, migration, tasks, target, Journal(target, run_id(source, migration, map(name_of, tasks)))


def test_finished_tasks_are_read_back_as_they_were(run):
    source, _, tasks, target, journal = run
    results = [perform(task, source.folder, target) for task in tasks]
    assert any(result.stored.attempt for result in results)
    for result in results:
        journal.record(result)

    assert {result.stored.name: result for result in results} == journal.finished()


def test_a_resumed_run_publishes_what_both_halves_did(run):
    source, migration, tasks, target, journal = run
    journal.record(perform(tasks[0], source.folder, target))
    before = journal.finished()

    results = [before.get(name_of(task)) or perform(task, source.folder, target) for task in tasks]
    publish_result(source, migration, tasks, results, target, generation=journal.generation)

    assert verify(Savepoint.open(target.place)).ok


def test_results_of_another_run_do_not_count(run):
    source, migration, tasks, target, journal = run
    journal.record(perform(tasks[0], source.folder, target))

    other = Journal(target, run_id(source, migration, ["another division"]))

    assert {} == other.finished()


def test_a_result_whose_file_is_gone_or_cut_off_does_not_count(run):
    source, _, tasks, target, journal = run
    result = perform(tasks[0], source.folder, target)
    assert result.stored.attempt
    journal.record(result)

    target.write(result.stored.attempt, b"cut off")

    assert {} == journal.finished()


def test_what_a_run_that_died_while_it_was_publishing_has_renamed_counts(run):
    source, migration, tasks, target, journal = run
    results = [perform(task, source.folder, target) for task in tasks]
    for result in results:
        journal.record(result)
    renamed = [result.stored for result in results if result.stored.attempt]
    for stored in renamed:
        target.rename(stored.attempt, final_name(stored.name, journal.generation))

    finished = journal.finished()
    publish_result(source, migration, tasks, list(finished.values()), target, generation=journal.generation)

    assert renamed
    assert {result.stored.name for result in results} == set(finished)
    assert {attrs.evolve(stored, attempt="") for stored in renamed} <= {done.stored for done in finished.values()}
    assert verify(Savepoint.open(target.place)).ok


def test_a_file_of_another_run_under_the_name_does_not_count(run):
    source, _, tasks, target, journal = run
    result = perform(tasks[0], source.folder, target)
    journal.record(result)
    data = target.read(result.stored.attempt)
    target.delete(result.stored.attempt)

    target.write(final_name(result.stored.name, journal.generation), bytes(len(data)))

    assert {} == journal.finished()


def test_a_journal_that_was_cut_off_does_not_count(run):
    source, _, tasks, target, journal = run
    result = perform(tasks[0], source.folder, target)
    journal.record(result)
    target.write(result.stored.name + SUFFIX, b'{"run": "')

    assert {} == journal.finished()


@pytest.fixture
def published(run):
    """What a run leaves that is killed after `_metadata` is written and before its journal is cleared."""
    source, migration, tasks, target, journal = run
    results = [perform(task, source.folder, target) for task in tasks]
    for result in results:
        journal.record(result)
    return publish_result(source, migration, tasks, results, target, generation=journal.generation)


def test_a_run_knows_what_it_has_published_until_its_journal_is_cleared(run, published):
    source, migration, _, target, journal = run
    assert published.states == journal.published(source, migration).states

    [first, *others] = [name for name in target.names() if name.endswith(SUFFIX)]
    target.delete(first)
    assert journal.published(source, migration) is not None

    for name in others:
        target.delete(name)
    target.write("_run-0123456789ab", b"{}")
    assert journal.published(source, migration) is not None
    assert None is attrs.evolve(journal, calls={"a": {"b": {"c": "d"}}}).published(source, migration)

    target.delete("_run-0123456789ab")
    assert None is journal.published(source, migration)


@pytest.mark.usefixtures("published")
def test_a_savepoint_of_another_run_is_not_taken_for_published(run):
    source, migration, tasks, target, journal = run
    other = attrs.evolve(migration, job="another job")

    assert None is journal.published(source, other)
    assert None is Journal(target, run_id(source, other, map(name_of, tasks))).published(source, other)

    target.write("_metadata", target.read("_metadata") + b"x")
    assert None is journal.published(source, migration)


def test_what_is_not_published_is_not_taken_for_it(run):
    source, migration, tasks, target, journal = run
    journal.record(perform(tasks[0], source.folder, target))

    assert None is journal.published(source, migration)
