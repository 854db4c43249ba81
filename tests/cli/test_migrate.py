"""`stateshift migrate`: what it prints, what it leaves, and what it says of the source."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

import attrs
import pytest

from stateshift import (
    Edits,
    Int32,
    Job,
    MigrationOptions,
    Operator,
    SavepointWriter,
    ValueStateDescriptor,
    load_job,
    migrate,
)
from stateshift.cli.render.migration import announce_run
from stateshift.state.migration.engine import Engine
from stateshift.state.migration.estimate import Estimate
from stateshift.state.transcode import executor_choice as choice

DROPPING = MigrationOptions(edits=Edits(drop=("version-free",)))
CHILD = {
    name: value
    for name, value in os.environ.items()
    if name in {"SPARK_HOME", "SPARK_LAUNCHER_OPTS", "SPARK_SUBMIT_OPTS"} or not name.startswith(("PYTHON", "SPARK"))
}


def stateshift(*arguments, cwd, **variables):
    """A process of its own, as a user has one."""
    command = [sys.executable, "-m", "stateshift", *map(str, arguments)]
    return subprocess.run(
        command, cwd=cwd, env=CHILD | variables, capture_output=True, text=True, check=False, timeout=300
    )


def files_of(folder):
    return {file.name: file.read_bytes() for file in folder.iterdir()}


@pytest.mark.usefixtures("example_jobs")
class TestDryRun:
    """Nothing is written, and no Spark is started."""

    def test_it_prints_the_plan_and_tries_an_entry_of_each_state(self, run, savepoint_of, tmp_path):
        ran = run(
            "migrate", savepoint_of("rocksdb-account-v1"), tmp_path / "new", "--job", "accounts_v3:job", "--dry-run"
        )

        assert (ran.status, ran.stderr) == (0, "")
        assert ran.stdout.startswith("migrate: of 7 states, 4 converted")
        assert "tried: one entry each of account, account-by-name, accounts, pending" in ran.stdout
        assert "dry run: nothing was written" in ran.stdout
        assert not (tmp_path / "new").exists()

    def test_json_holds_the_plan(self, run, savepoint_of, tmp_path):
        ran = run(
            "migrate", savepoint_of("rocksdb-account-v1"), tmp_path / "new", "--job", "accounts_v3:job", "--dry-run",
            "--json",
        )  # fmt: skip

        actions = {
            state["name"]: state["action"] for operator in ran.data["plan"]["operators"] for state in operator["states"]
        }
        assert (ran.status, ran.data["dry_run"], ran.data["start_command"]) == (0, True, None)
        assert (actions["account"], actions["version-free"]) == ("convert", "copy")
        assert {tried["state"] for tried in ran.data["tried"] if tried["converted"]} == {
            "account", "account-by-name", "accounts", "pending",
        }  # fmt: skip


def test_a_change_that_is_refused_ends_with_1_and_every_reason(run, savepoint_of, job_folder, tmp_path):
    (job_folder / "odd.py").write_text(
        "from stateshift import Job, Operator, ValueStateDescriptor\n"
        "job = Job([Operator('account-state', key=int, states=[ValueStateDescriptor('version-free', bool)])])\n",
        encoding="utf-8",
    )

    ran = run("migrate", savepoint_of("rocksdb-account-v1"), tmp_path / "new", "--job", "odd:job")

    assert (ran.status, ran.stdout) == (1, "")
    assert ran.stderr.startswith("IncompatibleState: ")
    assert "state 'version-free': $  long -> boolean" in ran.stderr
    assert ran.stderr.endswith("\n  Nothing was changed.\n")
    assert not (tmp_path / "new").exists()


@pytest.mark.usefixtures("example_jobs")
def test_a_savepoint_that_needs_nothing_is_copied_without_spark(run, savepoint_of, tmp_path):
    source = savepoint_of("rocksdb-account-v1")

    ran = run("migrate", source, tmp_path / "new", "--job", "accounts_v1:job")

    assert (ran.status, ran.stderr) == (0, "")
    assert ran.stdout.startswith("copied: no changes needed")
    assert run("verify", tmp_path / "new").status == 0


def test_without_pyspark_little_state_is_migrated_and_for_spark_the_extra_is_named(root, savepoint_of, tmp_path):
    (tmp_path / "hidden" / "pyspark").mkdir(parents=True)
    (tmp_path / "hidden" / "pyspark" / "__init__.py").write_text(
        "raise ModuleNotFoundError('no pyspark', name='pyspark')\n", encoding="utf-8"
    )
    source, job = savepoint_of("rocksdb-account-v1"), ("--job", "accounts_v3:job")
    here = {"cwd": root / "examples", "PYTHONPATH": str(tmp_path / "hidden")}

    little = stateshift("migrate", source, tmp_path / "little", *job, **here)
    ran = stateshift("migrate", source, tmp_path / "new", *job, "--master", "local[1]", **here)

    assert little.returncode == 0, little.stderr
    assert " s in this process, without Spark\n" in little.stderr
    assert ", in this process, without Spark\n" in little.stdout
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "pip install 'stateshift[spark]'" in ran.stderr
    assert "Traceback" not in ran.stderr
    assert not (tmp_path / "new" / "_metadata").exists()


@pytest.fixture(scope="module")
def migrated(root, savepoint_of, tmp_path_factory):
    """Source and target of `migrate` to version 3 on Spark, and what the command printed."""
    folder = tmp_path_factory.mktemp("migrated")
    source = shutil.copytree(savepoint_of("rocksdb-account-v1"), folder / "old")
    on_spark = ("--job", "accounts_v3:job", "--master", "local[2,4]")
    ran = stateshift("migrate", source, folder / "new", *on_spark, cwd=root / "examples")
    return source, folder / "new", ran


@pytest.mark.slow
@pytest.mark.xdist_group("migrated")
class TestRun:
    """A real migration on Spark, by a process of its own."""

    def test_it_ends_with_what_it_did_and_what_comes_next(self, migrated):
        source, target, ran = migrated

        said = " ".join(ran.stdout.replace(" \\\n", "\n").split())  # where lines are divided depends on the paths
        before, how, *_ = ran.stderr.splitlines()  # on a slow machine, lines on the progress follow
        assert ran.returncode == 0
        assert before.startswith("to do: 4 streams to rewrite, 0 files to copy, 11.5 KiB to read, about ")
        assert how.endswith(" s on Spark, with 2 cores")
        assert said.startswith(f"migrated: 50 entries of 4 states converted, in {target} ")
        places = [
            said.index(part)
            for part in (
                ", on Spark, with 2 cores",
                f"source untouched: {source}",
                "rollback: possible",
                f"prove it: stateshift verify {target}",
            )
        ]
        assert places == sorted(places)
        assert said.endswith(f"start the job: flink run -s {target} …")

    def test_the_source_is_as_it_was(self, migrated, savepoint_of):
        assert files_of(savepoint_of("rocksdb-account-v1")) == files_of(migrated[0])

    def test_the_result_verifies_and_the_job_may_start_on_it(self, run, migrated, example_jobs):
        assert run("verify", migrated[1]).status == 0
        assert run("check", migrated[1], "--job", "accounts_v3:job", "--target", "flink").status == 0
        assert example_jobs

    def test_its_contents_are_those_that_flink_would_have_for_that_class(self, run, migrated, expected_of):
        """What Flink itself makes of it for version 2; version 3 differs in the width of `visits` alone."""
        ran = run("export", migrated[1], "--format", "tagged")

        flink = expected_of("rocksdb-account-v1", file="flink-migrated-to-v2.json")
        exported = {operator["uid"]: operator for operator in ran.data["operators"]}
        for operator in flink["operators"]:
            for name, state in operator.get("keyed", {}).items():
                assert state["entries"] == exported[operator["uid"]]["keyed"][name]["entries"]
            for name, state in operator.get("operator", {}).items():
                assert sorted(json.dumps(e) for part in state["subtasks"] for e in part) == sorted(
                    json.dumps(e) for part in exported[operator["uid"]]["operator"][name]["subtasks"] for e in part
                )

    def test_running_it_again_is_refused_since_the_target_is_taken(self, run, migrated, example_jobs):
        before = files_of(migrated[1])

        ran = run("migrate", migrated[0], migrated[1], "--job", "accounts_v3:job")

        assert ran.status == 2
        assert ran.stderr.startswith("TargetExists: ")
        assert before == files_of(migrated[1])
        assert example_jobs

    def test_inspect_shows_its_origin(self, run, migrated):
        ran = run("inspect", migrated[1], "--json")

        assert ran.data["written_by"].startswith("stateshift ")
        assert ran.data["source"]["place"] == str(migrated[0])


LISTS = """
from stateshift import BigInt, Job, ListStateDescriptor, Operator

