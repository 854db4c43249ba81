"""Another parallelism and another compression: the same contents, of every savepoint that real Flink wrote."""

import shutil
from collections import Counter
from itertools import chain

import attrs
import pytest

from stateshift import (
    BigInt,
    Compression,
    DeclarationError,
    IncompatibleState,
    Int32,
    Job,
    ListStateDescriptor,
    MapStateDescriptor,
    Operator,
    Savepoint,
    SavepointWriter,
    ValueStateDescriptor,
    check,
)
from stateshift.compat.plan_data import to_data
from stateshift.compat.planner import plan
from stateshift.state.formats.flink.handles import InlineHandle, KeyedHandle
from stateshift.state.formats.flink.keyed_stream import read_stream_header
from stateshift.state.formats.flink.metadata import read_metadata, write_metadata
from stateshift.state.formats.flink.operator_stream import read_operator_stream, read_operator_stream_header
from stateshift.state.formats.flink.sources import open_stream
from stateshift.state.key_groups import key_group_range
from stateshift.state.migration.rescale import reshape
from stateshift.state.migration.run import split
from stateshift.state.migration.tasks import CopyTask
from stateshift.state.savepoint.verify import Outcome, verify

COUNT_AS_BIGINT = Job([Operator("keyed-op", key=int, states=[ValueStateDescriptor("count", BigInt)])])


@attrs.frozen
class SameTypes:
    """In place of a job: the types that are stored."""

    place: str

    def describe(self):
        return Savepoint.open(self.place).describe().as_probe()


def plan_for(savepoint, job):
    return plan(check(savepoint.describe(), job.describe()))


def failures(savepoint):
    return [check for check in verify(savepoint).checks if check.status is Outcome.FAILED]


def with_lists_as_one(rooms):
    """Lists over all subtasks, and of broadcast maps one: what does not depend on the parallelism."""
    found = {}
    for operator_id, by_room in rooms.items():
        lists = {
            name: {"mode": state["mode"], "elements": sorted(repr(e) for part in state["subtasks"] for e in part)}
            for name, state in by_room.get("operator", {}).items()
        }
        found[operator_id] = {
            **{room: content for room, content in by_room.items() if room != "operator"},
            **({"operator": lists} if lists else {}),
            **(
                {"broadcast": {n: maps[0] for n, maps in by_room["broadcast"].items()}}
                if "broadcast" in by_room
                else {}
            ),
        }
    return found


def headers(savepoint):
    """The header of every managed stream."""
    for operator in savepoint.operators:
        for subtask in operator.stored.subtasks:
            for handle in filter(None, (subtask.managed_keyed, subtask.managed_operator)):
                with open_stream(handle.stream, savepoint.folder) as source:
                    is_keyed = isinstance(handle, KeyedHandle)
                    yield (read_stream_header if is_keyed else read_operator_stream_header)(source, handle)


def compressed(savepoint):
    return {header.compressed for header in headers(savepoint)}


@pytest.mark.parametrize(
    ("parallelism", "compression"), [(1, Compression.NONE), (3, Compression.SNAPPY), (5, Compression.KEEP)]
)
def test_contents_depend_on_neither(canonical, migrate, contents, tmp_path, parallelism, compression):
    source = Savepoint.open(canonical)
    shape = {"parallelism": parallelism, "compression": compression}
    found = migrate(canonical, tmp_path / "new", SameTypes(canonical), **shape)

    assert with_lists_as_one(contents(source)) == with_lists_as_one(contents(found))
    wanted = {Compression.NONE: {False}, Compression.SNAPPY: {True}}.get(compression, compressed(source))
    assert wanted == compressed(found)
    assert [] == failures(found)
    for operator in found.operators:
        stored = operator.stored
        if any(subtask.managed_keyed or subtask.managed_operator for subtask in stored.subtasks):
            assert parallelism == stored.parallelism == len(stored.subtasks)
        for subtask in stored.subtasks:
            if subtask.managed_keyed:
                ours = key_group_range(subtask.index, parallelism, stored.max_parallelism)
                assert ours == subtask.managed_keyed.key_groups


