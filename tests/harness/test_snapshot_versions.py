"""Snapshots that are damaged (harness cases, section J; its other cases lie next to what they are about)."""

from __future__ import annotations

import attrs
import pytest

from stateshift import CorruptSavepoint, serializer_for
from stateshift.serializers.snapshot import snapshot_from_bytes, snapshot_to_bytes


@attrs.frozen
class Account:
    number: int
    tags: list[str]


@pytest.mark.parametrize("hint", [Account, int, list[str]], ids=["of stateshift", "of Flink", "of Flink, with a part"])
def test_truncated_padded_corrupted(hint):
    """J09, SNAP-12: each is an error that names the snapshot, or the part of it that is damaged, and the offset."""
    snapshot = serializer_for(hint).snapshot_configuration()
    data = snapshot_to_bytes(snapshot)
    behind_the_name = 2 + len(snapshot.snapshot_id)
    truncated = [data[:size] for size in range(behind_the_name, len(data))]
    # Flink's snapshots have no checksum, but those with a part have magic numbers; ours have one over all of the body
    body = behind_the_name + 4
    guarded = {Account: range(body + 8, len(data)), int: (), list[str]: range(body, body + 4)}[hint]
    corrupted = [data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :] for at in guarded]

    for damaged in (*truncated, data + b"\0", *corrupted):
        with pytest.raises(CorruptSavepoint) as caught:
            snapshot_from_bytes(damaged)
        assert caught.value.where["snapshot"] in {each.snapshot_id for each in (snapshot, *snapshot.children())}
        assert 0 <= caught.value.where["offset"] <= len(damaged)
