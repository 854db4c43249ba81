"""Types drawn at random, and single changes of them: what people do to a job's types from one version to the next.

What the package itself draws comes from `shipped`: types, values and evolutions. Here is only what it does not draw:
types that have a form of their own in Java or in Python (Java classes, subclasses, rows, arrays, Either, types of
`java.util` and `java.sql`), and changes that a rule asks for and few people make (`on_none`, retired and swapped names,
merged symbols).

A change is a function of `draw` and the old type, whichever of the two it needs.
"""

# ruff: noqa: ARG001 - a change takes what all changes take

from __future__ import annotations

import attrs
from evolution.avro_shapes import avro_changed
from evolution.shapes import (
    FLOATS,
    INTEGERS,
    LEAVES,
    MOMENTS,
    NOTHING,
    TIMES,
    ArrayOf,
    Avro,
    EitherOf,
    EnumOf,
    Field,
    Leaf,
    ListOf,
    MapOf,
    Maybe,
    RecordOf,
    RowOf,
    SetOf,
    TupleOf,
    array_of,
    spots,
)
from evolution.shipped import evolved, types, values_of
from evolution.subclass_steps import OF_SUBCLASSES, fields_changed, with_java, with_subclasses
from hypothesis import strategies as st

from stateshift import DeclarationError

NAMES = "abcdef"
ENUMS = ("shop.Status", "shop.Kind")
CLASSES = ("shop.Order", "shop.Line", "shop.Person", "store.Order")

leaves = st.sampled_from(LEAVES + INTEGERS + FLOATS + ("string", "bytes") * 2 + MOMENTS).map(Leaf)
hashed = leaves | types(max_depth=1, hashable=True)


def maybe(inner):
    return st.one_of(inner, inner, inner.map(lambda it: it if isinstance(it, Maybe) else Maybe(it)))


@st.composite
def fields_of(draw, inner):
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=4, unique=True))
    return tuple(draw(field_called(name, inner)) for name in names)


@st.composite
def field_called(draw, name, inner):
    shape = draw(maybe(inner))
    return Field(name, shape, default=NOTHING if draw(st.integers(0, 3)) else draw(values_of(shape)))


@st.composite
def records(draw, inner):
    java = draw(st.sampled_from(["", "", "com.acme.Thing"]))
    form = draw(st.sampled_from(["attrs", "dataclass", "namedtuple"]))
    found = RecordOf(draw(st.sampled_from(CLASSES)), draw(fields_of(inner)), java, form=form)
    return draw(with_subclasses(found)) if draw(st.booleans()) else found


@st.composite
def rows(draw, inner):
    columns = draw(fields_of(inner))
    if draw(st.integers(0, 2)):
        return RowOf(columns)
    return RowOf(tuple(Field("", column.shape) for column in columns))


def weighted(*choices):
    """Draw of strategies that are given with their weights; `one_of` would count the branches of nested ones."""
    return st.sampled_from([strategy for weight, strategy in choices for _ in range(weight)]).flatmap(lambda it: it)


def containers(inner):
    """Draw what has parts, and is not drawn by the package: Java's classes, subclasses, rows, arrays, Either."""
    return weighted(
        (6, records(inner)),
        (4, rows(inner)),
        (1, maybe(inner).map(array_of)),
        (1, maybe(hashed).map(SetOf)),
        (1, st.builds(EitherOf, inner, inner)),
    )


_flat = weighted((12, leaves), (6, types(max_depth=1)), (1, st.just(Leaf("sealed"))))
_deep = weighted((2, _flat), (1, containers(_flat)))
shapes = weighted(
    (2, leaves),
    (5, types()),
    (3, containers(_flat)),
    (3, containers(_deep)),
    (1, containers(_flat).map(Maybe)),
    (1, st.builds(RecordOf, st.just("shop.Order"), fields_of(weighted((1, st.just(Leaf("sealed"))), (2, leaves))))),
)
"""Types of up to three levels; records are the most frequent, as they are in jobs."""


