"""Forms of bytes: how the parts of headers and snapshots are stored, told once for reading and for writing.

A form of an object is a table of its attributes in the order of their bytes. Values of states, of which there are many,
have serializers and byte rewrites instead.
"""

from __future__ import annotations

from operator import methodcaller
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import attrs

from .errors import CorruptSavepoint, at_step
from .views import DataInputView, DataOutputView

if TYPE_CHECKING:
    import enum
    from collections.abc import Callable, Mapping
    from contextlib import AbstractContextManager

    Fields = Mapping[str, "ByteForm[Any]"]
    Within = Callable[[Any], AbstractContextManager[object]]

S = TypeVar("S")
T = TypeVar("T")
E = TypeVar("E", bound="enum.IntEnum")


@attrs.frozen
class ByteForm(Generic[T]):
    """How one part is stored.

    Attributes:
        read: Reads it; raises `CorruptSavepoint`.
        write: Writes it; raises `ValueNotConvertible` for what does not fit.
        least: The least number of its bytes; counts that the bytes cannot hold are refused by it.
    """

    read: Callable[[DataInputView], T]
    write: Callable[[DataOutputView, T], object]
    least: int = 1


BYTE = ByteForm(DataInputView.read_unsigned_byte, DataOutputView.write_byte)
BOOLEAN = ByteForm(DataInputView.read_boolean, DataOutputView.write_boolean)
SHORT = ByteForm(DataInputView.read_short, DataOutputView.write_short, 2)
INT = ByteForm(DataInputView.read_int, DataOutputView.write_int, 4)
LONG = ByteForm(DataInputView.read_long, DataOutputView.write_long, 8)
UTF: ByteForm[str] = ByteForm(methodcaller("read_utf"), DataOutputView.write_utf, 2)


def sized(what: str) -> ByteForm[bytes]:
    """Return the form of bytes behind an i32, their number; `what` they are stands in errors."""

    def read(source: DataInputView) -> bytes:
        return source.read_fully(source.read_size(f"bytes of {what}"))

    def write(target: DataOutputView, data: bytes) -> None:
        target.write_int(len(data))
        target.write(data)

    return ByteForm(read, write, 4)


def utf8(what: str, *, errors: str = "strict") -> ByteForm[str]:
    """Return the form of a text as UTF-8 behind an i32, the number of its bytes; `errors` as of `str.encode`."""
    form = sized(what)

    def read(source: DataInputView) -> str:
        start = source.position
        try:
            return form.read(source).decode("utf-8", errors)
        except UnicodeDecodeError as error:
            raise CorruptSavepoint(f"{what} is not UTF-8", offset=start) from error

    return ByteForm(read, lambda target, text: form.write(target, text.encode("utf-8", errors)), 4)


def checked(form: ByteForm[T], is_valid: Callable[[T], object], problem: str) -> ByteForm[T]:
    """Return a form that refuses some values when they are read; `{}` in the problem is the value."""

    def read(source: DataInputView) -> T:
        start = source.position
        value = form.read(source)
        if not is_valid(value):
            raise CorruptSavepoint(problem.format(value), offset=start)
        return value

    return ByteForm(read, form.write, form.least)


def mapped(form: ByteForm[S], make: Callable[[S], T], stored: Callable[[T], S]) -> ByteForm[T]:
    """Return the form of what is made from a stored value; `stored` returns that value."""
    return ByteForm(
        lambda source: make(form.read(source)), lambda target, value: form.write(target, stored(value)), form.least
    )


def optional(flag: ByteForm[Any], form: ByteForm[T]) -> ByteForm[T | None]:
    """Return the form of a part behind a flag; where that is false or 0, there is none."""

    def write(target: DataOutputView, value: T | None) -> None:
        flag.write(target, value is not None)
        if value is not None:
            form.write(target, value)

    return ByteForm(lambda source: form.read(source) if flag.read(source) else None, write, flag.least)


def member(kind: type[E], problem: str) -> ByteForm[E]:
    """Return the form of a member of an enum: a u8, its value."""
    numbers = frozenset(kind)
    return mapped(checked(BYTE, lambda value: value in numbers, problem), kind, int)


def marked(mark: int, what: str, form: ByteForm[T]) -> ByteForm[T]:
    """Return the form of a part behind an i32 that is always the same, such as a magic number."""

    def read(source: DataInputView) -> T:
        source.expect(mark, what)
        return form.read(source)

    def write(target: DataOutputView, value: T) -> None:
        target.write_int(mark)
        form.write(target, value)

    return ByteForm(read, write, 4 + form.least)


def many(form: ByteForm[T], what: str, *, apart: str = "", number: ByteForm[int] = INT) -> ByteForm[tuple[T, ...]]:
    """Return the form of parts of one form behind their number.

    Args:
        form: The form of each.
        what: What they are, for errors.
        apart: An attribute by which they must differ; "": they need not.
        number: The form of their number.
    """

    def read(source: DataInputView) -> tuple[T, ...]:
        start, count = source.position, number.read(source)
        if count < 0 or count * form.least > source.remaining():
            raise CorruptSavepoint(
                f"{count} {what} are declared, but only {source.remaining()} bytes are left", offset=start
            )
        found = tuple([form.read(source) for _ in range(count)])
        if apart and len({getattr(one, apart) for one in found}) < count:
            raise CorruptSavepoint(f"two {what} have the same {apart}", offset=start)
        return found

    def write(target: DataOutputView, values: tuple[T, ...]) -> None:
        number.write(target, len(values))
        for value in values:
            form.write(target, value)

    return ByteForm(read, write, number.least)


def stepped(step: str, form: ByteForm[T]) -> ByteForm[T]:
    """Return the form of a part that errors reach by a step of their path."""

    def read(source: DataInputView) -> T:
        with at_step(step):
            return form.read(source)

    return ByteForm(read, form.write, form.least)


def several(*forms: ByteForm[Any], within: Within | None = None) -> ByteForm[tuple[Any, ...]]:
    """Return the form of a tuple of parts, one after the other.

    Args:
        forms: Their forms.
        within: Returns, for the first part, what adds it to errors of the others.
    """
    first, *others = forms

    def read(source: DataInputView) -> tuple[Any, ...]:
        name = first.read(source)
        if within is None:
            return (name, *[form.read(source) for form in others])
        with within(name):
            return (name, *[form.read(source) for form in others])

    def write(target: DataOutputView, values: tuple[Any, ...]) -> None:
        for form, value in zip(forms, values, strict=True):
            form.write(target, value)

    return ByteForm(read, write, sum(form.least for form in forms))


def made(make: Callable[..., T], fields: Fields, *, within: Within | None = None) -> ByteForm[T]:
    """Return the form of an object.

    Args:
        make: Makes it from its attributes.
        fields: The forms of the attributes, in the order of their bytes.
        within: As of `several`.
    """
    return mapped(
        several(*fields.values(), within=within),
        lambda values: make(**dict(zip(fields, values, strict=True))),
        lambda value: tuple([getattr(value, name) for name in fields]),
    )
