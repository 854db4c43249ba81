"""`PickledValue`: an unopened pickle, and how a caller that trusts its class opens it.

Values with shared parts that are written as trees have a limit: far more than was stored is refused. Fingerprints: what
is known of a pickled class without one of its values (rule PKL-1).
"""

from __future__ import annotations

import dis
import enum
import inspect
import itertools
import pickle
import sys
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

import attrs

from ..byte_forms import BOOLEAN, INT, UTF, ByteForm, made, many, mapped, member, several
from ..errors import (
    PART,
    CorruptSavepoint,
    DeclarationError,
    StateShiftError,
    ValueNotConvertible,
    cause_text,
    size_of_part,
)
from ..records.classes import class_fields, is_record_class
from ..stored_names import known_name, lasting, qualified_name
from .trust import trusted_names
from .unpickler import BY_VALUE, LIBRARY, Names, open_pickle, untrusted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from types import FunctionType


@lasting
@attrs.frozen(repr=False)
class PickledValue:
    """A stored pickle, unopened, as a reader without a job returns it for pickled state.

    Attributes:
        class_name: Qualified name of the class that the state declares. The bytes need not hold one.
        data: The pickle.
        by_value: Whether the state declares that the pickle contains the class, as code.
    """

    class_name: str
    data: bytes
    by_value: bool = attrs.field(default=False, kw_only=True)

    def __repr__(self) -> str:
        return f"PickledValue({self.class_name!r}, {len(self.data)} bytes)"

    def load(self, trust: Iterable[str] = ()) -> Any:
        """Open the pickle; modules of trusted classes are imported.

        Args:
            trust: Qualified names that the pickle may use, in addition to those that the calling migration trusts: the
                class itself and the classes within. `by-value:` before the name of the class also runs code in it.

        Raises:
            UntrustedCode: It names something else.
            CorruptSavepoint: It is not a pickle, or holds another class than the state declares.
            ValueNotConvertible: A trusted name cannot be imported, or a pickle with its own code cannot be opened.
        """
        value = self.open({}, trust)
        if qualified_name(type(value)) != self.class_name:
            raise CorruptSavepoint(
                f"the state declares pickles of {self.class_name}, but one holds a {qualified_name(type(value))}"
            )
        return value

    def open(self, known: Mapping[str, Any], trust: Iterable[str] = ()) -> Any:
        """Open the pickle with known objects for some names, and without checking the class of the value.

        Raises the errors of `load`.

        Args:
            known: Name -> the object that it means, if it is trusted.
            trust: As for `load`.
        """
        trusted = frozenset(map(known_name, trust)) | (trusted_names() or frozenset())
        if self.by_value:
            return self._run(trusted)
        if self.class_name not in trusted:
            raise untrusted(self.class_name)
        names = Names(self.class_name, {name: found for name, found in known.items() if name in trusted}, trusted)
        return open_pickle(self.data, names)

    def _run(self, trusted: frozenset[str]) -> Any:
        word = BY_VALUE + self.class_name
        if word not in trusted:
            raise untrusted(word)
        try:
            return pickle.loads(self.data)  # noqa: S301 - the caller trusts the code within
        except StateShiftError:
            raise
        except Exception as error:
            raise ValueNotConvertible(
                f"a pickle with its own code cannot be opened: {cause_text(error)}", rule="PKL-5"
            ) from error


_LEAST_UNFOLDED = 8 << 20


class Unfolding:
    """Counts the size of a value as a tree, in which a shared part counts each time that it occurs.

    Attributes:
        left: The remaining size, in the units of `size_of_part`.
    """

    __slots__ = ("left",)

    def __init__(self, most: int) -> None:
        """Start with the largest allowed size."""
        self.left = most

    @classmethod
    def of_pickle(cls, size_bytes: int) -> Unfolding:
        """Return the limit for a pickle: what one of its size holds without sharing, and half a million parts more."""
        return cls(_LEAST_UNFOLDED + (PART + 1) * size_bytes)

    def count(self, value: object) -> None:
        """Count one part, without the parts within it.

        Raises:
            ValueNotConvertible: The limit is exceeded.
        """
        self.left -= size_of_part(value)
        if self.left < 0:
            raise ValueNotConvertible(
                "a pickled object shares its parts so often that it is far larger written out than it is stored, or it "
                "contains itself",
                advice="handle such values in a converter",
                rule="FAM-1",
            )


_GENERATED = {"attr._make", "attrs", "dataclasses"}
_NO_CLASSES = {"builtins", "collections.abc", "typing"}
_LEAST_SHAPE_BYTES = 7
_LONGEST_SYMBOL = 200


class PickledBy(enum.IntEnum):
    """How pickles identify the fields of an object: by name, by order, or, for an enum, by the member's value."""

    NAME = 0
    ORDER = 1
    SYMBOL = 2


@attrs.frozen
class Shape:
    """The shape of one class, as far as its code shows.

    Attributes:
        name: The qualified name.
        fields: The fields in order; for an enum, its members with their values.
        pickled_by: How pickles identify the fields.
    """

    name: str = ""
    fields: tuple[str, ...] = ()
    pickled_by: PickledBy = PickledBy.NAME

    def __str__(self) -> str:
        fields = ", ".join(self.fields)
        match self.pickled_by:
            case PickledBy.ORDER:
                return f"{self.name}({fields})"
            case PickledBy.SYMBOL:
                return f"{self.name}[{fields}]"
        return f"{self.name}{{{fields}}}" if fields else self.name


