"""What an access of live state costs on RocksDB, beside bare `rocksdict` with values encoded by msgspec.

    python -m benchmarks.rocksdb_access [--keys 100000] [--rounds 5] [--json]

Each way goes through the same random keys. All share one process and take turns, so that what is timed is alike; the
figures are CPU times for one access, medians of the rounds. The change of the key is stated apart.

    key              `set_current_key` alone
    value, update    `ValueState.value` and `update`, less the change of the key
    bare             `rocksdict` get, decode, encode, put: keys are bytes already
    add, add_all     an element of one key's list: added one by one, and all at once

`--pyflink VENV/bin/python` puts PyFlink's state beside it (`pyflink_access`, which says how).

Then it measures a restore from a second database, of values of 100 bytes: microseconds of CPU for an entry until all is
in files, by files that are ingested, which is how it is done, and by batches, as for any other store.

Then it measures what timers on the heap (`timer-service.factory: heap`) cost in the synchronous part of a checkpoint,
in milliseconds: when all of them are new, and when one in a hundred has changed since the last one.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import rocksdict

from stateshift import ListStateDescriptor, ValueStateDescriptor
from stateshift.serializers.flink.namespaces import VoidNamespaceSerializer
from stateshift.serializers.hints import serializer_for
from stateshift.state.backends.configuration import Configuration
from stateshift.state.backends.rocksdb.backend import EmbeddedRocksDBStateBackend
from stateshift.state.backends.sorted.backend import SortedStateBackend
from stateshift.state.timers import TimeDomain

from .machine import arguments_of, facts, print_pyflink, print_table, pyflink_accesses, told

if TYPE_CHECKING:
    from collections.abc import Callable

GROUPS = 128


def _us(count: int, work: Callable[[], object]) -> float:
    begin = time.process_time()
    work()
    return (time.process_time() - begin) / count * 1e6


class _Ours:
    """A backend with a value and a list."""

    def __init__(self, hint: Any, keys: list[Any]) -> None:
        configuration = Configuration.of(environment={})
        self.backend = EmbeddedRocksDBStateBackend(
            serializer_for(hint), GROUPS, range(GROUPS), configuration=configuration
        )
        self.keys = keys
        self.value: Any = self.backend.get_or_create_keyed_state(ValueStateDescriptor("value", int))
        self.several: Any = self.backend.get_or_create_keyed_state(ListStateDescriptor("several", int))

    def change_keys(self) -> None:
        for key in self.keys:
            self.backend.set_current_key(key)

    def change_values(self) -> None:
        backend, value = self.backend, self.value
        for key in self.keys:
            backend.set_current_key(key)
            value.update((value.value() or 0) + 1)
        backend.flush()

    def add(self, count: int) -> None:
        self.backend.set_current_key(self.keys[0])
        for number in range(count):
            self.several.add(number)
        self.backend.flush()

    def add_all(self, count: int) -> None:
        self.backend.set_current_key(self.keys[1])
        self.several.add_all(list(range(count)))
        self.backend.flush()


class _Bare:
    """A database, as one would use it without states."""

    def __init__(self, place: str, keys: list[Any]) -> None:
        self.database = rocksdict.Rdict(place, rocksdict.Options(raw_mode=True))
        options = rocksdict.WriteOptions()
        options.disable_wal = True
        self.database.set_write_options(options)
        encode = msgspec.msgpack.encode
        self.keys = [encode(key) for key in keys]

    def change_values(self) -> None:
        database, encode, decode = self.database, msgspec.msgpack.encode, msgspec.msgpack.decode
        for key in self.keys:
            data = database.get(key)
            database[key] = encode((decode(data) if data is not None else 0) + 1)


def measure(hint: Any, keys: list[Any], rounds: int) -> dict[str, float]:
    """Return the microseconds of each way."""
    found: dict[str, list[float]] = {name: [] for name in ("key", "value, update", "bare", "add", "add_all")}
    elements = 10_000
    with tempfile.TemporaryDirectory() as place:
        ours, bare = _Ours(hint, keys), _Bare(f"{place}/bare", keys)
        for _ in range(rounds + 1):
            key = _us(len(keys), ours.change_keys)
            found["key"].append(key)
            found["value, update"].append(_us(len(keys), ours.change_values) - key)
            found["bare"].append(_us(len(keys), bare.change_values))
            ours.backend.set_current_key(keys[0])
            ours.several.clear()
            ours.backend.set_current_key(keys[1])
            ours.several.clear()
            found["add"].append(_us(elements, lambda: ours.add(elements)))
            found["add_all"].append(_us(elements, lambda: ours.add_all(elements)))
        ours.backend.dispose()
        bare.database.close()
    return {name: statistics.median(figures[1:]) for name, figures in found.items()}


def measure_restore(entries: int) -> tuple[float, float]:
    """Return the microseconds of CPU of an entry: by files that are ingested, and by batches."""

    def new(key_groups: range) -> EmbeddedRocksDBStateBackend:
        configuration = Configuration.of(environment={})
        return EmbeddedRocksDBStateBackend(serializer_for(int), GROUPS, key_groups, configuration=configuration)

    chance, stored = random.Random(1), new(range(GROUPS))  # noqa: S311 - no secret
    state: Any = stored.get_or_create_keyed_state(ValueStateDescriptor("value", str))
    for key in range(entries):
        stored.set_current_key(key)
        state.update(chance.randbytes(50).hex())
    frozen: Any = stored.freeze()

    def once(restore: Callable[[Any, Any], None]) -> float:
        backend = new(range(GROUPS))
        begin = time.process_time()
        restore(backend, frozen)
        backend.link_files()
        used = time.process_time() - begin
        backend.dispose()
        return used / entries * 1e6

    ways = EmbeddedRocksDBStateBackend.restore, SortedStateBackend.restore
    rounds = [[once(way) for way in ways] for _ in range(3)]
    frozen.release()
    stored.dispose()
    ingested, written = (statistics.median(figures) for figures in zip(*rounds, strict=True))
    return ingested, written


def measure_timers(count: int) -> tuple[float, float]:
    """Return the milliseconds of a flush of so many timers, and of one after a hundredth of them has changed."""
    configuration = Configuration.of({"state.backend.rocksdb.timer-service.factory": "heap"}, environment={})
    backend = EmbeddedRocksDBStateBackend(serializer_for(int), GROUPS, range(GROUPS), configuration=configuration)
    queue = backend.create_timer_queue("user-timers", TimeDomain.EVENT_TIME, VoidNamespaceSerializer())
    for number in range(count):
        queue.add(number * 7919 % (1 << 20), number % 10_000, None)
    whole = _us(1000, backend.flush)
    for number in range(max(1, count // 200)):
        queue.poll(1 << 20)
        queue.add((1 << 20) + number, number % 10_000, None)
    changed = _us(1000, backend.flush)
    backend.dispose()
    return whole, changed


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--restored", type=int, default=1_000_000, help="entries of the restore")
    parser.add_argument("--pyflink", type=Path, help="the interpreter of an environment with apache-flink")
    chosen = arguments_of(parser)
    chance = random.Random(1)  # noqa: S311 - no secret
    numbers = [chance.randrange(1 << 40) for _ in range(chosen.keys)]
    ways = {"long": (int, numbers), "string": (str, list(map(str, numbers)))}
    found = {name: measure(*way, chosen.rounds) for name, way in ways.items()}
    restore = measure_restore(chosen.restored)
    timers = {count: measure_timers(count) for count in (1000, 1_000_000)}
    pyflink = pyflink_accesses(chosen.pyflink, "rocksdb", chosen.keys)
    if chosen.json:
        print(json.dumps({"figures": found, "restore": restore, "timers": timers, "pyflink": pyflink, **facts()}))
        return
    print(told(facts(rocksdict=rocksdict.__name__)))
    rows = [
        (name, *(f"{us:.2f}" for us in figures.values()), f"{figures['value, update'] / figures['bare']:.2f}",
         f"{figures['add'] / figures['add_all']:.2f}")
        for name, figures in found.items()
    ]  # fmt: skip
    print_table("microseconds of CPU", ("keys", *found["long"], "to bare", "to add_all"), rows)
    cells = [(f"{count:,}", *(f"{ms:.1f}" for ms in both)) for count, both in timers.items()]
    print_table("timers on the heap, milliseconds of CPU", ("timers", "all new", "1 % changed"), cells)
    cells = [(f"{chosen.restored:,}", *(f"{us:.2f}" for us in restore))]
    print_table("restore, microseconds of CPU for an entry", ("entries", "ingested", "written"), cells)
    print_pyflink(pyflink)


if __name__ == "__main__":
    main()
