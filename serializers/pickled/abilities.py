"""What is registered for pickles: the moves from them and to them, and JSON.

Moves from pickles to described types, and back: FAM-1 and FAM-3.

From a pickle, the value is opened by a caller that trusts its class: `opened`. To a pickle, the stored value first
becomes an object of the described class, by the rules of that class. Source: compatibility rules, section 6.

JSON forms of pickled values: unopened, or with the content of the pickle where their class is trusted.

    $pickle  class that the state declares, and the pickle in hexadecimal
    $object  class, and attributes by name, or arguments by position, or both

No user class is instantiated, so no user module is imported and no user code runs. Code within a pickle never runs.
"""

from __future__ import annotations

import math
from collections import deque
from typing import TYPE_CHECKING, Any

import attrs

from ..compatibility import CompatibilityResult, Finding, Flag, Obstacle, Verdict, worst
from ..enums.serializers import EnumSerializer
from ..errors import DeclarationError, StateShiftError, ValueNotConvertible
from ..hints import serializer_for
from ..primitives.numeric import decimal_of
from ..records.recursive import RecordReference
from ..records.serializers import DescribedRecordSerializer
from ..serializer import CONVERTER, KEEP_OLD_TYPE, TypeSerializer, across_families, incompatible, unrelated
from ..views import DataInputView, DataOutputView
from ..ways_out import Option, Told, WayOut, by_migration
from ..wording import one
from .conversion import FromPickle, parts_within, pickle_names, records_within, sources_of
from .rules import obstacles
from .serializers import PickledSnapshot, PickleSerializer
from .trust import trusted_names
from .unpickler import Unmade, unmade
from .values import Unfolding, shape_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from ..json_forms import JsonFormTable
    from ..snapshot import TypeSerializerConfigSnapshot
    from .values import PickledValue, Shape

_BY_KIND = {
    "array": ("builtins.list",),
    "boolean": ("builtins.bool",),
    "bytes": ("builtins.bytes",),
    "decimal": ("decimal.Decimal",),
    "list": ("builtins.list",),
    "map": ("builtins.dict", "collections.OrderedDict", "collections.defaultdict", "collections.Counter"),
    "number": ("builtins.int", "builtins.float"),
    "set": ("builtins.set", "builtins.frozenset"),
    "string": ("builtins.str",),
    "temporal": ("datetime.datetime", "datetime.date", "datetime.time"),
    "tuple": ("builtins.tuple",),
}
"""Kind of a described type -> the classes whose objects it writes."""


def from_pickle(new: TypeSerializer[Any], old: PickledSnapshot) -> CompatibilityResult[Any] | None:
    """Judge stored pickles for a described type (FAM-1); None if the new type is a pickle, too."""
    if new.snapshot_configuration().kind == "pickle":
        return None
    across = across_families(new, old, KEEP_OLD_TYPE)
    if across is not None:
        return across
    found = old.fingerprint
    own = pickle_names(new)
    name = next((becomes for was, becomes in old.former if was == found.name), found.name)
    if not own:
        plain = _BY_KIND.get(new.snapshot_configuration().kind, ())
        if name not in plain:
            return incompatible(new, old, "FAM-2", f"a pickled {found.name} cannot become {one(new.describe())}")
    needs = obstacles(old)
    trust = (Told.of(Option.TRUST, need.lifted_by) for need in needs if need.lifted_by)
    findings = [
        Finding(
            "$", "FAM-1", Verdict.REQUIRES_MIGRATION, old.describe(), new.describe(),
            "each pickle is opened, and its value is written as the described type; its fields are checked then",
            (by_migration("", *trust), KEEP_OLD_TYPE), (Flag.MAY_FAIL_PER_VALUE,),
        )
    ]  # fmt: skip
    if own and name not in own:
        reason = f"the class {found.name} is not in the job"
        ways = (f"if it has the same fields: @record(aliases=[{found.name!r}])", CONVERTER)
        findings.append(Finding("$", "PKL-6", Verdict.REQUIRES_MIGRATION, found.name, own[0], reason, ways))
        needs = (*needs, Obstacle(f"the class {found.name} is not in the job"))
    shapes = {shape.name: shape for shape in found.classes}
    findings += _field_findings(new, shapes, "$", records_within(new))
    verdict = worst([finding.verdict for finding in findings])
    conversion = None if verdict is Verdict.INCOMPATIBLE else FromPickle.into(new, found, old.former)
    return CompatibilityResult(verdict, tuple(findings), conversion=conversion, obstacles=needs)


