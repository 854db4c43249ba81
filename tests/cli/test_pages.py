"""`--html`: reports to look at, opened in a real browser."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

from stateshift import SavepointWriter

ACCOUNTS = "rocksdb-account-v1"
MARKUP = "</style></title><script>document.title='owned'</script>"
HOSTILE = f"{MARKUP}\u202eevil\x1b[2J\x9b31m\u2066\"'><img src=x onerror=alert(1)>"
SHOWN = f"{MARKUP}\\u202eevil\\x1b[2J\\x9b31m\\u2066\"'><img src=x onerror=alert(1)>"
JOB = """
import attrs
from typing import Annotated
from stateshift import Field, Int32, Job, Operator, ValueStateDescriptor, record

@record(aliases=("before.Order",))
@attrs.frozen
class Order:
    number: Annotated[TYPE, Field(name=NAME)]

job = Job([Operator(NAME, key=int, states=[ValueStateDescriptor(NAME, Order), ValueStateDescriptor(NAME + "2", TYPE)])])
"""


@pytest.fixture
def accounts(run, savepoint_of, example_jobs, tmp_path):
    """The report of a check that migrates."""
    file = tmp_path / "report.html"
    assert example_jobs == Path.cwd()
    ran = run("check", savepoint_of(ACCOUNTS), "--job", "accounts_v3:job", "--html", file)

    assert (ran.status, ran.stderr.splitlines()[-1]) == (4, f"written: {file}")
    return file


@pytest.fixture
def hostile(run, job_folder, tmp_path):
    """The report of a refusal, in which everything has a hostile name."""
    for module, kind in (("before", "Int32"), ("refused", "bool")):
        text = JOB.replace("NAME", ascii(HOSTILE)).replace("TYPE", kind)
        (job_folder / f"{module}.py").write_text(text, encoding="ascii")
    before = runpy.run_path(str(job_folder / "before.py"), run_name="before")
    with SavepointWriter(tmp_path / "savepoint", before["job"]) as writer:
        writer.put(HOSTILE, HOSTILE, 1, before["Order"](1))
    file = tmp_path / "report.html"

    assert run("check", tmp_path / "savepoint", "--job", "refused:job", "--html", file).status == 1
    return file


class TestInABrowser:
    def test_the_verdict_comes_first_then_the_three_worst_findings_then_each_type(self, opened, accounts):
        page = opened(accounts)
        headings = [one.inner_text() for one in page.get_by_role("heading").all()]

        assert headings[0] == "migrate 4 of 7 states must be rewritten before the job can start"
        assert headings[1:3] == ["The worst findings", "Operators and their states"]
        assert page.locator("ol.worst > li").count() == 3
        worst = page.get_by_role("region", name="The worst findings")
        assert "the field is gone; its stored value is dropped" in worst.inner_text()
        verdict = page.locator("header.verdict").inner_text()
        assert "start the old job on what is stored: a migration does not touch it" in verdict
        assert "once the new job has written state: of 7 states, the old job can use 3" in verdict
        assert page.get_by_role("article", name="account-state", exact=True).is_visible()

    def test_a_difference_is_told_by_a_word_and_by_its_rule_and_not_by_a_colour_alone(self, opened, accounts):
        page = opened(accounts)
        state = page.locator("details.subject[open]").first
        rows = [one.inner_text() for one in state.get_by_role("listitem").all()]

        assert any(row.startswith("- gone obsolete string") and "REC-4" in row for row in rows)
        assert any(row.startswith("~ changed visits int → long") and "PRIM-2" in row for row in rows)
        assert any(row.startswith("+ new email") and "REC-2" in row for row in rows)
        assert "2 unchanged: id, name" in rows
        page.get_by_role("link", name="PRIM-2").first.click()
        assert page.locator("#rule-PRIM-2").is_visible()

    def test_the_next_command_is_copied_by_its_button(self, opened, accounts):
        page = opened(accounts)
        page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        page.get_by_role("button", name="Copy").first.click()

        page.get_by_role("button", name="Copied").wait_for()
        assert "NEW_SAVEPOINT --job accounts_v3:job" in page.evaluate("navigator.clipboard.readText()")

    def test_the_tree_is_walked_with_the_keyboard(self, opened, accounts):
        page = opened(accounts)
        fold = page.locator("summary", has_text="2 unchanged: id, name").first
        for _ in range(60):
            page.keyboard.press("Tab")
            if fold.evaluate("one => one === document.activeElement"):
                break
        assert not page.get_by_text("id long").first.is_visible()
        page.keyboard.press("Enter")

        assert page.get_by_text("id long").first.is_visible()

    def test_without_scripts_everything_is_there(self, opened, accounts):
        page = opened(accounts, scripts=False)
        page.locator("summary", has_text="2 unchanged: id, name").first.click()

        assert page.get_by_text("id long").first.is_visible()
        assert page.get_by_role("button").count() == 0

    @pytest.mark.parametrize(("width", "scheme"), [(1100, "light"), (1100, "dark"), (390, "light"), (320, "dark")])
    def test_it_fits_a_window_of_any_width_in_both_schemes(self, opened, accounts, width, scheme):
        page = opened(accounts, width=width, scheme=scheme)
        back, text = page.evaluate(
            "[document.body, document.querySelector('main')].map((one, at) => getComputedStyle(one)[at ? 'color' :"
            " 'backgroundColor'])"
        )

        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert (_light(back) > _light(text)) is (scheme == "light")

    def test_hostile_text_stays_text_and_what_is_invisible_is_shown(self, opened, hostile):
        page = opened(hostile)

        assert "owned" not in page.title() or page.title().startswith("refuse: ")
        assert page.locator("main script, main img").count() == 0
        assert page.locator("h3", has_text=SHOWN).is_visible()
        assert "\u202e" not in page.content()
        assert "\x1b" not in page.content()


class TestOtherCommands:
    """Each has a page of its own, of the same pieces."""

    @pytest.fixture
    def page_of(self, run, savepoint_of, example_jobs, opened, tmp_path):
        def start(command, *arguments, status=0, **window):
            file = tmp_path / f"{command}.html"
            assert example_jobs == Path.cwd()
            assert run(command, savepoint_of(ACCOUNTS), *arguments, "--html", file).status == status
            return opened(file, **window)

        return start

    def test_a_plan_says_what_is_done_with_how_much(self, page_of, tmp_path):
        page = page_of("plan", "--job", "accounts_v3:job", "-o", tmp_path / "plan.json")

        assert (
            page.get_by_role("heading", level=1).inner_text()
            == "migrate of 7 states, 4 converted, the rest copied as bytes"
        )
        assert page.get_by_role(
            "row", name="account-state account-by-name map converted 20 950 yes refuse"
        ).is_visible()
        assert f"--plan {tmp_path}/plan.json" in page.locator("pre.command").first.inner_text()
        assert "start the old job on the source, which is not touched" in page.locator("header.verdict").inner_text()
        assert page.get_by_text("start the old job on the source").count() == 1
        assert "- gone obsolete string" in page.locator("details.subject[open]").first.inner_text()

    def test_a_migration_says_what_was_done_and_how_long_it_took(self, page_of, tmp_path):
        page = page_of("migrate", tmp_path / "after", "--job", "accounts_v3:job", width=390, scheme="dark")

        assert (
            page.get_by_role("heading", level=1)
            .inner_text()
            .startswith("done migrated: 50 entries of 4 states converted")
        )
        assert page.get_by_role("row", name="account-state accounts list converted 10 10 0").is_visible()
        states = page.get_by_role("row", name="account-state").all()
        assert [one.locator("td").nth(1).inner_text() for one in states] == [
            "account", "account-by-name", "accounts", "version-free", "pending"
        ]  # fmt: skip
        assert page.get_by_role("row", name="publishing").is_visible()
        assert page.get_by_text("dropped fields: $.obsolete (10), of account-state/account").is_visible()
        assert page.get_by_text("flink run -s").is_visible()
        assert page.locator("ul.ways").count() == 0
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        assert _lines(page.get_by_role("cell", name="converted").first) == 1

    @pytest.mark.parametrize(("command", "status"), [("check", 4), ("plan", 0)])
    def test_entries_are_shown_before_and_after(self, page_of, command, status):
        page = page_of(command, "--job", "accounts_v3:job", "--key", "113", status=status)
        entry = page.get_by_role("article", name="key 113", exact=True).first

        assert "defaulted $.score 0.0" in entry.inner_text()
        assert "dropped $.obsolete" in entry.inner_text()

    def test_a_dry_run_shows_the_plan(self, page_of, tmp_path):
        page = page_of("migrate", tmp_path / "after", "--job", "accounts_v3:job", "--dry-run")

        assert page.get_by_text("dry run: nothing was written").is_visible()

    def test_an_inspection_shows_sizes_and_spread_as_charts_and_as_text(self, page_of):
        page = page_of("inspect", "--keys", "2", width=390)
        chart = page.get_by_role("img", name="bytes by key group")

        assert page.get_by_role("row", name="account-state/account-by-name 950 B, 37%, 20 entries").is_visible()
        assert chart.is_visible()
        page.locator("figure", has=chart).get_by_text("the numbers").click()
        assert page.get_by_role("row", name="key group 0 to 11 247 B, 5 entries").is_visible()
        page.locator("summary", has_text="account-by-name").click()
        state = page.locator("details.subject[open]")
        assert state.get_by_text("the heaviest keys").is_visible()
        assert state.get_by_text("obsolete string").is_visible()
        assert page.evaluate("document.documentElement.scrollWidth") <= 390

    @pytest.mark.parametrize("command", ["plan", "migrate", "inspect"])
    def test_hostile_text_stays_text_in_each(self, run, hostile, opened, tmp_path, command):
        place, more = hostile.parent / "savepoint", {"plan": [], "migrate": [tmp_path / "after"]}
        job = [] if command == "inspect" else ["--job", "before:job"]
        assert run(command, place, *more.get(command, []), *job, "--html", tmp_path / "page.html").status == 0
        page = opened(tmp_path / "page.html")

        assert page.locator("h3", has_text=SHOWN).first.is_visible()
        assert page.locator("main script, main img").count() == 0
        assert not {"\u202e", "\x1b", "\u2066"} & set(page.content())

    def test_a_profile_says_how_many_elements_lists_and_maps_have(self, run, savepoint_of, opened, tmp_path):
        assert (
            run("inspect", savepoint_of("hashmap-collections"), "--profile", "--html", tmp_path / "p.html").status == 0
        )
        page = opened(tmp_path / "p.html")

        assert page.get_by_role("row", name="value.order array<int> 28.6% 0 to 2").first.is_visible()

    def test_redacted_keys_are_in_no_report(self, run, savepoint_of, tmp_path):
        arguments = ("inspect", savepoint_of(ACCOUNTS), "--keys", "3", "--html")
        shown, redacted = tmp_path / "shown.html", tmp_path / "redacted.html"
        run(*arguments, shown)
        run(*arguments, redacted, "--redact")

        assert '<th scope="row">113</th>' in shown.read_text(encoding="utf-8")
        assert '<th scope="row">113</th>' not in redacted.read_text(encoding="utf-8")

    def test_nothing_is_reported_while_a_job_is_followed(self, run, tmp_path):
        ran = run("migrate", tmp_path, tmp_path / "new", "--follow", "--html", tmp_path / "report.html")

        assert ran.status == 2
        assert "--html is not for --follow" in ran.stderr


def _lines(cell) -> int:
    """Return on how many lines the text of a cell stands."""
    count = "one => { const r = document.createRange(); r.selectNodeContents(one); return r.getClientRects().length }"
    return int(cell.evaluate(count))


def _light(colour: str) -> float:
    """Return how light a colour is, as `rgb(1, 2, 3)` says it."""
    return sum(float(one) for one in colour.partition("(")[2].rstrip(")").split(",")[:3])


class TestTheFile:
    def test_an_earlier_report_gives_way_and_another_file_does_not(
        self, run, savepoint_of, example_jobs, accounts, tmp_path
    ):
        mine, arguments = (
            tmp_path / "mine.html",
            ("check", savepoint_of(ACCOUNTS), "--job", "accounts_v2:job", "--html"),
        )
        mine.write_text("<p>mine", encoding="utf-8")

        assert run(*arguments, accounts).status == 4
        assert "accounts_v2" in accounts.read_text(encoding="utf-8")
        refused = run(*arguments, mine)
        assert refused.status == 2
        assert "give another name with --html, or remove it first" in refused.stderr
        assert mine.read_text(encoding="utf-8") == "<p>mine"

    @pytest.mark.parametrize("name", ["-", "/dev/stdout"])
    def test_it_is_not_printed_among_what_is_printed(self, run, savepoint_of, example_jobs, name):
        assert run("check", savepoint_of(ACCOUNTS), "--job", "accounts_v3:job", "--html", name).status == 2

    def test_json_is_printed_beside_it(self, run, savepoint_of, example_jobs, tmp_path):
        file = tmp_path / "report.html"
        ran = run("check", savepoint_of(ACCOUNTS), "--job", "accounts_v3:job", "--html", file, "--json")

        assert ran.data["decision"] == "migrate"
        assert file.exists()

    def test_jinja_is_loaded_only_for_a_report(self, run, savepoint_of, example_jobs, monkeypatch):
        monkeypatch.setitem(sys.modules, "jinja2", None)

        assert run("check", savepoint_of(ACCOUNTS), "--job", "accounts_v3:job").status == 4
