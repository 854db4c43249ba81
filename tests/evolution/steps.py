"""Types drawn at random, and single changes of them: what people do to a job's types from one version to the next.

A change is a function of `draw` and the old type, whichever of the two it needs.
"""

# ruff: noqa: ARG001 - a change takes what all changes take

from __future__ import annotations

import attrs
from evolution.answers import REFUSE
from evolution.avro_shapes import avro_changed
from evolution.book import judge
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
from evolution.subclass_steps import OF_SUBCLASSES, subclass_changed, with_java, with_subclasses
from evolution.values import values_of
from hypothesis import strategies as st

NAMES = "abcdef"
SYMBOLS = "ABCDEF"
CLASSES = ("shop.Order", "shop.Line", "shop.Person", "store.Order")
NUMBERS = (*INTEGERS, *FLOATS)

leaves = st.sampled_from(LEAVES + NUMBERS + ("string", "bytes") * 2 + MOMENTS).map(Leaf)


@st.composite
def enums(draw):
    symbols = draw(st.lists(st.sampled_from(SYMBOLS), min_size=1, max_size=4, unique=True))
    return EnumOf(draw(st.sampled_from(["shop.Status", "shop.Kind"])), tuple(symbols))


hashed = st.one_of(leaves, enums(), st.tuples(leaves, leaves).map(TupleOf))


def maybe(inner):
    return st.one_of(inner, inner, inner.map(lambda it: it if isinstance(it, Maybe) else Maybe(it)))


@st.composite
def fields_of(draw, inner, least=1):
    names = draw(st.lists(st.sampled_from(NAMES), min_size=least, max_size=4, unique=True))
    return tuple(draw(field_called(name, inner)) for name in names)


@st.composite
def field_called(draw, name, inner, *, has_default=None):
    shape = draw(maybe(inner))
    wanted = draw(st.integers(0, 3)) == 0 if has_default is None else has_default
    return Field(name, shape, default=draw(values_of(shape)) if wanted else NOTHING)


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
    return weighted(
        (6, records(inner)),
        (3, rows(inner)),
        (2, maybe(inner).map(ListOf)),
        (1, maybe(inner).map(array_of)),
        (1, maybe(hashed).map(SetOf)),
        (2, st.builds(MapOf, hashed, maybe(inner))),
        (2, st.lists(maybe(inner), min_size=1, max_size=3).map(lambda items: TupleOf(tuple(items)))),
        (1, st.builds(EitherOf, inner, inner)),
    )


_flat = weighted((14, leaves), (4, enums()), (1, st.just(Leaf("sealed"))))
_deep = weighted((2, _flat), (1, containers(_flat)))
shapes = weighted(
    (2, _flat),
    (4, containers(_flat)),
    (4, containers(_deep)),
    (1, containers(_flat).map(Maybe)),
    (1, st.builds(RecordOf, st.just("shop.Order"), fields_of(weighted((1, st.just(Leaf("sealed"))), (2, leaves))))),
)
"""Types of up to three levels; records are the most frequent, as they are in jobs."""


@st.composite
def steps(draw, shape, *, keeps_root=False):
    """Draw one change of a type, as (what it is called, the new type); that of list and map state keeps its root."""
    found = [one for one in list(spots(shape))[keeps_root:] for _ in range(_likelihood(one[0]))]
    node, put, is_hashed = draw(st.sampled_from(found))
    own = _CHANGES.get(type(node), ())
    if isinstance(node, Avro):
        return "schema changed", put(avro_changed(draw, node))
    others = [_other_hashed] if is_hashed else [_optional, _other, _other if isinstance(node, Maybe) else _wrapped]
    # What belongs to a type is likelier than what could befall any.
    change = draw(st.sampled_from(own if own and draw(st.integers(0, 9)) < 9 else others))
    changed = change(draw, node)
    return change.__name__.strip("_"), put(changed if changed is not None else node)


@st.composite
def subclass_stepped(draw, node):
    """Draw a change of a record with subclasses: of them, or of what they inherit."""
    change = draw(st.sampled_from([*OF_SUBCLASSES, _subclass_changed, _java_changed, *_OF_FIELDS]))
    changed = change(draw, node)
    return node if changed is None else changed


