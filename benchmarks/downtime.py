"""Downtime: how long a job of real Flink on RocksDB stands still while the type of its state changes.

    python -m benchmarks.downtime [--entries 5000000] [--shape S2n] [--ways canonical,native,follow] [--rounds 5]
                                  [--heap 2g] [--folder DISK] [--json]

The state is that of shape S2n, 100 bytes an entry, or `wide`, a kilobyte: a POJO that loses one field and gains
another, which Flink migrates by itself. So all ways end with the same class, but for the last, which changes nothing:

    Flink alone, canonical or native    take such a savepoint and stop; start the job with the new class from it
    with ours, canonical or native      the same, and `stateshift migrate` in between
    followed, a savepoint               while the job runs, a checkpoint of it is converted (`--follow`), and one key of
                                        a hundred changes; then it is stopped with a native savepoint, which the process
                                        that follows waits for (`--until`)
    followed, a checkpoint              the same with a checkpoint that is triggered by hand, after which the job is
                                        cancelled, and another process ends the migration (`--finish`)
    followed, compacted                 a savepoint right after a compaction that has rewritten all files
    unchanged                           take a native savepoint, and start again with the old class

    take          from the call of stop to the end of the job
    migrate       from the start of the command to its end: Python, all proofs, and Spark where it is started; with
                  `--until`, from the end of the job to the end of the command
    restore       from the submission of the job until its function is open: the state is there, and Flink's own
                  migration is done
    first record  from there until the job has processed its first record, whose value was found in state

The cluster runs already when the clock starts. One state is prepared for all ways: of a job that Flink started from a
savepoint of this benchmark, and that has changed a tenth of its keys since. In each round, jobs that start from it
are stopped: one for each kind of savepoint, and one for each way that is followed. Each job and command runs in a
process of its own; figures are medians of the rounds. Modules and machine code are compiled before, as after an
install.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import attrs

from .compare import LEAST_ENTRIES, ROOT
from .machine import arguments_of, facts, print_table, scratch_folder, told
from .peers import Peers, Unavailable, find_peers
from .shapes import SHAPES, write_savepoint

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

STEPS = ("take", "migrate", "restore", "first record")
WAYS = ("canonical", "native", "follow")
COPY, UNCHANGED = "copy of the native files", "unchanged"
_PREPARED, _FOLLOWED = 10, 100
"""Of so many keys one has a newer value in the prepared state, in other files; and has changed when a job stops."""

Seconds = dict[str, float]


@attrs.frozen
class Runs:
    """What all jobs of a run share.

    Attributes:
        peers: Java and Flink.
        scratch: For all files.
        arguments: Of the command line.
    """

    peers: Peers
    scratch: Path
    arguments: argparse.Namespace

    @property
    def entries(self) -> int:
        """The number of entries of the state."""
        return max(int(self.arguments.entries), LEAST_ENTRIES)

    def clear(self, target: Path) -> None:
        """Delete what a way has left."""
        for folder in (target, *self.scratch.glob("job-*")):
            shutil.rmtree(folder)

    def job(self, savepoint: Path, records: str) -> FlinkJob:
        """Start a job from a savepoint, whose class of the records is that before the change or after it."""
        folder = Path(tempfile.mkdtemp(prefix="job-", dir=self.scratch))
        options = (f"-Xmx{self.arguments.heap}",)
        return FlinkJob(self.peers.command("Downtime", folder, savepoint, records=records, options=options), folder)

    def started(self, savepoint: Path, amount: float, records: str = "after") -> Seconds:
        """Start a job whose first key must have an amount, and end it once it runs."""
        with self.job(savepoint, records) as job:
            job.ask("end")
        if job.amount != amount:
            raise SystemExit(f"{savepoint}: the first key has {job.amount}, and not {amount}")
        return job.started

    def migrate(self, source: Path, target: Path, *options: str) -> Seconds:
        """Migrate as a user does."""
        return self.ended(self.begun(source, target, *options), time.perf_counter())

    def begun(self, source: Path, target: Path, *options: object) -> subprocess.Popen[str]:
        """Start the command."""
        command = [sys.executable, "-m", "stateshift", "migrate", source, target, *options]
        command += ["--job", f"{__package__}.downtime_job:job", "--target", "flink-2.3", "--json"]
        kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        pipe = subprocess.PIPE
        return subprocess.Popen(list(map(str, command)), cwd=ROOT, env=kept, stdout=pipe, stderr=pipe, text=True)

    def ended(self, command: subprocess.Popen[str], started: float) -> Seconds:
        """Wait for its end; give the seconds since a moment."""
        told = command.communicate()
        seconds = time.perf_counter() - started
        if command.returncode:
            raise SystemExit("".join(told))
        return {"migrate": seconds}


class FlinkJob:
    """A job that runs in a process of its own, until it is told to stop.

    Attributes:
        started: Seconds until its state was there, and from there to its first record.
        amount: That of the first key, so that one sees that a later job has the state of an earlier one.
        folder: Of its files; those of RocksDB are gone afterwards, its savepoints and checkpoints are not.
    """

    def __init__(self, command: list[str], folder: Path) -> None:
        self.folder = folder
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        found = self._answer()
        self.started = {"restore": found["restore_s"], "first record": found["first_record_s"]}
        self.amount = found["amount"]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._process.communicate()  # the end of its input ends it
        shutil.rmtree(self.folder / "tmp", ignore_errors=True)

    def ask(self, *words: object) -> dict[str, Any]:
        """Let it do something (`jvm/main/Downtime.java`); give its answer."""
        assert self._process.stdin is not None  # noqa: S101 - it is a pipe
        print(*words, file=self._process.stdin, flush=True)
        return self._answer()

    def stop(self, *words: str) -> tuple[Path, Seconds]:
        """Stop it with a savepoint, or cancel it after a checkpoint; give the place of that."""
        found = self.ask(*words)
        return Path(found["place"]), {"take": found["take_s"]}

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None  # noqa: S101 - as above
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(self._process.communicate()[1])
        found: dict[str, Any] = json.loads(line)
        return found


def prepare(runs: Runs) -> Path:
    """Let Flink take the native savepoint that the jobs of all ways start from; migrate it once, so all is compiled."""
    source, prepared, target = (runs.scratch / name for name in ("source", "prepared", "migrated"))
    write_savepoint(SHAPES[runs.arguments.shape], runs.entries, source)
    with runs.job(source, "before") as job:
        job.ask("change", runs.entries // _PREPARED, _PREPARED)
        job.stop("stop", "NATIVE")[0].rename(prepared)
    runs.migrate(prepared, target)
    for folder in (source, target):
        shutil.rmtree(folder)
    return prepared


def round_of(runs: Runs, prepared: Path) -> dict[str, Seconds]:
    """Go all ways once."""
    ways: dict[str, Callable[[Runs, Path, Path], dict[str, Seconds]]] = {
        "canonical": _canonical, "native": _native, "follow": _follow,
    }  # fmt: skip
    found: dict[str, Seconds] = {}
    for name in runs.arguments.ways:
        found |= ways[name](runs, prepared, runs.scratch / "migrated")
    return found


def _canonical(runs: Runs, prepared: Path, target: Path) -> dict[str, Seconds]:
    with runs.job(prepared, "before") as job:
        savepoint, taken = job.stop("stop", "CANONICAL")
    found = {"Flink alone, canonical": taken | runs.started(savepoint, job.amount)}
    migrated = runs.migrate(savepoint, target)
    found["with ours, canonical"] = taken | migrated | runs.started(target, job.amount)
    runs.clear(target)
    return found


def _native(runs: Runs, prepared: Path, target: Path) -> dict[str, Seconds]:
    with runs.job(prepared, "before") as job:
        savepoint, taken = job.stop("stop", "NATIVE")
    found = {UNCHANGED: taken | runs.started(savepoint, job.amount, "before")}
    found["Flink alone, native"] = taken | runs.started(savepoint, job.amount)
    migrated = runs.migrate(savepoint, target)
    found["with ours, native"] = taken | migrated | runs.started(target, job.amount)
    shutil.rmtree(target)
    began = time.perf_counter()
    shutil.copytree(savepoint, target)
    found[COPY] = {"migrate": time.perf_counter() - began}
    runs.clear(target)
    return found


def _follow(runs: Runs, prepared: Path, target: Path) -> dict[str, Seconds]:
    return {
        "followed, savepoint": _until(runs, prepared, target, compacts=False),
        "followed, checkpoint": _finished(runs, prepared, target),
        "followed, compacted": _until(runs, prepared, target, compacts=True),
    }


def _until(runs: Runs, prepared: Path, target: Path, *, compacts: bool) -> Seconds:
    with runs.job(prepared, "before") as job:
        checkpoint = _followed_checkpoint(job)
        following = runs.begun(checkpoint.parent, target, "--follow", "--until", checkpoint.parents[2] / "savepoints")
        assert following.stdout is not None  # noqa: S101 - it is a pipe
        while not json.loads(following.stdout.readline() or '{"up_to_date": true}')["up_to_date"]:
            pass
        _change(runs, job, compacts=compacts)
        _, taken = job.stop("stop", "NATIVE")
        migrated = runs.ended(following, time.perf_counter())
    return _with_start(runs, target, job, taken | migrated)


def _finished(runs: Runs, prepared: Path, target: Path) -> Seconds:
    with runs.job(prepared, "before") as job:
        runs.migrate(_followed_checkpoint(job).parent, target, "--follow", "--once")
        _change(runs, job, compacts=False)
        last, taken = job.stop("cancel")
    return _with_start(runs, target, job, taken | runs.migrate(last, target, "--finish"))


def _followed_checkpoint(job: FlinkJob) -> Path:
    job.ask("compact")  # else RocksDB does it at a moment of its own, soon after the start
    return Path(job.ask("checkpoint")["place"])


def _change(runs: Runs, job: FlinkJob, *, compacts: bool) -> None:
    job.ask("change", runs.entries // _FOLLOWED, _FOLLOWED)
    if compacts:
        job.ask("compact")


def _with_start(runs: Runs, target: Path, job: FlinkJob, seconds: Seconds) -> Seconds:
    found = seconds | runs.started(target, job.amount + 1)
    runs.clear(target)
    return found


def medians(rounds: list[dict[str, Seconds]]) -> dict[str, Seconds]:
    """Give the median of each step of each way, and of the whole."""
    steps = {
        way: {step: statistics.median(one[way][step] for one in rounds) for step in times}
        for way, times in rounds[0].items()
    }
    return {
        way: times | {"whole": statistics.median(sum(one[way].values()) for one in rounds)}
        for way, times in steps.items()
    }


def ratios(found: dict[str, Seconds]) -> dict[str, float]:
    """Compare the ways that were gone."""
    compared: dict[str, float] = {}
    if "with ours, native" in found:
        ours, alone = found["with ours, native"], found["Flink alone, native"]
        after = ours["restore"] + ours["first record"], alone["restore"] + alone["first record"]
        better = min(times["whole"] for way, times in found.items() if way.startswith("Flink alone"))
        compared = {
            "native: migrate and restore, of Flink's restore and migrate": (ours["migrate"] + after[0]) / after[1],
            "native: the whole, of Flink alone's better way": ours["whole"] / better,
            "native: migrate, of a copy of the files": ours["migrate"] / found[COPY]["migrate"],
        }
    if UNCHANGED in found:
        rest = {way: times["whole"] for way, times in found.items() if way.startswith("followed")}
        compared |= {
            f"{way}: the whole, of unchanged": whole / found[UNCHANGED]["whole"] for way, whole in rest.items()
        }
    return compared


def print_results(found: dict[str, Any], arguments: argparse.Namespace) -> None:
    """One line a way, and how they compare."""
    columns = (*STEPS, "whole")
    rows = [
        (way, *(f"{times[step]:.2f}" if step in times else "" for step in columns))
        for way, times in found["seconds"].items()
    ]
    size = f"a native savepoint of {found['bytes'] / 1e6:,.0f} MB"
    title = f"downtime in seconds: {arguments.entries:,} entries of {arguments.shape}, {size}"
    print_table(title, ("", *columns), rows, markdown=arguments.markdown)
    compared = [(name, f"{ratio:.2f} x") for name, ratio in found["ratios"].items()]
    print_table("compared", ("", "ratio"), compared, markdown=arguments.markdown)


def main() -> int:
    """Print the downtime of all ways, split into steps."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--entries", type=int, default=5_000_000)
    parser.add_argument("--shape", default="S2n", choices=("S2n", "wide"))
    parser.add_argument(
        "--ways", type=lambda text: text.split(","), default=WAYS, help="some of canonical,native,follow"
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--heap", default="2g", help="of the JVM that runs Flink; RocksDB is beside it")
    arguments = arguments_of(parser)
    try:
        peers = find_peers()
    except Unavailable as error:
        print(f"needs Flink: {error}", file=sys.stderr)
        return 1
    machine = facts(java=peers.version, flink=peers.flink, rounds=arguments.rounds, heap=arguments.heap)
    with scratch_folder(arguments.folder) as scratch:
        runs = Runs(peers, scratch, arguments)
        prepared = prepare(runs)
        size = sum(file.stat().st_size for file in prepared.iterdir())
        seconds = medians([round_of(runs, prepared) for _ in range(arguments.rounds)])
    found = {"bytes": size, "seconds": seconds, "ratios": ratios(seconds)}
    if arguments.json:
        told_too = {"entries": arguments.entries, "shape": arguments.shape}
        print(json.dumps({"machine": machine} | told_too | found, indent=2))
    else:
        print_results(found, arguments)
        print(told(machine))
    return 0


if __name__ == "__main__":
    sys.exit(main())
