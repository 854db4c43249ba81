"""Timers as a job declares them, and as savepoints hold them: written, read, proven, migrated along with their key."""

import enum

import attrs
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stateshift import (
    Compression,
    CorruptSavepoint,
    Decision,
    DeclarationError,
    GlobalWindow,
    Int32,
    Job,
    ListStateDescriptor,
    Operator,
    ReducingStateDescriptor,
    Savepoint,
    SavepointWriter,
    StateNotFound,
    Target,
    TimeDomain,
    Timer,
    TimerServiceDescriptor,
    TimeWindow,
    ValueNotConvertible,
    ValueStateDescriptor,
    VoidNamespace,
    check,
    enum_options,
)
from stateshift.compat.description import StateKind
from stateshift.compat.plan import StateAction
from stateshift.compat.planner import plan
from stateshift.serializers.flink.namespaces import VOID_NAMESPACE
from stateshift.state.columnar.bootstrap import StateColumns
from stateshift.state.columnar.row_sources import resolve
from stateshift.state.entry_keys import encode
from stateshift.state.formats.flink.blocks import Block
from stateshift.state.formats.flink.handles import InlineHandle
from stateshift.state.formats.flink.keyed_stream import KeyedStreamReader, write_keyed_stream
from stateshift.state.formats.flink.metadata import read_metadata, write_metadata
from stateshift.state.formats.flink.sources import InlineBytes
from stateshift.state.key_groups import java_hash, key_group
from stateshift.state.savepoint.json_encoding import tagged_operator
from stateshift.state.savepoint.verify import Outcome, verify
from stateshift.state.timers import queue_name, queue_parts

EVENT, PROCESSING = "_timer_state/event_user-timers", "_timer_state/processing_user-timers"
WINDOWS = TimerServiceDescriptor("window-timers", namespace=TimeWindow)
LEAST, MOST = -(1 << 63), (1 << 63) - 1


def job_of(key, *timers, states=()):
    return Job([Operator("op", key=key, states=states, timers=timers)])


def timers_of(savepoint, queue=EVENT):
    return set(savepoint.operator("op").state(queue).read_timers())


def failures(savepoint):
    return [check for check in verify(savepoint).checks if check.status is Outcome.FAILED]


class TestDeclaring:
    def test_a_service_has_a_queue_for_each_time(self):
        states = job_of(str, TimerServiceDescriptor(), WINDOWS).operators[0].describe().states

        assert [
            (EVENT, "timer<string, VoidNamespace>"),
            (PROCESSING, "timer<string, VoidNamespace>"),
            ("_timer_state/event_window-timers", "timer<string, TimeWindow>"),
            ("_timer_state/processing_window-timers", "timer<string, TimeWindow>"),
        ] == [(state.name, state.describe()) for state in states]
        assert {StateKind.TIMERS} == {state.kind for state in states}

    @pytest.mark.parametrize("domain", list(TimeDomain))
    def test_names_of_queues_are_taken_apart_again(self, domain):
        assert ("a_b/c\n", domain) == queue_parts(queue_name("a_b/c\n", domain))
        assert queue_parts("event_user-timers") is None

    def test_they_need_a_key(self):
        with pytest.raises(DeclarationError, match="has timers but no key type"):
            Operator("op", timers=[TimerServiceDescriptor()])

    def test_two_services_of_one_name_and_what_is_no_service_are_refused(self):
        with pytest.raises(DeclarationError, match="'user-timers' is declared twice in the timers of"):
            Operator("op", key=int, timers=[TimerServiceDescriptor(), TimerServiceDescriptor(namespace=TimeWindow)])
        with pytest.raises(DeclarationError, match="in the timers of"):
            Operator("op", key=int, timers=[ValueStateDescriptor("a", int)])
        with pytest.raises(DeclarationError, match="non-empty"):
            TimerServiceDescriptor("")


