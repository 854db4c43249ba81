"""The copy of a checkpoint: logs and metadata as they are, stores as planned; Spark sees it when it is complete."""

from __future__ import annotations

import json
import re
import uuid
from functools import cached_property
from typing import TYPE_CHECKING

import attrs
from xxhash import xxh3_128

from ....serializers.errors import MigrationFailed, SourceChanged, TargetExists, located
from ...formats.spark.checksums import open_checked, read_checked
from ...formats.spark.logs import read_logs, require_log, with_ids
from ...formats.spark.operators import METADATA, numbered, parsed_metadata, with_prefixes
from ...progress import Progress, report_progress
from ...publication.source_guard import Read
from ...publication.target_lock import claimed
from .entries import EntryCopy
from .providers import Provider, target_of
from .record import CopyRecord
from .report import state_counts

if TYPE_CHECKING:
    from collections.abc import Container, Iterator

    from ...publication.lineage import StateCount
    from ...publication.target_lock import Claim
    from ...storage.files import Folder
    from .operator_copy import OperatorCopy, StoreCopy
    from .preparation import PreparedCopy
    from .report import Counts

UNFINISHED = "stateshift_has_not_finished_this_copy_run_the_migration_again"
"""The first line of `metadata` in an unfinished copy: Spark's error shows it."""

_NUMBER = re.compile(r"\d+")
_ATTEMPT = ".attempt-"
_OURS = re.compile(r"_(claim|run|late)-[0-9a-f]{12}")


