"""A query without Spark, through its upgrades: of which some migrate its state lazily."""

from __future__ import annotations

from types import SimpleNamespace

from streaming_batches import Batches

from stateshift.spark.streaming.upgrade import UPGRADING, UpgradeJudgement, write_base
from stateshift.state.savepoint.reader import Savepoint


class Life:
    """A query without Spark, through its upgrades.

    Args:
        place: The folder of all that it keeps.
        backend: The backend of its slots.
        functions: Its function in each version.
        of_rows: The rows: schema, key and element of `Batches`.
    """

    def __init__(self, place, backend, functions, **of_rows):
        self.place, self.backend, self.engine = place / "state", backend, None
        self.functions, self.of_rows = functions, of_rows

    def start(self, version, how="refuse", options=UPGRADING, **more):
        """What `StreamJob.start` does, and slots in new processes."""
        function = self.functions[version]
        base = ""
        if self.engine is not None:
            before, directory = self.engine, self.engine.directory
            before.new_process()
            epoch = directory.epoch(max(manifest.epoch for manifest in before.manifests))
            after = before.number - 1
            savepoint = Savepoint.of(directory.savepoint(before.manifests, epoch, after, for_types=True))
            job = SimpleNamespace(
                sources={},
                operators={before.spec.uid: before.spec},
                functions={before.spec.uid: function},
                key_converters={},
            )
            ran = {manifest.slot for manifest in before.manifests if manifest.epoch == epoch.number}
            judged = UpgradeJudgement(job, options, how, savepoint, epoch, may_end=len(ran) == epoch.slots)
            if judged.changes or more:
                savepoint = Savepoint.of(directory.savepoint(before.manifests, epoch, after))
                base = str(directory.next_epoch)
                history = write_base(directory, savepoint, base, judged, None)
                more |= {"history": history, "lazy": judged.lazy, "types": judged.lazy_types}
        self.engine = Batches(self.place, function, self.backend, before=self.engine, base=base, **self.of_rows, **more)