class TestWriting:
    @settings(deadline=None, max_examples=25)
    @given(
        timers=st.sets(st.tuples(st.integers(LEAST, MOST), st.text(max_size=5)), max_size=20),
        max_parallelism=st.sampled_from([64, 128, 129, 300]),
        parallelism=st.integers(1, 5),
        compression=st.sampled_from([Compression.NONE, Compression.SNAPPY]),
    )
    def test_what_was_set_is_read(self, tmp_path_factory, timers, max_parallelism, parallelism, compression):
        place = tmp_path_factory.mktemp("timers") / "savepoint"
        shape = {"max_parallelism": max_parallelism, "parallelism": parallelism, "compression": compression}
        with SavepointWriter(place, job_of(str, TimerServiceDescriptor()), **shape) as writer:
            for timestamp, key in timers:
                writer.register_event_time_timer("op", timestamp, key)
        savepoint = Savepoint.open(place)

        assert {Timer(timestamp, key, VOID_NAMESPACE) for timestamp, key in timers} == timers_of(savepoint)
        assert set() == timers_of(savepoint, PROCESSING)
        assert [] == failures(savepoint)
        counts = {count.state: count.written for count in savepoint.lineage.states}
        assert {EVENT: len(timers), PROCESSING: 0} == counts

    def test_windows_processing_time_and_states_lie_next_to_each_other(self, tmp_path):
        states = [ReducingStateDescriptor("contents", None, int, namespace=TimeWindow)]
        job = job_of(str, TimerServiceDescriptor(), WINDOWS, states=states)
        window = TimeWindow(0, 10)
        with SavepointWriter(tmp_path / "sp", job) as writer:
            writer.put("op", "contents", "a", 7, namespace=window)
            writer.register_event_time_timer("op", 9, "a", namespace=window, service="window-timers")
            writer.register_processing_time_timer("op", 5, "a", service="user-timers")
            writer.register_processing_time_timer("op", 5, "a", service="user-timers")
        savepoint = Savepoint.open(tmp_path / "sp")

        assert {Timer(9, "a", window)} == timers_of(savepoint, "_timer_state/event_window-timers")
        assert {Timer(5, "a", VoidNamespace())} == timers_of(savepoint, PROCESSING)
        (operator,) = savepoint.operators
        assert {
            "event_user-timers": [],
            "processing_user-timers": [["a", {"$void": True}, 5]],
            "event_window-timers": [["a", {"$window": [0, 10]}, 9]],
            "processing_window-timers": [],
        } == tagged_operator(operator, operator.states)["timers"]
        assert [] == failures(savepoint)

    def test_what_does_not_fit_is_refused_with_its_place(self, tmp_path):
        with SavepointWriter(tmp_path / "sp", job_of(Int32, TimerServiceDescriptor())) as writer:
            for timestamp, key, namespace, said in [
                (1, "text", VoidNamespace(), "text"),
                (1, 1 << 40, VoidNamespace(), "fit"),
                (1 << 63, 1, VoidNamespace(), "timestamp"),
                (1, 1, TimeWindow(0, 1), "void namespace"),
            ]:
                with pytest.raises(ValueNotConvertible, match=said) as caught:
                    writer.register_event_time_timer("op", timestamp, key, namespace=namespace)
                assert ("op", EVENT) == (caught.value.where["operator"], caught.value.where["state"])

    def test_the_service_must_be_declared_and_given_if_there_are_several(self, tmp_path):
        with SavepointWriter(tmp_path / "sp", job_of(int, TimerServiceDescriptor(), WINDOWS)) as writer:
            with pytest.raises(StateNotFound, match="has 2 timer services; declared are: user-timers, window-timers"):
                writer.register_event_time_timer("op", 1, 1)
            with pytest.raises(StateNotFound, match="no timer service 'cep'"):
                writer.register_event_time_timer("op", 1, 1, service="cep")
            with pytest.raises(StateNotFound, match="no such state"):
                writer.put("op", EVENT, 1, 1)
        with (
            SavepointWriter(tmp_path / "none", job_of(int)) as writer,
            pytest.raises(StateNotFound, match=r"timers=\["),
        ):
            writer.register_event_time_timer("op", 1, 1)


