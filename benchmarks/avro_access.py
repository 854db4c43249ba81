"""A value of Avro state: what reading and writing it costs, and how much of that are our checks around fastavro.

    python -m benchmarks.avro_access [--rounds 60] [--json]

The value is a record of five fields, as dicts: a long, a text, a double, an optional long, a boolean. An access reads
it and writes it. The ways take turns; a figure is the least of the rounds, in microseconds of CPU time.

    checked   `AvroSerializer`: a skim of the bytes, then fastavro; checks of the value, then fastavro
    fastavro  fastavro by itself, which takes damaged bytes and values out of range as they come
"""

from __future__ import annotations

import argparse
import io
import json
import time
from typing import TYPE_CHECKING, Any

from stateshift import AvroSerializer, DataInputView, DataOutputView

from .machine import arguments_of, facts, print_table, told

if TYPE_CHECKING:
    from collections.abc import Callable

SCHEMA = {
    "type": "record",
    "name": "shop.Click",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "page", "type": "string"},
        {"name": "seconds", "type": "double"},
        {"name": "order", "type": ["null", "long"]},
        {"name": "bought", "type": "boolean"},
    ],
}
VALUE = {"id": 1234567, "page": "hello world", "seconds": 1.5, "order": 99, "bought": True}
_CALLS = 1000


def measure(rounds: int) -> dict[str, dict[str, float]]:
    """Measure both ways: microseconds of reading, of writing, and of both."""
    import fastavro

    serializer: AvroSerializer[Any] = AvroSerializer(SCHEMA)
    parsed = fastavro.parse_schema(SCHEMA)

    def written() -> bytes:
        target = DataOutputView()
        serializer.serialize(VALUE, target)
        return target.getvalue()

    def written_by_fastavro() -> bytes:
        stream = io.BytesIO()
        fastavro.schemaless_writer(stream, parsed, VALUE)
        return stream.getvalue()

    data = written()
    assert data == written_by_fastavro()  # noqa: S101 - the ways do the same
    ways: dict[str, dict[str, Callable[[], Any]]] = {
        "checked": {"read": lambda: serializer.deserialize(DataInputView(data)), "write": written},
        "fastavro": {
            "read": lambda: fastavro.schemaless_reader(io.BytesIO(data), parsed, None),
            "write": written_by_fastavro,
        },
    }
    least = {way: dict.fromkeys(parts, float("inf")) for way, parts in ways.items()}
    for _ in range(rounds):
        for way, parts in ways.items():
            for part, call in parts.items():
                begin = time.process_time()
                for _ in range(_CALLS):
                    call()
                least[way][part] = min(least[way][part], (time.process_time() - begin) / _CALLS * 1e6)
    return {way: parts | {"access": sum(parts.values())} for way, parts in least.items()}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=60)
    arguments = arguments_of(parser)
    found = measure(arguments.rounds)
    if arguments.json:
        print(json.dumps({"machine": facts(), "us": found}, indent=2))
        return
    print(told(facts()), "\n")
    rows = [
        [
            part,
            *(f"{found[way][part]:.1f}" for way in found),
            f"{found['checked'][part] / found['fastavro'][part]:.1f} x",
        ]
        for part in ("read", "write", "access")
    ]
    print_table("A value of Avro, µs", ("", "checked", "fastavro", "ratio"), rows, markdown=arguments.markdown)


if __name__ == "__main__":
    main()
