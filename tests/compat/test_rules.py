"""The rule book against the code that cites it, the tests that name it, and the page that shows it.

STATESHIFT_RECORD=1 writes the page.
"""

from __future__ import annotations

import ast
import os
import re

import pytest

from stateshift import Flag
from stateshift.compat.rules import Rule, flag_book, rule_book

BEGIN, END = "<!-- rules: made by tests/compat/test_rules.py -->\n", "<!-- end of rules -->\n"
HOUSES = ("serializers", "compat", "state", "spark", "pyflink", "cli")
IDENTIFIER = re.compile(r"\b([A-Z]+)-(\d+)\b")
RANGE = re.compile(r"\b([A-Z]+)-(\d+) to (?:\1-)?(\d+)\b")
NO_RULES = {"UTF-8", "UTF-16", "CRC-32", "CRC-64", "SHA-256"}

# Decisions that no finding cites, by the reason why none does.
NO_FINDING = {
    "nothing differs, so that there is nothing to tell": "PRIM-1 DEC-1 OPT-4 ENUM-1 MAP-1 REC-1 REC-9 REC-12 SPK-1"
    " ROLE-1",
    "the findings are those of the parts, under their own rules": "MAP-2 TUP-2 TUP-4 REC-8 REC-13 ROLE-3 STATE-6",
    "made of other rules, which are cited: REC-4 with REC-2 or REC-3": "REC-7",
    "only Avro's decimals have bounds, and AV-8 names the rule in its reason": "DEC-2 DEC-4 DEC-5",
}


def named_in(text):
    """Identifiers in a text, those within `V-1 to V-6` too."""
    found = {f"{family}-{number}" for family, number in IDENTIFIER.findall(text)}
    for family, first, last in RANGE.findall(text):
        found |= {f"{family}-{number}" for number in range(int(first), int(last) + 1)}
    return found - NO_RULES


def spoken_in(text):
    """Identifiers in a test, also in its name (`…_role_1_and_3`); a range says nothing of the rules within."""
    text = RANGE.sub("", text)
    found = named_in(text)
    for name in re.findall(r"def test(_\w+)", text):
        for family, numbers in re.findall(r"_([a-z]+)((?:_(?:and_)?\d+)+)", name):
            found |= {f"{family.upper()}-{number}" for number in re.findall(r"\d+", numbers)}
    return found


@pytest.fixture(scope="module")
def sources(root):
    return {
        path.relative_to(root): path.read_text("utf-8") for house in HOUSES for path in (root / house).rglob("*.py")
    }


@pytest.fixture(scope="module")
def cited(sources):
    """What findings and errors cite: strings that are an identifier and nothing else."""
    return {
        node.value
        for text in sources.values()
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and IDENTIFIER.fullmatch(node.value)
    } - NO_RULES


@pytest.fixture(scope="module")
def spoken(root):
    """What tests name, without what only the docstring of their file says."""
    here = root / "tests" / "compat" / "test_rules.py"
    texts = (path.read_text("utf-8") for path in (root / "tests").rglob("test_*.py") if path != here)
    return set().union(
        *(spoken_in(text.replace(ast.get_docstring(ast.parse(text), clean=False) or "", "")) for text in texts)
    )


def test_what_the_code_cites_is_in_the_book(cited):
    assert set() == cited - set(rule_book())


def test_what_docstrings_and_comments_name_is_in_the_book(sources):
    families = {identifier.partition("-")[0] for identifier in rule_book()}
    named = {
        (str(path), identifier)
        for path, text in sources.items()
        for identifier in named_in(text) - set(rule_book())
        if identifier.partition("-")[0] in families
    }

    assert set() == named


def test_every_decision_of_the_book_is_cited_by_the_code_or_has_a_reason_not_to_be(cited):
    decisions = {identifier for identifier, rule in rule_book().items() if not rule.holds}

    assert set(" ".join(NO_FINDING.values()).split()) == decisions - cited


def test_every_law_of_the_book_is_named_where_the_code_keeps_it(sources):
    laws = {identifier for identifier, rule in rule_book().items() if rule.holds}
    named = set().union(*map(named_in, sources.values()))

    assert set() == laws - named


def test_every_rule_is_named_by_a_test(spoken):
    assert set() == set(rule_book()) - spoken


def test_a_rule_is_either_a_decision_or_a_law():
    odd = [
        rule.identifier
        for rule in rule_book().values()
        if not rule.why or bool(rule.holds) == bool(rule.change) or bool(rule.change) != bool(rule.verdict)
    ]

    assert [] == odd


def test_every_flag_is_reported_and_named_by_a_rule():
    assert list(map(str, Flag)) == list(flag_book())
    assert [] == [flag.name for flag in flag_book().values() if not flag.rules]


def test_identifiers_are_found_in_texts_and_in_names():
    text = 'def test_a_key_role_1_role_3(): """REC-1 to REC-4, and READ-2."""\ndef test_rec_5_and_12_order(): ...'

    assert {"ROLE-1", "ROLE-3", "READ-2", "REC-5", "REC-12"} == spoken_in(text)
    assert {"V-1", "V-2", "V-3"} == named_in("rules V-1 to V-3, in UTF-8")


def cells(rule: Rule):
    """The row of a rule."""
    release = f"<br>**In this release:** {rule.release}" if rule.release else ""
    if rule.holds:
        return [rule.identifier, rule.holds + release, rule.why]
    return [rule.identifier, rule.change, rule.verdict + release, rule.conversion, rule.why]


def table(head, rows):
    lines = [head, ["---"] * len(head), *rows]
    escaped = ([cell.replace("|", "\\|") for cell in line] for line in lines)
    return "".join(f"| {' | '.join(line)} |\n".replace("|  |", "| |") for line in escaped)


def page_of(rules):
    """The flags; then one part a section: its decisions, then its laws."""
    flags = [[f"`{flag.name}`", flag.means, ", ".join(flag.rules)] for flag in flag_book().values()]
    parts = ["## Flags\n", table(["flag", "what it says", "rules"], flags)]
    for section in dict.fromkeys(rule.section for rule in rules):
        parts.append(f"## {section}\n")
        inside = [rule for rule in rules if rule.section == section]
        decisions = [cells(rule) for rule in inside if not rule.holds]
        laws = [cells(rule) for rule in inside if rule.holds]
        if decisions:
            parts.append(table(["rule", "change", "verdict", "what a migration does", "why"], decisions))
        if laws:
            parts.append(table(["rule", "what holds", "why"], laws))
    return "\n" + "\n".join(parts) + "\n"


def test_the_page_shows_the_book(root):
    page = root / "docs" / "reference" / "rules.md"
    before, _, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    expected = before + BEGIN + page_of(list(rule_book().values())) + END + after
    if os.environ.get("STATESHIFT_RECORD"):
        page.write_text(expected, encoding="utf-8")

    assert expected == page.read_text(encoding="utf-8")
