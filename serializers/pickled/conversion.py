"""Opened pickles as values of a described type, for migrations out of pickle (rule FAM-1).

Classes that keep plain fields are not instantiated: their fields are taken as stored, and paired with those of the
record by name and alias, as for records. A missing field gets its default; a surplus attribute is an error unless the
check has reported it.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import attrs

from ..containers.arrays import BytesSerializer, PrimitiveArraySerializer
from ..containers.lists import ListSerializer, MapSerializer, SetSerializer
from ..containers.object_arrays import GenericArraySerializer
from ..containers.pieces import unique
from ..containers.tuples import TupleSerializer
from ..containers.wrappers import OptionalSerializer
from ..enums.serializers import EnumSerializer
from ..errors import CorruptSavepoint, DeclarationError, ValueNotConvertible, at_step, shown
from ..field_pairs import claims_of
from ..hints import serializer_for
from ..primitives.numeric import FloatSerializer, NumberSerializer, to_single_precision
from ..primitives.text import StringSerializer
from ..records.classes import Record, imported_subclass
from ..records.recursive import RecordReference, RecursiveRecordSerializer
from ..records.serializers import DescribedRecordSerializer
from ..registry import registry
from ..stored_names import qualified_name
from ..wording import one
from .serializers import PickleSerializer
from .trust import trusted_names
from .unpickler import LIBRARY, Unmade, unmade
from .values import Fingerprint, PickledValue, Shape, Unfolding, is_plain, slots_of

if TYPE_CHECKING:
    from ..records.classes import RecordField
    from ..serializer import TypeSerializer


def pickle_names(new: TypeSerializer[Any]) -> tuple[str, ...]:
    """Return the names under which pickles may know the class of a record or an enum; empty for other types."""
    if isinstance(new, DescribedRecordSerializer | EnumSerializer):
        return tuple(dict.fromkeys((*_present_names(new), *new.aliases)))
    return ()


def _present_names(new: DescribedRecordSerializer[Any] | EnumSerializer) -> tuple[str, ...]:
    """Return the class's own names, which take precedence over former names of other classes (REC-14)."""
    if isinstance(new, DescribedRecordSerializer):
        return tuple(name for name in (new.python_name, new.name) if name)
    return (*([qualified_name(new.enum_class)] if new.enum_class else []), new.name)


def parts_within(new: TypeSerializer[Any]) -> Iterator[tuple[str, TypeSerializer[Any]]]:
    """Yield the path step and the serializer of each part of a type."""
    match new:
        case DescribedRecordSerializer():
            yield from ((field.step, field.serializer) for field in new.fields)
            yield from ((f"|{name}", subclass) for name, subclass in (*new.registered, *new.unregistered))
        case ListSerializer() | SetSerializer() | GenericArraySerializer():
            yield "[]", new.element
        case MapSerializer():
            yield from (("<key>", new.key), ("{}", new.value))
        case OptionalSerializer():
            yield "?", new.value
        case TupleSerializer():
            yield from ((f"({index})", field) for index, field in enumerate(new.fields))


def records_within(new: TypeSerializer[Any]) -> dict[str, DescribedRecordSerializer[Any]]:
    """Return all records in a type by name, which resolve references within records that contain themselves."""
    found: dict[str, DescribedRecordSerializer[Any]] = {}
    pending = [new]
    while pending:
        one = pending.pop()
        if isinstance(one, DescribedRecordSerializer):
            if one.name in found:
                continue
            found[one.name] = one
        pending += [part for _, part in parts_within(one)]
        pending += one.others if isinstance(one, RecursiveRecordSerializer) else ()
    return found


def sources_of(fields: Sequence[RecordField], stored: Collection[str]) -> dict[str, str]:
    """Return the stored name that each field takes: its attribute's name, its own name, or an alias.

    Raises:
        DeclarationError: Two fields claim one stored name, or aliases form a cycle.
    """
    direct = {field.name: name for field in fields for name in (field.name, field.attribute) if name and name in stored}
    return {field.name: name for name, field in claims_of(fields, direct, stored).items()}


_PLAIN = {type(None), bool, int, float, str, bytes}
"""Types of values that need no conversion, whatever the described type."""


