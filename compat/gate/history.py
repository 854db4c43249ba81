"""The history of a job's state: the types declared by each revision of the code, one readable file per revision.

    state_history/0003_add_currency.json
    {"format": "stateshift revision", "version": 3, "id": …, "parents": [ids], "message": …, "created": date,
     "notes": hints for a reviewer, and the fields of a recorded snapshot, including its seal}

Revisions form a graph, since two branches may each add one; a revision that is not a parent is a head. The id is a
digest of parents, message, date and types; together with the seal, every edit of a file is noticed. All files are
opened to check the seal and read the head; the declared types are read on demand. The caller reads and writes the
files. Descriptions of Spark's queries are in the folder `queries` beside them (`recorded_queries`).
"""

from __future__ import annotations

import hashlib
import json
import re
from functools import partial
from typing import TYPE_CHECKING

import attrs

from ...serializers.compatibility import Flag
from ...serializers.displayed import Displayed
from ...serializers.errors import CorruptFile, DeclarationError, NothingInCommon, located
from ...serializers.ways_out import WayOut, on_command_line
from ...serializers.wording import many, repr_of
from ..check import check
from ..likeness import OF_CHECK, alike
from ..plain_data import fields_of
from .levels import Revision
from .recorded_queries import FOLDER, read_query
from .recorded_text import RecordedText, print_recorded
from .recording import Parsed, digest, from_recorded, to_data

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from ..description import JobDescription
    from ..plain_data import Fields

FORMAT, SUFFIX = "stateshift revision", ".json"
_ID_LENGTH, _SLUG_LENGTH = 12, 40


@attrs.frozen
class RecordedRevision:
    """One file of a history.

    Attributes:
        name: The name of the file, without its suffix: `0003_add_currency`.
        parents: The ids of the revisions that it follows: none for the first, two or more after branches were merged.
        message: The message given by the author.
        created: The day on which it was recorded.
        sha256: The digest of the declared types (`recording.digest`).
        notes: Hints on the change from its parents: a removed field and a new one may be one field, renamed.
        describe: Reads the declared types.
    """

    name: str
    parents: tuple[str, ...]
    message: str
    created: dt.date
    sha256: str
    notes: tuple[str, ...]
    describe: Callable[[], JobDescription] = attrs.field(eq=False, repr=False)

    def __repr__(self) -> str:
        return repr_of(self, f"{self.name} ({self.id}), {self.created}: {self.message}")

    @property
    def description(self) -> JobDescription:
        """The declared types; may raise the errors of `from_json` when the file is read for it."""
        return self.describe()

    @property
    def id(self) -> str:
        """The id, twelve hexadecimal digits."""
        facts = [sorted(self.parents), self.message, self.created.isoformat(), self.sha256]
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:_ID_LENGTH]

    @property
    def number(self) -> int:
        """The number of revisions on the longest path to this one."""
        found = re.match(r"[0-9]{1,18}", self.name)
        return int(found[0]) if found else 0

    def to_json(self) -> str:
        """Return the text of its file."""
        head = fields_of(self, "id parents message created notes")
        return print_recorded(FORMAT, head | to_data(self.description))

    @classmethod
    def from_json(cls, name: str, text: str | bytes, parsed: Parsed | None = None) -> RecordedRevision:
        """Read a revision, including its types.

        Args:
            name: The name of the file, without its suffix.
            text: The content of the file.
            parsed: The cache of types shared by similar files.

        Raises:
            CorruptFile: The file is not a revision, or was edited.
            UnsupportedFormat: It was written by a later release.
        """
        with located(file=name + SUFFIX):
            opened = RecordedText.of(text, FORMAT)
            revision = cls._of_head(name, opened.head, describe=lambda: description)
            description = from_recorded(opened, revision.sha256, parsed or Parsed())
            return revision

    @classmethod
    def in_files(cls, name: str, files: Mapping[str, str | bytes], parsed: Parsed) -> RecordedRevision:
        """Read the head of a revision; its types are read from the file on demand.

        Args:
            name: The name of the file, without its suffix.
            files: Content by file name.
            parsed: The cache of types shared by similar files.

        Raises:
            CorruptFile: The file is not a revision, or was edited.
            UnsupportedFormat: It was written by a later release.
        """

        def describe() -> JobDescription:
            again = cls.from_json(name, files[name + SUFFIX], parsed)
            parsed.turn()
            if again.id != revision.id:
                raise CorruptFile("it was replaced while it was being read", file=name + SUFFIX)
            return again.description

        with located(file=name + SUFFIX):
            text = files[name + SUFFIX]
            opened = RecordedText.of(text, FORMAT)
            if opened.is_sealed:
                revision = cls._of_head(name, opened.head, describe)
            else:
                revision = attrs.evolve(cls.from_json(name, text, parsed), describe=describe)
                parsed.turn()
            return revision

    @classmethod
    def _of_head(cls, name: str, head: Fields, describe: Callable[[], JobDescription]) -> RecordedRevision:
        recorded, parents = head.text("id"), head.texts("parents")
        message, created, notes = head.text("message"), head.date("created"), head.texts("notes")
        revision = cls(name, parents, message, created, head.text("sha256"), notes, describe)
        if revision.id != recorded:
            raise CorruptFile(f"its id is {recorded}, but its content has the id {revision.id}: it was edited")
        return revision


