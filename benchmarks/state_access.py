"""State of the heap backend beside a plain dict: what an access costs, and what a snapshot costs the function.

    python -m benchmarks.state_access [--keys 100000] [--held 1000000] [--rounds 9] [--json]

Accesses go to random keys, whose objects are new in each round, as those of a stream are. The ways take turns; a figure
is the median of the rounds, in nanoseconds of CPU time for each access, and a ratio is the median of the ratios within
a round.

    plain dict       `held = state[key]; state[key] = held`
    value, update    `set_current_key(key)`, `value()`, `update(held)` of value state, TTL off
    change of key    `set_current_key(key)` alone
    TTL              as value, update, of a state with TTL that is not cleaned up
    TTL, clean-up    the same with the default clean-up: each access looks at five further keys

`--pyflink VENV/bin/python` puts PyFlink's state beside it (`pyflink_access`, which says how).

The snapshot is of value state with `--held` keys, strings under integers, written into memory as a checkpoint and as a
savepoint. The function reads and updates random keys without a pause: while the snapshot is written, and
alone, before and after it.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import threading
import time
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stateshift.serializers.hints import serializer_for
from stateshift.state.backends.heap.backend import HashMapStateBackend
from stateshift.state.backends.snapshots import SavepointStrategy, SnapshotStrategy, SnapshotTarget
from stateshift.state.publication.commit import Commit
from stateshift.state.runtime.descriptors import ValueStateDescriptor
from stateshift.state.runtime.runtime_context import KeyedStateStore
from stateshift.state.runtime.time_to_live import StateTtlConfig
from stateshift.state.storage.files import Folder

from .machine import arguments_of, facts, print_pyflink, print_table, pyflink_accesses, scratch_folder, told

if TYPE_CHECKING:
    from collections.abc import Callable

KEY_GROUPS = 128
WAYS = ("plain dict", "value, update", "change of key", "TTL", "TTL, clean-up")
_BATCH, _UNDISTURBED_S = 1000, 3.0


def new_backend(key: type) -> HashMapStateBackend:
    """Make a backend with all key groups."""
    return HashMapStateBackend(serializer_for(key), KEY_GROUPS, range(KEY_GROUPS))


def accesses(make_key: Callable[[int], Any], key: type, count: int, rounds: int) -> dict[str, Any]:
    """Measure accesses: nanoseconds by way, and ratios to the plain dict."""
    plain = {make_key(number): object() for number in range(count)}
    backend = new_backend(key)
    store, lives = KeyedStateStore(backend), StateTtlConfig.new_builder(timedelta(days=1))
    states = {
        "value, update": store.get_state(ValueStateDescriptor("value", str)),
        "TTL, clean-up": store.get_state(ValueStateDescriptor("cleaned", str, time_to_live=lives.build())),
    }
    lives.disable_cleanup_in_background()
    states["TTL"] = store.get_state(ValueStateDescriptor("lives", str, time_to_live=lives.build()))
    for known, held in plain.items():
        backend.set_current_key(known)
        for state in states.values():
            state.update(held)

    def dict_round(keys: list[Any]) -> None:
        for known in keys:
            held = plain[known]
            plain[known] = held

    def round_of(state: Any) -> Callable[[list[Any]], None]:
        def state_round(keys: list[Any]) -> None:
            set_current_key, value, update = backend.set_current_key, state.value, state.update
            for known in keys:
                set_current_key(known)
                held = value()
                update(held)

        return state_round

    def key_round(keys: list[Any]) -> None:
        set_current_key = backend.set_current_key
        for known in keys:
            set_current_key(known)

    runs = {"plain dict": dict_round, "change of key": key_round} | {
        way: round_of(state) for way, state in states.items()
    }
    found: dict[str, list[float]] = {way: [] for way in WAYS}
    chance = random.Random(1)  # noqa: S311 - the same keys in each run
    for _ in range(rounds):
        for way in WAYS:
            keys = [make_key(chance.randrange(count)) for _ in range(count)]
            begin = time.process_time()
            runs[way](keys)
            found[way].append((time.process_time() - begin) / count * 1e9)
    ratios = {
        way: statistics.median(one / base for one, base in zip(times, found["plain dict"], strict=True))
        for way, times in found.items()
    }
    return {"ns": {way: statistics.median(times) for way, times in found.items()}, "ratio": ratios}


def snapshot(
    held: int, strategy_of: Callable[[HashMapStateBackend], SnapshotStrategy[Any]], folder: Path
) -> dict[str, Any]:
    """Measure a snapshot: its synchronous part, its length, and the function's accesses in a second."""
    backend = new_backend(int)
    state: Any = backend.get_or_create_keyed_state(ValueStateDescriptor("value", str))
    for number in range(held):
        backend.set_current_key(number)
        state.update(f"value {number}")
    chance = random.Random(1)  # noqa: S311 - as above

    def work(goes_on: Callable[[], bool]) -> float:
        """Access random keys; give how many in a second."""
        done, begin = 0, time.perf_counter()
        while goes_on():
            for _ in range(_BATCH):
                backend.set_current_key(int(chance.random() * held))
                state.update(state.value())
            done += _BATCH
        return done / (time.perf_counter() - begin)

    def undisturbed() -> float:
        ends = time.perf_counter() + _UNDISTURBED_S
        return work(lambda: time.perf_counter() < ends)

    before = undisturbed()
    place = Folder.at(folder)
    place.create()
    target = SnapshotTarget(1, 0, Commit(place), f"{'0' * 32}-keyed-0")
    begin = time.perf_counter()
    future = strategy_of(backend).snapshot(target)
    synchronous = time.perf_counter() - begin
    thread = threading.Thread(target=future.run)
    begin = time.perf_counter()
    thread.start()
    meanwhile = work(thread.is_alive)
    asynchronous = time.perf_counter() - begin
    alone = (before + undisturbed()) / 2
    handle = future.result().handle
    assert handle is not None  # noqa: S101 - there is state
    return {
        "synchronous_ms": synchronous * 1e3,
        "asynchronous_s": asynchronous,
        "accesses_alone": alone,
        "accesses_meanwhile": meanwhile,
        "kept": meanwhile / alone,
        "size_bytes": handle.size,
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, default=100_000, help="that are accessed")
    parser.add_argument("--held", type=int, default=1_000_000, help="keys in the snapshots")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--pyflink", type=Path, help="the interpreter of an environment with apache-flink")
    arguments = arguments_of(parser)
    found = {
        "integer keys": accesses(int, int, arguments.keys, arguments.rounds),
        "string keys": accesses("user-{}".format, str, arguments.keys, arguments.rounds),
    }
    with scratch_folder(arguments.folder) as folder:
        snapshots = {
            "checkpoint": snapshot(arguments.held, HashMapStateBackend.checkpoint_strategy, folder / "checkpoint"),
            "savepoint": snapshot(arguments.held, SavepointStrategy, folder / "savepoint"),
        }
    pyflink = pyflink_accesses(arguments.pyflink, "hashmap", arguments.keys)
    if arguments.json:
        all_found = {"machine": facts(), "accesses": found, "snapshots": snapshots, "pyflink": pyflink}
        print(json.dumps(all_found, indent=2))
        return
    print(told(facts(keys=arguments.keys, held=arguments.held)), "\n")
    rows = [
        [f"{keys}: {way}", f"{told['ns'][way]:.0f}", f"{told['ratio'][way]:.2f}"]
        for keys, told in found.items()
        for way in WAYS
    ]
    print_table("An access", ("", "ns", "ratio"), rows, markdown=arguments.markdown)
    columns = ("", "synchronous ms", "asynchronous s", "accesses/s alone", "meanwhile", "kept", "MB")
    rows = [
        [
            name,
            f"{one['synchronous_ms']:.2f}",
            f"{one['asynchronous_s']:.1f}",
            f"{one['accesses_alone']:,.0f}",
            f"{one['accesses_meanwhile']:,.0f}",
            f"{one['kept']:.0%}",
            f"{one['size_bytes'] / 1e6:.0f}",
        ]
        for name, one in snapshots.items()
    ]
    print_table("A snapshot", columns, rows, markdown=arguments.markdown)
    print_pyflink(pyflink, markdown=arguments.markdown)


if __name__ == "__main__":
    main()