class TestReading:
    def test_windows_of_flink_are_woken_at_their_end(self, savepoint_of, expected_of):
        name = "rocksdb-windows-p1-m200"
        rows = {operator["uid"]: operator["timers"]["event"] for operator in expected_of(name)["operators"]}
        for operator in Savepoint.open(savepoint_of(name)).operators:
            for state in operator.states:
                if state.name == "_timer_state/event_window-timers":
                    found = list(state.read_timers())
                    assert len(rows.pop(operator.uid)) == len(found)
                    assert all(timer.timestamp == timer.namespace.end - 1 for timer in found)
        assert {} == rows

    def test_each_kind_of_state_has_its_own_way_to_be_read(self, savepoint_of):
        operator = Savepoint.open(savepoint_of("hashmap-long-p1-m128")).operator("keyed-op")

        with pytest.raises(TypeError, match="use read_timers"):
            list(operator.state(EVENT).read_entries())
        with pytest.raises(TypeError, match="use read_entries"):
            list(operator.state("count").read_timers())
        with pytest.raises(TypeError, match="use read_elements"):
            list(operator.state("rules").read_timers())

    def test_bytes_after_a_timer_are_corrupt_and_located(self, tmp_path):
        with SavepointWriter(tmp_path / "sp", job_of(int, TimerServiceDescriptor())) as writer:
            writer.register_event_time_timer("op", 1, 7)
        metadata = read_metadata((tmp_path / "sp" / "_metadata").read_bytes())
        (operator,) = metadata.operators
        (subtask,) = operator.subtasks
        handle = subtask.managed_keyed
        reader = KeyedStreamReader.open(InlineBytes(handle.stream.data), handle)
        blocks = [Block.of(b.key_group, b.state_id, [(key + b"!", v) for key, v in b.items()]) for b in reader.blocks()]
        data, offsets = write_keyed_stream(reader.header, handle.key_groups, blocks)
        broken = attrs.evolve(handle, offsets=offsets, stream=InlineHandle("", data))
        operator = attrs.evolve(operator, subtasks=(attrs.evolve(subtask, managed_keyed=broken),))
        (tmp_path / "sp" / "_metadata").write_bytes(write_metadata(attrs.evolve(metadata, operators=(operator,))))
        savepoint = Savepoint.open(tmp_path / "sp")

        with pytest.raises(CorruptSavepoint, match="1 bytes follow") as caught:
            timers_of(savepoint)
        assert {"operator": "op", "state": EVENT}.items() <= caught.value.where.items()
        assert {"file", "key"} <= caught.value.where.keys()
        assert failures(savepoint)


@enum_options(aliases=("test.Color",))
class Color(enum.Enum):
    RED = enum.auto()
    BLUE = enum.auto()


@enum_options(aliases=(f"{__name__}.Color", "Color"))
class MoreColors(enum.Enum):
    GREEN = enum.auto()
    RED = enum.auto()
    BLUE = enum.auto()


