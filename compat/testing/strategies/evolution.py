"""Later versions of a type: single changes, at any place within it."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any, NamedTuple, get_args, get_origin

import attrs
from hypothesis import strategies as st

from ....serializers.enums.serializers import EnumSerializer
from ....serializers.hints import serializer_for, strip_none
from ....serializers.records.classes import is_record_class
from ....serializers.records.recursive import RecursiveRecordSerializer
from .hints import (
    FIELD_NAMES,
    NUMBERS,
    SYMBOLS,
    Attribute,
    RecordClass,
    attribute,
    enum_like,
    generic,
    in_words,
    leaves,
    optional,
    types,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hypothesis.strategies import DrawFn, SearchStrategy

    Put = Callable[[Any], Any]
    Change = Callable[[DrawFn, "_Place"], tuple[Any, str]]

_MOST_CHANGES = 3
_mostly = st.sampled_from([True, True, True, False])


class Evolution(NamedTuple):
    """A later version of a type.

    Attributes:
        hint: The new type.
        changes: The changes in words, in the order in which they were made: `$.color: the field is removed`.
    """

    hint: Any
    changes: tuple[str, ...]


def evolutions(hint: Any, *, most: int = _MOST_CHANGES) -> SearchStrategy[Evolution]:
    """Draw a later version of a type, after one change or more.

    Numbers are widened and narrowed; required values become optional, and back; fields are added, removed, renamed and
    reordered, with a default or an alias and without; enum symbols are added, removed, renamed and reordered; elements,
    keys, values and items of containers change as other types do. So every verdict can occur.

    Records and enums that change are created again under the same name, records as attrs classes without methods and
    base classes. Records that contain themselves do not change inside.

    Args:
        hint: The type hint of the old type.
        most: The maximum number of changes.

    Raises:
        DeclarationError: The hint has no serializer.
    """
    serializer_for(hint)
    return _evolutions(hint, most)


@st.composite
def _evolutions(draw: DrawFn, hint: Any, most: int) -> Evolution:
    changes: list[str] = []
    for _ in range(draw(st.integers(1, most))):
        places = list(_places(hint))
        place = draw(st.sampled_from([place for place in places for _ in range(1 + 2 * bool(_OWN.get(place.kind)))]))
        own = _OWN.get(place.kind, ())
        change = draw(st.sampled_from([*own, *own, *own, *(_OF_HASHED if place.is_hashed else _OF_ANY)]))
        if change is _toggled:
            place = attrs.evolve(place, is_optional=not place.is_optional)
        changed, words = change(draw, place)
        hint, changes = place.put(changed), [*changes, f"{place.path}: {words}"]
    return Evolution(hint, tuple(changes))


@attrs.frozen
class _Place:
    """A type within a type.

    Attributes:
        path: The path of the place: `$.lines[].color`.
        hint: The type hint, without `| None`.
        is_optional: Whether there is `| None`.
        is_hashed: Whether it is a key of a dict, or an element of a set.
        put_back: Rebuilds the whole type with another type at this place.
    """

    path: str
    hint: Any
    is_optional: bool
    is_hashed: bool
    put_back: Put

    @property
    def kind(self) -> str:
        """The kind of the type, which decides the possible changes."""
        if self.hint in NUMBERS:
            return "number"
        if isinstance(self.hint, type) and issubclass(self.hint, enum.Enum):
            return "enum"
        if _is_open_record(self.hint):
            return "record"
        return "tuple" if get_origin(self.hint) is tuple else ""

    def put(self, hint: Any) -> Any:
        """Return the whole type with another type at this place; it stays optional if it was."""
        return self.put_back(optional(hint) if self.is_optional else hint)


def _is_open_record(hint: Any) -> bool:
    return is_record_class(hint) and not isinstance(serializer_for(hint), RecursiveRecordSerializer)


def _places(hint: Any, path: str = "$", put: Put = lambda hint: hint, *, is_hashed: bool = False) -> Iterator[_Place]:
    """Yield every place within a type, the whole type first."""
    bare, is_optional = strip_none(hint)
    if bare is None:  # the hint None is the type Void
        is_optional = False
    place = _Place(path, bare, is_optional, is_hashed, put)
    yield place
    origin, arguments = get_origin(bare), get_args(bare)
    if origin is list:
        yield from _places(arguments[0], f"{path}[]", lambda new: place.put(generic(list, new)))
    elif origin in {set, frozenset}:
        yield from _places(arguments[0], f"{path}[]", lambda new: place.put(generic(origin, new)), is_hashed=True)
    elif origin is dict:
        key, value = arguments
        yield from _places(key, f"{path}<key>", lambda new: place.put(generic(dict, new, value)), is_hashed=True)
        yield from _places(value, f"{path}<value>", lambda new: place.put(generic(dict, key, new)), is_hashed=is_hashed)
    elif origin is tuple:
        for at, item in enumerate(arguments):

            def with_item(new: Any, at: int = at) -> Any:
                return place.put(generic(tuple, *arguments[:at], new, *arguments[at + 1 :]))

            yield from _places(item, f"{path}.f{at}", with_item, is_hashed=is_hashed)
    elif _is_open_record(bare):
        told = RecordClass.of(bare)
        for at, field in enumerate(told.attributes):

            def with_field(new: Any, at: int = at, field: Attribute = field) -> Any:
                fields = (*told.attributes[:at], field.of_type(new), *told.attributes[at + 1 :])
                return place.put(attrs.evolve(told, attributes=fields).made())

            yield from _places(field.hint, f"{path}.{field.name}", with_field, is_hashed=is_hashed)


def _becomes(place: _Place, new: Any) -> tuple[Any, str]:
    return new, f"{in_words(place.hint)} becomes {in_words(new)}"


# ---- any type ------------------------------------------------------------------------------------------------------


def _toggled(_: DrawFn, place: _Place) -> tuple[Any, str]:
    return place.hint, "may be None" if place.is_optional else "is required"


def _retyped(draw: DrawFn, place: _Place) -> tuple[Any, str]:
    return _becomes(place, draw(types(max_depth=0)))


def _in_list(_: DrawFn, place: _Place) -> tuple[Any, str]:
    return generic(list, place.hint), f"{in_words(place.hint)} becomes a list of it"


# ---- numbers -------------------------------------------------------------------------------------------------------


def _widened(draw: DrawFn, place: _Place) -> tuple[Any, str]:
    wider = NUMBERS[NUMBERS.index(place.hint) + 1 :]
    return _becomes(place, draw(st.sampled_from(wider or NUMBERS[:-1])))


def _narrowed(draw: DrawFn, place: _Place) -> tuple[Any, str]:
    narrower = NUMBERS[: NUMBERS.index(place.hint)]
    return _becomes(place, draw(st.sampled_from(narrower or NUMBERS[1:])))


# ---- enums ---------------------------------------------------------------------------------------------------------


def _free(names: tuple[str, ...], taken: set[str], word: str) -> list[str]:
    return [name for name in names if name not in taken] or [f"{word}{len(taken)}"]


def _told_of_enum(place: _Place) -> tuple[list[str], set[str], dict[str, tuple[str, ...]]]:
    """Return the symbols, all names that are taken, and the former names by symbol."""
    told = EnumSerializer.of(place.hint)
    former = dict(told.symbol_aliases)
    return list(told.symbols), {*told.symbols, *(name for names in former.values() for name in names)}, former


def _symbol_added(draw: DrawFn, place: _Place) -> tuple[Any, str]:
    symbols, taken, _ = _told_of_enum(place)
    new, at = draw(st.sampled_from(_free(SYMBOLS, taken, "NEW_"))), draw(st.integers(0, len(symbols)))
    return enum_like(place.hint, [*symbols[:at], new, *symbols[at:]]), f"the symbol {new} is added"


def _symbol_removed(draw: DrawFn, place: _Place) -> tuple[Any, str]:
    symbols, _, _ = _told_of_enum(place)
    gone = draw(st.sampled_from(symbols))
    left = [symbol for symbol in symbols if symbol != gone] or ["NONE"]  # an enum has at least one member
    default = draw(st.sampled_from(["", left[0]]))
    words = f"the symbol {gone} is removed" + (f", and {default} is the default" if default else "")
    return enum_like(place.hint, left, default=default), words


def _symbol_renamed(draw: DrawFn, place: _Place) -> tuple[Any, str]:
    symbols, taken, former = _told_of_enum(place)
    gone, new = draw(st.sampled_from(symbols)), draw(st.sampled_from(_free(SYMBOLS, taken, "NEW_")))
    aliases = (gone, *former.pop(gone, ()))
    has_alias = draw(_mostly)
    if has_alias:
        former[new] = aliases
    renamed = [new if symbol == gone else symbol for symbol in symbols]
    words = f"the symbol {gone} is called {new}, {'with' if has_alias else 'without'} an alias"
    return enum_like(place.hint, renamed, symbol_aliases=tuple(former.items())), words


def _symbols_reordered(draw: DrawFn, place: _Place) -> tuple[Any, str]:
    symbols = draw(st.permutations(_told_of_enum(place)[0]))
    return enum_like(place.hint, symbols), f"the symbols are in the order {', '.join(symbols)}"


# ---- records -------------------------------------------------------------------------------------------------------


def _free_fields(told: RecordClass) -> list[str]:
    taken = {name for field in told.attributes for name in (field.name, *field.stored_names)}
    retired = set(told.retired)
    return _free(FIELD_NAMES, taken | retired, "new_")


def _with_fields(told: RecordClass, *fields: Attribute) -> type:
    return attrs.evolve(told, attributes=fields).made()


def _field_added(draw: DrawFn, place: _Place) -> tuple[Any, str]:
    told = RecordClass.of(place.hint)
    name, has_default = draw(st.sampled_from(_free_fields(told))), draw(_mostly)
    new = draw(attribute(name, leaves, has_default=has_default))
    words = f"the field {name} is added, {'with' if has_default else 'without'} a default"
    return _with_fields(told, *told.attributes, new), words


def _field_removed(draw: DrawFn, place: _Place) -> tuple[Any, str]:
    told = RecordClass.of(place.hint)
    if len(told.attributes) < 2:  # a record without fields would have no bytes
        return _field_added(draw, place)
    gone = draw(st.sampled_from(told.attributes))
    left = [field for field in told.attributes if field.name != gone.name]
    return _with_fields(told, *left), f"the field {gone.name} is removed"


def _field_renamed(draw: DrawFn, place: _Place) -> tuple[Any, str]:
    told = RecordClass.of(place.hint)
    if not told.attributes:
        return _field_added(draw, place)
    at, name = draw(st.integers(0, len(told.attributes) - 1)), draw(st.sampled_from(_free_fields(told)))
    old, has_alias = told.attributes[at], draw(_mostly)
    new = old.renamed(name, aliases=old.stored_names if has_alias else ())
    words = f"the field {old.name} is called {name}, {'with' if has_alias else 'without'} an alias"
    return _with_fields(told, *told.attributes[:at], new, *told.attributes[at + 1 :]), words


def _fields_reordered(draw: DrawFn, place: _Place) -> tuple[Any, str]:
    told = RecordClass.of(place.hint)
    fields = draw(st.permutations(told.attributes))
    return _with_fields(told, *fields), f"the fields are in the order {', '.join(field.name for field in fields)}"


def _class_renamed(draw: DrawFn, place: _Place) -> tuple[Any, str]:
    told = RecordClass.of(place.hint)
    name, has_alias = f"New{told.name.rpartition('.')[2]}", draw(_mostly)
    aliases = tuple(dict.fromkeys((told.identity, *told.aliases))) if has_alias else ()
    renamed = attrs.evolve(told, name=name, java_class="", aliases=aliases)
    return renamed.made(), f"the class {told.name} is called {name}, {'with' if has_alias else 'without'} an alias"


# ---- tuples --------------------------------------------------------------------------------------------------------


def _item_added(draw: DrawFn, place: _Place) -> tuple[Any, str]:
    new = draw(leaves)
    return generic(tuple, *get_args(place.hint), new), f"an item is added, a {in_words(new)}"


def _item_removed(_: DrawFn, place: _Place) -> tuple[Any, str]:
    items = get_args(place.hint)
    return (
        (generic(tuple, *items[:-1]), "the last item is removed") if len(items) > 1 else (place.hint, "stays as it is")
    )


_OF_HASHED: tuple[Change, ...] = (_retyped,)
_OF_ANY: tuple[Change, ...] = (_toggled, _toggled, _toggled, _retyped, _in_list)
_OWN: dict[str, tuple[Change, ...]] = {
    "number": (_widened, _widened, _narrowed),
    "enum": (_symbol_added, _symbol_removed, _symbol_renamed, _symbols_reordered),
    "record": (_field_added, _field_removed, _field_renamed, _fields_reordered, _class_renamed),
    "tuple": (_item_added, _item_removed),
}
