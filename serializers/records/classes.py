"""Python classes as records: the fields that an attrs class, a dataclass or a named tuple declares.

Options that type hints cannot express are declared with `record` and `Field`:

    @record(java_class="com.acme.Account", aliases=("com.acme.old.Account",))
    @attrs.frozen
    class Account:
        id: int
        title: Annotated[str, Field(aliases=("name",))]
        email: str | None = None

And `Record`, the value that is read without the user's class, with access to fields of any record-like value.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Mapping
from operator import itemgetter
from typing import TYPE_CHECKING, Any, TypeVar, get_type_hints

import attrs

from ..containers.wrappers import OptionalSerializer
from ..defaults import NO_VALUE, Default
from ..errors import DeclarationError, StateShiftError, ValueNotConvertible, shown
from ..serializer import DECLARED
from ..stored_names import lasting, qualified_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from ..serializer import TypeSerializer
    from ..snapshot import TypeSerializerConfigSnapshot


@lasting
class Record:
    """Field name -> value, for a class that need not exist here.

    Fields are read as attributes or as items. All other attributes begin with an underscore, as in a named tuple, so
    that a field may have any name: `_type_name` is the stored class name, `_asdict()` returns the fields in stored
    order.
    """

    __slots__ = ("_fields", "_type_name")

    def __init__(self, type_name: str, fields: Mapping[str, Any]) -> None:
        self._type_name = type_name
        self._fields = dict(fields)

    def _asdict(self) -> dict[str, Any]:
        return dict(self._fields)

    def __getattr__(self, name: str) -> Any:
        if name in {"_fields", "_type_name"}:  # not yet there while unpickling
            raise AttributeError(name)
        try:
            return self._fields[name]
        except KeyError:
            raise AttributeError(f"{self._type_name} has no field {name!r}") from None

    def __getitem__(self, name: str) -> Any:
        return self._fields[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Record):
            return NotImplemented
        return self._type_name == other._type_name and self._fields == other._fields

    def __hash__(self) -> int:
        return hash((self._type_name, frozenset(self._fields.items())))

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={value!r}" for name, value in self._fields.items())
        return f"{self._type_name.rpartition('.')[2]}({fields})"

    def __reduce__(self) -> tuple[Any, ...]:
        return (Record, (self._type_name, self._fields))


def field_of(value: object, name: str, attribute: str) -> Any:
    """Return a field of a `Record` or mapping (by stored name) or of an object (by attribute).

    Raises:
        ValueNotConvertible: The value has no such field.
    """
    if isinstance(value, Record | Mapping):
        try:
            return value[name]
        except KeyError:
            raise ValueNotConvertible(f"{shown(value)} has no field {name!r}") from None
    try:
        return getattr(value, attribute)
    except AttributeError:
        raise ValueNotConvertible(f"{shown(value)} has no attribute {attribute!r}") from None


@attrs.frozen
class RecordField:
    """A field of a record that is declared in code.

    Attributes:
        name: Its name in the state.
        serializer: The serializer of its values.
        optional: Whether it may be null. The layout has a null flag before every field, so this costs no byte.
        attribute: Its name in Python, if different.
        init_name: The constructor's argument for it, if different.
        aliases: Former names, in the order in which they are tried.
        default: The default for stored records that lack the field; None: there is none.
        on_none: The value that replaces stored nulls, if the field is no longer optional.
        declared_by: The Java class that declares it, if it is a superclass.
        declared_aliases: Former names of that superclass.
    """

    name: str = attrs.field(metadata=DECLARED)
    serializer: TypeSerializer[Any]
    optional: bool = attrs.field(default=False, metadata=DECLARED)
    attribute: str = ""
    init_name: str = ""
    aliases: tuple[str, ...] = attrs.field(default=(), metadata=DECLARED)
    default: Default | None = attrs.field(default=None, metadata=DECLARED)
    on_none: Default | None = attrs.field(default=None, metadata=DECLARED)
    declared_by: str = ""
    declared_aliases: tuple[str, ...] = attrs.field(default=(), metadata=DECLARED)

    @property
    def step(self) -> str:
        """The path step to its values: `.name`, or `.name?` if it is optional, unless its serializer adds the `?`."""
        return f".{self.name}" + ("?" if self.optional and not isinstance(self.serializer, OptionalSerializer) else "")

    def describe(self) -> str:
        """Return the name of the type: `optional<string>`."""
        inner = self.serializer.describe()
        return f"optional<{inner}>" if self.optional and not inner.startswith("optional<") else inner


@attrs.frozen
class StoredField:
    """A field as its snapshot describes it.

    Attributes:
        name: Its name in the state.
        snapshot: The snapshot of its values.
        optional: Whether it may be null; None where the snapshot does not say (Flink's never does).
        declared_by: The Java class that declares it; "" where the snapshot does not say.
        takes_null: Whether the code that stored it allows null, where the snapshot does not say and that code, or a
            recorded revision of it, is known.
    """

    name: str
    snapshot: TypeSerializerConfigSnapshot[Any]
    optional: bool | None = None
    declared_by: str = ""
    takes_null: bool | None = attrs.field(default=None, eq=False, repr=False)

    def describe(self) -> str:
        """Return the name of the type."""
        inner = self.snapshot.describe()
        return f"optional<{inner}>" if self.optional else inner


C = TypeVar("C", bound=type)

_OPTIONS = "__stateshift_record__"
_MISSING = type(dataclasses.MISSING)  # a class that travels by value has another object of it


@attrs.frozen
class RecordOptions:
    """The arguments of `record`."""

    java_class: str = ""
    aliases: tuple[str, ...] = ()
    retired: tuple[str, ...] = ()
    retired_types: tuple[tuple[str, Any], ...] = ()


NO_RECORD_OPTIONS = RecordOptions()
"""The options of a class that is not decorated with `record`."""


def _names(given: Iterable[str]) -> tuple[str, ...]:
    if isinstance(given, str):
        raise DeclarationError("aliases must be a tuple of names, not a string", advice=f"write ({given!r},)")
    return tuple(given)


@attrs.frozen
class Field:
    """Options of one field, declared as `Annotated[type, Field(...)]`.

    Attributes:
        name: The field's name in the state, if it differs from the attribute's (`lastSeen` for `last_seen`).
        aliases: Former names in the state; the first one that is stored is used (rule REC-6).
        on_none: The value that replaces a stored null, if the field is no longer optional (rule REC-10).
        declared_by: The Java class that declares the field, if it is a superclass that does not exist in Python: Flink
            finds a field by the class that declares it. Fields of a base class with a `java_class` do not need it.
    """

    name: str = ""
    aliases: tuple[str, ...] = attrs.field(default=(), converter=_names)
    on_none: Any = NO_VALUE
    declared_by: str = ""


def record(
    *, java_class: str = "", aliases: Iterable[str] = (), retired: Iterable[str] | Mapping[str, Any] = ()
) -> Callable[[C], C]:
    """Declare more about a class whose instances are state, such as its Java class or former names. Optional.

    Args:
        java_class: The Java class of the same state in a Flink job; Flink then restores what is written.
        aliases: Former qualified names, Python's or Java's (rule REC-11).
        retired: Names of former fields that must not come back with another meaning (rule REC-16); with their types,
            `{"level": str}`, they may come back as they were.

    A decorated subclass is a registered subclass of its base: its values are allowed where the base is declared.
    """
    if isinstance(aliases, str) or isinstance(retired, str):
        raise DeclarationError("aliases and retired must be tuples of names, not a string")
    types = tuple(retired.items()) if isinstance(retired, Mapping) else ()
    options = RecordOptions(java_class, tuple(aliases), tuple(retired), types)

    def decorate(cls: C) -> C:
        setattr(cls, _OPTIONS, options)
        return cls

    return decorate


def options_of(cls: type) -> RecordOptions:
    """Return the options that `record` set on this very class, not on a base."""
    options: RecordOptions = cls.__dict__.get(_OPTIONS, NO_RECORD_OPTIONS)
    return options


def is_record_class(hint: object) -> bool:
    """Whether a hint is a class that can have a record serializer."""
    if not isinstance(hint, type):
        return False
    is_named_tuple = issubclass(hint, tuple) and hasattr(hint, "_fields")
    return attrs.has(hint) or dataclasses.is_dataclass(hint) or is_named_tuple


@attrs.frozen
class ClassField:
    """A field of a Python class: attribute, constructor argument, type hint, default."""

    attribute: str
    init_name: str
    hint: Any
    default: Default | None
    declared_by: type


def class_fields(cls: type) -> list[ClassField]:
    """Read the fields of an attrs class, a dataclass or a named tuple.

    Raises:
        DeclarationError: A field has no type, is not an argument of the constructor, or a hint cannot be resolved.
    """
    try:
        hints = get_type_hints(cls, localns={cls.__name__: cls}, include_extras=True)
    except (NameError, TypeError, AttributeError) as error:
        raise DeclarationError(
            f"the type hints of {qualified_name(cls)} cannot be resolved: {error}",
            advice="declare the classes that it names at the top level of an importable module",
        ) from error
    owners = {attribute: base for base in cls.__mro__ for attribute in inspect.get_annotations(base)}
    fields = []
    for attribute, init_name, default in _raw_fields(cls):
        if attribute not in hints:
            raise DeclarationError(f"the field {attribute!r} of {qualified_name(cls)} has no type hint")
        owner = owners.get(attribute, cls)
        fields.append(ClassField(attribute, init_name, hints[attribute], default, owner))
    return fields


def _raw_fields(cls: type) -> list[tuple[str, str, Default | None]]:
    if attrs.has(cls):
        return [
            (a.name, _init_name(cls, a.name, a.alias or a.name, a.init), _attrs_default(cls, a))
            for a in attrs.fields(cls)
        ]
    if dataclasses.is_dataclass(cls):
        return [
            (f.name, _init_name(cls, f.name, f.name, f.init), _dataclass_default(f)) for f in dataclasses.fields(cls)
        ]
    defaults = getattr(cls, "_field_defaults", {})
    names: tuple[str, ...] = getattr(cls, "_fields", ())
    return [(name, name, Default(defaults[name]) if name in defaults else None) for name in names]


def _init_name(cls: type, attribute: str, init_name: str, init: bool) -> str:  # noqa: FBT001 - as in attrs
    if not init:
        raise DeclarationError(
            f"the field {attribute!r} of {qualified_name(cls)} is not an argument of its constructor",
            advice="make it a property if it derives from other fields, or an ordinary field if it is state",
        )
    return init_name


def _attrs_default(cls: type, attribute: attrs.Attribute[Any]) -> Default | None:
    default: Any = attribute.default
    if default is attrs.NOTHING:
        return None
    if not isinstance(default, attrs.Factory):  # type: ignore[arg-type]  # a class at run time
        return Default(default)
    if default.takes_self:
        raise DeclarationError(
            f"the default of {attribute.name!r} in {qualified_name(cls)} depends on the instance (takes_self)",
            advice="give it a default that stored records without the field can get",
        )
    return Default(factory=default.factory)


def _dataclass_default(field: dataclasses.Field[Any]) -> Default | None:
    if not isinstance(field.default, _MISSING):
        return Default(field.default)
    if not isinstance(field.default_factory, _MISSING):
        return Default(factory=field.default_factory)  # type: ignore[arg-type]  # it is not missing
    return None


def registered_subclasses(cls: type) -> list[type]:
    """Return the decorated subclasses of a class, of any depth, sorted by qualified name."""
    found = {qualified_name(subclass): subclass for subclass in _subclasses(cls) if _OPTIONS in subclass.__dict__}
    return [found[name] for name in sorted(found)]


def imported_subclass(cls: type, name: str) -> type | None:
    """Return the subclass with that qualified name, decorated or not; None if none is imported.

    The last one counts: `slots=True` creates a class again, and the original may still exist.
    """
    return next((subclass for subclass in reversed(_subclasses(cls)) if qualified_name(subclass) == name), None)


def _subclasses(cls: type) -> list[type]:
    """Return all subclasses that can be records, in order of creation, level by level."""
    found: list[type] = []
    pending: list[type[Any]] = cls.__subclasses__()
    while pending:
        found += pending
        pending = [deeper for subclass in pending for deeper in subclass.__subclasses__()]
    return [subclass for subclass in found if is_record_class(subclass)]


def check_default(where: str, default: Default | None, encode: Callable[[Any], object]) -> None:
    """Refuse a constant default that its own type cannot write."""
    if default is None or default.factory is not None or default.value is None:
        return
    try:
        encode(default.value)
    except StateShiftError as error:
        raise DeclarationError(f"the default of {where} does not fit its type: {error.what}") from error


def builder(python_class: Any, names: Sequence[str]) -> Callable[..., Any]:
    """Return what builds an instance from the values of the constructor's arguments of these names, in their order."""
    parameters = inspect.signature(python_class).parameters.values()
    first = [one.name for one in parameters if one.kind is one.POSITIONAL_OR_KEYWORD][: len(names)]
    if first == [*names]:
        build: Callable[..., Any] = python_class
        return build
    if sorted(first) != sorted(names):
        return lambda *values: python_class(**dict(zip(names, values, strict=True)))
    in_order = itemgetter(*map([*names].index, first))
    return lambda *values: python_class(*in_order(values))


def is_frozen_class(python_class: Any, fields: int) -> bool:
    """Whether the values of a class with so many stored fields never change, and have no others."""
    if attrs.has(python_class):
        own: Any = python_class.__setattr__
        return own is _FROZEN and len(attrs.fields(python_class)) == fields
    if dataclasses.is_dataclass(python_class):
        frozen: bool = getattr(python_class, "__dataclass_params__").frozen  # noqa: B009 - no checker knows it
        return frozen and len(dataclasses.fields(python_class)) == fields
    return issubclass(python_class, tuple)


_FROZEN: Any = attrs.make_class("_Frozen", [], frozen=True).__setattr__
"""What attrs gives to all frozen classes."""