@attrs.define(slots=False)
class Copy:
    """A run that writes a copy.

    Attributes:
        plan: What it does.
        folder: The folder of the copy.
        new_id: The id of the query, if the copy gets one of its own.
    """

    plan: PreparedCopy
    folder: Folder
    new_id: str = attrs.field(factory=lambda: str(uuid.uuid4()))

    def run(self) -> tuple[StateCount, ...]:
        """Write the copy, and publish it."""
        source, place = self.plan.source, self.folder.place
        with located(savepoint=place, checkpoint=place), claimed(self.folder, (Read(source.folder),)) as claim:
            self._begin()
            try:
                self._copy_logs()
                counts: dict[tuple[int, str], Counts] = {}
                for done, operator in enumerate(self.plan.together):
                    report_progress(Progress("copying", done, len(self.plan.together)))
                    counts |= {(operator.number, name): of for name, of in self._copied(operator)}
                found = tuple(state_counts(self.plan, counts))
                CopyRecord.of(self.plan, found).write(self.folder)
                self._publish(claim)
            except Exception as error:
                if hasattr(error, "written"):
                    error.written = (
                        f"{self.folder.place} is an unfinished copy, which Spark refuses to start: run the same"
                        " migration again, or delete it. The source was only read."
                    )
                raise
        return found

    @cached_property
    def _marker(self) -> bytes:
        """The unfinished `metadata`; with a function that cannot be compared it differs in each run."""
        facts = {"source": self.plan.source.place, "plan": self.plan.query.content_sha256}
        return f"{UNFINISHED}\n{json.dumps(facts)}\n".encode()

    def _begin(self) -> None:
        """Mark the target as unfinished; a target that a run of the same plan left is taken over."""
        names = [name for name in self.folder.names() if not _OURS.fullmatch(name) and _ATTEMPT not in name]
        found = self.folder.read("metadata") if "metadata" in names else b""
        if names and found != self._marker:
            is_ours = found.startswith(UNFINISHED.encode())
            what = "has what another migration left unfinished" if is_ours else "is not empty"
            raise TargetExists.before_writing(
                f"the target {what}",
                advice="delete the folder, or name another one" if is_ours else "name another folder",
            )
        for name in self.folder.names_below():
            if _ATTEMPT in name:
                parent, _, last = name.rpartition("/")
                folder = self.folder.folder(parent) if parent else self.folder
                folder.delete(last)
                folder.delete_empty()  # what RocksDB works in; never the target, which has the claim
        if not names:
            self.folder.write_last("metadata", self._marker)

    def _copy_logs(self) -> None:
        """Copy everything but state and what belongs to batches that were not committed."""
        source = self.plan.source.folder
        names = source.names_below()
        beside = frozenset(names)
        for name in names:
            top, *inner = name.split("/")
            is_sum = name.endswith(".crc") and name.removesuffix(".crc") in beside
            is_hidden = is_sum or any(part.startswith(".") for part in (top, *inner))
            if is_hidden or top == "state" or name == "metadata" or top.startswith("_"):
                continue
            if top in {"offsets", "commits"} and not self._is_kept(inner):
                continue
            require_log(source, name, self.plan.settings)
            if name == f"commits/{self.plan.query.batch}" and self.plan.log.ids != self.plan.source.log.ids:
                self.folder.folder(top).create()
                self.folder.write_last(name, with_ids(source.read(name), self.plan.log.ids))
            else:
                _copied(source, name, self.folder, beside)
        for operator in self.plan.operators:
            if operator.files is None:
                for plan in operator.stores:
                    self._copy_metadata(plan)

    def _copy_metadata(self, plan: StoreCopy) -> None:
        """Copy the metadata of an operator, with the number, partitions and prefixes that it has in the copy."""
        store, number = plan.was, plan.now.operator
        target = self.folder.folder(f"state/{number}/{METADATA}")
        if not store.folder.exists(METADATA):
            return
        metadata = store.folder.folder(METADATA)
        columns = plan.now.facts.prefix_columns or 0
        has_prefix = columns == (store.facts.prefix_columns or 0)
        for name in metadata.names_below():
            if name.rpartition("/")[2].startswith(".") or name.endswith(".crc"):
                continue
            data = read_checked(metadata, name)
            parsed_metadata(data.decode(errors="replace"), store.operator, f"state/{store.operator}/{METADATA}/{name}")
            if has_prefix and not plan.is_empty and number == store.operator:
                _copied(metadata, name, target)
                continue
            data = numbered(data, number, store.facts.partitions if plan.is_empty else None)
            target.folder(name.rpartition("/")[0]).create() if "/" in name else target.create()
            target.write_last(name, data if has_prefix else with_prefixes(data, {store.facts.name: columns}))

    def _is_kept(self, inner: list[str]) -> bool:
        return len(inner) == 1 and _NUMBER.fullmatch(inner[0]) is not None and int(inner[0]) <= self.plan.query.batch

    def _copied(self, operator: OperatorCopy) -> Iterator[tuple[str, Counts]]:
        """Write the partitions of stores that have the same files; yield the names of these, and what was counted."""
        with located(operator=operator.number if operator.was is None else operator.was.number):
            if operator.files is None:
                (plan,) = operator.stores
                first = target_of(self.folder, plan.now, 0).folder(METADATA)
                first.create()
                first.write_last("schema", plan.schema_file)
            else:
                operator.files.write(self.folder, operator.number, self.plan.query.batch)
            if operator.is_converted:
                yield from EntryCopy(Provider.of(self.plan, operator, self.folder)).run()
                return
            for partition in range(operator.partitions):
                self._copy_partition(operator.stores[0], partition)
            for one in operator.stores:
                read = tuple(size.entries for size in one.was.measure())
                yield one.now.name, (read, read, 0)

    def _copy_partition(self, plan: StoreCopy, partition: int) -> None:
        """Copy the files that are the last committed version of a partition; their entries are counted elsewhere."""
        source = plan.was._partition(partition)  # noqa: SLF001 - of this package
        target = target_of(self.folder, plan.now, partition)
        target.create()
        for name in plan.was.files(partition):
            _copied(source, name, target)

    def _metadata(self) -> bytes:
        """Return the content of `metadata`, which makes the copy a checkpoint: the id of its query."""
        found = self.plan.source.folder.read("metadata")
        return json.dumps(json.loads(found) | {"id": self.new_id}).encode() if self.plan.query.has_new_id else found

    def _publish(self, claim: Claim) -> None:
        """Check that the query has not gone on, and let Spark see the copy."""
        source = self.plan.source
        log = read_logs(source.folder)
        if (log.committed, log.planned) != (source.log.committed, source.log.planned):
            raise SourceChanged(
                f"the query has gone on to batch {log.planned} while its checkpoint was copied",
                advice="stop the query, delete the copy, and migrate again",
            )
        for name in {name.rpartition("/")[0] for name in self.folder.names_below() if "/" in name}:
            self.folder.folder(name).sync()
        claim.require()
        if self.folder.read("metadata") != self._marker:
            raise MigrationFailed("something else has written to the target", advice="find out what, and migrate again")
        self.folder.write_last("metadata", self._metadata())
        self.folder.sync()


def _copied(source: Folder, name: str, target: Folder, beside: Container[str] | None = None) -> None:
    """Copy a file that its checksums show to be whole; it gets its name when it is complete, and is read back.

    Args:
        source: The folder to read.
        name: The file.
        target: The folder to write to.
        beside: The names of the files in the source, if the caller knows them.
    """
    parent, _, last = name.rpartition("/")
    to = target.folder(parent) if parent else target
    to.create()
    attempt = to.attempt_name(last)
    written = xxh3_128()
    with located(file=name), open_checked(source, name, beside) as reader, to.output(attempt) as stream:
        for piece in reader.pieces():
            written.update(piece)
            stream.write(piece)
        stream.sync()
    to.rename(attempt, last)
    to.require_written(last, written.digest())