class TestParallelism:
    @pytest.mark.parametrize("parallelism", [1, 16, 200])
    def test_converted_contents_do_not_depend_on_it(
        self, savepoint_of, accounts, migrate, contents, flink_read, without_kinds, tmp_path, parallelism
    ):
        source = savepoint_of("rocksdb-account-v1")
        found = migrate(source, tmp_path / "new", accounts(2), parallelism=parallelism)

        expected = flink_read(source, "flink-migrated-to-v2.json")
        assert with_lists_as_one(without_kinds(expected)) == with_lists_as_one(without_kinds(contents(found)))
        assert [] == failures(found)
        assert {state.state: state.written for state in found.lineage.states} == {
            state.state: state.written for state in migrate(source, tmp_path / "same", accounts(2)).lineage.states
        }

    def test_there_and_back_again_is_where_it_began(self, savepoint_of, migrate, contents, tmp_path):
        source = savepoint_of("rocksdb-long-p2-m200-files")
        migrate(source, tmp_path / "five", SameTypes(source), parallelism=5)
        found = migrate(tmp_path / "five", tmp_path / "two", SameTypes(source), parallelism=2)

        assert with_lists_as_one(contents(source)) == with_lists_as_one(contents(found))

    def test_operators_without_state_and_those_that_have_it_already_are_left_alone(self, savepoint_of):
        savepoint = Savepoint.open(savepoint_of("hashmap-string-p2-m128-files"))
        same = plan_for(savepoint, SameTypes(savepoint.place))

        assert reshape(savepoint, same, parallelism=2).is_empty
        assert {CopyTask} == {type(task) for task in split(savepoint, reshape(savepoint, same, parallelism=2))}
        changed = reshape(savepoint, same, parallelism=3)
        assert {"keyed-op"} < {operator.uid for operator in changed.operators if operator.is_rescaled}
        assert not any(isinstance(task, CopyTask) for task in split(savepoint, changed))

    def test_twice_gives_the_same_files(self, savepoint_of, migrate, tmp_path):
        source = savepoint_of("rocksdb-long-p2-m200-files")
        for name in ("one", "two"):
            migrate(source, tmp_path / name, COUNT_AS_BIGINT, parallelism=3, compression=Compression.SNAPPY,
                    reverse=name == "two")  # fmt: skip

        one, two = ({f.name: f.read_bytes() for f in (tmp_path / name).iterdir()} for name in ("one", "two"))
        assert one.keys() == two.keys()
        assert {name for name in one if one[name] != two[name]} <= {"_stateshift.json"}

    def test_the_plan_reports_it(self, savepoint_of):
        savepoint = Savepoint.open(savepoint_of("hashmap-operator-only-p2-m128"))
        changed = reshape(
            savepoint, plan_for(savepoint, SameTypes(savepoint.place)), parallelism=1, compression=Compression.SNAPPY
        )

        assert {(1, "snappy")} == {(o["parallelism"], o["compression"]) for o in to_data(changed)["operators"]}

    @pytest.mark.parametrize(
        ("parallelism", "said"), [(0, "not possible"), (-1, "not possible"), (201, "200 key groups")]
    )
    def test_a_number_that_cannot_be_is_refused(self, savepoint_of, accounts, parallelism, said):
        savepoint = Savepoint.open(savepoint_of("rocksdb-account-v1"))

        with pytest.raises(DeclarationError, match=said):
            reshape(savepoint, plan_for(savepoint, accounts(2)), parallelism=parallelism)


