"""Small pickles that make much of little: what they cost is bounded, wherever they are opened, shown and converted."""

from __future__ import annotations

import collections
import datetime as dt
import decimal
import enum
import fractions
import json
import pickle
import subprocess
import sys
import textwrap
import uuid
import zoneinfo

import attrs
import pytest

from stateshift import CorruptSavepoint, PickledValue, StateShiftError, serializer_for
from stateshift.serializers.errors import shown
from stateshift.serializers.pickled.abilities import tagged_pickle
from stateshift.serializers.pickled.conversion import FromPickle
from stateshift.serializers.pickled.trust import trusting
from stateshift.serializers.pickled.unpickler import Names, open_pickle
from stateshift.serializers.pickled.values import Fingerprint, Shape
from stateshift.serializers.stored_names import qualified_name


class Call:
    """Is pickled as a call."""

    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


def nest(kind, levels=100, innermost=()):
    """A value that holds another twice, and so on: small in memory, and without end as a tree."""
    value = kind(innermost)
    for _ in range(levels):
        value = kind([value, value])
    return value


def deep(levels):
    """A pickle's piece: tuples within tuples, which the pickler itself could not write."""
    return b")" + b"\x85" * levels


def raw(value):
    return pickle.dumps(value, 3)[2:-1]


def assembled(*pieces):
    return b"\x80\x04" + b"".join(pieces) + b"."


class Tier(enum.Enum):
    GOLD = "g"


class Whole(int):
    pass


class Name(str):
    __slots__ = ()


class Blob(bytes):
    pass


class Buffer(bytearray):
    pass


class Tags(tuple):
    __slots__ = ()


class Price(decimal.Decimal):
    pass


TRUSTED = {f"{cls.__module__}.{cls.__qualname__}": cls for cls in (Tier, Whole, Name, Blob, Buffer, Tags, Price)}
HUGE = decimal.Decimal("1E+6000000")
COLLIDING = [n * ((1 << 61) - 1) for n in range(1, 30_000)]  # integers of one hash
FAR_MORE = "hashes far more than it contains"
NO_SUCH_CALL = "in a way that pickles do not"
LONG_TEXT = "9" * 4000

