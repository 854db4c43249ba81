"""The state of a query after its last committed batch, found in its state directory and checkpoint without its engine.

Source: notes on Spark, 2.1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from ...serializers.errors import SavepointNotFound
from ..formats.spark.commit_log import last_committed, offsets, read_note
from .committed import committed_manifests, require_intact
from .directory import StateDirectory
from .source_offsets import planned_offsets

if TYPE_CHECKING:
    from ..publication.stored_savepoint import StoredSavepoint
    from ..storage.files import Folder


@attrs.frozen
class QueryFacts:
    """The query whose state is read.

    Attributes:
        directory: The id of its state directory.
        checkpoint: The place of its checkpoint.
        batch: The last committed batch: the state is that after it.
        epoch: The epoch of the state.
        offsets: How far the sources were read by then: the text of the file in the checkpoint.
        sources: The kinds of the sources, in the order of their offsets.
        unproven: Why it was not compared with what the engine has committed; "": it was.
        types: The types to which state is being migrated lazily, as recorded; "": none is.
    """

    directory: str
    checkpoint: str
    batch: int
    epoch: int
    offsets: str = attrs.field(repr=False)
    sources: tuple[str, ...] = ()
    unproven: str = ""
    types: str = attrs.field(default="", repr=False)

    @property
    def position(self) -> dict[str, Any]:
        """The position of the state in its sources, for the lineage of a savepoint."""
        facts = {"checkpoint": self.checkpoint, "batch": self.batch, "offsets": self.offsets}
        return facts | ({"sources": list(self.sources)} if self.sources else {})


def committed_batch(directory: StateDirectory) -> int:
    """Return the last committed batch of a query.

    Raises:
        SavepointNotFound: Its checkpoint is not there, or has no committed batch.
    """
    checkpoint = directory.checkpoint_folder
    note = read_note(checkpoint)
    if note is not None and note.id != directory.id:
        raise SavepointNotFound(
            f"the checkpoint {checkpoint} is of another query now, whose state is in {note.state_dir}",
            advice="put back the checkpoint that the state belongs to: only it says which batches are committed",
        )
    batch = last_committed(checkpoint)
    if batch is None:
        is_there = checkpoint.exists()
        why = "has no committed batch yet" if is_there else "is not there"
        raise SavepointNotFound(
            f"the state in {directory.folder} belongs to the query with the checkpoint {checkpoint}, which {why}",
            advice="wait until the query has committed a batch"
            if is_there
            else "put the checkpoint back: only it says which batches are committed; or, if it has moved, start the"
            " query once from there",
        )
    return batch


def read_state(folder: Folder) -> tuple[StoredSavepoint, QueryFacts]:
    """Return the state of a query after its last committed batch, and what is known of the query.

    Args:
        folder: The state directory.

    Raises:
        SavepointNotFound: The checkpoint is not there, or has no committed batch; or `AttemptsUndecided`.
        UntrustedPlace: The checkpoint is in another store.
        DeclarationError: Some slots have not run since the last epoch began.
        CorruptFile: A file of the state directory is damaged.
    """
    directory = StateDirectory.open(folder)
    batch = committed_batch(directory)
    checkpoint = directory.checkpoint_folder
    committed = committed_manifests(directory, batch)
    sources = [one.manifest for one in planned_offsets(checkpoint, batch) if one.manifest is not None]
    number = committed.epoch or max((manifest.epoch for manifest in sources), default=0)
    epoch = directory.epoch(number) if number else directory.unchanged_epoch
    if epoch is None:
        raise SavepointNotFound(
            f"no start of a query is recorded in the state directory {folder}", advice="start the query"
        )
    read = offsets(checkpoint, batch)
    kinds, why = _source_kinds(directory, batch), committed.unproven
    types = epoch.types if epoch.lazy else ""
    facts = QueryFacts(directory.id, directory.checkpoint, batch, epoch.number, read, kinds, why, types)
    savepoint = directory.savepoint(committed.manifests, epoch, batch, sources)
    require_intact(directory, (*committed.manifests, *sources))
    return savepoint, facts


def _source_kinds(directory: StateDirectory, batch: int) -> tuple[str, ...]:
    """Return the kinds of the sources in the start of the query that committed a batch; (): they are not known."""
    runs = (run for run in directory.runs().values() if run.after_batch is None or run.after_batch < batch)
    last = max(runs, key=lambda run: run.number, default=None)
    return () if last is None else last.sources
