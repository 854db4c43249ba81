"""The stateful operators of a query, as their metadata in the checkpoint describes them.

    state/OPERATOR/_metadata/metadata    v1, JSON: name, stores, partitions
    state/OPERATOR/_metadata/v2/BATCH    v2: and properties (transformWithState: its time mode and its variables)

Before Spark 4.0 there are no such files: then the folders show stores and partitions, and nothing the operator's name.
Source: `OperatorStateMetadata` of Spark 4.3.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import attrs

from ....compat.queries import kinds
from ....serializers.errors import CorruptFile, SavepointNotFound, UnsupportedFormat, located
from .checksums import read_checked

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...storage.files import Folder

METADATA = "_metadata"
DEFAULT_STORE = "default"
UNKNOWN = "unknown operator"
"""The kind of an operator that has no metadata."""
_NUMBER = re.compile(r"\d+")
_KINDS = {
    "stateStoreSave": kinds.AGGREGATION,
    "sessionWindowStateStoreSaveExec": kinds.SESSION,
    "sessionWindowStateStoreSave": kinds.SESSION,
    "dedupe": kinds.DEDUPLICATION,
    "dedupeWithinWatermark": kinds.WITHIN_WATERMARK,
    "globalLimit": kinds.LIMIT,
    "symmetricHashJoin": kinds.JOIN,
    "applyInPandasWithState": kinds.GROUPS,
    "flatMapGroupsWithState": kinds.GROUPS_OF_SCALA,
    "transformWithStateExec": kinds.TRANSFORM_OF_SCALA,
    "transformWithStateInPySparkExec": kinds.TRANSFORM,
    "transformWithStateInPandasExec": kinds.TRANSFORM_IN_PANDAS,
}


@attrs.frozen
class StoreFacts:
    """A store of an operator.

    Attributes:
        name: Its name; all operators but joins have one, `default`.
        partitions: The number of its partitions.
        prefix_columns: How many columns of a key RocksDB has apart, in front of the others; None: it is not known.
        schemas: The files with the types of its column families, the oldest first; () if it has none.
    """

    name: str
    partitions: int
    prefix_columns: int | None = None
    schemas: tuple[str, ...] = ()


@attrs.frozen
class OperatorFacts:
    """A stateful operator.

    Attributes:
        number: Its number in the query; Spark counts stateful operators from 0.
        name: The name that Spark has for it; "" in a checkpoint from before Spark 4.0.
        stores: Its stores.
        properties: What else Spark keeps: for transformWithState its time mode, output mode and variables.
    """

    number: int
    name: str
    stores: tuple[StoreFacts, ...]
    properties: dict[str, Any] = attrs.field(factory=dict)

    @property
    def partitions(self) -> int:
        """The number of partitions of its stores."""
        return max((one.partitions for one in self.stores), default=0)

    @property
    def variables(self) -> dict[str, str]:
        """The kinds of the variables of transformWithState by name: `ValueState`, `ListState`, `MapState`."""
        said = self.properties.get("stateVariables") or ()
        return {str(one.get("stateName")): str(one.get("stateVariableType")) for one in said}

    @property
    def expiring(self) -> frozenset[str]:
        """The variables of transformWithState whose entries have a time to live."""
        said = self.properties.get("stateVariables") or ()
        return frozenset(str(one.get("stateName")) for one in said if one.get("ttlEnabled"))

    @property
    def modes(self) -> dict[str, str]:
        """The time mode and the output mode of transformWithState, which Spark compares with those of a query."""
        words = {"timeMode": "time mode", "outputMode": "output mode"}
        return {word: str(self.properties[name]) for name, word in words.items() if name in self.properties}

    @property
    def kind(self) -> str:
        """The kind of the operator, as a query's author calls it."""
        return _KINDS.get(self.name, self.name) or UNKNOWN


def read_operators(checkpoint: Folder, committed: int | None) -> tuple[OperatorFacts, ...]:
    """Return the stateful operators, by number.

    Args:
        checkpoint: The folder of the checkpoint.
        committed: The last committed batch; what a later one wrote is not read.

    Raises:
        CorruptFile: A file is damaged.
        UnsupportedFormat: A newer Spark wrote a file.
    """
    if not checkpoint.exists("state"):
        return ()
    state = checkpoint.folder("state")
    numbers = sorted(int(name) for name in state.names() if _NUMBER.fullmatch(name))
    return tuple(_operator(state.folder(str(number)), number, committed) for number in numbers)


