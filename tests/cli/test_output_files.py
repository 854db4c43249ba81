"""Files that commands leave with `-o`: what they replace, and what they never touch."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

SOURCE = "rocksdb-account-v1"
WRITERS = {
    "export": ["export", "SP"],
    "export, tagged": ["export", "SP", "--format", "tagged"],
    "plan": ["plan", "SP", "--job", "accounts_v3:job", "--no-count"],
    "snapshot": ["snapshot", "SP"],
    "snapshot of a job": ["snapshot", "--job", "accounts_v3:job"],
    "init": ["init", "SP"],
}
RERUN = [name for name in WRITERS if name != "init"]
MINE = '{"format": "mine", "version": 1}\n'


@pytest.fixture
def write(run, savepoint_of, example_jobs):
    """`write("plan", file)`: run a command with `-o FILE`, in the folder of the example jobs."""

    def start(name, file, *more, source=None):
        place = str(source or savepoint_of(SOURCE))
        return run(*(place if word == "SP" else word for word in WRITERS[name]), "-o", file, *more)

    assert example_jobs == Path.cwd()
    return start


def contents(folder):
    """Every file and link below a folder, and what is in it."""
    return {
        path.relative_to(folder): path.readlink() if path.is_symlink() else path.read_bytes()
        for path in folder.rglob("*")
        if not path.is_dir()
    }


class TestFilesThatAreThere:
    """An earlier output gives way, and nothing else does."""

    @pytest.mark.parametrize("name", RERUN)
    def test_an_earlier_output_of_the_same_command_is_replaced(self, write, tmp_path, name):
        file = tmp_path / "out"
        first = write(name, file)
        earlier = file.read_bytes()
        with file.open("a") as stream:
            stream.write("" if name.startswith("export") else "\n")

        again = write(name, file)

        assert (0, 0, earlier) == (first.status, again.status, file.read_bytes())

    @pytest.mark.parametrize("name", WRITERS)
    @pytest.mark.parametrize("content", ["mine\n", MINE, "[1]\n", '{"operator": "mine"}\n', "\0\xff"])
    def test_any_other_file_stays_but_for_force(self, write, tmp_path, name, content):
        file = tmp_path / "out"
        file.write_text(content, encoding="latin-1")

        refused = write(name, file)
        kept = file.read_text(encoding="latin-1")
        forced = write(name, file, "--force")

        assert (2, content) == (refused.status, kept)
        assert "out already exists" in refused.stderr
        assert "--force" in refused.stderr
        assert "Nothing was written." in refused.stderr
        assert 0 == forced.status
        assert content != file.read_text(encoding="latin-1")

    @pytest.mark.parametrize("name", WRITERS)
    def test_the_output_of_another_command_stays(self, write, tmp_path, name):
        others = [other for other in WRITERS if other.split()[0].rstrip(",") != name.split()[0].rstrip(",")]
        for other in others:
            file = tmp_path / other.replace(" ", "-")
            assert 0 == write(other, file).status
            before = file.read_bytes()

            assert (2, before) == (write(name, file).status, file.read_bytes())

    @pytest.mark.parametrize("name", ["export", "export, tagged"])
    def test_an_export_with_a_line_of_its_owner_stays(self, write, tmp_path, name):
        file = tmp_path / "out"
        write(name, file)
        file.write_text(file.read_text(encoding="utf-8") + "# looked at on Monday\n", encoding="utf-8")

        assert 2 == write(name, file).status
        assert file.read_text(encoding="utf-8").endswith("# looked at on Monday\n")

    def test_a_plan_and_a_snapshot_of_another_release_are_replaced(self, write, tmp_path):
        for name in ("plan", "snapshot"):
            file = tmp_path / name
            write(name, file)
            data = json.loads(file.read_text(encoding="utf-8"))
            file.write_text(json.dumps(data | {"version": 7}), encoding="utf-8")

            assert 0 == write(name, file).status

    def test_a_file_cut_short_is_not_recognised(self, write, tmp_path):
        file = tmp_path / "plan.json"
        write("plan", file)
        file.write_bytes(file.read_bytes()[:-20])

        assert 2 == write("plan", file).status

    @pytest.mark.parametrize("name", WRITERS)
    def test_an_empty_file_is_replaced_and_keeps_its_permissions(self, write, tmp_path, name):
        """As `mktemp` makes one."""
        file = tmp_path / "out"
        file.touch(mode=0o600)

        assert 0 == write(name, file).status
        assert 0o600 == file.stat().st_mode & 0o777

    def test_a_file_that_is_refused_costs_no_work(self, write, tmp_path):
        """The savepoint is not even opened."""
        (tmp_path / "out").write_text("mine\n")

        assert "out already exists" in write("export", tmp_path / "out", source=tmp_path / "lost").stderr

    def test_a_link_stays_and_its_target_is_replaced(self, write, tmp_path):
        (tmp_path / "real").mkdir()
        (tmp_path / "link.json").symlink_to("real/plan.json")

        for _ in range(2):
            assert 0 == write("plan", tmp_path / "link.json").status
        assert Path("real/plan.json") == (tmp_path / "link.json").readlink()
        assert "stateshift plan" == json.loads((tmp_path / "real" / "plan.json").read_text("utf-8"))["format"]

    def test_links_that_form_a_loop_are_wrong_usage(self, write, tmp_path):
        (tmp_path / "one").symlink_to("other")
        (tmp_path / "other").symlink_to("one")

        assert 2 == write("plan", tmp_path / "one").status

    @pytest.mark.parametrize("name", WRITERS)
    def test_a_folder_is_wrong_usage(self, write, tmp_path, name):
        (tmp_path / "folder").mkdir()
        for more in ((), ("--force",)):
            assert 2 == write(name, tmp_path / "folder", *more).status
        assert (tmp_path / "folder").is_dir()


def spellings(folder, name, elsewhere):
    """Names of one file in a folder."""
    (elsewhere / "to-folder").symlink_to(folder)
    (elsewhere / "to-file").symlink_to(folder / name)
    (elsewhere / "to-link").symlink_to("to-file")
    (elsewhere / "below").symlink_to(folder / "inner" if (folder / "inner").is_dir() else folder)
    yield folder / name
    yield os.path.relpath(folder / name)
    yield f"{folder.parent}//./{folder.name}/../{folder.name}/{name}"
    yield elsewhere / "to-folder" / name
    yield elsewhere / "to-file"
    yield elsewhere / "to-link"
    yield f"/proc/self/root{folder / name}"
    yield f"{elsewhere}/below/../{name}" if (folder / "inner").is_dir() else folder / name


class TestPlacesOfState:
    """No `-o` writes there, whatever it is called and whatever is forced."""

    @pytest.mark.parametrize("name", WRITERS)
    @pytest.mark.parametrize("inside", ["_metadata", "new.json", "inner/new.json"])
    def test_nothing_in_a_savepoint_is_replaced_or_added(self, write, savepoint_copy, tmp_path, name, inside):
        source = savepoint_copy(SOURCE)
        (source / "inner").mkdir()
        before = contents(source)
        for place in spellings(source, inside, tmp_path):
            for more in ((), ("--force",)):
                ran = write(name, place, *more, source=source)

                assert (2, before) == (ran.status, contents(source)), place
                assert "which holds state" in ran.stderr

    @pytest.mark.parametrize(
        "held",
        [
            "_stateshift.json",
            "_claim-0123456789ab",
            "0123456789abcdef0123456789abcdef-keyed-0.done",
            "../chk-3/_metadata",
        ],
    )
    def test_nor_in_the_folder_of_a_run_or_of_checkpoints(self, write, tmp_path, held):
        folder = tmp_path / "shared"
        folder.mkdir()
        (tmp_path / "chk-3").mkdir()
        (folder / held).write_text(MINE)
        (folder / "state").touch()
        before = contents(tmp_path)
        for name in WRITERS:
            for file in ("state", "new"):
                assert 2 == write(name, folder / file, "--force").status
        assert before == contents(tmp_path)

    def test_a_link_out_of_a_savepoint_is_part_of_it(self, write, savepoint_copy, tmp_path):
        source = savepoint_copy(SOURCE)
        (source / "_metadata").rename(tmp_path / "moved")
        (source / "_metadata").symlink_to(tmp_path / "moved")
        (source / "folder").symlink_to(tmp_path)
        before = (tmp_path / "moved").read_bytes()

        for place in (source / "_metadata", source / "folder" / "moved"):
            assert 2 == write("plan", place, "--force", source=source).status
        assert before == (tmp_path / "moved").read_bytes()

    def test_next_to_a_savepoint_is_not_in_it(self, write, savepoint_copy):
        source = savepoint_copy(SOURCE)

        assert 0 == write("plan", f"{source}/../plan.json").status
        assert (source.parent / "plan.json").is_file()

    def test_a_history_is_not_kept_there_either(self, run, savepoint_copy, example_jobs):
        source = savepoint_copy(SOURCE)
        before = contents(source)

        ran = run("snapshot", "--job", "accounts_v3:job", "-m", "first", "--history", source / "history")

        assert (2, before, False) == (ran.status, contents(source), (source / "history").exists())
        assert example_jobs


class TestStreams:
    """What is not a file is written to as it is."""

    @pytest.mark.parametrize("name", WRITERS)
    @pytest.mark.parametrize("place", ["-", "/dev/stdout"])
    def test_stdout_gets_what_the_file_would_have(self, write, tmp_path, name, place):
        expected = write(name, tmp_path / "out")

        ran = write(name, place)

        assert (0, 0, (tmp_path / "out").read_text(encoding="utf-8")) == (expected.status, ran.status, ran.stdout)
        assert not Path("-").exists()

    def test_stdout_that_is_a_file_is_written_once(self, savepoint_of, tmp_path):
        with (tmp_path / "out").open("w") as out:
            subprocess.run(
                [sys.executable, "-m", "stateshift", "snapshot", savepoint_of(SOURCE), "-o", "/dev/stdout"],
                stdout=out,
                check=True,
            )

        assert "stateshift snapshot" == json.loads((tmp_path / "out").read_text(encoding="utf-8"))["format"]

    @pytest.mark.parametrize("name", WRITERS)
    def test_dev_null_stays_what_it_is(self, write, name):
        ran = write(name, "/dev/null")

        assert (0, True) == (ran.status, Path("/dev/null").is_char_device())

    @pytest.mark.parametrize("name", WRITERS)
    def test_a_pipe_gets_the_text(self, write, tmp_path, name):
        write(name, tmp_path / "out")
        os.mkfifo(tmp_path / "pipe")
        got = []
        reader = threading.Thread(target=lambda: got.append((tmp_path / "pipe").read_text(encoding="utf-8")))
        reader.start()

        ran = write(name, tmp_path / "pipe")

        reader.join()
        assert (0, [(tmp_path / "out").read_text(encoding="utf-8")]) == (ran.status, got)
        assert (tmp_path / "pipe").is_fifo()

    @pytest.mark.skipif(not Path("/dev/full").is_char_device(), reason="this system has no /dev/full")
    def test_a_full_disk_is_reported(self, write):
        ran = write("snapshot", "/dev/full")

        assert 6 == ran.status
        assert "/dev/full cannot be written: No space left on device" in ran.stderr
        assert "Traceback" not in ran.stderr
