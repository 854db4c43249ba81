"""`stateshift check` prints the verdict of each state and a line for each differing field."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

CASES = [("v1", 0, "start"), ("v2", 4, "migrate"), ("v3", 4, "migrate"), ("v4", 4, "migrate")]


@pytest.mark.usefixtures("example_jobs")
@pytest.mark.parametrize(("version", "status", "word"), CASES)
def test_the_first_word_is_the_decision_and_the_status_is_the_same(run, savepoint_of, version, status, word):
    ran = run("check", savepoint_of("rocksdb-account-v1"), "--job", f"accounts_{version}:job")

    assert (ran.status, ran.stderr) == (status, "")
    assert re.match(rf"{word}[:,] ", ran.stdout)


@pytest.mark.usefixtures("example_jobs")
@pytest.mark.parametrize("job", ["accounts_v2", "accounts_v3"])
def test_every_differing_field_is_one_line_with_ways_out(run, savepoint_of, job):
    ran = run("check", savepoint_of("rocksdb-account-v1"), "--job", f"{job}:job")

    lines = ran.stdout.splitlines()
    differing = {"$.obsolete", "$.email", "$.score"} | ({"$.visits"} if job == "accounts_v3" else set())
    places = [index for index, line in enumerate(lines) if line.split()[:1] == ["migrate"] and "$." in line]
    assert {lines[index].split()[1] for index in places} == differing
    assert all(lines[index + 1].strip().startswith("ways out: ") for index in places)


@pytest.mark.usefixtures("example_jobs")
def test_json_holds_the_same(run, savepoint_of):
    ran = run("check", savepoint_of("rocksdb-account-v1"), "--job", "accounts_v3:job", "--json")

    states = {
        state["name"]: (state["verdict"], {finding["path"] for finding in state["findings"] if finding["ways_out"]})
        for operator in ran.data["operators"]
        for state in operator["states"]
    }
    assert (ran.status, ran.stderr, ran.data["decision"], ran.data["exit_status"]) == (4, "", "migrate", 4)
    assert states["account"][0] == "requires_migration"
    assert states["account"][1] >= {"$.obsolete", "$.email", "$.score", "$.visits"}
    assert states["version-free"] == ("compatible", set())


@pytest.mark.usefixtures("example_jobs")
def test_allowing_migration_turns_its_status_into_0(run, savepoint_of):
    savepoint = savepoint_of("rocksdb-account-v1")

    ran = run("check", savepoint, "--job", "accounts_v3:job", "--allow-migration", "--json")

    assert (ran.status, ran.data["decision"], ran.data["exit_status"]) == (0, "migrate", 0)


def test_what_cannot_be_taken_over_is_refused_with_ways_out(run, savepoint_of, job_folder):
    (job_folder / "odd.py").write_text(
        "from stateshift import Job, Operator, ValueStateDescriptor\n"
        "job = Job([Operator('account-state', key=int, states=[ValueStateDescriptor('version-free', bool)])])\n",
        encoding="utf-8",
    )

    ran = run("check", savepoint_of("rocksdb-account-v1"), "--job", "odd:job")

    assert ran.status == 1
    assert ran.stdout.startswith("refuse: 1 of ")
    assert "long -> boolean" in ran.stdout
    assert "ways out: " in ran.stdout


def test_a_target_that_flink_could_not_restore_is_refused(run, savepoint_of, job_folder):
    (job_folder / "plain.py").write_text(
        "import dataclasses\n"
        "from stateshift import Job, Operator, ValueStateDescriptor, record\n"
        "@record(aliases=('fx.evo.Account',))\n"
        "@dataclasses.dataclass\n"
        "class Account:\n    id: int\n    name: str\n    visits: int\n"
        "job = Job([Operator('account-state', key=int, states=[ValueStateDescriptor('account', Account)])])\n",
        encoding="utf-8",
    )
    savepoint = savepoint_of("rocksdb-account-v1")

    anyone = run("check", savepoint, "--job", "plain:job")
    flink = run("check", savepoint, "--job", "plain:job", "--target", "flink")

    assert (anyone.status, flink.status) == (4, 1)
    assert "TARGET-FLINK" in flink.stdout


def test_a_terminal_gets_the_same_in_colours(run, savepoint_of, job_folder, monkeypatch):
    (job_folder / "odd.py").write_text(
        "from stateshift import Job, Operator, ValueStateDescriptor\n"
        "job = Job([Operator('account-state', key=int, states=[ValueStateDescriptor('version-free', bool)])])\n",
        encoding="utf-8",
    )
    arguments = ["check", savepoint_of("rocksdb-account-v1"), "--job", "odd:job"]
    plain = run(*arguments).stdout
    monkeypatch.setenv("COLUMNS", "300")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setattr(type(sys.stdout), "isatty", lambda _: True, raising=False)

    coloured = run(*arguments).stdout

    assert "\x1b[1;31mrefuse" in coloured
    words = re.sub(r"\x1b\[[0-9;]*m", "", coloured).split()
    assert sorted(words) == sorted(plain.split())


@pytest.mark.usefixtures("example_jobs")
def test_it_says_what_to_do_next(run, savepoint_of):
    savepoint = savepoint_of("rocksdb-account-v1")

    start = run("check", savepoint, "--job", "accounts_v1:job")
    migrate = run("check", savepoint, "--job", "accounts_v3:job")

    assert start.stdout.splitlines()[-1] == f"start the job: flink run -s {savepoint} …"
    assert (
        migrate.stdout.splitlines()[-1] == f"next: stateshift migrate {savepoint} NEW_SAVEPOINT --job accounts_v3:job"
    )


@pytest.mark.parametrize("options", [[], ["--against"]], ids=["of a savepoint", "against one"])
def test_it_imports_neither_spark_nor_numpy_nor_rich_nor_what_reads_entries(savepoint_of, root, options):
    """Each costs more time than the check itself, or much of it."""
    arguments = ["check", "--job", "accounts_v3:job", *options, str(savepoint_of("rocksdb-account-v1"))]
    program = (
        "import atexit, sys\n"
        "from stateshift.cli import main\n"
        "heavy = ['pyspark', 'py4j', 'pandas', 'numpy', 'pyarrow', 'hypothesis', 'rich', 'fastavro']\n"
        "heavy += ['stateshift.state.savepoint.' + name for name in ('entries', 'heap_native_stream', 'sizes')]\n"
        "atexit.register(lambda: print('loaded', [name for name in heavy if name in sys.modules]))\n"
        f"main({arguments!r})\n"
    )

    ran = subprocess.run(
        [sys.executable, "-c", program], cwd=root / "examples", capture_output=True, text=True, check=False
    )

    assert ran.returncode == (1 if options else 4)  # against it, fields are dropped, which no one has allowed
    assert ran.stdout.splitlines()[-1] == "loaded []"


def test_it_reports_the_option_that_flink_needs_for_a_removed_operator(run, savepoint_of, tmp_path, monkeypatch):
    (tmp_path / "fewer.py").write_text(
        "from stateshift import Job, Operator, ValueStateDescriptor\n"
        "job = Job([Operator('account-state', key=int, states=[ValueStateDescriptor('version-free', int)])])\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))

    answer = run("check", savepoint_of("rocksdb-account-v1"), "--job", "fewer:job", "--allow-non-restored-state")

    assert answer.status == 0
    assert answer.stdout.startswith("start: every state that both sides have can be used as it is; 4 stored states are")
    assert "--allowNonRestoredState …" in answer.stdout


@pytest.mark.usefixtures("example_jobs")
def test_a_forbidden_flag_refuses_and_is_passed_on(run, savepoint_of):
    savepoint = savepoint_of("rocksdb-account-v1")

    refused = run("check", savepoint, "--job", "accounts_v3:job", "--forbid", "drops")
    everything = run("check", savepoint, "--job", "accounts_v3:job", "--forbid", "all", "--allow-migration")
    others = run("check", savepoint, "--job", "accounts_v3:job", "--forbid", "lossy", "--forbid", "unverified")

    assert (refused.status, everything.status, others.status) == (1, 1, 4)
    assert "the policy forbids drops\n" in refused.stdout
    assert others.stdout.endswith(" --job accounts_v3:job --forbid lossy --forbid unverified\n")


@pytest.mark.usefixtures("example_jobs")
def test_it_shows_the_way_back_of_each_state(run, savepoint_of):
    savepoint = savepoint_of("rocksdb-account-v1")

    text = run("check", savepoint, "--job", "accounts_v3:job").stdout
    data = run("check", savepoint, "--job", "accounts_v2:job", "--json").data

    assert "    way back: none; $.visits  long -> int  [PRIM-3]\n" in text
    assert "\nway back: of 7 states, the old job can use 3 as they are, 4 not at all\n" in text
    states = {state["name"]: state["way_back"]["decision"] for one in data["operators"] for state in one["states"]}
    assert ("migrate", "migrate", "start") == (data["way_back"], states["account"], states["version-free"])
