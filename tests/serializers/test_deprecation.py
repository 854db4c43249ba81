"""What is deprecated works, warns its users, and is removed as announced."""

from __future__ import annotations

import ast
from inspect import currentframe

import pytest

import stateshift
from stateshift.serializers.stored_names import warn_deprecated

FACTS = {"since": "0.2", "removed_in": "0.4", "use": "new()"}


def take(*, former: int | None = None) -> None:
    if former is not None:
        warn_deprecated("take(former=…)", **FACTS)


def line() -> int:
    return currentframe().f_back.f_lineno


def test_an_argument_can_be_deprecated_by_itself():
    with pytest.warns(DeprecationWarning, match=r"take\(former=…\) is deprecated") as caught:
        _, expected_line = take(former=1), line()
    take()

    (warning,) = caught
    assert (__file__, expected_line) == (warning.filename, warning.lineno)


def numbers(release: str) -> tuple[int, ...]:
    return tuple(map(int, release.split(".")))


def test_nothing_stays_beyond_the_release_that_was_to_remove_it(root):
    over = []
    for folder in ("serializers", "compat", "state", "spark", "pyflink", "cli"):
        for file in (root / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                facts = {word.arg: word.value for word in getattr(node, "keywords", ()) if isinstance(node, ast.Call)}
                removed_in = facts.get("removed_in")
                if isinstance(removed_in, ast.Constant) and numbers(removed_in.value) <= numbers(
                    stateshift.__version__
                ):
                    over.append(f"{file.relative_to(root)}:{node.lineno}")

    assert [] == over
