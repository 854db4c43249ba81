"""Stored data outlives modules: former names are found by one table, and values name what never moves."""

from __future__ import annotations

import copy
import importlib
import inspect
import pathlib
import pickle
import pickletools
import sys
import types
import typing

import attrs
import cloudpickle
import pytest
from docs.api_page import PLACES
from stored_data.values import ALONE, LATER

import stateshift
from stateshift import PickledValue, PickleSerializer, Row, UntrustedCode
from stateshift.compat.fingerprint import fingerprint
from stateshift.serializers import stored_names
from stateshift.serializers.containers.tuples import TupleSerializer
from stateshift.serializers.primitives.text import StringSerializer
from stateshift.serializers.stored_names import MOVED, VALUES, former_names, known_name, qualified_name

TUPLES, TEXT = "stateshift.serializers.containers.tuples", "stateshift.serializers.primitives.text"
FORMER, HOUSE = "stateshift.serializers.things", "stateshift.things"
PICKLES = (pickle.loads, pickle._loads, cloudpickle.loads)


@pytest.fixture
def moved(monkeypatch):
    """`moved(former, *places)`: a line of the table; what was imported by it is forgotten afterwards."""

    def move(former, *places):
        monkeypatch.setitem(MOVED, former, places)
        monkeypatch.delitem(sys.modules, former, raising=False)

    yield move
    for name in [name for name in sys.modules if name.startswith((FORMER, HOUSE))]:
        del sys.modules[name]
        parent, _, last = name.rpartition(".")
        vars(sys.modules.get(parent, stateshift)).pop(last, None)


def naming(module, name, *, protocol=2):
    """A pickle that holds a class by its name."""
    data = f"c{module}\n{name}\n".encode()
    return b"\x80" + bytes([protocol]) + data + b"."


class TestFormerModules:
    @pytest.mark.parametrize("loads", PICKLES)
    def test_a_pickle_that_names_one_loads(self, moved, loads):
        moved(FORMER, TUPLES)

        assert TupleSerializer is loads(naming(FORMER, "TupleSerializer"))

    def test_one_that_was_split_is_in_several(self, moved):
        moved(FORMER, TEXT, TUPLES)

        assert (StringSerializer, TupleSerializer) == tuple(
            pickle.loads(naming(FORMER, name)) for name in ("StringSerializer", "TupleSerializer")
        )

    def test_a_folder_may_have_moved_with_all_that_was_in_it(self, moved):
        moved(HOUSE, "stateshift.serializers")
        moved(f"{HOUSE}.tuples", TUPLES)

        assert TupleSerializer is pickle.loads(naming(f"{HOUSE}.tuples", "TupleSerializer"))

    def test_a_package_of_the_same_name_finds_what_it_does_not_export(self, moved, monkeypatch):
        package = types.ModuleType(FORMER)
        package.__getattr__, package.Own = former_names(FORMER), dict
        monkeypatch.setitem(sys.modules, FORMER, package)
        monkeypatch.setitem(MOVED, FORMER, (TUPLES,))

        assert (TupleSerializer, dict) == (
            pickle.loads(naming(FORMER, "TupleSerializer")),
            pickle.loads(naming(FORMER, "Own")),
        )

    def test_an_import_by_a_former_name_reports_the_present_name(self, moved):
        moved(FORMER, TUPLES)
        with pytest.warns(
            DeprecationWarning, match=f"{FORMER}.TupleSerializer is deprecated .*: use {TUPLES}.Tuple"
        ) as told:
            exec(f"from {FORMER} import TupleSerializer", found := {})  # noqa: S102 - our own text

        assert TupleSerializer is found["TupleSerializer"]
        assert ["<string>"] == [one.filename for one in told]

    def test_a_module_or_a_name_that_never_was_is_not_found(self, moved):
        moved(FORMER, TUPLES)
        with pytest.raises(ModuleNotFoundError, match=r"stateshift\.nowhere"):
            pickle.loads(naming("stateshift.nowhere", "Thing"))
        with pytest.raises(AttributeError, match="Nothing"):
            pickle.loads(naming(FORMER, "Nothing"))
        assert not hasattr(sys.modules[FORMER], "__file__")


@attrs.frozen
class Held:
    """Stands for a class of the package that has moved."""

    text: str


class TestGuardedPickles:
    """A guarded unpickler accepts any name of a class."""

    @pytest.fixture(autouse=True)
    def held_has_moved(self, moved):
        moved(FORMER, __name__)

    @pytest.fixture
    def value(self, monkeypatch):
        monkeypatch.setitem(sys.modules, __name__, sys.modules[type(self).__module__])
        data = pickle.dumps(Held("kept"), 2).replace(f"c{__name__}\n".encode(), f"c{FORMER}\n".encode())
        assert FORMER.encode() in data
        return PickledValue(qualified_name(Held), data)

    def test_a_serializer_reads_the_former_name_as_its_class(self, value):
        serializer = PickleSerializer(Held)
        target = stateshift.DataOutputView()
        serializer.serialize(value, target)

        assert Held("kept") == serializer.deserialize(stateshift.DataInputView(target.getvalue()))

    @pytest.mark.parametrize("name", [f"{__name__}.Held", f"{FORMER}.Held"])
    def test_it_opens_where_either_name_is_trusted(self, value, name):
        assert Held("kept") == value.load(trust=(name,))

    def test_it_stays_closed_where_none_is(self, value):
        with pytest.raises(UntrustedCode, match=f"--trust {value.class_name}"):
            value.load()


