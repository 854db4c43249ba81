"""A profile on Spark is that of this process."""

from __future__ import annotations

import pickle

import attrs
import pytest

from stateshift import DeclarationError, Savepoint
from stateshift.spark.profiling import profile
from stateshift.state.formats.spark.reader import SparkCheckpoint
from stateshift.state.profiles import savepoint_profile
from stateshift.state.runner import InProcess

SOME = ("hashmap-zoo-p1-m128", "rocksdb-account-v1", "hashmap-operator-only-p2-m128")


@attrs.frozen
class _Pickling:
    """Runs works as a worker elsewhere does: they and their results are pickled."""

    def run(self, works, tell):
        return pickle.loads(pickle.dumps(InProcess().run(pickle.loads(pickle.dumps(works)), tell)))


@pytest.mark.parametrize("name", SOME)
def test_works_and_results_go_to_other_processes(savepoint_of, name):
    savepoint = Savepoint.open(savepoint_of(name))
    here = savepoint.profile()

    assert savepoint_profile.profile(savepoint, reference_time=here.reference_time, runner=_Pickling()) == here


@pytest.mark.slow
def test_on_spark_it_is_the_same(spark, savepoint_of):
    savepoint = Savepoint.open(savepoint_of("rocksdb-account-v1"))
    here = savepoint.profile()

    assert profile(savepoint, session=spark, reference_time=here.reference_time) == here


def test_a_checkpoint_is_read_here(root):
    checkpoint = SparkCheckpoint.open(root / "tests/fixtures/spark-4.3/aggregation/checkpoint")
    here = profile(checkpoint)

    assert here.states[0].entries > 0
    with pytest.raises(DeclarationError, match="read in this process"):
        profile(checkpoint, master="local[1]")
