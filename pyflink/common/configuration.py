"""PyFlink's configuration: values by key, for `StreamExecutionEnvironment`."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from ...serializers.errors import DeclarationError, shown

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Self

T = TypeVar("T")


class Configuration:
    """Values by Flink's keys. What reads it checks the keys: see `docs/reference/configuration.md`.

    Args:
        other: Another configuration, whose values are taken over.
    """

    def __init__(self, other: Configuration | None = None) -> None:
        self._values: dict[str, str] = {} if other is None else other.to_dict()

    @classmethod
    def from_dict(cls, map: Mapping[str, str]) -> Self:  # noqa: A002 - as in PyFlink
        """Return a configuration of these values."""
        made = cls()
        for key, value in map.items():
            made._set(key, value)
        return made

    def _set(self, key: str, value: object) -> Self:
        self._values[key] = str(value).lower() if isinstance(value, bool) else str(value)
        return self

    def _get(self, key: str, default_value: T, kind: type) -> T:
        text = self._values.get(key)
        if text is None:
            return default_value
        try:
            return {"true": True, "false": False}[text.lower()] if kind is bool else kind(text)  # type: ignore[return-value]
        except (ValueError, KeyError) as error:
            raise DeclarationError(f"{key} is {shown(text)}, which is no {kind.__name__}") from error

    def get_string(self, key: str, default_value: str) -> str:
        """Return the value of a key; the default where it has none."""
        return self._get(key, default_value, str)

    def set_string(self, key: str, value: str) -> Self:
        """Set the value of a key."""
        return self._set(key, value)

    def get_integer(self, key: str, default_value: int) -> int:
        """Return the value of a key as a number.

        Raises:
            DeclarationError: It is none.
        """
        return self._get(key, default_value, int)

    def set_integer(self, key: str, value: int) -> Self:
        """Set the value of a key."""
        return self._set(key, value)

    def get_boolean(self, key: str, default_value: bool) -> bool:  # noqa: FBT001 - as in PyFlink
        """Return the value of a key as a boolean; raises as `get_integer`."""
        return self._get(key, default_value, bool)

    def set_boolean(self, key: str, value: bool) -> Self:  # noqa: FBT001 - as in PyFlink
        """Set the value of a key."""
        return self._set(key, value)

    def get_float(self, key: str, default_value: float) -> float:
        """Return the value of a key as a number; raises as `get_integer`."""
        return self._get(key, default_value, float)

    def set_float(self, key: str, value: float) -> Self:
        """Set the value of a key."""
        return self._set(key, value)

    def key_set(self) -> set[str]:
        """Return the keys."""
        return set(self._values)

    def contains_key(self, key: str) -> bool:
        """Whether a key has a value."""
        return key in self._values

    def remove_config(self, key: str) -> bool:
        """Remove a key; return whether it was there."""
        return self._values.pop(key, None) is not None

    def add_all(self, other: Configuration, prefix: str | None = None) -> Self:
        """Set all values of another configuration, with a prefix before each key."""
        self._values |= {f"{prefix or ''}{key}": value for key, value in other.to_dict().items()}
        return self

    def to_dict(self) -> dict[str, str]:
        """Return the values by key."""
        return dict(self._values)

    def __eq__(self, other: object) -> bool:
        return self._values == other._values if isinstance(other, Configuration) else NotImplemented

    def __hash__(self) -> int:
        return hash(frozenset(self._values.items()))

    def __repr__(self) -> str:
        return f"{type(self).__name__}.from_dict({self._values!r})"
