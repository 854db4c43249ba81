"""What code declares beyond its snapshot: kept as plain data, and put back into what the snapshot restores."""

from __future__ import annotations

import enum
import json
from typing import Annotated

import attrs
import pytest

from stateshift import Array, CorruptFile, Field, Int32, Row, Verdict, enum_options, record, row_of, serializer_for
from stateshift.compat.declarations import declared_facts, with_facts
from stateshift.serializers.enums.serializers import EnumSerializerSnapshot


@attrs.frozen
class Line:
    price: int = 3
    note: str | None = None


@record(aliases=["shop.OldOrder"], retired={"gone": str})
@attrs.frozen
class Order:
    lines: list[Line] = attrs.field(factory=list)
    total: Annotated[Int32, Field(aliases=["sum"], on_none=7)] = 0


@enum_options(symbol_aliases={"CLOSED": ("DONE",)}, default="OPEN")
class Level(enum.Enum):
    OPEN = 1
    CLOSED = 2


@enum_options(java_class="acme.Java")
class Java(enum.Enum):
    ON = 1


@attrs.frozen
class Columns:
    name: str
    price: int = 1


def kept(serializer):
    """A serializer after its snapshot and what it declares were written as text, and read by code without classes."""
    facts = json.loads(json.dumps(declared_facts(serializer)))
    return with_facts(serializer.snapshot_configuration().restore_serializer(), facts)


def test_defaults_come_back_as_values_of_their_field():
    (lines, total) = kept(serializer_for(Order)).fields

    assert [] == lines.default.make()
    assert (0, 7) == (total.default.make(), total.on_none.make())
    assert ("sum",) == total.aliases


def test_what_is_nested_has_its_own():
    (price, _) = reversed(
        kept(serializer_for(dict[str, list[Order]])).value.element.fields[0].serializer.element.fields
    )

    assert 3 == price.default.make()


@pytest.mark.parametrize("hint", [Order, Level, dict[str, Level | None], tuple[Line, Order], row_of(Columns)])
def test_what_was_kept_answers_as_the_code_does(hint):
    code = serializer_for(hint)

    assert declared_facts(code) == declared_facts(kept(code))


def test_a_type_without_declarations_has_none():
    assert {} == declared_facts(serializer_for(list[dict[str, list[int] | None]]))


class TestNulls:
    """Snapshots of POJOs, rows and containers lack which parts may be null: restored serializers accept null in any."""

    @record(java_class="acme.Count")
    @attrs.frozen
    class Required:
        of: str
        visits: Int32

    def test_required_fields_of_a_java_class_are_required_in_its_record(self):
        code, again = serializer_for(self.Required), kept(serializer_for(self.Required))

        assert [False, False] == [field.optional for field in again.fields]
        assert [None, None] == [field.default for field in again.fields]
        assert code.python_name == again.python_name

    def test_so_is_the_python_name_of_an_enum_with_a_java_class(self):
        """State that another release wrote under the Python name still belongs to it."""
        code, again = serializer_for(Java), kept(serializer_for(Java))
        before = EnumSerializerSnapshot(code.python_name, code.symbols)

        assert f"{__name__}.Java" == again.python_name
        assert code.ensure_compatibility(before).verdict is again.ensure_compatibility(before).verdict
        assert not again.ensure_compatibility(before).is_incompatible()

    @pytest.mark.parametrize(
        "hint",
        [Row[int, str], dict[str, int], set[int], Array[str], list[Row[int, str]]],
        ids=lambda hint: serializer_for(hint).describe(),
    )
    def test_columns_values_and_elements_are_declared_too(self, hint):
        code = serializer_for(hint)

        assert code != code.snapshot_configuration().restore_serializer()
        assert code == kept(code)

    def test_a_type_in_which_all_may_be_null_needs_no_record(self):
        assert {} == declared_facts(serializer_for(Row[int | None, str | None]))

    def test_a_restored_java_class_does_not_know_which_fields_may_be_null(self):
        restored = serializer_for(self.Required).snapshot_configuration().restore_serializer()

        assert (False, True) == (restored.knows_nulls, kept(serializer_for(self.Required)).knows_nulls)


def test_a_kept_default_lets_a_revision_take_over_state_without_the_field(ask):
    """So a way back can be judged from files: REC-2 for what was kept, REC-3 without it."""
    without_note = attrs.make_class("Line", {"price": attrs.field(type=int)})
    without_note.__module__, without_note.__qualname__ = Line.__module__, Line.__qualname__
    restored = serializer_for(Line).snapshot_configuration().restore_serializer()

    assert Verdict.INCOMPATIBLE is ask(restored, serializer_for(without_note)).verdict
    assert Verdict.REQUIRES_MIGRATION is ask(kept(serializer_for(Line)), serializer_for(without_note)).verdict


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({".nowhere": {"aliases": []}}, "has no part '.nowhere'"),
        ({".fields[0]": {"serializer": 1}}, "'serializer' is not declared by RecordField"),
        ({".fields[1]": {"default": {"default": "3", "bytes": "AA=="}}}, "the default '3' cannot be read"),
    ],
)
def test_facts_that_belong_to_something_else_are_refused(facts, words):
    restored = serializer_for(Line).snapshot_configuration().restore_serializer()

    with pytest.raises(CorruptFile, match=words):
        with_facts(restored, facts)
