"""Strings and chars: Flink's bytes, and the ways between text and bytes (rules TEXT-1, TEXT-2)."""

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stateshift import CorruptSavepoint, DataInputView, DataOutputView, Flag, ValueNotConvertible, Verdict
from stateshift.serializers.containers.arrays import BytesSerializer, PrimitiveArraySerializer
from stateshift.serializers.primitives.numeric import LongSerializer
from stateshift.serializers.primitives.text import CharSerializer, StringSerializer, read_string, write_string

EXAMPLES = [
    ("", "01"),
    (None, "00"),
    ("ab", "036162"),
    ("é", "02E901"),
    ("日", "02E5CB01"),
    ("😀", "03BDB00380BC03"),
    ("\0", "0200"),
    ("\ud83d", "02BDB003"),
    ("\x7f\x80", "037F8001"),
    ("\u3fff\u4000", "03FF7F808001"),
    ("a" * 127, "8001" + "61" * 127),
    ("a" * 126, "7F" + "61" * 126),
    ("é" * 127, "8001" + "E901" * 127),
]


def written(value: str | None) -> bytes:
    target = DataOutputView()
    write_string(value, target)
    return target.getvalue()


class TestBytes:
    @pytest.mark.parametrize("at_once", [1, 2, 3])
    def test_a_long_text_goes_by_pieces_to_the_same_bytes(self, monkeypatch, at_once):
        texts = [*filter(None, (value for value, _ in EXAMPLES)), "é😀日" * 3]
        whole = [*map(written, texts)]
        monkeypatch.setattr("stateshift.serializers.primitives.text._UNITS_AT_ONCE", at_once)

        assert whole == [*map(written, texts)]
        assert texts == [read_string(DataInputView(data)) for data in whole]
        with pytest.raises(CorruptSavepoint, match="after 3 of 4 units"):
            read_string(DataInputView(bytes.fromhex("05E901E901E901FF")))

    @pytest.mark.parametrize(("value", "data"), EXAMPLES)
    def test_the_examples_of_the_format_both_ways(self, value, data):
        assert bytes.fromhex(data) == written(value)
        assert value == read_string(DataInputView(bytes.fromhex(data)))

    @given(st.text(st.characters(codec=None), max_size=40))
    def test_any_text_comes_back_unit_by_unit(self, value):
        source = DataInputView(written(value) + b"rest")
        units = value.encode("utf-16-be", "surrogatepass")

        assert units == read_string(source).encode("utf-16-be", "surrogatepass")
        assert 4 == source.remaining()

    def test_bytes_ahead_of_a_string_with_other_letters_are_left_alone(self):
        source = DataInputView(written("é") + written("aé") + b"\xe9")

        assert ["é", "aé"] == [read_string(source), read_string(source)]
        assert 1 == source.remaining()

    @pytest.mark.parametrize(
        ("data", "message"),
        [
            ("", "1 bytes were expected"),
            ("FFFFFFFF07", "2147483646 UTF-16 units is declared"),
            ("FFFFFFFFFFFF", "does not end"),
            ("0361", "2 UTF-16 units is declared"),
            ("0361E9", "after 1 of 2 units"),
            ("02808080", "is not valid UTF-16"),
            ("02FFFF04", "is not valid UTF-16"),
            ("02E900", "is not valid UTF-16"),
        ],
    )
    def test_what_flink_cannot_have_written_is_refused(self, data, message):
        with pytest.raises(CorruptSavepoint, match=message):
            read_string(DataInputView(bytes.fromhex(data)))

    def test_a_null_is_refused_unless_allowed(self):
        with pytest.raises(ValueNotConvertible, match="None is not a string"):
            StringSerializer().serialize(None, DataOutputView())
        with pytest.raises(ValueNotConvertible, match="a null is stored"):
            StringSerializer().deserialize(DataInputView(b"\0"))

    def test_the_serializer_restored_from_a_snapshot_reads_nulls(self):
        restored = StringSerializer().snapshot_configuration().restore_serializer()

        assert restored.deserialize(DataInputView(b"\0")) is None

    def test_other_types_are_refused(self):
        with pytest.raises(ValueNotConvertible, match="b'x' is not a string"):
            StringSerializer().serialize(b"x", DataOutputView())