EACH = ALONE | LATER


@pytest.mark.parametrize("name", EACH)
class TestValues:
    def test_a_pickle_names_nothing_but_the_face(self, name):
        for protocol in (2, 5):
            data = pickle.dumps(EACH[name], protocol)
            texts = [text for _, text, _ in pickletools.genops(data) if isinstance(text, str)]
            named = {text.split()[0] for text in texts if text.startswith("stateshift")}

            assert {"stateshift"} == named
            assert EACH[name] == pickle.loads(data)

    def test_it_is_copied_and_taken_by_reference(self, name):
        value = EACH[name]

        assert value == copy.copy(value) == copy.deepcopy(value) == pickle.loads(cloudpickle.dumps(value))
        assert type(value) is pickle.loads(cloudpickle.dumps(type(value)))

    def test_its_hints_are_found(self, name):
        cls = type(EACH[name])
        hints = typing.get_type_hints(cls)

        assert set(inspect.get_annotations(cls)) <= set(hints)

    def test_snapshots_and_trust_know_it_by_its_first_name(self, name):
        cls = type(EACH[name])
        (module,) = (module for module, names in VALUES.items() if cls.__name__ in names)

        assert qualified_name(cls) == f"{module}.{cls.__name__}"
        assert qualified_name(cls) == known_name(f"stateshift.{cls.__name__}") == known_name(qualified_name(cls))


def test_all_public_values_are_tried_and_last():
    named = [getattr(stateshift, name) for name in PLACES["Values"][1].split()]
    classes = {thing for thing in named if isinstance(thing, type)}

    assert classes == {type(value) for value in EACH.values()}
    assert {"stateshift"} == {cls.__module__ for cls in classes}


def test_a_row_may_lie_in_a_pickled_state():
    serializer = PickleSerializer(dict, references=(Row, stateshift.RowKind))
    target = stateshift.DataOutputView()
    serializer.serialize({"a": Row(1, "b")}, target)

    assert {"a": Row(1, "b")} == serializer.deserialize(stateshift.DataInputView(target.getvalue()))


def test_each_line_of_the_table_leads_to_a_module_that_is_there():
    for former, places in MOVED.items():
        parent = former.rpartition(".")[0]

        assert places
        assert former not in places
        assert parent in MOVED or importlib.import_module(parent)
        for place in places:
            assert place == importlib.import_module(place).__name__
            assert place not in MOVED or hasattr(importlib.import_module(place), "__path__"), "it has moved on"


def classes_of_the_first_version():
    lines = (pathlib.Path(__file__).parents[1] / "stored_data" / "classes.txt").read_text(encoding="utf-8").splitlines()
    for line in lines[1:]:
        module, _, names = line.partition(": ")
        yield from ((module, name) for name in names.split())


def test_each_class_of_the_first_version_is_found_and_known_by_its_name_of_then():
    """Pickles are read by it, and fingerprints and trust name it: both are compared with what is stored."""
    # Layouts and similar names were no part of anything stored; byte rewrites and difflib are in their place.
    gone = {"serializers.layout", "compat.similar_names"}
    first = [one for one in classes_of_the_first_version() if one[0] not in gone]
    known = {name: module.removeprefix("stateshift.") for module, names in VALUES.items() for name in names}
    known["Marker"] = "serializers.containers.hints"  # one of the places of the former module `hints`
    missing, renamed = [], []
    for module, name in first:
        try:
            cls = pickle.loads(naming(f"stateshift.{module}", name))
        except (AttributeError, ImportError):
            missing.append(f"{module}.{name}")
            continue
        then = known[name] if cls.__module__ == "stateshift" or name == "Marker" else module
        if {f"stateshift.{then}.{name}"} != {qualified_name(cls), known_name(f"{cls.__module__}.{name}")}:
            renamed.append((then, qualified_name(cls)))

    assert 340 < len(first)
    assert ([], []) == (missing, renamed)


@pytest.mark.parametrize("function", [stored_names.place_of, stored_names.known_name])
def test_a_function_keeps_its_fingerprint_where_its_module_moves(function, monkeypatch):
    before = fingerprint(function)
    former, name = function.__module__, function.__name__
    monkeypatch.setitem(stored_names._FORMER, (FORMER, name), stored_names.known_place(former, name)[0])
    monkeypatch.setitem(function.__globals__, "__name__", FORMER)

    assert before == fingerprint(function)


def test_a_text_is_reported_with_the_one_name_of_each_thing(moved):
    moved(FORMER, TUPLES)
    text = f"stored serializer {FORMER}.TupleSerializer of stateshift.RowKind, shop.stateshift.py, stateshift 0.1"

    assert stored_names.in_known_names(text) == (
        f"stored serializer {TUPLES}.TupleSerializer of stateshift.serializers.row_values.RowKind,"
        " shop.stateshift.py, stateshift 0.1"
    )
