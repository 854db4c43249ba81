"""History and gate on the command line: what is recorded, what a job is held against, and the statuses they leave."""

from __future__ import annotations

import json
import re
import subprocess
from xml.etree import ElementTree as ET

import pytest

pytestmark = pytest.mark.usefixtures("example_jobs")

START, REFUSE, USAGE, UNREADABLE, DRIFT = 0, 1, 2, 3, 5

GONE = tuple(word for at in ("$", "$[]", "${}") for word in ("--allow", f"drops:{at}.obsolete"))
"""Version 2 drops a field, which tests/cli/test_gated_changes.py covers; here it is allowed."""


@pytest.fixture
def recorded(run, example_jobs):
    """A history of two revisions: version 1 and version 3 of the accounts."""
    for version in (1, 3):
        assert START == run("snapshot", "--job", f"accounts_v{version}:job", "-m", f"Version {version}").status
    return example_jobs / "state_history"


def gate(run, version, against, *options):
    return run("check", "--job", f"accounts_v{version}:job", "--against", against, *options)


def settings(folder, text):
    (folder / "pyproject.toml").write_text(text, encoding="utf-8")


def in_text(text):
    """State, path and rule of each line that a person reads, under the state's title."""
    found, state = set(), ""
    is_failure = False
    for line in text.splitlines():
        if titled := re.match(r"(\S+): refuse", line):
            state = titled[1]
        elif re.match(r"  \S", line):
            is_failure = line.startswith(("  backward: ", "  forward: "))
        elif is_failure and (finding := re.match(r"    (\S+) .*\[(\S+)\]", line)):
            found.add((state, finding[1], finding[2]))
    return found


def in_annotations(text):
    lines = re.findall(r"::error file=accounts_v4.py,title=(\S+)%3A .*?::(.*)", text)
    return {(state, *found) for state, told in lines for found in re.findall(r"(?:^|%0A)(\S+) .*?\[(\S+?)\]", told)}


def in_junit(text):
    cases = ((case, case.find("failure")) for case in ET.fromstring(text).iter("testcase"))  # noqa: S314 - ours
    return {
        (f"{case.get('classname')}/{case.get('name')}", *re.search(r": (\S+) .*\[(\S+)\]", line).groups())
        for case, failure in cases
        if failure is not None
        for line in failure.text.splitlines()
    }


def in_sarif(text):
    (run,) = json.loads(text)["runs"]
    refused = [one for one in run["results"] if one["level"] == "error"]
    places = [(one["locations"][0]["logicalLocations"][0], one["ruleId"]) for one in refused]
    return {(*place["fullyQualifiedName"].rsplit("/", 1), rule) for place, rule in places}


def in_markdown(text):
    blocks = re.findall(r"(?ms)^#### `(\S+)`\n(.*?)(?=^####|\Z)", text)
    return {
        (place, path, rule)
        for place, told in blocks
        for path, rule in re.findall(r"(?m)^\| `(\S+)` \| .*\\\[([A-Z\d-]+)\\\]", told)
    }


READ_FORMS = {"markdown": in_markdown, "text": in_text, "github": in_annotations, "junit": in_junit, "sarif": in_sarif}


