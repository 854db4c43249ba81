"""Who holds a claim: a process, known again by the boot of its kernel, its PID namespace, its number and its start.

Two containers may have one host name, and one number for two processes. So only who shares boot and namespace with a
process can tell from its number whether it runs; for anybody else there is the lease alone (`target_lock`).
"""

from __future__ import annotations

import os
import platform
from contextlib import suppress
from pathlib import Path
from typing import Any

import attrs

_MOST_PID = 1 << 22
_STARTED_FIELD = 19  # of what follows the name in /proc/<pid>/stat, where the first field is the state
_ENDED = {"Z", "X"}  # killed, and not yet waited for by its parent


@attrs.frozen
class Owner:
    """A process, as a claim names it.

    Attributes:
        host: Name of its host, for messages.
        process: Its number in its PID namespace.
        boot: Id of the boot of its kernel; "" where the system does not tell.
        namespace: Of its PIDs; "" where the system does not tell.
        started: When it started, in the kernel's ticks since the boot; "" where the system does not tell.
    """

    host: str = ""
    process: int = 0
    boot: str = ""
    namespace: str = ""
    started: str = ""

    @classmethod
    def here(cls, process: int | None = None) -> Owner:
        """Name this process, or another one that is to be seen from here."""
        boot, namespace, sees = _boot(), _namespace(), _sees_own_processes()
        facts = _facts(str(process or os.getpid())) if boot and namespace and sees else None
        started = facts[0] if facts is not None else ""
        return cls(platform.node(), process or os.getpid(), boot, namespace, started)

    @classmethod
    def of(cls, facts: dict[str, Any]) -> Owner:
        """Read what a claim says; whatever is no such fact says nothing."""
        texts = {name: facts.get(name) for name in ("host", "boot", "namespace", "started")}
        process = facts.get("process")
        number = process if isinstance(process, int) and 0 < process <= _MOST_PID else 0
        return cls(process=number, **{name: text for name, text in texts.items() if isinstance(text, str)})

    def runs(self) -> bool | None:
        """Whether the process runs; None where that cannot be told from here."""
        if not (self.process and self.boot and self.namespace and self.started):
            return None
        if (self.boot, self.namespace) != (_boot(), _namespace()) or not _sees_own_processes():
            return None
        try:
            os.kill(self.process, 0)
        except ProcessLookupError:
            return False
        except OSError:
            pass  # it is somebody else's
        facts = _facts(str(self.process))
        return None if facts is None else facts == (self.started, True)


def _boot() -> str:
    with suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    return ""


def _namespace() -> str:
    with suppress(OSError):
        return str(Path("/proc/self/ns/pid").readlink())
    return ""


def _sees_own_processes() -> bool:
    """Whether /proc is that of this process's namespace: one that was mounted outside has other numbers."""
    with suppress(OSError):
        return str(Path("/proc/self").readlink()) == str(os.getpid())
    return False


def _facts(process: str) -> tuple[str, bool] | None:
    """Tell when a process started, and whether it still runs; None where the system hides that.

    The name of a process, in parentheses, may hold anything, such as spaces and parentheses.
    """
    with suppress(OSError, IndexError):
        text = Path(f"/proc/{process}/stat").read_text(encoding="utf-8", errors="replace")
        fields = text.rpartition(")")[2].split()
        return fields[_STARTED_FIELD], fields[0] not in _ENDED
    return None