@attrs.frozen
class FromPickle:
    """Converts a stored pickle to what the described serializer writes.

    Attributes:
        new: The described serializer.
        found: The fingerprint, which lists the names of fields that are stored by position.
        former: Former names of pickled classes, each with its later one.
        classes: The classes of the new side that are instantiated, by each name that pickles may use; None for a record
            of which only the fields are taken. They are sent to the workers, which may lack their modules.
        records: The records of the new side by name, for records that contain themselves.
    """

    new: TypeSerializer[Any]
    found: Fingerprint
    former: tuple[tuple[str, str], ...]
    classes: dict[str, type | None] = attrs.field(eq=False, repr=False)
    records: dict[str, DescribedRecordSerializer[Any]] = attrs.field(eq=False, repr=False)

    @classmethod
    def into(cls, new: TypeSerializer[Any], found: Fingerprint, former: tuple[tuple[str, str], ...] = ()) -> FromPickle:
        """Make the conversion for a described type."""
        registered: dict[str, type | None] = {qualified_name(known): known for known in registry.python_types()}
        records = records_within(new)
        for record in records.values():
            _by_pickled_name(record)  # refuses two classes that claim one name, before anything is opened
        return cls(new, found, former, registered | _classes_in([new, *records.values()]), records)

    def __call__(self, value: Any) -> Any:
        if not isinstance(value, PickledValue):
            return value  # from a fallback, which returns what the new serializer writes
        opened = value.open(self._known)
        if not self._is_declared(_name_of(opened)):
            raise CorruptSavepoint(
                f"the state declares pickles of {self.found.name}, but one holds a {_name_of(opened)}"
            )
        try:
            return _Described(self, Unfolding.of_pickle(len(value.data))).of(opened, self.new)
        except RecursionError as error:
            raise ValueNotConvertible(
                "a pickled object is nested too deep, or contains itself",
                advice="handle such values in a converter",
                rule="FAM-1",
            ) from error

    def _is_declared(self, name: str) -> bool:
        """Whether the state may hold pickles of that class: the declared one, or a listed subclass of it."""
        if name == self.found.name or name in dict(self.former):
            return True
        if name not in self.found.names or not isinstance(self.new, DescribedRecordSerializer):
            return False
        base = self.new.python_class
        return name in self.own[self.new.name] or (base is not None and imported_subclass(base, name) is not None)

    @cached_property
    def _known(self) -> dict[str, Any]:
        """The meaning of names in pickles: classes to be instantiated, or stand-ins."""
        known: dict[str, Any] = {}
        for name, cls in self.classes.items():
            if name in LIBRARY:
                continue
            known[name] = unmade(name) if cls is None else cls
        for was, becomes in self.former:
            if becomes in known:
                cls = known[becomes]
                known[was] = unmade(was) if issubclass(cls, Unmade) else cls
        return known

    @cached_property
    def own(self) -> dict[str, dict[str, DescribedRecordSerializer[Any]]]:
        """Name of a record -> name of a pickled class -> the record or the subclass of it that this class is."""
        return {record.name: _by_pickled_name(record) for record in self.records.values()}


