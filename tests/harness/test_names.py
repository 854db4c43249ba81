"""Every case of the harness is a test under its name, or `cases.toml` says why it is none.

A test is that of a case where its name is the case's and its docstring names the case's id: many names are short,
and would fit other tests as well. `python tests/harness/test_names.py` prints the counts.
"""

from __future__ import annotations

import ast
import functools
import itertools
import re
import tomllib
from collections import defaultdict
from pathlib import Path

import pytest

HERE = Path(__file__).parent
PLACES = (HERE.parent, HERE.parents[1] / "compat" / "testing")


def load_cases():
    """Id -> what the table says of it, with `name`."""
    sections = tomllib.loads((HERE / "cases.toml").read_text(encoding="utf-8"))
    return {
        case: said if isinstance(said, dict) else {"name": said}
        for section in sections.values()
        for case, said in section.items()
    }


CASES = load_cases()


@functools.cache  # not a constant: each process of a run imports this module, and one of them needs the tests
def collect_tests():
    """Name of a test, without `test_` -> ids that the docstrings of tests of this name mention."""
    found = defaultdict(set)
    for path in sorted(itertools.chain.from_iterable(place.rglob("*.py") for place in PLACES)):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                found[node.name.removeprefix("test_")].update(
                    re.findall(r"\b[A-K]\d\d\b", ast.get_docstring(node) or "")
                )
    return found


def names_of(pattern):
    """The names that braces stand for: `a_{b,c}` -> `a_b`, `a_c`."""
    parts = re.split(r"\{(.*?)\}", pattern)
    choices = [part.split(",") if index % 2 else [part] for index, part in enumerate(parts)]
    return ["".join(chosen) for chosen in itertools.product(*choices)]


def missing(case, tests):
    """The names of a case that no test has; one parametrised test may have all, under what stands before the braces."""
    pattern = CASES[case]["name"]
    together = pattern.partition("{")[0].rstrip("_")
    return [name for name in names_of(pattern) if not any(case in tests.get(given, ()) for given in (name, together))]


def counts():
    """Lines that say how many cases each section has, and how they stand."""
    for section, ids in itertools.groupby(CASES, key=lambda case: case[0]):
        cases = list(ids)
        tested = sum(not missing(case, collect_tests()) for case in cases)
        reasons = sum("reason" in CASES[case] for case in cases)
        pending = sum("pending" in CASES[case] and bool(missing(case, collect_tests())) for case in cases)
        yield f"{section}: {len(cases)} cases, {tested} tested, {reasons} with a reason, {pending} to be written"


@pytest.mark.parametrize("case", CASES)
def test_each_case_has_a_test_of_its_name_or_a_reason(case):
    lacking, said = missing(case, collect_tests()), CASES[case]

    if "reason" in said:
        assert len(said["reason"]) > 20, "a reason is a sentence"
        assert names_of(said["name"]) == lacking, "what has a test needs no reason"
    elif "pending" not in said:
        assert [] == lacking


def test_cases_are_counted_by_section(capsys):
    lines = list(counts())
    with capsys.disabled():
        print("", *lines, sep="\n")

    assert list("ABCDEFGHIJK") == [line[0] for line in lines]
    assert len(CASES) == sum(int(re.search(r"(\d+) cases", line)[1]) for line in lines)


def test_braces_stand_for_several_names_or_for_one_parametrised_test():
    assert ["add_key_flat", "add_key_nested", "add_value_flat", "add_value_nested"] == names_of(
        "add_{key,value}_{flat,nested}"
    )
    assert [] == missing("H01", {"add_field": {"H01"}})
    assert ["add_field_value_nested"] == missing(
        "H01", {name: {"H01"} for name in ("add_field_key_flat", "add_field_key_nested", "add_field_value_flat")}
    )


def test_a_name_alone_does_not_make_a_test_that_of_a_case():
    assert ["same_fields"] == missing("D04", {"same_fields": {"D01"}})


if __name__ == "__main__":
    print(*counts(), sep="\n")
    print("without a test:", *(case for case in CASES if missing(case, collect_tests())))
