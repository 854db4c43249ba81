"""The owner of a claim: a process, identified by the boot of its kernel, its PID namespace, its PID and its start time.

Two containers may have the same host name, and two processes the same PID. So only a process with the same boot and
namespace can find out from the PID whether the owner runs; all others have only the lease (`target_lock`).
"""

from __future__ import annotations

import os
import platform
from contextlib import suppress
from pathlib import Path
from typing import Any

import attrs

_MOST_PID = 1 << 22
_STARTED_FIELD = 19  # the index after the name in /proc/<pid>/stat, where the first field is the state
_ENDED = {"Z", "X"}  # ended, and not yet waited for by its parent


@attrs.frozen
class Owner:
    """A process, as it is named in a claim.

    Attributes:
        host: The name of its host, for messages.
        process: The PID in its namespace.
        boot: The id of its kernel's boot; "" where the system does not provide it.
        namespace: Its PID namespace; "" where the system does not provide it.
        started: Its start time in the kernel's ticks since the boot; "" where the system does not provide it.
    """

    host: str = ""
    process: int = 0
    boot: str = ""
    namespace: str = ""
    started: str = ""

    @classmethod
    def here(cls, process: int | None = None) -> Owner:
        """Return the owner for this process, or for another one that is visible from here."""
        boot, namespace, sees = _boot(), _namespace(), _sees_own_processes()
        facts = _facts(str(process or os.getpid())) if boot and namespace and sees else None
        started = facts[0] if facts is not None else ""
        return cls(platform.node(), process or os.getpid(), boot, namespace, started)

    @classmethod
    def of(cls, facts: dict[str, Any]) -> Owner:
        """Return the owner that a claim names; facts of a wrong type are ignored."""
        texts = {name: facts.get(name) for name in ("host", "boot", "namespace", "started")}
        process = facts.get("process")
        number = process if isinstance(process, int) and 0 < process <= _MOST_PID else 0
        return cls(process=number, **{name: text for name, text in texts.items() if isinstance(text, str)})

    def runs(self) -> bool | None:
        """Whether the process runs; None where that cannot be determined from here."""
        if not (self.process and self.boot and self.namespace and self.started):
            return None
        if (self.boot, self.namespace) != (_boot(), _namespace()) or not _sees_own_processes():
            return None
        try:
            os.kill(self.process, 0)
        except ProcessLookupError:
            return False
        except OSError:
            pass  # the process of another user
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
    """Whether /proc belongs to this process's PID namespace; one that was mounted outside has other PIDs."""
    with suppress(OSError):
        return str(Path("/proc/self").readlink()) == str(os.getpid())
    return False


def _facts(process: str) -> tuple[str, bool] | None:
    """Return the start time of a process, and whether it still runs; None where the system hides it.

    The name of a process, in parentheses, may contain any characters, such as spaces and parentheses.
    """
    with suppress(OSError, IndexError):
        text = Path(f"/proc/{process}/stat").read_text(encoding="utf-8", errors="replace")
        fields = text.rpartition(")")[2].split()
        return fields[_STARTED_FIELD], fields[0] not in _ENDED
    return None
