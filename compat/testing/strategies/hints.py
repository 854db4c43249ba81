"""Type hints, as a program declares them, and values of a type, as its serializer accepts them.

Classes are created on the fly; records and enums have stable names, so that they stay the same state.
"""

from __future__ import annotations

import datetime as dt
import enum
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any, Optional, get_args, get_origin

import attrs
from hypothesis import strategies as st

from ....serializers.defaults import Default
from ....serializers.drawing import Drawing
from ....serializers.enums.serializers import EnumSerializer, JavaEnumSerializer, enum_options
from ....serializers.hints import serializer_for, strip_none
from ....serializers.primitives.abilities import BigInt, Char, Float32, Int8, Int16, Int32
from ....serializers.records.classes import Field, class_fields, options_of, record
from ....serializers.temporal.abilities import NaiveDatetime

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from hypothesis.strategies import DrawFn, SearchStrategy

    from ....serializers.enums.serializers import SymbolAliases
    from ....serializers.serializer import TypeSerializer


def values_of(
    hint: Any, *, own: Mapping[type[TypeSerializer[Any]], SearchStrategy[Any]] | None = None
) -> SearchStrategy[Any]:
    """Draw values of a type which its serializer writes, and reads back as equal values.

    Extreme numbers, empty texts and containers, and every symbol of an enum come often. Floats are never NaN, which is
    not equal to itself, and texts have no lone surrogates.

    Args:
        hint: The type hint or serializer.
        own: Strategies for serializers of your own, by class; used wherever such a serializer is part of the type. A
            family of your own registers them instead.

    Raises:
        DeclarationError: The type has no serializer, or a serializer in it has no strategy.
    """
    return Drawing(own or {}).values(serializer_for(hint))


MODULE = "drawn"
"""The module that the classes claim to be from; it does not exist, so their values cannot be pickled."""

_NONE = Field()


class _Told(type):
    """A metaclass whose `repr` shows the fields in hypothesis output: `Item(id: long, note: optional<string>)`."""

    def __repr__(cls) -> str:
        fields = ", ".join(f"{field.attribute}: {in_words(field.hint)}" for field in class_fields(cls))
        return f"{cls.__qualname__}({fields})"


class _Base(metaclass=_Told):
    """The base class of all drawn records; it has no field, and is not part of the state."""


def in_words(hint: Any) -> str:
    """Return the name of a type, as messages print it."""
    bare, is_optional = strip_none(hint)
    words = serializer_for(bare).describe()
    return f"optional<{words}>" if is_optional and bare is not None else words


def generic(origin: Any, *arguments: Any) -> Any:
    """Return `origin[…]` for types that are known at run time only."""
    return origin[arguments]


def optional(hint: Any) -> Any:
    """Return `T | None` for any hint."""
    return Optional[hint]  # noqa: UP045 - some hints do not support the | operator


@attrs.frozen
class Attribute:
    """A field of a record class: its name in Python, its type, its `Field` options, its default."""

    name: str
    hint: Any
    options: Field = _NONE
    default: Default | None = None

    def renamed(self, name: str, *, aliases: Iterable[str]) -> Attribute:
        """Return the field under another name."""
        return attrs.evolve(self, name=name, options=attrs.evolve(self.options, name="", aliases=aliases))

    def of_type(self, hint: Any) -> Attribute:
        """Return the field with another type and without its default, as options for the old type need not fit."""
        kept = Field(name=self.options.name, aliases=self.options.aliases, declared_by=self.options.declared_by)
        return attrs.evolve(self, hint=hint, options=kept, default=None)

    @property
    def stored_names(self) -> tuple[str, ...]:
        """The names of the field in the state: the current one, then the former ones."""
        return (self.options.name or self.name, *self.options.aliases)


@attrs.frozen
class RecordClass:
    """The declaration of a record class; `made` creates the class."""

    name: str
    attributes: tuple[Attribute, ...]
    module: str = MODULE
    java_class: str = ""
    aliases: tuple[str, ...] = ()
    retired: Any = ()

    @classmethod
    def of(cls, given: type) -> RecordClass:
        """Return the declaration of an existing class: an attrs class, a dataclass or a named tuple."""
        options = options_of(given)
        attributes = tuple(_attribute(field.attribute, field.hint, field.default) for field in class_fields(given))
        retired = dict(options.retired_types) or options.retired
        return cls(given.__qualname__, attributes, given.__module__, options.java_class, options.aliases, retired)

    @property
    def identity(self) -> str:
        """The name of the class in the state."""
        return self.java_class or f"{self.module}.{self.name}"

    def made(self) -> type:
        """Create a frozen attrs class."""
        fields = {attribute.name: _attrs_field(attribute) for attribute in self.attributes}
        made = attrs.make_class(self.name.rpartition(".")[2], fields, bases=(_Base,), kw_only=True, frozen=True)
        made.__module__, made.__qualname__ = self.module, self.name
        return record(java_class=self.java_class, aliases=self.aliases, retired=self.retired)(made)


def _attribute(name: str, hint: Any, default: Default | None) -> Attribute:
    if get_origin(hint) is Annotated:
        bare, *metadata = get_args(hint)
        options = next((item for item in metadata if isinstance(item, Field)), Field())
        others = tuple(item for item in metadata if not isinstance(item, Field))
        return Attribute(name, Annotated[(bare, *others)] if others else bare, options, default)
    return Attribute(name, hint, default=default)


def _attrs_field(attribute: Attribute) -> Any:
    hint: Any = attribute.hint if attribute.options == _NONE else Annotated[attribute.hint, attribute.options]
    if attribute.default is None:
        return attrs.field(type=hint)
    factory = attribute.default.factory
    if factory is None:
        return attrs.field(type=hint, default=attribute.default.value)
    return attrs.field(type=hint, factory=factory)


