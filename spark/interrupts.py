"""Ctrl-C, kept while Spark is called: an interrupt in the midst of a call to the JVM breaks the connection.

PySpark's own handler calls the JVM from within, to cancel all jobs of the session; where that meets another call of the
same thread, both fail, no job is cancelled, and stack traces are printed.
"""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


class Interrupts:
    """Keeps the first Ctrl-C until it is asked for; a second one is not kept.

    Args:
        are_ignored: Whether this process was started to ignore them, as those in the background of a script are.
    """

    def __init__(self, *, are_ignored: bool = False) -> None:
        self._are_ignored = are_ignored
        self._has_come = False

    def __call__(self, *_: object) -> None:
        """Take an interrupt, as a handler of the signal."""
        if self._has_come:
            raise KeyboardInterrupt
        self._has_come = not self._are_ignored

    def check(self) -> None:
        """Raise the interrupt that is kept, if there is one.

        Raises:
            KeyboardInterrupt: There is.
        """
        if self._has_come:
            raise KeyboardInterrupt

    def keep_again(self) -> None:
        """Keep interrupts although a library has just set a handler of its own, which is not set again."""
        if _is_in_main_thread():
            signal.signal(signal.SIGINT, self)


@contextmanager
def interrupts_kept() -> Iterator[Interrupts]:
    """Keep Ctrl-C within a `with` block, or until it is asked for there; within another such block, as that does."""
    if not _is_in_main_thread():  # interrupts come to the main thread alone
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
