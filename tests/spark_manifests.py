"""The manifests of slots in a checkpoint, written as Spark writes them with `applyInPandasWithState`, without Spark.

Each batch is a snapshot of one partition. That this is what Spark writes, tests of real queries show.
"""

from __future__ import annotations

import json
import struct

from stateshift.state.formats.spark.compression import Compressing
from stateshift.state.storage.files import Folder

_KEY = {"type": "struct", "fields": [{"name": "slot_group", "type": "integer", "nullable": True, "metadata": {}}]}
_STATE = {"type": "struct", "fields": [{"name": "manifest", "type": "binary", "nullable": True, "metadata": {}}]}
_VALUE = {
    "type": "struct",
    "fields": [
        {"name": "groupState", "type": _STATE, "nullable": True, "metadata": {}},
        {"name": "timeoutTimestamp", "type": "long", "nullable": True, "metadata": {}},
    ],
}
_OPERATOR = {
    "operatorInfo": {"operatorId": 0, "operatorName": "applyInPandasWithState"},
    "stateStoreInfo": [{"storeName": "default", "numColsPrefixKey": 0, "numPartitions": 1}],
}


def begin(checkpoint):
    """Write what Spark writes once."""
    _write(checkpoint / "metadata", json.dumps({"id": "a query"}).encode())
    _write(checkpoint / "state/0/_metadata/metadata", b"v1\n" + json.dumps(_OPERATOR).encode())
    schemas = (struct.pack(">i", 1) + _utf(json.dumps(one)) for one in (_KEY, _VALUE))
    _write(checkpoint / "state/0/0/_metadata/schema", _utf("v2") + b"".join(schemas))


def commit(checkpoint, batch, manifests):
    """Write the state after a batch: the manifest of each slot by its integer."""
    folder = Folder.at(checkpoint / "state/0/0")
    with folder.output(f"{batch + 1}.snapshot") as file:
        compressing = Compressing(file, "lz4")
        for group, manifest in manifests.items():
            for row in (struct.pack("<qq", 0, group), _row(manifest)):
                compressing.write(struct.pack(">i", len(row)) + row)
        compressing.write(struct.pack(">i", -1))
        compressing.finish()


def _row(manifest):
    padded = manifest + bytes(-len(manifest) % 8)
    state = struct.pack("<qq", 0, 16 << 32 | len(manifest)) + padded
    return struct.pack("<qqq", 0, 24 << 32 | len(state), -1) + state


def _utf(text):
    data = text.encode()
    return struct.pack(">H", len(data)) + data


def _write(path, data):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
