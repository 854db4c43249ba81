"""The page of what is public says of each format what the code writes and reads."""

import re

from stateshift.compat.gate import recorded_queries, recorded_text, stamps
from stateshift.compat.testing import upgrade as golden
from stateshift.state.formats.flink import keyed_stream, metadata, operator_stream
from stateshift.state.migration import plan_file
from stateshift.state.migration.queries import record
from stateshift.state.publication import lineage

_ROW = re.compile(r"^\| (.+) \| .*?(\d)(?: to \d)? \| (\d)(?: (?:to|and) (\d))? \|$", re.MULTILINE)


def test_the_versions_of_files_are_those_of_the_code(root):
    page = (root / "docs" / "reference" / "stability.md").read_text(encoding="utf-8")
    _, _, table = page.partition("## How long files are read")
    read = {name: (int(first), int(last or first)) for name, _, first, last in _ROW.findall(table)}
    written = {name: int(version) for name, version, _, _ in _ROW.findall(table)}

    assert read == {
        "`_metadata` of a savepoint": (metadata.OLDEST_VERSION, metadata.NEWEST_VERSION),
        "streams of keyed state": (keyed_stream.STREAM_VERSION, keyed_stream.STREAM_VERSION),
        "streams of operator state": (operator_stream.STREAM_VERSION - 1, operator_stream.STREAM_VERSION),
        "`_stateshift.json` beside it": (lineage.FORMAT, lineage.FORMAT),
        "snapshots and revisions of a history": (1, recorded_text.VERSION),
        "stamps of a history": (1, stamps.VERSION),
        "descriptions of Spark queries": (recorded_queries.VERSION, recorded_queries.VERSION),
        "`_stateshift-copy.json` in a copy of a Spark checkpoint": (record.VERSION, record.VERSION),
        "plan files": (plan_file.VERSION, plan_file.VERSION),
        "golden files of tests": (golden.VERSION, golden.VERSION),
    }
    assert written | {"`_metadata` of a savepoint": 6} == {name: last for name, (_, last) in read.items()}
