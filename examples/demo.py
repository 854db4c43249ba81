"""`make demo`: state that real Flink wrote, taken over by a class that Flink refuses.

Every step is a command as you would type it, in this folder. The savepoint in `savepoints/` was written by Flink 2.3
and is only read; what is made goes to a temporary folder that is removed at the end.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import textwrap
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

HERE = Path(__file__).parent
STATESHIFT = [sys.executable, "-m", "stateshift"]
SAVEPOINT, JOB = "savepoints/rocksdb-account-v1", "accounts_v3:job"
ADDED, DROPPED = {"score": 0.0, "email": None}, {"obsolete"}
SHOWN = 3
Content = dict[tuple[str, str], dict[Any, Any]]


def main() -> int:
    """Run all steps; give 0 where the migration is proven, else 1."""
    say(
        "A Flink job keeps accounts. Its class changes: visits int -> long, score and email are new, obsolete is gone.",
        "Flink refuses to start the new job on the old state. stateshift takes the state over.",
    )
    title("1. What the savepoint holds (no Java runs yet)")
    run("inspect", SAVEPOINT)

    title("2. May the job start with the new class?")
    print_refusal()
    say("stateshift says, for every state and field:", "")
    run("check", SAVEPOINT, "--job", JOB, expected=4)

    scratch = Path(tempfile.mkdtemp(prefix="stateshift-demo-"))
    try:
        target = str(scratch / "accounts-v3")
        before = file_digest()
        title("3. Migrate: write a new savepoint (so little state needs no Spark)")
        run("migrate", SAVEPOINT, target, "--job", JOB)

        title("4. Verify it")
        run("verify", target)

        title("5. Read the entries back")
        old, new = exported(SAVEPOINT, scratch / "before.json"), exported(target, scratch / "after.json")
        print_entries(old, new)
        return print_proof(target, old, new, untouched=file_digest() == before)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def proven(steps: Callable[[Path], bool]) -> int:
    """Run the steps of a demo on Spark in a folder of their own; return 0 where all is as it should be, else 1."""
    started = time.monotonic()
    scratch = Path(tempfile.mkdtemp(prefix="stateshift-demo-"))
    try:
        is_right = steps(scratch)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    title("Proven" if is_right else "NOT PROVEN")
    say(f"{time.monotonic() - started:.0f} seconds in all")
    return 0 if is_right else 1


def title(text: str) -> None:
    """Print the title of a step."""
    on, off = ("\033[1m", "\033[0m") if sys.stdout.isatty() and "NO_COLOR" not in os.environ else ("", "")
    print(f"\n{on}{text}{off}\n")


def say(*lines: str) -> None:
    """Print plain lines."""
    print("\n".join(lines), flush=True)


def run(*arguments: str, expected: int = 0, folder: str | Path = HERE) -> None:
    """Show a command and run it in a folder; what it prints is seen as it comes."""
    say(f"$ {shlex.join(['stateshift', *arguments])}")
    status = subprocess.run([*STATESHIFT, *arguments], cwd=folder, check=False).returncode
    if status != expected:
        raise SystemExit(f"\nNOT PROVEN: the command above ended with status {status} instead of {expected}")


def answer(*arguments: str) -> Any:
    """Give what a command answers with `--json`."""
    ran = subprocess.run([*STATESHIFT, *arguments, "--json"], cwd=HERE, stdout=subprocess.PIPE, check=False)
    return json.loads(ran.stdout)


def file_digest() -> str:
    """Give a digest of the old savepoint's files."""
    whole = hashlib.sha256()
    for file in sorted((HERE / SAVEPOINT).iterdir()):
        whole.update(file.name.encode() + b"\0" + file.read_bytes())
    return whole.hexdigest()


def print_refusal() -> None:
    """Show what Flink itself says; it was recorded, since Flink takes long to start."""
    record = json.loads((HERE / "flink-refusal.json").read_text(encoding="utf-8"))
    say(f"Flink {record['flink_version']} says, started on this savepoint with the new class (flink-refusal.json):", "")
    for refusal in record["refusals"]:
        cause = refusal["causes"][-1].removeprefix("org.apache.flink.util.")
        text = f"{refusal['backend']}: {cause}"
        say(textwrap.fill(text, 110, initial_indent="  ", subsequent_indent="    ", break_on_hyphens=False))
    say("", "Neither the state, nor the field, nor a way out.", "")


