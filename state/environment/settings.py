"""What holds for a run."""

from __future__ import annotations

import enum
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from ...serializers.errors import DeclarationError, shown
from ..backends.configuration import Configuration, read_flink_file

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Self


class RuntimeExecutionMode(enum.Enum):
    """Whether results are made while elements come (STREAMING), or of all of them (BATCH)."""

    STREAMING = enum.auto()
    BATCH = enum.auto()
    AUTOMATIC = enum.auto()


class CheckpointingMode(enum.Enum):
    """What a checkpoint promises; in a local run both are the same, since nothing is on its way."""

    EXACTLY_ONCE = enum.auto()
    AT_LEAST_ONCE = enum.auto()


@attrs.frozen
class Settings:
    """Values by Flink's keys, as the local environment reads them.

    Attributes:
        configuration: All of them, also those of backends and checkpoints.
    """

    configuration: Configuration

    @classmethod
    def of_places(cls) -> Self:
        """Return the settings that hold without a call: of variables, `[tool.stateshift]`, and Flink's file.

        Raises:
            DeclarationError: A key is unknown or refused, or a value does not have the type of its key.
        """
        return cls(Configuration.of(is_local=True))

    def updated(self, given: Any) -> Self:
        """Return the settings with further values, which win; raises as `of_places`.

        Args:
            given: A dict of values by Flink's keys, PyFlink's `Configuration`, or the path of a file like Flink's
                `config.yaml`.
        """
        if isinstance(given, str | os.PathLike):
            file = Path(given)
            return attrs.evolve(self, configuration=self._with(read_flink_file(file), str(file)))
        if not isinstance(given, dict) and not hasattr(given, "to_dict"):
            raise DeclarationError(
                f"{shown(given)} is no configuration",
                advice="pass a Configuration, a dict, or the path of a config.yaml",
            )
        values = given if isinstance(given, dict) else given.to_dict()
        return attrs.evolve(self, configuration=self._with(values, "the call"))

    def _with(self, values: Mapping[str, Any], place: str) -> Configuration:
        return self.configuration.updated(values, place, is_local=True)

    @property
    def parallelism(self) -> int:
        """The number of subtasks of operators that set none."""
        return self.configuration["parallelism.default"]  # type: ignore[no-any-return]  # a number

    @property
    def max_parallelism(self) -> int | None:
        """The number of key groups of operators that set none; None: that of the savepoint, else as Flink."""
        return self.configuration["pipeline.max-parallelism"]  # type: ignore[no-any-return]  # a number

    @property
    def is_batch(self) -> bool:
        """Whether keyed `reduce` has one result for a key, and there are no watermarks before the end."""
        return self.configuration["execution.runtime-mode"] == RuntimeExecutionMode.BATCH.name  # type: ignore[no-any-return]

    @property
    def auto_watermark_ms(self) -> int:
        """How often watermarks are made, in milliseconds; 0: at the end of the input only."""
        return self.configuration["pipeline.auto-watermark-interval"]  # type: ignore[no-any-return]  # a number

    @property
    def checkpoint_ms(self) -> int | None:
        """How often checkpoints are taken, in milliseconds; None: never."""
        return self.configuration["execution.checkpointing.interval"]  # type: ignore[no-any-return]  # a number

    @property
    def savepoint(self) -> str:
        """The savepoint or checkpoint that the program starts from; "": none."""
        return self.configuration["execution.savepoint.path"] or ""

    @property
    def ignores_unclaimed(self) -> bool:
        """Whether that may have state of operators that the program does not have."""
        return self.configuration["execution.savepoint.ignore-unclaimed-state"]  # type: ignore[no-any-return]
