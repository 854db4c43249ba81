"""A thread that goes ahead gives the same items in the same order, and not too many."""

import pytest

from stateshift import CorruptSavepoint
from stateshift.state.formats.flink.sources import InlineBytes
from stateshift.state.storage.prefetch import ahead


def noted(count, made):
    """Numbers, each passed to `made` as it is made."""
    for number in range(count):
        made.append(number)
        yield number


@pytest.mark.parametrize("count", range(6))
def test_items_keep_their_order_whichever_thread_makes_them(count):
    assert [*range(count)] == [*ahead(iter(range(count)))]


def test_taking_only_the_first_item_waits_for_no_other():
    made = []

    assert 0 == next(ahead(noted(5, made)))
    assert [0] == made


def test_no_more_than_two_items_wait_for_the_consumer():
    made = []

    for item in ahead(noted(50, made)):
        assert len(made) <= item + 1 + 2


def test_what_fails_is_raised_where_the_item_would_have_come():
    source = InlineBytes(b"abcdef")
    reads = ahead(source.read_at(*piece) for piece in [(0, 2), (2, 2), (4, 9), (0, 1)])

    assert [b"ab", b"cd"] == [next(reads), next(reads)]
    with pytest.raises(CorruptSavepoint, match="9 bytes were expected, but only 2 are left"):
        next(reads)
