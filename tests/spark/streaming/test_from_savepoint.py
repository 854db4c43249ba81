"""A query begins with a savepoint: of another query, with its offsets or not, of Flink, of a bootstrap."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from typing import Any

import attrs
import pytest
from streaming_batches import BACKENDS
from streaming_totals import totals as run_totals
from streaming_totals import visits

from stateshift import (
    DeclarationError,
    Job,
    KeyedProcessFunction,
    MigrationOptions,
    Operator,
    Savepoint,
    SavepointNotFound,
    StateSource,
    ValueStateDescriptor,
    bootstrap,
)
from stateshift.spark.streaming.carriers import TRANSFORM
from stateshift.spark.streaming.savepoints import take_savepoint
from stateshift.spark.streaming.taken_offsets import TakenOffsets
from stateshift.state.backends.restore_check import RestoreRefused
from stateshift.state.storage.files import Folder

COLUMNS = "user string, amount long"


@attrs.frozen
class Visit:
    user: str
    amount: int


class Totals(KeyedProcessFunction):
    def open(self, runtime_context):
        self.total = runtime_context.get_state(ValueStateDescriptor("total", int, default_value=0))

    def process_element(self, value: Visit, ctx: Any) -> Iterator[tuple[str, int]]:
        self.total.update(self.total.value() + value.amount)
        yield value.user, self.total.value()


class Means(KeyedProcessFunction):
    """Has the same state as a float."""

    def open(self, runtime_context):
        self.total = runtime_context.get_state(ValueStateDescriptor("total", float, default_value=0.0))

    def process_element(self, value: Visit, ctx: Any) -> Iterator[tuple[str, float]]:
        self.total.update(self.total.value() + value.amount)
        yield value.user, self.total.value()


def of(function, uid="operator"):
    return lambda job, query: job.stream(query.frame()).key_by("user").process(function(), uid=uid)


def stored_in(place, uid="operator"):
    """The totals of a savepoint or state directory, by user."""
    entries = Savepoint.open(place).operator(uid).state("total").read_entries()
    return {entry.key: entry.value for entry in entries}


# With the offsets of another query


@pytest.fixture
def first(query, tmp_path):
    """A query that was stopped, with a savepoint; there is a file that it has not read."""
    made = query(COLUMNS)
    made.feed(("ann", 1), ("bob", 2))
    made.feed(("ann", 10))
    made.run(of(Totals))
    take_savepoint(tmp_path / "state", tmp_path / "savepoint")
    made.feed(("ann", 100), ("cy", 3))
    return made


@pytest.fixture
def second(query, tmp_path):
    """Another query with the same input, which has read nothing."""
    made, same = query(COLUMNS, slots=3), query(COLUMNS)
    made.place = tmp_path / "second"
    made.place.mkdir()
    made.frame = same.frame
    return made


@pytest.mark.slow
def test_a_query_goes_on_from_state_and_offsets_of_another(first, second, tmp_path, monkeypatch):
    begin = {"from_savepoint": tmp_path / "savepoint", "take_offsets": True}
    with monkeypatch.context() as patched:  # the start dies before the offsets are those of the first batch
        patched.setattr(TakenOffsets, "finish", lambda _: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            second.run(of(Totals), begin=begin)
    second.run(of(Totals))

    assert [("ann", 111), ("cy", 3)] == second.results()
    shutil.rmtree(tmp_path / "savepoint")
    shutil.rmtree(tmp_path / "checkpoint")
    first.feed(("ann", 1000), ("bob", 1))
    second.run(of(Totals), begin=begin)
    assert [("ann", 111), ("ann", 1111), ("bob", 3), ("cy", 3)] == second.results()
    assert [f"FileSource[{tmp_path / 'in'}]"] == Savepoint.open(second.place / "state").position["sources"]


@pytest.mark.slow
@pytest.mark.usefixtures("first")
def test_offsets_are_taken_over_by_the_other_carrier_from_a_checkpoint_that_was_moved(second, tmp_path):
    begin = {"from_savepoint": tmp_path / "savepoint", "take_offsets": True}
    moved = shutil.move(tmp_path / "checkpoint", tmp_path / "moved")
    with pytest.raises(SavepointNotFound, match="lacks batch 0"):
        second.run(of(Totals), begin=begin, carrier=TRANSFORM)
    roots = [(tmp_path / "checkpoint", moved)]
    second.run(of(Totals), begin=begin | {"allow_roots": roots}, carrier=TRANSFORM)

    assert [("ann", 111), ("cy", 3)] == second.results()
    assert {"ann": 111, "bob": 2, "cy": 3} == stored_in(second.place / "state")


def file_log(folder, *names):
    """Write the log of a file source as Spark does: `N` has the entry of batch N, `N.compact` all up to it."""
    folder.mkdir(parents=True)
    for name in names:
        number = int(name.partition(".")[0])
        batches = range(number + 1) if ".compact" in name else [number]
        lines = ["v1", *(json.dumps({"path": f"file:///in/{n}", "timestamp": n, "batchId": n}) for n in batches)]
        (folder / name).write_text("\n".join(lines), encoding="utf-8")


@pytest.mark.parametrize("last", [0, 8, 9, 10, 19, 20])
def test_of_the_log_of_files_what_the_offset_covers_is_copied(tmp_path, last):
    place = tmp_path / "sources" / "0"
    file_log(place, "8", "9.compact", "10", "19.compact", "20", "21")
    offsets = f'v1\n{{"conf":{{}}}}\n{{"logOffset":{last}}}'
    position = {"checkpoint": str(tmp_path), "offsets": offsets, "sources": ["FileSource[/in]"]}

    copied = dict(TakenOffsets(Folder.at(tmp_path / "new"), position).logs(10))

    entries = [json.loads(line) for content in copied.values() for line in content.decode().splitlines()[1:]]
    assert list(range(last + 1)) == [entry["batchId"] for entry in entries]
    assert f"0/{last}{'.compact' if last % 10 == 9 else ''}" == list(copied)[-1]
    assert all(content.startswith(b"v1\n") for content in copied.values())


# Refusals; nothing of Spark runs


@pytest.fixture
def small(tmp_path):
    """The place of a savepoint of a query with 8 key groups."""
    engine = run_totals(tmp_path / "other", BACKENDS["rocksdb"])
    engine.batch(visits(ann=1, bob=2))
    take_savepoint(tmp_path / "other", tmp_path / "small")
    return tmp_path / "small"


def test_the_savepoint_of_a_query_is_canonical_whatever_its_backend(small):
    assert [False] == [operator.is_native for operator in Savepoint.open(small).operators]


def with_position(savepoint, **position):
    file = savepoint / "_stateshift.json"
    facts = json.loads(file.read_text(encoding="utf-8"))
    file.write_text(json.dumps(facts | {"position": facts["position"] | position}), encoding="utf-8")


@pytest.mark.slow
def test_a_savepoint_that_does_not_fit_is_refused_before_anything_is_written(query, small, tmp_path):
    live = query(COLUMNS)

    def refused(match, *, build=None, **options):
        of_job = {name: options.pop(name) for name in ("max_parallelism",) if name in options}
        with pytest.raises(DeclarationError, match=match):
            live.run(build or of(Totals), begin={"from_savepoint": small, **options}, **of_job)

    refused(
        r"operators that the query does not have: operator\n.*allow_non_restored_state", build=of(Totals, "misspelt")
    )
    refused(r"has 8 key groups, and .* have 16\n.*leave out max_parallelism", max_parallelism=16)
    refused(r"is the state directory of a query, .*\n.*stateshift savepoint", from_savepoint=tmp_path / "other")
    refused("does not say how far", take_offsets=True)
    refused("not said which savepoint", from_savepoint=None, take_offsets=True)
    kafka = '{"topic":{"0":1}}'
    with_position(small, sources=["kafka"], offsets=f'v1\n{{"conf":{{}}}}\n{kafka}')
    refused(r"of other sources: it has kafka, and the query FileSource\[.*/in\]", take_offsets=True)
    with_position(small, sources=[f"FileSource[{tmp_path / 'in'}]"], offsets='v1\n{"conf":{}}\n{"logOffset":4}')
    with pytest.raises(Exception, match=r"lacks batch 0: .*\n.*put back the checkpoint"):
        live.run(of(Totals), begin={"from_savepoint": small, "take_offsets": True})
    assert not (tmp_path / "state").exists() or not list((tmp_path / "state").iterdir())
    assert not (tmp_path / "checkpoint").exists()


# With other types, and from other places


@pytest.mark.slow
def test_a_savepoint_with_another_type_is_refused_and_then_migrated(query, small, tmp_path):
    live = query(COLUMNS)
    live.feed(("ann", 10))
    begin = {"from_savepoint": small}
    by_default = r"not accepted by default: lossy(.|\n)*MigrationOptions\(\)"  # a double has 53 bits
    with pytest.raises(RestoreRefused, match=by_default):
        live.run(of(Means), begin=begin, on_incompatible="migrate")
    with pytest.raises(RestoreRefused, match="before that is migrated"):
        live.run(of(Means), begin=begin, options=MigrationOptions())
    live.run(of(Means), begin=begin, on_incompatible="migrate", options=MigrationOptions())

    assert [("ann", 11.0)] == live.results()
    assert {"ann": 11.0, "bob": 2.0} == stored_in(tmp_path / "state")
    assert 8 == live.directory.max_parallelism
    with pytest.raises(DeclarationError, match=r"but not with its offsets\n.*leave out take_offsets"):
        live.run(of(Means), begin={**begin, "take_offsets": True})
    shutil.copytree(small, tmp_path / "moved")
    live.run(of(Means), begin={"from_savepoint": tmp_path / "moved"})
    take_savepoint(tmp_path / "state", tmp_path / "later")
    with pytest.raises(DeclarationError, match=r"has begun with another savepoint, .*small\n.*from its own state"):
        live.run(of(Means), begin={"from_savepoint": tmp_path / "later"})


@pytest.mark.slow
def test_a_native_savepoint_of_flink_is_read_whatever_its_number_of_key_groups(query, savepoint_of, expected_of):
    class Counts(KeyedProcessFunction):
        def open(self, runtime_context):
            self.count = runtime_context.get_state(ValueStateDescriptor("count", int))

        def process_element(self, value: Any, ctx: Any) -> Iterator[int]:
            yield self.count.value() or 0

    name = "rocksdb-native-long-p2-m200"
    (stored,) = (one for one in expected_of(name, version="2.3-native")["operators"] if one.get("keyed"))
    counts = dict(stored["keyed"]["count"]["entries"])
    live = query("user long, amount long")
    live.feed(*((key, 0) for key in counts), (123456789, 0))
    begin = {"from_savepoint": savepoint_of(name, version="2.3-native"), "allow_non_restored_state": True}
    live.run(of(Counts, stored["uid"]), begin=begin)

    assert sorted([*counts.values(), 0]) == sorted(value for (value,) in live.results())
    assert 200 == live.directory.max_parallelism
    opened = Savepoint.open(live.place / "state")
    assert [stored["uid"]] == [one.uid for one in opened.operators]
    assert {state.name for state in opened.operators[0].states} >= set(stored["keyed"])


@pytest.mark.slow
def test_a_stream_goes_on_where_a_bootstrap_ended(query, spark, tmp_path):
    rows = [(f"user {number % 7}", number % 5, number) for number in range(100)]
    columns = "user string, amount long, day long"
    live = query(columns)
    for start in range(0, 100, 25):
        live.feed(*rows[start : start + 25])
    history = spark.read.parquet(str(tmp_path / "in")).where("day < 40").groupBy("user").sum("amount")
    job = Job([Operator("operator", key=str, states=[ValueStateDescriptor("total", int)])])
    source = StateSource("operator", "total", history, key_by="user", value="sum(amount)")
    bootstrap(tmp_path / "first", job, [source], position={"day": 40})

    live.run(
        lambda job, query: (
            job.stream(query.frame(per_batch=4).where("day >= 40")).key_by("user").process(Totals(), uid="operator")
        ),
        begin={"from_savepoint": tmp_path / "first"},
    )

    expected = {user: sum(amount for one, amount, _ in rows if one == user) for user, *_ in rows}
    assert expected == stored_in(tmp_path / "state")
    assert 60 == len(live.results())


def test_an_operator_is_known_by_its_id_where_its_job_set_no_uid(tmp_path):
    name = "0123456789abcdef" * 2
    engine = run_totals(tmp_path / "query", BACKENDS["hashmap"], uid=name)
    engine.batch(visits(ann=1))
    take_savepoint(tmp_path / "query", tmp_path / "savepoint")

    assert [(name, "")] == [(one.operator_id, one.uid) for one in Savepoint.open(tmp_path / "savepoint").operators]
    assert {"ann": 1} == stored_in(tmp_path / "savepoint", name)
