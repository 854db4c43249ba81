"""What a check names is what a migration does to files: drawn checkpoints of both providers, written by our writers."""

from __future__ import annotations

import pytest
from drawn_queries import queries
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from pairing_law import holds
from written_checkpoints import on_files

law = settings(deadline=None, suppress_health_check=list(HealthCheck))


@settings(law, max_examples=12)
@given(queries(), st.randoms(use_true_random=False))
def test_each_entry_of_a_migrated_checkpoint_is_right(query, random):
    assume(holds(query, random, on_files)[1])


@pytest.mark.slow
@settings(law, max_examples=300)
@given(queries(), st.randoms(use_true_random=False))
def test_each_entry_of_300_migrated_checkpoints_is_right(query, random):
    assume(holds(query, random, on_files)[1])
