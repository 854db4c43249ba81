"""What becomes of each stored field in a new query: decided once, for the check and for the migration.

A check puts what stands here into findings, a migration derives its conversion from it, and neither pairs anything.
A field is paired by what its author says; else by what both sides compute, where that is known; else by its name. Where
names and places disagree, and Spark would start, nobody but its author knows which of the two is right.

Paths are those of a migration's options:

    key.k, value.total         a field of the key, of the value
    left.value.n               a field of the rows of the left side of a join
    value.sum#2                the second field that is called `sum`
    value.list[].x             a field of the elements of an array; {} are the values of a map, {key} its keys
    count.n, log[].n, seen{}.n a field of a variable's values; `seen{key}.n` of the keys of a map
"""

from __future__ import annotations

from collections import Counter
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import attrs

from ..compatibility import Path
from .spark_types import holds_all

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from .spark_types import SparkField, SparkType


KEY, VALUE = Path("key"), Path("value")
"""The parts of an entry."""
OF_MAP_KEYS = "{key}"
STEPS = {"array": ("[]",), "map": (OF_MAP_KEYS, "{}")}
"""What leads to the values within a type, by its word."""
UNSCALED = "Spark sums decimals of up to 8 digits as whole numbers, and the types do not say whether these are such"


@attrs.frozen
class Origin:
    """The stored column, or field of one, that a column of the new query continues.

    Attributes:
        path: Its path in the new types.
        name: Its name there, the last step of the path.
        source: The path of the stored one; "": none is computed from the same.
        was: What the stored column of the same name is computed from, if that is something else.
        now: What it is computed from now.
    """

    path: Path = attrs.field(converter=Path)
    name: str
    source: Path = attrs.field(default=Path(""), converter=Path)
    was: str = ""
    now: str = ""


def is_within(path: str, places: Iterable[str]) -> bool:
    """Whether a path is one of some, or of a field within one of them."""
    return any(map(Path(path).is_within, places))


@attrs.frozen
class Reading:
    """Whether the names of fields say which stored field is which.

    Attributes:
        is_silent: Whether the types of all places are equal, so that Spark would start, and read by place.
        buffers: The columns of the value that have their names from Spark: a `max` is no renamed `sum`.
    """

    is_silent: bool = False
    buffers: frozenset[str] = frozenset()

    def is_buffer(self, path: str) -> bool:
        """Whether a path is that of a buffer, or of a field within one."""
        return is_within(path, self.buffers)

    def unclear(self, old: SparkType, new: SparkType, path: str) -> tuple[str, ...]:
        """Return the fields of a struct whose stored fields only its author can name.

        Within the buffer of an aggregate the order of the fields decides, too: which struct is the largest.
        """
        kept = [name for name in new.names if name in old.names]
        if self.is_buffer(path):
            before = [name for name in old.names if name in kept]
            return tuple(name for name, was in zip(kept, before, strict=True) if name != was)
        if not self.is_silent:
            return ()
        moved = (name for name in kept if old.names.index(name) != new.names.index(name))
        return tuple(name for name in moved if f"{path}.{name}" not in self.buffers)

    def is_unscaled(self, path: str, old: SparkType, new: SparkType) -> bool:
        """Whether stored whole numbers may be decimals without their point: so Spark sums those of up to 8 digits."""
        return self.is_buffer(path) and old.word == "bigint" and new.word == "decimal" and new.scale > 0


BY_NAME = Reading()
"""The reading of what names say."""


