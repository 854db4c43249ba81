"""Types as plain data: what the model of the rules reasons about. Nothing here knows the library.

Where a type may be null, `Maybe` stands around it, whatever the layout makes of that: a flag of a field or of a map, or
a wrapper of its own.
"""

from __future__ import annotations

from typing import Any

import attrs

NOTHING = ("nothing",)
"""Stands where None would be a value."""

INTEGERS = ("byte", "short", "int", "long", "bigint")
FLOATS = ("float", "double")
MOMENTS = ("instant", "javadate", "sqltimestamp")
TIMES = (*MOMENTS, "localdatetime", "localdate", "localtime", "sqldate", "sqltime")
LEAVES = (*INTEGERS, *FLOATS, "boolean", "string", "bytes", "char", "decimal", *TIMES)


@attrs.frozen
class Leaf:
    """A type without parts; `sealed` is one whose snapshot restores no reader, `opened` what it can become."""

    kind: str


@attrs.frozen
class Maybe:
    """T | None."""

    inner: Any


@attrs.frozen
class Stamped:
    """What lies after the time stamp of a state with TTL: the value, an element of a list, a value of a map."""

    inner: Any


@attrs.frozen
class ListOf:
    element: Any


@attrs.frozen
class ArrayOf:
    """An array in Java, a list in Python: of primitives, of strings, or of objects."""

    element: Any


@attrs.frozen
class SetOf:
    element: Any


@attrs.frozen
class MapOf:
    key: Any
    value: Any


@attrs.frozen
class TupleOf:
    items: tuple[Any, ...]


@attrs.frozen
class EitherOf:
    left: Any
    right: Any


@attrs.frozen
class EnumOf:
    """An enum.

    Attributes:
        name: Its qualified name.
        symbols: As declared; of a stored one by ordinal.
        aliases: Former names of the class.
        renamed: Former names of symbols: (symbol, former names).
        default: The symbol for those that are gone.
    """

    name: str
    symbols: tuple[str, ...]
    aliases: tuple[str, ...] = ()
    renamed: tuple[tuple[str, tuple[str, ...]], ...] = ()
    default: str = ""


@attrs.frozen
class Field:
    """A field of a record, or a column of a row; a column without a name has "".

    Attributes:
        name: As stored.
        shape: Its type.
        aliases: Former names.
        default: Of records that lack it, as a tagged value.
        on_none: What a stored null becomes, as a tagged value.
        wrapped: Whether what is stored has a null flag of its own, next to that of the field.
        owner: The Java class that declares it, where that is a base class.
        former_owners: Former names of that.
    """

    name: str
    shape: Any
    aliases: tuple[str, ...] = ()
    default: Any = NOTHING
    on_none: Any = NOTHING
    wrapped: bool = False
    owner: str = ""
    former_owners: tuple[str, ...] = ()

    @property
    def is_optional(self):
        return isinstance(self.shape, Maybe)


@attrs.frozen
class RecordOf:
    """A record.

    Attributes:
        name: The qualified name of its class.
        fields: As declared; of a stored one in the order of the bytes.
        java: The Java class, "" without one.
        aliases: Former names of the class.
        form: What the class is in Python: `attrs`, `dataclass` or `namedtuple`.
        subclasses: Those that inherit from it; of a stored one by tag, of a declared one in any order.
        is_registered: Of a subclass, whether it is decorated.
        retired: Names that must not come back.
    """

    name: str
    fields: tuple[Field, ...]
    java: str = ""
    aliases: tuple[str, ...] = ()
    form: str = "attrs"
    subclasses: tuple[RecordOf, ...] = ()
    is_registered: bool = True
    retired: tuple[str, ...] = ()

    @property
    def identity(self):
        return self.java or self.name

    @property
    def by_tag(self):
        """The decorated subclasses with all their fields, as a program numbers them: by the names of the classes."""
        decorated = [one for one in self.subclasses if one.is_registered]
        return [self.inheriting(one) for one in sorted(decorated, key=lambda one: one.name)]

    def inheriting(self, subclass):
        """Give a subclass with the fields that it inherits, which go before those of its own."""
        inherited = tuple(attrs.evolve(one, owner=self.java, former_owners=self.aliases) for one in self.fields)
        return attrs.evolve(subclass, fields=(*inherited, *self.own_fields(subclass)))

    def own_fields(self, subclass):
        """The fields of a subclass that it does not inherit."""
        names = {field.name for field in self.fields}
        return tuple(
            attrs.evolve(field, owner="", former_owners=()) for field in subclass.fields if field.name not in names
        )

    def subclass_of(self, value):
        """The subclass that a value is of, with all its fields; None of the class itself."""
        if value[0] != "subclass":
            return None
        return next(self.inheriting(one) for one in self.subclasses if one.identity == value[2])


