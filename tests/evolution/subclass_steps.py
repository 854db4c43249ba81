"""Subclasses of records drawn at random, and what people do to them from one version to the next."""

from __future__ import annotations

import attrs
from evolution.shapes import NOTHING, Field, Leaf, ListOf, Maybe, RecordOf
from evolution.shipped import evolved, values_of
from evolution.values import SUBCLASSES
from hypothesis import strategies as st

OWN_NAMES = "uvaf"
"""What fields of subclasses are called; a base may come to have some of these, too."""

_kinds = st.sampled_from(["int", "long", "string", "bytes", "double", "boolean"]).map(Leaf)
_shapes = st.one_of(_kinds, _kinds, _kinds.map(Maybe), _kinds.map(ListOf))


def fields_changed(draw, fields):
    """Change the fields of a record, and nothing else of it."""
    whole = evolved(RecordOf("shop.Fields", tuple(fields)))
    return draw(whole.filter(lambda changed: isinstance(changed, RecordOf))).fields


@st.composite
def own_field(draw, name):
    shape = draw(_shapes)
    return Field(name, shape, default=draw(values_of(shape)) if draw(st.integers(0, 2)) else NOTHING)


def _named(base, subclass, last, **changes):
    """Give a subclass of that name; in Java it has the same one."""
    java = f"com.acme.{last}" if base.java and subclass.is_registered else ""
    return attrs.evolve(subclass, name=f"shop.{last}", java=java, **changes)


def _free(draw, base):
    taken = {one.name for one in base.subclasses}
    free = [last for last in SUBCLASSES if f"shop.{last}" not in taken]
    return draw(st.sampled_from(free)) if free else None


def _replaced(base, one, *others):
    at = base.subclasses.index(one)
    return attrs.evolve(base, subclasses=(*base.subclasses[:at], *others, *base.subclasses[at + 1 :]))


def subclass_added(draw, base):
    last = _free(draw, base)
    if last is None:
        return None
    names = draw(st.lists(st.sampled_from(OWN_NAMES), max_size=2, unique=True))
    # A named tuple cannot be inherited from with more fields.
    form = "attrs" if base.form == "namedtuple" else base.form
    base = attrs.evolve(base, form=form)
    fields = tuple(draw(own_field(name)) for name in names)
    made = attrs.evolve(base, fields=fields, aliases=(), retired=(), subclasses=(), is_registered=True)
    return attrs.evolve(base, subclasses=(*base.subclasses, _named(base, made, last)))


@st.composite
def with_subclasses(draw, base):
    for _ in range(draw(st.integers(1, 3))):
        base = subclass_added(draw, base)
    return base


def subclass_removed(draw, base):
    if not base.subclasses:
        return subclass_added(draw, base)
    return _replaced(base, draw(st.sampled_from(base.subclasses)))


def subclass_renamed(draw, base):
    last = _free(draw, base) if base.subclasses else None
    if last is None:
        return subclass_added(draw, base)
    one = draw(st.sampled_from(base.subclasses))
    aliases = tuple(dict.fromkeys((*one.aliases, one.identity))) if draw(st.integers(0, 3)) else ()
    return _replaced(base, one, _named(base, one, last, aliases=aliases))


def subclasses_merged(draw, base):
    """One takes the place of another, too, which goes, or stays as it is and is claimed by both."""
    if len(base.subclasses) < 2:
        return subclass_added(draw, base)
    gone, stays = draw(st.permutations(base.subclasses))[:2]
    aliases = tuple(dict.fromkeys((*stays.aliases, gone.identity, *gone.aliases)))
    merged = _replaced(base, stays, attrs.evolve(stays, aliases=aliases))
    return _replaced(merged, gone) if draw(st.integers(0, 3)) else merged


def alias_claimed_twice(draw, base):
    """A subclass goes, and two others say that they were it."""
    if len(base.subclasses) < 3:
        return subclass_added(draw, base)
    gone = draw(st.sampled_from(base.subclasses))
    left = tuple(attrs.evolve(one, aliases=(*one.aliases, gone.identity)) for one in base.subclasses if one is not gone)
    return attrs.evolve(base, subclasses=left)


def subclass_decorated(draw, base):
    """A subclass loses its decorator, or gets it back."""
    if not base.subclasses:
        return subclass_added(draw, base)
    one = draw(st.sampled_from(base.subclasses))
    toggled = attrs.evolve(one, is_registered=not one.is_registered, aliases=(), retired=())
    return _replaced(base, one, _named(base, toggled, one.name.rpartition(".")[2]))


def subclass_changed(draw, base):
    """What befalls any record befalls the fields that a subclass does not inherit."""
    if not base.subclasses:
        return subclass_added(draw, base)
    one = draw(st.sampled_from(base.subclasses))
    own = base.own_fields(one)
    fields = fields_changed(draw, own) if own else (draw(own_field(draw(st.sampled_from(OWN_NAMES)))),)
    return _replaced(base, one, attrs.evolve(one, fields=fields))


def field_pulled_up(draw, base):
    """A field of a subclass is one of the base from now on."""
    own = [field for one in base.subclasses for field in base.own_fields(one)]
    if not own:
        return subclass_added(draw, base)
    return attrs.evolve(base, fields=(*base.fields, draw(st.sampled_from(own))))


def with_java(base, java):
    """A base and its subclasses get Java classes, or lose them."""
    new = attrs.evolve(base, java=java)
    subclasses = tuple(
        _named(
            new,
            one,
            one.name.rpartition(".")[2],
            aliases=tuple(dict.fromkeys((*one.aliases, one.identity))) if one.is_registered else (),
        )
        for one in base.subclasses
    )
    return attrs.evolve(new, subclasses=subclasses)


OF_SUBCLASSES = [subclass_added, subclass_removed, subclass_renamed, subclasses_merged, subclass_decorated]
OF_SUBCLASSES += [alias_claimed_twice, field_pulled_up, subclass_changed, subclass_changed]
