"""The manifests that Spark has committed, read from the files of its checkpoint, without Spark.

Spark's state has one row for each slot: its manifest, byte for byte, committed with the batch. So the checkpoint itself
is the record of which manifests hold after a batch, and nobody else has to keep one.
Source: notes on Spark, 2.1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ....serializers.errors import SavepointNotFound
from .reader import SparkCheckpoint

if TYPE_CHECKING:
    from ...storage.files import Folder
    from .reader import SparkStore

VARIABLE = "stateshift_manifest"
"""The name of the only state that Spark has for an operator with `transformWithState`."""
_PATHS = (("groupState", "manifest"), ("manifest",))
"""Where the rows of the two carriers have the manifest."""


def manifests_after(checkpoint: Folder, batch: int) -> list[bytes]:
    """Return the manifests of all slots after a committed batch.

    Raises:
        SavepointNotFound: A file of that version of the state is not there.
        CorruptFile, CorruptSavepoint: A file is damaged.
        UnsupportedFormat, LibraryNotFound: This installation cannot read the state.
    """
    opened = SparkCheckpoint.of(checkpoint, batch)
    if opened.log.committed is None:
        raise SavepointNotFound(f"no batch is committed in {checkpoint}")
    stores = [(store, path) for one in opened.operators for store in one.stores if (path := _path(store))]
    return [data for store, path in stores for data in _stored(store, path)]


def _path(store: SparkStore) -> tuple[str, ...]:
    """Return the columns that lead to the manifest in the values of a store; (): it is not of this package."""
    if store.family is not None and store.name != VARIABLE:
        return ()
    return next((path for path in _PATHS if _word(store, path) == "binary"), ())


def _word(store: SparkStore, path: tuple[str, ...]) -> str:
    """Return the type of a column in the values of a store, as Spark calls it; "": there is no such column."""
    of = None if store.schema is None else store.schema.value
    for name in path:
        of = None if of is None else next((field.type for field in of.fields if field.name == name), None)
    return "" if of is None else of.word


def _stored(store: SparkStore, path: tuple[str, ...]) -> list[bytes]:
    found: list[bytes] = []
    for block in store.blocks():
        column = block.value
        for name in path:
            column = column.field(name)
        found += [data for data in column.to_pylist() if data is not None]
    return found
