"""`stateshift verify`: a table of checks, and 1 where one failed."""

from __future__ import annotations

import subprocess
import sys

import pytest
from spark_checkpoints import place
from spark_copies import altered, rewrite, with_a_note

from stateshift import Job, Operator, SavepointWriter, ValueStateDescriptor


@pytest.mark.parametrize("name", ["rocksdb-account-v1", "hashmap-windows-p2-m128", "hashmap-string-p2-m128-files"])
def test_savepoints_of_flink_are_verified(run, savepoint_of, name):
    ran = run("verify", savepoint_of(name))

    assert (ran.status, ran.stderr) == (0, "")
    assert ran.stdout.startswith("verified: ")
    assert any(line.split()[:3] == ["key", "groups", "ok"] for line in ran.stdout.splitlines())


def test_json_holds_the_same(run, savepoint_of):
    ran = run("verify", savepoint_of("rocksdb-account-v1"), "--json")

    assert (ran.status, ran.stderr, ran.data["ok"]) == (0, "", True)
    checks = {check["name"]: check["status"] for check in ran.data["checks"]}
    assert checks["key groups"] == "ok"
    assert checks["digests"] == "unproven"


@pytest.mark.parametrize("damaged", ["missing", "cut"])
def test_a_damaged_file_fails_its_operator_and_the_others_are_still_looked_at(run, savepoint_copy, damage, damaged):
    savepoint = savepoint_copy("hashmap-string-p2-m128-files")
    largest = max((file for file in savepoint.iterdir() if file.name != "_metadata"), key=lambda f: f.stat().st_size)
    if damaged == "missing":
        largest.unlink()
    else:
        damage(largest, cut=10)

    ran = run("verify", savepoint)
    as_json = run("verify", savepoint, "--json")

    assert (ran.status, as_json.status, as_json.data["ok"]) == (1, 1, False)
    assert ran.stdout.startswith("not verified: ")
    failed = [check for check in as_json.data["checks"] if check["status"] == "failed"]
    assert [largest.name in check["where"] for check in failed] == [True]
    assert "list-op" in {check["where"] for check in as_json.data["checks"] if check["status"] == "ok"}


def test_an_entry_in_another_key_group_than_its_key_hashes_to_fails(run, savepoint_copy, damage):
    """The key 28 of one state becomes 29 where it lies; Flink would never find that entry again."""
    savepoint = savepoint_copy("rocksdb-account-v1")
    before = b"\x80\x00\x00\x00\x00\x00\x00\x1c"
    data = (savepoint / "_metadata").read_bytes()
    key = before if before in data else b"\x00" + before[1:]
    damage(savepoint / "_metadata", replace=(key, key[:-1] + b"\x1d"))

    ran = run("verify", savepoint)

    assert ran.status == 1
    assert "RUN-3" in ran.stdout


def test_of_very_many_checks_those_that_are_fine_are_counted(run, tmp_path):
    job = Job([Operator(f"op-{at}", key=int, states=[ValueStateDescriptor("v", int)]) for at in range(30)])
    with SavepointWriter(tmp_path / "sp", job) as writer:
        for at in range(30):
            writer.put(f"op-{at}", "v", 1, 1)

    short, whole = (run("verify", tmp_path / "sp", "--values", *more) for more in ([], ["--all"]))

    assert (0, 0) == (short.status, whole.status)
    assert any("30 checks (--all lists them)" in line for line in short.stdout.splitlines())
    assert len(short.stdout.splitlines()) < 10
    assert len(whole.stdout.splitlines()) > 60


def test_what_digests_stand_for_is_read_when_asked_for(run, tmp_path):
    with SavepointWriter(tmp_path / "sp", Job([Operator("op", key=int, states=[ValueStateDescriptor("v", int)])])) as w:
        w.put("op", "v", 1, 1)

    by_digests, by_values = (run("verify", tmp_path / "sp", *more) for more in ([], ["--values"]))

    assert (0, 0) == (by_digests.status, by_values.status)
    assert by_digests.stdout.startswith("verified by digests: ")
    assert "1 entry is as it was written, according to the digests; no keys and values were read (op)\n" in (
        by_digests.stdout
    )
    assert "--values reads them" in by_digests.stdout
    assert by_values.stdout.startswith("verified: ")
    assert "every value ends where its type requires" in by_values.stdout
    assert "--values" not in by_values.stdout
    assert [True, False] == [
        run("verify", tmp_path / "sp", "--json", *more).data["by_digests"] for more in ([], ["--values"])
    ]


@pytest.mark.slow
def test_with_a_master_spark_proves_the_same(savepoint_of):
    """In a process of its own, whose Java ends with it."""
    command = [sys.executable, "-m", "stateshift", "verify", savepoint_of("rocksdb-account-v1")]

    here, on_spark = (
        subprocess.run([*command, *more], capture_output=True, text=True, timeout=120, check=False)
        for more in ((), ("--master", "local[2]"))
    )

    assert (0, here.stdout) == (on_spark.returncode, on_spark.stdout)
    assert on_spark.stderr == "starting Spark …\n"


@pytest.mark.slow
def test_an_invalid_master_ends_with_6_and_one_block(savepoint_of):
    command = [
        sys.executable,
        "-m",
        "stateshift",
        "verify",
        savepoint_of("rocksdb-account-v1"),
        "--master",
        "sparky://x",
    ]

    ran = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)

    assert (6, "") == (ran.returncode, ran.stdout)
    assert "Could not parse Master URL: 'sparky://x'" in ran.stderr
    assert "Traceback" not in ran.stderr


class TestTheCopyOfACheckpoint:
    def test_is_verified_entry_by_entry(self, run, tmp_path):
        copy = with_a_note("aggregation", tmp_path)

        ran, as_json = run("verify", f"spark:{copy}"), run("verify", f"spark:{copy}", "--json")

        assert (0, "", 0) == (ran.status, ran.stderr, as_json.status)
        assert ran.stdout.startswith(f"verified: {copy} (3 checks)")
        assert {"structure": "ok", "logs": "ok", "values": "ok"} == {
            one["name"]: one["status"] for one in as_json.data["checks"]
        }
        assert (str(copy), True) == (as_json.data["savepoint"], as_json.data["ok"])

        rewrite(copy, altered)
        ran, as_json = run("verify", f"spark:{copy}"), run("verify", f"spark:{copy}", "--json")

        assert (1, 1, False) == (ran.status, as_json.status, as_json.data["ok"])
        assert "its value is another one" in ran.stdout
        assert "<redacted>: its value is another one" in run("verify", f"spark:{copy}", "--redact").stdout

    def test_without_a_record_is_told_what_to_do(self, run):
        ran = run("verify", f"spark:{place('aggregation')}")

        assert 2 == ran.status
        assert "verified by a second migration of its source into another folder" in ran.stderr

    def test_takes_no_options_of_savepoints(self, run, tmp_path):
        assert 2 == run("verify", f"spark:{tmp_path}", "--master", "local[2]").status
        assert 3 == run("verify", f"spark:{tmp_path / 'none'}").status
