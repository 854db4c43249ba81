"""Declared facts: what code declares about a type and its snapshot lacks, such as aliases, defaults and column names.

A snapshot describes bytes. When only a file is left of a revision of the code, a check of that revision needs the rest
as well: whether a field had a default decides whether that code could take over state without the field. A family marks
such attributes with `DECLARED`; they are stored as plain data beside the snapshot, and put back into the serializer
that it restores.
"""

from __future__ import annotations

import base64
import binascii
import functools
import re
from typing import TYPE_CHECKING, Any, NoReturn

import attrs

from ..serializers.defaults import Default
from ..serializers.errors import CorruptFile, OldReaderUnavailable, StateShiftError
from ..serializers.serializer import DECLARED, IDENTITY, RESTORED, TypeSerializer
from ..serializers.views import DataInputView, DataOutputView

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Facts = dict[str, dict[str, Any]]
"""Path of a part within a serializer -> the attributes of the part, as plain data."""
_Steps = dict[str, "_Steps"]

_SHOWN_DEFAULT = 80
_STEP = re.compile(r"\.[A-Za-z_]+|\[(?:0|[1-9][0-9]{0,8})\]")


def declared_facts(serializer: TypeSerializer[Any]) -> Facts:
    """Return the facts about a serializer that its snapshot lacks; nothing where the snapshot cannot be restored."""
    if not _says_more(serializer):
        return {}
    try:
        restored = serializer.snapshot_configuration().restore_serializer()
    except StateShiftError:
        return {}
    facts: Facts = {}
    _collect(serializer, restored, "", facts)
    return facts


def _says_more(value: Any) -> bool:
    """Whether anything within is declared at all; checking is cheaper than restoring a serializer."""
    if isinstance(value, tuple):
        return any(map(_says_more, value))
    from ..serializers.rows.serializers import RowSerializer

    declared, others = _attributes(type(value))  # type: ignore[arg-type]  # a class has a hash
    if isinstance(value, RowSerializer) and not all(one.optional and not one.name for one in value.columns):
        return True  # the snapshot of a row lacks column names and nullability; that of a record has them
    if _other_name(value):
        return True
    for name, restored in declared.items():
        if name != "name" and (getattr(value, name) or False) != restored:
            return True
    for name in others:
        part = getattr(value, name)
        if part and _says_more(part):
            return True
    return False


def _collect(here: Any, there: Any, path: str, facts: Facts) -> None:
    """Collect the differences of two trees of the same shape, attribute by attribute."""
    if isinstance(here, tuple) and isinstance(there, tuple):
        for index, (one, other) in enumerate(zip(here, there, strict=False)):
            _collect(one, other, f"{path}[{index}]", facts)
    from ..serializers.rows.serializers import RowSerializer

    if isinstance(there, RowSerializer):  # what is stored of a row has no names
        there = attrs.evolve(there, columns=tuple(attrs.evolve(one, name="") for one in there.columns))
    declared, others = _attributes(type(here))  # type: ignore[arg-type]  # a class has a hash
    for name in declared:
        value = getattr(here, name)
        if value != getattr(there, name, value):
            facts.setdefault(path, {})[name] = _plain(value, here)
    if name := _other_name(here):
        facts.setdefault(path, {})[name] = getattr(here, name)
    for name in others:
        part = getattr(here, name)
        if isinstance(part, tuple) or any(_attributes(type(part))):  # type: ignore[arg-type]  # a class has a hash
            _collect(part, getattr(there, name, None), f"{path}.{name}", facts)


