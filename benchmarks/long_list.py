"""What a long list costs that grows by one element before each checkpoint, on both backends.

    python -m benchmarks.long_list [--elements 1000000] [--checkpoints 20] [--json]

One key has a list of numbers. Figures are medians of the checkpoints: the `add` and the two parts of the checkpoint in
milliseconds by the clock, and the bytes that it writes. Those of RocksDB are incremental.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from typing import TYPE_CHECKING, Any

from stateshift import HashMapStateBackend, ListStateDescriptor
from stateshift.serializers.hints import serializer_for
from stateshift.state.publication.checkpoints import open_checkpoints
from stateshift.state.storage.files import Folder

from .incremental import GROUPS, rocksdb_backend, taken
from .machine import arguments_of, facts, print_table, scratch_folder, told

if TYPE_CHECKING:
    from pathlib import Path

    from stateshift.state.backends.keyed_backend import KeyedStateBackend

COLUMNS = ("add_ms", "synchronous_ms", "asynchronous_ms", "mb")


def measure(backend: KeyedStateBackend, elements: int, checkpoints: int, place: Path) -> dict[str, float]:
    """Return the medians."""
    state: Any = backend.get_or_create_keyed_state(ListStateDescriptor("several", int))
    backend.set_current_key(1)
    state.add_all(list(range(elements)))
    found: dict[str, list[float]] = {name: [] for name in COLUMNS}
    place.mkdir()
    with open_checkpoints(Folder.at(place)) as storage:
        taken(storage, backend)
        for number in range(checkpoints):
            begin = time.perf_counter()
            state.add(number)
            found["add_ms"].append((time.perf_counter() - begin) * 1e3)
            one = taken(storage, backend)
            found["synchronous_ms"].append(one.synchronous_s * 1e3)
            found["asynchronous_ms"].append(one.asynchronous_s * 1e3)
            found["mb"].append(one.new_bytes / 1e6)
    return {name: statistics.median(figures) for name, figures in found.items()}


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--elements", type=int, default=1_000_000)
    parser.add_argument("--checkpoints", type=int, default=20)
    chosen = arguments_of(parser)
    heap = HashMapStateBackend(serializer_for(int), GROUPS, range(GROUPS))
    with scratch_folder(chosen.folder) as folder, rocksdb_backend({}) as rocksdb:
        backends = {"heap": heap, "rocksdb": rocksdb}
        found = {
            name: measure(backend, chosen.elements, chosen.checkpoints, folder / name)
            for name, backend in backends.items()
        }
    if chosen.json:
        print(json.dumps({"machine": facts(), "figures": found}))
        return
    print(told(facts(elements=chosen.elements)), "\n")
    rows = [[name, *(f"{figures[column]:.3g}" for column in COLUMNS)] for name, figures in found.items()]
    columns = ("backend", "add ms", "synchronous ms", "asynchronous ms", "MB written")
    print_table("A list that grows by one for each checkpoint", columns, rows, markdown=chosen.markdown)


if __name__ == "__main__":
    main()
