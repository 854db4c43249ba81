"""No line that a command prints is long, unless it is one word that cannot be divided, or data."""

from __future__ import annotations

import re
import shlex
import shutil
import sys

import pytest

from stateshift.cli.app import _COMMANDS

PRINTED = """
inspect sp
inspect sp --skew --keys 2
inspect zoo --full
inspect DEEP
inspect nowhere-at-all
inspect sp --operator nothing
inspect SPARK/join-inner/checkpoint
inspect SPARK/transform/checkpoint --full --skew
export sp --state nothing
export sp -o entries.jsonl
init sp -o made.py
check sp --job accounts_v2:job
check sp --job accounts_v3:job --forbid possible_rename --all
check zoo --job accounts_v3:job
check sp
check sp --job accounts_v3:job --rename-uid account-state=accounts-of-all-customers
check sp --job no_such_module:job
plan sp --job accounts_v2:job
plan DEEP --job accounts_v3:job -o plan.json --rename-uid account-state=accounts-of-all-customers
migrate sp there --job accounts_v3:job --dry-run
migrate sp v2 --job accounts_v2:job
migrate DEEP v3 --job accounts_v3:job
migrate sp v3 --job accounts_v3:job
migrate sp rekeyed --repartition --max-parallelism 1000
migrate sp smaller --drop account-state/accounts
migrate sp nothing
migrate sp nothing --job accounts_v3:job --drop account-state/nothing
migrate SPARK/aggregation/checkpoint spark:copy --like SPARK/aggregation/checkpoint
migrate SPARK/aggregation/checkpoint spark:copy-2 --like SPARK/join-inner/checkpoint
verify v3
verify v3 --values --all
verify zoo
verify spark:copy
get sp -23
get sp customer-7
get SPARK/window/checkpoint '{"k": "z"}'
get SPARK/rocksdb-join/checkpoint z
export sp --key customer-7
sql sp nothing
diff sp v3
diff sp rekeyed
diff accounts_v1:job accounts_v4:job
diff SPARK/aggregation/checkpoint SPARK/rocksdb/checkpoint
diff SPARK/aggregation/checkpoint SPARK/join-inner/checkpoint
check --job accounts_v1:job --against no-such-branch
snapshot --job accounts_v1:job -m MESSAGE
check --job accounts_v2:job --against state_history
snapshot --job accounts_v2:job -m Second
record accounts_v1:job sp
history
heads
show head
show 17
stamp production 1
check --job accounts_v3:job --against head
check --job accounts_v4:job --against state_history --level FULL
plan v3 --job accounts_v4:job
migrate v3 back --downgrade 1
migrate v2 back --downgrade 1
quarantine v3
savepoint sp taken
rewind sp before --checkpoint before-checkpoint --to-batch 3
gc sp --dry-run
explain PLAN --all
ttl PLAN
ttl set PLAN 7:0=3s 7:1=9s -o plan.json
clean DEEP
warm-up --no-such-option
rules REC-2 REC-4 lossy SPK-2
no-such-command
"""
DEEP = "a-folder-with-a-long-name/" * 5 + "savepoint"
MESSAGE = "The first revision, with a message that says at length why the types of the state are what they are"


@pytest.fixture
def workplace(example_jobs, savepoint_of):
    for name, fixture in (("sp", "rocksdb-account-v1"), (DEEP, "rocksdb-account-v1"), ("zoo", "rocksdb-zoo-p1-m200")):
        shutil.copytree(savepoint_of(fixture), example_jobs / name)
    return example_jobs


def commands(root):
    places = {
        "SPARK": f"spark:{root / 'tests' / 'fixtures' / 'spark-4.3'}",
        "DEEP": DEEP,
        "PLAN": str(root / "tests/fixtures/flink-sql-2.3/join/plan.json"),
        "MESSAGE": f"'{MESSAGE}'",
    }
    for line in PRINTED.strip().splitlines():
        yield shlex.split(re.sub("|".join(places), lambda found: places[found[0]], line))


def is_one_word(line):
    """Whether a line is one word, or an option with its value; a command goes on behind a backslash."""
    words = line.removesuffix("\\").split()
    return len(words) == 1 or (len(words) == 2 and words[0].startswith("-"))


def too_long(printed, width):
    plain = re.sub(r"\x1b\[[\d;]*m", "", printed)
    return [line for line in map(str.rstrip, plain.splitlines()) if len(line) > width and not is_one_word(line)]


def test_every_command_is_tried(root):
    assert set(_COMMANDS) | {"no-such-command"} == {first for first, *_ in commands(root)}


@pytest.mark.usefixtures("workplace")
@pytest.mark.parametrize("width", [100, 80], ids=["in a pipe", "on a terminal"])
def test_no_line_is_long(run, root, monkeypatch, width):
    monkeypatch.setattr("stateshift.cli.output._PIPED_WIDTH", width)
    if width == 80:
        stdout = sys.stdout
        monkeypatch.setattr(type(stdout), "isatty", lambda stream: stream is stdout, raising=False)
        monkeypatch.setenv("COLUMNS", "80")

    found = {}
    for words in commands(root):
        ran = run(*words)
        assert "Traceback" not in ran.stderr
        if long := too_long(ran.stdout, width) + too_long(ran.stderr, width):
            found[shlex.join(words)] = long

    assert {} == found