class Becomes(StrEnum):
    """What becomes of a field."""

    CARRIED = "carried"
    """Its values are those of the stored field; those within it may be others."""
    WIDENED = "widened"
    """Its values are converted to a type that holds all of them."""
    UNCONVERTED = "unconverted"
    """It has another type, to which nothing is converted."""
    UNSCALED = "unscaled"
    """Its whole numbers may be decimals without their point."""
    NEW = "new"
    """No stored field is its own; it has no value, unless one is said."""
    DROPPED = "dropped"
    """The stored field has no new one."""
    OTHERWISE = "otherwise"
    """The stored field of its name is known to be computed from something else."""
    UNCLEAR = "unclear"
    """Its name and its place name two stored fields."""
    SEVERAL = "several"
    """Several fields have its name, and their number is another."""
    MISSING = "missing"
    """It is said to go on from a field that is not stored."""
    FILLED = "filled"
    """It is new, and its value is said."""
    CONVERTED = "converted"
    """A function of its author makes its values."""


UNCONVERTED = "neither Spark nor stateshift converts this by itself, only a function of yours"
_KEPT = frozenset({Becomes.CARRIED, Becomes.WIDENED, Becomes.UNCONVERTED, Becomes.UNSCALED})
"""What goes on from a stored field."""


@attrs.frozen
class FieldPair:
    """A field of the new types with the stored one that it goes on from, or a stored one without a new one.

    Attributes:
        becomes: What becomes of it.
        path: Its path in the new types; of one that is dropped, in the stored ones.
        source: The path of the stored field; "": there is none.
        old: The stored type; None: there is none.
        new: The new type; None: it is dropped.
        is_nullable: Whether the new field may be null.
        was: What the stored field of its name is computed from, if that is known to be something else.
        now: What it is computed from then.
        instead: Of a new field, the stored one in the place of which it stands, if that is dropped; of an unclear one,
            the stored one in its place; of one that is dropped, the new one that may be it. Paths; "": none.
        is_known: Whether it is paired by what is said, or it is known what both sides compute.
        below: The fields of a struct, the elements of an array, keys and values of a map. Of one that is computed from
            something else, what would become of the stored one of its name; of one whose name several have, of each of
            these.
    """

    becomes: Becomes
    path: Path = attrs.field(converter=Path)
    source: Path = attrs.field(default=Path(""), converter=Path)
    old: SparkType | None = None
    new: SparkType | None = None
    is_nullable: bool = True
    was: str = ""
    now: str = ""
    instead: Path = attrs.field(default=Path(""), converter=Path)
    is_known: bool = False
    below: tuple[FieldPair, ...] = ()

    @property
    def types(self) -> tuple[SparkType, SparkType]:
        """The stored type and the new one, of what has both: keys, values, and fields that go on from stored ones."""
        assert self.old is not None  # noqa: S101 - as above
        assert self.new is not None  # noqa: S101 - as above
        return self.old, self.new

    @property
    def is_kept(self) -> bool:
        """Whether it goes on from a stored field."""
        return self.becomes in _KEPT or (self.becomes is Becomes.CONVERTED and bool(self.source))

    @property
    def is_same(self) -> bool:
        """Whether its bytes stay as they are."""
        if self.becomes is not Becomes.CARRIED:
            return False
        return all(one.is_same for one in self.below) and not self.is_moved

    @property
    def is_moved(self) -> bool:
        """Whether the fields of a struct that are kept have another order."""
        return self.old is not None and self.old.word == "struct" and self.order() != self.places()

    @property
    def is_said(self) -> bool:
        """Whether it goes on from a field of another name, or place, because that is said or known."""
        return self.is_known and self.source != self.path

    def order(self) -> tuple[str, ...]:
        """Return the stored names of the fields that are kept, in the order of the new struct."""
        return tuple(self.stored_name(one) for one in self.below if one.is_kept)

    def stored_name(self, below: FieldPair) -> str:
        """Return the stored name of one of its fields; a name may have dots in it."""
        return below.source.after(self.source)

    def places(self) -> tuple[str, ...]:
        """Return the same in the order of the stored struct."""
        kept = set(self.order())
        return () if self.old is None else tuple(name for name in self.old.names if name in kept)

    def all(self) -> Iterator[FieldPair]:
        """Yield it and all within it; not what would become of another one, of which nobody says that it is its own."""
        yield self
        if self.becomes not in {Becomes.OTHERWISE, Becomes.SEVERAL}:
            for one in self.below:
                yield from one.all()


