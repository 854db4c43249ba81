"""Compatibility results: what a new serializer answers about an old snapshot, with a finding for every difference.

Source: compatibility rules, sections 1 to 3.
"""

from __future__ import annotations

import enum
import re
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import attrs

from .displayed import Displayed
from .errors import DeclarationError, at_step
from .ways_out import WayOut, ways_out
from .wording import repr_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Self

    from .serializer import TypeDeserializer, TypeSerializer, V

T = TypeVar("T")


class Decision(enum.StrEnum):
    """What to do next, in one of three words; every report begins with it."""

    START = "start"
    MIGRATE = "migrate"
    REFUSE = "refuse"


class Verdict(enum.IntEnum):
    """The five verdicts, best to worst (rules, section 1)."""

    COMPATIBLE = 0
    COMPATIBLE_AFTER_RECONFIGURATION = 1
    REQUIRES_MIGRATION = 2
    REQUIRES_MIGRATION_WITH_FALLBACK = 3
    INCOMPATIBLE = 4

    @property
    def label(self) -> str:
        """The name, as reports show it."""
        return self.name.lower()

    @property
    def decision(self) -> Decision:
        """What to do on this verdict."""
        if self <= Verdict.COMPATIBLE_AFTER_RECONFIGURATION:
            return Decision.START
        return Decision.REFUSE if self is Verdict.INCOMPATIBLE else Decision.MIGRATE


class Flag(enum.StrEnum):
    """A remark that accompanies a verdict; policies may turn any of them into an error (rules, section 1)."""

    LOSSY = "lossy"
    DROPS = "drops"
    POSSIBLE_RENAME = "possible_rename"
    MAY_FAIL_PER_VALUE = "may_fail_per_value"
    COLLISION_CHECK = "collision_check"
    UNVERIFIED = "unverified"
    PARTIAL = "partial"
    STALE = "stale"
    UNVERIFIED_AFTER = "unverified_after"

    def of(self, *details: str) -> Flagged:
        """Return the flag with what it is about: what is dropped, or the old and the new name of a rename."""
        return Flagged(self, details)


_ROOT = re.compile(r"\$(?:\[\]|\{\}|<key>|\?)*")
_STEPS = tuple(".[{<?(|")
"""What a further step of a path begins with."""


class Path(str):
    """Where something is in a value, from the root `$`: `$.lines[].price?`; or what else it is about: `$<filters>`.

    A path is the one text that code takes apart, and it is done here (rules, section 3).

    Attributes:
        words: What else it is about, such as `filters`; "" of a place in a value.
        subject: The name of the state or the function that is meant; by default the words.
    """

    __slots__ = ("subject", "words")
    words: str
    subject: str

    def __new__(cls, path: str, words: str = "", subject: str = "") -> Self:
        """Return a text as a path; a path is returned as it is."""
        if isinstance(path, cls):
            return path
        made = super().__new__(cls, path)
        made.words, made.subject = words, subject or words
        return made

    @classmethod
    def naming(cls, words: str, subject: str = "") -> Path:
        """Return the path of what is no place in a value."""
        return cls(f"$<{words}>", words, subject)

    @property
    def root(self) -> str:
        """The containers around the first field: `${}` for the values of a map; "" if there are none."""
        match = _ROOT.match(self)
        return "" if match is None or match[0] == "$" else match[0]

    @property
    def below_root(self) -> str:
        """The path without these containers: equal for equal fields of a value, and of the elements of a list."""
        return f"${self[len(self.root) :]}" if self.root else str(self)

    def below(self, step: str) -> Path:
        """Return the path as seen from a parent that reaches this part by `step`."""
        return Path("$" + step + self.removeprefix("$"))

    def is_within(self, around: str) -> bool:
        """Whether it is another path, or leads into it: `$.page` and `$.page.name`, but not `$.pages`."""
        return self == around or self.startswith(tuple(around + step for step in _STEPS))

    def then(self, name: str) -> Path:
        """Return the path of a field within it."""
        return Path(f"{self}.{name}")

    def after(self, around: str) -> str:
        """Return the steps that lead here from a path around it; the whole path if that is not around it."""
        return self.removeprefix(f"{around}.")

    @property
    def first(self) -> str:
        """The first step: in an entry of a Spark query `key`, `value`, the side of a join, or a variable."""
        return self.partition(".")[0]

    @property
    def last(self) -> str:
        """The name of the field, which is the last step."""
        return self.rpartition(".")[2]

    @property
    def is_of_elements(self) -> bool:
        """Whether it leads to all elements of a list, or all values of a map, and not to a field."""
        return self.endswith(("]", "}"))

    @property
    def is_within_map_key(self) -> bool:
        """Whether it leads into the keys of a map in a value of Spark."""
        return "{key}" in self

    def beside(self, name: str, other: str) -> str:
        """Return the path of another field of the same record; "" if this is not that of a field `name`."""
        return self.removesuffix(name) + other if self.endswith(f".{name}") else ""


