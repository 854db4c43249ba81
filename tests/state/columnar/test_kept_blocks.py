"""Entries of a stored savepoint with new rows: none is left out, and no key gets a second entry."""

from __future__ import annotations

from stateshift.state.columnar.stored_forms import KeptBlocks
from stateshift.state.formats.flink.blocks import Block


def block(key_group, *keys, state_id=0):
    data = b"".join(len(key).to_bytes(4, "big") + key + (1).to_bytes(4, "big") + b"v" for key in keys)
    return Block(key_group, state_id, data, len(keys))


def test_blocks_come_before_the_rows_of_their_key_group_and_the_rest_behind():
    blocks = [block(1, b"a"), block(3, b"b"), block(3, b"c"), block(7, b"d")]
    kept = KeptBlocks(iter(blocks))

    assert blocks[:3] == list(kept.up_to(3))
    assert [] == list(kept.up_to(4))
    assert blocks[3:] == list(kept.rest())


def test_a_key_that_is_there_is_found_however_many_pieces_the_rows_of_its_key_group_have():
    kept = KeptBlocks(iter([block(3, b"a", b"b"), block(5, b"a")]), appended=0)

    for _ in range(2):
        list(kept.up_to(3))
        assert b"b" == kept.taken_by(block(3, b"x", b"b"))
        assert kept.taken_by(block(3, b"b", state_id=1)) is None


def test_keys_of_another_key_group_or_state_are_not_in_the_way():
    kept = KeptBlocks(iter([block(3, b"a"), block(5, b"b"), block(5, b"c", state_id=1)]), appended=0)
    list(kept.up_to(3))
    list(kept.up_to(5))

    assert kept.taken_by(block(5, b"a", b"c")) is None
    assert b"b" == kept.taken_by(block(5, b"b"))