@attrs.frozen
class Answers:
    """What types do not say of fields, by their new paths.

    Attributes:
        renames: The stored paths of fields.
        filled: The fields whose values are said.
        converted: The fields that a function makes.
    """

    renames: Mapping[str, str] = attrs.field(factory=dict)
    filled: Collection[str] = ()
    converted: Collection[str] = ()


@attrs.frozen
class Pairing:
    """How the fields of two types are paired.

    Attributes:
        answers: What is said.
        reading: Whether names say which stored field is which.
        origins: What is known of both sides, by the new path.
        known: The new fields of which it is known what both sides compute.
        accepts_otherwise: Whether a field goes on from the stored one of its name that is computed from something else.
    """

    answers: Answers = Answers()
    reading: Reading = BY_NAME
    origins: Mapping[str, Origin] = attrs.field(factory=dict)
    known: Collection[str] = ()
    accepts_otherwise: bool = False

    def pair(self, old: SparkType, new: SparkType, path: str, source: str | None = None) -> FieldPair:
        """Return what becomes of rows: `path` is what the new paths begin with, `source` the stored ones."""
        if path in self.answers.converted:
            return FieldPair(Becomes.CONVERTED, path, path, old, new)
        return self._kept(old, new, path, path if source is None else source)

    def _kept(self, old: SparkType, new: SparkType, path: str, source: str, **more: Any) -> FieldPair:
        """Return what becomes of a stored value that is kept."""
        if old.word == new.word and (old.fields or new.fields):
            if old.word == "struct":
                below = tuple(self._fields(old, new, path, source))
            else:
                steps = STEPS[old.word]
                below = tuple(
                    self._kept(was.type, now.type, path + step, source + step)
                    for step, was, now in zip(steps, old.fields, new.fields, strict=True)
                )
            return FieldPair(Becomes.CARRIED, path, source, old, new, below=below, **more)
        if (old.word, old.precision, old.scale) == (new.word, new.precision, new.scale):
            becomes = Becomes.CARRIED
        elif not holds_all(new, old):
            becomes = Becomes.UNCONVERTED
        else:
            becomes = Becomes.UNSCALED if self.reading.is_unscaled(path, old, new) else Becomes.WIDENED
        return FieldPair(becomes, path, source, old, new, **more)

    def _fields(self, old: SparkType, new: SparkType, path: str, source: str) -> Iterator[FieldPair]:
        """Yield the fields of two structs: the new ones in their order, then those that are dropped."""
        structs = _Structs(
            {f"{source}.{name}": field for name, field in zip(old.names, old.fields, strict=True)},
            {one for name in new.names if (one := self._source(f"{path}.{name}")) is not None},
            _several(old, new),
            {f"{path}.{name}" for name in self.reading.unclear(old, new, path)},
        )
        pairs = zip(new.names, new.fields, strict=True)
        found = [self._field(field, f"{path}.{name}", f"{source}.{name}", structs) for name, field in pairs]
        asked: set[str] = {one.source for one in found if one.becomes in {Becomes.OTHERWISE, Becomes.UNCLEAR}}
        of_several = {
            field.name for field, one in zip(new.fields, found, strict=True) if one.becomes is Becomes.SEVERAL
        }
        asked |= {at for at, field in structs.stored.items() if field.name in of_several}
        used = {one.source for one in found if one.is_kept} | asked
        gone = {at: field for at, field in structs.stored.items() if at not in used}
        places = [*structs.stored, *[""] * len(found)]
        yield from (self._in_place(one, place, structs.stored, gone) for one, place in zip(found, places, strict=False))
        for at, field in gone.items():
            alike = (one for one in found if one.becomes is Becomes.NEW and one.new == field.type)
            may_be = next((one.path for one in alike if self._may_be_renamed(one)), "")
            yield FieldPair(Becomes.DROPPED, at, at, field.type, instead=may_be)

    def _field(self, field: SparkField, path: str, same: str, structs: _Structs) -> FieldPair:
        """Return what becomes of a field of a struct; `same` is the stored path of its name."""
        more: dict[str, Any] = {"new": field.type, "is_nullable": field.is_nullable}
        stored = structs.stored
        if path in self.answers.filled:
            return FieldPair(Becomes.FILLED, path, is_known=True, **more)
        said = self._source(path)
        if said is not None and said not in stored:
            return FieldPair(Becomes.MISSING, path, said, is_known=True, **more)
        by_name = same if same in stored and same not in structs.taken else ""
        if path in self.answers.converted:
            of = said or by_name
            old = stored[of].type if of else None
            return FieldPair(Becomes.CONVERTED, path, of, old, is_known=said is not None, **more)
        if said is not None:
            return self._of(stored[said], field, path, said, is_known=True)
        otherwise = self._otherwise(path) if by_name else None
        if otherwise is not None:
            kept = self._of(stored[same], field, path, same)
            return FieldPair(
                Becomes.OTHERWISE, path, same, stored[same].type, was=otherwise.was, now=otherwise.now, is_known=True,
                below=(kept,), **more,
            )  # fmt: skip
        is_known = is_within(path, self.known)
        if field.name in structs.several and not is_known:
            alike = (at for at, of in stored.items() if of.name == field.name)
            below = tuple(self._of(stored[at], field, path, at) for at in alike)
            return FieldPair(Becomes.SEVERAL, path, below=below, **more)
        if path in structs.unclear and (by_name or not is_known):
            return FieldPair(Becomes.UNCLEAR, path, same, stored[same].type, **more)
        if by_name:
            return self._of(stored[same], field, path, same)
        return FieldPair(Becomes.NEW, path, is_known=is_known, **more)

    def _of(self, was: SparkField, now: SparkField, path: str, source: str, *, is_known: bool = False) -> FieldPair:
        return self._kept(was.type, now.type, path, source, is_nullable=now.is_nullable, is_known=is_known)

    def _source(self, path: str) -> str | None:
        """Return the path of the stored field that a field is said, or known, to go on from."""
        if path in self.answers.renames:
            return self.answers.renames[path]
        origin = self.origins.get(path)
        return origin.source or None if origin is not None else None

    def _otherwise(self, path: str) -> Origin | None:
        """Return what is known of a field that is computed from something else than the stored one of its name."""
        origin = self.origins.get(path)
        return None if origin is None or origin.source or self.accepts_otherwise else origin

    def _may_be_renamed(self, one: FieldPair) -> bool:
        return not one.is_known and not self.reading.is_buffer(one.path)

    def _in_place(
        self, one: FieldPair, place: str, stored: Mapping[str, SparkField], gone: Collection[str]
    ) -> FieldPair:
        """Return a field with the stored one in its place, where Spark reads that, and nobody says what is right."""
        if one.becomes is Becomes.UNCLEAR:
            return attrs.evolve(one, instead=place)
        is_open = one.becomes is Becomes.NEW and self._may_be_renamed(one)
        if not is_open or place not in gone or one.new is None or stored[place].type.describe() != one.new.describe():
            return one
        return attrs.evolve(one, instead=place)


@attrs.frozen
class _Structs:
    """Two structs.

    Attributes:
        stored: The stored fields, by path.
        taken: The stored ones from which fields are said, or known, to go on.
        several: The names that several fields have, on either side, and not as many on both.
        unclear: The new fields of which names and places say different things.
    """

    stored: Mapping[str, SparkField]
    taken: Collection[str]
    several: Collection[str]
    unclear: Collection[str]


def _several(old: SparkType, new: SparkType) -> set[str]:
    """Return the names that several fields have, and not the same number of fields on both sides."""
    was, now = (Counter(field.name for field in of.fields) for of in (old, new))
    return {name for name in now if was[name] and was[name] != now[name]}
