"""What a long history costs: a job of 500 states with 40 fields each, recorded again and again.

    python -m benchmarks.long_history [--revisions 10 33 100] [--states 500] [--changed 5] [--keep FOLDER] [--json]

Two jobs. In the one all states are `alike`, of one class that gets a field with every fifth revision. In the other they
are `unlike`: each is of a class of its own, that differs from the others in the name and type of some fields; each
revision gives some of the classes one more. Then the commands run, each in a process of its own, with the files
in the page cache: CPU seconds and the most memory that the process had.
"""

from __future__ import annotations

import argparse
import datetime as dt
import importlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

MODULE = '''
import functools

import attrs
from stateshift import Int32, Job, ListStateDescriptor, MapStateDescriptor, Operator, ValueStateDescriptor, record

KINDS = (str, Int32, int, float, bool, list[str], dict[str, int], str | None, int | None, bytes)


@functools.cache
def class_of(number, fields, added):
    """A record; those of another number differ in the name of one field, and in the types of some."""
    named = {f"field_{index}": KINDS[index % len(KINDS)] for index in range(fields - 1)}
    named |= {f"own_{number}": KINDS[number % len(KINDS)], f"field_{number % 7}": KINDS[number % 5]}
    more = {f"added_{index}": attrs.field(type=int, default=0) for index in range(added)}
    fields = {name: attrs.field(type=kind) for name, kind in named.items()} | more
    made = attrs.make_class(f"Order{number}", fields, frozen=True, slots=True)
    return record(java_class=f"com.acme.orders.Order{number}")(made)


def job_of(shape, revision, states, fields, changed):
    """The job as a revision has it."""
    if shape == "alike":
        classes = [class_of(0, fields, revision // 5)] * states
    else:
        classes = [class_of(number, fields, (revision * changed + number) // states) for number in range(states)]

    def state(number):
        name, value = f"state-{number}", classes[number]
        if number % 3 == 0:
            return ValueStateDescriptor(name, value)
        return ListStateDescriptor(name, value) if number % 3 == 1 else MapStateDescriptor(name, str, value)

    return Job(
        [
            Operator(f"operator-{first}", key=str, states=[state(n) for n in range(first, min(first + 10, states))])
            for first in range(0, states, 10)
        ]
    )


def __getattr__(name):
    if name != "job":
        raise AttributeError(name)
    from settings import SETTINGS
    return job_of(*SETTINGS)
'''

COMMANDS = {
    "history": ["history"],
    "heads": ["heads"],
    "show head": ["show", "head"],
    "check BACKWARD": ["check", "--job", "orders:job", "--against", "state_history"],
    "check FULL_TRANSITIVE": [
        *("check", "--job", "orders:job", "--against", "state_history"),
        *("--level", "FULL_TRANSITIVE"),
    ],
    "snapshot -m": ["snapshot", "--job", "orders:job", "-m", "One more"],
}


def record_history(folder: Path, shape: str, revisions: int, states: int, fields: int, changed: int) -> None:
    """Write the job's module, and its history; the job is one revision ahead of it. What is there is kept."""
    from stateshift.compat.gate.history import SUFFIX, RecordedRevision
    from stateshift.compat.gate.recording import digest

    history = folder / "state_history"
    history.mkdir(parents=True, exist_ok=True)
    (folder / "orders.py").write_text(MODULE, encoding="utf-8")
    (folder / "settings.py").write_text(
        f"SETTINGS = {(shape, revisions, states, fields, changed)!r}\n", encoding="utf-8"
    )
    if len(list(history.iterdir())) == revisions:
        return
    sys.modules.pop("orders", None)
    sys.path.insert(0, str(folder))
    orders = importlib.import_module("orders")
    sys.path.remove(str(folder))
    parents: tuple[str, ...] = ()
    for number in range(revisions):
        made = orders.job_of(shape, number, states, fields, changed).describe("job orders:job")
        facts = f"{number + 1:04}", parents, f"Revision {number}", dt.date(2026, 3, 1), digest(made), ()
        revision = RecordedRevision(*facts, describe=lambda made=made: made)
        (history / f"{revision.name}{SUFFIX}").write_text(revision.to_json(), encoding="utf-8")
        parents = (revision.id,)


def costs(folder: Path, arguments: list[str]) -> dict[str, float]:
    """Run a command; give its CPU seconds and the most memory that it had, in MB."""
    command = [sys.executable, "-m", "stateshift", *arguments]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        _, _, used = os.wait4(process.pid, 0)
        process.returncode = 0
    return {"cpu_s": used.ru_utime + used.ru_stime, "rss_mb": used.ru_maxrss / 1024}


def measure(folder: Path, arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the figures by shape, revisions and command."""
    found: dict[str, Any] = {}
    for shape in arguments.shapes:
        for revisions in arguments.revisions:
            place = folder / f"{shape}-{revisions}"
            record_history(place, shape, revisions, arguments.states, arguments.fields, arguments.changed)
            kept = set((place / "state_history").iterdir())
            size = sum(file.stat().st_size for file in kept)
            figures = {"size_mb": size / 1e6, "commands": {}}
            for name, command in COMMANDS.items():
                figures["commands"][name] = costs(place, command)
            for file in set((place / "state_history").iterdir()) - kept:
                file.unlink()
            found.setdefault(shape, {})[revisions] = figures
    return found


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--revisions", type=int, nargs="+", default=[10, 33, 100])
    parser.add_argument("--shapes", nargs="+", choices=["alike", "unlike"], default=["alike", "unlike"])
    parser.add_argument("--states", type=int, default=500)
    parser.add_argument("--fields", type=int, default=40)
    parser.add_argument("--changed", type=int, default=5, help="unlike classes that change with each revision")
    parser.add_argument("--keep", type=Path, help="write the histories here, and keep them for the next run")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        found = measure((arguments.keep or Path(scratch)).resolve(), arguments)
    if arguments.json:
        print(json.dumps(found, indent=2))
        return
    for shape, by_revisions in found.items():
        for revisions, figures in by_revisions.items():
            print(f"{shape}, {revisions} revisions, {figures['size_mb']:.1f} MB")
            for name, cost in figures["commands"].items():
                print(f"    {name:22}{cost['cpu_s']:8.2f} s{cost['rss_mb']:8.0f} MB")


if __name__ == "__main__":
    main()
