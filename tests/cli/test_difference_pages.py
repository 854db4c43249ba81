"""`--html` of `diff`, `verify` and `history`: reports to look at, opened in a real browser."""

from __future__ import annotations

import pytest

from stateshift import Job, Operator, SavepointWriter, ValueStateDescriptor

ACCOUNTS = "rocksdb-account-v1"
HOSTILE = "</style><script>document.title='owned'</script>\u202eevil\x1b[2J\"'><img src=x onerror=alert(1)>"
SHOWN = "</style><script>document.title='owned'</script>\\u202eevil\\x1b[2J\"'><img src=x onerror=alert(1)>"


def saved(place, value, kind):
    job = Job([Operator(HOSTILE, key=int, states=[ValueStateDescriptor(HOSTILE, kind)])])
    with SavepointWriter(place, job) as writer:
        writer.put(HOSTILE, HOSTILE, 1, value)
    return place


def assert_it_fits(page, width):
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.locator("main script, main img").count() == 0


@pytest.mark.usefixtures("example_jobs")
def test_a_difference_shows_both_sides_both_ways_and_what_is_the_same_once(run, savepoint_of, tmp_path, opened):
    file = tmp_path / "difference.html"
    ran = run("diff", savepoint_of(ACCOUNTS), "accounts_v4:job", "--html", file)
    page = opened(file, width=390)

    assert (ran.status, ran.stderr) == (1, f"written: {file}\n")
    assert page.get_by_role("heading").first.inner_text() == "different 4 of 5 states"
    assert "A on that of B\nmigrate" in page.locator(".verdict").inner_text()
    account = page.locator("#o0-0")
    assert "A → B: migrate; B → A: migrate" in account.inner_text()
    assert "~ renamed title was name string" in account.inner_text()
    assert page.locator("p.alike").first.text_content() == "the same as at account-state/account, in $[]"
    assert_it_fits(page, 390)


def test_values_that_differ_are_in_it_and_hostile_text_stays_text(run, tmp_path, opened):
    a, b = saved(tmp_path / "a", "earlier", str), saved(tmp_path / "b", "later", str)
    file, hidden = tmp_path / "difference.html", tmp_path / "hidden.html"
    run("diff", a, b, "--html", file)
    run("diff", a, b, "--redact", "--html", hidden)
    page = opened(file, scheme="dark")
    values = page.get_by_role("region", name="Values").inner_text()

    assert page.get_by_role("heading").first.inner_text().startswith("different the types are equal, values of 1 state")
    assert f"values of {SHOWN}/{SHOWN}: 1 changed, 0 added, 0 removed" in values
    assert "~ 1 'earlier' -> 'later'" in values
    assert page.get_by_role("heading", name="Rules").count() == 0
    assert "earlier" not in hidden.read_text(encoding="utf-8")
    assert_it_fits(page, 1100)


def test_a_verification_shows_the_answer_what_failed_and_each_check(run, tmp_path, savepoint_copy, damage, opened):
    written = savepoint_copy("rocksdb-long-p2-m200-files")
    fine, bad = tmp_path / "fine.html", tmp_path / "bad.html"
    assert run("verify", written, "--html", fine).status == 0
    damage(max(written.iterdir(), key=lambda file: (file.name != "_metadata", file.stat().st_size)), cut=1)
    assert run("verify", written, "--html", bad).status == 1
    page, failed = opened(fine, width=390), opened(bad)

    assert page.get_by_role("heading").first.inner_text() == f"verified {written}"
    assert page.get_by_role("row").nth(1).inner_text().startswith("structure\tok")
    assert_it_fits(page, 390)
    assert failed.get_by_role("heading").first.inner_text() == f"failed {written}"
    assert failed.get_by_role("region", name="What failed").is_visible()


@pytest.mark.usefixtures("example_jobs")
def test_a_history_shows_the_line_of_revisions_with_what_each_changed(run, tmp_path, opened):
    for version in (1, 3, 4):
        assert run("snapshot", "--job", f"accounts_v{version}:job", "-m", f"Version {version}").status == 0
    file = tmp_path / "history.html"
    ran = run("history", "--html", file)
    page = opened(file, width=390, scheme="dark")
    revisions = [one.inner_text() for one in page.locator("li.revision").all()]

    assert ran.status == 0
    headings = [one.inner_text().split() for one in page.locator("li.revision h3").all()]
    assert headings == [["0003_version_4", "head", "refuse"], ["0002_version_3", "migrate"], ["0001_version_1"]]
    assert "operator account-state: account, account-by-name, accounts, version-free" in revisions[2]
    changed = page.locator("li.revision").nth(1).locator("summary", has_text="account-state/account value")
    changed.press("Enter")
    assert page.get_by_text("+ new email").first.is_visible()
    page.get_by_role("link", name="0002_version_3").click()
    assert_it_fits(page, 390)


def test_a_project_without_history_has_a_page_too(run, job_folder):
    ran = run("history", "--html", "history.html")

    assert ran.status == 0
    assert "0 revisions" in (job_folder / "history.html").read_text(encoding="utf-8") or ran.stdout.startswith("no rev")
