"""Pickles under guard: what they may name, what they cannot do, and what they cost."""

from __future__ import annotations

import collections
import copyreg
import datetime as dt
import decimal
import io
import pickle
import pickletools
import sys
import uuid
import zoneinfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stateshift import CorruptSavepoint, PickledValue, StateShiftError, UntrustedCode, ValueNotConvertible
from stateshift.serializers.pickled.trust import trusting
from stateshift.serializers.pickled.unpickler import Names, open_pickle

VALUES = [
    {"a": [1, 2.5, True, None, "é", b"\0\xff", 1 << 200]},
    (1, (2, frozenset({3}))),
    {1, 2},
    bytearray(b"abc"),
    1 + 2j,
    dt.datetime(2024, 2, 29, 12, tzinfo=zoneinfo.ZoneInfo("Europe/Berlin")),
    dt.datetime(2024, 2, 29, tzinfo=dt.timezone(dt.timedelta(hours=1))),
    dt.date(2024, 2, 29),
    dt.time(1, 2, 3, 4),
    decimal.Decimal("1.50"),
    uuid.UUID(int=7),
    collections.Counter("aab"),
    collections.OrderedDict(b=1, a=2),
    collections.defaultdict(list, a=[1]),
    collections.deque([1, 2], 3),
]


def opened(data, known=(), trust=()):
    return open_pickle(data, Names("shop.Account", dict(known), frozenset(trust)))


def named(module, name, *arguments):
    """A pickle that calls what stands under a name, which need not be here."""
    target = io.BytesIO()
    for part in (module, name):
        target.write(pickle.SHORT_BINUNICODE + bytes([len(part)]) + part.encode())
    target.write(pickle.STACK_GLOBAL + pickle.MARK)
    target.write(b"".join(pickle.dumps(argument, 3)[2:-1] for argument in arguments))
    return pickle.PROTO + b"\4" + target.getvalue() + pickle.TUPLE + pickle.REDUCE + pickle.STOP


class TestWhatMayBeNamed:
    @pytest.mark.parametrize("protocol", [2, 3, 4, 5])
    @pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
    def test_types_of_the_library_need_no_trust(self, value, protocol):
        found = opened(pickle.dumps(value, protocol))

        assert value == found
        assert type(value) is type(found)

    @pytest.mark.parametrize(
        ("module", "name"),
        [
            ("os", "system"),
            ("posix", "system"),
            ("subprocess", "Popen"),
            ("builtins", "eval"),
            ("builtins", "exec"),
            ("builtins", "open"),
            ("builtins", "__import__"),
            ("importlib", "import_module"),
            ("operator", "attrgetter"),
            ("functools", "partial"),
            ("pickle", "loads"),
            ("datetime", "sys.modules"),
            ("collections", "Counter.fromkeys"),
            ("copyreg", "_reconstructor"),
        ],
    )
    def test_a_bomb_is_refused_by_its_name(self, module, name, tmp_path):
        planted = tmp_path / "planted"
        with pytest.raises(UntrustedCode) as raised:
            opened(named(module, name, f"touch {planted}"))

        assert f"--trust {module}.{name}" in str(raised.value)
        assert not planted.exists()

    def test_a_bomb_goes_off_where_it_is_not_guarded(self, tmp_path):
        """So the test above tests something."""
        data = named("os", "mkdir", str(tmp_path / "planted"))
        with pytest.raises(UntrustedCode):
            opened(data)
        assert not (tmp_path / "planted").exists()
        pickle.loads(data)

        assert (tmp_path / "planted").exists()

    def test_a_mere_mention_imports_nothing(self, tmp_path, monkeypatch):
        (tmp_path / "minefield.py").write_text(f"open({str(tmp_path / 'planted')!r}, 'w')", encoding="utf-8")
        monkeypatch.syspath_prepend(str(tmp_path))
        with pytest.raises(UntrustedCode, match="minefield"):
            opened(named("minefield", "Mine"))

        assert "minefield" not in sys.modules
        assert not (tmp_path / "planted").exists()

    def test_trust_of_a_class_is_no_trust_of_what_stands_next_to_or_within_it(self, module):
        shop = module("class Account: pass\ndef wipe(): raise SystemExit")
        for name in ("wipe", "Account.__init__.__globals__", "Account.__class__"):
            with pytest.raises(UntrustedCode, match=r"shop\."):
                opened(named("shop", name), trust={"shop.Account"})
        assert isinstance(opened(pickle.dumps(shop.Account()), trust={"shop.Account"}), shop.Account)

    def test_what_is_trusted_and_cannot_be_imported_is_reported_pkl_6(self):
        with pytest.raises(ValueNotConvertible, match=r"shop_of_old.Account.*cannot be imported") as raised:
            opened(named("shop_of_old", "Account"), trust={"shop_of_old.Account"})
        assert "PKL-6" == raised.value.where["rule"]

    def test_code_within_a_pickle_has_a_word_of_its_own(self):
        with pytest.raises(UntrustedCode, match=r"--trust by-value:shop.Account"):
            opened(named("cloudpickle.cloudpickle", "_make_function"), trust={"shop.Account"})


