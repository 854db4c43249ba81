"""Serializers of users whose classes are not there: shown and skipped, and everything next to them is read (SNAP-8)."""

import subprocess
import sys
import textwrap

import pytest

from stateshift import BigInt, CorruptSavepoint, Job, OldReaderUnavailable, Operator, Savepoint, ValueStateDescriptor
from stateshift.serializers.snapshot import SkippedSnapshot
from stateshift.state.savepoint.verify import Outcome, verify

MODULE = '''
    """A serializer of a user, which only the writing process has."""

    import attrs

    from stateshift import Job, ListStateDescriptor, MapStateDescriptor, Operator, SavepointWriter, ValueStateDescriptor
    from stateshift import TypeSerializer, TypeSerializerConfigSnapshot, register_snapshot


    @attrs.frozen
    class Shelf(TypeSerializer):
        label: str = "top"

        def serialize(self, value, target):
            target.write_utf(value)

        def deserialize(self, source):
            return source.read_utf()

        def snapshot_configuration(self):
            return ShelfSnapshot(self.label)


    @register_snapshot
    @attrs.define
    class ShelfSnapshot(TypeSerializerConfigSnapshot):
        snapshot_id = "stateshift/users.shelf"
        label: str = ""

        def write(self, target):
            target.write_utf(self.label)

        def read(self, source):
            self.label = source.read_utf()

        def restore_serializer(self):
            return Shelf(self.label)


    def write(place):
        states = [
            ValueStateDescriptor("plain", int),
            ValueStateDescriptor("shelf", Shelf("a label of the shelf")),
            ListStateDescriptor("shelves", Shelf()),
            MapStateDescriptor("by name", str, Shelf()),
        ]
        job = Job([Operator("op", key=int, states=states), Operator("other", key=str, states=[states[0]])])
        with SavepointWriter(place, job) as writer:
            for key in range(3):
                writer.put("op", "plain", key, key)
                writer.put("op", "shelf", key, "left")
                writer.put("op", "shelves", key, ["left", "right"])
                writer.put("op", "by name", key, {"a": "left"})
            writer.put("other", "plain", "k", 7)
'''


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """The bytes of `_metadata` of a savepoint that another process wrote with a class of its own."""
    folder = tmp_path_factory.mktemp("users")
    (folder / "shelves.py").write_text(textwrap.dedent(MODULE), encoding="utf-8")
    code = f"import sys; sys.path.insert(0, {str(folder)!r}); import shelves; shelves.write({str(folder / 'sp')!r})"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
    return (folder / "sp" / "_metadata").read_bytes()


@pytest.fixture
def folder(written, tmp_path):
    """That savepoint, for this process."""
    assert "shelves" not in sys.modules
    (tmp_path / "sp").mkdir()
    (tmp_path / "sp" / "_metadata").write_bytes(written)
    return tmp_path / "sp"


def test_each_state_is_shown_with_its_id(folder):
    operator = Savepoint.open(folder).operator("op")

    assert {
        "plain": "long",
        "shelf": "stateshift/users.shelf (not registered here)",
        "shelves": "list<stateshift/users.shelf (not registered here)>",
        "by name": "map<string, stateshift/users.shelf (not registered here)>",
    } == {state.name: state.description.describe() for state in operator.states}
    assert {3} == {state.measure().entries for state in operator.states}
    (shelf,) = (state for state in operator.states if state.name == "shelf")
    assert (
        SkippedSnapshot("stateshift/users.shelf", 1, b"\0\x14a label of the shelf") == shelf.description.value.snapshot
    )
    assert operator.description.is_flink_restorable is False


def test_other_states_and_operators_are_read(folder):
    savepoint = Savepoint.open(folder)

    assert {0: 0, 1: 1, 2: 2} == {e.key: e.value for e in savepoint.operator("op").state("plain").read_entries()}
    assert [7] == [e.value for e in savepoint.operator("other").state("plain").read_entries()]
    report = verify(savepoint)
    assert report.ok
    (values,) = (c for c in report.checks if c.name == "values" and c.status is Outcome.UNPROVEN)
    assert "by name, shelf, shelves" in values.detail


@pytest.mark.parametrize(("name", "path"), [("shelf", None), ("shelves", "$[]"), ("by name", "${}")])
def test_its_own_values_are_refused_with_id_and_path(folder, name, path):
    state = Savepoint.open(folder).operator("op").state(name)

    with pytest.raises(OldReaderUnavailable, match=r"stateshift/users\.shelf \(version 1") as caught:
        list(state.read_entries())
    where = caught.value.where
    assert {"operator": "op", "state": name}.items() <= where.items()
    assert where["path"] == (path or "$")


def test_any_flipped_bit_of_a_body_is_found_even_if_the_class_is_unknown(written, folder):
    start = written.index(b"a label of the shelf") - 2
    for place in range(start, start + 22):
        damaged = bytearray(written)
        damaged[place] ^= 1 << place % 8
        (folder / "_metadata").write_bytes(bytes(damaged))

        with pytest.raises(CorruptSavepoint, match=r"checksum of the snapshot stateshift/users\.shelf") as caught:
            _ = Savepoint.open(folder).operator("op").states
        assert {"operator": "op", "state": "shelf", "path": "$"}.items() <= caught.value.where.items()
        assert {"file", "offset", "savepoint"} <= caught.value.where.keys()


def test_the_bytes_are_kept_when_another_state_is_converted(folder, tmp_path, migrate):
    job = Job([Operator("op", key=int, states=[ValueStateDescriptor("plain", BigInt)])])
    found = migrate(folder, tmp_path / "new", job).operator("op")
    source = Savepoint.open(folder).operator("op")

    for name in ("shelf", "shelves", "by name"):
        old, new = source.state(name), found.state(name)
        assert (old.measure(), old.description.value.snapshot) == (new.measure(), new.description.value.snapshot)
    assert "bigint" == found.state("plain").description.describe()
