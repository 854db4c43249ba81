"""Options for reading and writing; errors list the options that exist."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from ...serializers.errors import DeclarationError, StateShiftError
from ...serializers.wording import meant

if TYPE_CHECKING:
    import enum
    from collections.abc import Iterable, Mapping

    from ...state.storage.files import Root

    Options = Mapping[str, str]

E = TypeVar("E", bound="enum.StrEnum")

_MOST_DIGITS = 18


def refuse_unknown(options: Options, known: tuple[str, ...], what: str) -> None:
    """Refuse an unknown option.

    Args:
        options: The given options.
        known: The names of all options, except `path`, the argument of `load` and `save`.
        what: Their purpose, for the message: a read, a write.
    """
    strange = next((name for name in map(str, options) if name.lower() not in known), None)
    if strange is not None:
        raise DeclarationError(
            f"unknown option {strange!r} for a {what}{meant(strange.lower(), known)}",
            advice=f"the options are: {', '.join(name for name in known if name != 'path')}",
        )


def required(options: Options, name: str, what: str) -> str:
    """Return a required option; `what` describes it in the error."""
    value = options.get(name)
    if not value:
        raise DeclarationError(f"the option {name!r} is missing", advice=f'give {what}: .option("{name}", "…")')
    return value


def choice(options: Options, name: str, choices: Iterable[E]) -> E | None:
    """Return an option with a fixed set of values; None if it is not given."""
    value, words = (options.get(name) or "").lower(), tuple(choices)
    if value and value not in words:
        raise DeclarationError(f"the option {name!r} is {value!r}", advice=f"use one of {', '.join(words)}")
    return next((one for one in words if one == value), None)


def places(options: Options, name: str) -> tuple[str, ...]:
    """Return an option with a list of places, separated by commas."""
    return tuple(place for place in (options.get(name) or "").split(",") if place)


def roots(options: Options) -> tuple[Root, ...]:
    """Return the places of `allow_roots`, and the pairs of `checkpoint_roots`, written OLD=NEW.

    Raises:
        DeclarationError: A pair does not have two places.
    """
    moved = tuple(pair.partition("=")[::2] for pair in places(options, "checkpoint_roots"))
    if not all(old and new for old, new in moved):
        raise DeclarationError(
            f"the option 'checkpoint_roots' is {options.get('checkpoint_roots')!r}",
            advice="give OLD=NEW: the folder that the checkpoint names, and the one where its files are",
        )
    return (*places(options, "allow_roots"), *moved)


def number(options: Options, name: str) -> int | None:
    """Return an option with a number from 1; None if it is not given."""
    value = options.get(name)
    if not value:
        return None
    if not value.isdecimal() or len(value) > _MOST_DIGITS or not int(value):
        raise DeclarationError(f"the option {name!r} is {value!r}", advice="give a positive integer")
    return int(value)


def flag(options: Options, name: str) -> bool:
    """Return an option that is true or false; false if it is not given."""
    value = options.get(name, "false").lower()
    if value not in {"true", "false"}:
        raise DeclarationError(f"the option {name!r} is {value!r}", advice="use true or false")
    return value == "true"


def bare(error: StateShiftError) -> StateShiftError:
    """Remove the traceback within stateshift from an error: Spark shows all of it before the message."""
    return error.with_traceback(None)
