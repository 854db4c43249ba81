"""The gate's answer as SARIF, for tools that collect findings, such as GitHub's code scanning.

Source: SARIF 2.1.0 (OASIS), sections 3.13 to 3.52; and what code scanning takes of it: descriptions of every rule, one
physical location with a whole region, and a fingerprint, without which all results of one rule would be one alert.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from ...compat.explain import finding_line
from ...compat.rules import rule_book
from ...serializers.escaping import one_line
from .gate import failure_text, state_title, told

if TYPE_CHECKING:
    from ...compat.gate.levels import Failure, GateReport, StateGate
    from ...serializers.compatibility import Finding

_REGION = {"startLine": 1, "startColumn": 1, "endLine": 1, "endColumn": 1}
"""A state is declared somewhere in the job's module; no snapshot tells in which line."""


def sarif(report: GateReport, file: str, version: str) -> dict[str, Any]:
    """Give a report as a SARIF log: one result for each finding that stands against a state, or that is to be told.

    What an override lets pass is there too, as suppressed, with its reason. What becomes of a state that does not fail
    for it, a migration or a loss that is allowed, is a note.

    Args:
        report: What was found.
        file: Where results point to: the module of the job, from the root of the repository.
        version: Of this release.
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
    """Describe the rule of a finding; one of a serializer of the user's own is in no book, and told by the finding."""
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
    """Give lines as SARIF's messages are: escaped, for they are shown to people by other tools."""
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