def _likelihood(node):
    """How much likelier than others a part changes; what is sealed is rare, and only its change needs a fallback."""
    if node == Leaf("sealed"):
        return 12
    if isinstance(node, RecordOf) and node.subclasses:
        return 9
    return 3 if type(node) in _CHANGES else 1


# ---- changes of any type -------------------------------------------------------------------------------------------


def _optional(draw, node):
    return node.inner if isinstance(node, Maybe) else Maybe(node)


def _other(draw, node):
    return draw(shapes.map(lambda it: it.inner if isinstance(it, Maybe) else it))


def _other_hashed(draw, node):
    return draw(hashed)


def _wrapped(draw, node):
    return draw(st.sampled_from([ListOf(node), TupleOf((node,))]))


def _unwrapped(draw, node):
    return node.element


def _as_array(draw, node):
    return array_of(node.element)


def _as_list(draw, node):
    return ListOf(node.element)


def _as_set(draw, node):
    return SetOf(draw(hashed))


# ---- leaves --------------------------------------------------------------------------------------------------------


def _widened(draw, node):
    if node.kind not in NUMBERS:
        return _retyped(draw, node)
    if draw(st.integers(0, 4)) == 4:
        return Leaf(draw(st.sampled_from(NUMBERS)))
    return Leaf(draw(st.sampled_from([kind for kind in NUMBERS if judge(node, Leaf(kind)).verdict != REFUSE])))


def _retyped(draw, node):
    groups = [NUMBERS, ("string", "bytes"), (*TIMES, *MOMENTS), ("opened", "opened", "sealed", "long")]
    own = next((group for group in groups if node.kind in group), LEAVES)
    return Leaf(draw(st.sampled_from(own)))


# ---- enums ---------------------------------------------------------------------------------------------------------


def _with_symbols(node, symbols, renamed=None, **changes):
    """The enum with other symbols; what contradicts them is left out."""
    given = node.renamed if renamed is None else renamed
    fitting = tuple(
        (symbol, kept)
        for symbol, former in given
        if symbol in symbols and (kept := tuple(name for name in former if name not in symbols))
    )
    default = changes.pop("default", node.default)
    default = default if default in symbols else ""
    return attrs.evolve(node, symbols=tuple(symbols), renamed=fitting, default=default, **changes)


def _symbol_added(draw, node):
    free = [symbol for symbol in SYMBOLS if symbol not in node.symbols]
    if not free:
        return _symbols_reordered(draw, node)
    at = draw(st.integers(0, len(node.symbols)))
    return _with_symbols(node, (*node.symbols[:at], draw(st.sampled_from(free)), *node.symbols[at:]))


def _symbols_reordered(draw, node):
    return _with_symbols(node, draw(st.permutations(node.symbols)))


def _symbol_removed(draw, node):
    if len(node.symbols) == 1:
        return None
    gone = draw(st.sampled_from(node.symbols))
    left = [symbol for symbol in node.symbols if symbol != gone]
    default = draw(st.sampled_from(["", *left]))
    return _with_symbols(node, left, default=default)


def _symbol_renamed(draw, node):
    gone = draw(st.sampled_from(node.symbols))
    free = [symbol for symbol in SYMBOLS if symbol not in node.symbols]
    if not free:
        return None
    name = draw(st.sampled_from(free))
    former = dict(node.renamed)
    claimed = {alias for symbol, names in former.items() for alias in names if symbol != gone}
    aliases = tuple(alias for alias in dict.fromkeys((gone, *former.pop(gone, ()))) if alias not in claimed)
    renamed = tuple(former.items()) + (((name, aliases),) if draw(st.integers(0, 3)) else ())
    return _with_symbols(node, [name if symbol == gone else symbol for symbol in node.symbols], renamed)


def _symbols_merged(draw, node):
    """Two symbols become one, by an alias."""
    if len(node.symbols) == 1:
        return None
    gone, stays = draw(st.permutations(node.symbols))[:2]
    former = dict(node.renamed)
    moved = (gone, *former.pop(gone, ()))
    former[stays] = tuple(dict.fromkeys((*former.get(stays, ()), *moved)))
    return _with_symbols(node, [symbol for symbol in node.symbols if symbol != gone], tuple(former.items()))


def _class_renamed(draw, node):
    name = draw(st.sampled_from([name for name in (*CLASSES, "shop.Status", "shop.Kind") if name != node.name]))
    aliases = tuple(dict.fromkeys((*node.aliases, getattr(node, "identity", node.name))))
    return attrs.evolve(node, name=name, aliases=aliases if draw(st.integers(0, 3)) else ())


