"""Reports on very many states stay small files: what does not change folds, and what is the same is told once."""

from __future__ import annotations

import attrs
import pytest

from stateshift import Int32, Job, Operator, ValueStateDescriptor, record
from stateshift.compat.check import check
from stateshift.compat.pages.check import check_pieces
from stateshift.compat.pages.pieces import Commands
from stateshift.compat.pages.rendering import page

OPERATORS, STATES, FIELDS = 50, 10, 40
MOST_BYTES = 2_000_000


def job_of(changed, *, is_new):
    """A job with 500 states, each of a class of its own with 40 fields; the first ones are to become longs."""

    def class_of(at):
        wider = int if is_new else Int32
        kinds = {f"field_{number:02}_of_{at:03}": wider if number < changed else str for number in range(FIELDS)}
        made = attrs.make_class(f"Order{at}", {name: attrs.field(type=kind) for name, kind in kinds.items()})
        made.__annotations__, made.__module__ = kinds, "shop.model"
        return record()(made)

    def states_of(operator):
        numbers = range(operator * STATES, operator * STATES + STATES)
        return [ValueStateDescriptor(f"state-{at}", class_of(at)) for at in numbers]

    return Job([Operator(f"operator-{at}", key=int, states=states_of(at)) for at in range(OPERATORS)])


@pytest.mark.slow
@pytest.mark.parametrize("changed", [4, FIELDS])
def test_five_hundred_states_of_forty_fields_are_less_than_two_megabytes(opened, tmp_path, changed):
    report = check(job_of(changed, is_new=False).describe(), job_of(changed, is_new=True).describe())
    text = page(
        "500 states", check_pieces(report, Commands("stateshift check", "stateshift migrate")), made_by="a test"
    )
    file = tmp_path / "report.html"
    file.write_text(text, encoding="utf-8")

    assert len(text.encode()) < MOST_BYTES
    assert opened(file).locator("details.subject.subject").count() == OPERATORS * STATES + OPERATORS
