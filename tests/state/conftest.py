"""Tests that ask for `canonical` or `native_heap` run once for each such savepoint that real Flink wrote."""

from __future__ import annotations

from pathlib import Path

FIXTURES = Path(__file__).parents[1] / "fixtures"


def pytest_generate_tests(metafunc):
    for name, native in (("canonical", False), ("native_heap", True)):
        if name in metafunc.fixturenames:
            found = [
                folder
                for folder in sorted(FIXTURES.glob("flink-*/*/savepoint"))
                if ("-native-" in folder.parent.name) == native
            ]
            assert found
            ids = [f"{folder.parents[1].name}/{folder.parent.name}" for folder in found]
            metafunc.parametrize(name, found, ids=ids)
