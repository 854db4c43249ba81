"""Errors of functions with state, through the harness on every backend: what is wrong is refused, what is right runs.

`docs/how-to/mend-errors-of-functions.md` has each of them. A full disk is in `test_full_disk.py`.
"""

from __future__ import annotations

import pytest
from live_backends import BACKENDS

from stateshift import (
    DeclarationError,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueNotConvertible,
    ValueStateDescriptor,
)
from stateshift.serializers import limits
from stateshift.state.backends import key_bytes
from stateshift.state.backends.heap import entry_codecs
from stateshift.state.backends.sorted import handles, write_cache
from stateshift.state.testing import KeyedProcessHarness, StateMutated


class Runs(KeyedProcessFunction):
    """An element is (key, function of the states)."""

    def __init__(self, opening=None):
        self.opening = opening

    def open(self, runtime_context):
        get = runtime_context
        self.states = {
            "value": get.get_state(ValueStateDescriptor("value", list[str])),
            "list": get.get_list_state(ListStateDescriptor("list", str)),
            "map": get.get_map_state(MapStateDescriptor("map", str, str)),
            "reducing": get.get_reducing_state(ReducingStateDescriptor("reducing", max, str)),
        }
        if self.opening is not None:
            self.opening(get, self.states)

    def process_element(self, value, ctx):
        yield value[1](self.states)


@pytest.fixture(params=BACKENDS.values(), ids=BACKENDS)
def harness_of(request):
    made = []

    def make(function=None, **options):
        made.append(
            KeyedProcessHarness(function or Runs(), lambda value: value[0], str, backend=request.param, **options)
        )
        return made[-1]

    yield make
    for harness in made:
        harness.close()


def test_a_name_has_one_type(harness_of):
    def again(context, states):
        assert states["list"] is context.get_list_state(ListStateDescriptor("list", str))

    harness_of(Runs(again)).open()
    with pytest.raises(DeclarationError) as caught:
        harness_of(Runs(lambda context, _: context.get_list_state(ListStateDescriptor("list", int)))).open()
    assert "the state 'list' is list state of list<string>, and is asked for as list state of list<long>" == (
        caught.value.what
    )
    assert "use one descriptor for a name, or two names" == caught.value.advice


def test_state_is_accessed_under_a_key(harness_of):
    assert [None] == harness_of().process_elements(("a", lambda states: states["list"].add("x")))
    with pytest.raises(DeclarationError, match="state was accessed without a current key") as caught:
        harness_of(Runs(lambda _, states: states["list"].add("x"))).open()
    assert "open() has no key" in caught.value.advice


def test_a_handed_over_value_is_not_changed(harness_of):
    given = ["a"]

    def hand_over(states):
        states["value"].update(given)

    def replace(states):
        states["value"].update([*states["value"].value(), "b"])

    harness = harness_of(detect_mutation=True)
    harness.process_elements(("k", hand_over), ("k", replace), ("k", replace))
    assert [["a", "b", "b"]] == harness.process_elements(("k", lambda states: states["value"].value()))


def test_a_handed_over_value_that_is_changed_is_found():
    given = ["a"]
    harness = KeyedProcessHarness(Runs(), lambda value: value[0], str, detect_mutation=True)
    harness.process_element(("k", lambda states: states["value"].update(given)))
    given.append("b")
    with pytest.raises(StateMutated) as caught:
        harness.process_element(("k", lambda states: states["value"].value()))
    assert "a value of the state 'value' was changed after it was handed over or read" == caught.value.what
    assert "'k'" == caught.value.where["key"]
    assert "change a copy" in caught.value.advice
    harness.close()


MOST = 100
TOO_LONG = {
    "value": lambda states: states["value"].update(["x" * MOST]),
    "list": lambda states: states["list"].add_all(["x" * 30] * 4),
    "list that grew": lambda states: [states["list"].add("x" * 30) for _ in range(4)],
    "map": lambda states: states["map"].put("k", "x" * MOST),
    "map key": lambda states: states["map"].put("k" * MOST, "x"),
    "reducing": lambda states: states["reducing"].add("x" * MOST),
}


@pytest.fixture
def small_entries(monkeypatch):
    """The limit of 2 GB patched down; what it is, tests/serializers/test_limits.py says."""
    for module in (limits, entry_codecs, handles, key_bytes, write_cache):
        monkeypatch.setattr(module, "MAX_VALUE_BYTES", MOST)


@pytest.mark.usefixtures("small_entries")
@pytest.mark.parametrize("name", TOO_LONG)
def test_what_is_too_long_for_an_entry_is_named_before_anything_is_published(harness_of, tmp_path, name):
    """RocksDB refuses it when it is written, the heap when a snapshot writes it."""
    harness = harness_of()

    def work():
        harness.process_element(("some key", TOO_LONG[name]))
        harness.snapshot(tmp_path / "s")

    with pytest.raises(ValueNotConvertible, match="but an entry holds at most 100") as caught:
        work()
    assert {"state": name.split(" ")[0], "key": "'some key'"}.items() <= caught.value.where.items()
    assert caught.value.what.startswith("a key takes" if name == "map key" else "a value takes")
    assert not (tmp_path / "s" / "_metadata").exists()
    harness.process_element(("some key", lambda states: [state.clear() for state in states.values()]))
    harness.process_element(("some key", lambda states: states["value"].update(["x" * 50])))
    harness.snapshot(tmp_path / "s")


@pytest.mark.usefixtures("small_entries")
def test_a_key_that_is_too_long_for_an_entry_is_named(harness_of, tmp_path):
    harness = harness_of()

    def work():
        harness.process_element(("k" * MOST, lambda states: states["value"].update(["x"])))
        harness.snapshot(tmp_path / "s")

    with pytest.raises(ValueNotConvertible, match=r"a key takes 10\d bytes, but an entry holds at most 100") as caught:
        work()
    assert caught.value.where["key"].startswith("'kkk")
    assert "use a shorter key" in caught.value.advice
