"""One state written from rows into a savepoint on an object store, next to what another has there."""

from __future__ import annotations

from writing import FLINKS, NUMBERS, ordered, others, values, write

from stateshift import Savepoint
from stateshift.state.savepoint.verify import verify


def test_a_state_is_replaced_next_to_a_base_on_a_store(s3, upload, savepoint_of):
    base = Savepoint.open(upload(savepoint_of(FLINKS), "flinks"))
    rows = NUMBERS.select(["key"]).append_column("value", NUMBERS["key"])

    found = write(s3.place("changed"), rows, operator="keyed-op", state="count", base=base.place, overwrite=True)

    assert {number: number for number in range(500)} == values(found, "keyed-op", "count")
    assert others(ordered(base), "count") == others(ordered(found), "count")
    assert [] == [name for name in found.folder.names() if ".attempt-" in name or name.startswith("_claim")]
    assert verify(found).ok
