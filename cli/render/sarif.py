"""The report of any check as SARIF, for tools that collect findings, such as GitHub's code scanning.

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

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ...compat.gate.levels import Override
    from ...serializers.compatibility import Finding
    from .forms import Entry, Place

_REGION = {"startLine": 1, "startColumn": 1, "endLine": 1, "endColumn": 1}
"""States are declared somewhere in the job's module; snapshots do not know the line."""


def sarif(places: Iterable[Place], version: str, *, elsewhere: str) -> dict[str, Any]:
    """Return a report as a SARIF log: one result for each finding, or for what is said without one.

    Findings that an override accepts are included as suppressed results, with its reason.

    Args:
        places: The report.
        version: The version of this release.
        elsewhere: The file of a place whose module is not known.
    """
    results, rules = [], {}
    for place in places:
        for entry in place.entries:
            overrides = entry.overrides or (None,) * len(entry.findings)
            for finding, override in zip(entry.findings or (None,), overrides or (None,), strict=True):
                one = _result(place, entry, finding, place.file or elsewhere)
                rules[one["ruleId"]] = _rule(finding) if finding else _described(entry.name, entry.sentence)
                results.append(one | ({} if override is None else _suppressed(override)))
    identifiers = sorted(rules)
    driver = {"name": "stateshift", "version": version, "rules": [rules[identifier] for identifier in identifiers]}
    results = [result | {"ruleIndex": identifiers.index(result["ruleId"])} for result in results]
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
    return _described(finding.rule, short, why, full=f"{short}. {why}" if rule else why)


def _described(identifier: str, short: str, why: str = "", full: str = "") -> dict[str, Any]:
    return {
        "id": identifier,
        "shortDescription": _text(short),
        "fullDescription": _text(full or short),
        "help": _text(why or short),
    }


def _text(*lines: str) -> dict[str, str]:
    """Return lines as a SARIF message, escaped, since other tools show them to people."""
    return {"text": "\n".join(map(one_line, lines))}


def _suppressed(override: Override) -> dict[str, Any]:
    reason = one_line(f"{override.reason} (until {override.expires})")
    return {"suppressions": [{"kind": "external", "justification": reason}]}


def _result(place: Place, entry: Entry, finding: Finding | None, file: str) -> dict[str, Any]:
    rule, at = (finding.rule, f"/{finding.path}") if finding else (entry.name, "")
    named = f"{place.operator}/{place.state}{at}"
    digest = hashlib.sha256(f"{named}\n{rule}\n{entry.name}".encode("utf-8", "surrogatepass")).hexdigest()
    lines = [place.says(entry), finding_line(finding) if finding else place.about]
    return {
        "ruleId": rule,
        "level": entry.level,
        "message": _text(*filter(None, lines)),
        "locations": [
            {
                "logicalLocations": [{"fullyQualifiedName": one_line(named)}],
                "physicalLocation": {
                    "artifactLocation": {"uri": quote(file, errors="surrogateescape")},
                    "region": _REGION,
                },
            }
        ],
        "partialFingerprints": {"primaryLocationLineHash": f"{digest[:16]}:1"},
    }
