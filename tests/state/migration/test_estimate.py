"""What a run will take, estimated before it begins."""

import json

import attrs
import pytest

from stateshift import (
    BigInt,
    Int32,
    Job,
    ListStateDescriptor,
    MapStateDescriptor,
    NoSpaceLeft,
    Operator,
    Savepoint,
    SavepointWriter,
    StateTransform,
    ValueStateDescriptor,
    check,
)
from stateshift.compat.planner import plan
from stateshift.state.migration.block_rewriter import BlockRewriter
from stateshift.state.migration.estimate import SAMPLE_BYTES, estimate
from stateshift.state.migration.run import split
from stateshift.state.migration.run_task import perform
from stateshift.state.publication.publish import held_bytes
from stateshift.state.publication.runs import names_of
from stateshift.state.storage.files import Folder


def tasks_of(savepoint, descriptor):
    job = Job([Operator("keyed-op", key=int, states=[descriptor])])
    return split(savepoint, plan(check(savepoint.describe(), job.describe())))


@pytest.fixture
def savepoint(savepoint_of):
    return Savepoint.open(savepoint_of("rocksdb-long-p2-m200-files"))


def test_what_will_be_written_is_near_what_is_written(savepoint, tmp_path):
    tasks = tasks_of(savepoint, ValueStateDescriptor("count", BigInt))
    target = Folder.at(tmp_path / "target")
    expected = estimate(tasks, savepoint.folder, target, 2)
    target.create()

    written = sum(perform(task, savepoint.folder, target).stored.size for task in tasks)

    assert sum(task.size_bytes for task in tasks) == expected.bytes_to_read
    assert 0.7 < expected.bytes_to_write / written < 1.4
    assert expected.seconds > 0


def test_values_that_grow_are_taken_for_what_they_become(tmp_path):
    def job(item):
        return Job([Operator("op", key=int, states=[ValueStateDescriptor("s", list[item])])])

    with SavepointWriter(tmp_path / "old", job(Int32)) as writer:
        for key in range(50):
            writer.put("op", "s", key, list(range(1000)))
    savepoint = Savepoint.open(tmp_path / "old")
    tasks = split(savepoint, plan(check(savepoint.describe(), job(int).describe())))
    target = Folder.at(tmp_path / "new")
    expected = estimate(tasks, savepoint.folder, target, 2)
    target.create()
    written = sum(perform(task, savepoint.folder, target).stored.size for task in tasks)

    assert written > 1.7 * expected.bytes_to_read
    assert 0.95 < expected.bytes_to_write / written < 1.05


def test_a_users_functions_are_not_called_before_the_run(savepoint, tmp_path):
    called = []
    transform = StateTransform.from_value(called.append)
    descriptors = [
        ValueStateDescriptor("count", str, converter=called.append),
        ListStateDescriptor("count", int, transform=transform),
    ]

    for descriptor in descriptors:
        tasks = tasks_of(savepoint, descriptor)
        assert estimate(tasks, savepoint.folder, Folder.at(tmp_path), 1).bytes_to_read > 0
    assert [] == called


def test_a_target_without_enough_space_is_refused_with_both_numbers(savepoint, tmp_path):
    tasks = tasks_of(savepoint, ValueStateDescriptor("count", BigInt))
    target = Folder.at(tmp_path)
    expected = attrs.evolve(estimate(tasks, savepoint.folder, target, 2), bytes_to_write=1000, free_bytes=1099)

    with pytest.raises(NoSpaceLeft, match=r"has 1,099 bytes free, but the new savepoint needs about 1,100"):
        expected.require_space(target)

    attrs.evolve(expected, free_bytes=1100).require_space(target)
    attrs.evolve(expected, free_bytes=None).require_space(target)


