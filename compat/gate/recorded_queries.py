"""Recorded queries of Spark, beside the revisions of jobs: one sealed file per query, as it runs in production.

    state_history/queries/clicks.json
    {"format": "stateshift query", "version": 1, and the data of `queries/description.py`, "seal": …}

The caller reads and writes the files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from ...serializers.errors import CorruptFile, cause_text, located
from ..json_files import parse_document, print_sealed

if TYPE_CHECKING:
    from ..description import Computation, JobDescription
    from ..queries.plan_text import Detail

FORMAT, VERSION = "stateshift query", 1
FOLDER, SUFFIX = "queries/", ".json"


def query_text(query: JobDescription) -> str:
    """Return the text of the file of a query."""
    from ..queries.description import to_data

    return print_sealed(FORMAT, VERSION, to_data(query))


def read_query(text: str | bytes, origin: str) -> JobDescription:
    """Return the query in the text of a file.

    Raises:
        CorruptFile: It was edited, or is no description.
        UnsupportedFormat: A later release wrote it.
    """
    from ..queries.description import from_data

    with located(file=origin):
        facts = parse_document(text, FORMAT, VERSION, sealed_since=1)
        facts.require_unedited()
        try:
            return from_data(facts.rest(), origin)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise CorruptFile(f"the description of a query is damaged: {cause_text(error)}") from error


def same(one: JobDescription, other: JobDescription) -> bool:
    """Whether two descriptions are of the same operators and inputs, under whatever settings.

    Of one that an earlier release made, what it has is compared.
    """
    from ..queries.description import to_data

    one, other = _without_gaps(one, other), _without_gaps(other, one)
    if one.inputs is None or other.inputs is None:
        one, other = (
            attrs.evolve(
                of.computing(lambda operator: attrs.evolve(operator, details={}, unseen=())),
                sources=tuple(dict.fromkeys(of.sources)),
                inputs=None,
            )
            for of in (one, other)
        )
    ours, theirs = to_data(one), to_data(other)
    return all(ours.get(part) == theirs.get(part) for part in ("operators", "sources", "inputs"))


def _without_gaps(one: JobDescription, other: JobDescription) -> JobDescription:
    """Return a description without what an earlier release did not describe, if it made the other one."""
    theirs = {operator.number: operator for operator in other.computations}
    return one.computing(lambda of: _as_described(of, theirs.get(of.number)))


def _as_described(one: Computation, other: Computation | None) -> Computation:
    if other is None:
        return one
    details: dict[str, tuple[Detail, ...]] = {}
    for name, told in one.details.items():
        has_types = any(of.kind == "type" for of in other.details.get(name, ()))
        kept = tuple(of for of in told if has_types or of.kind != "type")
        details |= {name: kept} if kept else {}
    columns = {
        store: {path: text for path, text in texts.items() if "#" not in path or path in other.columns.get(store, {})}
        for store, texts in one.columns.items()
    }
    return attrs.evolve(one, details=details, columns=columns)