def enum_class(
    name: str,
    symbols: Iterable[str],
    *,
    module: str = MODULE,
    java_class: str = "",
    aliases: tuple[str, ...] = (),
    symbol_aliases: SymbolAliases = (),
    default: str = "",
) -> Any:
    """Create an enum; aliases and a default that contradict its symbols are left out."""
    members = {symbol: number for number, symbol in enumerate(symbols)}
    functional: Any = enum.Enum
    made = functional(name.rpartition(".")[2], members, module=module, qualname=name)
    former = {
        symbol: tuple(alias for alias in names if alias not in members)
        for symbol, names in symbol_aliases
        if symbol in members
    }
    kept = default if default in members else ""
    options = enum_options(java_class=java_class, aliases=aliases, symbol_aliases=former, default=kept)
    return options(made)


def enum_like(given: type[enum.Enum], symbols: Iterable[str], **changed: Any) -> Any:
    """Create an enum with the options of another one, but other symbols and the changed options."""
    told = EnumSerializer.of(given)
    java = told.name if isinstance(told, JavaEnumSerializer) else ""
    same = {"aliases": told.aliases, "symbol_aliases": told.symbol_aliases, "default": told.default}
    where = {"module": given.__module__, "java_class": java}
    return enum_class(given.__qualname__, symbols, **{**where, **same, **changed})


NUMBERS: tuple[Any, ...] = (Int8, Int16, Int32, int, BigInt, Float32, float)
"""The types of numbers from narrow to wide, whole numbers first."""

OTHERS: tuple[Any, ...] = (bool, str, Char, bytes, Decimal, dt.datetime, NaiveDatetime, dt.date, dt.time)
FIELD_NAMES = ("id", "name", "amount", "note", "color", "seen", "place", "owner")
SYMBOLS = ("OPEN", "PAID", "SENT", "LOST", "KEPT", "DONE")
leaves: SearchStrategy[Any] = st.sampled_from(NUMBERS + OTHERS)


def types(*, max_depth: int = 2, hashable: bool = False) -> SearchStrategy[Any]:
    """Draw type hints: numbers, text, bytes, decimals, times, enums, lists, sets, dicts, tuples, records, `T | None`.

    Records (attrs classes) and enums are created on the fly. They have stable names in a module `drawn`, which does not
    exist, so that their values cannot be pickled. A record prints with its fields: `Item(id: long, note: string)`.

    Args:
        max_depth: The maximum number of levels of containers and records; 0: none.
        hashable: Draw only types whose values can be keys: of an operator, a dict, a set.
    """
    return _types(max_depth, "Item", hashable=hashable)


@st.composite
def _types(draw: DrawFn, depth: int, name: str, *, hashable: bool = False) -> Any:
    """Draw a type; the names of its classes are unique, and begin with the given name."""
    kinds: list[Callable[..., Any]] = [_leaf, _leaf, _enum]
    if depth > 0:
        kinds += [_tuple] if hashable else [_record, _record, _record, _list, _set, _map, _tuple, _optional]
    return draw(st.sampled_from(kinds))(draw, depth - 1, name, hashable=hashable)


def _leaf(draw: DrawFn, _: int, __: str, **___: bool) -> Any:
    return draw(leaves)


def _enum(draw: DrawFn, _: int, name: str, **__: bool) -> Any:
    return enum_class(f"{name}Kind", draw(st.lists(st.sampled_from(SYMBOLS), min_size=1, max_size=4, unique=True)))


def _optional(draw: DrawFn, depth: int, name: str, **_: bool) -> Any:
    return optional(draw(_types(depth, name)))


def _list(draw: DrawFn, depth: int, name: str, **_: bool) -> Any:
    return generic(list, draw(_types(depth, name)))


def _set(draw: DrawFn, depth: int, name: str, **_: bool) -> Any:
    return generic(frozenset, draw(_types(depth, name, hashable=True)))


def _map(draw: DrawFn, depth: int, name: str, **_: bool) -> Any:
    key = draw(_types(depth, f"{name}Key", hashable=True))
    return generic(dict, key, draw(_types(depth, name)))


def _tuple(draw: DrawFn, depth: int, name: str, *, hashable: bool = False) -> Any:
    count = draw(st.integers(1, 3))
    return generic(tuple, *(draw(_types(depth, f"{name}{at}", hashable=hashable)) for at in range(count)))


def _record(draw: DrawFn, depth: int, name: str, **_: bool) -> Any:
    names = draw(st.lists(st.sampled_from(FIELD_NAMES), min_size=1, max_size=4, unique=True))
    attributes = [draw(attribute(field, _types(depth, f"{name}{field.title()}"))) for field in names]
    return RecordClass(name, tuple(attributes)).made()


@st.composite
def attribute(draw: DrawFn, name: str, hints: SearchStrategy[Any], *, has_default: bool | None = None) -> Attribute:
    """Draw a field of a record, optional in a third of the draws; without `has_default`, a fourth have a default."""
    hint = draw(hints)
    if draw(st.integers(0, 2)) == 2:
        hint = optional(hint)
    if not (draw(st.integers(0, 3)) == 3 if has_default is None else has_default):
        return Attribute(name, hint)
    value = draw(values_of(hint))
    return Attribute(name, hint, default=Default(value) if _is_constant(value) else Default(factory=lambda: value))


def _is_constant(value: Any) -> bool:
    """Whether records may share a value as a default; a value with a list needs a factory in attrs."""
    try:
        hash(value)
    except TypeError:
        return False
    return True
