"""The user code that a plan calls, with fingerprints, so that a run can check whether it is still the same.

It consists of converters, merges and transforms; custom serializers, fallback deserializers and the classes of records;
defaults, and the factories of defaults.
"""

from __future__ import annotations

import functools
import types
from typing import TYPE_CHECKING, Any

import attrs

from ..serializers.defaults import Default
from .description import function_name
from .fingerprint import AsData, closure_of, fingerprint, fingerprint_of_all, is_ours, is_users
from .libraries import library_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from .plan import CalledCode, Merging, Recoding, Transformation

DEFAULTS = "defaults"
"""The name of constants that fill fields missing in stored records."""
DEFAULTS_IN_ORDER = "defaults in their order"
"""The name of the same constants if there are unequal ones: two fields that swap theirs have equal `DEFAULTS`."""


def called_code(
    recodings: Iterable[Recoding | None],
    transform: Transformation | None = None,
    merges: Iterable[Merging] = (),
    serializers: Iterable[object] = (),
) -> CalledCode:
    """Return the fingerprints of all user code that rewrites values, by name.

    Args:
        recodings: How the parts of an entry are rewritten.
        transform: The transform to another state kind, if there is one.
        merges: The functions that merge two values.
        serializers: Further objects that read or write values.
    """
    found: dict[str, list[str]] = {}
    for name, thing in _named(recodings, transform, merges, serializers):
        found.setdefault(name, []).append(fingerprint(thing))
    if len(set(found.get(DEFAULTS, ()))) > 1:
        found[DEFAULTS_IN_ORDER] = [fingerprint(tuple(found[DEFAULTS]))]
    return tuple((name, fingerprint_of_all(found[name])) for name in sorted(found))


def _named(
    recodings: Iterable[Recoding | None],
    transform: Transformation | None,
    merges: Iterable[Merging],
    serializers: Iterable[object],
) -> Iterator[tuple[str, Any]]:
    walked = list(serializers)
    for recoding in filter(None, recodings):
        walked += [recoding.reader, recoding.writer]
        if recoding.converter:
            yield recoding.converter, recoding.conversion
        else:
            walked.append(recoding.conversion)
    if transform is not None:
        yield transform.name, transform.function
    for merging in merges:
        yield merging.merge.name, merging.merge.function
        walked.append(merging.serializer)
    yield from _within(walked)


def _within(things: list[Any]) -> Iterator[tuple[str, Any]]:
    """Yield the user's objects that objects of stateshift refer to, with their names."""
    seen: dict[int, Any] = {}
    while things:
        thing = things.pop()
        if id(thing) in seen:
            continue
        seen[id(thing)] = thing  # kept alive, so that no other object gets its id
        if isinstance(thing, Default):
            yield (DEFAULTS, thing.value) if thing.factory is None else (function_name(thing.factory), thing.factory)
        elif is_users(thing):
            yield function_name(thing), AsData(thing) if isinstance(thing, type) else thing
        elif is_ours(thing):
            things += _parts(thing)
        elif isinstance(thing, tuple | list | set | frozenset):
            things += thing
        elif isinstance(thing, dict | types.MappingProxyType):
            things += [*thing.keys(), *thing.values()]
        elif isinstance(thing, types.MethodType):
            things += [thing.__self__, thing.__func__]
        elif isinstance(thing, functools.partial):
            things += [thing.func, thing.args, thing.keywords]
        elif not isinstance(thing, type) and library_of(type(thing).__module__) != library_of("builtins"):
            yield function_name(thing), thing


def _parts(thing: Any) -> Iterator[Any]:
    """Yield what an object or a function of stateshift refers to."""
    if isinstance(thing, types.FunctionType):
        yield from closure_of(thing)
        yield from thing.__defaults__ or ()
        yield from (thing.__kwdefaults__ or {}).values()
        return
    if attrs.has(type(thing)):
        yield from (getattr(thing, field.name, None) for field in attrs.fields(type(thing)))
    yield from getattr(thing, "__dict__", {}).values()
