"""Exports damaged copies of native snapshots, one for each seed, and prints what came of it: a line of JSON for each.

A program of its own, because RocksDB could end its process: the test that starts it sees which seed that was.

    python damaged_databases.py NAME SCRATCH SEED…
    python damaged_databases.py --migrated NAME SCRATCH SEED…

With `--migrated` each is migrated to a native savepoint, which is verified and exported.
"""

from __future__ import annotations

import io
import json
import os
import random
import shutil
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import attrs
import native_snapshots
import pytest

from stateshift import DataInputView
from stateshift.cli import main
from stateshift.state.formats.flink.handles import DatabaseFile, RelativeFileHandle
from stateshift.state.formats.flink.keyed_stream import read_keyed_header

OTHERS = {
    "forst-incremental-long-p2-m128": "rocksdb-incremental-merged-files",
    "rocksdb-incremental-merged-files": "forst-incremental-long-p2-m128",
    "rocksdb-incremental-rescaled-2-to-3": "rocksdb-native-long-p2-m200",
    "rocksdb-incremental-rescaled-3-to-2": "rocksdb-incremental-merged-files",
    "rocksdb-incremental-string-p1-m128": "rocksdb-incremental-rescaled-3-to-2",
    "rocksdb-incremental-tuple-claimed": "rocksdb-incremental-rescaled-3-to-2",
    "rocksdb-native-long-p2-m200": "rocksdb-incremental-rescaled-2-to-3",
    "rocksdb-6.20-incremental-tuple-p2-m200": "rocksdb-native-long-p2-m200",
    "rocksdb-6.20-native-string-p2-m128": "rocksdb-incremental-merged-files",
}
"""Another snapshot to take a file from, with as many key groups where there is one."""


@attrs.frozen
class Case:
    """A copy of a snapshot that is to be damaged."""

    name: str
    folder: Path
    chance: random.Random

    @property
    def handles(self):
        return native_snapshots.keyed_handles(self.folder)

    def subtask(self):
        """One that has a database, and its handle."""
        return self.chance.choice(sorted(self.handles.items()))

    def two(self):
        """Two subtasks and their handles; None where there is one."""
        handles = sorted(self.handles.items())
        return self.chance.sample(handles, 2) if len(handles) > 1 else None

    def file(self, kind=""):
        """A file of a database, of any subtask, whose name begins or ends so."""
        _, handle = self.subtask()
        return self.chance.choice([f for f in handle.files if f.name.startswith(kind) or f.name.endswith(kind)])

    def write(self, stream, change):
        """Let bytes of a stream be what `change` makes of them; where it is a part of a file, they stay as many."""
        path, start, size = native_snapshots.local_path(stream, self.folder)
        data = path.read_bytes()
        new = change(data[start : start + size])
        path.unlink()  # it may be linked
        path.write_bytes(data[:start] + new + data[start + size :])


def flipped(case, kind):
    file = case.file(kind)

    def flip(data):
        at = case.chance.randrange(len(data))
        return data[:at] + bytes([data[at] ^ 1 << case.chance.randrange(8)]) + data[at + 1 :]

    case.write(file.stream, flip)
    return f"a bit of {file.name}"


def flipped_header(case):
    _, handle = case.subtask()

    def flip(data):
        texts = {at for span in texts_of(data) for at in range(*span)}
        at = case.chance.choice([at for at in range(len(data)) if at not in texts])
        return data[:at] + bytes([data[at] ^ 1 << case.chance.randrange(8)]) + data[at + 1 :]

    case.write(handle.stream, flip)
    return "a bit of the header"


def flipped_name(case):
    """A bit of a name in the header: of a class, a field, a state. What no other name shows may be any."""
    _, handle = case.subtask()

    def flip(data):
        at = case.chance.choice([at for span in texts_of(data) for at in range(*span)])
        return data[:at] + bytes([data[at] ^ 1 << case.chance.randrange(7)]) + data[at + 1 :]

    case.write(handle.stream, flip)
    return "a bit of a name of the header"


def texts_of(header):
    """Where the texts of a header lie."""
    spans, read_utf = [], DataInputView.read_utf

    def recording(view):
        text = read_utf(view)
        spans.append((view.position - len(text.encode()), view.position))
        return text

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DataInputView, "read_utf", recording)
        read_keyed_header(DataInputView(header))
    return spans


def blotted(case):
    file = case.file()

    def blot(data):
        size = case.chance.randint(1, min(64, len(data)))
        at = case.chance.randrange(len(data) - size + 1)
        return data[:at] + case.chance.choice([b"\0", b"\xff"]) * size + data[at + size :]

    case.write(file.stream, blot)
    return f"bytes of {file.name}"


def zeroed(case):
    """The end of a file, as a power cut leaves it."""
    file = case.file()

    def zero(data):
        size = case.chance.randint(1, len(data))
        return data[:-size] + b"\0" * size

    case.write(file.stream, zero)
    return f"the end of {file.name} is zeros"


def missing(case):
    file = case.file()
    native_snapshots.local_path(file.stream, case.folder)[0].unlink()
    return f"{file.name} is missing"


