"""Calls of a user's code, whose exceptions become errors of stateshift."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from ..serializers.errors import StateShiftError, ValueNotConvertible, cause_text

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


def called(step: Callable[[], T], failure: Callable[[], str], advice: str = "") -> T:
    """Return the result of a step that calls a user's code.

    Args:
        step: The step.
        failure: A function that returns what has failed, in words that the cause follows.
        advice: What to do about it.

    Raises:
        ValueNotConvertible: The code raised an exception that is not an error of stateshift.
    """
    try:
        return step()
    except StateShiftError:
        raise
    except Exception as error:
        raise ValueNotConvertible(f"{failure()}: {cause_text(error)}", advice=advice) from error
