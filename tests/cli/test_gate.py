"""History and gate on the command line: what is recorded, what a job is held against, and the statuses they leave."""

from __future__ import annotations

import json
import subprocess
from xml.etree import ElementTree as ET

import pytest

pytestmark = pytest.mark.usefixtures("example_jobs")

START, REFUSE, USAGE, UNREADABLE, DRIFT = 0, 1, 2, 3, 5


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


class TestHistory:
    def test_revisions_are_files_with_number_and_message(self, recorded):
        assert ["0001_version_1.json", "0002_version_3.json"] == sorted(file.name for file in recorded.iterdir())

    def test_the_same_again_records_nothing(self, run, recorded):
        """CI-4."""
        ran = run("snapshot", "--job", "accounts_v3:job", "-m", "Again")

        assert (START, "nothing to record: it is 0002_version_3\n") == (ran.status, ran.stdout)
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

    def test_two_heads_are_told_and_merged(self, run, recorded):
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
        assert ran.stdout.startswith("accept: every state gets along with its history\n")

    def test_what_passes_and_is_not_recorded_is_drift(self, run, recorded):
        ran = gate(run, 2, "0001")

        assert DRIFT == ran.status
        assert ran.stdout.startswith("accept: ")
        assert "differs from revision 0001_version_1" in ran.stderr
        assert START == gate(run, 2, "0001", "--allow-drift").status

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
    def test_strict_allows_no_migration(self, run):
        assert REFUSE == gate(run, 3, "1", "--strict").status

    def test_json_holds_the_same(self, run, recorded):
        ran = gate(run, 4, recorded, "--json")

        assert (REFUSE, REFUSE, False) == (ran.status, ran.data["exit_status"], ran.data["passes"])
        failing = {f"{one['operator']}/{one['state']}" for one in ran.data["states"] if not one["passes"]}
        assert "account-state/account" in failing
        assert "account-state/version-free" not in failing

    def test_annotations_and_junit_carry_the_same_problems(self, run, recorded):
        """I16."""
        data = gate(run, 4, recorded, "--json").data
        paths = {
            f["path"] for s in data["states"] for one in s["failures"] for f in one["findings"] if f["rule"] == "PRIM-3"
        }
        github = gate(run, 4, recorded, "--format", "github").stdout
        suite = ET.fromstring(gate(run, 4, recorded, "--format", "junit").stdout)  # noqa: S314 - written a line above

        assert {"$.visits", "$[].visits", "${}.visits"} == paths
        assert 4 == github.count("::error title=")
        assert all(path in github for path in paths)
        assert ("6", "4") == (suite.get("tests"), suite.get("failures"))
        assert all(any(path in failure.text for failure in suite.iter("failure")) for path in paths)

    def test_a_savepoint_a_record_and_a_job_are_revisions_too(self, run, savepoint_of, example_jobs):
        run("snapshot", "--job", "accounts_v3:job", "-o", example_jobs / "v3.json")

        assert DRIFT == gate(run, 3, savepoint_of("rocksdb-account-v1")).status
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
    def test_what_nobody_knows_is_a_wrong_usage(self, run):
        ran = gate(run, 3, "nowhere")

        assert USAGE == ran.status
        assert "0001_version_1, 0002_version_3" in ran.stderr

    @pytest.mark.parametrize("both", [True, False])
    def test_either_a_savepoint_or_a_history(self, run, savepoint_of, both):
        more = [savepoint_of("rocksdb-account-v1"), "--against", "1"] if both else []
        ran = run("check", *more, "--job", "accounts_v3:job")

        assert USAGE == ran.status
        assert "either SAVEPOINT or --against PLACE" in ran.stderr


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
        settings(example_jobs, "".join(override.format(name, "2999-12-31") for name in names))
        ran = gate(run, 4, recorded, "--allow-drift")
        assert START == ran.status
        assert 4 == ran.stdout.count("let pass until 2999-12-31: PRIM-3, emptied")

        settings(example_jobs, "".join(override.format(name, "2020-01-01") for name in names))
        ran = gate(run, 4, recorded)
        assert REFUSE == ran.status
        assert "let pass since 2020-01-01" in ran.stdout

    def test_the_folder_of_the_history_is_a_setting(self, run, example_jobs):
        settings(example_jobs, '[tool.stateshift]\nhistory = "db/revisions"\n')
        run("snapshot", "--job", "accounts_v1:job", "-m", "First")

        assert (example_jobs / "db" / "revisions" / "0001_first.json").is_file()

    @pytest.mark.parametrize(
        ("text", "words"),
        [
            ('level = "SIDEWAYS"', "'SIDEWAYS' is no level; levels are NONE, BACKWARD"),
            ("levl = 1", "has 'levl', which is no setting"),
            ("job = 1", "'job' is 1"),
            ("overrides = [{}]", "an override is {}"),
            ("level = ", "it is no TOML"),
        ],
    )
    def test_a_wrong_setting_is_told_with_its_file(self, run, recorded, example_jobs, text, words):
        settings(example_jobs, f"[tool.stateshift]\n{text}\n")
        ran = gate(run, 3, recorded)

        assert UNREADABLE == ran.status
        assert words in ran.stderr
        assert "pyproject.toml" in ran.stderr
