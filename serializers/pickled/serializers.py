"""Pickle and cloudpickle as opaque bytes, under a snapshot that describes them without opening them.

    i32 length, the pickle

These are the bytes of Flink's `byte[]`, in which PyFlink keeps its pickled state. A reader restored from a snapshot
returns `PickledValue`s, and nothing is unpickled until a caller that trusts the class by its name opens one: see
`unpickling`. The rules PKL-1 to PKL-6, FAM-1 and FAM-3 are in `rules` and `moves`.
"""

from __future__ import annotations

import io
import pickle
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import BuiltinFunctionType, FunctionType, ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import attrs
import cloudpickle

from .. import rewrite
from ..byte_forms import UTF, many, several, sized
from ..errors import CorruptSavepoint, DeclarationError, StateShiftError, ValueNotConvertible, cause_text, shown
from ..registry import register_snapshot
from ..serializer import TypeSerializer
from ..snapshot import OWN_PREFIX, FormedSnapshot, TypeSerializerConfigSnapshot
from ..stored_names import qualified_name
from . import rules as pickle_rules
from .trust import trusted_names
from .unpickler import BY_VALUE, LIBRARY, Names, open_pickle, qualified
from .values import FINGERPRINT, Fingerprint, PickledValue, classes_within, running_python, shape_of

if TYPE_CHECKING:
    from ..byte_forms import Fields
    from ..compatibility import CompatibilityResult
    from ..snapshot import Speller
    from ..views import DataInputView, DataOutputView

T = TypeVar("T")

PROTOCOL = 5
"""The default protocol, a fixed number, so that interpreters of all versions write the same bytes."""

_OLDEST_PROTOCOL = 2

Redirect = tuple[str, type]


# Type checkers infer from this signature what callers may pass; from `tuple` they would not.
def _classes(given: Iterable[type]) -> tuple[type, ...]:
    return tuple(given)


def _redirects(aliases: Mapping[str, type] | Iterable[str | Redirect]) -> tuple[str | Redirect, ...]:
    if isinstance(aliases, str):
        raise DeclarationError("aliases must be a tuple of names, not a string", advice=f"write ({aliases!r},)")
    return tuple(aliases.items()) if isinstance(aliases, Mapping) else tuple(aliases)


class PickledSnapshot(FormedSnapshot[Any]):
    """Base of the snapshots of both serializers.

    Attributes:
        fingerprint: The fingerprint of the class when the state was written.
        former: Names that stored pickles may still use, each with the name in `fingerprint` that it became.
    """

    kind: ClassVar[str] = "pickle"
    word: ClassVar[str] = "pickle"
    body: ClassVar[Fields] = {
        "fingerprint": FINGERPRINT,
        "former": many(several(UTF, UTF), "former names of pickled classes"),
    }

    fingerprint: Fingerprint
    former: tuple[tuple[str, str], ...]

    def describe(self) -> str:
        return f"{self.word}<{self.fingerprint.name}>"

    def spell(self, speller: Speller) -> str:
        first, *others = self.fingerprint.classes
        how = [f"protocol {self.fingerprint.protocol}", *(["by value"] if self.fingerprint.by_value else [])]
        with_others = f" with {', '.join(map(str, others))}" if others else ""
        return f"{self.word} {first}{with_others} ({', '.join(how)})"

    def restore_serializer(self) -> TypeSerializer[Any]:
        return UnopenedPickleSerializer(self)


@register_snapshot
@attrs.define
class PickleSnapshot(PickledSnapshot):
    """Snapshot of `PickleSerializer`."""

    snapshot_id: ClassVar[str] = OWN_PREFIX + "pickle"

    fingerprint: Fingerprint = attrs.field(factory=Fingerprint)
    former: tuple[tuple[str, str], ...] = ()


@register_snapshot
@attrs.define
class CloudPickleSnapshot(PickledSnapshot):
    """Snapshot of `CloudPickleSerializer`."""

    snapshot_id: ClassVar[str] = OWN_PREFIX + "cloudpickle"
    word: ClassVar[str] = "cloudpickle"

    fingerprint: Fingerprint = attrs.field(factory=Fingerprint)
    former: tuple[tuple[str, str], ...] = ()


_PICKLE = sized("a pickle")


@attrs.frozen
class UnopenedPickleSerializer(TypeSerializer[PickledValue]):
    """Reads pickles as bytes, without opening them; restored from every snapshot of pickles.

    Attributes:
        stored: The snapshot, which is rewritten as it is.
    """

    stored: PickledSnapshot

    layout = rewrite.Blob()

    @property
    def fingerprint(self) -> Fingerprint:
        """The fingerprint in the snapshot."""
        return self.stored.fingerprint

    def serialize(self, value: PickledValue, target: DataOutputView) -> None:
        if not isinstance(value, PickledValue) or value.class_name != self.fingerprint.name:
            raise ValueNotConvertible(f"{shown(value)} is not a stored value of {self.stored.describe()}")
        _PICKLE.write(target, value.data)

    def deserialize(self, source: DataInputView) -> PickledValue:
        return PickledValue(self.fingerprint.name, _PICKLE.read(source), by_value=self.fingerprint.by_value)

    def snapshot_configuration(self) -> PickledSnapshot:
        return self.stored

    def ensure_compatibility(self, snapshot: TypeSerializerConfigSnapshot[Any]) -> CompatibilityResult[PickledValue]:
        return pickle_rules.judge_stored(self, snapshot)


