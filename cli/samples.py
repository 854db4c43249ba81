"""The options that show entries before and after a migration, and what they choose."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import click

from .key_choice import WantedKeys
from .options import as_one

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from ..compat.entry_samples import EntrySamples
    from ..compat.plan import MigrationPlan
    from ..state.formats.spark.reader import SparkCheckpoint, SparkStore
    from ..state.migration.queries.preparation import PreparedCopy
    from ..state.migration.samples import SampleChoice
    from ..state.savepoint.chosen_keys import ChosenKeys
    from ..state.savepoint.reader import Savepoint
    from .inspect_data import AnyOperator
    from .key_choice import KeyChoice
    from .options import F

MOST = 1000


@attrs.frozen
class SampleOptions:
    """Which entries are shown, as the options say.

    Attributes:
        first: How many entries of each state at most; None: it is not said.
        wanted: The keys whose entries are shown; None: the first entries are.
    """

    first: int | None = None
    wanted: WantedKeys | None = None

    @classmethod
    def of_options(cls, sample: int | None, key: tuple[str, ...]) -> SampleOptions | None:
        """Return what `--sample` and `--key` say; None: they are not given."""
        wanted = WantedKeys.of_options(key, None, ())
        return None if sample is None and wanted is None else cls(sample, wanted)

    def of(self, savepoint: Savepoint, plan: MigrationPlan) -> EntrySamples:
        """Return entries of the states that a plan for a savepoint changes; raises as `sample_entries`.

        Raises:
            DeclarationError: No operator can have the keys.
        """
        from ..state.migration.samples import sample_entries

        return sample_entries(savepoint, plan, self._choice(savepoint))

    def keys_of(self, savepoint: Savepoint) -> dict[str, ChosenKeys] | None:
        """Return the keys of each operator that can have them, by its id; None: no keys are chosen.

        Raises:
            DeclarationError: No operator can have any of them.
        """
        chosen = self._choice(savepoint).chosen
        return None if chosen is None else dict(chosen)

    def of_query(self, prepared: PreparedCopy) -> EntrySamples:
        """Return entries of the stores that the copy of a checkpoint changes; raises as `sample_query`.

        Raises:
            DeclarationError: No operator can have the keys.
        """
        from ..state.migration.queries.samples import QuerySampleChoice, sample_query
        from ..state.migration.samples import FEW, MOST_OF_KEYS

        if self.wanted is None:
            return sample_query(prepared, QuerySampleChoice(self.first or FEW))
        choices = self._choices(prepared.source, prepared.source.operators)
        stores = (store for choice in choices.values() for store in _stores(choice))
        chosen = {(one.operator, one.name): one.chosen for one in stores if one.chosen is not None}
        return sample_query(
            prepared, QuerySampleChoice(self.first or MOST_OF_KEYS, chosen, self._written, _notices(choices))
        )

    def _choice(self, savepoint: Savepoint) -> SampleChoice:
        from ..state.migration.samples import FEW, MOST_OF_KEYS, SampleChoice

        if self.wanted is None:
            return SampleChoice(self.first or FEW)
        choices = self._choices(savepoint, savepoint.operators)
        chosen = {name: keys for name, one in choices.items() if (keys := _keys(one)) is not None}
        return SampleChoice(self.first or MOST_OF_KEYS, chosen, self._written, _notices(choices))

    @property
    def _written(self) -> tuple[str, ...]:
        return () if self.wanted is None else tuple(one.shown for one in self.wanted.keys)

    def _choices(self, opened: Savepoint | SparkCheckpoint, operators: Iterable[AnyOperator]) -> dict[str, KeyChoice]:
        """Return what the keys are among those of each operator, by its title.

        Raises:
            DeclarationError: No operator can have any of them.
        """
        assert self.wanted is not None  # noqa: S101 - else it is not called
        found = [(one, self.wanted.of(opened, one, _states(one))) for one in operators]
        choices = {_id(one): choice for one, choice in found if choice is not None}
        self.wanted.require_any(list(choices.values()), savepoint=opened.place)
        return choices


def _id(operator: Any) -> str:
    return str(operator.title if operator.is_of_spark else operator.operator_id)


def _states(operator: Any) -> list[Any]:
    return [one for one in operator.stores if not one.is_index] if operator.is_of_spark else operator.states


def _stores(choice: KeyChoice) -> list[SparkStore]:
    states: Any = choice.states
    return list(states)


def _keys(choice: KeyChoice) -> ChosenKeys | None:
    """Return the keys of an operator; None: it cannot have any of them."""
    states: Any = choice.states
    return states[0].chosen if states else None


def _notices(choices: Mapping[str, KeyChoice]) -> tuple[str, ...]:
    return tuple(filter(None, (one.notice for one in choices.values())))


def _options(of_sample: str, of_key: str) -> Callable[[F], F]:
    return as_one(
        "sample",
        SampleOptions.of_options,
        click.option("--sample", type=click.IntRange(1, MOST), metavar="N", help=of_sample),
        click.option("--key", multiple=True, metavar="KEY", help=f"{of_key} Can be given several times."),
    )


sample_options = _options(
    "Also show N entries of each state that changes, before and after.",
    "Also show the entries of this key, before and after.",
)
"""`--sample` and `--key`; the command receives them as `sample`."""
difference_options = _options("Show N different entries of each state.", "Compare only the entries of this key.")
"""Those of a comparison."""