@pytest.fixture
def changed_copy(savepoint_of, tmp_path):
    """`changed_copy(name, change)`: a savepoint whose first stateful subtask was changed."""

    def copy(name, change):
        folder = tmp_path / "changed"
        shutil.copytree(savepoint_of(name), folder)
        metadata = read_metadata((folder / "_metadata").read_bytes())
        operators = []
        for operator in metadata.operators:
            subtasks = list(operator.subtasks)
            if operator.has_state:
                subtasks[0] = change(subtasks[0])
            operators.append(attrs.evolve(operator, subtasks=tuple(subtasks)))
        (folder / "_metadata").write_bytes(write_metadata(attrs.evolve(metadata, operators=tuple(operators))))
        return folder

    return copy


class TestRefused:
    """What only an operator's own code can redistribute, or nothing can."""

    @pytest.mark.parametrize(
        ("change", "said"),
        [
            (lambda subtask: attrs.evolve(subtask, raw_keyed=subtask.managed_keyed), "raw state"),
            (lambda subtask: attrs.evolve(subtask, raw_operator=subtask.managed_operator), "raw state"),
            (
                lambda subtask: attrs.evolve(subtask, finished=True, managed_keyed=None, managed_operator=None),
                "finished",
            ),
        ],
        ids=["raw keyed", "raw operator", "finished"],
    )
    def test_state_that_cannot_be_dealt_out(self, changed_copy, change, said):
        savepoint = Savepoint.open(changed_copy("rocksdb-long-p2-m200-files", change))
        same = plan_for(savepoint, SameTypes(savepoint.place))

        with pytest.raises(IncompatibleState, match="2 subtasks cannot become 3") as caught:
            reshape(savepoint, same, parallelism=3)
        assert said in caught.value.what
        assert caught.value.where["operator"]
        assert reshape(savepoint, same, parallelism=2).is_empty

    def test_an_operator_with_unreadable_states(self, savepoint_of, tmp_path):
        folder = tmp_path / "unknown"
        shutil.copytree(savepoint_of("rocksdb-account-v1"), folder)
        data = (folder / "_metadata").read_bytes()
        (folder / "_metadata").write_bytes(data.replace(b"PojoSerializerSnapshot", b"PojoSerializerSnapshoy"))
        savepoint = Savepoint.open(folder)
        job = Job([Operator("account-state", key=int)])

        with pytest.raises(IncompatibleState, match=r"its states are not known: .*Snapshoy"):
            reshape(savepoint, plan_for(savepoint, job), parallelism=3)
        assert reshape(savepoint, plan_for(savepoint, job), compression=Compression.SNAPPY).is_empty