@attrs.frozen
class _Described:
    """Makes described values from one opened pickle.

    Attributes:
        rules: The meaning of its names and fields.
        unfolding: Counts its parts: a described value is a tree, in which a shared part is repeated.
    """

    rules: FromPickle
    unfolding: Unfolding

    def of(self, value: Any, new: TypeSerializer[Any]) -> Any:
        """Return a value within the object as its serializer writes it."""
        self.unfolding.count(value)
        _refuse_another_type(value, new)
        return value if type(value) in _PLAIN else self._composite(value, new)

    def _composite(self, value: Any, new: TypeSerializer[Any]) -> Any:
        match new:
            case RecordReference():
                return self._record(value, self.rules.records[new.name])
            case DescribedRecordSerializer():
                return self._record(value, new)
            case OptionalSerializer():
                return self.of(value, new.value)
            case ListSerializer() | GenericArraySerializer() if isinstance(value, list | tuple):
                return [self._step("[]", item, new.element) for item in value]
            case SetSerializer() if isinstance(value, set | frozenset):
                items = [self._step("[]", item, new.element) for item in value]
                return unique(items, "elements of a set become", "[]", "LIST-2")
            case MapSerializer() if isinstance(value, Mapping):
                keys = [self._step("<key>", key, new.key) for key in value]
                unique(keys, "keys of a map become", "<key>", "MAP-3")
                return {key: self._step("{}", item, new.value) for key, item in zip(keys, value.values(), strict=True)}
            case TupleSerializer() if isinstance(value, tuple) and len(value) == len(new.fields):
                return tuple(
                    self._step(f"({index})", item, field)
                    for index, (item, field) in enumerate(zip(value, new.fields, strict=True))
                )
        return value

    def _step(self, step: str, value: Any, new: TypeSerializer[Any]) -> Any:
        with at_step(step):
            return self.of(value, new)

    def _record(self, value: Any, new: DescribedRecordSerializer[Any]) -> Any:
        name = _name_of(value)
        own = self.rules.own[new.name].get(name)
        if own is None:
            raise ValueNotConvertible(f"a pickle contains a {name} where a {new.describe()} is described", rule="FAM-1")
        stored = self._stored_fields(value, own)
        fields, sources = {}, sources_of(own.fields, stored)
        for field in own.fields:
            source = sources.get(field.name)
            if source is not None:
                fields[field.name] = self._step(field.step, stored.pop(source), field.serializer)
            elif field.default is not None:
                fields[field.name] = field.default.make()
            else:
                raise ValueNotConvertible(
                    f"a pickled {name} has no {field.name!r}, and the field has no default",
                    advice=f"give {field.name} a default, or declare its former name as an alias",
                    path=f"$.{field.name}",
                    rule="REC-3",
                )
        if stored:
            self._refuse_untold(name, stored, own)
        return Record(own.name, fields)

    def _refuse_untold(self, name: str, left: Mapping[str, Any], new: DescribedRecordSerializer[Any]) -> None:
        """Refuse to drop attributes that the check could not report."""
        told = {*new.retired, *next((shape.fields for shape in self.rules.found.classes if shape.name == name), ())}
        untold = [attribute for attribute in left if attribute not in told]
        if untold:
            raise ValueNotConvertible(
                f"a pickled {name} has the attribute {untold[0]!r}, for which the record has no field",
                advice=f"declare a field for it, or leave it out: @record(retired=[{untold[0]!r}])",
                path=f"$.{untold[0]}",
                rule="REC-4",
            )

    def _stored_fields(self, value: Any, new: DescribedRecordSerializer[Any]) -> dict[str, Any]:
        """Return the fields of a pickled object by name."""
        if isinstance(value, dict):
            return dict(value)
        if not isinstance(value, Unmade):
            return _fields_of(value)
        name = _name_of(value)
        order = next((shape.fields for shape in self.rules.found.classes if shape.name == name), ())
        if value.is_called:
            raise ValueNotConvertible(
                f"{name} was pickled by a __reduce__ of its own, which only that class understands",
                advice="keep the __reduce__ in the class, or open such values in a converter",
                rule="FAM-1",
            )
        state = value.state
        if state is None and value.arguments:
            return _by_position(name, order, value.arguments)
        parts = state if isinstance(state, tuple) and len(state) == 2 and _is_slots(state) else (state,)
        if all(part is None or isinstance(part, dict) for part in parts):
            return {key: item for part in parts if part for key, item in part.items()}
        return _by_position(name, order, state)


def _refuse_another_type(value: Any, new: TypeSerializer[Any]) -> None:
    """Refuse values that would be written as others: pickles hold Python's types, whatever the class declares.

    Raises:
        ValueNotConvertible: PRIM-3, PRIM-4 or ENUM-8 forbids it.
    """
    while isinstance(new, OptionalSerializer):
        new = new.value
    if isinstance(new, PrimitiveArraySerializer) and isinstance(value, list | tuple):
        for item in value:
            _refuse_another_type(item, new.element)
    elif isinstance(value, enum.Enum) and isinstance(new, NumberSerializer | StringSerializer | BytesSerializer):
        raise _becomes_another(value, new, "ENUM-8")
    elif isinstance(value, bool) and isinstance(new, NumberSerializer):
        raise _becomes_another(value, new, "PRIM-4")
    elif isinstance(new, FloatSerializer) and isinstance(value, int | float):
        if math.isnan(value) or to_single_precision(value) == value:
            return
        raise _becomes_another(value, new, "PRIM-3")


def _becomes_another(value: Any, new: TypeSerializer[Any], rule: str) -> ValueNotConvertible:
    return ValueNotConvertible(
        f"a pickle contains {shown(value)}, which would be a different value as {one(new.describe())}",
        advice="describe the type that the pickles contain, or handle such values in a converter",
        rule=rule,
    )


def _is_slots(state: tuple[Any, Any]) -> bool:
    """Whether a state is (attributes or None, slots), as Python pickles objects with slots."""
    return (state[0] is None or isinstance(state[0], dict)) and isinstance(state[1], dict)


def _by_position(name: str, order: tuple[str, ...], values: Any) -> dict[str, Any]:
    if not isinstance(values, list | tuple) or len(values) != len(order):
        raise ValueNotConvertible(
            f"a pickled {name} keeps a state that is not its fields by name: {shown(values)}",
            advice="give the class a __setstate__ that takes it, or open such values in a converter",
            rule="FAM-1",
        )
    return dict(zip(order, values, strict=True))