# ---- records and rows ----------------------------------------------------------------------------------------------


def _inside(node):
    return ("columns", node.columns) if isinstance(node, RowOf) else ("fields", node.fields)


def _with_fields(node, fields):
    return attrs.evolve(node, **{_inside(node)[0]: tuple(fields)})


def _field_added(draw, node):
    _, fields = _inside(node)
    free = [name for name in NAMES if name not in {field.name for field in fields}]
    if not free:
        return _fields_reordered(draw, node)
    unnamed = isinstance(node, RowOf) and not node.names
    name = "" if unnamed else draw(st.sampled_from(free))
    has_default = not unnamed and draw(st.integers(0, 4)) > 0
    new = draw(field_called(name, st.one_of(leaves, leaves.map(ListOf)), has_default=has_default))
    at = draw(st.integers(0, len(fields)))
    return _with_fields(node, (*fields[:at], new, *fields[at:]))


def _field_removed(draw, node):
    _, fields = _inside(node)
    if len(fields) == 1:
        return None
    gone = draw(st.integers(0, len(fields) - 1))
    return _with_fields(node, (*fields[:gone], *fields[gone + 1 :]))


def _field_renamed(draw, node):
    _, fields = _inside(node)
    at = draw(st.integers(0, len(fields) - 1))
    free = [name for name in NAMES if name not in {field.name for field in fields}]
    if not free or not fields[at].name:
        return None
    aliases = tuple(dict.fromkeys((fields[at].name, *fields[at].aliases)))
    kept = aliases if isinstance(node, RowOf) or draw(st.integers(0, 3)) else ()
    changed = attrs.evolve(fields[at], name=draw(st.sampled_from(free)), aliases=kept)
    return _with_fields(node, (*fields[:at], changed, *fields[at + 1 :]))


def _fields_reordered(draw, node):
    return _with_fields(node, draw(st.permutations(_inside(node)[1])))


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
        changed = _field_added(draw, node)
        name = changed.fields[-1].name
        return attrs.evolve(changed, retired=(*node.retired, *([name] if draw(st.booleans()) else [])))
    gone = draw(st.sampled_from(node.fields))
    left = tuple(field for field in node.fields if field is not gone)
    return attrs.evolve(node, fields=left, retired=tuple(dict.fromkeys((*node.retired, gone.name))))


def _subclass_changed(draw, node):
    return subclass_changed(draw, node, [*_OF_FIELDS, _subclass_field_retyped])


def _subclass_field_retyped(draw, node):
    at = draw(st.integers(0, len(node.fields) - 1))
    shape = node.fields[at].shape
    new = _widened(draw, shape) if isinstance(shape, Leaf) else _optional(draw, shape)
    changed = attrs.evolve(node.fields[at], shape=new, default=NOTHING, on_none=NOTHING)
    return _with_fields(node, (*node.fields[:at], changed, *node.fields[at + 1 :]))


# ---- tuples --------------------------------------------------------------------------------------------------------


def _items_changed(draw, node):
    if draw(st.booleans()):
        return TupleOf(tuple(draw(st.permutations(node.items))))
    return TupleOf((*node.items, draw(leaves))) if draw(st.booleans()) else TupleOf(node.items[:1])


_OF_ENUMS = [_symbol_added, _symbols_reordered, _symbol_removed, _symbol_renamed, _symbols_merged, _class_renamed]
_OF_FIELDS = [_field_added, _field_removed, _field_renamed, _fields_reordered, _field_toggled, _default_changed]
_OF_RECORDS = [
    *(_OF_FIELDS * 2), _fields_swapped, _class_renamed, _java_changed, _form_changed, _as_row, _retired,
]  # fmt: skip
_CHANGES = {
    Leaf: [_widened, _widened, _retyped],
    EnumOf: _OF_ENUMS,
    RecordOf: [*_OF_RECORDS, *OF_SUBCLASSES, _subclass_changed, _subclass_changed],
    RowOf: [*_OF_FIELDS, _fields_swapped],
    TupleOf: [_items_changed],
    ListOf: [_unwrapped, _as_set, _as_array],
    ArrayOf: [_as_list, _as_list, _unwrapped],
}
