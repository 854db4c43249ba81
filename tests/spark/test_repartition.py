"""Keys rewritten on Spark: one shuffle, and the bytes that a run without an engine gives (ROLE-4)."""

from __future__ import annotations

import json

import pytest

from stateshift import (
    IfTargetExists,
    Job,
    ListStateDescriptor,
    MigrationOptions,
    Operator,
    Repartition,
    Savepoint,
    SavepointWriter,
    ValueNotConvertible,
    ValuesCollide,
    ValueStateDescriptor,
    migrate,
)
from stateshift.state.migration.preparation import prepare
from stateshift.state.migration.run import publish_result
from stateshift.state.migration.run_task import perform
from stateshift.state.publication.runs import names_of
from stateshift.state.savepoint.verify import verify
from stateshift.state.storage.files import Folder

USERS_JOB = """
from stateshift import Job, ListStateDescriptor, Operator, ValueStateDescriptor
import texts

states = [ValueStateDescriptor("total", int), ListStateDescriptor("lines", str)]
job = Job([Operator(uid, key=str, key_converter=texts.text, states=states) for uid in ("orders", "returns")])
"""
TEXTS = """
def text(key):
    if key == 13:
        raise ArithmeticError("thirteen")
    return f"order {key}"

def tens(key):
    return str(key // 10)
"""
STATES = [ValueStateDescriptor("total", int), ListStateDescriptor("lines", str)]
OLD = Job([*(Operator(uid, key=int, states=STATES) for uid in ("orders", "returns")), Operator("lists",
          list_states=[ListStateDescriptor("pending", int)])])  # fmt: skip


@pytest.fixture
def source(tmp_path):
    with SavepointWriter(tmp_path / "old", OLD, parallelism=3) as writer:
        for key in range(100, 400):
            for uid in ("orders", "returns"):
                writer.put(uid, "total", key, key)
                writer.put(uid, "lines", key, ["x" * 200, str(key)])
        for element in range(9):
            writer.add("lists", "pending", element)
    return tmp_path / "old"


def here(source, target, job, options):
    """The same without Spark."""
    ready, folder = prepare(Savepoint.open(source), job, options), Folder.at(target)
    folder.create()
    results = [perform(task, ready.savepoint.folder, folder) for task in ready.tasks]
    generation = ready.journal(folder).generation
    publish_result(ready.savepoint, ready.plan, ready.tasks, results, folder, generation=generation)


def test_several_operators_go_through_one_shuffle_and_give_the_bytes_of_a_run_without_spark_run_5(
    spark, source, load, tmp_path, content_of, facts_of
):
    """The job and its converter are the user's own modules, and reach the workers; other state goes along."""
    job = load("users_job", users_job=USERS_JOB, texts=TEXTS).job
    options = MigrationOptions(repartition=Repartition(max_parallelism=1000), parallelism=4)
    before = facts_of(source)

    report = migrate(source, tmp_path / "new", job, options, session=spark)

    here(source, tmp_path / "here", job, options)
    assert content_of(tmp_path / "here") == content_of(tmp_path / "new")
    assert before == facts_of(source)
    assert verify(Savepoint.open(tmp_path / "new")).ok
    assert {("rekey", 300, 300)} == {
        (count.action, count.read, count.written) for count in report.states if count.operator != "lists"
    }


@pytest.mark.slow
def test_a_key_that_fails_and_keys_that_collide_end_the_run_with_their_facts(spark, source, load, tmp_path):
    """RUN-4: one fails where it is read, the other where it is written; nothing of either run is left."""
    module = load("users_job", users_job=USERS_JOB, texts=TEXTS.replace("13", "113"))
    colliding = Job([Operator("orders", key=str, key_converter=module.texts.tens, states=STATES)])
    options = MigrationOptions(repartition=Repartition())

    with pytest.raises(ValueNotConvertible, match=r"failed on 113: ArithmeticError: thirteen") as failed:
        migrate(source, tmp_path / "new", module.job, options, session=spark)
    with pytest.raises(ValuesCollide, match=r"two keys become one: \d+ and \d+ both become") as collided:
        migrate(source, tmp_path / "new", colliding, options, session=spark)

    assert ("ROLE-4", "113", "$<key>") == tuple(failed.value.where[name] for name in ("rule", "key", "path"))
    assert "orders" == collided.value.where["operator"]
    assert not (tmp_path / "new").exists()


def test_a_resumed_run_writes_the_streams_that_are_left(spark, source, tmp_path, content_of):
    options = MigrationOptions(repartition=Repartition(max_parallelism=64), parallelism=3)
    here(source, tmp_path / "here", None, options)
    ready, folder = prepare(Savepoint.open(source), None, options), Folder.at(tmp_path / "new")
    folder.create()
    for task in ready.tasks[::2]:
        ready.journal(folder).record(perform(task, ready.savepoint.folder, folder))
    names = names_of([operator.operator_id for operator in ready.savepoint.operators])
    folder.write("_run-0123456789ab", json.dumps({"names": names}).encode())

    report = migrate(source, tmp_path / "new", None, options, session=spark, target_exists=IfTargetExists.RESUME)

    assert len(ready.tasks[::2]) == report.resumed
    assert content_of(tmp_path / "here") == content_of(tmp_path / "new")