class TestHistory:
    def test_revisions_are_files_with_number_and_message(self, recorded):
        assert ["0001_version_1.json", "0002_version_3.json"] == sorted(file.name for file in recorded.iterdir())

    def test_the_same_again_records_nothing(self, run, recorded):
        """CI-4."""
        ran = run("snapshot", "--job", "accounts_v3:job", "-m", "Again")

        assert (START, "nothing to record: unchanged since 0002_version_3\n") == (ran.status, ran.stdout)
        assert 2 == len(list(recorded.iterdir()))

    def test_a_likely_rename_is_proposed(self, run, recorded):
        """K17: in the file and on the screen; nothing applies it."""
        ran = run("show", "head", "--json")

        assert any("Field(aliases=['obsolete'])" in note for note in ran.data["notes"])

    @pytest.mark.usefixtures("recorded")
    def test_the_list_marks_the_head(self, run):
        ran = run("history")

        assert "0002_version_3 *" in ran.stdout
        assert ["0001_version_1"] == [one["revision"] for one in run("history", "--json").data["revisions"]][:1]
        assert "0002_version_3  Version 3\n" == run("heads").stdout

    def test_two_heads_are_reported_and_merged(self, run, recorded):
        """K18: a branch that was made before version 3 was recorded has added version 2."""
        hidden = recorded / "0002_version_3.json"
        text = hidden.read_text(encoding="utf-8")
        hidden.unlink()
        run("snapshot", "--job", "accounts_v2:job", "-m", "Version 2")
        hidden.write_text(text, encoding="utf-8")

        for command in (["heads"], ["check", "--job", "accounts_v3:job", "--against", "state_history"]):
            ran = run(*command)
            assert USAGE == ran.status
            assert "0002_version_2 and 0002_version_3 are both heads" in ran.stderr
            assert "--merge" in ran.stderr
        drifted = gate(run, 1, "0001")
        assert (DRIFT, True) == (drifted.status, "-m MESSAGE --merge; then commit" in drifted.stderr)
        assert START == run("snapshot", "--job", "accounts_v3:job", "-m", "Merged", "--merge").status
        assert "0003_merged  Merged\n" == run("heads").stdout

    def test_an_edited_file_is_refused(self, run, recorded):
        file = recorded / "0001_version_1.json"
        file.write_text(json.dumps(json.loads(file.read_text()) | {"message": "Nothing to see"}))
        ran = run("history")

        assert UNREADABLE == ran.status
        assert "it was edited" in ran.stderr
        assert "0001_version_1.json" in ran.stderr

    def test_an_empty_history_says_how_to_begin(self, run):
        ran = run("history")

        assert START == ran.status
        assert "next: stateshift snapshot --job" in ran.stdout