@attrs.frozen
class History(Displayed):
    """What is recorded of a project.

    Attributes:
        revisions: All revisions of its job, sorted so that each comes after its parents; those with the same number by
            name.
        queries: The names of its described queries of Spark, each with the function that reads its description, given
            what messages call it.
    """

    revisions: tuple[RecordedRevision, ...] = ()
    queries: Mapping[str, Callable[[str], JobDescription]] = attrs.field(factory=dict, eq=False)

    @classmethod
    def of(cls, files: Mapping[str, str | bytes]) -> History:
        """Read a history.

        Args:
            files: The contents by file name, with those of queries as `queries/NAME.json`; names that do not end in
                `.json` are ignored. Files are read again when their declared types are needed.

        Raises:
            CorruptFile: A file is not a revision, two revisions are the same, or a parent is missing.
        """
        parsed = Parsed()
        listed = [name.removesuffix(SUFFIX) for name in sorted(files) if name.endswith(SUFFIX)]
        names = [name for name in listed if "/" not in name]
        found = [RecordedRevision.in_files(name, files, parsed) for name in names]
        by_id: dict[str, RecordedRevision] = {}
        for revision in found:
            if revision.id in by_id:
                raise CorruptFile(
                    f"{revision.name} and {by_id[revision.id].name} are the same revision", advice="remove one of them"
                )
            by_id[revision.id] = revision
        for revision in found:
            for parent in revision.parents:
                if parent not in by_id:
                    raise CorruptFile(
                        f"{revision.name} follows {parent}, which is missing",
                        advice="restore its file: revisions are added, never removed",
                    )
        queries = {name.removeprefix(FOLDER): partial(_query, files, name) for name in listed if name not in names}
        return cls(_ordered(by_id), queries)

    def __repr__(self) -> str:
        told = [many(len(self.revisions), "revision")]
        told += [many(len(self.queries), "query", "queries")] if self.queries else []
        return repr_of(self, ", ".join(told), *(f"{one.name}: {one.message}" for one in self.revisions))

    @property
    def heads(self) -> tuple[RecordedRevision, ...]:
        """The revisions that are not followed by another: none in an empty history, two or more after two branches."""
        followed = {parent for revision in self.revisions for parent in revision.parents}
        return tuple(revision for revision in self.revisions if revision.id not in followed)

    def require_one_head(self) -> RecordedRevision | None:
        """Return the head; None for an empty history.

        Raises:
            DeclarationError: There are several heads.
        """
        heads = self.heads
        if len(heads) > 1:
            names = " and ".join(head.name for head in heads)
            raise DeclarationError(
                f"two branches have each added a revision: {names} are both heads",
                advice=WayOut(
                    "record what the merged code declares:",
                    command="stateshift snapshot --job MODULE:ATTRIBUTE --merge -m …",
                ),
            )
        return heads[0] if heads else None

    def find(self, name: str) -> RecordedRevision:
        """Find a revision by its name, its number, its id or the beginning of its id; `head` is the head.

        Raises:
            DeclarationError: No revision matches, or several do.
        """
        if name == "head" and (head := self.require_one_head()) is not None:
            return head
        found = [one for one in self.revisions if name in {one.name, one.id}]
        found = found or [
            one for one in self.revisions if re.fullmatch(r"[0-9]{1,18}", name) and int(name) == one.number
        ]
        found = found or [one for one in self.revisions if len(name) >= 4 and one.id.startswith(name)]
        if len(found) != 1:
            names = ", ".join(one.name for one in found or self.revisions) or "none"
            what = (
                f"{name!r} is one of several revisions: {names}"
                if found
                else f"no revision {name!r}; there are: {names}"
            )
            raise DeclarationError(what, advice="give its name, or its id")
        return found[0]

    def up_to(self, last: RecordedRevision) -> tuple[RecordedRevision, ...]:
        """Return a revision and all its ancestors, the oldest first."""
        wanted = {last.id}
        for revision in reversed(self.revisions):
            if revision.id in wanted:
                wanted.update(revision.parents)
        return tuple(revision for revision in self.revisions if revision.id in wanted)

    def next(
        self, description: JobDescription, message: str, created: dt.date, *, merges: bool = False
    ) -> RecordedRevision:
        """Return a new revision that follows the head; with `merges`, it follows all heads.

        Raises:
            DeclarationError: There are several heads without `merges`, or one head with it.
        """
        heads = self.heads
        if merges and len(heads) < 2:
            raise DeclarationError(
                "there is nothing to merge: the history has one head", advice="record it without merging"
            )
        if not merges:
            self.require_one_head()
        number = 1 + max((head.number for head in heads), default=0)
        name = "_".join(filter(None, [f"{number:04}", _slug(message)]))
        notes = tuple(dict.fromkeys(note for head in heads for note in _likely_renames(head, description)))
        parents = tuple(head.id for head in heads)
        return RecordedRevision(name, parents, message, created, digest(description), notes, lambda: description)