@st.composite
def steps(draw, shape, *, keeps_root=False):
    """Draw one change of a type, as (what it is called, the new type); that of list and map state keeps its root."""
    found = [one for one in list(spots(shape))[keeps_root:] for _ in range(_likelihood(one[0]))]
    node, put, is_hashed = draw(st.sampled_from(found))
    if isinstance(node, Avro):
        return "schema changed", put(avro_changed(draw, node))
    own = _CHANGES.get(type(node), [])
    if is_hashed:
        change = draw(st.sampled_from([*own, _key_evolved, _key_evolved]))
    else:
        change = draw(st.sampled_from(own if own and draw(st.integers(0, 2)) else [_evolved]))
    changed = change(draw, node)
    return change.__name__.strip("_"), put(changed if changed is not None else node)


@st.composite
def subclass_stepped(draw, node):
    """Draw a change of a record with subclasses: of them, or of what they inherit."""
    changed = draw(st.sampled_from([*OF_SUBCLASSES, _java_changed, *_OF_FIELDS]))(draw, node)
    return node if changed is None else changed


def _likelihood(node):
    """How much likelier than others a part changes; what is sealed is rare, and only its change needs a fallback."""
    if node == Leaf("sealed"):
        return 12
    if isinstance(node, RecordOf) and node.subclasses:
        return 9
    return 3 if type(node) in _CHANGES else 1


# ---- changes of any type -------------------------------------------------------------------------------------------


def _evolved(draw, node):
    try:
        return draw(evolved(node))
    except DeclarationError:  # a change before this one contradicts itself
        return None


def _key_evolved(draw, node):
    """Change a type that must be hashed, and still is."""
    return draw(evolved(SetOf(node)).filter(lambda changed: isinstance(changed, SetOf))).element


def _unwrapped(draw, node):
    return node.element


def _as_array(draw, node):
    return array_of(node.element)


def _as_list(draw, node):
    return ListOf(node.element)


def _as_set(draw, node):
    return SetOf(draw(hashed))


# ---- leaves --------------------------------------------------------------------------------------------------------


def _retyped(draw, node):
    groups = [("string", "bytes"), (*TIMES, *MOMENTS), ("opened", "opened", "sealed")]
    own = next((group for group in groups if node.kind in group), None)
    return _evolved(draw, node) if own is None else Leaf(draw(st.sampled_from(own)))


# ---- enums ---------------------------------------------------------------------------------------------------------


def _symbols_merged(draw, node):
    """Two symbols become one, by an alias."""
    if len(node.symbols) == 1:
        return None
    gone, stays = draw(st.permutations(node.symbols))[:2]
    former = dict(node.renamed)
    moved = (gone, *former.pop(gone, ()))
    former[stays] = tuple(dict.fromkeys((*former.get(stays, ()), *moved)))
    left = tuple(symbol for symbol in node.symbols if symbol != gone)
    return attrs.evolve(
        node, symbols=left, renamed=tuple(former.items()), default="" if node.default == gone else node.default
    )


def _enum_renamed(draw, node):
    name = draw(st.sampled_from([name for name in ENUMS if name != node.name]))
    aliases = tuple(dict.fromkeys((*node.aliases, node.name)))
    return attrs.evolve(node, name=name, aliases=aliases if draw(st.integers(0, 3)) else ())


# ---- records and rows ----------------------------------------------------------------------------------------------


def _inside(node):
    return ("columns", node.columns) if isinstance(node, RowOf) else ("fields", node.fields)


def _with_fields(node, fields):
    return attrs.evolve(node, **{_inside(node)[0]: tuple(fields)})


def _fields_changed(draw, node):
    """Change the fields of a record and nothing else, or the columns of a row."""
    if isinstance(node, RowOf) and not node.names:
        whole = evolved(TupleOf(tuple(column.shape for column in node.columns)))
        items = draw(whole.filter(lambda changed: isinstance(changed, TupleOf))).items
        return RowOf(tuple(Field("", item) for item in items))
    return _with_fields(node, fields_changed(draw, _inside(node)[1]))