@functools.cache
def _attributes(cls: Any) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return a class's declared attributes, and the names of its others; none for a class that attrs did not make.

    Each declared attribute comes with its value in a restored serializer; False stands for every empty value.
    """
    fields = attrs.fields(cls) if attrs.has(cls) else ()
    declared = {field.name: field.metadata.get(RESTORED, False) for field in fields if _is_declared(field)}
    return declared, tuple(field.name for field in fields if field.name not in declared)


def _is_declared(field: attrs.Attribute[Any]) -> bool:
    return DECLARED.items() <= field.metadata.items()


def _is_identity(field: attrs.Attribute[Any]) -> bool:
    return IDENTITY.items() <= field.metadata.items()


@functools.cache
def _identity(cls: Any) -> str:
    """Return the name of the attribute that holds the qualified name of the Python class behind a type, or ""."""
    return next((field.name for field in (attrs.fields(cls) if attrs.has(cls) else ()) if _is_identity(field)), "")


def _other_name(value: Any) -> str:
    """Return the attribute that holds the Python class's name, if it differs from the type's name; else ""."""
    attribute = _identity(type(value))  # type: ignore[arg-type]  # a class has a hash
    return attribute if attribute and getattr(value, attribute) not in {"", value.name} else ""


def _plain(value: Any, owner: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(item, owner) for item in value]
    return _default_data(value, owner.serializer) if isinstance(value, Default) else value


def _default_data(default: Default, serializer: TypeSerializer[Any]) -> dict[str, Any]:
    """Return a default as bytes of its field; the value of a factory is made once, now."""
    target = DataOutputView()
    try:
        value = default.make()
        if value is not None:
            serializer.serialize(value, target)
    except Exception:  # noqa: BLE001 - user code may fail; the fact that there is a default is kept
        return {"default": default.describe(), "lost": True}
    data = None if value is None else base64.b64encode(target.getvalue()).decode("ascii")
    return {"default": repr(value)[:_SHOWN_DEFAULT], "bytes": data}


def with_facts(serializer: TypeSerializer[Any], facts: Mapping[str, Mapping[str, Any]]) -> TypeSerializer[Any]:
    """Put the result of `declared_facts` back into a restored serializer.

    Raises:
        CorruptFile: The facts do not belong to it.
    """
    left = set(facts)
    made: TypeSerializer[Any] = _rebuilt(serializer, "", _steps_of(facts), facts, left)
    if left:
        raise CorruptFile(f"{serializer.describe()} has no part {min(left)!r}")
    return made


def _steps_of(places: Iterable[str]) -> _Steps:
    """Return the steps that lead to the given paths, as a tree; malformed paths are ignored."""
    tree: _Steps = {}
    for place in places:
        steps, below = _STEP.findall(place), tree
        for step in steps if "".join(steps) == place else ():
            below = below.setdefault(step, {})
    return tree


def _rebuilt(value: Any, path: str, steps: _Steps, facts: Mapping[str, Mapping[str, Any]], left: set[str]) -> Any:
    if isinstance(value, tuple):
        items = list(value)
        for step, below in steps.items():
            index = int(step[1:-1]) if step[0] == "[" else len(items)
            if index < len(items):
                items[index] = _rebuilt(items[index], f"{path}{step}", below, facts, left)
        return tuple(items)
    if not attrs.has(type(value)):
        return value
    changes = {}
    for step, below in steps.items():
        if step[1:] in _parts(type(value)):  # type: ignore[arg-type]  # a class has a hash
            changes[step[1:]] = _rebuilt(getattr(value, step[1:]), f"{path}{step}", below, facts, left)
    if path in facts:
        left.discard(path)
        known = {field.name: field for field in attrs.fields(type(value))}
        for name, data in facts[path].items():
            if name not in known or not (_is_declared(known[name]) or _is_identity(known[name])):
                raise CorruptFile(f"{name!r} is not declared by {type(value).__name__}")
            changes[name] = _read(data, value)
    return attrs.evolve(value, **changes) if changes else value


@functools.cache
def _parts(cls: Any) -> frozenset[str]:
    """Return the names of the attributes that may contain declared facts."""
    return frozenset(field.name for field in attrs.fields(cls) if field.init and not _is_declared(field))


def _read(data: Any, owner: Any) -> Any:
    if isinstance(data, list):
        return tuple(_read(item, owner) for item in data)
    return _default(data, owner.serializer) if isinstance(data, dict) else data


def _default(data: dict[str, Any], serializer: TypeSerializer[Any]) -> Default:
    if data.get("lost"):
        return Default(factory=_lost)
    encoded = data.get("bytes")
    if encoded is None:
        return Default()
    try:
        return Default(serializer.deserialize(DataInputView(base64.b64decode(encoded, validate=True))))
    except (StateShiftError, binascii.Error, ValueError, TypeError) as error:
        raise CorruptFile(f"the default {data.get('default')!r} cannot be read: {error}") from error


def _lost() -> NoReturn:
    raise OldReaderUnavailable(
        "the default could not be kept when the revision was recorded", advice="use the code of that revision"
    )
