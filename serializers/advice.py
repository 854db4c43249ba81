"""Wording of ways out, as the new type is declared: decorators and options in Python, keys in an Avro schema."""

from __future__ import annotations


class Advice:
    """Says what to write in Python so that a finding goes away."""

    def same_record(self, name: str) -> str:
        """Return how to declare that the stored record of that name is the same one."""
        return f"if it is the same class: @record(aliases=[{name!r}])"

    def same_enum(self, name: str) -> str:
        """Return how to declare that the stored enum of that name is the same one."""
        return f"if it is the same enum: @enum_options(aliases=({name!r},))"

    def field_alias(self, stored: str) -> str:
        """Return how to declare a former name of a field."""
        return f"Field(aliases=[{stored!r}])"

    def default(self, name: str, *, optional: bool) -> str:
        """Return how to declare a default for a field."""
        return f"give it a default: {name} = {'None' if optional else '…'}"

    def optional(self, name: str) -> str:
        """Return how to declare that a field may be null."""
        return f"declare it optional: {name}: … | None"

    def on_none(self, name: str) -> tuple[str, ...]:
        """Return how to declare what a stored null becomes; empty where that cannot be declared."""
        return (f"say what a null becomes: Field(on_none=…) on {name}",)

    def subclass(self, name: str) -> tuple[str, ...]:
        """Return how to declare a stored subclass, or what it became."""
        return ("declare the subclass with @record", f"declare what it became: @record(aliases=[{name!r}])")

    def symbol_alias(self, stored: str, present: str) -> str:
        """Return how to declare a former name of an enum's symbol."""
        return f"if it is now called {present!r}: @enum_options(symbol_aliases={{{present!r}: ({stored!r},)}})"

    def enum_default(self) -> str:
        """Return how to declare a symbol that replaces stored symbols which are gone."""
        return "name a symbol for those that are gone: @enum_options(default=…)"


PYTHON = Advice()
