"""`stateshift plan` and `migrate --plan`: a file that is made, reviewed and carried out."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

SOURCE = "rocksdb-account-v1"


@pytest.fixture
def planned(run, savepoint_of, example_jobs):
    """A plan for version 3 of the class, in the current folder."""
    ran = run("plan", savepoint_of(SOURCE), "--job", "accounts_v3:job", "-o", "plan.json")
    assert 0 == ran.status
    return example_jobs / "plan.json"


def edit(file, change):
    data = json.loads(file.read_text(encoding="utf-8"))
    change(data)
    file.write_text(json.dumps(data), encoding="utf-8")


@pytest.mark.usefixtures("example_jobs")
class TestPlan:
    """What would be done, for a person and for a file."""

    def test_each_state_has_a_row_and_what_changes_its_reasons(self, run, savepoint_of):
        ran = run("plan", savepoint_of(SOURCE), "--job", "accounts_v3:job")

        lines = ran.stdout.splitlines()
        account = lines[lines.index("  account  value") :][1:8]
        assert (0, "") == (ran.status, ran.stderr)
        assert "migrate: of 7 states, 4 converted, the rest copied as bytes" == lines[0]
        assert "  version-free     value  copied          10    270         start" in lines
        assert "    $  reader: snapshot; writer: PojoSerializer" == account[0]
        assert "    $.visits  int -> long  every int fits a long, in other bytes  [PRIM-2]" == account[4]
        assert (
            "    old job on the result: refuse; $.visits  long -> int  a stored long may not fit an int  [PRIM-3]"
            == account[6]
        )
        note = "Flink does not say whether nulls are stored here; one would fail  [REC-17] may_fail_per_value"
        assert f"    $.id, $.name, $.visits  note: {note}" == account[5]
        assert "next: keep it for review, with -o plan.json" == lines[-1]

    def test_the_file_is_what_json_prints(self, run, savepoint_of, planned):
        ran = run("plan", savepoint_of(SOURCE), "--job", "accounts_v3:job", "--json")

        assert (0, planned.read_text(encoding="utf-8")) == (ran.status, ran.stdout)

    def test_it_says_what_to_do_with_the_file(self, run, savepoint_of):
        ran = run("plan", savepoint_of(SOURCE), "--job", "accounts_v3:job", "-o", "plan.json")

        command = f"stateshift migrate {savepoint_of(SOURCE)} NEW_SAVEPOINT --plan plan.json"
        assert ["written: plan.json", f"next: have it reviewed; then {command}"] == ran.stdout.splitlines()[-2:]

    def test_nothing_to_do_is_a_plan_too(self, run, savepoint_of):
        ran = run("plan", savepoint_of(SOURCE), "--job", "accounts_v1:job")

        assert 0 == ran.status
        assert ran.stdout.startswith("start: nothing has to change")
        assert f"next: no migration is needed; the job can start on {savepoint_of(SOURCE)}" in ran.stdout

    def test_what_is_refused_leaves_no_file(self, run, savepoint_of, job_folder):
        (job_folder / "odd.py").write_text(
            "from stateshift import Job, Operator, ValueStateDescriptor\n"
            "job = Job([Operator('account-state', key=int, states=[ValueStateDescriptor('version-free', bool)])])\n",
            encoding="utf-8",
        )

        ran = run("plan", savepoint_of(SOURCE), "--job", "odd:job", "-o", "plan.json")

        assert (1, "") == (ran.status, ran.stdout)
        assert "state 'version-free': $  long -> boolean" in ran.stderr
        assert not (job_folder / "plan.json").exists()

    def test_a_state_that_only_the_new_job_has_is_listed_and_a_file_without_it_is_still_carried_out(
        self, run, savepoint_of, job_folder
    ):
        (job_folder / "more.py").write_text(
            "import attrs\n"
            "from accounts_v3 import job as before\n"
            "from stateshift import Job, ValueStateDescriptor\n"
            "(one,) = [each for each in before.operators if each.uid == 'account-state']\n"
            "fresh = ValueStateDescriptor('fresh', int)\n"
            "more = attrs.evolve(one, states=[*one.states, fresh])\n"
            "job = Job([more if each is one else each for each in before.operators])\n",
            encoding="utf-8",
        )
        ran = run("plan", savepoint_of(SOURCE), "--job", "more:job", "-o", "plan.json")

        assert (0, "") == (ran.status, ran.stderr)
        assert "new: account-state/fresh starts empty" in ran.stdout.splitlines()
        assert json.loads((job_folder / "plan.json").read_text())["summary"].pop("starts_empty") == [
            "account-state/fresh"
        ]
        for target, change in (
            ("as-planned", lambda _: None),
            ("former", lambda data: data["summary"].pop("starts_empty")),
        ):
            edit(job_folder / "plan.json", change)
            assert run("migrate", savepoint_of(SOURCE), target, "--plan", "plan.json").status == 0

    def test_other_changes_than_types_are_planned(self, run, savepoint_of):
        ran = run("plan", savepoint_of(SOURCE), "--parallelism", "4", "--compression", "snappy", "--drop", "pending")

        lines = ran.stdout.splitlines()
        assert 0 == ran.status
        assert f"  from savepoint {savepoint_of(SOURCE)} to the same types" == lines[1]
        assert "  with drop pending, parallelism 4, compression snappy" == lines[2]
        assert any("parallelism 2 -> 4; compressed with snappy; Flink restores it" in line for line in lines)

    def test_keys_that_are_given_another_place_are_reported(self, run, savepoint_of):
        """ROLE-4."""
        ran = run("plan", savepoint_of(SOURCE), "--repartition", "--max-parallelism", "1000")

        lines = ran.stdout.splitlines()
        assert "  with repartition max parallelism 1000" == lines[2]
        assert any("rewritten; max parallelism 200 -> 1000; Flink restores it" in line for line in lines)
        assert "  key  long: every entry and timer is placed again" in lines

    def test_a_probe_is_planned_with(self, run, savepoint_of):
        probe = savepoint_of("hashmap-account-v3")

        ran = run("plan", savepoint_of(SOURCE), "--like", probe / "_metadata", "--json")

        assert ("probe", str(probe / "_metadata")) == (ran.data["new_types"]["from"], ran.data["new_types"]["place"])

    def test_without_new_types_it_says_what_else_could_be_planned(self, run, savepoint_of):
        ran = run("plan", savepoint_of(SOURCE))

        assert 2 == ran.status
        assert "to keep the types, specify what else to change" in ran.stderr

    def test_without_counting_the_columns_are_empty(self, run, savepoint_of):
        ran = run("plan", savepoint_of(SOURCE), "--job", "accounts_v3:job", "--no-count", "--json")

        counts = {state["entries"] for operator in ran.data["operators"] for state in operator["states"]}
        assert {None} == counts

    def test_a_file_that_cannot_be_written_is_wrong_usage(self, run, savepoint_of):
        ran = run("plan", savepoint_of(SOURCE), "--job", "accounts_v3:job", "-o", "nowhere/plan.json")

        assert 2 == ran.status
        assert "nowhere/plan.json cannot be written" in ran.stderr


def test_it_loads_no_spark(savepoint_of, root):
    program = (
        "import atexit, sys\n"
        "from stateshift.cli import main\n"
        "heavy = ('pyspark', 'py4j', 'pandas', 'rich')\n"
        "atexit.register(lambda: print('loaded', [name for name in heavy if name in sys.modules]))\n"
        f"main(['plan', {str(savepoint_of(SOURCE))!r}, '--job', 'accounts_v3:job'])\n"
    )

    ran = subprocess.run(
        [sys.executable, "-c", program], cwd=root / "examples", capture_output=True, text=True, check=False
    )

    assert 0 == ran.returncode
    assert "loaded []" == ran.stdout.splitlines()[-1]


class TestMigrateByPlan:
    """Job and options come from the file; other options must not contradict it."""

    @pytest.fixture
    def dry(self, run, savepoint_of, tmp_path, planned):
        """Run the plan, but for writing."""

        def start(*more, source=SOURCE):
            target = tmp_path / "new"
            ran = run("migrate", savepoint_of(source), target, "--plan", planned, "--dry-run", *more)
            assert not target.exists()
            return ran

        return start

    def test_the_job_and_the_options_are_those_of_the_file(self, run, savepoint_of, planned, dry):
        run("plan", savepoint_of(SOURCE), "--job", "accounts_v3:job", "--parallelism", "3", "-o", planned)

        ran = dry("--json")

        assert 0 == ran.status
        assert 3 == ran.data["plan"]["operators"][0]["parallelism"]
        assert f"plan {planned}: job accounts_v3:job, made by stateshift " in ran.stderr

    def test_what_is_trusted_is_said_before_it_is_done(self, run, savepoint_of, planned, dry):
        trust = ["--trust-stored-serializers", "--trust", "acme.Money", "--trust", "acme.Line"]
        run("plan", savepoint_of(SOURCE), "--job", "accounts_v3:job", *trust, "-o", planned)

        ran = dry()

        serializers, objects = "the serializers stored beside the savepoint", "objects of acme.Money, acme.Line"
        assert 0 == ran.status
        assert f"permissions that are off by default: to unpickle {serializers}, to unpickle {objects}\n" in ran.stderr

    def test_what_says_the_same_may_be_given(self, dry):
        assert 0 == dry("--job", "accounts_v3:job", "--compression", "keep").status

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            (["--job", "accounts_v4:job"], "the plan is for job accounts_v3:job, and --job accounts_v4:job is given"),
            (["--like", "probe"], "the plan is for job accounts_v3:job, and --like probe is given"),
            (["--job", "accounts_v3:job", "--like", "probe"], "give at most one of --job and --like"),
            (["--parallelism", "2"], "--parallelism differs from the plan"),
            (["--compression", "snappy"], "--compression differs from the plan"),
            (["--drop", "pending"], "--drop differs from the plan"),
            (["--target", "flink"], "--target differs from the plan"),
            (["--forbid", "lossy"], "--forbid differs from the plan"),
            (["--trust-stored-serializers"], "--trust-stored-serializers differs from the plan"),
        ],
    )
    def test_what_says_otherwise_is_wrong_usage(self, dry, options, message):
        ran = dry(*options)

        assert (2, "") == (ran.status, ran.stdout)
        assert message in ran.stderr

    def test_a_default_that_is_typed_contradicts_too(self, run, savepoint_of, planned, dry):
        run("plan", savepoint_of(SOURCE), "--job", "accounts_v3:job", "--compression", "snappy", "-o", planned)

        ran = dry("--compression", "keep")

        assert 2 == ran.status
        assert "--compression differs from the plan" in ran.stderr

    def test_a_job_that_changed_since_is_refused_with_each_difference(self, planned, dry, example_jobs, monkeypatch):
        job = example_jobs / "accounts_v3.py"
        job.write_text(job.read_text(encoding="utf-8").replace("score: float = 0.0", "score: float = 12.5"))
        monkeypatch.delitem(sys.modules, "accounts_v3")

        ran = dry()

        assert (1, "") == (ran.status, ran.stdout)
        lines = ran.stderr.splitlines()
        place = "  operator account-state, state account: findings: $.score  [REC-2].reason: "
        reason = "the field is new; stored records get the default"
        assert "PlanChanged: the run would not do what the plan describes" == lines[1]
        assert f"{place}{reason} 0.0 in the plan, {reason} 12.5 here" in lines
        assert ran.stderr.endswith("  Nothing was written.\n")
        assert planned.exists()

    def test_another_savepoint_is_refused_before_anything_else(self, dry):
        ran = dry(source="hashmap-account-v1")

        assert 1 == ran.status
        assert "the plan is for another savepoint" in ran.stderr
        assert "what to do: migrate the savepoint that the plan was made for, or make the plan again" in ran.stderr

    @pytest.mark.parametrize(
        "change",
        [
            {"bad_values": "quarantine"},
            {"trust": ["shop.Account"]},
            {"compression": "snappy"},
            {"source_digests": False},
            {"parallelism": 1},
        ],
    )
    def test_options_that_were_edited_are_refused_whatever_else_was_edited_with_them(self, planned, dry, change):
        """What the file says of each operator follows from its options, and agrees with them."""

        def everywhere(data):
            data["options"].update(change)
            for operator in data["operators"]:
                operator.update({name: value for name, value in change.items() if name in operator})

        edit(planned, everywhere)

        ran = dry("--json")

        assert (1, "PlanChanged") == (ran.status, ran.data["error"]["type"])
        assert "options: they were edited after the plan was made" in ran.data["error"]["differences"]

    def test_a_plan_of_a_release_that_did_not_say_its_options_is_carried_out(self, planned, dry):
        edit(planned, lambda data: data.pop("options_sha256"))

        assert 0 == dry().status

    def test_a_limit_may_be_edited(self, planned, dry):
        edit(planned, lambda data: data["options"].update(max_bad_values=7))

        assert 0 == dry().status

    def test_differences_are_facts_of_the_error_in_json(self, planned, dry):
        edit(planned, lambda data: data["operators"][0]["states"][2].update(action="drop"))

        ran = dry("--json")

        assert "PlanChanged" == ran.data["error"]["type"]
        assert ["operator account-state, state account: action: drop in the plan, convert here"] == (
            ran.data["error"]["differences"]
        )

    @pytest.mark.parametrize(
        ("text", "status", "message"),
        [
            ("", 3, "not valid JSON"),
            ('{"format": "stateshift plan", "version": 2}', 3, "has version 2, but this release reads 1"),
            ('{"format": "stateshift plan", "version": 1}', 3, "the document lacks 'source'"),
            ("[" * 50_000, 3, "it is nested too deep"),
        ],
    )
    def test_what_is_no_plan_is_unreadable_input(self, planned, dry, text, status, message):
        planned.write_text(text, encoding="utf-8")

        ran = dry()

        assert status == ran.status
        assert message in ran.stderr
        assert f"file {planned}" in ran.stderr

    def test_a_plan_that_is_not_there_is_reported(self, planned, dry):
        planned.unlink()

        ran = dry()

        assert 3 == ran.status
        assert "there is no file plan.json" in ran.stderr
        assert "what to do: check its name" in ran.stderr

    def test_reading_a_plan_imports_nothing_but_its_job(self, planned, dry, example_jobs):
        """A plan is input: a converter or a writer in it is a name to compare, and no module to load."""
        (example_jobs / "bomb.py").write_text("raise SystemExit('imported')\n", encoding="utf-8")

        def plant(data):
            for state in data["operators"][0]["states"]:
                for rewrite in state["rewrites"]:
                    rewrite.update(converter="bomb.explode", reader="fallback bomb.Reader", writer="bomb.Writer")

        edit(planned, plant)

        ran = dry()

        assert 1 == ran.status
        assert "converter: bomb.explode in the plan, nothing here" in ran.stderr
        assert "bomb" not in sys.modules

    def test_functions_that_merge_are_found_and_named(self, run, savepoint_of, planned, dry, example_jobs):
        (example_jobs / "merging.py").write_text("def add(one, other):\n    return one + other\n", encoding="utf-8")
        merge = ["--repartition", "--max-parallelism", "1000", "--merge", "version-free=merging:add"]
        run("plan", savepoint_of(SOURCE), *merge, "-o", planned)
        del sys.modules["merging"]
        sys.path.remove(str(example_jobs))

        ran = dry()

        assert 0 == ran.status
        assert "; it grants permissions that are off by default: to import merging:add\n" in ran.stderr

    def test_where_the_types_stay_no_job_is_loaded(self, run, savepoint_of, planned, dry):
        run("plan", savepoint_of(SOURCE), "--parallelism", "4", "-o", planned)

        ran = dry("--json")

        assert 0 == ran.status
        assert {4} == {operator["parallelism"] for operator in ran.data["plan"]["operators"]}


def test_files_that_differ_only_in_their_place_are_the_same_plan(run, savepoint_of, savepoint_copy, example_jobs):
    moved = savepoint_copy(SOURCE)
    run("plan", savepoint_of(SOURCE), "--job", "accounts_v3:job", "-o", "plan.json")

    ran = run("migrate", moved, example_jobs / "new", "--plan", "plan.json", "--dry-run")

    assert 0 == ran.status