class TestRules:
    def test_text_1_strings_become_bytes_by_migration(self):
        result = BytesSerializer().ensure_compatibility(StringSerializer().snapshot_configuration())

        assert Verdict.REQUIRES_MIGRATION is result.verdict
        assert [("TEXT-1", "string", "bytes", ())] == [(f.rule, f.old, f.new, f.flags) for f in result.findings]
        assert "日".encode() == pickle.loads(pickle.dumps(result.conversion))("日")
        assert result.conversion(None) is None

    def test_text_1_half_a_character_is_an_error_that_names_it(self):
        result = BytesSerializer().ensure_compatibility(StringSerializer().snapshot_configuration())

        with pytest.raises(ValueNotConvertible, match="lone surrogate") as caught:
            result.conversion("a\ud83d")
        assert "TEXT-1" == caught.value.where["rule"]

    def test_text_2_bytes_become_strings_by_a_migration_that_may_fail(self):
        result = StringSerializer().ensure_compatibility(BytesSerializer().snapshot_configuration())

        assert Verdict.REQUIRES_MIGRATION is result.verdict
        assert [("TEXT-2", "bytes", "string")] == [(f.rule, f.old, f.new) for f in result.findings]
        assert (("$", Flag.MAY_FAIL_PER_VALUE),) == result.flags
        assert "日" == pickle.loads(pickle.dumps(result.conversion))("日".encode())

    def test_text_2_bytes_that_are_no_utf_8_are_never_replaced(self):
        result = StringSerializer().ensure_compatibility(BytesSerializer().snapshot_configuration())

        with pytest.raises(ValueNotConvertible, match=r"byte 1 of 2") as caught:
            result.conversion(b"a\xff")
        assert "TEXT-2" == caught.value.where["rule"]

    @pytest.mark.parametrize("serializer", [StringSerializer(), BytesSerializer()])
    def test_prim_4_numbers_become_neither(self, serializer):
        result = serializer.ensure_compatibility(LongSerializer().snapshot_configuration())

        assert result.is_incompatible()
        assert ["PRIM-4"] == [finding.rule for finding in result.findings]


class TestChars:
    @pytest.mark.parametrize(("char", "data"), [("a", "0061"), ("\0", "0000"), ("中", "4E2D"), ("\ud83d", "D83D")])
    def test_bytes(self, write, read, char, data):
        assert bytes.fromhex(data) == write(CharSerializer(), char)
        assert char == read(CharSerializer(), bytes.fromhex(data))

    @pytest.mark.parametrize("value", ["", "ab", "😀", None, 97, b"a"])
    def test_what_is_no_utf16_unit_is_an_error(self, write, value):
        with pytest.raises(ValueNotConvertible, match="is not a char: a string of one UTF-16 unit"):
            write(CharSerializer(), value)

    @pytest.mark.parametrize("other", [StringSerializer(), BytesSerializer(), LongSerializer()])
    def test_prim_4_a_char_becomes_nothing_else(self, ask, rules, other):
        for result in (ask(other, CharSerializer()), ask(CharSerializer(), other)):
            assert result.is_incompatible()
            assert [("$", "PRIM-4")] == rules(result)

    def test_an_array_of_chars(self, write, read, stored):
        array = PrimitiveArraySerializer(CharSerializer())
        data = bytes.fromhex("00000003 0061 D83D 4E2D")

        assert data == write(array, ["a", "\ud83d", "中"])
        assert ["a", "\ud83d", "中"] == read(stored(array).restore_serializer(), data)
        assert "array<char>" == array.describe()
        with pytest.raises(ValueNotConvertible, match="'😀' is not a char") as caught:
            write(array, ["a", "😀"])
        assert "$[]" == caught.value.where["path"]
