"""The manifests that Spark has committed, read from the state in its checkpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...serializers.errors import CorruptFile
from ...state.formats.spark.manifests import VARIABLE
from ...state.streaming.manifest import Manifest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from ...state.storage.files import Folder
    from ...state.streaming.directory import StateDirectory

_IN_PANDAS = "applyInPandasWithState"


def committed_manifests(spark: SparkSession, checkpoint: Folder, directory: StateDirectory) -> list[Manifest]:
    """Return the manifests of all slots after the last committed batch, as far as they belong to a state directory.

    Args:
        spark: The session.
        checkpoint: Spark's checkpoint, which has a committed batch.
        directory: The state directory.

    Raises:
        CorruptFile: The checkpoint has no operator of ours.
    """
    columns = "operatorId", "operatorName", "operatorProperties"
    operators = spark.read.format("state-metadata").load(checkpoint.place).select(*columns).distinct().collect()
    ours = [(number, name) for number, name, facts in operators if name == _IN_PANDAS or VARIABLE in (facts or "")]
    if not ours:
        raise CorruptFile(
            f"the checkpoint {checkpoint.place} has committed batches, but no operator of this package",
            advice="pass the checkpoint of the query",
            written="Nothing was written.",
        )
    found = []
    for number, name in sorted(ours):
        for data in _stored(spark, checkpoint.place, number, in_pandas=name == _IN_PANDAS):
            manifest = Manifest.from_bytes(data)
            if manifest.directory == directory.id:
                found.append(manifest)
    return found


def _stored(spark: SparkSession, place: str, number: int, *, in_pandas: bool) -> Iterator[bytes]:
    reader = spark.read.format("statestore").option("operatorId", number)
    if not in_pandas:
        reader = reader.option("stateVarName", VARIABLE)
    for row in reader.load(place).select("value").collect():
        value: Any = row[0]
        while value is not None and not isinstance(value, bytes | bytearray):
            value = next((part for part in value if isinstance(part, bytes | bytearray | tuple)), None)
        if value is not None:
            yield bytes(value)