names, buffer = ListStateDescriptor("names", bytes), ListStateDescriptor("buffer", BigInt)
job = Job([Operator("list-op", list_states=[buffer], union_list_states=[names])])
"""


@pytest.fixture
def lists_job(job_folder):
    """The current folder holds `lists:job`, which changes the elements of hashmap-operator-only-p2-m128."""
    (job_folder / "lists.py").write_text(LISTS, encoding="utf-8")
    return job_folder


@pytest.mark.usefixtures("example_jobs")
class TestWithoutNumba:
    """Much state, and no machine code for it: that is said before a run and after it."""

    @pytest.fixture(autouse=True)
    def no_numba(self, monkeypatch):
        monkeypatch.delenv(choice.VARIABLE, raising=False)
        monkeypatch.setattr(choice, "has_numba", lambda: False)

    @pytest.fixture
    def migrated(self, run, savepoint_of, tmp_path, monkeypatch):
        def migrated(least_bytes, *options):
            monkeypatch.setattr(choice, "LOADING_BYTES", least_bytes)
            old = savepoint_of("rocksdb-account-v1")
            return run("migrate", old, tmp_path / "new", "--job", "accounts_v3:job", *options)

        return migrated

    def test_a_run_says_so_and_by_how_much_it_is_slower(self, migrated):
        ran = migrated(1)

        assert 0 == ran.status
        assert "about 400 times slower without numba (pip install 'stateshift[spark]')" in ran.stderr
        assert "numba was not installed where the state was read" in ran.stdout
        assert "about 400 times as long" in ran.stdout

    def test_so_does_a_dry_run_and_json(self, migrated):
        assert "about 400 times slower without numba" in migrated(1, "--dry-run").stdout
        assert "400 times" in migrated(1, "--json").data["slowness"]

    def test_of_little_state_nothing_is_said(self, migrated):
        ran = migrated(1 << 20)

        assert "numba" not in ran.stdout + ran.stderr


@pytest.mark.usefixtures("lists_job")
def test_a_dry_run_shows_what_becomes_of_subtasks_and_tries_elements(run, savepoint_of, tmp_path):
    source = savepoint_of("hashmap-operator-only-p2-m128")
    ran = run("migrate", source, tmp_path / "new", "--job", "lists:job", "--parallelism", 3, "--dry-run")
    too_many = run("migrate", source, tmp_path / "new", "--job", "lists:job", "--parallelism", 129, "--dry-run")

    assert (ran.status, ran.stderr) == (0, "")
    assert "list-op (a1abaab3ab0218c1f2bbff3f1aa7c88f): rewritten; parallelism 2 -> 3" in ran.stdout
    assert "tried: one entry each of buffer, names was read, converted and discarded\n" in ran.stdout
    assert too_many.status == 2
    assert "it has 128 key groups, and each subtask needs at least one" in too_many.stderr


@pytest.mark.slow
def test_lists_of_an_operator_are_converted_and_dealt_out(run, lists_job, savepoint_of, tmp_path):
    source = savepoint_of("hashmap-operator-only-p2-m128")
    shape = ["--parallelism", 3, "--compression", "snappy"]
    ran = stateshift("migrate", source, tmp_path / "new", "--job", "lists:job", *shape, "--json", cwd=lists_job)

    data = json.loads(ran.stdout)
    counts = {state["state"]: (state["read"], state["written"], state["action"]) for state in data["states"]}
    assert counts == {"buffer": (12, 12, "convert"), "names": (12, 12, "convert")}
    assert [(3, "snappy")] == [(op["parallelism"], op["compression"]) for op in data["plan"]["operators"]]
    assert run("verify", tmp_path / "new").status == 0
    exported = run("export", tmp_path / "new", "--format", "tagged").data["operators"][0]["operator"]
    assert [4, 4, 4] == [len(elements) for elements in exported["buffer"]["subtasks"]]
    assert all("$bigint" in element for elements in exported["buffer"]["subtasks"] for element in elements)
    assert all("$bytes" in element for elements in exported["names"]["subtasks"] for element in elements)


@pytest.mark.slow
def test_a_master_that_spark_does_not_know_ends_with_6_and_one_block(root, savepoint_of, tmp_path):
    ran = stateshift(
        "migrate", savepoint_of("rocksdb-account-v1"), tmp_path / "new", "--job", "accounts_v3:job",
        "--master", "sparky://here", cwd=root / "examples",
    )  # fmt: skip

    assert (ran.returncode, ran.stdout) == (6, "")
    assert "Could not parse Master URL: 'sparky://here'" in ran.stderr
    assert "Traceback" not in ran.stderr
    assert "published" in ran.stderr
    assert not (tmp_path / "new" / "_metadata").exists()


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [0.5, 1.5])
def test_an_interrupt_while_spark_starts_leaves_no_target_and_no_jvm(root, savepoint_of, tmp_path, seconds):
    """A JVM that stays would keep stdout open."""
    command = [sys.executable, "-m", "stateshift", "migrate", savepoint_of("rocksdb-account-v1"), tmp_path / "new"]
    log = tmp_path / "stderr"
    with log.open("w") as stderr, subprocess.Popen(
        [*command, "--job", "accounts_v3:job", "--master", "local[*,4]"], cwd=root / "examples", env=CHILD, text=True,
        stdout=subprocess.PIPE, stderr=stderr,
    ) as process:  # fmt: skip
        while "on Spark" not in log.read_text():  # what it says before it starts Spark
            assert process.poll() is None, log.read_text()
            time.sleep(0.05)
        time.sleep(seconds)
        process.send_signal(signal.SIGINT)
        printed, _ = process.communicate(timeout=60)

    told = log.read_text()
    assert (process.returncode, printed) == (130, "")
    begun = "Nothing was published: the target has no _metadata. Nothing was written to the source."
    before = "A migration publishes nothing until it is complete."  # on a busy machine the run has not begun by then
    assert told.endswith((f"\ninterrupted. {begun}\n", f"\ninterrupted. {before}\n"))
    assert "Traceback" not in told
    assert not (tmp_path / "new" / "_metadata").exists()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [(["migrate", "new"], " A migration publishes nothing until it is complete."), (["check"], "")],
    ids=["migrate", "check"],
)
def test_an_interrupt_of_what_is_no_migration_says_nothing_of_one(job_folder, savepoint_of, arguments, told):
    (job_folder / "waiting.py").write_text("raise KeyboardInterrupt\n", encoding="utf-8")
    command, *target = arguments

    ran = stateshift(command, savepoint_of("rocksdb-account-v1"), *target, "--job", "waiting:job", cwd=job_folder)

    assert (ran.returncode, ran.stdout, ran.stderr) == (130, "", f"\ninterrupted.{told}\n")


@pytest.mark.slow
@pytest.mark.usefixtures("spark")
def test_redaction_reaches_the_workers(run, job_folder, root, savepoint_of, tmp_path):
    """`obsolete` is declared to be never null, and is null for some keys; the session is that of the tests."""
    source = (root / "examples" / "accounts_v3.py").read_text(encoding="utf-8")
    beside = (root / "examples" / "accounts_v1.py").read_text(encoding="utf-8")
    changed = source.replace("    score: float = 0.0\n", "    obsolete: str\n    score: float = 0.0\n")
    (job_folder / "strict.py").write_text(changed, encoding="utf-8")
    (job_folder / "accounts_v1.py").write_text(beside, encoding="utf-8")
    on_spark = ("--job", "strict:job", "--master", "local[2]")
    migrate = ("migrate", savepoint_of("rocksdb-account-v1"), tmp_path / "new", *on_spark)

    told = run(*migrate)
    redacted = run(*migrate, "--redact")

    assert (told.status, redacted.status) == (6, 6)
    assert re.search(r"key -?\d+, path \$.obsolete", told.stderr)
    assert ", key <redacted>, path $.obsolete" in redacted.stderr


def test_a_limit_without_a_quarantine_is_a_mistake(run, savepoint_of, tmp_path):
    ran = run("migrate", savepoint_of("rocksdb-account-v1"), tmp_path / "new", "--max-bad-values", "5", "--dry-run")

    assert (ran.status, "--bad-values quarantine" in ran.stderr) == (2, True)


@pytest.mark.usefixtures("example_jobs")
@pytest.mark.parametrize("command", [["migrate", "SP", "NEW", "--dry-run"], ["plan", "SP"]], ids=" ".join)
def test_a_forbidden_flag_ends_with_1_before_anything_is_written(run, savepoint_of, tmp_path, command):
    places = {"SP": savepoint_of("rocksdb-account-v1"), "NEW": tmp_path / "new"}

    ran = run(*[places.get(word, word) for word in command], "--job", "accounts_v3:job", "--forbid", "drops")

    assert (ran.status, ran.stdout) == (1, "")
    assert "accept it: do not forbid drops" in ran.stderr


class TestDigests:
    """A savepoint that a migration wrote has the digests of its files; the next migration checks them."""

    OLD = (
        "from stateshift import Int32, Job, Operator, ValueStateDescriptor\n"
        "states = [ValueStateDescriptor('s', Int32), ValueStateDescriptor('t', str)]\n"
        "job = Job([Operator('o', key=int, states=states)])\n"
    )
    REWRITE = ("--job", "counts_new:job")
    COPY = ("--job", "counts_old:job")

    @pytest.fixture
    def flipped(self, job_folder, tmp_path):
        """A savepoint with a flipped bit within a value, which leaves it readable."""
        (job_folder / "counts_old.py").write_text(self.OLD)
        (job_folder / "counts_new.py").write_text(self.OLD.replace("'s', Int32", "'s', int"))
        states = [ValueStateDescriptor("s", Int32), ValueStateDescriptor("t", str)]
        with SavepointWriter(tmp_path / "old", Job([Operator("o", key=int, states=states)])) as writer:
            for number in range(2000):
                writer.put("o", "s", number, number)
                writer.put("o", "t", number, "some text")
        file = next(file for file in (tmp_path / "old").iterdir() if b"some text" in file.read_bytes())
        file.write_bytes(file.read_bytes().replace(b"some text", b"sOme text", 1))
        return tmp_path / "old"

    @pytest.mark.parametrize("asked", [REWRITE, COPY])
    def test_a_flipped_bit_in_a_stream_is_refused_however_it_is_read(self, run, flipped, tmp_path, asked):
        ran = run("migrate", flipped, tmp_path / "new", *asked)

        assert (ran.status, ran.stdout) == (3, "")
        assert "the digest differs" in ran.stderr
        assert "--no-source-digests" in ran.stderr
        assert not (tmp_path / "new" / "_metadata").exists()

    @pytest.mark.parametrize("asked", [REWRITE, COPY])
    def test_it_is_read_as_it_is_when_asked_for_and_the_report_says_what_that_means(
        self, run, flipped, tmp_path, asked
    ):
        ran = run("migrate", flipped, tmp_path / "new", *asked, "--no-source-digests")

        assert ran.status == 0
        assert 1 == ran.stdout.count("damage within keys, values and names that left them readable cannot be detected")
        assert 0 == run("verify", tmp_path / "new").status

    def test_a_plan_keeps_what_was_said_of_digests(self, run, flipped, tmp_path):
        run("plan", flipped, *self.REWRITE, "--no-source-digests", "-o", tmp_path / "plan.json")

        assert 0 == run("migrate", flipped, tmp_path / "new", "--plan", tmp_path / "plan.json").status


def test_the_report_counts_dropped_fields_and_repeats_what_may_be_a_rename(run, job_folder, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(job_folder)
    declared = (
        "import attrs\nfrom stateshift import Job, Operator, ValueStateDescriptor, record\n"
        "@record(aliases=['cars.Car'])\n@attrs.frozen\nclass Car:\n    name: str\n    {fields}\n"
        "job = Job([Operator('o', key=int, states=[ValueStateDescriptor('s', Car)])])\n"
    )
    fields = "maker: str = 'x'\n    parts: list[int] = attrs.field(factory=list)"
    (job_folder / "cars.py").write_text(declared.format(fields=fields))
    (job_folder / "cars_new.py").write_text(declared.format(fields="mfr: str = ''"))
    job = load_job("cars:job")
    with SavepointWriter(tmp_path / "old", job) as writer:
        for number in range(50):
            writer.put("o", "s", number, sys.modules["cars"].Car(f"c{number}"))

    ran = run("migrate", tmp_path / "old", tmp_path / "new", "--job", "cars_new:job")
    asked = run("migrate", tmp_path / "old", tmp_path / "again", "--job", "cars_new:job", "--json")

    assert 0 == ran.status, ran.stderr
    assert "  dropped fields: $.maker (50), $.parts (50), of o/s" in ran.stdout.splitlines()
    assert "  possible_rename: maker->mfr, of o/s; if it is the same field, give mfr the alias maker" in ran.stdout
    assert [
        {"operator": "o", "state": "s", "paths": ["$.maker", "$.parts"], "possible_renames": ["maker->mfr"],
         "entries": 50}
    ] == asked.data["dropped_fields"]  # fmt: skip


@pytest.mark.parametrize(
    ("asked", "headline"),
    [
        (["--rename-state", "version-free=vf"], "written with new headers: every entry of 1 state as it was"),
        (["--drop", "version-free"], "rewritten without 1 state: every other entry as it was"),
    ],
)
def test_the_headline_says_what_was_done_where_nothing_was_converted(run, savepoint_of, tmp_path, asked, headline):
    ran = run("migrate", savepoint_of("rocksdb-account-v1"), tmp_path / "new", *asked)

    assert (0, f"{headline}, in {tmp_path / 'new'}") == (ran.status, ran.stdout.splitlines()[0])


@pytest.mark.parametrize(("size", "told"), [(0, "6.0 KiB to read"), (2048, "6.0 KiB to read, about 2.0 KiB to write")])
def test_nothing_to_write_is_not_announced_as_a_size(size, told, savepoint_of, tmp_path, capsys):
    expected = Estimate(6144, size, None, Engine.PROCESS, 1.0, 1)
    report = migrate(savepoint_of("rocksdb-account-v1"), tmp_path / "new", None, DROPPING, dry_run=True)

    announce_run(attrs.evolve(report, estimate=expected))

    assert f"{told}\n  about 1 s in this process" in capsys.readouterr().err
