"""The benchmarks of live state, with few entries."""


def test_a_list_that_grows_is_written_whole_before_compression(benchmark):
    figures = benchmark("long_list", "--elements", 1000, "--checkpoints", 3)["figures"]

    assert {"heap", "rocksdb"} == figures.keys()
    assert 8 * 1000 / 1e6 < figures["heap"]["mb"]


def test_incremental_checkpoints_write_a_part(benchmark):
    found = benchmark("incremental", "--keys", 20_000, "--checkpoints", 3)

    assert found["median"] < 0.5
    assert {} == found["full_rewrites"]
