"""The manifests that Spark has committed, read from the state in its checkpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...state.streaming.manifest import Manifest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from ...state.storage.files import Folder
    from ...state.streaming.directory import StateDirectory


def committed_manifests(spark: SparkSession, checkpoint: Folder, directory: StateDirectory) -> list[Manifest]:
    """Return the manifests of all slots after the last committed batch, as far as they belong to a state directory.

    Args:
        spark: The session.
        checkpoint: Spark's checkpoint, which has a committed batch.
        directory: The state directory.
    """
    operators = spark.read.format("state-metadata").load(checkpoint.place).select("operatorId", "operatorName")
    found = []
    for number, name in sorted({(row[0], row[1]) for row in operators.collect()}):
        for data in _stored(spark, checkpoint.place, number, name):
            manifest = Manifest.from_bytes(data)
            if manifest.directory == directory.id:
                found.append(manifest)
    return found


def _stored(spark: SparkSession, place: str, number: int, name: str) -> Iterator[bytes]:
    reader = spark.read.format("statestore").option("operatorId", number)
    if name == "transformWithStateExec":
        reader = reader.option("stateVarName", "manifest")
    elif name != "applyInPandasWithState":
        return
    for row in reader.load(place).select("value").collect():
        value: Any = row[0]
        while value is not None and not isinstance(value, bytes | bytearray):
            value = next((part for part in value if isinstance(part, bytes | bytearray | tuple)), None)
        if value is not None:
            yield bytes(value)
