"""What a reviewer reads of a history is what it says: each edit of a file is noticed, whatever it is about."""

from __future__ import annotations

import base64
import bz2
import copy
import datetime as dt
import hashlib
import json

import pytest

from stateshift import (
    CorruptFile,
    DeclarationError,
    Int32,
    Job,
    ListStateDescriptor,
    Operator,
    UnsupportedFormat,
    ValueStateDescriptor,
    serializer_for,
)
from stateshift.compat.gate.history import History, RecordedRevision
from stateshift.compat.gate.recorded_text import print_recorded
from stateshift.compat.gate.recording import FORMAT, from_json, to_json
from stateshift.compat.gate.stamps import Stamps
from stateshift.compat.json_files import SEAL, seal_of
from stateshift.serializers.snapshot import snapshot_to_bytes

DAY = dt.date(2026, 3, 1)
STAMPS = Stamps().stamped("production", "0123456789ab", DAY).stamped("test", "ba9876543210", DAY)


def described():
    lists = [ListStateDescriptor("pending", Int32)]
    states = [ValueStateDescriptor("open", dict[str, Int32])]
    return Job([Operator("shop", name="Shop", key=str, states=states, list_states=lists)]).describe("job orders:job")


def revision_text():
    return History().next(described(), "Orders", DAY).to_json()


def places(value, at=()):
    """Every place of a document at which there is something to edit."""
    if isinstance(value, dict | list):
        for name, part in value.items() if isinstance(value, dict) else enumerate(value):
            yield from places(part, (*at, name))
    yield at


def without(document, place):
    *above, last = place
    holder = document
    for name in above:
        holder = holder[name]
    del holder[last]


def edited(document, place):
    *above, last = place
    holder = document
    for name in above:
        holder = holder[name]
    was = holder[last]
    if isinstance(was, dict | list):
        holder[last] = [*was, "x"] if isinstance(was, list) else {**was, "x": 1}
    else:
        holder[last] = {str: f"{was}x", int: 7, bool: not was}.get(type(was), "x")


def sealed(document):
    """A document as written by someone who edits files and knows how they are sealed."""
    rest = {name: value for name, value in document.items() if name not in {"format", "version", SEAL}}
    return print_recorded(FORMAT, rest)


READERS = {
    "a revision": (revision_text(), lambda text: RecordedRevision.from_json("0001_orders", text)),
    "a snapshot": (to_json(described()), from_json),
    "stamps": (STAMPS.to_json(), Stamps.from_json),
}


@pytest.mark.parametrize("change", [edited, without], ids=["edited", "taken out"])
@pytest.mark.parametrize("what", READERS)
def test_no_edit_of_a_single_place_goes_unnoticed(what, change):
    """Uid, name, origin, parallelism, words of a type, notes and stamps among them."""
    text, read = READERS[what]
    read(text)

    for place in filter(None, places(json.loads(text))):
        document = copy.deepcopy(json.loads(text))
        change(document, place)
        with pytest.raises((CorruptFile, UnsupportedFormat)):
            pytest.fail(f"unnoticed at {place}: {read(json.dumps(document))}")


def test_the_layout_of_a_file_does_not_matter():
    text, read = READERS["a revision"]

    assert read(json.dumps(json.loads(text), indent=None, sort_keys=True)).message == "Orders"


def test_words_that_do_not_match_the_bytes_are_noticed_even_with_a_new_seal():
    document = json.loads(to_json(described()))
    part = document["types"][document["operators"][0]["key"]]
    data = snapshot_to_bytes(serializer_for(int).snapshot_configuration())
    part["bzip2"], part["sha256"] = base64.b64encode(bz2.compress(data)).decode(), hashlib.sha256(data).hexdigest()

    with pytest.raises(CorruptFile, match="the type is given as 'string', but the bytes have long"):
        from_json(sealed(document))


def test_a_revision_of_an_earlier_release_has_no_seal_and_is_read(root):
    file = next((root / "examples" / "gate" / "state_history").glob("0001*.json"))

    assert 1 == json.loads(file.read_text())["version"]
    assert "0001" == RecordedRevision.from_json(file.stem, file.read_text()).name[:4]


class TestStamps:
    @pytest.mark.parametrize(
        "name",
        ["", "head", "3", "٣", "a/b", "..", "a..b", "a\\b", "a\n", "a\x1b[1m", "prod:1", "pröd", "-x", "a" * 200],
    )
    def test_what_could_be_taken_for_something_else_is_no_name(self, name):
        with pytest.raises(DeclarationError, match="is not a valid name for a stamp"):
            Stamps().stamped(name, "0123456789ab", DAY)

    @pytest.mark.parametrize("names", [["../x"], ["a", "a"]], ids=str)
    def test_nor_is_it_in_a_file(self, names):
        document = {"format": "stateshift stamps", "version": 2}
        document["stamps"] = [{"name": name, "revision": "0123456789ab", "on": "2026-03-01"} for name in names]

        with pytest.raises(CorruptFile, match="occurs twice, or is not a valid name"):
            Stamps.from_json(json.dumps(document | {SEAL: seal_of(document)}))


@pytest.mark.parametrize("name", ["٣", "३"])
def test_a_revision_is_known_by_the_digits_of_its_name_alone(name):
    history = History.of({"0001_orders.json": revision_text()})

    assert "0001_orders" == history.find("1").name
    with pytest.raises(DeclarationError, match="no revision"):
        history.find(name)
