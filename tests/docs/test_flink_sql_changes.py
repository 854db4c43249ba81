"""The page of changes of Flink SQL queries shows what the checks of all tried upgrades say."""

import os

from sql_upgrades import UPGRADES

BEGIN, END = "<!-- changes: made by tests/docs/test_flink_sql_changes.py -->\n", "<!-- end of changes -->\n"
SAID = {
    "start": "start",
    "migrate": "migrate",
    "partial": "partial: refused until `--allow-partial`",
    "refuse": "refuse",
}


def cell(text):
    return "`" + " ".join(text.split()).replace("|", r"\|") + "`"


def rows():
    yield "| row | the query | becomes | stateshift |"
    yield "| --- | --- | --- | --- |"
    for one in UPGRADES:
        old, new = (
            "".join(f"<br>with {cell(f'{name} ({of})')}" for name, of in tables.items())
            for tables in (one.were, one.tables)
        )
        said = f"refuse; migrate with `{one.given}`" if one.given else SAID[one.decision]
        yield f"| {one.row} | {cell(one.old)}{old} | {cell(one.new)}{new} | {said} |"


def test_the_page_shows_all_upgrades(root):
    page = root / "docs" / "reference" / "flink-sql-changes.md"
    before, _, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    expected = before + BEGIN + "\n".join(rows()) + "\n" + END + after
    if os.environ.get("STATESHIFT_RECORD"):
        page.write_text(expected, encoding="utf-8")

    assert expected == page.read_text(encoding="utf-8")