def resized(case, kind):
    """Another size, which `_metadata` says, too, as if the snapshot had been made so."""
    index, handle = case.subtask()
    file = case.chance.choice(handle.files)
    data = native_snapshots.content_of(file.stream, case.folder)
    data = data[: case.chance.randrange(len(data))] if kind == "cut" else data + case.chance.randbytes(9)
    (case.folder / "resized").write_bytes(data)
    replaced(case, index, file, RelativeFileHandle("resized", len(data)))
    return f"{file.name} is {kind}"


def frames_cut(case):
    """A MANIFEST that ends earlier, between two frames, so that each frame is whole."""
    index, handle = case.subtask()
    file = next(file for file in handle.private if file.name.startswith("MANIFEST-"))
    data = native_snapshots.content_of(file.stream, case.folder)
    at, ends = 0, []
    while at < len(data):
        ends.append(at)
        at += 7 + int.from_bytes(data[at + 4 : at + 6], "little")
    data = data[: case.chance.choice(ends[-20:])]
    (case.folder / "frames").write_bytes(data)
    replaced(case, index, file, RelativeFileHandle("frames", len(data)))
    return f"{file.name} lacks its last frames"


def resized_alone(case):
    """Another size than `_metadata` says."""
    file = case.file()
    path, start, size = native_snapshots.local_path(file.stream, case.folder)
    data = path.read_bytes()
    path.unlink()
    path.write_bytes(data[: start + case.chance.randrange(size)])
    return f"{file.name} is cut off"


def replaced(case, index, file, stream):
    def change(subtask, handle):
        if subtask != index:
            return handle
        files = {
            part: tuple(DatabaseFile(f.name, stream) if f == file else f for f in getattr(handle, part))
            for part in ("shared", "private")
        }
        return attrs.evolve(handle, **files)

    native_snapshots.with_keyed_handles(case.folder, change)


def swapped(case):
    """Files of one name, of two subtasks, whose sizes go with them."""
    two = case.two()
    if two is None:
        return None
    (one, first), (other, second) = two
    names = {file.name for file in first.files} & {file.name for file in second.files}
    if not names:
        return None
    name = case.chance.choice(sorted(names))
    by_name = [next(file for file in handle.files if file.name == name) for handle in (first, second)]
    replaced(case, one, by_name[0], by_name[1].stream)
    replaced(case, other, by_name[1], by_name[0].stream)
    return f"{name} of two subtasks are swapped"


def exchanged(case, parts=("shared", "private")):
    """All files of two subtasks."""
    two = case.two()
    if two is None:
        return None
    (one, first), (other, second) = two
    files = {
        one: {part: getattr(second, part) for part in parts},
        other: {part: getattr(first, part) for part in parts},
    }
    native_snapshots.with_keyed_handles(case.folder, lambda index, h: attrs.evolve(h, **files.get(index, {})))
    return f"{' and '.join(parts)} files of two subtasks are exchanged"


def of_another(case):
    """A file of another snapshot in place of one of its kind, with its size."""
    index, handle = case.subtask()
    file = case.chance.choice(handle.files)
    kind = file.name[:2] if not file.name.endswith(".sst") else ".sst"
    place = native_snapshots.snapshot(OTHERS[case.name])
    candidates = [
        other
        for handle in native_snapshots.keyed_handles(place).values()
        for other in handle.files
        if (other.name.endswith(".sst") if kind == ".sst" else other.name.startswith(kind))
    ]
    other = case.chance.choice([one for one in candidates if one.name == file.name] or candidates)
    data = native_snapshots.content_of(other.stream, place)
    (case.folder / "of-another").write_bytes(data)
    replaced(case, index, file, RelativeFileHandle("of-another", len(data)))
    return f"{file.name} is {other.name} of another snapshot"


def left_out(case):
    index, handle = case.subtask()
    file = case.chance.choice(handle.files)

    def change(subtask, handle):
        if subtask != index:
            return handle
        parts = {part: tuple(f for f in getattr(handle, part) if f != file) for part in ("shared", "private")}
        return attrs.evolve(handle, **parts)

    native_snapshots.with_keyed_handles(case.folder, change)
    return f"{file.name} is not listed"


def renamed(case):
    """Two tables with each other's names."""
    index, handle = case.subtask()
    one, other = case.chance.sample(handle.shared, 2)
    names = {one.name: other.name, other.name: one.name}

    def change(subtask, handle):
        if subtask != index:
            return handle
        return attrs.evolve(
            handle, shared=tuple(DatabaseFile(names.get(f.name, f.name), f.stream) for f in handle.shared)
        )

    native_snapshots.with_keyed_handles(case.folder, change)
    return f"{one.name} and {other.name} have each other's names"


