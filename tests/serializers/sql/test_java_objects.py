"""Objects in Java serialization are parsed as structure, and written again byte for byte."""

import json
import random

import pytest

from stateshift import CorruptSavepoint, StateShiftError
from stateshift.serializers.snapshot import snapshot_from_bytes, snapshot_to_bytes
from stateshift.serializers.sql.java_objects import JavaObject, read_java_object, write_java_object
from stateshift.serializers.sql.logical_types import read_logical_type, write_logical_type
from stateshift.serializers.sql.serializers import snapshot_of_type
from stateshift.serializers.views import DataInputView, DataOutputView

HEAD = b"\xac\xed\x00\x05"
FLIPS = 2000


@pytest.fixture(scope="module")
def written_by_flink(root):
    """What real Flink 2.3 and 1.20 write for a type: its summary, the type in Java serialization, its snapshot."""
    rows = json.loads((root / "tests/fixtures/flink-sql-types.json").read_text(encoding="utf-8"))
    return [(row["type"], bytes.fromhex(row["java"]), bytes.fromhex(row["snapshot"])) for row in rows]


def objects_in(folder):
    for file in sorted(folder.glob("flink-sql-2.3/*/savepoint/*")):
        data, at = file.read_bytes(), 0
        while (at := data.find(HEAD, at)) >= 0:
            source = DataInputView(data, at)
            yield read_java_object(source), source.span(at)
            at = source.position


def test_every_object_of_a_savepoint_is_written_as_it_was(root):
    found = list(objects_in(root / "tests/fixtures"))

    for one, data in found:
        target = DataOutputView()
        write_java_object(one, target)
        assert data == target.getvalue()
    assert len(found) > 80


def test_a_type_is_told_as_flink_tells_it_and_written_as_flink_writes_it(written_by_flink):
    for told, java, snapshot in written_by_flink:
        of = read_logical_type(DataInputView(java))
        target = DataOutputView()
        write_logical_type(of, target)

        assert (told, java, snapshot) == (of.describe(), target.getvalue(), snapshot_to_bytes(snapshot_of_type(of)))


def test_a_snapshot_of_flink_is_read_and_written_as_it_was(written_by_flink):
    for _, java, snapshot in written_by_flink:
        read = snapshot_from_bytes(snapshot)

        assert snapshot == snapshot_to_bytes(read)
        assert snapshot_of_type(read_logical_type(DataInputView(java))) == read


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "0 are left"),
        (b"\xac\xed\x00\x06", "does not begin as one"),
        (HEAD + b"\x7d", "has the tag 0x7d"),
        (HEAD + b"\x71\x00\x7e\x00\x00", "refers to what is not in it"),
        (HEAD + b"\x73\x70", "has no class where one is needed"),
        (HEAD + b"\x73\x72\x00\x01A" + bytes(8) + b"\x0c\x00\x00\x78\x70", "externalizable"),
        (HEAD + b"\x75\x72\x00\x02[I" + bytes(8) + b"\x02\x00\x00\x78\x70\x7f\xff\xff\xff", "items are declared"),
        (HEAD + b"\x7c" + b"\x7f" * 8, "has another size"),
        (HEAD + b"\x72\x00\x01A" + bytes(8) + b"\x02\x00\x00\x78\x71\x00\x7e\x00\x00", "above itself"),
        (HEAD + (b"\x75\x72\x00\x02[[" + bytes(8) + b"\x02\x00\x00\x78\x70\x00\x00\x00\x01") * 101, "nested more than"),
    ],
)
def test_what_is_not_read_is_refused(data, why):
    with pytest.raises(CorruptSavepoint, match=why):
        read_java_object(DataInputView(data))


def test_damage_raises_no_other_error(written_by_flink):
    chosen = random.Random(7)  # noqa: S311 - it draws what is damaged
    for _ in range(FLIPS):
        _, _, snapshot = chosen.choice(written_by_flink)
        data = bytearray(snapshot)
        for _ in range(chosen.choice([1, 1, 4])):
            data[chosen.randrange(len(data))] = chosen.randrange(256)
        try:
            snapshot_to_bytes(snapshot_from_bytes(bytes(data)))
        except StateShiftError:
            continue


def test_null_is_no_type():
    target = DataOutputView()
    write_java_object(None, target)

    with pytest.raises(CorruptSavepoint, match="is no type of SQL"):
        read_logical_type(DataInputView(target.getvalue()))


def test_a_field_is_found_in_a_class_above(written_by_flink):
    _, java, _ = written_by_flink[0]
    found = read_java_object(DataInputView(java))

    assert isinstance(found, JavaObject)
    assert (True, None) == (found.get("isNullable"), found.get("nothing"))