HOSTILE = {
    "int of a decimal": (pickle.dumps(Call(int, HUGE)), NO_SUCH_CALL),
    "a subclass of int, of a decimal": (pickle.dumps(Call(Whole, HUGE)), NO_SUCH_CALL),
    "float of a list": (pickle.dumps(Call(float, nest(list))), NO_SUCH_CALL),
    "str of shared lists": (pickle.dumps(Call(str, nest(list))), NO_SUCH_CALL),
    "str of shared dicts": (pickle.dumps(Call(str, {1: nest(list)})), NO_SUCH_CALL),
    "a subclass of str, of shared lists": (pickle.dumps(Call(Name, nest(list))), NO_SUCH_CALL),
    "str by a codec": (pickle.dumps(Call(str, b"x" * 100, "punycode")), NO_SUCH_CALL),
    "a decimal of a tuple": (pickle.dumps(Call(decimal.Decimal, (0, nest(tuple), 0))), NO_SUCH_CALL),
    "a decimal of a large integer": (pickle.dumps(Call(decimal.Decimal, 1 << 80_000)), NO_SUCH_CALL),
    "a subclass of Decimal, of an integer": (pickle.dumps(Call(Price, 1 << 80_000)), NO_SUCH_CALL),
    "bytes of a size": (pickle.dumps(Call(bytes, 10**10)), NO_SUCH_CALL),
    "a subclass of bytes, of a size": (pickle.dumps(Call(Blob, 10**10)), NO_SUCH_CALL),
    "bytearray of a size": (pickle.dumps(Call(bytearray, 10**10)), NO_SUCH_CALL),
    "a subclass of bytearray, of a size": (pickle.dumps(Call(Buffer, 10**10)), NO_SUCH_CALL),
    "bytes by a codec": (pickle.dumps(Call(bytes, "x", "zip")), NO_SUCH_CALL),
    "a date of lists": (pickle.dumps(Call(dt.date, nest(list), 1, 1)), NO_SUCH_CALL),
    "a UUID of lists": (pickle.dumps(Call(uuid.UUID, nest(list))), NO_SUCH_CALL),
    "a zone of lists": (pickle.dumps(Call(zoneinfo.ZoneInfo, nest(list))), NO_SUCH_CALL),
    "a member of an enum that prints its value": (pickle.dumps(Call(Tier, nest(list))), NO_SUCH_CALL),
    "a member of an enum that hashes its value": (pickle.dumps(Call(Tier, nest(tuple))), NO_SUCH_CALL),
    "a changed member of an enum": (assembled(raw(Tier.GOLD), raw({"_value_": 1}), b"b"), "a member of an enum"),
    "a UUID that hashes tuples": (
        assembled(b"cuuid\nUUID\n)\x81", raw({"int": nest(tuple)}), b"b"),
        "UUID from something other",
    ),
    "a key of shared tuples": (assembled(b"}", raw(nest(tuple)), b"Ns"), FAR_MORE),
    "keys of shared tuples": (assembled(b"}(", raw(nest(tuple)), b"NK\1Nu"), FAR_MORE),
    "an old dict of shared tuples": (assembled(b"(", raw(nest(tuple)), b"Nd"), FAR_MORE),
    "a set of shared tuples": (assembled(b"\x8f(", raw(nest(tuple)), b"\x90"), FAR_MORE),
    "a frozenset of shared tuples": (assembled(b"(", raw(nest(tuple)), b"\x91"), FAR_MORE),
    "a called set of shared tuples": (pickle.dumps(Call(set, [nest(tuple)])), FAR_MORE),
    "a called frozenset of shared tuples": (pickle.dumps(Call(frozenset, (nest(tuple),))), FAR_MORE),
    "a called dict of shared tuples": (pickle.dumps(Call(dict, [[nest(tuple), 1]])), FAR_MORE),
    "a counter of shared tuples": (pickle.dumps(Call(collections.Counter, [nest(tuple)])), FAR_MORE),
    "an ordered dict of shared tuples": (pickle.dumps(Call(collections.OrderedDict, [(nest(tuple), 1)])), FAR_MORE),
    "a default dict of shared tuples": (
        pickle.dumps(Call(collections.defaultdict, list, [(nest(tuple), 1)])),
        FAR_MORE,
    ),
    "an integer as a key again and again": (
        assembled(b"}", raw(1 << 80_000), b"q\1N", b"s(" + b"h\1N" * 50_000 + b"u"),
        FAR_MORE,
    ),
    "a large integer as a key": (assembled(b"}", raw(1 << 800_000), b"Ns"), "far too many digits"),
    "a large decimal as a key": (assembled(b"}", raw(decimal.Decimal("9" * 100_000)), b"Ns"), "far too many digits"),
    "arguments in a list": (assembled(b"cbuiltins\nint\n", raw([HUGE]), b"R"), "invalid arguments"),
    "arguments of a new object in a list": (assembled(b"cbuiltins\nint\n", raw([HUGE]), b"\x81"), "invalid arguments"),
    "arguments by name of a new object": (
        assembled(b"cbuiltins\nint\n)", raw({"x": HUGE}), b"\x92"),
        NO_SUCH_CALL,
    ),
    "a key of deep tuples": (assembled(b"}", deep(1_000_000), b"Ns"), "nested deeper"),
    "text that is turned into bytes again and again": (
        assembled(b"c_codecs\nencode\nq\7", raw("x" * 100_000), b"q\1U\6latin1q\2", b"0h\7h\1h\2\x86R" * 5000),
        "copies more than it contains",
    ),
    "text that is turned into decimals again and again": (
        assembled(b"cdecimal\nDecimal\nq\7", raw("9" * 100_000), b"q\1", b"h\7h\1\x85R" * 5000),
        "copies more than it contains",
    ),
    "text that is turned into integers again and again": (
        assembled(b"cbuiltins\nint\nq\7", raw(LONG_TEXT), b"q\1", b"h\7h\1\x85R" * 5000),
        "copies more than it contains",
    ),
    "a subclass of tuple that is copied again and again": (
        assembled(f"c{__name__}\nTags\nq\7".encode(), raw([1] * 10_000), b"q\1", b"h\7h\1\x85\x81" * 5000),
        "copies more than it contains",
    ),
    "integers of one hash in a dict": (pickle.dumps(Call(dict, [[n, 1] for n in COLLIDING])), "longer to open"),
    "integers of one hash as keys": (
        assembled(b"}(", b"".join(raw(n) + b"N" for n in COLLIDING), b"u"),
        "longer to open",
    ),
    "integers of one hash in a set": (assembled(b"\x8f(", *map(raw, COLLIDING), b"\x90"), "longer to open"),
    "integers of one hash in a frozenset": (assembled(b"(", *map(raw, COLLIDING), b"\x91"), "longer to open"),
}  # fmt: skip


