"""The options that show entries before and after a migration, and what they choose."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import click

from .key_choice import WantedKeys
from .options import as_one

if TYPE_CHECKING:
    from ..compat.entry_samples import EntrySamples
    from ..compat.plan import MigrationPlan
    from ..state.migration.samples import SampleChoice
    from ..state.savepoint.chosen_keys import ChosenKeys
    from ..state.savepoint.reader import Savepoint
    from .key_choice import KeyChoice

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

    def _choice(self, savepoint: Savepoint) -> SampleChoice:
        from ..state.migration.samples import FEW, MOST_OF_KEYS, SampleChoice

        if self.wanted is None:
            return SampleChoice(self.first or FEW)
        found = [(one, self.wanted.of(savepoint, one, one.states)) for one in savepoint.operators]
        choices = {one.operator_id: choice for one, choice in found if choice is not None}
        self.wanted.require_any(list(choices.values()), savepoint=savepoint.place)
        chosen = {name: keys for name, one in choices.items() if (keys := _keys(one)) is not None}
        notices = tuple(filter(None, (choice.notice for choice in choices.values())))
        written = tuple(one.shown for one in self.wanted.keys)
        return SampleChoice(self.first or MOST_OF_KEYS, chosen, written, notices)


def _keys(choice: KeyChoice) -> ChosenKeys | None:
    """Return the keys of an operator; None: it cannot have any of them."""
    states: Any = choice.states
    return states[0].chosen if states else None


sample_options = as_one(
    "sample",
    SampleOptions.of_options,
    click.option(
        "--sample",
        type=click.IntRange(1, MOST),
        metavar="N",
        help="Also show N entries of each state that changes, before and after.",
    ),
    click.option(
        "--key",
        multiple=True,
        metavar="KEY",
        help="Also show the entries of this key, before and after. Can be given several times.",
    ),
)
"""`--sample` and `--key`; the command receives them as `sample`."""
