"""The law of bad input, watched: an input ends in time, takes little memory, and lets out only `StateShiftError`."""

from __future__ import annotations

import hashlib
import json
import resource
import signal
import traceback
import tracemalloc
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from stateshift import StateShiftError

if TYPE_CHECKING:
    from targets import Target

CPU_SECONDS = 10.0  # ten to a hundred times what the slowest fixture takes under a fuzzer
MEMORY_TIMES, MEMORY_BYTES = 64, 4 << 20
MEMORY_ONE_IN = 50
_ADDRESS_SPACE_BYTES = 1 << 30


class TookTooLong(BaseException):
    """An input needed more processor time than any should; no clause for errors may catch it."""


class TookTooMuch(AssertionError):
    """An input needed more memory than a small multiple of its size."""


class Watch:
    """Runs inputs of a target, and keeps what breaks the law: the smallest input of each kind.

    Args:
        target: What is fuzzed.
        folder: Where findings and the report go.
    """

    def __init__(self, target: Target, folder: Path) -> None:
        self.target = target
        self.folder = folder
        self.executions = 0
        self.findings: dict[str, dict[str, object]] = {}
        root = Path(__file__).parents[2]
        self._places = tuple(f"{root / part}/" for part in ("serializers", "compat", "state", "tests"))
        folder.mkdir(parents=True, exist_ok=True)
        signal.signal(signal.SIGVTALRM, _too_long)

    def run(self, data: bytes) -> None:
        """Run one input."""
        self.executions += 1
        try:
            signal.setitimer(signal.ITIMER_VIRTUAL, CPU_SECONDS)
            try:
                if self.executions % MEMORY_ONE_IN:
                    self.target.run(data)
                else:
                    self._run_measured(data)
            finally:
                signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        except StateShiftError:
            pass
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # noqa: BLE001 - whatever else comes out is what is looked for
            self._keep(data, error)
        if self.executions % MEMORY_ONE_IN == 0:  # by count: by the clock, how much a report holds is chance
            self.report()

    def _run_measured(self, data: bytes) -> None:
        tracemalloc.start()
        try:
            self.target.run(data)
        finally:
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            if peak > MEMORY_TIMES * len(data) + MEMORY_BYTES:
                raise TookTooMuch(f"{peak} bytes for an input of {len(data)}")

    def _keep(self, data: bytes, error: BaseException) -> None:
        frames = traceback.extract_tb(error.__traceback__)
        ours = [frame for frame in frames if frame.filename.startswith(self._places)] or frames
        place = f"{type(error).__name__} at {Path(ours[-1].filename).name}:{ours[-1].lineno}"
        known = self.findings.get(place)
        if known is not None and len(data) >= known["size"]:
            return
        name = f"{self.target.name}-{hashlib.sha256(place.encode()).hexdigest()[:8]}"
        (self.folder / name).write_bytes(data)
        text = "".join(traceback.format_exception(error))
        (self.folder / f"{name}.txt").write_text(text, encoding="utf-8", errors="replace")
        self.findings[place] = {"error": str(error)[:300], "size": len(data), "file": str(self.folder / name)}
        self.report()

    def report(self) -> None:
        """Write down how far the run is."""
        facts = {"target": self.target.name, "executions": self.executions, "findings": self.findings}
        (self.folder / "report.json").write_text(json.dumps(facts, default=repr), encoding="utf-8")


def limit_memory() -> None:
    """Let an allocation past any sensible size fail with `MemoryError` from here on."""
    used = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + _ADDRESS_SPACE_BYTES, resource.RLIM_INFINITY))


def _too_long(*_: object) -> NoReturn:
    raise TookTooLong(f"more than {CPU_SECONDS} seconds of processor time")