@attrs.frozen
class PickleSerializer(TypeSerializer[T]):
    """Objects of a class as pickles, for state that was pickled before; describing the class is the better choice.

    A pickle may name the class, its `references` and a few types of the library; any other name is refused, on writing
    and on reading (`unpickling`).

    Attributes:
        python_class: The class.
        references: Other classes that values may hold. Classes in type hints of an attrs class, a dataclass or a named
            tuple need not be listed.
        aliases: Former qualified names of the class; or a mapping of former names to classes (rule PKL-3).
        upgrade: Converts an unpickled object of an older shape to the present one (rule PKL-4).
        protocol: The pickle protocol, 2 to 5.

    Raises:
        DeclarationError: The class cannot be found by its name, or the protocol is not one of those.
    """

    make_snapshot: ClassVar[type[PickledSnapshot]] = PickleSnapshot

    python_class: type[T]
    references: tuple[type, ...] = attrs.field(default=(), converter=_classes, kw_only=True)
    aliases: tuple[str | Redirect, ...] = attrs.field(default=(), converter=_redirects, kw_only=True)
    upgrade: Callable[[Any], T] | None = attrs.field(default=None, eq=False, kw_only=True)
    protocol: int = attrs.field(default=PROTOCOL, kw_only=True)
    _fingerprint: Fingerprint = attrs.field(init=False, eq=False, repr=False)
    _known: dict[str, type] = attrs.field(init=False, eq=False, repr=False)

    def __attrs_post_init__(self) -> None:
        if not isinstance(self.python_class, type):
            raise DeclarationError(f"{shown(self.python_class)} is not a class", advice="pass the class of the values")
        if not _OLDEST_PROTOCOL <= self.protocol <= PROTOCOL:
            raise DeclarationError(f"pickle protocol {self.protocol} cannot be written", advice="choose 2 to 5")
        for one in self.references:
            if not isinstance(one, type):
                raise DeclarationError(f"references has {shown(one)}, which is not a class", advice="list only classes")
        cls: Any = self.python_class
        classes = classes_within(cls, self.references)
        shapes, by_value = tuple(map(shape_of, classes)), self._is_by_value()
        known = {qualified_name(one): one for one in classes}
        self._check_aliases(known)
        known |= {was: known[name] for was, name in self.redirects.items() if name in known}
        object.__setattr__(self, "_fingerprint", Fingerprint(shapes, self.protocol, by_value, running_python()))
        object.__setattr__(self, "_known", known)

    def _check_aliases(self, known: Mapping[str, type]) -> None:
        """Refuse a former name that belongs to two classes, or is the present name of another one."""
        former: dict[str, type] = {}
        for was, cls in self._pairs:
            other = known.get(was, former.setdefault(was, cls))
            if other is not cls:
                raise DeclarationError(
                    f"{was!r} is declared a former name of {qualified_name(cls)}, and names {qualified_name(other)}",
                    advice="remove the alias from one of them",
                )

    @property
    def _pairs(self) -> list[Redirect]:
        return [(given, self.python_class) if isinstance(given, str) else given for given in self.aliases]

    def _is_by_value(self) -> bool:
        name = qualified_name(self.python_class)
        if "<locals>" in name or _found(self.python_class) is not self.python_class:
            raise DeclarationError(
                f"{name} cannot be found by its name, so no pickle of it could be read",
                advice="declare it at the top level of an importable module",
            )
        return False

    layout = rewrite.Blob()

    @property
    def fingerprint(self) -> Fingerprint:
        """The properties of the class that are compared (rule PKL-1)."""
        return self._fingerprint

    @property
    def known(self) -> dict[str, type]:
        """The classes, by each name that a pickle may use for them."""
        return self._known

    @property
    def redirects(self) -> dict[str, str]:
        """Former name -> present name."""
        return {was: qualified_name(cls) for was, cls in self._pairs}

    def serialize(self, value: T, target: DataOutputView) -> None:
        if isinstance(value, PickledValue):
            if value.class_name not in {self.fingerprint.name, *self.redirects}:
                raise ValueNotConvertible(f"{shown(value)} is not a value of {self.describe()}")
            _PICKLE.write(target, value.data)
            return
        if not isinstance(value, self.python_class):
            raise ValueNotConvertible(f"{shown(value)} is not of the class {self.fingerprint.name}")
        _PICKLE.write(target, self._dump(value))

    def _dump(self, value: T) -> bytes:
        buffer = io.BytesIO()
        try:
            with _findable(() if self.fingerprint.by_value else self.known.values()):
                self._pickler(buffer, frozenset({*self.known, *LIBRARY})).dump(value)
        except StateShiftError:
            raise
        except Exception as error:
            raise ValueNotConvertible(f"{shown(value)} cannot be pickled: {cause_text(error)}") from error
        return buffer.getvalue()

    def _pickler(self, buffer: io.BytesIO, names: frozenset[str]) -> Any:
        return _Pickler(buffer, self.protocol, names)

    def deserialize(self, source: DataInputView) -> T:
        data = _PICKLE.read(source)
        name = self.fingerprint.name
        if trusted_names() is not None:
            unopened: Any = PickledValue(name, data, by_value=self.fingerprint.by_value)
            return unopened  # type: ignore[no-any-return]  # during a migration, all values of the state are generic
        value = self._open(data)
        if not isinstance(value, self.python_class):
            raise CorruptSavepoint(f"a {name} is declared, but the pickle contains a {type(value).__qualname__}")
        return value

    def _open(self, data: bytes) -> Any:
        return open_pickle(data, Names(self.fingerprint.name, self.known))

    def snapshot_configuration(self) -> TypeSerializerConfigSnapshot[T]:
        snapshot = self.make_snapshot()
        snapshot.fingerprint, snapshot.former = self.fingerprint, tuple(sorted(self.redirects.items()))
        return snapshot

    def ensure_compatibility(self, snapshot: TypeSerializerConfigSnapshot[Any]) -> CompatibilityResult[T]:
        return pickle_rules.judge(self, snapshot)


