"""Hints and classes created on the fly; records and enums have stable names, so that they stay the same state."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Annotated, Any, Optional, get_args, get_origin

import attrs

from ....serializers.enums.serializers import EnumSerializer, JavaEnumSerializer, enum_options
from ....serializers.hints import serializer_for, strip_none
from ....serializers.records.classes import Field, class_fields, options_of, record

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ....serializers.defaults import Default
    from ....serializers.enums.serializers import SymbolAliases

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