def _field_findings(
    new: TypeSerializer[Any], shapes: Mapping[str, Shape], path: str, left: dict[str, DescribedRecordSerializer[Any]]
) -> Iterator[Finding]:
    """Yield the findings REC-2 to REC-4 and REC-6 for pickled classes whose fields are known, of any depth."""
    if isinstance(new, DescribedRecordSerializer | RecordReference):
        if new.name not in left:
            return  # each record is reported once, at its first path
        new = left.pop(new.name)
        shape = next((shapes[name] for name in pickle_names(new) if name in shapes), None)
        if shape is not None and shape.fields:
            yield from _one_record(new, shape, path)
    if isinstance(new, EnumSerializer) and new.enum_class is not None:
        yield from _members_gone(new.enum_class, new, shapes, path)
    for step, part in parts_within(new):
        yield from _field_findings(part, shapes, path + step, left)


def _members_gone(cls: type, new: TypeSerializer[Any], shapes: Mapping[str, Shape], path: str) -> Iterator[Finding]:
    """Check ENUM-4 for pickled enums: a pickle holds a member's value, which must still be that member's."""
    shape = next((shapes[name] for name in pickle_names(new) if name in shapes), None)
    gone = [member for member in shape.fields if member not in shape_of(cls).fields] if shape is not None else []
    if gone:
        reason = f"the member {gone[0]} is gone or has another value, and pickles identify members by their value"
        ways = ("keep the member and its value until the state is moved", CONVERTER)
        yield Finding(path, "ENUM-4", Verdict.INCOMPATIBLE, str(shape), str(shape_of(cls)), reason, ways)


def _one_record(new: DescribedRecordSerializer[Any], shape: Shape, path: str) -> Iterator[Finding]:
    sources = sources_of(new.fields, shape.fields)
    gone = [name for name in shape.fields if name not in sources.values()]
    added = [field for field in new.fields if field.name not in sources]
    hint = f"; was it called {gone[0]!r}?" if len(gone) == len(added) == 1 else ""
    for field in added:
        where, kind = f"{path}.{field.name}", field.describe()
        if field.default is None:
            ways: tuple[WayOut | str, ...] = (
                "give it a default",
                f"declare its former name: Field(aliases=[…]) on {field.name}",
            )
            reason = f"the field is new and has no default; pickled objects have no value for it{hint}"
            yield Finding(where, "REC-3", Verdict.INCOMPATIBLE, "", kind, reason, ways)
            continue
        reason = f"the field is new; pickled objects get {field.default.title} {field.default.describe()}"
        ways = (by_migration("the default is filled in"),)
        yield Finding(where, "REC-2", Verdict.REQUIRES_MIGRATION, "", kind, reason, ways)
    for name in gone:
        where, flags = f"{path}.{name}", [Flag.DROPS.of(f"{path}.{name}")]
        if hint:
            flags.append(Flag.POSSIBLE_RENAME.of(name, added[0].name))
        reason = "pickled objects have the attribute, and the record has no field for it; its value is dropped"
        ways = (by_migration("the value is dropped"), f"declare a field {name!r}")
        yield Finding(where, "REC-4", Verdict.REQUIRES_MIGRATION, "(pickled)", "", reason, ways, tuple(flags))
    for field in new.fields:
        was = sources.get(field.name)
        if was is not None and was not in {field.name, field.attribute}:
            reason = "renamed, according to the alias"
            yield Finding(
                f"{path}.{field.name}", "REC-6", Verdict.REQUIRES_MIGRATION, was, field.name, reason,
                (by_migration("the value moves to its new name"),),
            )  # fmt: skip