class Nulls(enum.Enum):
    """What a stored type says of nulls that would fail."""

    DECLARED = enum.auto()
    UNTOLD = enum.auto()


_BETWEEN = "->"


def _paths(given: Iterable[str]) -> tuple[Path, ...]:
    return tuple(map(Path, given))


@attrs.frozen
class Flagged:
    """A flag of a finding, with what it is about.

    Attributes:
        flag: The flag.
        details: The path or name of what is dropped; the old and the new name of what may be renamed; or nothing.
        nulls: Where only a stored null would fail, what the stored type says of nulls.
    """

    flag: Flag
    details: tuple[Path, ...] = attrs.field(default=(), converter=_paths)
    nulls: Nulls | None = attrs.field(default=None, eq=False, repr=False)

    @classmethod
    def parsed(cls, text: str) -> Flagged:
        """Return the flag of a text, such as `drops:$.name`.

        Raises:
            DeclarationError: There is no such flag.
        """
        name, colon, details = text.partition(":")
        try:
            flag = Flag(name)
        except ValueError:
            raise DeclarationError(f"{text!r} is not a flag", advice=f"the flags are {', '.join(Flag)}") from None
        return cls(flag, tuple(details.split(_BETWEEN)) if colon else ())

    def __str__(self) -> str:
        return f"{self.flag}:{_BETWEEN.join(self.details)}" if self.details else str(self.flag)


def _flagged(given: Iterable[Flagged | str]) -> tuple[Flagged, ...]:
    return tuple(
        one if isinstance(one, Flagged) else Flagged(one) if isinstance(one, Flag) else Flagged.parsed(one)
        for one in given
    )


@attrs.frozen
class Finding:
    """One difference between the stored type and the new one (rule COMP-6).

    Attributes:
        path: Where it is, from the root `$` of the state's value: `$.lines[].price?` (rules, section 3).
        rule: Identifier of the rule that decided, as in the compatibility rules.
        verdict: The verdict that follows from this difference alone.
        old: The stored type, or "" where there is none.
        new: The new type, or "" where there is none.
        reason: One sentence.
        ways_out: What a person can do; at least one unless the finding only informs. A text is one in words alone.
        flags: Remarks, some with a detail; each a `Flag`, a `Flagged` or its text, such as `drops:$.name`.
        forbidden: The flags, without detail, that the caller's policy turns into an error. The verdict does not depend
            on them.
    """

    path: Path = attrs.field(converter=Path)
    rule: str
    verdict: Verdict
    old: str
    new: str
    reason: str
    ways_out: tuple[WayOut, ...] = attrs.field(default=(), converter=ways_out)
    flags: tuple[Flagged, ...] = attrs.field(default=(), converter=_flagged)
    forbidden: tuple[str, ...] = ()

    def has(self, flag: Flag) -> bool:
        """Whether the finding has a flag, with or without a detail."""
        return any(one.flag is flag for one in self.flags)

    @property
    def nulls(self) -> Nulls | None:
        """Where only a stored null would fail, what the stored type says of nulls."""
        return next((one.nulls for one in self.flags if one.nulls is not None), None)

    def __repr__(self) -> str:
        return repr_of(self, f"{self.verdict.label}: {self.brief}")

    @property
    def brief(self) -> str:
        """The path, the reason and the rule."""
        return f"{self.path} {self.reason} [{self.rule}]"

    def below(self, step: str) -> Finding:
        """Return the finding as seen from a parent that reaches this part by `step`."""
        flags = self.flags
        if self.has(Flag.DROPS):
            flags = tuple(
                Flagged(one.flag, tuple(path.below(step) for path in one.details)) if one.flag is Flag.DROPS else one
                for one in flags
            )
        return Finding(
            self.path.below(step), self.rule, self.verdict, self.old, self.new, self.reason, self.ways_out, flags,
            self.forbidden,
        )  # fmt: skip


@attrs.frozen
class Obstacle:
    """Why values cannot be rewritten, although they may stay as they are.

    Attributes:
        reason: What prevents it.
        lifted_by: The name that the caller must trust to remove the obstacle; "" where a fallback is the only way.
        is_of_writer: Whether the new serializer cannot write the values, whatever reads them (REC-14); otherwise the
            serializer that the old snapshot restores cannot read them (READ-1).
    """

    reason: str
    lifted_by: str = ""
    is_of_writer: bool = False


def _require_findings(_: Any, __: Any, findings: tuple[Finding, ...]) -> None:
    for one in findings:
        if not isinstance(one, Finding):
            raise DeclarationError(
                f"a compatibility result is given findings, and {type(one).__qualname__} is none",
                advice="name other arguments, such as requires_migration(fallback=OldSerializer())",
            )


