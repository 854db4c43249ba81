"""What the gate prints for tools: SARIF as its schema and code scanning require, JUnit XML as CI servers do."""

from __future__ import annotations

import datetime as dt
from xml.etree import ElementTree as ET

import pytest
from pydantic_sarif.model import StaticAnalysisResultsFormatSarifVersion210JsonSchema as SarifLog

from stateshift import Int32, Job, Operator, ValueStateDescriptor
from stateshift.cli.render.forms import junit, of_gate
from stateshift.cli.render.markdown import Head, markdown
from stateshift.cli.render.sarif import sarif
from stateshift.compat.description import StateKind
from stateshift.compat.gate.levels import Level, Levels, Override, Revision, judge

TODAY = dt.date(2026, 3, 1)
ODD = 'a\x00b\x1b[1m<"&>\ud800'


def job(value, other=int, *, key=str, name="open"):
    states = [ValueStateDescriptor(name, value), ValueStateDescriptor("other", other)]
    return Job([Operator("shop", key=key, states=states)]).describe("job")


def gate(*history, new, overrides=()):
    revisions = [Revision(f"{number:04}", one) for number, one in enumerate(history, 1)]
    return judge(revisions, new, Levels(Level.FULL_TRANSITIVE), today=TODAY, overrides=overrides)


def as_sarif(report, file="jobs/orders.py"):
    return sarif(of_gate(report, file), "1.0", elsewhere="pyproject.toml")


@pytest.fixture
def refused():
    """Two revisions against a state, one against another, and a failure that an override lets pass."""
    key = Override("shop/<key>", "ROLE-2", "rekeyed", TODAY)
    return gate(job(str), job(bool, Int32), new=job(int, key=int), overrides=[key])


@pytest.fixture
def accepted():
    return gate(job(int), new=job(int))


class TestSarif:
    @pytest.mark.parametrize("answer", ["refused", "accepted"])
    def test_it_is_as_the_schema_says_and_holds_nothing_else(self, answer, request):
        log = as_sarif(request.getfixturevalue(answer))

        assert "2.1.0" == SarifLog.model_validate(log).version.value

    def test_it_has_all_that_code_scanning_requires(self, refused):
        (run,) = as_sarif(refused)["runs"]

        for rule in run["tool"]["driver"]["rules"]:
            assert rule["id"]
            assert all(0 < len(rule[name]["text"]) <= 1024 for name in ("shortDescription", "fullDescription", "help"))
        for result in run["results"]:
            place = result["locations"][0]["physicalLocation"]
            assert result["message"]["text"]
            assert "jobs/orders.py" == place["artifactLocation"]["uri"]
            assert {"startLine", "startColumn", "endLine", "endColumn"} == place["region"].keys()
            assert result["ruleId"] == run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"]

    def test_each_result_is_an_alert_of_its_own_and_the_same_in_every_run(self, refused):
        def prints():
            (run,) = as_sarif(refused, "orders.py")["runs"]
            return [one["partialFingerprints"]["primaryLocationLineHash"] for one in run["results"]]

        assert len(set(prints())) == len(prints()) > 3
        assert prints() == prints()

    def test_what_the_override_of_a_key_covers_is_suppressed(self, refused):
        (run,) = as_sarif(refused, "orders.py")["runs"]

        suppressed = {one["ruleId"] for one in run["results"] if "suppressions" in one}
        of_key = {
            one["ruleId"]
            for one in run["results"]
            if one["locations"][0]["logicalLocations"][0]["fullyQualifiedName"].startswith("shop/<key>/")
        }
        assert {"ROLE-2", "PRIM-4"} == suppressed == of_key

    def test_a_rule_of_the_users_own_is_described_by_its_finding(self, make):
        old = make.job(make.state("s", StateKind.VALUE, make.Layout(1)))
        new = make.job(make.state("s", StateKind.VALUE, make.Layout(2, "refuses")))
        report = judge([Revision("1", old)], new, Levels(), today=TODAY)

        (rule,) = as_sarif(report, "orders.py")["runs"][0]["tool"]["driver"]["rules"]
        assert ("TEST-2", "never") == (rule["id"], rule["shortDescription"]["text"])

    def test_a_path_is_a_uri(self, refused):
        (run,) = as_sarif(refused, "my jobs/ö.py")["runs"]

        place = run["results"][0]["locations"][0]["physicalLocation"]
        assert "my%20jobs/%C3%B6.py" == place["artifactLocation"]["uri"]


class TestMarkdown:
    def test_it_fits_a_comment_and_says_what_it_leaves_out(self):
        def states(value):
            names = (f"s{number}" for number in range(600))
            return Job([Operator("shop", key=str, states=[ValueStateDescriptor(one, value) for one in names])])

        report = gate(states(str).describe("job"), new=states(int).describe("job"))
        folded, full = (markdown(Head("refuse"), of_gate(report), everything=one) for one in (False, True))

        assert 1 == folded.count("#### ")
        assert "the same at 599 other places: shop/s1, shop/s10" in folded
        assert 65_536 > len(full) > 50_000
        left = 600 - full.count("#### ")
        assert f"{left} more reports would be too long for GitHub; `--json` has all." in full

    def test_what_an_override_accepts_says_until_when_and_why(self, refused):
        text = markdown(Head("refuse"), of_gate(refused))

        assert text.index("`shop/open`") < text.index("`the key of operator shop`")  # failures come first
        assert "accepted until 2026-03-01: rekeyed |" in text


class TestJunit:
    def test_it_is_what_ci_servers_read(self, refused):
        root = ET.fromstring(junit(of_gate(refused)))  # noqa: S314 - ours
        (suite,) = root
        failing = [case for case in suite if case.find("failure") is not None]

        assert ("testsuites", "testsuite") == (root.tag, suite.tag)
        assert {"testcase"} == {case.tag for case in suite}
        assert all(case.keys() == ["classname", "name", "time"] for case in suite)
        for counted in (root, suite):
            assert {"tests": "3", "failures": "2", "errors": "0", "skipped": "0", "time": "0"} == {
                name: value for name, value in counted.items() if name != "name"
            }
        assert {"open", "other"} == {case.get("name") for case in failing}
        for case in failing:
            (failure,) = case
            assert "incompatible" == failure.get("type")
            assert failure.get("message").startswith("level FULL_TRANSITIVE: ")
            assert "backward 0002: $  " in failure.text or "forward 0002: $  " in failure.text

    def test_nothing_fails_where_all_is_accepted(self, accepted):
        (suite,) = ET.fromstring(junit(of_gate(accepted)))  # noqa: S314 - ours

        assert ("3", "0") == (suite.get("tests"), suite.get("failures"))
        assert not list(suite.iter("failure"))

    def test_a_name_that_xml_cannot_hold_is_escaped(self):
        text = junit(of_gate(gate(job(str, name=ODD), new=job(int, name=ODD))))

        names = {case.get("name") for case in ET.fromstring(text.encode()).iter("testcase")}  # noqa: S314 - ours
        assert r'a\x00b\x1b[1m<"&>\ud800' in names