def numbered(metadata: bytes, number: int, partitions: int | None) -> bytes:
    """Return the metadata of an operator under another number.

    Args:
        metadata: The metadata.
        number: The new number.
        partitions: The number of partitions of its stores; None: as it is.
    """
    version, _, text = metadata.decode().partition("\n")
    said = json.loads(text)
    said["operatorInfo"]["operatorId"] = number
    for store in said["stateStoreInfo"] if partitions is not None else ():
        store["numPartitions"] = partitions
    return f"{version}\n{json.dumps(said, separators=(',', ':'))}".encode()


def _operator(folder: Folder, number: int, committed: int | None) -> OperatorFacts:
    if not folder.exists(METADATA):
        return _found_in_folders(folder, number)
    metadata = folder.folder(METADATA)
    name = "metadata"
    if metadata.exists("v2"):
        batches = [int(one) for one in metadata.folder("v2").names() if _NUMBER.fullmatch(one)]
        of_committed = [one for one in batches if committed is None or one <= committed]
        name = f"v2/{max(of_committed or batches)}" if batches else name
    file = f"state/{number}/{METADATA}/{name}"
    facts = parsed_metadata(_read(metadata, name, file), number, file)
    beyond = [one for one in folder.names() if _NUMBER.fullmatch(one) and int(one) >= facts.partitions]
    if beyond and facts.stores:
        raise CorruptFile(
            f"the metadata of an operator is damaged: it has {facts.partitions} partitions, and there is state of"
            f" partition {beyond[0]}",
            file=file,
        )
    return facts


def parsed_metadata(text: str, number: int, file: str) -> OperatorFacts:
    """Return what the metadata of an operator says.

    Raises:
        CorruptFile: It is damaged.
        UnsupportedFormat: A newer Spark wrote it.
    """
    version, _, text = text.partition("\n")
    if version not in {"v1", "v2"}:
        raise UnsupportedFormat(
            f"the metadata of an operator has version {version[:20]!r}; this release reads v1 and v2",
            advice="upgrade stateshift: a newer Spark wrote it",
            file=file,
        )
    try:
        said = json.loads(text)
        stores = tuple(map(_store, said["stateStoreInfo"]))
        properties = json.loads(said.get("operatorPropertiesJson") or "{}")
        return OperatorFacts(number, str(said["operatorInfo"]["operatorName"]), stores, dict(properties))
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptFile(f"the metadata of an operator is damaged: {error}", file=file) from error


def with_prefixes(data: bytes, columns: Mapping[str, int]) -> bytes:
    """Return the metadata of an operator with other numbers of columns that RocksDB has apart, by store."""
    version, _, text = data.partition(b"\n")
    said = json.loads(text)
    for store in said["stateStoreInfo"]:
        store["numColsPrefixKey"] = columns.get(store["storeName"], store["numColsPrefixKey"])
    return version + b"\n" + json.dumps(said, separators=(",", ":"), ensure_ascii=False).encode()


def _store(said: dict[str, Any]) -> StoreFacts:
    # the paths are absolute, and those of another place if the checkpoint was moved
    schemas = tuple(str(path).rpartition("/")[2] for path in said.get("stateSchemaFilePaths") or ())
    name, partitions = str(said["storeName"]), int(said["numPartitions"])
    return StoreFacts(name, partitions, int(said.get("numColsPrefixKey") or 0), schemas)


def _read(folder: Folder, name: str, file: str) -> str:
    try:
        with located(file=file):
            return read_checked(folder, name).decode()
    except UnicodeDecodeError as error:
        raise CorruptFile(f"the metadata of an operator is damaged: {error}", file=file) from error


def _found_in_folders(folder: Folder, number: int) -> OperatorFacts:
    """Return what the folders of an operator show."""
    partitions = [name for name in folder.names() if _NUMBER.fullmatch(name)]
    if "0" not in partitions:
        raise SavepointNotFound(
            f"the operator {number} has neither metadata nor a partition 0", file=f"state/{number}",
            advice="a copy or a download may be incomplete: take the whole folder of the checkpoint",
        )  # fmt: skip
    first = folder.folder("0")
    names = [DEFAULT_STORE] if first.exists(METADATA) else []
    names += [name for name in first.names() if name != METADATA and first.exists(f"{name}/{METADATA}")]
    return OperatorFacts(number, "", tuple(StoreFacts(name, len(partitions)) for name in names))