def to_pickle(new: PickleSerializer[Any], old: TypeSerializerConfigSnapshot[Any]) -> CompatibilityResult[Any]:
    """Judge values of a described type for a pickle serializer (FAM-3)."""
    cls: Any = new.python_class
    try:
        described = serializer_for(cls)
    except DeclarationError:
        return unrelated(new, old)
    if isinstance(described, PickleSerializer):
        return unrelated(new, old)
    result = described.ensure_compatibility(old)
    if result.is_incompatible():
        return CompatibilityResult.incompatible(*result.findings)
    finding = Finding(
        "$", "FAM-3", Verdict.REQUIRES_MIGRATION, old.describe(), new.describe(),
        "each value becomes a pickle, whose content cannot be checked afterwards",
        (by_migration("each value is pickled"), f"keep it described: {described.describe()}"),
        (Flag.UNVERIFIED_AFTER,),
    )  # fmt: skip
    pickled: CompatibilityResult[Any] = CompatibilityResult.requires_migration(
        finding, *result.findings, fallback=result.fallback, conversion=ToPickle(described, result.conversion)
    )
    return attrs.evolve(pickled, obstacles=result.obstacles)


@attrs.frozen
class ToPickle:
    """Converts a stored value of a described type to an object of the class, to be pickled."""

    described: TypeSerializer[Any]
    conversion: Callable[[Any], Any] | None

    def __call__(self, value: Any) -> Any:
        target = DataOutputView()
        self.described.serialize(value if self.conversion is None else self.conversion(value), target)
        return self.described.deserialize(DataInputView(target.getvalue()))


_DEEPEST = 150  # levels of the value; the JSON writer allows a thousand levels of JSON


def tagged_pickle(value: PickledValue) -> dict[str, Any]:
    """Return a pickled value as JSON; opened where the enclosing `with trusting(…)` trusts its class.

    Raises:
        UntrustedCode: The class is trusted, and the pickle names something else that is not.
        CorruptSavepoint: The data is not a pickle.
        StateShiftError: JSON cannot represent the value: it contains itself, or is far larger as a tree.
    """
    trusted = trusted_names() or frozenset()
    if value.by_value or value.class_name not in trusted:
        return {"$pickle": {"class": value.class_name, "bytes": value.data.hex()}}
    opened = value.open({name: unmade(name) for name in trusted})
    try:
        tagged = _Tree(Unfolding.of_pickle(len(value.data))).tagged(opened)
    except (RecursionError, ValueNotConvertible) as error:
        raise StateShiftError(
            f"a pickled {value.class_name} contains itself, is nested too deep, or shares its parts so often that it"
            " is far larger as JSON than it is stored",
            advice=WayOut("do not open it: leave out", (Told(Option.TRUST),)),
        ) from error
    return {"$pickle": {"class": value.class_name, "value": tagged}}


@attrs.frozen
class _Tree:
    """Converts one opened pickle to JSON.

    Attributes:
        unfolding: Counts the parts of the value: JSON repeats a shared part each time.
    """

    unfolding: Unfolding

    def tagged(self, value: Any, depth: int = 0) -> Any:
        self.unfolding.count(value)
        if depth > _DEEPEST:
            raise RecursionError
        match value:
            case None | bool() | str():
                return value
            case int():
                return value if abs(value) < 1 << 63 else {"$bigint": format(decimal_of(value), "f")}
            case float():
                return value if math.isfinite(value) else {"$double": repr(value)}
            case bytes():
                return {"$bytes": value.hex()}
            case Unmade():
                return {"$object": self._object(value, depth + 1)}
            case list() | deque():
                return self._all(value, depth)
            case tuple():
                return {"$tuple": self._all(value, depth)}
            case set() | frozenset():
                return {"$set": sorted(self._all(value, depth), key=repr)}
            case dict():
                return {"$map": [self._all(pair, depth) for pair in value.items()]}
            case _:
                return {"$opaque": repr(value)}

    def _all(self, values: Iterable[Any], depth: int) -> list[Any]:
        return [self.tagged(value, depth + 1) for value in values]

    def _object(self, value: Unmade, depth: int) -> dict[str, Any]:
        parts = value.state if isinstance(value.state, tuple) else (value.state,)
        attributes = {
            name: self.tagged(item, depth) for part in parts if isinstance(part, dict) for name, item in part.items()
        }
        arguments = [*value.arguments, *(part for part in parts if part is not None and not isinstance(part, dict))]
        told: dict[str, Any] = {"class": str(getattr(type(value), "stored_name", ""))}
        told |= {"arguments": self._all(arguments, depth)} if arguments else {}
        return told | ({"attributes": attributes} if attributes else {})


JSON_FORMS: JsonFormTable = {PickledSnapshot: lambda _: tagged_pickle}