def _fields_swapped(draw, node):
    """Two fields say that they had each other's names."""
    _, fields = _inside(node)
    if len(fields) == 1 or not fields[0].name:
        return None
    one, other = draw(st.permutations(range(len(fields))))[:2]
    changed = list(fields)
    changed[one] = attrs.evolve(fields[one], aliases=(fields[other].name,))
    changed[other] = attrs.evolve(fields[other], aliases=(fields[one].name,) if draw(st.integers(0, 3)) else ())
    return _with_fields(node, changed)


def _field_toggled(draw, node):
    """A field becomes optional; or required, with or without `on_none`."""
    _, fields = _inside(node)
    at = draw(st.integers(0, len(fields) - 1))
    inner = fields[at].shape
    if not isinstance(inner, Maybe):
        changed = attrs.evolve(fields[at], shape=Maybe(inner), on_none=NOTHING)
    else:
        says = isinstance(node, RecordOf) and draw(st.integers(0, 3)) > 0
        on_none = draw(values_of(inner.inner)) if says else NOTHING
        default = NOTHING if fields[at].default is None else fields[at].default
        changed = attrs.evolve(fields[at], shape=inner.inner, on_none=on_none, default=default)
    return _with_fields(node, (*fields[:at], changed, *fields[at + 1 :]))


def _default_changed(draw, node):
    _, fields = _inside(node)
    at = draw(st.integers(0, len(fields) - 1))
    if not fields[at].name:
        return None
    default = draw(st.sampled_from([NOTHING, draw(values_of(fields[at].shape))]))
    return _with_fields(node, (*fields[:at], attrs.evolve(fields[at], default=default), *fields[at + 1 :]))


def _java_changed(draw, node):
    """A record gets a Java class, or loses it."""
    changed = with_java(node, "" if node.java else "com.acme.Thing")
    return attrs.evolve(changed, aliases=tuple(dict.fromkeys((*node.aliases, node.identity))))


def _as_row(draw, node):
    return RowOf(tuple(attrs.evolve(field, on_none=NOTHING) for field in node.fields))


def _form_changed(draw, node):
    forms = ["attrs", "dataclass", *([] if node.subclasses else ["namedtuple"])]
    return attrs.evolve(node, form=draw(st.sampled_from(forms)))


def _retired(draw, node):
    """A field goes and its name must not come back; or one comes back."""
    free = [name for name in NAMES if name not in {field.name for field in node.fields}]
    if len(node.fields) == 1 or (node.retired and free and draw(st.booleans())):
        if not free:
            return None
        name = draw(st.sampled_from(free))
        fields = (*node.fields, draw(field_called(name, leaves)))
        return attrs.evolve(node, fields=fields, retired=(*node.retired, *([name] if draw(st.booleans()) else [])))
    gone = draw(st.sampled_from(node.fields))
    left = tuple(field for field in node.fields if field is not gone)
    return attrs.evolve(node, fields=left, retired=tuple(dict.fromkeys((*node.retired, gone.name))))


_OF_FIELDS = [_fields_changed, _fields_changed, _fields_changed, _field_toggled, _default_changed]
_OF_RECORDS = [*_OF_FIELDS, _fields_changed, _fields_swapped, _java_changed, _form_changed, _as_row, _retired]
_CHANGES = {
    Leaf: [_retyped],
    EnumOf: [_evolved, _evolved, _symbols_merged, _enum_renamed],
    RecordOf: [*_OF_RECORDS, *_OF_RECORDS, *OF_SUBCLASSES],
    MapOf: [_evolved, _evolved, _evolved, _as_set],
    RowOf: [*_OF_FIELDS, _fields_swapped],
    ListOf: [_unwrapped, _as_set, _as_array],
    ArrayOf: [_as_list, _as_list, _unwrapped],
}
