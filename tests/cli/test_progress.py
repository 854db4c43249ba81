"""Progress messages of a run."""

import io

import pytest

from stateshift import Progress
from stateshift.cli import progress as shown
from stateshift.cli.progress import details, show_progress

MIB = 1 << 20


@pytest.mark.parametrize(
    ("progress", "told"),
    [
        (Progress("starting Spark", 0, 1), ""),
        (Progress("encoding", 3, 8), ""),
        (Progress("migrating", 0, 8, bytes_total=80 * MIB), ""),
        (Progress("migrating", 2, 8, 1_200_000, 20 * MIB, 80 * MIB, 10.0),
         "1,200,000 entries, 20.0 MiB of 80.0 MiB, 2.0 MiB/s, 0:30 left"),
        (Progress("streams", 0, 1, 0, 20 * MIB, 80 * MIB, 10.0), "20.0 MiB of 80.0 MiB, 2.0 MiB/s, 0:30 left"),
        (Progress("copying", 1, 8, 0, 10 * MIB, 800 * MIB, 10.0), "10.0 MiB of 800.0 MiB, 1.0 MiB/s, 13:10 left"),
        (Progress("migrating", 8, 8, 1, 80 * MIB, 80 * MIB, 40.0), "1 entry, 80.0 MiB of 80.0 MiB"),
    ],
)  # fmt: skip
def test_entries_bytes_rate_and_time_left_are_reported_as_far_as_they_are_known(progress, told):
    assert details(progress) == told


STEPS = [
    Progress("starting Spark", 0, 1), Progress("starting Spark", 0, 1), Progress("planning", 0, 1),
    Progress("copying", 1, 3), Progress("streams", 0, 1, 0, 5 * MIB, 20 * MIB, 1.0),
]  # fmt: skip


@pytest.mark.parametrize("every_s", [3600.0, 0.0])
def test_a_log_says_at_once_that_spark_starts_and_now_and_then_how_far_it_is(capsys, monkeypatch, every_s):
    monkeypatch.setattr(shown, "_LOG_EVERY_S", every_s)
    with show_progress() as show:
        for step in STEPS:
            show(step)

    now_and_then = ["planning …", "copying: 1 of 3 done", "streams …, 5.0 MiB of 20.0 MiB, 5.0 MiB/s, 0:03 left"]
    assert ["starting Spark …", *([] if every_s else now_and_then)] == capsys.readouterr().err.splitlines()


def test_a_terminal_shows_a_percentage_within_one_stream(monkeypatch):
    class Terminal(io.StringIO):
        encoding = "utf-8"

        def isatty(self):
            return True

    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "150")
    with show_progress() as show:
        for step in STEPS:
            show(step)

    assert " 25%" in terminal.getvalue()
    assert "5.0 MiB of 20.0 MiB" in terminal.getvalue()