def rewritten_options(case):
    """A line of OPTIONS changed as a person could, or lost."""
    index, handle = case.subtask()
    file = next(file for file in handle.private if file.name.startswith("OPTIONS-"))
    lines = native_snapshots.content_of(file.stream, case.folder).decode().splitlines()
    at = case.chance.choice([at for at, line in enumerate(lines) if line.strip()])
    if case.chance.random() < 0.5:
        wanted = case.chance.choice(["merge_operator=", "comparator=", "num_levels=", "[CFOptions", "rocksdb_version="])
        at = case.chance.choice([at for at, line in enumerate(lines) if line.strip().startswith(wanted)])
    was = lines[at]
    lines[at] = case.chance.choice(["", was.replace(",", ";"), was.replace("=", "=x"), was + "x", was[: len(was) // 2]])
    data = "\n".join(lines).encode()
    (case.folder / "options").write_bytes(data)
    replaced(case, index, file, RelativeFileHandle("options", len(data)))
    return f"{was.strip()!r} is {lines[at].strip()!r}"


DAMAGES = {
    "table": lambda case: flipped(case, ".sst"),
    "manifest": lambda case: flipped(case, "MANIFEST-"),
    "current": lambda case: flipped(case, "CURRENT"),
    "options": lambda case: flipped(case, "OPTIONS-"),
    "header": flipped_header,
    "name": flipped_name,
    "blotted": blotted,
    "zeroed": zeroed,
    "missing": missing,
    "cut": lambda case: resized(case, "cut"),
    "longer": lambda case: resized(case, "longer"),
    "frames cut": frames_cut,
    "cut off": resized_alone,
    "swapped": swapped,
    "exchanged": exchanged,
    "tables exchanged": lambda case: exchanged(case, ("shared",)),
    "private exchanged": lambda case: exchanged(case, ("private",)),
    "of another": of_another,
    "left out": left_out,
    "renamed": renamed,
    "rewritten options": rewritten_options,
}


def tree(folder):
    """All files below a folder, with their times and content."""
    paths = (Path(place, name) for place, folders, names in os.walk(folder) for name in (*folders, *names))
    return {
        path.relative_to(folder).as_posix(): (path.stat().st_mtime_ns, path.read_bytes() if path.is_file() else b"")
        for path in paths
    }


def ran(*words):
    """Run a command; give the status, what it printed, and what was said."""
    out, told = io.StringIO(), io.StringIO()
    try:
        with redirect_stdout(out), redirect_stderr(told):
            main(list(map(str, words)))
    except SystemExit as ended:
        return ended.code, out, told.getvalue()


def migrated(folder, target, options):
    """Migrate a snapshot, verify that, and export it; give the same, with the status of the first that is not 0."""
    status, _, told = ran("migrate", folder, target, *options)
    if status:
        return status, {}, told
    status, out, told = ran("verify", target)
    return (status, {}, told + out.getvalue()) if status else exported(target)


CHANGES = [("--drop", "counts"), ("--parallelism", "4"), ("--rename-state", "count=numbers"), ("--format", "canonical")]
"""Most is kept; all is rewritten; all is kept; all is rewritten in the other format."""


def exported(folder):
    """Export a snapshot; give the status, the states by operator and name, and what was said."""
    status, out, told = ran("export", folder, "--format", "tagged")
    states = {}
    if status in {0, 7} and out.getvalue():
        for operator in json.loads(out.getvalue())["operators"]:
            for room in ("keyed", "operator", "timers", "broadcast"):
                for name, state in operator.get(room, {}).items():
                    states[f"{operator['operator_id']} {room} {name}"] = state
    return status, states, told


def outcome(name, seed, scratch, sound, options=None):
    chance = random.Random(seed)  # noqa: S311 - no secret
    kinds = list(DAMAGES)
    target = scratch / str(seed)
    case = Case(name, native_snapshots.copied(name, target), chance)
    kind = kinds[seed % len(kinds)]
    what = DAMAGES[kind](case)
    while what is None:
        kind = chance.choice(kinds)
        what = DAMAGES[kind](case)
    before = tree(target)
    made = scratch / f"{seed}-made"
    status, states, told = exported(case.folder) if options is None else migrated(case.folder, made, options)
    intact = before == tree(target)
    shutil.rmtree(target)
    shutil.rmtree(made, ignore_errors=True)
    changed = [state for state in states if states[state] != sound.get(state)]
    if status == 0:
        changed += sorted(sound.keys() - states.keys())
    return {"seed": seed, "kind": kind, "what": what, "status": status, "changed": changed, "intact": intact,
            "told": told}  # fmt: skip


def run(name, scratch, seeds, *, migrates):
    place = native_snapshots.snapshot(name)
    sound = {None: exported(place)[1]}
    for seed in seeds:
        options = CHANGES[seed // len(DAMAGES) % len(CHANGES)] if migrates else None
        if options not in sound:
            _, sound[options], _ = migrated(place, scratch / f"sound-{len(sound)}", options)
        print(json.dumps({"seed": seed}), flush=True)
        print(json.dumps(outcome(name, seed, scratch, sound[options], options)), flush=True)


if __name__ == "__main__":
    migrates, (of, place, *numbers) = sys.argv[1] == "--migrated", [one for one in sys.argv[1:] if one != "--migrated"]
    run(of, Path(place), list(map(int, numbers)), migrates=migrates)
