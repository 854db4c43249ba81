"""The verdict predicts the run: types, values and changes drawn at random, real savepoints, and a model of the book.

compatible             the new serializer reads the same values
after reconfiguration  the copy does
requires migration     the migrated values are those of the model
incompatible           refused; nothing is written, and the source is as it was
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from evolution import profiles, runs
from evolution.beginnings import beginnings, evolutions, lives
from evolution.declared import Declared
from evolution.runs import KEYED
from evolution.takeover import Takeover
from hypothesis import given, note
from hypothesis import strategies as st

from stateshift import Verdict

RULES = {
    "ENUM-2", "ENUM-3", "ENUM-4", "ENUM-5", "ENUM-6", "ENUM-7", "ENUM-8", "FAM-2", "FAM-4", "LIST-3", "MAP-3", "MAP-4",
    "OPT-1", "OPT-2", "PRIM-2", "PRIM-3", "PRIM-4", "READ-4", "REC-2", "REC-3", "REC-4", "REC-6", "REC-11", "ROW-3",
    "ROW-5", "STATE-4", "STATE-5", "TEXT-1", "TEXT-2", "TIME-2", "TIME-3", "TIME-4", "TIME-5", "TUP-3",
}  # fmt: skip
"""What thousands of random changes come to; `test_each_rule` comes to these, and to rarer ones, each time."""


def test_random_evolution():
    """K11: the verdict predicts the run."""
    verdicts, rules = set(), set()

    @profiles.profile
    @given(beginnings(), st.data())
    def holds(beginning, data):
        kind, shape, contents = beginning
        with tempfile.TemporaryDirectory() as place:
            state = runs.write(Path(place) / "v1", kind, Declared.of(shape), contents)
            names, code = data.draw(evolutions(kind, shape))
            note(" then ".join(names))
            takeover = Takeover.of(state, code, data.draw(lives))
            # Operator state would be redistributed to other subtasks, which is another test's matter.
            parallelism = data.draw(st.sampled_from([None, 1, 4])) if kind in KEYED else None
            takeover.run(Path(place) / "v2", parallelism=parallelism)
            if takeover.answer is not None:
                verdicts.add(Verdict(takeover.answer.verdict))
                rules.update(rule for _, rule in takeover.answer.findings)

    holds()

    few = profiles.examples < profiles.USUAL
    assert few or set(Verdict) - {Verdict.REQUIRES_MIGRATION_WITH_FALLBACK} <= verdicts
    assert few or len(RULES & rules) > len(RULES) // 3
    assert profiles.examples < profiles.NIGHTLY or (set(Verdict), set()) == (verdicts, RULES - rules)
