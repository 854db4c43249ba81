"""What is asked of stored queries, and what counts of an answer: its exit status, its verdicts, and its entries."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import tarfile
from contextlib import chdir, contextmanager
from pathlib import Path

from click.testing import CliRunner

from stateshift.cli import main

PLACE = Path("/tmp/stateshift-stored-queries")  # noqa: S108 - state directories have the places of their checkpoints
KEPT = {"decision", "verdict", "uid", "name", "state", "kind", "entries", "parallelism", "batch", "equal", "passes"}
KEPT |= {"forwards", "backwards", "revision", "is_head", "is_recorded", "rule", "path", "query", "number"}
"""What counts of JSON: not the words, nor flags."""

JOB, NOW, BOTH = (("--job", f"stored_queries:{name}") for name in ("job", "job_now", "job_both"))
OF_ANY_STATE = (
    ("inspect", "state", "--json"),
    ("export", "state"),
    ("verify", "state"),
    ("verify", "state", "--values"),
    ("gc", "state", "--dry-run"),
    ("diff", "state", "savepoint", "--json"),
    ("savepoint", "state", "savepoint-again"),
    ("diff", "savepoint", "savepoint-again", "--json"),
    ("rewind", "state", "back", "--checkpoint", "back-checkpoint", "--to-batch", "0"),
    ("export", "back"),
    ("verify", "back"),
    ("inspect", "savepoint", "--json"),
    ("verify", "savepoint", "--values"),
    ("export", "savepoint"),
    ("snapshot", "state", "-o", "types-again.json"),
    ("diff", "types.json", "types-again.json", "--json"),
)
OF_ACCOUNTS = (
    *OF_ANY_STATE,
    ("check", "state", *JOB, "--json"),
    ("check", "state", *NOW, "--json"),
    ("check", "state", *NOW, "--forbid", "all", "--json"),
    ("check", "savepoint", *JOB, "--json"),
    ("check", "savepoint", *NOW, "--json"),
    ("check", *NOW, "--against", "savepoint", "--json"),
    ("migrate", "state", "migrated", *NOW),
    ("verify", "migrated"),
    ("export", "migrated"),
    ("migrate", "savepoint", "by-plan", "--plan", "plan.json"),
    ("verify", "migrated-before"),
    ("diff", "migrated", "migrated-before", "--json"),
)
MIDWAY = (
    ("inspect", "state", "--json"),
    ("export", "state"),
    ("verify", "state"),
    ("gc", "state", "--dry-run"),
    ("savepoint", "state", "refused"),
    ("check", "state", *NOW, "--json"),
    ("check", "state", *JOB, "--json"),
    ("snapshot", "state", "-o", "types-again.json"),
    ("diff", "types.json", "types-again.json", "--json"),
    ("migrate", "state", "copy"),
    ("verify", "copy"),
    ("export", "copy"),
)
GATE = (
    ("history", "--json"),
    ("heads", "--json"),
    ("show", "0001", "--json"),
    ("check", *JOB, "--against", "state_history", "--json"),
    ("check", *NOW, "--against", "state_history", "--json"),
    ("check", *NOW, "--against", "state_history", "--level", "full_transitive", "--json"),
    ("check", *BOTH, "--against", "state_history", "--json"),
    ("check", *JOB, "--against", "production", "--json"),
    ("check", *NOW, "--against", "production", "--json"),
    ("diff", "state_history/0001_first.json", "stored_queries:job", "--json"),
)


def of_spark(same, *others, fills=()):
    """What is asked of a checkpoint of Spark: its query, unchanged, and other ones."""
    checkpoint = "spark:checkpoint"
    return (
        ("inspect", checkpoint, "--json"),
        ("export", checkpoint),
        ("diff", checkpoint, checkpoint, "--json"),
        *(("check", checkpoint, "--query", f"stored_queries:{name}", "--json") for name in (same, *others)),
        ("check", checkpoint, "--query", f"stored_queries:{same}", "--was", f"stored_queries:{same}", "--json"),
        ("check", checkpoint, "--query", f"stored_queries:{same}", "--require-recording", "--json"),
        ("migrate", checkpoint, "spark:copy", "--query", f"stored_queries:{same}", *fills),
        ("export", "spark:copy"),
    )


TO_COUNTS = ("--query", "stored_queries:sums_and_counts", "--fill", "0:value.count=0")
STATES = ("hashmap", "rocksdb", "hashmap-transform", "rocksdb-transform", "lazy", "lazy-transform", "source", "bounded")
LISTED = ("sums", "windows", "distinct", "joined", "with_names")
QUESTIONS = {
    "hashmap": OF_ACCOUNTS,
    "rocksdb": OF_ACCOUNTS,
    "hashmap-transform": OF_ACCOUNTS,
    "rocksdb-transform": OF_ACCOUNTS,
    "lazy": MIDWAY,
    "lazy-transform": MIDWAY,
    "source": OF_ANY_STATE,
    "bounded": (
        ("inspect", "savepoint", "--json"),
        ("verify", "savepoint", "--values"),
        ("export", "savepoint"),
        ("check", "savepoint", *JOB, "--json"),
        ("check", "savepoint", *NOW, "--json"),
    ),
    "gate": GATE,
    "gate-merged": GATE,
    "listed": (
        ("check", "--queries", "--json"),
        ("check", "--queries", "--against", "state_history", "--json"),
        ("snapshot", "--queries"),
    ),
    "sums": of_spark("sums", "sums_of_another", "maxima", "sums_and_counts"),
    "sums-unrecorded": of_spark("sums", "sums_of_another", "maxima", "sums_and_counts"),
    "windows": of_spark("windows", "shorter_windows"),
    "distinct": of_spark("distinct", "distinct_keys"),
    "joined": of_spark("joined", "joined_on_another"),
    "with_names": of_spark("with_names", "with_names_by_maximum"),
    "unfinished": (
        ("inspect", "spark:new", "--json"),
        ("check", "spark:new", "--query", "stored_queries:sums_and_counts", "--json"),
        ("migrate", "spark:checkpoint", "spark:new", *TO_COUNTS),
        ("export", "spark:new"),
        ("check", "spark:new", "--query", "stored_queries:sums_and_counts", "--json"),
    ),
    "migrated": (
        ("inspect", "spark:new", "--json"),
        ("check", "spark:new", "--query", "stored_queries:sums_and_counts", "--json"),
        ("export", "spark:new"),
    ),
}  # fmt: skip

UPGRADES = STATES[:4]
RESTARTS = (*STATES[:7], "sums", "sums-unrecorded", "windows", "distinct", "joined", "with_names", "migrated")


@contextmanager
def unpacked(archive):
    """Unpack what a version stored to where it was written, and yield the folder; one test run at a time."""
    with PLACE.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        shutil.rmtree(PLACE, ignore_errors=True)
        try:
            with tarfile.open(archive) as packed:
                packed.extractall(PLACE, filter="data")
            folder = PLACE / archive.name.partition(".")[0]
            for claim in folder.rglob("_claim-*"):
                os.utime(claim, (0, 0))  # nobody has renewed it for long
            yield folder
        finally:
            shutil.rmtree(PLACE, ignore_errors=True)


def answers(kind, folder):
    """Yield a question, its exit status and what counts of the answer, one after the other."""
    os.environ["STORED_QUERY"] = kind
    with chdir(folder):
        for question in QUESTIONS[kind]:
            ran = CliRunner().invoke(main, question)
            assert ran.exception is None or isinstance(ran.exception, SystemExit), (question, ran.exception)
            yield question, ran.exit_code, what_counts(question, ran.stdout), ran.output


def what_counts(question, output):
    """Return what counts of an answer."""
    if question[0] == "export":
        return sorted((json.loads(line) for line in output.splitlines()), key=json.dumps)
    if "--json" not in question:
        return None
    return kept(json.loads(output))


def holds(expected, actual):
    """Whether an answer has all that counts of the expected one: a later version may say more, in its order."""
    if isinstance(expected, dict):
        return isinstance(actual, dict) and all(holds(value, actual.get(name)) for name, value in expected.items())
    if isinstance(expected, list):
        rest = iter(actual or ())
        return all(any(holds(one, other) for other in rest) for one in expected)
    return expected == actual


def kept(data):
    """Return the part of JSON that counts."""
    if isinstance(data, dict):
        found = {}
        for name, value in data.items():
            if isinstance(value, dict | list):
                inner = kept(value)
                if inner:
                    found[name] = inner
            elif name in KEPT:
                found[name] = value
        return found
    return [one for one in map(kept, data) if one] if isinstance(data, list) else None
