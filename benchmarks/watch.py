"""The peak memory of a run, by process. Read from /proc: Linux only.

    driver            the Python that was started
    JVM               the Java that it starts; it takes what it is allowed to before it collects
    daemon            the Python process from which the workers are forked, with what is loaded there for all of them
    worker            the largest Python worker, with all its pages, those that it shares or that are files' too (RSS)
    worker, own       the same without the pages of files, which any process may have and the system may take (RssAnon)
    worker, part      the same with shared pages by their part (PSS)
    workers, shared   all workers and the daemon, each page counted once (PSS)

Peaks of the first four are the kernel's own (VmHWM), so none is missed between two looks; the others are of the looks.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from pathlib import Path
from typing import Self

LOOK_S = 0.05
ROLES = ("driver", "JVM", "daemon", "worker", "worker, own", "worker, part", "workers, shared")


class Watch:
    """Looks at the processes of a session again and again, and keeps the peaks.

    Args:
        leader: Process id of the driver, which leads the session.

    Attributes:
        peaks: Bytes, by role.
    """

    def __init__(self, leader: int) -> None:
        self._leader = leader
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.peaks = dict.fromkeys(ROLES, 0)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.wait(LOOK_S):
            shared = 0
            for process in self._processes():
                with suppress(OSError, KeyError):  # it has just ended
                    shared += self._look(process)
            self.peaks["workers, shared"] = max(self.peaks["workers, shared"], shared)

    def _processes(self) -> list[Path]:
        found = []
        for process in Path("/proc").iterdir():
            if process.name.isdigit():
                with suppress(OSError):
                    fields = (process / "stat").read_text().rpartition(")")[2].split()
                    if int(fields[3]) == self._leader:
                        found.append(process)
        return found

    def _look(self, process: Path) -> int:
        """Keep the peak of a process; give the bytes that a worker or their daemon has, shared pages by their part."""
        what = role_of(process, self._leader)
        if not what:
            return 0
        status = facts_of(process / "status")
        self._keep(what, kilobytes(status["VmHWM"]))
        if what not in {"daemon", "worker"}:
            return 0
        part = kilobytes(facts_of(process / "smaps_rollup")["Pss"])
        if what == "worker":
            self._keep("worker, own", kilobytes(status["RssAnon"]))
            self._keep("worker, part", part)
        return part

    def _keep(self, what: str, size: int) -> None:
        self.peaks[what] = max(self.peaks[what], size)


def role_of(process: Path, leader: int) -> str:
    """Say what a process is: driver, JVM, worker or the daemon they are forked from, or nothing of these.

    By its program and not its name: what the JVM starts has, for a moment, the JVM's memory and another name.
    """
    if int(process.name) == leader:
        return "driver"
    if (process / "exe").readlink().name == "java":
        return "JVM"
    if b"spark.daemon" not in (process / "cmdline").read_bytes():
        return ""
    parent = Path("/proc") / facts_of(process / "status")["PPid"]
    return "daemon" if (parent / "exe").readlink().name == "java" else "worker"


def facts_of(file: Path) -> dict[str, str]:
    """Read lines of `name: value`."""
    return {name: value.strip() for name, _, value in (line.partition(":") for line in file.read_text().splitlines())}


def kilobytes(text: str) -> int:
    """Give the bytes of `1234 kB`."""
    return int(text.removesuffix(" kB")) << 10