def _query(files: Mapping[str, str | bytes], name: str, origin: str) -> JobDescription:
    return read_query(files[name + SUFFIX], origin)


def judged(revisions: Iterable[RecordedRevision], *, through_merge: bool = False) -> list[Revision]:
    """Return the revisions in the form that `judge` takes: a job follows all heads among them.

    Args:
        revisions: The revisions, each after its parents.
        through_merge: Whether it also follows what a head has merged. With several heads, a job is judged by its own
            history only once it is recorded, which is what merges them.
    """
    found = tuple(revisions)
    followed = {parent for revision in found for parent in revision.parents}
    last = {revision.id for revision in found if revision.id not in followed}
    if through_merge:
        last |= {
            one for revision in found if revision.id in last for one in revision.parents if len(revision.parents) > 1
        }
    return [Revision(one.name, one.describe, one.sha256, one.id in last) for one in found]


def _likely_renames(head: RecordedRevision, description: JobDescription) -> Iterator[str]:
    """Yield proposals of an alias if a field is gone and a field of its type is new."""
    try:
        report = check(head.description, description)
    except NothingInCommon:
        return
    found = [
        (f"{operator.title}/{state.name if state else '<key>'}", finding)
        for operator, state, finding in report.findings()
        if finding.has(Flag.POSSIBLE_RENAME)
    ]
    for (where, finding), others in alike(
        found,
        told=lambda one: (one[1].path, one[1].reason, one[1].ways_out[0]),
        place=lambda one: one[0],
        whole=OF_CHECK,
    ):
        way = on_command_line(finding.ways_out[0])
        yield f"{where} {finding.path}: {finding.reason} {way}{f'; {others}' if others else ''}"


def _slug(message: str) -> str:
    words = re.sub(r"[^a-z0-9]+", "_", message.lower()).strip("_")
    return words[:_SLUG_LENGTH].rstrip("_")


def _ordered(by_id: dict[str, RecordedRevision]) -> tuple[RecordedRevision, ...]:
    """Return the revisions, each after its parents. Ids are digests of the parents' ids, so there are no cycles."""
    left = sorted(by_id.values(), key=lambda one: (one.number, one.name))
    placed: dict[str, RecordedRevision] = {}
    while left:
        ready = next(one for one in left if all(parent in placed for parent in one.parents))
        placed[ready.id] = ready
        left.remove(ready)
    return tuple(placed.values())
