"""The keys whose entries a command shows: as the options say them, and what they are among those of an operator."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import click

from ..compat.key_hashes import MAX_KEY_GROUPS
from ..serializers.errors import DeclarationError, StateShiftError
from ..serializers.wording import many
from .failures import libraries_needed
from .options import as_one

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..serializers.snapshot import TypeSerializerConfigSnapshot
    from ..state.formats.spark.reader import SparkCheckpoint, SparkOperator, SparkStore
    from ..state.savepoint.reader import Savepoint, SavepointOperator
    from ..state.savepoint.states import SavepointState
    from ..state.savepoint.written_keys import WrittenKey
    from .inspect_data import AnyOperator, AnyState

_MOST_SHOWN = 3


@attrs.frozen
class KeyChoice:
    """What is read of an operator.

    Attributes:
        operator: The operator.
        key_type: The type of its keys, in words.
        states: Its states, with the entries of the wanted keys alone; none: it cannot have these keys.
        parts: The key groups, or the partitions, that are read; None: all.
        total: How many there are.
        why: Why it cannot have the keys, or why all parts are read; "": neither.
    """

    operator: AnyOperator
    key_type: str
    states: tuple[AnyState, ...]
    parts: tuple[int, ...] | None
    total: int
    why: str = ""

    @property
    def is_skipped(self) -> bool:
        """Whether the operator cannot have the keys."""
        return not self.states

    @property
    def notice(self) -> str:
        """What is told of it beside its entries; "": nothing."""
        if self.is_skipped:
            return f"skipped: operator {self.operator.title}: {self.why}"
        return f"operator {self.operator.title}: everything was read: {self.why}" if self.why else ""


@attrs.frozen
class WantedKeys:
    """The keys, or the key groups, whose entries are wanted.

    Attributes:
        keys: The keys, as they were written.
        key_groups: The key groups; with keys, too, their entries in these.
    """

    keys: tuple[WrittenKey, ...] = ()
    key_groups: frozenset[int] = frozenset()

    @classmethod
    def of_options(cls, key: tuple[str, ...], keys_from: Path | None, key_group: tuple[int, ...]) -> WantedKeys | None:
        """Return what `--key`, `--keys-from` and `--key-group` say; None: they are not given."""
        from ..state.savepoint.written_keys import WrittenKey

        lines = [] if keys_from is None else _lines(keys_from)
        if not (key or lines or key_group):
            return None
        return cls(tuple(map(WrittenKey.of, (*key, *lines))), frozenset(key_group))

    @property
    def text(self) -> str:
        """The keys as they were written, the first of them."""
        shown = ", ".join(one.shown for one in self.keys[:_MOST_SHOWN])
        return shown + (f" and {len(self.keys) - _MOST_SHOWN:,} others" if len(self.keys) > _MOST_SHOWN else "")

    def of(
        self, opened: Savepoint | SparkCheckpoint, operator: AnyOperator, states: Sequence[AnyState]
    ) -> KeyChoice | None:
        """Return what is read of an operator; None: it has none of these states by key."""
        choose: Callable[..., KeyChoice | None] = _of_stores if operator.is_of_spark else _of_states
        return choose(self, opened, operator, states)

    def require_any(self, choices: Sequence[KeyChoice], **where: Any) -> None:
        """Refuse keys that no operator can have; the error shows a stored key of the first one.

        Raises:
            DeclarationError: No operator can have them.
        """
        if any(not choice.is_skipped for choice in choices):
            return
        if not choices:
            raise DeclarationError("there is no keyed state of these names", advice="see stateshift inspect", **where)
        told = "; ".join(f"{one.operator.title}: {one.why}" for one in choices[:_MOST_SHOWN])
        more = f"; and {many(len(choices) - _MOST_SHOWN, 'other')}" if len(choices) > _MOST_SHOWN else ""
        stored = next(filter(None, (_stored_key(one.operator) for one in choices)), "")
        raise DeclarationError(
            f"no operator can have the key {self.text}: {told}{more}",
            advice=f"write it as a stored key is: '{stored}'" if stored else "see stateshift inspect for the types",
            **where,
        )


keys_option = as_one(
    "wanted",
    WantedKeys.of_options,
    click.option("--key", multiple=True, metavar="KEY", help="Only entries of this key. Can be given several times."),
    click.option(
        "--keys-from",
        type=click.Path(dir_okay=False, path_type=Path),
        metavar="FILE",
        help="Only entries of the keys in this file, one in each line.",
    ),
    click.option(
        "--key-group",
        type=click.IntRange(0, MAX_KEY_GROUPS - 1),
        multiple=True,
        metavar="N",
        help="Only entries of this key group. Can be given several times.",
    ),
)
"""`--key`, `--keys-from` and `--key-group`; the command receives them as `wanted`."""


def _lines(file: Path) -> list[str]:
    try:
        return [line for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise click.UsageError(f"--keys-from {file} cannot be read: {error}") from None


def _of_states(
    wanted: WantedKeys, opened: Savepoint, operator: SavepointOperator, states: Sequence[SavepointState]
) -> KeyChoice | None:
    from ..state.savepoint.chosen_keys import ChosenKeys
    from ..state.savepoint.written_keys import choose

    keyed, snapshot, total = [one for one in states if one.kind.is_keyed], operator.key, operator.max_parallelism
    if snapshot is None or not keyed:
        return None
    made = partial(KeyChoice, operator, snapshot.describe(), total=total)
    why = ""
    if wanted.keys:
        try:
            chosen = choose(snapshot, wanted.keys, total)
        except StateShiftError as error:
            return made((), None, why=error.what.splitlines()[0])
        if chosen is None:
            return made((), None, why=_unlike(snapshot, wanted))
        is_certain = chosen.is_certain or opened.is_of_flink
        if not is_certain and not any(one.of_keys(chosen).measure().entries for one in keyed):
            chosen, why = chosen.everywhere, f"earlier releases placed a {snapshot.kind} by another hash"
        elif chosen.key_groups is None:
            why = f"the key group of a {snapshot.kind} is not known"
    else:
        chosen = ChosenKeys()
    if wanted.key_groups:
        groups = wanted.key_groups if chosen.key_groups is None else chosen.key_groups & wanted.key_groups
        chosen, why = attrs.evolve(chosen, key_groups=groups), ""
    parts = None if chosen.key_groups is None else tuple(sorted(chosen.key_groups))
    return made(tuple(one.of_keys(chosen) for one in keyed), parts, why=why)


def _unlike(snapshot: TypeSerializerConfigSnapshot[Any], wanted: WantedKeys) -> str:
    told = f"its keys are {snapshot.describe()}"
    if snapshot.describe() != "string" or any(isinstance(one.form, str) for one in wanted.keys):
        return told
    return f"{told}; a text that reads as something else is written in quotes: '\"{wanted.keys[0].shown}\"'"


def _of_stores(
    wanted: WantedKeys, _: SparkCheckpoint, operator: SparkOperator, stores: Sequence[SparkStore]
) -> KeyChoice | None:
    with libraries_needed("spark"):
        from ..state.formats.spark.chosen_rows import choose, key_type
    if not stores:
        return None
    if wanted.key_groups:
        raise click.UsageError("--key-group does not apply to a checkpoint of a Spark query, which has partitions")
    total = max(store.partitions for store in stores)
    described = next((words for store in stores if (words := key_type(store, operator.kind))), "not known")
    readable = [store for store in stores if not store.unsupported]
    why = ""
    chosen: list[SparkStore] = []
    parts: set[int] | None = set()
    for store in readable:
        rows = choose(store, operator.kind, [one.form for one in wanted.keys])
        if rows is None:
            continue
        chosen.append(attrs.evolve(store, chosen=rows))
        why = why or rows.why
        parts = None if parts is None or rows.partitions is None else parts | rows.partitions
    if not chosen:
        return KeyChoice(operator, described, (), None, total, f"its keys are {described}")
    unread = [store for store in stores if store.unsupported]
    return KeyChoice(
        operator, described, (*chosen, *unread), None if parts is None else tuple(sorted(parts)), total, why
    )


def _stored_key(operator: AnyOperator) -> str:
    """Return a key that the operator has, as it is written; "": it has none, or none can be read."""
    found: Any = operator
    if operator.is_of_spark:
        from ..state.formats.spark import chosen_rows

        return chosen_rows.stored_key(found)
    from ..state.savepoint import written_keys

    return written_keys.stored_key(found)
