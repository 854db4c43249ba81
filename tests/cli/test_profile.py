"""`stateshift inspect --profile`: which state is large, and why."""

from __future__ import annotations

import io
import json
import re

import pytest
import spark_checkpoints

from stateshift.cli import output
from stateshift.cli.render.bars import bar
from stateshift.state.progress import count_file_bytes
from stateshift.state.savepoint import entry_pass


def test_the_largest_state_comes_first_and_its_heaviest_key(run, savepoint_of):
    ran = run("inspect", savepoint_of("rocksdb-account-v1"), "--profile")

    assert (ran.status, ran.stderr) == (0, "")
    lines = [line.split() for line in ran.stdout.splitlines()]
    assert ["account-by-name", "account-state", "map", "20", "950"] == next(
        line[:5] for line in lines if line[:1] == ["account-by-name"]
    )
    assert ["entries", "of", "a", "key,", "2.0", "on", "average,", "2", "at", "most"] in lines
    assert any(line[:1] == ["value.visits"] for line in lines)


@pytest.mark.parametrize("width", [80, 100, 120])
def test_lines_are_as_wide_as_they_may_be(run, savepoint_of, monkeypatch, width):
    monkeypatch.setattr(output, "_PIPED_WIDTH", width)
    lines = run("inspect", savepoint_of("rocksdb-account-v1"), "--profile").stdout.splitlines()

    assert max(map(len, lines[1:])) <= width
    assert all("#" in line for line in lines if line.split()[:2] == ["accounts", "account-state"])


def test_json_has_all_figures(run, savepoint_of):
    ran = run("inspect", savepoint_of("rocksdb-account-v1"), "--profile", "--json")

    operator = next(one for one in ran.data["operators"] if one["operator"] == "account-state")
    sizes = [one["bytes"] for one in operator["states"]]
    assert sizes == sorted(sizes, reverse=True)
    state = next(one for one in operator["states"] if one["state"] == "account-by-name")
    assert (state["entries"], state["bytes"]) == (20, 950)
    assert state["lengths"]["buckets"] == [{"from": 2, "to": 3, "count": 10}]
    assert {one["path"] for one in state["fields"]} >= {"key", "user_key", "value", "value.id", "value.visits"}
    assert sum(one["entries"] for one in state["spread"]["key_groups"]["shares"]) == 20


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_redacted_it_shows_no_key_and_no_value(run, savepoint_of, options):
    place = savepoint_of("hashmap-subclass-registered")
    shown = run("inspect", place, "--profile", *options).stdout
    hidden = run("inspect", place, "--profile", "--redact", *options).stdout

    for secret in ("Orbit", "Mars", "FancyAddress"):
        assert secret in shown
    assert "Orbit" not in hidden
    assert "Mars" not in hidden
    assert "<redacted>" in hidden


def test_a_spark_checkpoint_has_partitions(run, root):
    ran = run("inspect", f"spark:{root}/tests/fixtures/spark-4.3/transform/checkpoint", "--profile", "--json")

    assert ran.status == 0
    assert {name for one in ran.data["operators"] for name in one["spread"]} == {"partitions"}


def test_options_that_do_not_go_together_are_refused(run, savepoint_of):
    place = savepoint_of("rocksdb-account-v1")

    for options, message in (
        (("--profile", "--keys", "3"), "leave out --keys and --skew"),
        (("--profile", "--skew"), "leave out --keys and --skew"),
        (("--ttl", "1d"), "--ttl goes with --profile"),
        (("--reference-time", "2026-01-01T00:00:00Z"), "--reference-time goes with --profile"),
        (("--profile", "--ttl", "soon"), "no time to live"),
        (("--profile", "--ttl", "1d", "--ttl", "account=2d"), "one time for all states, or one for each"),
    ):
        ran = run("inspect", place, *options)
        assert ran.status == 2
        assert message in " ".join(ran.stderr.split())
    assert run("inspect", place, "--profile", "--ttl", "other=1d").status != 0


class Terminal(io.TextIOWrapper):
    def isatty(self):
        return True


def test_bars_have_blocks_only_where_the_encoding_has_them(monkeypatch):
    for encoding, drawn in (("utf-8", "████▌"), ("ascii", "#####")):
        monkeypatch.setattr(output, "_answers", [Terminal(io.BytesIO(), encoding=encoding)])
        assert bar(9, 16, 8) == drawn
    monkeypatch.setattr(output, "_answers", [io.StringIO()])
    assert [bar(size, 16, 8) for size in (0, 1, 16)] == ["", "#", "########"]


def test_json_is_json(run, savepoint_of):
    assert json.loads(run("inspect", savepoint_of("hashmap-zoo-p1-m128"), "--profile", "--json").stdout)


@pytest.mark.parametrize("place", ["rocksdb-long-p2-m200-files", "spark:aggregation", "spark:transform"])
def test_its_page_says_what_an_inspection_says_and_reads_no_entry_twice(
    run, savepoint_of, tmp_path, monkeypatch, place
):
    is_of_spark, name = place.startswith("spark:"), place.removeprefix("spark:")
    source = f"spark:{spark_checkpoints.place(name)}" if is_of_spark else savepoint_of(name)

    opened, sizes, original = [], [], entry_pass.open_keyed
    monkeypatch.setattr(entry_pass, "open_keyed", lambda *args, **more: opened.append(1) or original(*args, **more))

    def read(*options):
        opened.clear()
        sizes.clear()
        with count_file_bytes.heard_by(sizes.append):
            assert run("inspect", source, *options).status == 0
        return sum(sizes) if is_of_spark else len(opened)

    def said(file):
        text = re.sub("<[^>]*>", " ", re.sub("(?s)^.*<main|<(script|style).*?</(script|style)>", "", file.read_text()))
        return re.search(r"(?s)\d+ operators? with.*?of keys and values, uncompressed.*?Operators and", text)[0]

    assert read("--profile", "--html", tmp_path / "profile.html") == read("--profile") > 0
    read("--html", tmp_path / "inspection.html")
    assert said(tmp_path / "profile.html") == said(tmp_path / "inspection.html")
    assert (" as stored, with headers" in said(tmp_path / "profile.html")) is not is_of_spark
