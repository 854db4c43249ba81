"""The pytest plugin: `--stateshift-record`, and detailed assertion messages for the harness.

pytest loads it in every run where stateshift is installed; nothing heavy is imported before a test needs it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from .upgrade import UpgradeCase

for _module in ("contract", "migrating", "upgrade", "values"):
    pytest.register_assert_rewrite(f"{__package__}.{_module}")

_RECORDED: pytest.StashKey[list[Path]] = pytest.StashKey()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Register the option."""
    parser.getgroup("stateshift").addoption(
        "--stateshift-record",
        action="store_true",
        help="write golden files of the current release for the collected upgrade cases; older ones are kept",
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Write the golden files of the collected tests, each case once."""
    if not config.getoption("--stateshift-record"):
        return
    from .upgrade import UpgradeCase

    cases: dict[type[UpgradeCase], None] = {}
    for item in items:
        cls = getattr(item, "cls", None)
        if isinstance(cls, type) and issubclass(cls, UpgradeCase):
            cases[cls] = None
    config.stash[_RECORDED] = [file for case in cases if (file := case.record()) is not None]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """List the golden files that were written."""
    if not config.getoption("--stateshift-record"):
        return
    written = config.stash.get(_RECORDED, [])
    terminalreporter.section("stateshift: golden files")
    for file in written:
        terminalreporter.line(f"written: {file}")
    if not written:
        terminalreporter.line("none written: all exist with the same bytes")