@contextmanager
def _findable(classes: Iterable[type]) -> Iterator[None]:
    """Let pickle find classes by name that came to this process by value, as on a Spark worker."""
    stand_ins: dict[str, Any] = {}
    for cls in classes:
        if cls.__module__ not in sys.modules:
            place: Any = stand_ins.setdefault(cls.__module__, ModuleType(cls.__module__))
            *outer, name = cls.__qualname__.split(".")
            for part in outer:
                place = vars(place).setdefault(part, SimpleNamespace())
            setattr(place, name, cls)
    sys.modules.update(stand_ins)
    try:
        yield
    finally:
        for name in stand_ins:
            del sys.modules[name]


def _found(cls: type) -> object:
    """Return what the module of a class has under the class's name."""
    try:
        return pickle.loads(pickle.dumps(cls))  # noqa: S301 - our own bytes, which name an imported class
    except (pickle.PicklingError, AttributeError, ImportError):
        return None


@attrs.frozen
class CloudPickleSerializer(PickleSerializer[T]):
    """Objects of a class as pickles of cloudpickle, which puts a class that has no module into each pickle, as code.

    Attributes:
        trust_code: Whether to run code that stored pickles contain, which is the case only for such classes. Without
            it, their values can be written but not read.
    """

    make_snapshot: ClassVar[type[PickledSnapshot]] = CloudPickleSnapshot

    trust_code: bool = attrs.field(default=False, kw_only=True)

    def _is_by_value(self) -> bool:
        return _found(self.python_class) is not self.python_class or (
            cloudpickle.dumps(self.python_class) != pickle.dumps(self.python_class, cloudpickle.DEFAULT_PROTOCOL)
        )

    def _pickler(self, buffer: io.BytesIO, names: frozenset[str]) -> Any:
        if self.fingerprint.by_value:
            return cloudpickle.Pickler(buffer, self.protocol)
        return _CloudPickler(buffer, self.protocol, names)

    def _open(self, data: bytes) -> Any:
        if not self.fingerprint.by_value or not self.trust_code:
            return super()._open(data)
        value = PickledValue(self.fingerprint.name, data, by_value=True)
        return value.load(trust=(BY_VALUE + value.class_name,))


class _Told:
    """Refuses to write names that reading would refuse."""

    _names: frozenset[str]

    def _check(self, value: object) -> None:
        if not isinstance(value, type | FunctionType | BuiltinFunctionType):
            return
        name = qualified(value.__module__ or "", value.__qualname__)
        if name not in self._names:
            raise ValueNotConvertible(
                f"the value holds a {name}, which the serializer does not list",
                advice=f"list it if values may hold it: references=({value.__name__},); or, if the values are such"
                f" objects, give the state their type: PickleSerializer({value.__name__})"
                if isinstance(value, type)
                else "do not refer to functions in a pickle: let __reduce__ return a class whose __new__ makes the "
                "object",
            )


class _Pickler(pickle.Pickler, _Told):
    def __init__(self, buffer: io.BytesIO, protocol: int, names: frozenset[str]) -> None:
        super().__init__(buffer, protocol)
        self._names = names

    def reducer_override(self, obj: Any) -> Any:
        self._check(obj)
        return NotImplemented


class _CloudPickler(cloudpickle.Pickler, _Told):  # type: ignore[misc]  # cloudpickle has no types
    def __init__(self, buffer: io.BytesIO, protocol: int, names: frozenset[str]) -> None:
        super().__init__(buffer, protocol)
        self._names = names

    def reducer_override(self, obj: Any) -> Any:
        self._check(obj)
        return super().reducer_override(obj)