@attrs.frozen
class CompatibilityResult(Displayed, Generic[T]):
    """What a new serializer answers about the snapshot of an old one. Made by the named constructors.

    Attributes:
        verdict: One of the five.
        findings: Every difference, the outermost first.
        fallback: Reads the old bytes where nothing else can (only with `requires_migration`).
        conversion: Converts what the old reader returns to what the new serializer writes; None: no change is needed.
            Applies with any verdict if something around this value migrates: the bytes of a renamed field stay valid,
            but a generic reader still returns it under its old name.
        children: The results of the matched parts of a composite, in the order of the bytes. Map state and list state
            are migrated by them, because their entries hold the parts alone.
        obstacles: What prevents values from being rewritten where something around them is rewritten; from all parts.
    """

    verdict: Verdict
    findings: tuple[Finding, ...] = attrs.field(default=(), validator=_require_findings)
    fallback: TypeDeserializer[Any] | None = None
    conversion: Callable[[Any], Any] | None = attrs.field(default=None, eq=False)
    _reconfigured: TypeSerializer[T] | None = None
    children: tuple[Child, ...] = attrs.field(default=(), eq=False, repr=False)
    obstacles: tuple[Obstacle, ...] = attrs.field(default=(), repr=False)

    @classmethod
    def compatible(cls, *findings: Finding) -> CompatibilityResult[V]:
        """Return the result that the stored bytes stay valid for the new serializer as it is."""
        return CompatibilityResult(Verdict.COMPATIBLE, findings) if findings else _COMPATIBLE

    @classmethod
    def compatible_after_reconfiguration(
        cls,
        serializer: TypeSerializer[V],
        *findings: Finding,
        conversion: Callable[[Any], Any] | None = None,
    ) -> CompatibilityResult[V]:
        """Return the result that the stored bytes stay valid for `serializer`, a reconfigured copy of the new one."""
        return CompatibilityResult(
            Verdict.COMPATIBLE_AFTER_RECONFIGURATION, findings, conversion=conversion, reconfigured=serializer
        )

    @classmethod
    def requires_migration(
        cls,
        *findings: Finding,
        fallback: TypeDeserializer[Any] | None = None,
        conversion: Callable[[Any], Any] | None = None,
    ) -> CompatibilityResult[V]:
        """Return the result that the bytes must be rewritten.

        A `fallback` reads them if the old serializer cannot be restored.
        """
        verdict = Verdict.REQUIRES_MIGRATION if fallback is None else Verdict.REQUIRES_MIGRATION_WITH_FALLBACK
        return CompatibilityResult(verdict, findings, fallback=fallback, conversion=conversion)

    @classmethod
    def incompatible(cls, *findings: Finding) -> CompatibilityResult[V]:
        """Return the result that no automatic conversion is defined."""
        return CompatibilityResult(Verdict.INCOMPATIBLE, findings)

    def __repr__(self) -> str:
        return repr_of(self, self.verdict.label, *(finding.brief for finding in self.findings))

    def preceded_by(self, finding: Finding) -> CompatibilityResult[T]:
        """Return the result with one more finding in front, which may make the verdict worse."""
        return CompatibilityResult(
            max(self.verdict, finding.verdict), (finding, *self.findings), self.fallback, self.conversion,
            self._reconfigured, self.children, self.obstacles,
        )  # fmt: skip

    def is_compatible_as_is(self) -> bool:
        """Whether the verdict is `compatible`."""
        return self.verdict is Verdict.COMPATIBLE

    def is_compatible_after_reconfiguration(self) -> bool:
        """Whether the verdict is `compatible_after_reconfiguration`."""
        return self.verdict is Verdict.COMPATIBLE_AFTER_RECONFIGURATION

    def is_migration_required(self) -> bool:
        """Whether the bytes must be rewritten, with or without a fallback."""
        return self.verdict.decision is Decision.MIGRATE

    def is_incompatible(self) -> bool:
        """Whether the verdict is `incompatible`."""
        return self.verdict is Verdict.INCOMPATIBLE

    @property
    def reconfigured_serializer(self) -> TypeSerializer[T]:
        """The copy to use instead of the new serializer.

        Raises:
            ValueError: The verdict is not `compatible_after_reconfiguration` (rule V-2).
        """
        if self._reconfigured is None:
            raise ValueError(f"no reconfigured serializer comes with the verdict {self.verdict.label}")
        return self._reconfigured

    @property
    def flags(self) -> tuple[tuple[str, str], ...]:
        """All flags as (path, flag in words)."""
        return tuple((finding.path, str(flag)) for finding in self.findings for flag in finding.flags)