@attrs.frozen
class Fingerprint:
    """Everything about pickles that is compared.

    Attributes:
        classes: The declared class first, then those that its values may hold, by name.
        protocol: The pickle protocol.
        by_value: Whether each pickle contains the class itself, as code (cloudpickle).
        python: Major and minor version of the interpreter that wrote the pickles.
    """

    classes: tuple[Shape, ...] = (Shape(),)
    protocol: int = 0
    by_value: bool = False
    python: tuple[int, int] = (0, 0)

    @property
    def name(self) -> str:
        """The name of the declared class."""
        return self.classes[0].name

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all classes whose code a reader would need."""
        return tuple(shape.name for shape in self.classes)


_SHAPE: dict[str, ByteForm[Any]] = {
    "name": UTF,
    "pickled_by": member(PickledBy, "a pickled class is described in the unknown form {}"),
    "fields": many(UTF, "fields of a pickled class"),
}
FINGERPRINT = made(
    Fingerprint,
    {
        "classes": mapped(many(made(Shape, _SHAPE), "pickled classes"), lambda some: some or (Shape(),), tuple),
        "protocol": INT,
        "by_value": BOOLEAN,
        "python": several(INT, INT),
    },
)


def running_python() -> tuple[int, int]:
    """Return the major and minor version of this interpreter."""
    return sys.version_info[:2]


def shape_of(cls: type) -> Shape:
    """Return the shape of a class: its declared fields, or else the names in its `__slots__`, hints and `__init__`."""
    name = qualified_name(cls)
    if issubclass(cls, enum.Enum):
        members = (f"{member.name}={member.value!r}"[:_LONGEST_SYMBOL] for member in cls)
        return Shape(name, tuple(members), PickledBy.SYMBOL)
    in_order = issubclass(cls, tuple) or getattr(getattr(cls, "__setstate__", None), "__module__", "") == "dataclasses"
    return Shape(name, tuple(_fields(cls)), PickledBy.ORDER if in_order else PickledBy.NAME)


def _fields(cls: type) -> list[str]:
    if cls.__module__ == "builtins":
        return []
    if is_record_class(cls):
        try:
            return [field.attribute for field in class_fields(cls)]
        except DeclarationError:
            return sorted(_seen(cls))  # its hints cannot be resolved, and need not be
    return sorted(_seen(cls))


def _seen(cls: type) -> set[str]:
    names = set(slots_of(cls))
    for base in cls.__mro__:
        names |= set(inspect.get_annotations(base))
        init = base.__dict__.get("__init__")
        names |= set(_assigned(init)) if inspect.isfunction(init) else set()
    return names


def slots_of(cls: type) -> Iterator[str]:
    """Yield the `__slots__` of a class and its bases that hold attributes."""
    for base in cls.__mro__:
        slots = base.__dict__.get("__slots__", ())
        names = (slots,) if isinstance(slots, str) else tuple(slots)
        yield from (name for name in names if name not in {"__dict__", "__weakref__"})


def _assigned(init: FunctionType) -> Iterator[str]:
    """Yield the attributes that a constructor sets on its first argument, from its byte code; it needs no source."""
    own = init.__code__.co_varnames[:1]
    for before, step in itertools.pairwise(dis.get_instructions(init)):
        loaded = before.argval if isinstance(before.argval, tuple) else (before.argval,)
        if step.opname == "STORE_ATTR" and loaded[-1:] == own:
            yield step.argval


def classes_within(cls: type, given: Iterable[type]) -> tuple[type, ...]:
    """Return a class and all classes that its values may hold: the given ones, and those in hints of record classes."""
    found: dict[str, type] = {}
    pending = [cls, *given]
    while pending:
        one = pending.pop(0)
        name = qualified_name(one)
        if name in found or (name in LIBRARY and one is not cls):
            continue
        found[name] = one
        pending += _hinted(one) if is_record_class(one) else []
    first, *rest = found.values()
    return (first, *sorted(rest, key=qualified_name))


def _hinted(cls: type) -> Iterator[type]:
    try:
        pending: list[Any] = list(get_type_hints(cls).values())
    except (NameError, TypeError, AttributeError):
        return
    while pending:
        hint = pending.pop()
        arguments = get_args(hint)
        if arguments:
            pending += arguments
        elif isinstance(hint, type) and hint.__module__ not in _NO_CLASSES:
            yield hint


def reads_older_state(cls: type) -> bool:
    """Whether a class has a `__setstate__` that was not generated by attrs or dataclasses (rule PKL-4)."""
    hook = getattr(cls, "__setstate__", None)
    return hook is not None and getattr(hook, "__module__", "") not in _GENERATED


def is_plain(cls: type) -> bool:
    """Whether pickles of a class hold its fields, and nothing that only its own code understands."""
    if not is_record_class(cls) or reads_older_state(cls):
        return False
    return all(getattr(cls, name) is getattr(object, name) for name in ("__reduce__", "__reduce_ex__"))
