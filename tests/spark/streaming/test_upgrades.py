"""A running query is upgraded again and again, and goes back."""

from __future__ import annotations

import pytest

from stateshift import MigrationOptions
from stateshift.compat.edits import Edits
from stateshift.state.backends.restore_check import RestoreRefused

COLUMNS = "user string, amount long"
PRICES = """
from collections.abc import Iterator
from typing import Any
from stateshift import KeyedProcessFunction, ValueStateDescriptor

def to_cents(euros):
    return euros * 100

class Prices(KeyedProcessFunction):
    def open(self, runtime_context):
        self.total = runtime_context.get_state(ValueStateDescriptor("total", int{converter}))

    def process_element(self, value: Any, ctx: Any) -> Iterator[tuple[str, int]]:
        self.total.update((self.total.value() or 0) + value.amount)
        yield value.user, self.total.value()
"""


def test_a_converter_is_called_once_and_later_migrations_know_that(query, load):
    live = query(COLUMNS)
    sources = {
        "euros": PRICES.format(converter=""),
        "cents": PRICES.format(converter=", converter=to_cents"),
    }
    modules = {name: load(name, **{name: source}) for name, source in sources.items()}

    def build(name):
        return lambda job, query: job.stream(query.frame()).key_by("user").process(
            modules[name].Prices(), uid="prices", output_type=tuple[str, int]
        )  # fmt: skip

    live.feed(("ann", 1))
    live.run(build("euros"))
    live.feed(("ann", 50))
    with pytest.raises(RestoreRefused, match="STATE-8"):
        live.run(build("cents"), on_incompatible="migrate")
    live.run(build("cents"), on_incompatible="migrate", options=MigrationOptions(edits=Edits(convert=("total",))))
    live.feed(("ann", 50))
    live.run(build("cents"))
    live.feed(("ann", 50))
    live.run(build("cents"), slots=3)
    live.feed(("ann", 50))
    live.run(build("cents"))

    assert [("ann", 1), ("ann", 150), ("ann", 200), ("ann", 250), ("ann", 300)] == live.results()
    assert [3, 1] == [live.directory.last_epoch.number, len(live.directory.last_epoch.history)]
