"""Of a function with two interfaces of operator state, Flink calls the methods of the newer one alone."""

import pytest
from flink_jars import RELEASES


@pytest.mark.parametrize("release", RELEASES)
def test_a_checkpointed_function_is_not_asked_as_list_checkpointed(flink, release, tmp_path):
    calls = flink(release).table("fx.Precedence", tmp_path / "calls.txt").splitlines()

    assert ["Listed: restoreState [x], list snapshotState", "Both: initializeState, snapshotState"] == calls