class TestMigrating:
    """ROLE-1 to ROLE-5: the key of a timer is the operator's."""

    @pytest.fixture
    def colors(self, tmp_path):
        job = job_of(Color, TimerServiceDescriptor(), states=[ValueStateDescriptor("n", int)])
        with SavepointWriter(tmp_path / "old", job, parallelism=2) as writer:
            for number, color in enumerate(Color):
                writer.put("op", "n", color, number)
                writer.register_event_time_timer("op", number, color)
        return tmp_path / "old"

    @pytest.mark.parametrize("timers", [(), (TimerServiceDescriptor(),)], ids=["not declared", "declared"])
    def test_they_get_the_reconfigured_key_with_the_operator(self, colors, migrate, tmp_path, timers):
        job = job_of(MoreColors, *timers, states=[ValueStateDescriptor("n", int)])
        report = check(Savepoint.open(colors).describe(), job.describe())
        actions = {state.name: state.action for state in plan(report).operators[0].states}
        found = migrate(colors, tmp_path / "new", job, parallelism=3)
        operator = found.operator("op")

        assert StateAction.RELABEL == actions[EVENT] == actions[PROCESSING]
        timer = operator.state(EVENT).description.value.snapshot
        assert operator.key == timer.children()[0]
        assert ("RED", "BLUE", "GREEN") == tuple(timer.children()[0].symbols)
        assert {(0, "RED"), (1, "BLUE")} == {(timer.timestamp, timer.key.name) for timer in timers_of(found)}
        assert [] == failures(found)

    def test_a_key_of_another_type_is_refused_for_them_too(self, tmp_path):
        with SavepointWriter(tmp_path / "old", job_of(Int32, TimerServiceDescriptor())):
            pass
        report = check(Savepoint.open(tmp_path / "old").describe(), job_of(int, TimerServiceDescriptor()).describe())

        assert Decision.REFUSE == report.decision
        assert {"not checked: the key of its operator is refused"} == {state.note for _, state in report.states()}

    def test_another_namespace_is_refused_as_one(self, tmp_path):
        with SavepointWriter(tmp_path / "old", job_of(int, WINDOWS)):
            pass
        global_windows = TimerServiceDescriptor("window-timers", namespace=GlobalWindow)
        report = check(Savepoint.open(tmp_path / "old").describe(), job_of(int, global_windows).describe())

        assert Decision.REFUSE == report.decision
        findings = [finding for _, state in report.states() for finding in state.result.findings]
        assert {"ROLE-5"} == {finding.rule for finding in findings if finding.path == "$<namespace>"} - {"FAM-2"}

    def test_of_flink_nothing_has_to_change_where_the_key_stays(self, savepoint_of):
        savepoint = Savepoint.open(savepoint_of("hashmap-windows-p2-m128"))
        contents = ReducingStateDescriptor("window-contents", None, tuple[Int32, Int32], namespace=TimeWindow)
        lists = ListStateDescriptor("window-contents", tuple[Int32, Int32], namespace=TimeWindow)
        job = Job(
            [
                Operator("window-reduce", key=str, states=[contents], timers=[WINDOWS]),
                Operator("window-list", key=str, states=[lists], timers=[WINDOWS]),
            ]
        )
        report = check(savepoint.describe(), job.describe(), target=Target.FLINK)

        assert Decision.START == report.decision
        assert {"matched"} == {state.status for _, state in report.states()}
        assert plan(report).is_empty


def test_a_timer_lies_in_the_key_group_of_its_key(tmp_path):
    job = job_of(str, TimerServiceDescriptor())
    with SavepointWriter(tmp_path / "sp", job, max_parallelism=200) as writer:
        writer.register_event_time_timer("op", 1, "ä")
    (subtask,) = read_metadata((tmp_path / "sp" / "_metadata").read_bytes()).operators[0].subtasks
    handle = subtask.managed_keyed
    (block,) = KeyedStreamReader.open(InlineBytes(handle.stream.data), handle).blocks()
    ((key, value),) = block.items()

    serializer = job.operators[0].key
    group = key_group(java_hash("ä", serializer), 200)
    assert (group, b"") == (block.key_group, value)
    assert group.to_bytes(2, "big") + (1 + (1 << 63)).to_bytes(8, "big") + encode(serializer, "ä") + b"\0" == key


def test_timers_are_not_made_from_rows():
    source = StateColumns("op", EVENT, key_by=("key",), value="at")

    with pytest.raises(DeclarationError, match="holds timers, which cannot be made from rows"):
        resolve(job_of(int, TimerServiceDescriptor()), [(source, pa.schema({"key": pa.int64(), "at": pa.int64()}))])
