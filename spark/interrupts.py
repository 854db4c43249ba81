"""Deferred Ctrl-C while Spark is called: an interrupt during a call to the JVM breaks the connection.

PySpark's own handler calls the JVM, to cancel all jobs of the session; if this happens during another call of the same
thread, both fail, no job is cancelled, and stack traces are printed.
"""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


class Interrupts:
    """A signal handler that keeps the first Ctrl-C until `check` is called; a second one is raised at once.

    Args:
        are_ignored: Whether this process was started to ignore interrupts, as background processes of a script are.
    """

    def __init__(self, *, are_ignored: bool = False) -> None:
        self._are_ignored = are_ignored
        self._has_come = False

    def __call__(self, *_: object) -> None:
        """Handle an interrupt signal."""
        if self._has_come:
            raise KeyboardInterrupt
        self._has_come = not self._are_ignored

    def check(self) -> None:
        """Raise the interrupt that was kept, if there is one.

        Raises:
            KeyboardInterrupt: There is one.
        """
        if self._has_come:
            raise KeyboardInterrupt

    def keep_again(self) -> None:
        """Install this handler again, after a library has set a handler of its own."""
        if _is_in_main_thread():
            signal.signal(signal.SIGINT, self)


@contextmanager
def interrupts_kept() -> Iterator[Interrupts]:
    """Keep Ctrl-C until the end of the `with` block, or until `check`; within another such block, use its handler."""
    if not _is_in_main_thread():  # only the main thread receives interrupts
        yield Interrupts()
        return
    before = signal.getsignal(signal.SIGINT)
    if isinstance(before, Interrupts):
        yield before
        return
    kept = Interrupts(are_ignored=before is signal.SIG_IGN)
    signal.signal(signal.SIGINT, kept)
    try:
        yield kept
    finally:
        signal.signal(signal.SIGINT, signal.SIG_DFL if before is None else before)
    kept.check()


def _is_in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()
