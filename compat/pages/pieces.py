"""Pieces of a report: from plain data to HTML.

`rendering.piece(name, …)` calls a macro; the functions here say what the data of each is, and prepare findings and
types. A page is a list of pieces (`rendering.page`), and so is what a notebook shows (`rendering.fragment`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from ...serializers.compatibility import Decision, Path
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
_WORST = 3
_ORDER = (str(Decision.REFUSE), str(Decision.MIGRATE), NOTE)


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


@attrs.frozen
class Row:
    """A finding as it is shown.

    Attributes:
        word: refuse, migrate or note.
        path: Where it is.
        rule: The rule that decided.
        old: The stored type; "" where there is none.
        new: The new type.
        reason: One sentence.
        flags: Remarks.
        ways: Ways out.
        is_told: Whether place and types stand beside it already.
        paths: Of a remark that is made at several places: where it is.
    """

    word: str
    path: str
    rule: str
    old: str
    new: str
    reason: str
    flags: tuple[str, ...] = ()
    ways: tuple[Way, ...] = ()
    is_told: bool = False
    paths: tuple[str, ...] = ()

    @classmethod
    def of(cls, finding: Finding, commands: Commands | None = Commands()) -> Row:
        """Return a finding of a check; without commands, there are no ways out."""
        ways = () if commands is None else (_way(one, commands) for one in finding.ways_out)
        flags = (f"{one}{' (forbidden)' * (one.flag in finding.forbidden)}" for one in finding.flags)
        return cls(
            word_of(finding), finding.path, finding.rule, finding.old, finding.new, finding.reason, tuple(flags),
            tuple(ways),
        )  # fmt: skip

    @property
    def has_rule(self) -> bool:
        """Whether the rule book has the rule."""
        return self.rule in rule_book()


def word_of(finding: Finding) -> str:
    """Return what a finding comes down to: refuse, migrate, or note."""
    decision = Decision.REFUSE if finding.forbidden else finding.verdict.decision
    return NOTE if decision is Decision.START else str(decision)


def _way(way: WayOut, commands: Commands) -> Way:
    found = commands.of(way)
    return Way(in_words(way), found) if found else Way(str(way))


@attrs.frozen
class Node:
    """A place of a type tree as it is shown: `TypeNode` with its findings as rows.

    Attributes:
        others: The names of other fields of the same record of which the same is to be told.
    """

    name: str
    was: str
    mark: str
    old: str
    new: str
    is_same: bool
    children: tuple[Node, ...]
    rows: tuple[Row, ...]
    others: tuple[str, ...] = ()

    @classmethod
    def of(cls, node: TypeNode, commands: Commands | None = Commands()) -> Node:
        """Return a node of `type_tree`."""
        rows = (Row.of(one, commands) for one in node.findings)
        told = {(node.old, node.new), (node.was, node.name)}
        return cls(
            node.name, node.was, str(node.mark), node.old, node.new, node.is_same,
            _together(cls.of(child, commands) for child in node.children),
            tuple(attrs.evolve(row, is_told=node.mark is not Mark.SAME and (row.old, row.new) in told) for row in rows),
        )  # fmt: skip

    @property
    def likeness(self) -> tuple[object, ...]:
        """What is equal for trees of which the same is shown, wherever they stand."""
        mine = () if not self.name else (self.name, self.others, self.old, self.new)
        return (*mine, self.mark, tuple(child.likeness for child in self.children))

    @property
    def _told(self) -> tuple[object, ...]:
        """What is shown of it beside its name."""
        rows = ((row.word, row.rule, row.reason, row.flags, row.ways, row.is_told) for row in self.rows)
        return (self.mark, self.old, self.new, *rows)


def _together(nodes: Iterable[Node]) -> tuple[Node, ...]:
    """Return the places of a type, those of which the same is told as one."""
    first: dict[tuple[object, ...], Node] = {}
    for at, node in enumerate(nodes):
        is_alone = node.is_same or node.was or node.children or not all(row.is_told for row in node.rows)
        key = (at,) if is_alone else node._told  # noqa: SLF001 - its own module
        former = first.get(key)
        first[key] = node if former is None else attrs.evolve(former, others=(*former.others, node.name))
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
        is_short = not (subject.rows or subject.remarks or any(not tree.is_same for tree in subject.trees))
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
    rows = ((Row.of(same[0], commands), same) for same in alike.values())
    return tuple(
        attrs.evolve(row, paths=tuple(one.path for one in same), ways=row.ways if len(same) == 1 else ())
        for row, same in rows
    )


def worst(placed: Iterable[Placed], title: str = "The worst findings") -> Markup:
    """Return the three worst findings: refusals first, then losses, then what is found most often."""
    groups: dict[tuple[str, ...], list[Placed]] = {}
    for one in placed:
        row = one.row
        if row.word != NOTE:
            groups.setdefault((row.word, row.rule, Path(row.path).below_root, row.old, row.new), []).append(one)
        elif row.flags:
            groups.setdefault((row.word, row.rule, row.reason), []).append(one)
    ordered = sorted(groups.values(), key=lambda few: (_ORDER.index(few[0].row.word), not few[0].row.flags, -len(few)))
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
