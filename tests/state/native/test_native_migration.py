"""A migration turns native keyed state into canonical; what it cannot turn, it copies, and refuses to convert."""

import attrs
import pytest

from stateshift import (
    BigInt,
    Compression,
    IncompatibleState,
    Int32,
    Job,
    ListStateDescriptor,
    MapStateDescriptor,
    MigrationOptions,
    Operator,
    Savepoint,
    SavepointWriter,
    UnsupportedFormat,
    ValueStateDescriptor,
    serializer_for,
)
from stateshift import migrate as run_on_spark
from stateshift.state.formats.flink.handles import CANONICAL, NATIVE
from stateshift.state.formats.flink.properties import CANONICAL_PROPERTIES
from stateshift.state.publication.lineage import LINEAGE
from stateshift.state.savepoint.verify import Outcome, verify

UNCHANGED = Job([Operator("keyed-op", key=int)])
TEXT = Job([Operator("keyed-op", key=str)])


def tags(savepoint):
    return {s.managed_keyed.tag for op in savepoint.operators for s in op.stored.subtasks if s.managed_keyed}


def test_native_savepoints_of_flink_become_canonical_with_equal_contents(
    native_heap, migrate, contents, flink_read, tmp_path
):
    source = Savepoint.open(native_heap)
    job = TEXT if source.operator("keyed-op").key.describe() == "string" else UNCHANGED
    found = migrate(native_heap, tmp_path / "new", job)

    assert ({NATIVE}, {CANONICAL}) == (tags(source), tags(found))
    assert CANONICAL_PROPERTIES == found.metadata.properties != source.metadata.properties
    keyed = [
        {i: rooms.get("keyed") for i, rooms in read.items()} for read in (flink_read(native_heap), contents(found))
    ]
    assert keyed[0] == keyed[1]
    for operator in found.operators:
        for state in (state for state in operator.states if state.kind.is_keyed):
            assert source.operator(operator.operator_id).state(state.name).measure() == state.measure()
    report = verify(found)
    assert report.ok
    assert {Outcome.OK} == {check.status for check in report.checks if check.name in {"key groups", "counts"}}
    reframed = {operator["uid"] for operator in found.lineage.plan["operators"] if operator["reframed"]}
    assert {"keyed-op"} == reframed


def test_states_are_converted_on_the_way(savepoint_of, migrate, contents, flink_read, tmp_path):
    source = savepoint_of("hashmap-native-long-p2-m128")
    job = Job([Operator("keyed-op", key=int, states=[ValueStateDescriptor("count", BigInt)])])
    found = migrate(source, tmp_path / "new", job, parallelism=1)

    operator_id = found.operator("keyed-op").operator_id
    new, old = (read[operator_id]["keyed"] for read in (contents(found), flink_read(source)))
    counts = new.pop("count")["entries"], old.pop("count")["entries"]
    assert [[key, int(value["$bigint"])] for key, value in counts[0]] == counts[1]
    assert old == new
    assert 1 == found.operator("keyed-op").parallelism


@attrs.frozen
class Hidden:
    name: str


def test_a_state_in_which_nothing_shows_where_values_end_is_not_rewritten(as_native, migrate, tmp_path):
    """Nor one after it: lengths frame no value here. Without a change, the stream is copied as it is."""

    def job(number):
        states = [ValueStateDescriptor("a", Hidden), ValueStateDescriptor("b", number)]
        return Job([Operator("op", key=int, states=states)])

    with SavepointWriter(tmp_path / "old", job(Int32)) as writer:
        writer.put("op", "a", 1, Hidden("x"))
        writer.put("op", "b", 1, 2)
    as_native(tmp_path / "old")
    own = serializer_for(Hidden).snapshot_configuration().snapshot_id.encode()
    metadata = tmp_path / "old" / "_metadata"
    metadata.write_bytes(metadata.read_bytes().replace(own, own[:-1] + b"_"))
    (tmp_path / "old" / "_stateshift.json").unlink(missing_ok=True)
    same = Job([Operator("op", key=int)])

    with pytest.raises(UnsupportedFormat, match="in which lengths frame no value"):
        migrate(tmp_path / "old", tmp_path / "new", same, parallelism=3)
    with pytest.raises(IncompatibleState, match="lies behind the state 'a'"):
        migrate(
            tmp_path / "old", tmp_path / "new", Job([Operator("op", key=int, states=[job(int).operators[0].states[1]])])
        )


@pytest.mark.parametrize("form", ["canonical", "snappy", "heap native"])
def test_backends_agree(spark, form, as_native, migrate, tmp_path):
    """G30: one job's state as each backend stores it gives the same bytes, in process and on Spark."""
    states = [
        lambda hint: ValueStateDescriptor("value", hint),
        lambda hint: ListStateDescriptor("list", hint),
        lambda hint: MapStateDescriptor("map", hint, hint),
    ]
    old, new = (Job([Operator("op", key=int, states=[make(hint) for make in states])]) for hint in (Int32, int))
    sources = {"canonical": Compression.NONE, form: Compression.SNAPPY if form == "snappy" else Compression.NONE}
    for name, compression in sources.items():
        with SavepointWriter(tmp_path / name, old, compression=compression, parallelism=2) as writer:
            for key in (1, 2, 3):
                writer.put("op", "value", key, key)
                writer.put("op", "list", key, [key, -key])
                writer.put("op", "map", key, {key: 1, 0: 2})
    if form == "heap native":
        as_native(tmp_path / form)
        assert {NATIVE} == tags(Savepoint.open(tmp_path / form))

    migrate(tmp_path / "canonical", tmp_path / "expected", new)
    migrate(tmp_path / form, tmp_path / "here", new, compression=Compression.NONE)
    run_on_spark(
        tmp_path / form, tmp_path / "spark", new, MigrationOptions(compression=Compression.NONE), session=spark
    )

    expected, here, there = (
        {file.name: file.read_bytes() for file in (tmp_path / name).iterdir() if file.name != LINEAGE}
        for name in ("expected", "here", "spark")
    )
    assert expected == here == there
    assert {1: [1, -1], 2: [2, -2], 3: [3, -3]} == {
        entry.key: entry.value
        for entry in Savepoint.open(tmp_path / "spark").operator("op").state("list").read_entries()
    }


class TestWhatCannotBeReframed:
    """A state whose values have no end that can be found, in a native stream."""

    @pytest.fixture
    def folder(self, savepoint_copy, as_native):
        folder = savepoint_copy("hashmap-kryo")
        as_native(folder)
        return folder

    def test_its_operator_is_copied_as_it_is(self, folder, migrate, tmp_path):
        found = migrate(folder, tmp_path / "new", UNCHANGED)

        assert {NATIVE} == tags(found)
        assert Savepoint.open(folder).metadata == found.metadata

    def test_converting_any_of_its_states_is_refused_with_the_class(self, folder, migrate, tmp_path):
        job = Job([Operator("keyed-op", key=int, states=[ValueStateDescriptor("plain", BigInt)])])

        with pytest.raises((IncompatibleState, UnsupportedFormat), match=r"kryo<fx\.Scenarios\$Thing>"):
            migrate(folder, tmp_path / "new", job)
        assert not (tmp_path / "new" / "_metadata").exists()
