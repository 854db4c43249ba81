"""`resume` after the code was corrected: what the code touched is done again, all of it, and nothing else."""

from __future__ import annotations

import base64
import json

import pytest

from stateshift import (
    CorruptSavepoint,
    IfTargetExists,
    Job,
    ListStateDescriptor,
    MigrationOptions,
    Operator,
    PlanChanged,
    Repartition,
    Savepoint,
    SavepointWriter,
    ValueNotConvertible,
    ValueStateDescriptor,
    migrate,
)
from stateshift.cli.render.plan import plan_lines
from stateshift.compat.repartition import Merge
from stateshift.state.migration.plan_file import NewTypes, PlanFile
from stateshift.state.migration.planning import make_plan
from stateshift.state.savepoint.verify import verify

OLD = Job(
    [
        Operator("counter", key=int, states=[ValueStateDescriptor("count", int)]),
        Operator("other", key=int, states=[ValueStateDescriptor("total", int)]),
        Operator("lists", list_states=[ListStateDescriptor("offsets", int)]),
    ]
)
KEYS, SUBTASKS, PAD = 300, 6, "x" * 3000
"""Values become large, so that streams are files, and not bytes in the journal."""


@pytest.fixture
def source(tmp_path):
    with SavepointWriter(tmp_path / "old", OLD, parallelism=SUBTASKS) as writer:
        for key in range(KEYS):
            writer.put("counter", "count", key, key)
            writer.put("other", "total", key, -key)
        for offset in range(3):
            writer.add("lists", "offsets", offset)
    return tmp_path / "old"


def job_with(count, total=None, offsets=None):
    """The new types; a state whose converter is None stays."""
    return Job(
        [
            Operator("counter", key=int, states=[_value("count", count)]),
            Operator("other", key=int, states=[_value("total", total)]),
            Operator(
                "lists",
                list_states=[ListStateDescriptor("offsets", str if offsets else int, converter=offsets)],
            ),
        ]
    )


def _value(name, converter):
    return ValueStateDescriptor(name, str if converter else int, converter=converter)


def named(function, name="convert"):
    """The function under one name, as after an edit and another start of Python."""
    function.__qualname__ = function.__name__ = name
    return function


def last_key(source):
    """The key that is read last, of the last stream."""
    return list(Savepoint.open(source).operator("counter").state("count").read_entries())[-1].key


def resume(source, target, job, **more):
    return migrate(source, target, job, target_exists=IfTargetExists.RESUME, **more)


def values(target, operator="counter", state="count"):
    return {entry.key: entry.value for entry in Savepoint.open(target).operator(operator).state(state).read_entries()}


def failing_and_mended(source):
    bad = last_key(source)

    @named
    def old(x):
        if x == bad:
            raise ValueError("no such account")
        return f"old {x} {PAD}"

    @named
    def new(x):
        return f"new {x} {PAD}"

    return old, new


def to_total(x):
    return f"total {x} {PAD}"


def to_offset(x):
    return str(x)


def test_all_values_come_from_the_corrected_converter_and_other_streams_stay_finished(source, tmp_path):
    old, new = failing_and_mended(source)
    target = tmp_path / "new"
    with pytest.raises(ValueNotConvertible, match="to be resumed"):
        resume(source, target, job_with(old, to_total, to_offset))
    finished = {file.name: file.read_text() for file in target.glob("*.done")}
    by_old = [name for name, text in finished.items() if "count" in json.loads(text)["code"]]
    assert by_old
    assert len(by_old) < len(finished)

    report = resume(source, target, job_with(new, to_total, to_offset))

    assert {key: f"new {key} {PAD}" for key in range(KEYS)} == values(target)
    assert {key: f"total {-key} {PAD}" for key in range(KEYS)} == values(target, "other", "total")
    assert len(by_old) == len(report.redone)
    assert len(finished) - len(by_old) == report.resumed
    assert {f"{__name__}.convert: the code, or what it calls, has changed since"} == {one.why for one in report.redone}
    assert verify(Savepoint.open(target)).ok
    assert not list(target.glob("*.attempt-*"))


def test_the_same_code_goes_on_with_all_that_is_finished(source, tmp_path):
    old, _ = failing_and_mended(source)
    again, _ = failing_and_mended(source)
    target = tmp_path / "new"
    with pytest.raises(ValueNotConvertible):
        resume(source, target, job_with(old))
    finished = sorted(file.name for file in target.glob("*.done"))

    with pytest.raises(ValueNotConvertible):
        resume(source, target, job_with(again))

    assert finished == sorted(file.name for file in target.glob("*.done"))


def test_what_another_plan_has_finished_is_done_again_and_reported(source, tmp_path):
    old, new = failing_and_mended(source)
    target = tmp_path / "new"
    with pytest.raises(ValueNotConvertible):
        resume(source, target, job_with(old))

    report = resume(source, target, job_with(named(new, "to_text")))

    assert {"it was finished by another plan"} == {one.why for one in report.redone}
    assert {key: f"new {key} {PAD}" for key in range(KEYS)} == values(target)