class TestOperatorState:
    JOB = Job(
        [
            Operator(
                "op",
                list_states=[ListStateDescriptor("split", Int32), ListStateDescriptor("other", Int32)],
                union_list_states=[ListStateDescriptor("union", Int32)],
                broadcast_states=[MapStateDescriptor("b", Int32, Int32)],
            )
        ]
    )

    @pytest.fixture
    def three(self, tmp_path):
        with SavepointWriter(tmp_path / "old", self.JOB, parallelism=3) as writer:
            for subtask in range(3):
                for element in range(2 * subtask):
                    writer.add("op", "split", 10 * subtask + element, subtask=subtask)
                writer.add("op", "union", subtask, subtask=subtask)
            writer.put_broadcast("op", "b", 1, 2)
            writer.put_broadcast("op", "b", 3, 4)
        return tmp_path / "old"

    def test_each_mode_is_dealt_out_in_its_way(self, three, migrate, tmp_path):
        found = migrate(three, tmp_path / "new", self.JOB, parallelism=4)

        operator = found.operator("op")
        assert [[10, 11], [20, 21], [22], [23]] == operator.state("split").read_elements()
        assert [[0], [1], [2], []] == operator.state("union").read_elements()
        assert [[{1: 2, 3: 4}]] * 4 == operator.state("b").read_elements()
        assert [[], [], [], []] == operator.state("other").read_elements()
        counts = {count.state: (count.read, count.written) for count in found.lineage.states}
        assert {"split": (6, 6), "other": (0, 0), "union": (3, 3), "b": (8, 8)} == counts
        assert [] == failures(found)

    def test_it_is_converted_on_the_way(self, three, migrate, tmp_path):
        job = Job(
            [
                Operator(
                    "op",
                    list_states=[ListStateDescriptor("split", int)],
                    union_list_states=[ListStateDescriptor("union", BigInt)],
                    broadcast_states=[MapStateDescriptor("b", int, BigInt)],
                )
            ]
        )
        found = migrate(three, tmp_path / "new", job, parallelism=1, compression=Compression.SNAPPY)

        operator = found.operator("op")
        assert [[10, 11, 20, 21, 22, 23]] == operator.state("split").read_elements()
        assert [[0, 1, 2]] == operator.state("union").read_elements()
        assert [[{1: 2, 3: 4}]] == operator.state("b").read_elements()
        types = {state.name: state.description.describe() for state in operator.states}
        assert {"split": "long", "other": "int", "union": "bigint", "b": "map<long, bigint>"} == types
        assert {True} == compressed(found)
        assert [] == failures(found)

    def test_all_subtasks_list_the_states_that_only_some_of_them_had(self, three, migrate, tmp_path):
        """As after a job whose subtasks registered other states; the stream of subtask 0 is one without any."""
        metadata = read_metadata((three / "_metadata").read_bytes())
        (operator,) = metadata.operators
        with SavepointWriter(
            tmp_path / "few", Job([Operator("op", list_states=[ListStateDescriptor("new", str)])])
        ) as w:
            w.add("op", "new", "ä")
        (few,) = read_metadata((tmp_path / "few" / "_metadata").read_bytes()).operators
        subtasks = (few.subtasks[0], *operator.subtasks[1:])
        changed = attrs.evolve(metadata, operators=(attrs.evolve(operator, subtasks=subtasks),))
        (three / "_metadata").write_bytes(write_metadata(changed))
        (three / "_stateshift.json").unlink()

        found = migrate(three, tmp_path / "new", SameTypes(three), parallelism=2)

        assert [{"new", "split", "other", "union", "b"}] * 2 == [
            {info.name for info in h.states} for h in headers(found)
        ]
        operator = found.operator("op")
        assert [["ä"], []] == operator.state("new").read_elements()
        assert Counter([10, 11, 20, 21, 22, 23]) == Counter(chain(*operator.state("split").read_elements()))
        assert [[{1: 2, 3: 4}]] * 2 == operator.state("b").read_elements()
        assert [] == failures(found)


def test_elements_are_read_in_the_order_of_the_handle(savepoint_of, operator_streams_of):
    """Flink reads them by their offsets one after the other, whatever order these have."""
    looked_at = 0
    for _, _, handle, source in operator_streams_of(savepoint_of("hashmap-operator-only-p2-m128")):
        stored = read_operator_stream(source, handle)
        states = tuple(attrs.evolve(state, offsets=state.offsets[::-1]) for state in handle.states)
        turned = read_operator_stream(source, attrs.evolve(handle, states=states))
        part = read_operator_stream(source, handle, {handle.states[0].name: range(1, 3)})

        for name, elements in stored.elements.items():
            assert elements[::-1] == turned.elements[name]
            assert elements[1:3] if name == handle.states[0].name else () == part.elements[name]
            looked_at += len(elements)
    assert looked_at > 2


def test_inline_streams_stay_inline_when_they_are_small(savepoint_of, migrate, tmp_path):
    source = savepoint_of("hashmap-long-p1-m128")
    found = migrate(source, tmp_path / "new", SameTypes(source), parallelism=2, compression=Compression.SNAPPY)

    streams = [s.managed_operator.stream for o in found.operators for s in o.stored.subtasks if s.managed_operator]
    assert streams
    assert {InlineHandle} == set(map(type, streams))
