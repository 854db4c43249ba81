"""Pieces of a report: from plain data to HTML.

`rendering.piece(name, …)` calls a macro; the functions here say what the data of each is, and prepare findings and
types. A page is a list of pieces (`rendering.page`), and so is what a notebook shows (`rendering.fragment`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from ...serializers.compatibility import Decision
from ...serializers.ways_out import Does, WayOut, in_words
from ..likeness import as_there, likeness
from ..rules import rule_book
from ..type_tree import Mark
from .rendering import piece

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Sequence

    from markupsafe import Markup

    from ...serializers.compatibility import Finding
    from ..explain import Words
    from ..type_tree import TypeNode

NOTE = "note"
NO_WAY_BACK = "no way back"
_WORST = 3
_REFUSE, _MIGRATE = str(Decision.REFUSE), str(Decision.MIGRATE)
_ORDER = (_REFUSE, _MIGRATE, NOTE)
_WORST_FIRST = (
    *((_REFUSE, True), (_REFUSE, False), (_MIGRATE, True)),
    *((NO_WAY_BACK, True), (NO_WAY_BACK, False), (_MIGRATE, False), (NOTE, True)),
)
"""Words of findings, each with whether these have flags."""


@attrs.frozen
class Commands:
    """Commands to copy, with the options that were given.

    Attributes:
        again: The command that was run, to which a way out adds options; "": it is not known.
        migrate: The migration; "": it is not known.
    """

    again: str = ""
    migrate: str = ""

    def of(self, way: WayOut) -> tuple[str, ...]:
        """Return what a way out comes down to on the command line; empty where it is advice alone."""
        told = [str(one) for one in way.told if one.is_whole]
        before = way.command or (self.migrate if way.does is Does.MIGRATE else self.again)
        if not told or not before or len(told) < len(way.told):
            return (way.command,) if way.command and not way.told else ()
        if way.is_choice:
            return tuple(f"{before} {one}" for one in told)
        return (f"{before} {' '.join(told)}",)


@attrs.frozen
class Way:
    """A way out: what it is, and commands to copy."""

    words: str
    commands: tuple[str, ...] = ()


def word_of(finding: Finding) -> str:
    """Return what a finding comes down to: refuse, migrate, or note."""
    decision = Decision.REFUSE if finding.forbidden else finding.verdict.decision
    return NOTE if decision is Decision.START else str(decision)


@attrs.frozen
class Row:
    """A finding as it is shown.

    Attributes:
        of: The finding.
        commands: What can be run next; None: no ways out are shown.
        word: refuse, migrate, note, or `NO_WAY_BACK`.
        is_told: Whether place and types stand beside it already.
        paths: Of a remark that is made at several places: where it is.
    """

    of: Finding
    commands: Commands | None = Commands()
    word: str = attrs.field(default=attrs.Factory(lambda self: word_of(self.of), takes_self=True), kw_only=True)
    is_told: bool = attrs.field(default=False, kw_only=True)
    paths: tuple[str, ...] = attrs.field(default=(), kw_only=True)

    @property
    def flags(self) -> tuple[str, ...]:
        """Remarks."""
        return tuple(f"{one}{' (forbidden)' * (one.flag in self.of.forbidden)}" for one in self.of.flags)

    @property
    def ways(self) -> tuple[Way, ...]:
        """Ways out; of a remark that is made at several places none."""
        if self.commands is None or len(self.paths) > 1:
            return ()
        return tuple(_way(one, self.commands) for one in self.of.ways_out)

    @property
    def has_rule(self) -> bool:
        """Whether the rule book has the rule."""
        return self.of.rule in rule_book()


def _way(way: WayOut, commands: Commands) -> Way:
    found = commands.of(way)
    return Way(in_words(way), found) if found else Way(str(way))


@attrs.frozen
class Node:
    """A place of a type tree as it is shown.

    Attributes:
        of: The place.
        children: The places within it, those of which the same is told as one.
        rows: What is found on it.
        others: The names of other fields of the same record of which the same is to be told.
    """

    of: TypeNode
    children: tuple[Node, ...]
    rows: tuple[Row, ...]
    others: tuple[str, ...] = ()

    @classmethod
    def made(cls, node: TypeNode, commands: Commands | None = Commands()) -> Node:
        """Return a node of `type_tree`."""
        told = () if node.mark is Mark.SAME else ((node.old, node.new), (node.was, node.name))
        rows = (Row(one, commands, is_told=(one.old, one.new) in told) for one in node.findings)
        return cls(node, _together(cls.made(child, commands) for child in node.children), tuple(rows))

    @property
    def likeness(self) -> tuple[object, ...]:
        """What is equal for trees of which the same is shown, wherever they stand."""
        of = self.of
        mine = () if not of.name else (of.name, self.others, of.old, of.new)
        return (*mine, of.mark, tuple(child.likeness for child in self.children))

    @property
    def _told(self) -> tuple[object, ...]:
        """What is shown of it beside its name."""
        rows = ((row.word, row.of.rule, row.of.reason, row.flags, row.ways, row.is_told) for row in self.rows)
        return (self.of.mark, self.of.old, self.of.new, *rows)


def _together(nodes: Iterable[Node]) -> tuple[Node, ...]:
    """Return the places of a type, those of which the same is told as one."""
    first: dict[tuple[object, ...], Node] = {}
    for at, node in enumerate(nodes):
        is_alone = node.of.is_same or node.of.was or node.children or not all(row.is_told for row in node.rows)
        key = (at,) if is_alone else node._told  # noqa: SLF001 - its own module
        former = first.get(key)
        first[key] = node if former is None else attrs.evolve(former, others=(*former.others, node.of.name))
    return tuple(first.values())


@attrs.frozen
class Line:
    """A sentence, with a style of the terminal: "", dim, yellow, red, bold."""

    text: str
    style: str = ""

    @classmethod
    def of(cls, words: Words) -> Line:
        """Return a line of a text report."""
        return cls("".join(str(text) for text, _ in words.pieces), words.pieces[-1][1] if words.pieces else "")


@attrs.frozen
class Alike:
    """The report on another place, of which the same is told."""

    words: str
    anchor: str


@attrs.frozen(kw_only=True)
class Subject:
    """A state or key, with what becomes of it.

    Attributes:
        anchor: Its id on the page, which links lead to.
        name: Its name.
        kind: Its kind, or what else it is.
        word: start, migrate, refuse, or another word for its badge.
        old: The stored type in words; "" where it is new.
        new: The new type in words; "" where it is gone.
        more: What else the first line says.
        lines: Sentences on it.
        rows: What is found on it as a whole.
        trees: Its types: one tree a part, of which the first without a name is that of the values.
        remarks: What is noted, once for all places.
        alike: Where the same is told; then nothing else is.
        body: Further pieces, such as a sample or a chart.
        is_open: Whether it is unfolded.
    """

    anchor: str
    name: str
    kind: str = ""
    word: str
    old: str = ""
    new: str = ""
    more: str = ""
    lines: tuple[Line, ...] = ()
    rows: tuple[Row, ...] = ()
    trees: tuple[Node, ...] = ()
    remarks: tuple[Row, ...] = ()
    alike: Alike | None = None
    body: tuple[Markup, ...] = ()
    is_open: bool = False


@attrs.define
class Shown:
    """What was shown so far, so that the same is told once."""

    _places: dict[tuple[Hashable, ...], tuple[str, str]] = attrs.field(factory=dict)

    def once(self, subject: Subject, place: str, told: object) -> Subject:
        """Return a state or key as it is, or with a link to where the same is told.

        Args:
            subject: The state or key.
            place: Its name on the page.
            told: What is told of it, as data.
        """
        key = (*likeness(told), *(tree.likeness for tree in subject.trees))
        there, anchor = self._places.setdefault(key, (place, subject.anchor))
        is_short = not (subject.rows or subject.remarks or any(not tree.of.is_same for tree in subject.trees))
        if anchor == subject.anchor or is_short:
            return subject
        alike = Alike(as_there(there, told), anchor)
        return attrs.evolve(subject, rows=(), trees=(), remarks=(), lines=(), alike=alike, is_open=bool(subject.body))


@attrs.frozen(kw_only=True)
class Operator:
    """An operator with its states.

    Attributes:
        anchor: Its id on the page.
        title: Its name.
        word: start, migrate, refuse, or another word.
        facts: What else there is to say of it, in words.
        lines: Sentences on it.
        changed: The keys and states with something to look at.
        fine: Those of which nothing becomes; many fold to a line.
        body: Further pieces.
    """

    anchor: str
    title: str
    word: str
    facts: tuple[str, ...] = ()
    lines: tuple[Line, ...] = ()
    changed: tuple[Subject, ...] = ()
    fine: tuple[Subject, ...] = ()
    body: tuple[Markup, ...] = ()


@attrs.frozen
class Placed:
    """A finding, and what it is about: the name of that, and its id on the page."""

    row: Row
    place: str
    anchor: str
    others: int = 0


def divided(findings: Iterable[Finding]) -> tuple[tuple[Finding, ...], tuple[Finding, ...]]:
    """Return what changes a place, and what is only to be known of it."""
    told = tuple(findings)
    remarks = tuple(one for one in told if word_of(one) == NOTE and (one.flags or one.old == one.new))
    noted = set(map(id, remarks))
    return tuple(one for one in told if id(one) not in noted), remarks


def remarks_of(findings: Iterable[Finding], commands: Commands | None = Commands()) -> tuple[Row, ...]:
    """Return remarks, each once, with the paths at which it is made."""
    alike: dict[tuple[object, ...], list[Finding]] = {}
    for one in findings:
        alike.setdefault((one.rule, one.reason, one.flags, one.forbidden), []).append(one)
    return tuple(Row(same[0], commands, paths=tuple(one.path for one in same)) for same in alike.values())


def rank(word: str) -> int:
    """Return the place of a word of a finding among all, the worst first; other words follow."""
    return _ORDER.index(word) if word in _ORDER else len(_ORDER)


def worst(placed: Iterable[Placed], title: str = "The worst findings") -> Markup:
    """Return the three worst findings.

    Refusals are first, then losses, changes without a way back, and others; of each what is found most often.
    """
    groups: dict[tuple[Any, ...], list[Placed]] = {}
    for one in placed:
        kind, of = (one.row.word, bool(one.row.of.flags)), one.row.of
        if kind in _WORST_FIRST:
            told = (of.reason,) if kind[0] == NOTE else (of.path.below_root, of.old, of.new)
            groups.setdefault((kind, of.rule, *told), []).append(one)
    ordered = [few for _, few in sorted(groups.items(), key=lambda one: (_WORST_FIRST.index(one[0][0]), -len(one[1])))]
    shown = [attrs.evolve(few[0], others=len(few) - 1) for few in ordered[:_WORST]]
    if not shown:
        return piece("nothing", "Nothing is found that has to be decided.")
    left = len(ordered) - len(shown)
    note = f"{left:,} more below, each at its place in the tree of types" if left else ""
    return piece("section", title, piece("worst", shown), note)


def operators(all_of_them: Sequence[Operator], title: str = "Operators and their states", note: str = "") -> Markup:
    """Return the section with all operators."""
    from markupsafe import Markup

    return piece("section", title, Markup("").join(piece("operator", one) for one in all_of_them), note)


def rules(identifiers: Iterable[str]) -> Markup:
    """Return the texts of rules, to which findings lead; nothing if there are none."""
    from markupsafe import Markup

    book = rule_book()
    found = [book[one] for one in dict.fromkeys(identifiers) if one in book]
    return piece("section", "Rules", piece("rules", found)) if found else Markup("")


def verdict(word: str, headline: str, facts: Iterable[tuple[str, str]]) -> Markup:
    """Return the top of a page.

    Args:
        word: start, migrate, refuse, or another word.
        headline: The answer in a sentence.
        facts: Names of facts, and the facts.
    """
    return piece("verdict", word, headline, list(facts))
