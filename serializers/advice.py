"""Ways out in the words of whoever declares the new type: decorators and options in Python, keys in an Avro schema."""

from __future__ import annotations


class Advice:
    """What is to be written in Python so that a finding goes away."""

    def same_record(self, name: str) -> str:
        """Say that the stored record of that name is the same one."""
        return f"if it is the same class: @record(aliases=[{name!r}])"

    def same_enum(self, name: str) -> str:
        """Say that the stored enum of that name is the same one."""
        return f"if it is the same enum: @enum_options(aliases=({name!r},))"

    def field_alias(self, stored: str) -> str:
        """Give a field a former name."""
        return f"Field(aliases=[{stored!r}])"

    def default(self, name: str, *, optional: bool) -> str:
        """Give a field a default."""
        return f"give it a default: {name} = {'None' if optional else '…'}"

    def optional(self, name: str) -> str:
        """Let a field be null."""
        return f"declare it optional: {name}: … | None"

    def on_none(self, name: str) -> tuple[str, ...]:
        """Say what a stored null becomes, where there is a way to say it."""
        return (f"say what a null becomes: Field(on_none=…) on {name}",)

    def subclass(self, name: str) -> tuple[str, ...]:
        """Know a stored subclass."""
        return ("declare the subclass with @record", f"declare what it became: @record(aliases=[{name!r}])")

    def symbol_alias(self, stored: str, present: str) -> str:
        """Give a symbol of an enum a former name."""
        return f"if it is now called {present!r}: @enum_options(symbol_aliases={{{present!r}: ({stored!r},)}})"

    def enum_default(self) -> str:
        """Name the symbol for stored ones that are gone."""
        return "name a symbol for those that are gone: @enum_options(default=…)"


PYTHON = Advice()
