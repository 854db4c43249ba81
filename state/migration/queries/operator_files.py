"""The files that describe a copied transformWithState: its schema file, and its operator's metadata.

    state/OPERATOR/_stateSchema/STORE/NAME    as the probe has it
    state/OPERATOR/_metadata/v2/BATCH         v2, JSON: that of the probe, with the partitions of the old query, and the
                                              URI of the schema file

Spark opens schema files by their absolute URIs, so that these name the copy. A local one is `file:/folder/…`; on a
store the scheme is that of the old query, such as `s3a`, if it had one of a store.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import attrs

from ....serializers.errors import UnsupportedFormat
from ...formats.spark.families import SCHEMAS
from ...formats.spark.operators import DEFAULT_STORE, METADATA
from ...formats.spark.schema_files import read_families

if TYPE_CHECKING:
    from ...formats.spark.reader import SparkCheckpoint, SparkOperator
    from ...storage.files import Folder

_FRESH = "let the new query write a new checkpoint as its probe, on a little data"


@attrs.frozen
class OperatorFiles:
    """The files of an operator.

    Attributes:
        schema_name: The name of the schema file.
        schema: Its bytes.
        facts: The metadata of the operator, without the URI.
        scheme: The scheme of the old query's URIs; "": it has none.
    """

    schema_name: str
    schema: bytes = attrs.field(repr=False)
    facts: dict[str, Any] = attrs.field(repr=False)
    scheme: str

    @property
    def partitions(self) -> int:
        """The number of partitions."""
        return int(self.facts["stateStoreInfo"][0]["numPartitions"])

    @classmethod
    def of(cls, new: SparkOperator, old: SparkCheckpoint) -> OperatorFiles:
        """Return the files for an operator of the new query in a copy of the old checkpoint.

        Raises:
            UnsupportedFormat: The probe is none of one version of the query.
        """
        folder, (name, *others) = new.stores[0].folder, new.facts.stores[0].schemas
        schema = folder.folder(SCHEMAS).folder(DEFAULT_STORE).read(name)  # read before, and its checksum compared
        ids = {number for one in read_families(schema, name) for number in (one.key_id, one.value_id)}
        if others or ids != {0}:
            raise UnsupportedFormat.before_writing(
                "the probe was written by several versions of the query, one after the other",
                operator=new.title, advice=_FRESH,
            )  # fmt: skip
        facts = _said(folder)
        (store,) = facts["stateStoreInfo"]
        store["numPartitions"] = old.partitions
        del store["stateSchemaFilePaths"]  # a planned query has the file in another place each time
        return cls(name, schema, facts, _scheme_of(old))

    def write(self, folder: Folder, number: int, batch: int) -> None:
        """Write the files into a copy.

        Args:
            folder: The folder of the copy.
            number: The number of the operator.
            batch: The last committed batch, which has these variables.
        """
        below = f"state/{number}/{SCHEMAS}/{DEFAULT_STORE}"
        schemas = folder.folder(below)
        schemas.create()
        for name in schemas.names():  # a run that died may have given it another name
            schemas.delete(name)
        schemas.write_last(self.schema_name, self.schema)
        (store,) = self.facts["stateStoreInfo"]
        store = store | {"stateSchemaFilePaths": [f"{self._root(folder)}/{below}/{self.schema_name}"]}
        text = json.dumps(self.facts | {"stateStoreInfo": [store]}, separators=(",", ":"), ensure_ascii=False)
        metadata = folder.folder(f"state/{number}/{METADATA}/v2")
        metadata.create()
        metadata.write_last(str(batch), f"v2\n{text}".encode())

    def _root(self, folder: Folder) -> str:
        if folder.is_local:
            return f"file:{folder.place}"
        scheme, _, rest = folder.place.partition("?")[0].partition(":")
        return f"{scheme if self.scheme in {'', 'file'} else self.scheme}:{rest}"


def _scheme_of(checkpoint: SparkCheckpoint) -> str:
    """Return the scheme of the URIs that a query has for its schema files, "" if it has none."""
    for operator in checkpoint.operators:
        for store in operator.stores:
            if store.family is not None:
                (said,) = _said(store.folder)["stateStoreInfo"]
                return str(said["stateSchemaFilePaths"][0]).partition(":")[0]
    return ""


def _said(operator: Folder) -> dict[str, Any]:
    """Return the metadata of an operator, which was read before, as it stands."""
    versions = operator.folder(METADATA).folder("v2")
    latest = max(int(one) for one in versions.names() if one.isdigit())
    said: dict[str, Any] = json.loads(versions.read(str(latest)).partition(b"\n")[2])
    return said