_COMPATIBLE: CompatibilityResult[Any] = CompatibilityResult(Verdict.COMPATIBLE)
"""The shared result of the usual case: compatible, without findings."""


@attrs.frozen
class Child:
    """One matched part of a composite: the path step to it, its new serializer, and its own result.

    Attributes:
        step: The path step: `.name`, `[]`, `{}`, `<key>`, `?`, `(i)`.
        serializer: The new serializer of the part.
        result: What that serializer answers about the old snapshot of the part.
        restore: Restores the old serializer of the part; called only if another part has a fallback.
    """

    step: str
    serializer: TypeSerializer[Any]
    result: CompatibilityResult[Any]
    restore: Callable[[], TypeDeserializer[Any]]

    @property
    def effective_serializer(self) -> TypeSerializer[Any]:
        """The reconfigured copy where there is one, else the new serializer."""
        result = self.result
        return result.reconfigured_serializer if result.is_compatible_after_reconfiguration() else self.serializer

    def reader(self) -> TypeDeserializer[Any]:
        """Return the reader of this part's old bytes: its fallback, else the restored serializer."""
        fallback = self.result.fallback
        with at_step(self.step):
            return self.restore() if fallback is None else made_reader(fallback)


@attrs.define
class _DeferredReader:
    """A reader of an old composite that is built on first use, so that a check never restores anything (READ-7)."""

    _make: Callable[[], TypeDeserializer[Any]]
    _made: TypeDeserializer[Any] | None = None

    def made(self) -> TypeDeserializer[Any]:
        """Return the reader, built on the first call; an error names the part that nothing can read."""
        if self._made is None:
            self._made = self._make()
        return self._made

    def deserialize(self, source: Any) -> Any:
        return self.made().deserialize(source)


def made_reader(fallback: TypeDeserializer[Any]) -> TypeDeserializer[Any]:
    """Return a fallback that is ready to read.

    The fallback of a composite consists of the fallbacks of some parts and the restored serializers of the others, one
    of which may be unavailable. Call this before a run has to read bytes, so that the check fails and not the run
    (READ-4).

    Raises:
        OldReaderUnavailable: Nothing reads a part.
    """
    return fallback.made() if isinstance(fallback, _DeferredReader) else fallback


def compose(
    outer: CompatibilityResult[T],
    children: Iterable[Child],
    *,
    rebuild: Callable[[list[TypeSerializer[Any]]], TypeSerializer[T]],
    convert: Callable[[list[Callable[[Any], Any] | None]], Callable[[Any], Any] | None],
    read_with: Callable[[list[Any]], TypeDeserializer[Any]],
) -> CompatibilityResult[T]:
    """Combine a composite's own result with those of its matched parts: the worst verdict, all findings.

    Rules COMP-1, COMP-2 and COMP-4.

    Args:
        outer: The composite's own result: names, arity, kind, configuration. Its findings come first.
        children: The parts that could be paired.
        rebuild: Makes the reconfigured composite from the effective serializers of the parts, including whatever
            reconfiguration `outer` requires.
        convert: Makes the composite's conversion from those of the parts (None: no change is needed).
        read_with: Makes an old reader of the whole from old readers of the parts; used when a part has a fallback.

    Returns:
        One result for the whole.
    """
    parts = tuple(children)
    findings = outer.findings + tuple(finding.below(part.step) for part in parts for finding in part.result.findings)
    verdict = max([outer.verdict, *(part.result.verdict for part in parts)])
    if verdict is Verdict.INCOMPATIBLE:
        return CompatibilityResult(verdict, findings, children=parts)
    conversion = convert([part.result.conversion for part in parts])
    obstacles = outer.obstacles + tuple(obstacle for part in parts for obstacle in part.result.obstacles)
    if verdict is Verdict.COMPATIBLE:
        return CompatibilityResult(verdict, findings, conversion=conversion, children=parts, obstacles=obstacles)
    if verdict is Verdict.COMPATIBLE_AFTER_RECONFIGURATION:
        rebuilt = rebuild([part.effective_serializer for part in parts])
        result: CompatibilityResult[T] = CompatibilityResult(
            verdict, findings, conversion=conversion, reconfigured=rebuilt, children=parts
        )
        return attrs.evolve(result, obstacles=obstacles)
    fallback = outer.fallback
    if fallback is None and verdict is Verdict.REQUIRES_MIGRATION_WITH_FALLBACK:
        fallback = _DeferredReader(lambda: read_with([part.reader() for part in parts]))
    result = CompatibilityResult.requires_migration(*findings, fallback=fallback, conversion=conversion)
    return attrs.evolve(result, children=parts, obstacles=obstacles)


def worst(results: Sequence[Verdict]) -> Verdict:
    """Return the worst of several verdicts; `compatible` for none."""
    return max(results, default=Verdict.COMPATIBLE)
