"""Room behind bytes: used where it is known to be there, else made."""

from io import BytesIO

import pytest

pytest.importorskip("numpy")

from stateshift.compat.transcode.columns import bytes_behind, padded

DATA = bytes(range(100))
WAYS = [bytearray, lambda data: BytesIO(data).getbuffer(), lambda data: data]


@pytest.mark.parametrize("own", WAYS)
@pytest.mark.parametrize(("begin", "end"), [(0, 100), (0, 60), (40, 60), (40, 100), (99, 100)])
def test_bytes_behind_a_view_are_those_of_the_memory_that_it_is_a_view_of(own, begin, end):
    assert 100 - end == bytes_behind(memoryview(own(DATA))[begin:end])


def test_of_bytes_and_of_nothing_no_room_is_known():
    assert 0 == bytes_behind(DATA)
    assert 0 == bytes_behind(memoryview(DATA)[40:40])


@pytest.mark.parametrize("room", [0, 1, 40, 41, 500])
def test_a_buffer_has_the_bytes_and_room(room):
    for data in (memoryview(bytearray(DATA))[20:60], DATA[20:60]):
        buffer = padded(data, room)

        assert DATA[20:60] == bytes(buffer[:40])
        assert 40 + room == len(buffer)
        assert not buffer.flags.writeable