def stopped_run(source, target, stop, small=False):
    """Begin a run whose last stream fails as long as a file is there; gives the job."""
    bad, pad = last_key(source), "" if small else PAD

    def convert(x):
        if x == bad and stop.exists():
            raise ValueError("stopped")
        return f"{x} {pad}"

    job = job_with(convert)
    stop.touch()
    with pytest.raises(ValueNotConvertible):
        resume(source, target, job)
    stop.unlink()
    return job


@pytest.mark.parametrize("damage", ["zeroed", "one byte", "cut off", "gone"])
def test_finished_streams_that_were_damaged_are_done_again_and_reported(source, tmp_path, damage):
    target = tmp_path / "new"
    job = stopped_run(source, target, tmp_path / "stop")
    [attempt, *others] = sorted(target.glob("*.attempt-*"))
    data = attempt.read_bytes()
    attempt.unlink()
    if damage != "gone":
        attempt.write_bytes({"zeroed": bytes(len(data)), "cut off": data[:-1]}.get(damage, data[:-1] + b"!"))

    report = resume(source, target, job)

    assert others
    assert ["its result is damaged or missing"] == [one.why for one in report.redone]
    assert {key: f"{key} {PAD}" for key in range(KEYS)} == values(target)
    assert verify(Savepoint.open(target)).ok


def test_small_streams_that_were_damaged_within_the_journal_are_done_again(source, tmp_path):
    target = tmp_path / "new"
    job = stopped_run(source, target, tmp_path / "stop", small=True)
    [entry, *_] = sorted(target.glob("*.done"))
    facts = json.loads(entry.read_text())
    data = bytearray(base64.b64decode(facts["result"]["stored"]["data"]))
    data[-1] ^= 1
    facts["result"]["stored"]["data"] = base64.b64encode(data).decode()
    entry.write_text(json.dumps(facts))

    report = resume(source, target, job)

    assert [entry.name.removesuffix(".done")] == [one.stream for one in report.redone]
    assert {key: f"{key} " for key in range(KEYS)} == values(target)


def test_a_published_savepoint_that_was_damaged_before_the_run_learned_of_it_is_refused(source, tmp_path):
    """The run died between publishing and clearing its journal, and the files with it."""
    target = tmp_path / "new"
    job = stopped_run(source, target, tmp_path / "stop")
    journal = {file.name: file.read_bytes() for file in target.glob("*.done")}
    resume(source, target, job)
    for name, data in journal.items():
        (target / name).write_bytes(data)
    assert resume(source, target, job).resumed
    for name, data in journal.items():
        (target / name).write_bytes(data)
    [file, *_] = sorted(target.glob("*keyed*"))
    file.write_bytes(bytes(file.stat().st_size))

    with pytest.raises(CorruptSavepoint, match=r"target_exists=IfTargetExists\.REPLACE"):
        resume(source, target, job)


def planned(source, job, options=MigrationOptions()):  # noqa: B008 - immutable
    file = make_plan(Savepoint.open(source), job, options, NewTypes())
    return PlanFile.from_json(file.to_json())


def test_a_plan_that_was_made_with_another_body_of_the_converter_is_refused(source, tmp_path):
    plan = planned(source, job_with(named(lambda x: f"old {x}")))

    with pytest.raises(PlanChanged) as refused:
        migrate(source, tmp_path / "new", job_with(named(lambda x: f"new {x}")), expected=plan)

    assert any(f"state count: code of {__name__}.convert, or what it calls" in one for one in refused.value.differences)
    assert not (tmp_path / "new").exists()
    report = migrate(source, tmp_path / "new", job_with(named(lambda x: f"old {x}")), expected=plan)
    assert report.states


def test_a_plan_with_code_that_cannot_be_compared_is_refused_with_the_reason(source, tmp_path):
    view = memoryview(b"a")
    job = job_with(named(lambda x: f"{x} {view[0]}"))
    plan = planned(source, job)

    with pytest.raises(PlanChanged) as refused:
        migrate(source, tmp_path / "new", job, expected=plan)

    assert any("uses a builtins.memoryview, which cannot be compared" in one for one in refused.value.differences)
    assert any("a run with this plan file will be refused" in str(line) for line in plan_lines(plan))


def test_merges_belong_to_the_plan(source):
    options = [
        MigrationOptions(repartition=Repartition(max_parallelism=64, merge={"count": Merge("job:merge", function)}))
        for function in (lambda a, b: a + b, lambda a, b: a - b)
    ]
    job = job_with(None)

    one, other = (planned(source, job, wanted) for wanted in options)

    with pytest.raises(PlanChanged) as refused:
        one.require_same(other)
    assert any("code of job:merge, or what it calls" in text for text in refused.value.differences)


def test_the_lineage_records_the_code(source, tmp_path):
    migrate(source, tmp_path / "new", job_with(to_total))

    [state] = [
        state
        for operator in Savepoint.open(tmp_path / "new").lineage.plan["operators"]
        for state in operator["states"]
        if state["name"] == "count"
    ]

    assert [f"{__name__}.to_total"] == list(state["code"])
