"""Formatting of the gate's report as SARIF, for tools that collect findings, such as GitHub's code scanning.

Source: SARIF 2.1.0 (OASIS), sections 3.13 to 3.52; and the requirements of code scanning: descriptions of every rule,
one physical location with a whole region, and a fingerprint, without which all results of one rule would be one alert.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from ...compat.explain import finding_line
from ...compat.rules import rule_book
from ...serializers.wording import one_line
from .gate import failure_text, state_title, told

if TYPE_CHECKING:
    from ...compat.gate.levels import Failure, GateReport, StateGate
    from ...serializers.compatibility import Finding

_REGION = {"startLine": 1, "startColumn": 1, "endLine": 1, "endColumn": 1}
"""States are declared somewhere in the job's module; snapshots do not know the line."""


def sarif(report: GateReport, file: str, version: str) -> dict[str, Any]:
    """Return a report as a SARIF log: one result for each finding that is a failure or has to be shown.

    Overridden failures are included as suppressed results, with their reason. Changes that are no failures, such as a
    migration or an allowed loss, are notes.

    Args:
        report: The report to print.
        file: The location of all results: the module of the job, from the root of the repository.
        version: The version of this release.
    """
    failed = [
        (finding, _failed(state, failure, finding, file))
        for state in report.states
        for failure in state.failures
        for finding in failure.against
    ]
    noted = [
        (finding, _result(state, sentence, finding, file, level="note", identity=sentence))
        for state in report.states
        for sentence, findings in told(state)
        for finding in findings
    ]
    found = failed + noted
    rules = {finding.rule: _rule(finding) for finding, _ in found}
    identifiers = sorted(rules)
    driver = {"name": "stateshift", "version": version, "rules": [rules[identifier] for identifier in identifiers]}
    results = [result | {"ruleIndex": identifiers.index(finding.rule)} for finding, result in found]
    return {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}],
    }


def _rule(finding: Finding) -> dict[str, Any]:
    """Return the rule of a finding; a rule of a user's serializer is not in the book, so the finding describes it."""
    rule = rule_book().get(finding.rule)
    short = rule.holds or f"{rule.change}: {rule.verdict}" if rule else finding.reason
    why = rule.why if rule else finding.reason
    return {
        "id": finding.rule,
        "shortDescription": _text(short),
        "fullDescription": _text(f"{short}. {why}" if rule else why),
        "help": _text(why),
    }


def _text(*lines: str) -> dict[str, str]:
    """Return lines as a SARIF message, escaped, since other tools show them to people."""
    return {"text": "\n".join(map(one_line, lines))}


def _failed(state: StateGate, failure: Failure, finding: Finding, file: str) -> dict[str, Any]:
    level, identity = "warning" if state.passes else "error", f"{failure.revision}\n{failure.direction}"
    result = _result(state, failure_text(failure), finding, file, level=level, identity=identity)
    override = state.override_of(finding, failure)
    if override is None:
        return result
    suppression = {"kind": "external", "justification": one_line(f"{override.reason} (until {override.expires})")}
    return result | {"suppressions": [suppression]}


def _result(
    state: StateGate, sentence: str, finding: Finding, file: str, *, level: str, identity: str
) -> dict[str, Any]:
    place = f"{state.name}/{finding.path}"
    names = f"{place}\n{finding.rule}\n{identity}"
    digest = hashlib.sha256(names.encode("utf-8", "surrogatepass")).hexdigest()
    return {
        "ruleId": finding.rule,
        "level": level,
        "message": _text(f"{state_title(state)}: {sentence}", finding_line(finding)),
        "locations": [
            {
                "logicalLocations": [{"fullyQualifiedName": one_line(place)}],
                "physicalLocation": {
                    "artifactLocation": {"uri": quote(file, errors="surrogateescape")},
                    "region": _REGION,
                },
            }
        ],
        "partialFingerprints": {"primaryLocationLineHash": f"{digest[:16]}:1"},
    }
