"""What is closed has no file open, whatever still refers to it: no garbage collection is waited for."""

import gc
import os
import tempfile
import warnings
from contextlib import suppress
from functools import partial
from pathlib import Path

import native_snapshots
import pytest

from stateshift import (
    CorruptSavepoint,
    DeclarationError,
    EmbeddedRocksDBStateBackend,
    KeyedProcessFunction,
    MapStateDescriptor,
    RuntimeContext,
    Savepoint,
    StateShiftError,
    ValueStateDescriptor,
)
from stateshift.state.backends.rocksdb import store
from stateshift.state.savepoint.verify import verify
from stateshift.state.testing import KeyedProcessHarness

OPEN = Path("/proc/self/fd")
pytestmark = pytest.mark.skipif(not OPEN.exists(), reason="the system does not list open files")


@pytest.fixture
def open_files(tmp_path, monkeypatch):
    """`open_files()`: the files that are open of all that this test makes; no garbage is collected until its end."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def found():
        places = []
        for name in [*OPEN.iterdir()]:
            try:
                places.append(str(name.readlink()))
            except FileNotFoundError:  # of the listing itself
                continue
        return [place for place in places if place.startswith(f"{tmp_path}{os.sep}")]

    gc.collect()
    gc.disable()
    yield found
    gc.enable()


class Held(KeyedProcessFunction):
    """It keeps what it was given, and an iteration that does not come to its end."""

    def open(self, runtime_context: RuntimeContext):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", int))
        self.parts = runtime_context.get_map_state(MapStateDescriptor("parts", int, str))
        self.reading = []

    def process_element(self, value, ctx):
        self.count.update((self.count.value() or 0) + 1)
        for number in range(100):
            self.parts.put(number, "a value of some length")
        ctx.timer_service().register_event_time_timer(10)
        self.reading.append(iter(self.parts.items()))
        yield next(self.reading[-1])


@pytest.mark.parametrize("key_ranges", [1, 4])
@pytest.mark.parametrize("is_checkpoint", [False, True])
def test_a_closed_harness_has_no_file_open(open_files, monkeypatch, key_ranges, is_checkpoint):
    monkeypatch.setattr(store, "_LARGE_BYTES", 4000)
    backend = partial(EmbeddedRocksDBStateBackend, key_ranges=key_ranges)
    function = Held()
    with KeyedProcessHarness(function, lambda value: value, int, backend=backend) as harness:
        harness.process_elements(*range(20))
        snapshot = harness.snapshot(is_checkpoint=is_checkpoint)
        assert open_files()

        harness.restore(snapshot)  # the database before is closed, too
        harness.process_elements(*range(20))
        held = harness._backend.freeze()

    assert open_files() == []
    with pytest.raises(StateShiftError):
        list(function.reading[-1])
    with pytest.raises(StateShiftError, match="released"):
        next(held.blocks())
    harness.close()


class Refused(Held):
    def open(self, runtime_context):
        super().open(runtime_context)
        raise DeclarationError("it does not open")

    def close(self):
        raise AssertionError("it was not opened")


def test_a_harness_whose_function_does_not_open_has_no_file_open(open_files):
    harness = KeyedProcessHarness(Refused(), lambda value: value, int, backend=EmbeddedRocksDBStateBackend)
    with pytest.raises(DeclarationError, match="does not open"), harness:
        pass

    assert open_files() == []


class FailsToClose(Held):
    def close(self):
        raise DeclarationError("it does not close")


def test_a_function_that_does_not_close_leaves_no_file_open(open_files):
    harness = KeyedProcessHarness(FailsToClose(), lambda value: value, int, backend=EmbeddedRocksDBStateBackend)
    harness.process_elements(1)
    with pytest.raises(DeclarationError, match="does not close"):
        harness.close()

    assert open_files() == []


def test_a_database_that_is_not_closed_warns(open_files):
    KeyedProcessHarness(Held(), lambda value: value, int, backend=EmbeddedRocksDBStateBackend).process_elements(1)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        gc.collect()

    assert [(one.category, "was not closed" in str(one.message)) for one in told] == [(ResourceWarning, True)]
    assert open_files() == []


@pytest.mark.parametrize("is_damaged", [False, True])
def test_a_database_that_was_read_has_no_file_open(open_files, tmp_path, is_damaged):
    folder = native_snapshots.apart("rocksdb-native-long-p2-m200", tmp_path / "copy")
    for file in folder.rglob("*.sst") if is_damaged else ():
        data = bytearray(file.read_bytes())
        data[9] ^= 1
        file.write_bytes(data)
    savepoint = Savepoint.open(folder)
    operator = savepoint.operator(native_snapshots.KEYED)

    sizes, report = operator.measure(), verify(savepoint)
    readers = [state.read_entries() for state in operator.states if state.kind == "map"]
    for reader in readers:
        with suppress(CorruptSavepoint):
            assert next(reader)
        reader.close()

    assert (report.ok, any(state.error is not None for state in sizes.states)) == (not is_damaged, is_damaged)
    assert readers
    assert open_files() == []