def opened(data):
    return open_pickle(data, Names("shop.Account", TRUSTED))


@pytest.mark.parametrize("name", [name for name in HOSTILE if "one hash" not in name])
def test_what_makes_much_of_little_is_refused(name):
    data, message = HOSTILE[name]

    with pytest.raises(CorruptSavepoint, match=message):
        opened(data)


@pytest.mark.parametrize("name", [name for name in HOSTILE if "one hash" in name])
def test_what_takes_far_too_long_is_ended(name, monkeypatch):
    """The time is shortened here: the integers are enough for a minute."""
    monkeypatch.setattr("stateshift.serializers.pickled.unpickler._LEAST_S", 0.01)
    monkeypatch.setattr("stateshift.serializers.pickled.unpickler._BYTE_S", 0.0)
    data, message = HOSTILE[name]

    with pytest.raises(CorruptSavepoint, match=message):
        opened(data)


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
@pytest.mark.parametrize(
    "value",
    [
        b"",
        bytearray(),
        Tier.GOLD,
        Whole(1 << 100),
        Name("ada"),
        Blob(b"\0\xff"),
        Buffer(b"ab"),
        Tags([1, 2]),
        Price("1.50"),
        decimal.Decimal("1E+6000000"),
        decimal.Decimal("NaN"),
        dt.datetime(2024, 2, 29, tzinfo=dt.timezone(dt.timedelta(hours=1), "X")),
        uuid.uuid1(),
        {("a", ("b", 1)): {(1, 2)}},
        collections.defaultdict(bytes, a=b"x"),
        collections.OrderedDict([((1, 2), 3)]),
        collections.Counter([(1, 2), (1, 2)]),
        {n: str(n) for n in range(5000)},
        nest(list),
        nest(dict, levels=0),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_pickles_hold_is_read_as_before(value, protocol):
    data = pickle.dumps(value, protocol)
    found = opened(data)

    assert (type(value), data) == (type(found), pickle.dumps(found, protocol))


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_large_sets_are_read_as_before(protocol):
    for kind in (set, frozenset):
        value = kind((n, (n, str(n))) for n in range(5000))

        assert value == opened(pickle.dumps(value, protocol))


def test_objects_that_contain_themselves_are_opened():
    value = {}
    value["me"] = [value]

    found = opened(pickle.dumps(value))

    assert found is found["me"][0]


def test_a_default_dict_of_bytes_makes_bytes():
    found = opened(pickle.dumps(collections.defaultdict(bytes)))

    assert b"" == found["new"]


SHARED = {
    "lists": nest(list),
    "tuples": nest(tuple),
    "dicts": nest(lambda pair: dict(enumerate(pair))),
    "deques": nest(collections.deque),
    "a long text": [["x" * 20_000] * 100] * 100,
    "bytes": [[b"x" * 20_000] * 100] * 100,
    "an integer": [[1 << 80_000] * 100] * 100,
    "wide lists": [[[[1] * 1000] * 1000] * 1000] * 1000,
}


def deep_list(levels):
    return PickledValue("builtins.list", b"\x80\x02" + b"]" * (levels + 1) + b"a" * levels + b".")


@attrs.define(eq=False)
class Node:
    number: int
    nodes: list[Node]


def shared_nodes():
    node = Node(0, [])
    for number in range(1, 100):
        node = Node(number, [node, node])
    return node


@pytest.fixture
def little(monkeypatch):
    """A tenth of what trees may be: to count so far takes seconds."""
    monkeypatch.setattr("stateshift.serializers.pickled.values._LEAST_UNFOLDED", 800_000)


@pytest.mark.usefixtures("little")
class TestTrees:
    """What shares its parts is opened, and not written out without end."""

    @pytest.mark.parametrize("what", SHARED)
    def test_an_export_says_that_it_is_too_large(self, what):
        value = PickledValue("builtins.list", pickle.dumps([SHARED[what]]))

        with trusting(["builtins.list"]), pytest.raises(StateShiftError, match="far larger as JSON") as raised:
            tagged_pickle(value)

        assert "do not open it: leave out trust" == raised.value.advice

    def test_an_export_says_that_it_is_too_deep(self):
        with trusting(["builtins.list"]):
            assert 140 * "[" in json.dumps(tagged_pickle(deep_list(140)))
            for levels in (160, 400, 5000):
                with pytest.raises(StateShiftError, match="nested too deep"):
                    tagged_pickle(deep_list(levels))

    def test_what_shares_a_little_is_exported_as_it_is(self):
        article = {"name": "pen", "tags": ["a", "b"]}
        value = PickledValue("builtins.list", pickle.dumps([article] * 1000))

        with trusting(["builtins.list"]):
            tagged = tagged_pickle(value)["$pickle"]["value"]

        assert 1000 == len(tagged)
        assert tagged[0] == tagged[-1]

    def test_a_deque_is_exported_as_a_list(self):
        value = PickledValue("builtins.list", pickle.dumps([collections.deque([1, 10**5000])]))

        with trusting(["builtins.list"]):
            tagged = tagged_pickle(value)["$pickle"]["value"]

        assert [[1, {"$bigint": "1" + "0" * 5000}]] == tagged

    @pytest.mark.parametrize(
        ("hint", "value"),
        [
            (list[list[list[list[int]]]], SHARED["wide lists"]),
            (list[list[str]], [["x" * 100_000] * 100] * 100),
            (Node, shared_nodes()),
        ],
        ids=["lists", "text", "records"],
    )
    def test_a_migration_says_that_it_is_too_large(self, hint, value):
        convert, stored = moved(hint, value)

        with trusting([stored.class_name]), pytest.raises(StateShiftError, match="shares its parts so often"):
            convert(stored)

    def test_a_migration_writes_a_shared_part_as_often_as_it_is_met(self):
        shared = Node(2, [])
        convert, stored = moved(Node, Node(1, [shared, shared]))

        with trusting([stored.class_name]):
            assert 2 == convert(stored).nodes[1].number


def moved(hint, value):
    """The conversion of a pickled class to a described type, and a pickle."""
    name = qualified_name(type(value))
    return FromPickle.into(serializer_for(hint), Fingerprint((Shape(name),))), PickledValue(name, pickle.dumps(value))


@pytest.mark.parametrize("what", SHARED)
def test_a_message_shows_no_value_without_end(what):
    assert "with very many parts>" in shown([SHARED[what]])


def test_a_message_shows_long_texts_by_their_beginning():
    assert "'xxx" == shown("x" * 10_000_000)[:4]
    assert "[1, 1" == shown([1] * 1000)[:5]


def test_hostile_pickles_together_stay_within_half_a_gigabyte_and_ten_seconds_each(root):
    """In a process of its own, which is killed where one of them takes more."""
    program = """
        import pathlib, resource
        from stateshift.serializers.errors import CorruptSavepoint
        from {module} import HOSTILE, opened
        before = resource.getrusage(resource.RUSAGE_SELF).ru_utime
        for name, (data, _) in HOSTILE.items():
            if "one hash" in name:
                continue
            try:
                opened(data)
            except CorruptSavepoint:
                pass
        used = resource.getrusage(resource.RUSAGE_SELF)
        status = pathlib.Path("/proc/self/status")  # getrusage starts with the memory of the parent process
        own = [line for line in (status.read_text().splitlines() if status.exists() else ()) if "VmHWM" in line]
        print((int(own[0].split()[1]) if own else used.ru_maxrss) >> 10, used.ru_utime - before)
    """
    ran = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program).format(module=__name__)],
        cwd=root,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )

    megabytes, seconds = map(float, ran.stdout.split())
    assert megabytes < 500
    assert seconds < 10


def test_fractions_are_no_types_of_the_library():
    """They make much of little: trusting them by name is the user's responsibility."""
    with pytest.raises(StateShiftError, match=r"--trust fractions\.Fraction"):
        opened(pickle.dumps(fractions.Fraction(1, 3)))
