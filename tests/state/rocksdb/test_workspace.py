"""Folders for the files of databases: filled once, used by several processes at a time, and deleted afterwards."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from types import SimpleNamespace

import pytest

from stateshift import NoSpaceLeft, StorageFailed
from stateshift.state.rocksdb.workspace import LiveFolder, release, release_all, shared_folder

USE = """
import sys
from stateshift.state.rocksdb.workspace import shared_folder
def fill(folder):
    print("fills", flush=True)
    (folder / "file").write_text("content")
for line in sys.stdin:
    with shared_folder(line.strip(), 7, fill) as folder:
        text = (folder / "file").read_text()
    print(text, flush=True)
"""


@pytest.fixture(autouse=True)
def scratch(tmp_path, monkeypatch):
    """The folder for temporary files."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    release_all()
    yield tmp_path
    release_all()


@pytest.fixture
def start():
    """`start()`: another process, which uses each folder whose key it is given as a line."""
    started = []

    def process():
        started.append(
            subprocess.Popen([sys.executable, "-c", USE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        )
        return started[-1]

    yield process
    for one in started:
        one.kill()
        one.communicate(timeout=60)


def ask(process, key):
    """Let a process use a folder; give the first line that it prints."""
    process.stdin.write(f"{key}\n")
    process.stdin.flush()
    return process.stdout.readline().strip()


def put(folder):
    (folder / "file").write_text("content")


def folders(scratch):
    return sorted(path.name for path in (scratch / f"stateshift-rocksdb-{os.getuid()}").iterdir())


def test_a_folder_is_filled_once(scratch):
    filled = []
    for _ in range(3):
        with shared_folder("one", 7, lambda folder: (filled.append(folder), put(folder))) as folder:
            assert "content" == (folder / "file").read_text()

    assert 1 == len(filled)
    assert ["one", "one.lock"] == folders(scratch)
    release_all()
    assert [] == folders(scratch)


def test_threads_wait_for_the_one_that_fills():
    filled, read, begun = [], [], threading.Barrier(4)

    def fill(folder):
        filled.append(folder)
        put(folder)

    def use():
        begun.wait(30)
        with shared_folder("one", 7, fill) as folder:
            read.append((folder / "file").read_text())

    threads = [threading.Thread(target=use) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)

    assert (1, ["content"] * 4) == (len(filled), read)


def test_processes_use_a_folder_at_the_same_time(start, scratch):
    one, other = start(), start()

    assert "fills" == ask(one, "shared")
    assert "content" == one.stdout.readline().strip()
    assert "content" == ask(other, "shared")
    with shared_folder("shared", 7, pytest.fail) as folder:
        assert "content" == (folder / "file").read_text()
        one.communicate(timeout=60)  # ends
        assert "content" == ask(other, "shared")
    other.communicate(timeout=60)  # the last that used it deletes it
    assert [] == folders(scratch)


def test_what_a_killed_process_leaves_is_deleted_later(start, scratch):
    killed = start()
    assert "fills" == ask(killed, "left")
    assert "content" == killed.stdout.readline().strip()
    killed.kill()
    killed.wait(60)
    assert ["left", "left.lock"] == folders(scratch)

    with shared_folder("next", 7, put):
        assert ["left", "left.lock", "next", "next.lock"] == folders(scratch)  # it may be another run's
    os.utime(scratch / f"stateshift-rocksdb-{os.getuid()}" / "left" / "complete", (0, time.time() - 601))
    with shared_folder("third", 7, put):
        assert ["next", "next.lock", "third", "third.lock"] == folders(scratch)


def test_a_folder_that_was_not_filled_whole_is_filled_again(scratch):
    def half(folder):
        put(folder)
        raise OSError("away")

    with pytest.raises(OSError, match="away"), shared_folder("one", 7, half):
        pass
    assert [] == folders(scratch)

    with shared_folder("one", 7, put) as folder:
        assert "content" == (folder / "file").read_text()


def test_a_folder_that_is_not_in_use_makes_way_where_the_disk_is_short(scratch, monkeypatch):
    """The one that nobody used for longest goes first, and only as many as are needed."""

    def usage(_):
        names = [name for name in folders(scratch) if "." not in name]
        return SimpleNamespace(free=(64 << 20) + 10 * (4 - len(names)))  # room for four folders of ten bytes

    monkeypatch.setattr(shutil, "disk_usage", usage)
    with shared_folder("in use", 10, put):
        for name in ("one", "two", "three", "four"):
            with shared_folder(name, 10, put):
                pass
        assert {"in use", "three", "four"} <= set(folders(scratch))
        assert "one" not in folders(scratch)


def test_a_run_deletes_what_its_workers_used(start, scratch):
    """Spark kills them, so that they cannot."""
    worker = start()
    assert "fills" == ask(worker, "run")
    assert "content" == worker.stdout.readline().strip()

    release(["run", "another"])
    assert [] == folders(scratch)
    with shared_folder("run", 7, put):
        release(["run"])
        assert ["run", "run.lock"] == folders(scratch)


def test_a_disk_that_is_too_small_is_said_before_anything_is_put_there(scratch):
    with pytest.raises(NoSpaceLeft) as refused, shared_folder("one", 1 << 60, pytest.fail):
        pass

    assert "TMPDIR" in refused.value.advice
    assert f"{1 << 60:,} bytes" in str(refused.value)
    assert [] == folders(scratch)


def test_a_folder_that_others_may_write_to_is_refused(scratch):
    """Whoever can write there could change what is read."""
    base = scratch / f"stateshift-rocksdb-{os.getuid()}"
    base.mkdir()
    base.chmod(0o777)

    with pytest.raises(StorageFailed, match="only this user may write to"), shared_folder("one", 7, pytest.fail):
        pass


def test_a_link_in_place_of_the_folder_is_refused(scratch):
    (scratch / "elsewhere").mkdir()
    (scratch / f"stateshift-rocksdb-{os.getuid()}").symlink_to(scratch / "elsewhere")

    with pytest.raises(StorageFailed), shared_folder("one", 7, pytest.fail):
        pass
    assert [] == list((scratch / "elsewhere").iterdir())


def test_the_folder_of_a_killed_process_is_deleted_by_the_next_one(tmp_path):
    script = (
        "import os, signal, sys; from stateshift.state.rocksdb.workspace import LiveFolder;"
        "(LiveFolder(sys.argv[1]).path / 'data').touch(); os.kill(os.getpid(), signal.SIGKILL)"
    )
    living = LiveFolder(str(tmp_path))
    subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=False)
    assert 2 == len(list(tmp_path.iterdir()))
    other = LiveFolder(str(tmp_path))

    assert {living.path, other.path} == set(tmp_path.iterdir())
    living.delete()
    other.delete()
    assert [] == list(tmp_path.iterdir())