def _fields_of(value: Any) -> dict[str, Any]:
    """Return the fields of an instantiated object: of a class with a `__setstate__`, or from code within the pickle."""
    slots = {name: getattr(value, name) for name in slots_of(type(value)) if hasattr(value, name)}
    return slots | dict(getattr(value, "__dict__", {}))


def _name_of(value: Any) -> str:
    return str(getattr(type(value), "stored_name", "")) or qualified_name(type(value))


def _with_subclasses(new: DescribedRecordSerializer[Any]) -> Iterator[DescribedRecordSerializer[Any]]:
    yield new
    for _, subclass in (*new.registered, *new.unregistered):
        yield from _with_subclasses(subclass)


def _by_pickled_name(record: DescribedRecordSerializer[Any]) -> dict[str, DescribedRecordSerializer[Any]]:
    """Return a record and its subclasses by each name that pickles may use.

    Raises:
        DeclarationError: Two of them have one former name.
    """
    classes = list(_with_subclasses(record))
    present = {name: known for known in classes for name in _present_names(known)}
    named = dict(present)
    for known in classes:
        for alias in known.aliases:
            if named.setdefault(alias, known).name != known.name and alias not in present:
                raise DeclarationError(
                    f"{alias!r} is declared a former name of both {named[alias].name!r} and {known.name!r}",
                    advice="remove it from one of them",
                )
    return named


def _classes_in(pending: list[TypeSerializer[Any]]) -> dict[str, type | None]:
    """Return the classes of records and enums by name; None for classes that keep plain fields."""
    found: dict[str, type | None] = {}
    present: dict[str, type | None] = {}
    while pending:
        new = pending.pop()
        if isinstance(new, DescribedRecordSerializer):
            made = new.python_class is not None and not is_plain(new.python_class)
            found |= dict.fromkeys(pickle_names(new), new.python_class if made else None)
            present |= dict.fromkeys(_present_names(new), new.python_class if made else None)
            pending += [field.serializer for field in new.fields if not _is_record(field.serializer)]
        elif isinstance(new, EnumSerializer) and new.enum_class is not None:
            found |= dict.fromkeys(pickle_names(new), new.enum_class)
            present |= dict.fromkeys(_present_names(new), new.enum_class)
        else:
            pending += [part for _, part in parts_within(new) if not _is_record(part)]
    return found | present


def _is_record(new: TypeSerializer[Any]) -> bool:
    return isinstance(new, DescribedRecordSerializer)


@attrs.frozen
class FromPickledBytes:
    """Converts bytes that are a pickle, or a stored pickle, to what the described type writes; see `from_pickled`."""

    class_name: str
    convert: FromPickle

    def __call__(self, data: Any) -> Any:
        names = [*(was for was, _ in self.convert.former), self.class_name]
        return self.convert(_pickled(data, names) if isinstance(data, bytes) else data)


def _pickled(data: bytes, names: Sequence[str]) -> PickledValue:
    """Return a pickle of the class that has one of the names: the one that is trusted."""
    trusted = trusted_names() or ()
    return PickledValue(next((one for one in names if one in trusted), names[0]), data)


@attrs.frozen
class FromFormerPickles:
    """Converts bytes that are a pickle to an object of the class that its former one has become; see `from_pickled`."""

    serializer: PickleSerializer[Any]

    def __call__(self, data: Any) -> Any:
        names = [*self.serializer.redirects, self.serializer.fingerprint.name]
        opened = (_pickled(data, names) if isinstance(data, bytes) else data).open(self.serializer.known)
        if not isinstance(opened, self.serializer.python_class):
            raise CorruptSavepoint(
                f"the state declares pickles of {self.serializer.fingerprint.name}, but one holds a {_name_of(opened)}"
            )
        return opened


def from_pickled(python_class: type | PickleSerializer[Any]) -> FromPickledBytes | FromFormerPickles:
    """Return a converter for state of bytes that are pickles of a class, such as PyFlink's `PICKLED_BYTE_ARRAY`.

    Each pickle is opened if the migration trusts the class by name, and becomes a value of the described type.

    Args:
        python_class: An attrs class, dataclass, named tuple or enum, or a plain type such as `str`. For state that is
            to stay pickled, a `PickleSerializer` with former names of its class as `aliases`: each pickle is written
            again, and names the present class.

    Raises:
        DeclarationError: The class does not describe itself.
    """
    if isinstance(python_class, PickleSerializer):
        return FromFormerPickles(python_class)
    new, name = serializer_for(python_class), qualified_name(python_class)
    former = tuple((other, name) for other in pickle_names(new) if other != name)
    return FromPickledBytes(name, FromPickle.into(new, Fingerprint((Shape(name),)), former))
