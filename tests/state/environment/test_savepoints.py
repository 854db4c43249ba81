"""The state of a program: checkpoints, savepoints, and programs that go on from them."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from shutil import rmtree

import pytest

from stateshift import Savepoint, verify
from stateshift.pyflink.common import Configuration, Types
from stateshift.pyflink.datastream import (
    CheckpointingMode,
    KeyedProcessFunction,
    MapFunction,
    SourceFunction,
    StreamExecutionEnvironment,
    WindowFunction,
)
from stateshift.pyflink.datastream.state import ListStateDescriptor, ValueStateDescriptor
from stateshift.pyflink.datastream.window import CountTrigger, GlobalWindows
from stateshift.serializers.errors import DeclarationError, TargetExists
from stateshift.state.backends.restore_check import RestoreRefused
from stateshift.state.publication import commit
from stateshift.state.runtime.checkpointed import CheckpointedFunction, ListCheckpointed

BACKEND = pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
PAIRS = [("a", 1), ("b", 2), ("a", 3), ("c", 4)]


class Totals(KeyedProcessFunction):
    def __init__(self, state_type=None):
        self.state_type = state_type or Types.LONG()

    def open(self, runtime_context):
        self.total = runtime_context.get_state(ValueStateDescriptor("total", self.state_type))

    def process_element(self, value, ctx):
        total = (self.total.value() or 0) + value[1]
        self.total.update(total)
        yield value[0], total


class Batches(MapFunction, CheckpointedFunction):
    """The state of the operator: the elements that are not yet sent, by the three."""

    def initialize_state(self, context):
        self.state = context.get_operator_state_store().get_list_state(ListStateDescriptor("waiting", int))
        self.waiting = list(self.state.get())

    def snapshot_state(self, context):
        self.state.update(self.waiting)

    def map(self, value):
        self.waiting.append(value)
        sent = self.waiting if len(self.waiting) == 3 else None
        self.waiting = [] if sent else self.waiting
        return sent


def environment(backend="hashmap", savepoint="", parallelism=1, **values):
    keys = {"state.backend.type": backend, "parallelism.default": str(parallelism), **values}
    if savepoint:
        keys["execution.savepoint.path"] = str(savepoint)
    return StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(keys))


def totals(env, elements=PAIRS, function=None, uid="totals"):
    keyed = env.from_collection(elements).key_by(lambda pair: pair[0], Types.STRING())
    return keyed.process(function or Totals()).uid(uid)


def results(stream, **options):
    seen = []
    stream.add_sink(seen.append)
    stream.get_execution_environment().execute(**options)
    return sorted(seen)


@BACKEND
@pytest.mark.parametrize(("before", "after"), [(1, 1), (1, 3), (3, 1), (2, 5)])
def test_a_program_goes_on_from_a_savepoint_at_any_parallelism(tmp_path, backend, before, after):
    results(totals(environment(backend, parallelism=before)), savepoint=tmp_path / "sp")
    env = environment(backend, tmp_path / "sp", after)

    assert [("a", 4), ("a", 5), ("b", 3), ("c", 5), ("d", 1)] == results(
        totals(env, [("a", 0), ("a", 1), ("b", 1), ("c", 1), ("d", 1)])
    )


def test_all_operators_are_in_one_savepoint(tmp_path):
    def program(env, numbers):
        batches = env.from_collection(numbers).map(Batches()).uid("batches").set_parallelism(1)
        pairs = batches.flat_map(lambda sent: sent or ())
        keyed = pairs.key_by(lambda number: number % 2, Types.INT())
        sums = keyed.reduce(lambda one, two: one + two).uid("sums")
        windows = sums.key_by(lambda _: 0, Types.INT()).window(GlobalWindows.create()).trigger(CountTrigger.of(4))
        return windows.apply(Count()).uid("windows")

    class Count(WindowFunction):
        def apply(self, key, window, inputs):
            return [sorted(inputs)]

    assert [] == results(program(environment(), [1, 2, 3, 4, 5]), savepoint=tmp_path / "sp")
    assert verify(tmp_path / "sp").ok
    uids = {one.uid for one in Savepoint.open(str(tmp_path / "sp")).operators}
    assert {"batches", "sums", "windows"} == uids
    assert [[1, 2, 4, 6]] == results(program(environment(savepoint=tmp_path / "sp", parallelism=2), [6]))


def test_event_time_does_not_end_at_a_savepoint(tmp_path):
    class Later(KeyedProcessFunction):
        def process_element(self, value, ctx):
            ctx.timer_service().register_event_time_timer(10**15)

        def on_timer(self, timestamp, ctx):
            yield ctx.get_current_key()

    def program(env, elements):
        return env.from_collection(elements).key_by(lambda value: value, Types.STRING()).process(Later()).uid("later")

    assert [] == results(program(environment(), ["a"]), savepoint=tmp_path / "sp")
    assert ["a", "b"] == results(program(environment(savepoint=tmp_path / "sp"), ["b"]))


@BACKEND
def test_checkpoints_are_taken_and_gone_on_from(tmp_path, backend):
    class UntilChecked(SourceFunction, ListCheckpointed):
        """Emits numbers, and counts them under the lock, until two checkpoints are complete."""

        state_type = int

        def __init__(self):
            self.count, self.taken = 0, 0

        def run(self, ctx):
            while self.taken < 2:
                with ctx.get_checkpoint_lock():
                    ctx.collect(("k", 1))
                    self.count += 1

        def cancel(self):
            pass

        def snapshot_state(self, checkpoint_id, timestamp):
            self.taken += 1
            return [self.count]

        def restore_state(self, state):
            (self.count,) = state

    def program(env, source):
        return env.add_source(source).uid("source").key_by(lambda pair: pair[0], Types.STRING()).process(Totals())

    class Rest(UntilChecked):
        def run(self, ctx):
            ctx.collect(("k", -self.count))

    incremental = {"execution.checkpointing.incremental": "true"} if backend == "rocksdb" else {}
    keys = {"execution.checkpointing.dir": str(tmp_path), "execution.checkpointing.num-retained": "2", **incremental}
    env = environment(backend, **keys).enable_checkpointing(1)
    program(env, UntilChecked()).uid("totals")
    result = env.execute()

    assert result.checkpoint.endswith("chk-3")
    assert ["chk-2", "chk-3"] == sorted(one.name for one in (tmp_path / result.get_job_id()).glob("chk-*"))
    for one in ("chk-2", "chk-3"):  # what the source has counted is what has arrived
        after = environment(backend, tmp_path / result.job_id / one)
        assert [("k", 0)] == results(program(after, Rest()).uid("totals"))


def test_without_a_folder_checkpoints_are_gone_with_the_run():
    env = environment().enable_checkpointing(1)
    totals(env)

    assert "" == env.execute().checkpoint
    assert 1 == env.get_checkpoint_interval()


def test_settings_of_checkpoints_without_an_effect_are_taken_with_a_warning():
    env = environment()
    config = env.get_checkpoint_config().set_checkpoint_interval(5)
    with pytest.warns(UserWarning, match="execution.checkpointing.min-pause in the call has no effect"):
        config.set_min_pause_between_checkpoints(7)
    with pytest.warns(UserWarning, match="execution.checkpointing.mode in the call has no effect"):
        config.set_checkpointing_mode(CheckpointingMode.AT_LEAST_ONCE)
    env.set_parallelism(2)  # warns no more

    assert config.is_checkpointing_enabled()
    assert 5 == config.get_checkpoint_interval()


def test_state_that_no_operator_claims_is_refused(tmp_path):
    results(totals(environment()), savepoint=tmp_path / "sp")

    with pytest.raises(DeclarationError, match="has state of operators that the program does not have"):
        results(totals(environment(savepoint=tmp_path / "sp"), uid="other"))
    ignoring = {"execution.savepoint.ignore-unclaimed-state": "true"}
    assert [("a", 1)] == results(totals(environment(savepoint=tmp_path / "sp", **ignoring), [("a", 1)], uid="other"))


@BACKEND
def test_changed_types_are_migrated_if_that_is_allowed(tmp_path, backend):
    def program(state_type, parallelism=1):
        env = environment(backend, tmp_path / "sp" if (tmp_path / "sp").exists() else "", parallelism)
        return totals(env, [("a", 1), ("d", 2)], Totals(state_type))

    results(totals(environment(backend, parallelism=2), function=Totals(Types.INT())), savepoint=tmp_path / "sp")

    with pytest.raises(RestoreRefused, match='pass on_incompatible="migrate" to execute'):
        results(program(Types.LONG()))
    assert [("a", 5), ("d", 2)] == results(program(Types.LONG(), 3), on_incompatible="migrate")
    assert Savepoint.open(str(tmp_path / "sp-migrated")).lineage.plan is not None
    with pytest.raises(RestoreRefused, match="cannot go on"):
        results(program(Types.BOOLEAN()), on_incompatible="migrate")


@pytest.fixture
def seconds_pass(monkeypatch):
    """Each savepoint is written in a second of its own."""
    clock = count()
    monkeypatch.setattr(commit, "now", lambda: f"2026-01-01T00:00:{next(clock):02}+00:00")


def of_long(place, function=None):
    """Run the program with wider types from a savepoint, which is migrated; return the place that it went on from."""
    env = environment(savepoint=place)
    totals(env, [("a", 1)], function or Totals(Types.LONG()))
    return env.execute(on_incompatible="migrate").migrated


@pytest.mark.usefixtures("seconds_pass")
def test_a_savepoint_that_was_migrated_is_not_migrated_again(tmp_path):
    place = tmp_path / "sp"
    results(totals(environment(), function=Totals(Types.INT())), savepoint=place)

    assert [f"{place}-migrated"] * 2 == [of_long(place), of_long(place)]
    assert "" == of_long(f"{place}-migrated")


@pytest.mark.usefixtures("seconds_pass")
def test_what_is_not_surely_the_same_migration_is_not_taken(tmp_path):
    place = tmp_path / "sp"

    def take():
        results(totals(environment(), function=Totals(Types.INT())), savepoint=place)

    take()
    assert f"{place}-migrated" == of_long(place)
    assert f"{place}-migrated-2" == of_long(place, Totals(Types.DOUBLE()))
    rmtree(place)
    take()
    assert f"{place}-migrated-3" == of_long(place)
    for file in Path(f"{place}-migrated-3").iterdir():
        file.write_bytes(b"")
    assert f"{place}-migrated-4" == of_long(place)


def test_a_failed_run_publishes_nothing(tmp_path):
    env = environment(**{"execution.checkpointing.dir": str(tmp_path)}).enable_checkpointing(10**9)
    totals(env).map(lambda _: 1 // 0)

    with pytest.raises(ZeroDivisionError):
        env.execute(savepoint=tmp_path / "sp")
    assert not (tmp_path / "sp").exists()


def test_files_configure_a_run_and_a_call_wins(tmp_path, monkeypatch):
    conf = tmp_path / "conf"
    conf.mkdir()
    (conf / "config.yaml").write_text("parallelism:\n  default: 2\npipeline.max-parallelism: 64\n")
    (tmp_path / "pyproject.toml").write_text("[tool.stateshift]\nparallelism.default = 3\n")
    (tmp_path / "other.yaml").write_text("parallelism.default: 4\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FLINK_CONF_DIR", str(conf))
    made = StreamExecutionEnvironment.get_execution_environment

    assert (3, 64) == (made().get_parallelism(), made().get_max_parallelism())
    assert (4, 64) == (made("other.yaml").get_parallelism(), made(tmp_path / "other.yaml").get_max_parallelism())
    assert 5 == made().configure("other.yaml").set_parallelism(5).get_parallelism()
    with pytest.raises(DeclarationError, match="3 is no configuration"):
        made(3)
    monkeypatch.setenv("STATESHIFT_PARALLELISM_DEFAULT", "6")
    env = made()
    found = env.from_collection(range(8)).rebalance().map(Subtask()).execute_and_collect()
    assert set(range(6)) == set(found)


class Subtask(MapFunction):
    def open(self, runtime_context):
        self.number = runtime_context.get_index_of_this_subtask()

    def map(self, value):
        return self.number


def test_the_environment_and_the_project_configure_a_run(tmp_path, monkeypatch):
    results(totals(environment()), savepoint=tmp_path / "sp")
    monkeypatch.setenv("STATESHIFT_EXECUTION_SAVEPOINT_PATH", str(tmp_path / "sp"))

    assert [("a", 5)] == results(totals(StreamExecutionEnvironment.get_execution_environment(), [("a", 1)]))


def test_a_savepoint_that_is_there_is_refused_before_an_element_has_an_effect(tmp_path):
    results(totals(environment()), savepoint=tmp_path / "sp")
    seen = []
    stream = totals(environment())
    stream.add_sink(seen.append)

    with pytest.raises(TargetExists) as refused:
        stream.get_execution_environment().execute(savepoint=tmp_path / "sp")

    assert [] == seen
    assert "REPLACE" not in str(refused.value)


def test_no_savepoint_is_none(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    stream = totals(environment())
    stream.add_sink(lambda _: None)

    assert "" == stream.get_execution_environment().execute(savepoint=None).savepoint
    assert [] == list(tmp_path.iterdir())
    with pytest.raises(DeclarationError, match="the savepoint is True, not a folder"):
        stream.get_execution_environment().execute(savepoint=True)


def test_flinks_present_key_names_the_savepoint_too(tmp_path):
    results(totals(environment()), savepoint=tmp_path / "sp")
    env = environment(**{"execution.state-recovery.path": str(tmp_path / "sp")})

    assert [("a", 5)] == results(totals(env, [("a", 1)]))
