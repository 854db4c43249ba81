"""The picture of a report in the README: `STATESHIFT_RECORD=1` makes it anew, where there is a browser."""

from __future__ import annotations

import os
import re

import attrs

from stateshift.compat.check import check
from stateshift.compat.pages.check import check_pieces
from stateshift.compat.pages.pieces import Commands
from stateshift.compat.pages.rendering import page
from stateshift.state.job import load_job
from stateshift.state.savepoint.reader import Savepoint

PICTURE = "docs/report.png"
MOST_BYTES = 200_000


def test_the_readme_shows_a_picture_of_a_report(root):
    picture = root / PICTURE
    (described,) = re.findall(rf"!\[(.+)\]\({PICTURE}\)", (root / "README.md").read_text(encoding="utf-8"))

    assert described
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert picture.stat().st_size < MOST_BYTES


if os.environ.get("STATESHIFT_RECORD"):

    def test_make_the_picture(root, opened, savepoint_of, monkeypatch, tmp_path):
        monkeypatch.syspath_prepend(root / "examples")
        savepoint = Savepoint.open(str(savepoint_of("rocksdb-account-v1")))
        report = check(savepoint.describe(), load_job("accounts_v3:job").describe("job accounts_v3:job"))
        place = "savepoint /data/savepoints/sp-1"
        report = attrs.evolve(report, old=attrs.evolve(report.old, origin=place))
        migrate = "stateshift migrate /data/savepoints/sp-1 NEW_SAVEPOINT --job accounts_v3:job"
        pieces = check_pieces(report, Commands("stateshift check /data/savepoints/sp-1 --job accounts_v3:job", migrate))
        (tmp_path / "report.html").write_text(page("report", pieces, made_by="a test"), encoding="utf-8")
        shown = opened(tmp_path / "report.html", width=1000)
        shown.set_viewport_size({"width": 1000, "height": 1195})
        shown.screenshot(path=root / PICTURE)