class TestWhatCannotBeDone:
    @pytest.mark.parametrize(
        "call",
        [
            named("_codecs", "encode", "x" * 9, "zip"),
            named("builtins", "getattr", "", "join"),
            named("builtins", "bytes", 1 << 60),
            named("builtins", "bytearray", 1 << 60),
        ],
        ids=["codec", "getattr", "bytes", "bytearray"],
    )
    def test_stand_ins_for_functions_do_what_pickles_of_values_need_and_no_more(self, call):
        with pytest.raises(CorruptSavepoint, match=r"it (asks|makes)"):
            opened(call)

    @pytest.mark.parametrize("state", [{"limit": 0}, (None, {"limit": 0})], ids=["attributes", "slots"])
    def test_a_class_is_not_changed(self, module, state):
        shop = module("class Account: limit = 7")
        data = b"\x80\x04cshop\nAccount\n" + pickle.dumps(state, 3)[2:-1] + b"b."
        with pytest.raises(CorruptSavepoint, match="change a class"):
            opened(data, {"shop.Account": shop.Account})

        assert 7 == shop.Account.limit

    def test_references_to_the_outside_are_refused(self):
        copyreg.add_extension("os", "system", 240)
        try:
            for data in (b"\x80\x04\x82\xf0.", b"\x80\x04Pname\n.", b"\x80\x05\x97."):
                with pytest.raises(CorruptSavepoint):
                    opened(data)
        finally:
            copyreg.remove_extension("os", "system", 240)

    def test_sizes_that_are_not_there_take_no_memory(self):
        for opcode in (pickle.BYTEARRAY8, pickle.BINBYTES8, pickle.BINUNICODE8):
            with pytest.raises(CorruptSavepoint):
                opened(b"\x80\x05" + opcode + (1 << 50).to_bytes(8, "little") + b"x.")
        assert opened(b"\x80\x02N" + pickle.LONG_BINPUT + b"\xff\xff\xff\xff.") is None

    @pytest.mark.parametrize(
        "call", [pickle.REDUCE, pickle.NEWOBJ, b"}" + pickle.NEWOBJ_EX], ids=["call", "new", "new by name"]
    )
    def test_copies_of_copies_take_no_memory(self, call):
        many, copies = b"N" * 1000, b"h\1h\0\x85" + call
        data = b"\x80\x04(" + many + b"lq\0cbuiltins\ntuple\nq\1" + copies * 1000 + b"."
        with pytest.raises(CorruptSavepoint, match="copies more than it contains"):
            opened(data)

    @pytest.mark.parametrize("protocol", [2, 3, 5])
    def test_many_sets_and_one_list_in_many_objects_are_no_such_copies(self, protocol):
        shared = list(range(1000))
        value = [[{n, -n}, collections.Counter("aab"), collections.deque([n]), shared] for n in range(100)]

        assert value == opened(pickle.dumps(value, protocol))

    def test_bytes_after_the_pickle_are_refused(self):
        with pytest.raises(CorruptSavepoint, match="3 bytes follow"):
            opened(pickle.dumps(1) + b"abc")

    @given(data=st.data())
    @settings(deadline=None, max_examples=150)
    def test_any_bytes_give_a_value_or_an_error_of_ours(self, data):
        whole = bytearray(pickle.dumps(data.draw(st.sampled_from(VALUES)), data.draw(st.sampled_from([2, 4, 5]))))
        for _ in range(data.draw(st.integers(1, 3))):
            whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
        for garbage in (bytes(whole), bytes(whole[: data.draw(st.integers(0, len(whole)))]), data.draw(st.binary())):
            try:
                value = opened(garbage)
            except StateShiftError:
                continue
            repr(value)


class TestPickledValue:
    def test_it_shows_its_class_and_size_and_nothing_else(self):
        value = PickledValue("shop.Account", pickle.dumps("secret"))

        assert f"PickledValue('shop.Account', {len(value.data)} bytes)" == repr(value)

    def test_it_is_opened_by_naming_its_class(self):
        value = PickledValue("builtins.dict", pickle.dumps({"a": 1}))
        with pytest.raises(UntrustedCode, match=r"--trust builtins.dict"):
            value.load()

        assert {"a": 1} == value.load(trust=["builtins.dict"])
        with trusting(["builtins.dict"]):
            assert {"a": 1} == value.load()

    def test_a_declared_class_that_the_bytes_do_not_hold_is_an_error(self):
        with pytest.raises(
            CorruptSavepoint, match=r"declares pickles of builtins\.dict, but one holds a builtins\.list"
        ):
            PickledValue("builtins.dict", pickle.dumps([1])).load(trust=["builtins.dict"])

    def test_a_lie_about_code_within_is_harmless(self, tmp_path):
        planted = tmp_path / "planted"
        data = named("os", "system", f"touch {planted}")
        for trust in ([], ["shop.Account"], ["shop.Account", "by-value:shop.Account"]):
            with pytest.raises(UntrustedCode):
                PickledValue("shop.Account", data).load(trust=trust)
        with pytest.raises(UntrustedCode, match=r"--trust by-value:shop.Account"):
            PickledValue("shop.Account", data, by_value=True).load(trust=["shop.Account"])

        assert not planted.exists()


def test_the_bombs_of_these_tests_are_well_formed():
    for data in (named("os", "system", "true"), named("builtins", "bytes", 1)):
        assert "STOP" == [opcode.name for opcode, _, _ in pickletools.genops(data)][-1]
