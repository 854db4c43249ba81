"""The savepoint that a new query begins with: of Flink, of a bootstrap, or of another query."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from ...serializers.errors import DeclarationError
from ...serializers.ways_out import Option, Told, WayOut
from ...serializers.wording import shell_word
from ...state.directory.directory import Begun
from ...state.formats.flink.metadata import METADATA
from ...state.formats.flink.roots import folder_at
from ...state.job import Operator
from ...state.savepoint.reader import Savepoint
from ...state.storage.files import Folder
from .taken_offsets import TakenOffsets, require_same_sources

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ...compat.description import JobDescription, OperatorDescription
    from ...state.formats.flink.roots import AllowedRoot
    from .upgrade import UpgradeJudgement


@attrs.frozen
class Beginning:
    """A savepoint that a new query may begin with, according to the check.

    Attributes:
        begun: What is recorded of it.
        judgement: What the functions say of it.
        max_parallelism: Its number of key groups; None: it has no keyed state that the query takes.
        allow_roots: Further folders that may contain its files.
    """

    begun: Begun
    judgement: UpgradeJudgement
    max_parallelism: int | None
    allow_roots: tuple[AllowedRoot, ...] = ()


@attrs.frozen
class FromSavepoint:
    """The savepoint that was asked for as the beginning of a new query.

    Attributes:
        place: The savepoint.
        take_offsets: Whether the sources go on from where they stood in the query that it was taken of.
        allow_non_restored_state: Whether it may have operators that the query does not have.
        allow_roots: Further folders that may contain its files, and the checkpoint that it was taken of.
    """

    place: str
    take_offsets: bool = False
    allow_non_restored_state: bool = False
    allow_roots: tuple[AllowedRoot, ...] = ()

    @property
    def folder(self) -> Folder:
        """Its folder, with the roots that are allowed."""
        return folder_at(self.place, self.allow_roots)

    def opened(self) -> Savepoint:
        """Return the savepoint.

        Raises:
            SavepointNotFound, CorruptSavepoint: As `Savepoint.open`.
            DeclarationError: It is the state directory of a query.
        """
        savepoint = Savepoint.open(self.place, allow_roots=self.allow_roots)
        if savepoint.query is not None:
            place = shell_word(self.place)
            raise DeclarationError.before_writing(
                f"{self.place} is the state directory of a query, and no savepoint",
                advice=WayOut(
                    "take one of it, and start from that:",
                    command=f"stateshift savepoint {place} {place}-savepoint",
                ),
            )
        return savepoint

    def begun(
        self,
        savepoint: Savepoint,
        described: JobDescription,
        uids: Iterable[str],
        sources: tuple[str, ...],
        places: tuple[Folder, Folder],
    ) -> Begun:
        """Return what is recorded of a query that begins with the savepoint.

        Args:
            savepoint: The savepoint.
            described: Its description, with the edits of the start.
            uids: The uids of the query's operators.
            sources: The kinds of its sources.
            places: Its checkpoint and its state directory.

        Raises:
            DeclarationError: The sources cannot take over the offsets, or there is state that the query does not take.
            SavepointNotFound, CorruptFile: The log of a source is not where its query had it.
        """
        if self.take_offsets:
            require_same_sources(f"the savepoint {self.place}", savepoint.position, sources)
            for _ in TakenOffsets(places[0], savepoint.position, (*places[1:], self.folder)).logs(1):
                """Each log is read, so that one that is missing is an error now."""
        ids = _ids(uids)
        taken = {one.stored_id or one.operator_id for one in described.operators if one.operator_id in ids}
        left = [one for one in savepoint.operators if one.operator_id not in taken]
        lost = [one.title for one in left if one.size_bytes]
        if lost and not self.allow_non_restored_state:
            raise DeclarationError.before_writing(
                f"the savepoint {self.place} has state of operators that the query does not have: {', '.join(lost)}",
                advice="use the uid that the state was written with, or rename it: options=MigrationOptions(edits=…);"
                " or pass allow_non_restored_state=True, which leaves their state behind",
            )
        position = savepoint.position if self.take_offsets else None
        return Begun(self.place, savepoint.metadata_sha256, tuple(one.operator_id for one in left), position)

    def key_groups(self, described: JobDescription, uids: Iterable[str], wanted: int | None) -> int | None:
        """Return the number of key groups of the savepoint; None: it has no keyed state that the query takes.

        Args:
            described: As in `begun`.
            uids: As in `begun`.
            wanted: The number that the job asks for; None: any.

        Raises:
            DeclarationError: It is not that number; or the operators have several.
        """
        ids = _ids(uids)
        found = {one.max_parallelism for one in described.operators if one.operator_id in ids and _is_keyed(one)}
        if len(found) > 1 or (found and wanted not in {None, *found}):
            raise DeclarationError.before_writing(
                f"the savepoint {self.place} has {' and '.join(map(str, sorted(found)))} key groups, and all operators"
                f" of the query have {wanted or 'the same number'}",
                advice=(
                    "leave out max_parallelism",
                    WayOut(
                        "write another savepoint before:", (Told(Option.REPARTITION),), command="stateshift migrate"
                    ),
                ),
            )
        return next(iter(found), None)

    def require_begun_with(self, begun: Begun | None, state_dir: str) -> None:
        """Refuse to start a query that began without this savepoint, which may have been deleted since.

        Args:
            begun: What the query has begun with.
            state_dir: The place of its state.

        Raises:
            DeclarationError: The query has begun without a savepoint, or with another one, or without its offsets.
        """
        is_same = begun is not None and begun.savepoint == self.place
        if begun is not None and Folder.at(self.place).exists(METADATA):
            is_same = Savepoint.open(self.place).metadata_sha256 == begun.metadata_sha256
        if begun is not None and is_same and (begun.position is not None or not self.take_offsets):
            return
        how = "without a savepoint" if begun is None else f"with another savepoint, which was in {begun.savepoint}"
        if is_same:
            how = "with this savepoint, but not with its offsets"
        raise DeclarationError.before_writing(
            f"the query with the state in {state_dir} has begun {how}",
            advice=f"leave out {'take_offsets' if is_same else 'from_savepoint'}: it goes on from its own state; or"
            " start a new query, with another state directory and another checkpoint",
        )


def _ids(uids: Iterable[str]) -> set[str]:
    return {Operator.named(uid).id for uid in uids}


def _is_keyed(operator: OperatorDescription) -> bool:
    return any(state.kind.is_keyed for state in operator.states)