def exported(savepoint: str, file: Path) -> Content:
    """Export a savepoint, and give the content of every state, by operator and state."""
    run("export", savepoint, "--format", "tagged", "-o", str(file))
    content: Content = {}
    for operator in json.loads(file.read_text(encoding="utf-8"))["operators"]:
        for name, state in operator.get("keyed", {}).items():
            content[operator["uid"], name] = {json.dumps(key): value for key, value in state["entries"]}
        for name, state in operator.get("operator", {}).items():
            content[operator["uid"], name] = dict(enumerate(state["subtasks"]))
    return content


def short(value: Any) -> str:
    """Give an account in one line."""
    fields = ", ".join(f"{name}={field!r}" for name, field in value["$pojo"]["fields"].items())
    return f"Account({fields})"


def print_entries(old: Content, new: Content) -> None:
    """Show some entries of one state, before and after."""
    place = ("account-state", "account")
    say("", f"state {place[1]} of operator {place[0]}, before and after:", "")
    for key in list(old[place])[:SHOWN]:
        say(f"  key {key:<4} {short(old[place][key])}", f"        -> {short(new[place][key])}")
    say(f"  … and {len(old[place]) - SHOWN} more keys")


def expected_of(value: Any) -> tuple[Any, int]:
    """Give what a value should have become, and how many accounts are in it."""
    if isinstance(value, dict) and "$pojo" in value:
        fields = {name: field for name, field in value["$pojo"]["fields"].items() if name not in DROPPED}
        return {"$pojo": {**value["$pojo"], "fields": dict(sorted((fields | ADDED).items()))}}, 1
    if isinstance(value, dict):
        parts = {name: expected_of(part) for name, part in value.items()}
        return {name: part for name, (part, _) in parts.items()}, sum(count for _, count in parts.values())
    if isinstance(value, list):
        items = [expected_of(item) for item in value]
        return [item for item, _ in items], sum(count for _, count in items)
    return value, 0


def type_of_visits(savepoint: str) -> set[str]:
    """Give the types that the field has in the savepoint."""
    operators = answer("inspect", savepoint)["operators"]
    records = [record for op in operators for state in op["states"] for record in state["records"]]
    return {field["type"] for record in records for field in record["fields"] if field["name"] == "visits"}


def print_proof(target: str, old: Content, new: Content, *, untouched: bool) -> int:
    """Compare everything, say what holds, and give the exit status."""
    expected = {place: expected_of(content) for place, content in old.items()}
    accounts = sum(count for _, count in expected.values())
    changed = [place for place, (_, count) in expected.items() if count]
    kept = [place for place in expected if place not in changed]
    proofs = {
        f"{accounts} accounts in {len(changed)} states read back: nothing lost, score and email filled in, "
        "obsolete dropped": all(new.get(place) == expected[place][0] for place in changed),
        f"{sum(len(old[place]) for place in kept)} entries of the state that did not change are as they were": all(
            new.get(place) == expected[place][0] for place in kept
        ),
        "no state is missing, none was added": old.keys() == new.keys(),
        "visits was int and is long": (type_of_visits(SAVEPOINT), type_of_visits(target)) == ({"int"}, {"long"}),
        "the job may start on the new savepoint": answer("check", target, "--job", JOB)["decision"] == "start",
        "the old savepoint is untouched: rollback is possible": untouched,
    }
    proven = all(proofs.values())
    title("Migration proven" if proven else "NOT PROVEN")
    for proof, holds in proofs.items():
        say(f"  {'ok    ' if holds else 'FAILED'}  {proof}")
    if proven:
        say("", "That real Flink restores such a savepoint is tested too: make interop")
    return 0 if proven else 1


if __name__ == "__main__":
    sys.exit(main())