@attrs.frozen
class RowOf:
    """A row; `stored` says what its stored columns are called, as `row_of(stored=…)`."""

    columns: tuple[Field, ...]
    stored: tuple[str, ...] = ()

    @property
    def names(self):
        return tuple(column.name for column in self.columns if column.name)


@attrs.frozen
class Avro:
    """An Avro schema; what its types are, `avro_book` says.

    Attributes:
        fields: Of its record.
        name: Of its record.
        aliases: Former names of it.
        bound: What holds its values in Python: `dict`; `class`, given next to the schema; or `of`, which implies it.
        form: What the class is.
        retired: Names of former fields that the class says must not come back.
    """

    fields: tuple[Field, ...]
    name: str = "shop.Event"
    aliases: tuple[str, ...] = ()
    bound: str = "dict"
    form: str = "attrs"
    retired: tuple[str, ...] = ()


def stripped(shape):
    """A type without `Maybe`, and whether there was one: for places with a null flag of their own."""
    return (shape.inner, True) if isinstance(shape, Maybe) else (shape, False)


def has_ttl(kind, root):
    """Whether a state of a kind and type has TTL."""
    match kind, root:
        case "list", ListOf(element):
            return isinstance(element, Stamped)
        case "map", MapOf(_, value):
            return isinstance(stripped(value)[0], Stamped)
    return isinstance(root, Stamped)


def with_ttl(kind, root, *, has):
    """The type of a state that has TTL, or has none; the null flag of map state lies before the stamp."""

    def switched(shape):
        bare = shape.inner if isinstance(shape, Stamped) else shape
        return Stamped(bare) if has else bare

    if kind == "list":
        return ListOf(switched(root.element))
    if kind != "map":
        return switched(root)
    value, is_optional = stripped(root.value)
    bare, is_too = stripped(switched(value).inner if has else switched(value))
    new = Stamped(bare) if has else bare
    return MapOf(root.key, Maybe(new) if is_optional or is_too else new)


def array_of(element):
    """An array of these; those of single bytes are `bytes` in Python."""
    return Leaf("bytes") if element == Leaf("byte") else ArrayOf(element)


def spots(shape, put=lambda node: node, *, hashed=False):
    """Every type within a type: (node, a function that replaces it in the whole, whether it must be hashed)."""
    if not isinstance(shape, Stamped):
        yield shape, put, hashed

    def below(child, make, *, also_hashed=False):
        yield from spots(child, lambda node: put(make(node)), hashed=hashed or also_hashed)

    match shape:
        case Maybe(inner):
            yield from below(inner, lambda node: node if isinstance(node, Maybe) else Maybe(node))
        case Stamped(inner):
            yield from below(inner, Stamped)
        case ListOf(element):
            yield from below(element, ListOf)
        case ArrayOf(element):
            yield from below(element, array_of)
        case SetOf(element):
            yield from below(element, SetOf, also_hashed=True)
        case MapOf(key, value):
            yield from below(key, lambda node: MapOf(node, value), also_hashed=True)
            yield from below(value, lambda node: MapOf(key, node))
        case EitherOf(left, right):
            yield from below(left, lambda node: EitherOf(node, right))
            yield from below(right, lambda node: EitherOf(left, node))
        case TupleOf(items):
            for at, item in enumerate(items):
                yield from below(item, lambda node, at=at: TupleOf((*items[:at], node, *items[at + 1 :])))
        case RecordOf(fields=fields):
            yield from _fields(shape, "fields", fields, below)
            yield from _subclass_fields(shape, below)
        case RowOf(columns=columns):
            yield from _fields(shape, "columns", columns, below)


def _fields(shape, attribute, fields, below):
    for at, field in enumerate(fields):

        def make(node, at=at, field=field):
            # what was declared of the old type need not fit the new one
            changed = attrs.evolve(field, shape=node, default=NOTHING, on_none=NOTHING)
            return attrs.evolve(shape, **{attribute: (*fields[:at], changed, *fields[at + 1 :])})

        yield from below(field.shape, make)


def _subclass_fields(shape, below):
    for at, one in enumerate(shape.subclasses):

        def inherit(changed, at=at):
            return attrs.evolve(shape, subclasses=(*shape.subclasses[:at], changed, *shape.subclasses[at + 1 :]))

        def within(child, make, inherit=inherit):
            return below(child, lambda node: inherit(make(node)))

        yield from _fields(one, "fields", shape.own_fields(one), within)


def contains(shape, wanted):
    """Whether a type has a part of which `wanted` is true."""
    return any(wanted(node) for node, _, _ in spots(shape))
