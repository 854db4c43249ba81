"""Downtime: how long a job of real Flink on RocksDB stands still while the type of its state changes.

    python -m benchmarks.downtime [--entries 5000000] [--shape S2n] [--rounds 3] [--heap 2g] [--folder DISK] [--json]

The state is that of shape S2n, 100 bytes an entry, or `wide`, a kilobyte: a POJO that loses one field and gains
another, which Flink migrates by itself. So all ways end with the same class, but for the last, which changes nothing:

    Flink alone, canonical or native    take such a savepoint and stop; start the job with the new class from it
    with ours, canonical or native      the same, and `stateshift migrate` in between
    unchanged, native                   take, and start again with the old class

    take          from the call of stop to the end of the job
    migrate       from the start of the command to its end: Python, all proofs, and Spark where it is started
    restore       from the submission of the job until its function is open: the state is there, and Flink's own
                  migration is done
    first record  from there until the job has processed its first record, whose value was found in state

The cluster runs already when the clock starts. One state is prepared for all ways: of a job that Flink started from a
savepoint of this benchmark, and that has changed a tenth of its keys since. Each round takes either kind of savepoint
of a job that starts from it. Each job runs in a process of its own; figures are medians of the rounds.
"""

from __future__ import annotations

import argparse
import json
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
    from types import TracebackType

STEPS = ("take", "migrate", "restore", "first record")
FORMATS = ("canonical", "native")
COPY = "copy of the native files"
_CHANGED = 10
"""Of so many keys one has a newer value in the prepared state, which other files of the database have."""

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

    def job(self, savepoint: Path, records: str) -> FlinkJob:
        """Start a job from a savepoint, whose class of the records is that before the change or after it."""
        folder = Path(tempfile.mkdtemp(prefix="job-", dir=self.scratch))
        options = (f"-Xmx{self.arguments.heap}",)
        return FlinkJob(self.peers.command("Downtime", folder, savepoint, records=records, options=options), folder)

    def started(self, savepoint: Path, records: str = "after") -> Seconds:
        """Start a job, and end it once it runs."""
        with self.job(savepoint, records) as job:
            job.ask("end")
            return job.started

    def migrate(self, source: Path, target: Path) -> Seconds:
        """Migrate as a user does."""
        shutil.rmtree(target, ignore_errors=True)
        shape = self.arguments.shape.upper()
        command = [sys.executable, "-m", "stateshift", "migrate", source, target]
        command += ["--job", f"{__package__}.states_after:{shape}", "--target", "flink-2.3", "--json"]
        started = time.perf_counter()
        ran = subprocess.run(list(map(str, command)), cwd=ROOT, capture_output=True, text=True, check=False)
        seconds = time.perf_counter() - started
        if ran.returncode:
            raise SystemExit(ran.stdout + ran.stderr)
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

    def stop(self, format_: str) -> tuple[Path, Seconds]:
        """Stop it with a savepoint; give the place of that."""
        found = self.ask("stop", format_.upper())
        return Path(found["place"]), {"take": found["take_s"]}

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None  # noqa: S101 - as above
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(self._process.communicate()[1])
        found: dict[str, Any] = json.loads(line)
        return found


def prepare(runs: Runs) -> Path:
    """Let Flink take the native savepoint that the jobs of all ways start from."""
    entries = max(runs.arguments.entries, LEAST_ENTRIES)
    source, prepared = runs.scratch / "source", runs.scratch / "prepared"
    write_savepoint(SHAPES[runs.arguments.shape], entries, source)
    with runs.job(source, "before") as job:
        job.ask("change", entries // _CHANGED, _CHANGED)
        job.stop("native")[0].rename(prepared)
    shutil.rmtree(source)
    return prepared


def round_of(runs: Runs, prepared: Path) -> dict[str, Seconds]:
    """Go all ways once."""
    found: dict[str, Seconds] = {}
    target = runs.scratch / "migrated"
    for format_ in FORMATS:
        with runs.job(prepared, "before") as job:
            savepoint, taken = job.stop(format_)
        found[f"Flink alone, {format_}"] = taken | runs.started(savepoint)
        found[f"with ours, {format_}"] = taken | runs.migrate(savepoint, target) | runs.started(target)
        if format_ == "native":
            shutil.rmtree(target)
            started = time.perf_counter()
            shutil.copytree(savepoint, target)
            found[COPY] = {"migrate": time.perf_counter() - started}
            found["unchanged, native"] = taken | runs.started(savepoint, "before")
        for folder in (target, *runs.scratch.glob("job-*")):
            shutil.rmtree(folder)
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
    """Compare the ways."""
    ours, alone = found["with ours, native"], found["Flink alone, native"]
    better = min(alone["whole"], found["Flink alone, canonical"]["whole"])
    after = ("restore", "first record")
    return {
        "native: migrate and restore, of Flink's restore and migrate": (
            (ours["migrate"] + sum(ours[step] for step in after)) / sum(alone[step] for step in after)
        ),
        "native: the whole, of Flink alone's better way": ours["whole"] / better,
        "native: migrate, of a copy of the files": ours["migrate"] / found[COPY]["migrate"],
        "native: the whole, of unchanged": ours["whole"] / found["unchanged, native"]["whole"],
    }


def print_results(found: dict[str, Any], arguments: argparse.Namespace) -> None:
    """One line a way, and how they compare."""
    columns = (*STEPS, "whole")
    rows = [
        (way, *(f"{times[step]:.2f}" if step in times else "" for step in columns))
        for way, times in found["seconds"].items()
    ]
    sizes = ", ".join(f"a {name} savepoint of {size / 1e6:,.0f} MB" for name, size in found["bytes"].items())
    title = f"downtime in seconds: {arguments.entries:,} entries of {arguments.shape}, {sizes}"
    print_table(title, ("", *columns), rows, markdown=arguments.markdown)
    compared = [(name, f"{ratio:.2f} x") for name, ratio in found["ratios"].items()]
    print_table("compared", ("", "ratio"), compared, markdown=arguments.markdown)


def main() -> int:
    """Print the downtime of all ways, split into steps."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--entries", type=int, default=5_000_000)
    parser.add_argument("--shape", default="S2n", choices=("S2n", "wide"))
    parser.add_argument("--rounds", type=int, default=3)
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
    found = {"bytes": {"native": size}, "seconds": seconds, "ratios": ratios(seconds)}
    if arguments.json:
        told_too = {"entries": arguments.entries, "shape": arguments.shape}
        print(json.dumps({"machine": machine} | told_too | found, indent=2))
    else:
        print_results(found, arguments)
        print(told(machine))
    return 0


if __name__ == "__main__":
    sys.exit(main())
