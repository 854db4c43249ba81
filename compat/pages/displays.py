"""What a notebook shows of each result."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...serializers.compatibility import CompatibilityResult
from ..description import JobDescription
from ..difference import Difference
from ..entry_samples import EntrySamples
from ..gate.history import History
from ..gate.levels import GateReport
from ..profiles import Profile, profile_data
from ..report import CheckReport
from .check import check_pieces, result_pieces
from .description import description_pieces
from .difference import difference_pieces
from .gate import gate_pieces
from .history import history_pieces
from .profiles import profile_pieces
from .rendering import fragment
from .samples import samples_piece

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ...serializers.displayed import Displayed

_PIECES: dict[type[Displayed], Callable[[Any], Iterable[Any]]] = {
    CheckReport: check_pieces,
    CompatibilityResult: result_pieces,
    Difference: difference_pieces,
    GateReport: gate_pieces,
    EntrySamples: lambda samples: [samples_piece(samples)],
    History: history_pieces,
    JobDescription: description_pieces,
    Profile: lambda profile: profile_pieces(profile_data(profile)),
}


def html_of(shown: Displayed) -> str:
    """Return the pieces of a result, with their style."""
    return fragment(_PIECES[type(shown)](shown))
