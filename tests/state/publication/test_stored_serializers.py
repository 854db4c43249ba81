"""Serializers next to a savepoint: nothing is unpickled that the caller does not trust."""

import base64
import json
import pickle

import pytest

from stateshift import (
    CorruptSavepoint,
    Job,
    Operator,
    Savepoint,
    SavepointWriter,
    UntrustedCode,
    ValueStateDescriptor,
    serializer_for,
)
from stateshift.state.publication.lineage import LINEAGE
from stateshift.state.publication.stored_serializers import (
    SERIALIZERS,
    StoredSerializer,
    place_of,
    read_stored_serializers,
    write_pickles,
    write_stored_serializers,
)
from stateshift.state.savepoint.verify import verify
from stateshift.state.storage.files import Folder

PLACE = place_of("00" * 16, "keyed", "s")
called = []


class Trap:
    """Runs code when it is unpickled."""

    def __reduce__(self):
        return (called.append, ("code of the savepoint ran",))


def test_what_is_written_is_read_unopened_and_loads(tmp_path):
    serializers = {PLACE: serializer_for(dict[str, int]), "other/keyed/t/u": serializer_for(str)}
    data = write_stored_serializers(Folder.at(tmp_path), serializers)
    found = read_stored_serializers(Folder.at(tmp_path))

    assert data == (tmp_path / SERIALIZERS).read_bytes()
    assert serializers == {place: StoredSerializer(place, pickled, True)() for place, pickled in found.items()}


def test_pickles_are_taken_over_unopened(tmp_path):
    trap = pickle.dumps(Trap())
    write_pickles(Folder.at(tmp_path), {PLACE: trap})

    assert {PLACE: trap} == read_stored_serializers(Folder.at(tmp_path))
    assert [] == called


def test_there_need_be_none(tmp_path):
    assert {} == read_stored_serializers(Folder.at(tmp_path))


def test_nothing_is_unpickled_that_is_not_trusted():
    with pytest.raises(UntrustedCode, match="trust_stored_serializers=True") as caught:
        StoredSerializer(PLACE, pickle.dumps(Trap()), False)()
    assert PLACE in caught.value.what
    assert [] == called


def test_reading_checking_and_verifying_a_savepoint_unpickles_nothing(tmp_path, contents):
    job = Job([Operator("op", key=int, states=[ValueStateDescriptor("s", int)])])
    with SavepointWriter(tmp_path / "sp", job, store_serializers=True) as writer:
        writer.put("op", "s", 1, 2)
    (tmp_path / "sp" / LINEAGE).unlink()  # it shows the digest of the file that is put in its stead
    write_pickles(Folder.at(tmp_path / "sp"), {place_of(job.operators[0].id, "keyed", "s"): pickle.dumps(Trap())})
    savepoint = Savepoint.open(tmp_path / "sp")
    contents(savepoint)
    verify(savepoint)
    savepoint.describe(trust_stored_serializers=True)

    assert [] == called


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"nonsense", "does not unpickle"),
        (b"", "does not unpickle"),
        (b"cno_such_module\nThing\n.", "does not unpickle: ModuleNotFoundError"),
        (pickle.dumps(5), "holds a int"),
    ],
)
def test_what_is_no_serializer_is_corrupt(data, message):
    with pytest.raises(CorruptSavepoint, match=message) as caught:
        StoredSerializer(PLACE, data, True)()
    assert SERIALIZERS == caught.value.where["file"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "{}",
        '{"format": 1}',
        '{"format": 2, "serializers": {}}',
        '{"format": 1, "serializers": []}',
        '{"format": 1, "serializers": {"a": 5}}',
        '{"format": 1, "serializers": {"a": "not base64!"}}',
        "[" * 100000,
    ],
    ids=range(10),
)
def test_a_damaged_file_is_corrupt(tmp_path, text):
    (tmp_path / SERIALIZERS).write_text(text)

    with pytest.raises(CorruptSavepoint, match="cannot be read") as caught:
        read_stored_serializers(Folder.at(tmp_path))
    assert SERIALIZERS == caught.value.where["file"]


def test_the_file_is_readable_json(tmp_path):
    write_pickles(Folder.at(tmp_path), {PLACE: b"abc"})

    facts = json.loads((tmp_path / SERIALIZERS).read_text())
    assert {"format": 1, "serializers": {PLACE: base64.b64encode(b"abc").decode()}} == facts