def test_what_a_run_clears_or_goes_on_with_is_no_loss_to_its_room(savepoint, savepoint_copy, tmp_path):
    tasks = tasks_of(savepoint, ValueStateDescriptor("count", BigInt))
    dead = tmp_path / "dead"
    dead.mkdir()
    (dead / f"{'0' * 32}-keyed-0.attempt-1").write_bytes(bytes(1000))
    (dead / "_run-0123456789ab").write_text(json.dumps({"names": names_of(["0" * 32])}))
    old = savepoint_copy("rocksdb-long-p2-m200-files")

    assert held_bytes(Folder.at(tmp_path / "not there")) == 0
    assert held_bytes(Folder.at(dead)) == 1000
    assert held_bytes(Folder.at(old)) == 0  # what is replaced stays until the new savepoint is complete
    free, with_held = (
        estimate(tasks, savepoint.folder, Folder.at(dead), 1, held_bytes=held).free_bytes for held in (0, 1 << 50)
    )
    assert abs(with_held - (1 << 50) - free) < 1 << 30  # others write on this disk, too


GIANTS = {
    "list in value state": (lambda of: ValueStateDescriptor("s", list[of]), list),
    "list state": (lambda of: ListStateDescriptor("s", of), list),
    "optional list": (lambda of: ValueStateDescriptor("s", list[of] | None), list),
    "map": (lambda of: ValueStateDescriptor("s", dict[int, of]), lambda items: dict(enumerate(items))),
    "list in map state": (lambda of: MapStateDescriptor("s", str, list[of]), lambda items: {"a": list(items)}),
}


@pytest.mark.parametrize("giant", GIANTS)
def test_the_beginning_of_a_giant_value_is_converted_to_predict_its_growth(tmp_path, monkeypatch, giant):
    state_of, value_of = GIANTS[giant]

    def job(item):
        return Job([Operator("op", key=int, states=[state_of(item)])])

    with SavepointWriter(tmp_path / "old", job(Int32)) as writer:
        writer.put("op", "s", 1, value_of(range(200_000)))
    savepoint = Savepoint.open(tmp_path / "old")
    tasks = split(savepoint, plan(check(savepoint.describe(), job(int).describe())))
    seen, rewrite = [], BlockRewriter.rewrite
    target = Folder.at(tmp_path / "new")
    with monkeypatch.context() as patched:
        patched.setattr(
            BlockRewriter,
            "rewrite",
            lambda self, block, *more: seen.append(len(block.data)) or rewrite(self, block, *more),
        )
        expected = estimate(tasks, savepoint.folder, target, 2)
    target.create()
    written = sum(perform(task, savepoint.folder, target).stored.size for task in tasks)

    assert 0 < max(seen) < 2 * SAMPLE_BYTES
    assert expected.seconds > 0.1
    assert 0.95 < expected.bytes_to_write / written < 1.05


def test_a_giant_value_without_items_is_not_converted_for_the_estimate(tmp_path, monkeypatch):
    def job(item):
        return Job([Operator("op", key=int, states=[ValueStateDescriptor("s", item)])])

    with SavepointWriter(tmp_path / "old", job(tuple[Int32, str])) as writer:
        writer.put("op", "s", 1, (1, "a" * 800_000))
    savepoint = Savepoint.open(tmp_path / "old")
    tasks = split(savepoint, plan(check(savepoint.describe(), job(tuple[int, str]).describe())))
    seen = []
    monkeypatch.setattr(BlockRewriter, "rewrite", lambda _, block, *__: seen.append(len(block.data)) or block)

    expected = estimate(tasks, savepoint.folder, Folder.at(tmp_path / "new"), 2)

    assert [] == seen
    assert expected.bytes_to_read == expected.bytes_to_write


def test_a_sample_ends_with_its_bytes(tmp_path, monkeypatch):
    def job(item):
        return Job([Operator("op", key=int, states=[ValueStateDescriptor("s", list[item])])])

    with SavepointWriter(tmp_path / "old", job(Int32)) as writer:
        for key in range(300):
            writer.put("op", "s", key, list(range(3_000)))
    savepoint = Savepoint.open(tmp_path / "old")
    tasks = split(savepoint, plan(check(savepoint.describe(), job(int).describe())))
    seen, rewrite = [], BlockRewriter.rewrite
    monkeypatch.setattr(
        BlockRewriter, "rewrite", lambda self, block, *more: seen.append(len(block.data)) or rewrite(self, block, *more)
    )

    estimate(tasks, savepoint.folder, Folder.at(tmp_path / "new"), 2)

    assert max(seen) < 2 * SAMPLE_BYTES