class TestGate:
    def test_what_passes_and_is_recorded_is_accepted(self, run, recorded):
        ran = gate(run, 3, recorded)

        assert (START, "") == (ran.status, ran.stderr)
        assert ran.stdout.startswith("accept: every state is compatible with its history\n")

    def test_what_passes_and_is_not_recorded_is_drift(self, run, recorded):
        ran = gate(run, 2, "0001", *GONE)

        assert DRIFT == ran.status
        assert ran.stdout.startswith("accept: ")
        assert "differs from revision 0002_version_3" in ran.stderr
        assert START == gate(run, 2, "0001", *GONE, "--allow-drift").status

    def test_what_fails_is_refused_with_path_rule_and_ways_out(self, run, recorded):
        ran = gate(run, 4, recorded)

        assert REFUSE == ran.status
        assert ran.stdout.startswith("refuse: 4 of 6 states and keys\n")
        assert "  backward: the job cannot take over the state of 0002_version_3\n" in ran.stdout
        assert "$.visits  long -> int" in ran.stdout
        assert "ways out: " in ran.stdout

    def test_the_way_back_is_asked_at_level_full(self, run, recorded):
        ran = gate(run, 3, "1", "--level", "full")

        assert REFUSE == ran.status
        assert "  forward: 0001_version_1 could not take the state back\n" in ran.stdout
        assert "give up the way back: a level of BACKWARD" in ran.stdout

    @pytest.mark.usefixtures("recorded")
    def test_drift_is_from_the_history_in_the_working_tree_whatever_the_job_is_held_against(self, run):
        """As in a pull request that records its revision, held against the branch that it is merged into."""
        ran = gate(run, 3, "0001", *GONE)

        assert (START, "") == (ran.status, ran.stderr)

    def test_what_the_gate_refuses_is_reported_when_it_is_recorded(self, run, recorded):
        ran = run("snapshot", "--job", "accounts_v4:job", "-m", "Back")

        assert START == ran.status
        assert "$.visits  long -> int" in ran.stderr
        assert "it is recorded anyway" in ran.stderr

    @pytest.mark.usefixtures("recorded")
    def test_annotations_stand_at_the_module_of_the_job(self, run):
        assert "::error file=accounts_v4.py,title=" in gate(run, 4, "2", "--format", "github").stdout

    @pytest.mark.usefixtures("recorded")
    def test_drift_is_an_annotation_too(self, run):
        ran = gate(run, 2, "1", *GONE, "--format", "github")

        line = (
            "::error file=accounts_v2.py,title=not recorded::job accounts_v2:job differs from revision 0002_version_3"
        )
        assert (DRIFT, True) == (ran.status, line in ran.stdout)
        assert "::error" not in gate(run, 2, "1", *GONE, "--format", "github", "--allow-drift").stdout
        assert "::error" not in gate(run, 3, "1", *GONE, "--format", "github").stdout

    @pytest.mark.usefixtures("recorded")
    def test_strict_allows_no_migration(self, run):
        assert REFUSE == gate(run, 3, "1", "--strict").status

    def test_json_holds_the_same(self, run, recorded):
        ran = gate(run, 4, recorded, "--json")

        assert (REFUSE, REFUSE, False) == (ran.status, ran.data["exit_status"], ran.data["passes"])
        failing = {f"{one['operator']}/{one['state']}" for one in ran.data["states"] if not one["passes"]}
        assert "account-state/account" in failing
        assert "account-state/version-free" not in failing

    def test_report_formats(self, run, recorded, example_jobs):
        """I16: text, JSON, annotations, JUnit, Markdown and SARIF carry the same problems."""
        settings(example_jobs, '[tool.stateshift]\njob = "accounts_v4:job"\n')

        def printed(form):
            return gate(run, 4, recorded, "--all", "--format", form).stdout

        problems = {
            (f"{state['operator']}/{state['state']}", finding["path"], finding["rule"])
            for state in gate(run, 4, recorded, "--json").data["states"]
            for failure in state["failures"]
            for finding in failure["against"]
        }
        fields = ("visits", "score", "email")
        assert {f"{at}.{name}" for at in ("$", "$[]", "${}") for name in fields} == {path for _, path, _ in problems}
        assert 12 == len(problems)

        shown = {form: of_form(printed(form)) for form, of_form in READ_FORMS.items()}
        assert dict.fromkeys(READ_FORMS, problems) == shown

    def test_sarif_points_to_the_job_and_shows_the_rules(self, run, recorded, example_jobs):
        override = 'state = "account-state/account"\nrule = "PRIM-3"\nreason = "emptied"\nexpires = 2999-12-31\n'
        settings(example_jobs, f'[tool.stateshift]\njob = "accounts_v4:job"\n[[tool.stateshift.overrides]]\n{override}')
        ran = gate(run, 4, recorded, "--format", "sarif")

        (log,) = ran.data["runs"]
        first, *others = (one for one in log["results"] if one["ruleId"] == "PRIM-3")
        assert (REFUSE, "2.1.0") == (ran.status, ran.data["version"])
        assert ["PRIM-3", "REC-4"] == [rule["id"] for rule in log["tool"]["driver"]["rules"]]
        assert "accounts_v4.py" == first["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
        assert [{"kind": "external", "justification": "emptied (until 2999-12-31)"}] == first["suppressions"]
        assert {"error"} == {result["level"] for result in log["results"]}
        assert not any("suppressions" in result for result in others)

    def test_a_savepoint_a_record_and_a_job_are_revisions_too(self, run, savepoint_of, example_jobs):
        run("snapshot", "--job", "accounts_v3:job", "-o", example_jobs / "v3.json")

        assert START == gate(run, 3, savepoint_of("rocksdb-account-v1"), *GONE).status
        assert START == gate(run, 3, "v3.json").status
        assert REFUSE == gate(run, 4, "accounts_v3:job").status

    def test_a_git_reference_is_the_history_as_it_was_there(self, run, recorded, example_jobs):
        def git(*arguments):
            identity = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
            subprocess.run(["git", *identity, *arguments], cwd=example_jobs, check=True, capture_output=True)

        later = recorded / "0002_version_3.json"
        text = later.read_text(encoding="utf-8")
        later.unlink()
        git("init", "-q")
        git("add", "state_history")
        git("commit", "-q", "-m", "one")
        later.write_text(text, encoding="utf-8")

        assert ["0001_version_1"] == gate(run, 3, "HEAD", "--json").data["revisions"]
        assert ["0001_version_1", "0002_version_3"] == gate(run, 3, "head", "--json").data["revisions"]

    @pytest.mark.usefixtures("recorded")
    def test_a_stamp_names_what_runs_somewhere(self, run):
        assert "production is at 0001_version_1\n" == run("stamp", "production", "1").stdout
        assert ["0001_version_1"] == gate(run, 3, "production", "--json").data["revisions"]
        assert START == run("stamp", "production", "head").status
        assert 2 == len(gate(run, 3, "production", "--json").data["revisions"])
        assert USAGE == run("stamp", "head", "1").status

    @pytest.mark.usefixtures("recorded")
    def test_what_is_unknown_is_wrong_usage(self, run):
        ran = gate(run, 3, "nowhere")

        assert USAGE == ran.status
        assert "0001_version_1, 0002_version_3" in ran.stderr

    def test_the_hook_of_pre_commit_is_such_a_run(self, run, recorded, root):
        hook = (root / ".pre-commit-hooks.yaml").read_text(encoding="utf-8")
        program, *words = re.search(r"entry: (.*)", hook)[1].split()

        assert ("stateshift", recorded.name) == (program, words[-1])
        assert START == run(*words, "--job", "accounts_v3:job").status
        assert REFUSE == run(*words, "--job", "accounts_v4:job").status

    @pytest.mark.parametrize("both", [True, False])
    def test_either_a_savepoint_or_a_history(self, run, savepoint_of, both):
        more = [savepoint_of("rocksdb-account-v1"), "--against", "1"] if both else []
        ran = run("check", *more, "--job", "accounts_v3:job")

        assert USAGE == ran.status
        assert "either SAVEPOINT or --against PLACE" in ran.stderr

    @pytest.mark.parametrize("option", [["--allow-migration"], ["--allow-empty", "x"], ["--repartition"]], ids=str)
    def test_what_is_for_a_savepoint_is_not_passed_over(self, run, recorded, option):
        ran = gate(run, 3, recorded, *option)

        assert USAGE == ran.status
        assert f"{option[0]} applies only to a savepoint; leave it out with --against" in ran.stderr


class TestProject:
    def test_levels_of_the_project_an_operator_and_a_state(self, run, recorded, example_jobs):
        settings(
            example_jobs,
            '[tool.stateshift]\nlevel = "NONE"\n[tool.stateshift.levels]\n'
            'account-state = "FULL_TRANSITIVE"\n"account-state/account" = "BACKWARD"\n',
        )
        ran = gate(run, 3, recorded, "--json")

        levels = {(one["operator"], one["state"]): (one["level"], one["set_for"]) for one in ran.data["states"]}
        assert ("BACKWARD", "account-state/account") == levels["account-state", "account"]
        assert ("FULL_TRANSITIVE", "account-state") == levels["account-state", "accounts"]
        assert ("NONE", "project") == levels["account-state-lists", "pending"]
        assert REFUSE == ran.status

    def test_an_override_lets_pass_until_it_expires_and_is_printed(self, run, recorded, example_jobs):
        """CI-6."""
        override = '[[tool.stateshift.overrides]]\nstate = "{}"\nrule = "PRIM-3"\nreason = "emptied"\nexpires = {}\n'
        names = ["account-state/account", "account-state/accounts", "account-state/account-by-name"]
        names.append("account-state-lists/pending")
        fields = [f'"drops:{at}.{name}"' for at in ("$", "$[]", "${}") for name in ("score", "email")]
        allow = f"[tool.stateshift]\nallow = [{', '.join(fields)}]\n"
        settings(example_jobs, allow + "".join(override.format(name, "2999-12-31") for name in names))
        ran = gate(run, 4, recorded, "--allow-drift", "--all")
        assert START == ran.status
        assert 4 == ran.stdout.count("accepted until 2999-12-31: PRIM-3, emptied")

        settings(example_jobs, "".join(override.format(name, "2020-01-01") for name in names))
        ran = gate(run, 4, recorded)
        assert REFUSE == ran.status
        assert "accepted since 2020-01-01" in ran.stdout

    def test_the_folder_of_the_history_is_a_setting(self, run, example_jobs):
        settings(example_jobs, '[tool.stateshift]\nhistory = "db/revisions"\n')
        run("snapshot", "--job", "accounts_v1:job", "-m", "First")

        assert (example_jobs / "db" / "revisions" / "0001_first.json").is_file()

    @pytest.mark.parametrize(
        ("text", "words"),
        [
            ('level = "SIDEWAYS"', "'SIDEWAYS' is not a level; levels are NONE, BACKWARD"),
            ("levl = 1", "has 'levl', which is not a setting"),
            ("job = 1", "'job' is 1"),
            ("overrides = [{}]", "an override is {}"),
            ("level = ", "not valid TOML"),
        ],
    )
    def test_a_wrong_setting_is_reported_with_its_file(self, run, recorded, example_jobs, text, words):
        settings(example_jobs, f"[tool.stateshift]\n{text}\n")
        ran = gate(run, 3, recorded)

        assert USAGE == ran.status
        assert words in ran.stderr
        assert "pyproject.toml" in ran.stderr

    @pytest.mark.parametrize(
        ("text", "words"),
        [
            ('[tool.stateshift.levels]\n"account-stat" = "FULL"', "names 'account-stat'"),
            ('[tool.stateshift.levels]\n"account-state/acount" = "FULL"', "names 'account-state/acount'"),
            ('{override}account"\nrule = "REC-33"{rest}', "the rule 'REC-33'"),
            ('{override}acount"\nrule = "REC-3"{rest}', "names 'account-state/acount'"),
        ],
    )
    def test_what_is_for_nothing_is_reported(self, run, recorded, example_jobs, text, words):
        rest = '\nreason = "x"\nexpires = 2999-12-31\n'
        text = text.replace("{override}", '[[tool.stateshift.overrides]]\nstate = "account-state/').replace(
            "{rest}", rest
        )
        settings(example_jobs, text)
        ran = gate(run, 3, recorded)

        assert USAGE == ran.status
        assert words in ran.stderr


UNFIT = """
from accounts_v3 import *
from stateshift import Job, Operator, ValueStateDescriptor

def fails(value):
    raise ValueError("never")

def job_of(state):
    return Job([Operator("account-state", key=int, states=[state])])

fails_to_convert = job_of(ValueStateDescriptor("account", Account, converter=fails))
is_incompatible = job_of(ValueStateDescriptor("account", str))
"""


@pytest.mark.parametrize(
    ("status", "arguments"),
    [
        (0, ["check", "SAVEPOINT", "--job", "accounts_v1:job"]),
        (0, ["check", "SAVEPOINT", "--job", "accounts_v3:job", "--allow-migration"]),
        (0, ["check", "--job", "accounts_v3:job", "--against", "head"]),
        (0, ["check", "--job", "accounts_v2:job", "--against", "1", "--allow-drift", *GONE]),
        (1, ["check", "--job", "accounts_v2:job", "--against", "1"]),
        (1, ["check", "SAVEPOINT", "--job", "unfit:is_incompatible"]),
        (1, ["check", "--job", "accounts_v4:job", "--against", "head"]),
        (1, ["check", "--job", "accounts_v3:job", "--against", "1", "--strict"]),
        (1, ["verify", "HURT"]),
        (2, ["check", "--job", "accounts_v3:job", "--against", "nowhere"]),
        (2, ["check", "SAVEPOINT", "--job", "accounts_v9:job"]),
        (3, ["check", "no-savepoint", "--job", "accounts_v3:job"]),
        (3, ["inspect", "CUT"]),
        (4, ["check", "SAVEPOINT", "--job", "accounts_v3:job"]),
        (5, ["check", "--job", "accounts_v2:job", "--against", "1", *GONE]),
        (6, ["migrate", "SAVEPOINT", "NEW", "--job", "unfit:fails_to_convert", "--dry-run"]),
    ],
)
@pytest.mark.usefixtures("recorded")
def test_exit_codes(run, damage, savepoint_of, savepoint_copy, example_jobs, tmp_path, status, arguments):
    """I15: 0 start, 1 refuse, 2 wrong usage, 3 unreadable, 4 migrate first, 5 drift, 6 the run failed."""
    (example_jobs / "unfit.py").write_text(UNFIT, encoding="utf-8")
    places = {"SAVEPOINT": savepoint_of("rocksdb-account-v1"), "NEW": tmp_path / "new"}
    if "CUT" in arguments:
        places["CUT"] = savepoint_copy("rocksdb-account-v1")
        damage(places["CUT"] / "_metadata", cut=100)
    if "HURT" in arguments:
        places["HURT"] = savepoint_copy("hashmap-string-p2-m128-files")
        next(file for file in places["HURT"].iterdir() if file.name != "_metadata").unlink()

    ran = run(*(places.get(argument, argument) for argument in arguments))

    assert status == ran.status, ran.stderr
    assert not (tmp_path / "new").exists()
