"""The configuration of backends and checkpoints, by Flink's keys.

    call > Spark configuration (`spark.stateshift.KEY`) > environment (`STATESHIFT_KEY`) > `[tool.stateshift]`
        > Flink's `config.yaml` (in the local environment only)

In an environment variable a key is in upper case, with `_` for dots and hyphens. A key that cannot take effect is
accepted with a warning, or refused; an unknown key is an error. `options.toml` has all keys.
"""

from __future__ import annotations

import difflib
import os
import re
import tomllib
import warnings
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from ...serializers.errors import DeclarationError, LibraryNotFound, located, shown
from ...serializers.wording import meant
from ..project_settings import OPTION_ROOTS, find_settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

SPARK_PREFIX, VARIABLE_PREFIX = "spark.stateshift.", "STATESHIFT_"
FLINK_FOLDER, FLINK_FILE = "FLINK_CONF_DIR", "config.yaml"
"""The variable that names the folder of Flink's configuration, and the file in it."""
_SURELY = 0.9
"""How alike a key without effect is to one with an effect, by `difflib`, where it is a slip. None of Flink is."""

_UNITS = {"": 0, "b": 0, "bytes": 0, "k": 10, "kb": 10, "m": 20, "mb": 20, "g": 30, "gb": 30, "t": 40, "tb": 40}
_LENGTHS = {
    name: length
    for length, names in (
        (1, ("", "ms", "milli", "millis", "millisecond", "milliseconds")),
        (1000, ("s", "sec", "secs", "second", "seconds")),
        (60_000, ("m", "min", "minute", "minutes")),
        (3_600_000, ("h", "hour", "hours")),
        (86_400_000, ("d", "day", "days")),
    )
    for name in names
}
_MEMORY = re.compile(r"([0-9]+)\s*([a-z]*)")


@attrs.frozen
class Option:
    """A key of Flink's.

    Attributes:
        key: The key; with `*` at its end it stands for all keys that begin so.
        type: boolean, number, decimal, fraction, memory, duration, choice, list or text.
        effect: done, local (by the local environment; elsewhere as warned), warned or refused.
        note: What is different from Flink, or why the key has no effect.
        default: The default as text; "": there is none.
        former: Earlier names of the key; of one with `*` also other keys of which the same holds.
        choices: The values of a choice.
        harmless: The value with which a refused key is accepted.
    """

    key: str
    type: str
    effect: str
    note: str = ""
    default: str = ""
    former: tuple[str, ...] = attrs.field(default=(), converter=tuple)
    choices: tuple[str, ...] = attrs.field(default=(), converter=tuple)
    harmless: str = ""

    def read(self, value: object) -> Any:
        """Return a value of the type of the option: memory in bytes, durations in ms, lists as tuples.

        Raises:
            DeclarationError: The value does not have the type.
        """
        text = str(value).lower() if isinstance(value, bool) else str(value).strip()
        try:
            return _READERS[self.type](text, self.choices)
        except (ValueError, KeyError) as error:
            raise DeclarationError(
                f"{self.key} is {shown(value)}, which is not a {self.type}",
                advice=f"choose one of {', '.join(self.choices)}"
                if self.choices
                else f"such as {_EXAMPLES[self.type]}",
            ) from error


def _read_memory(text: str, _: tuple[str, ...]) -> int:
    found = _MEMORY.fullmatch(text.lower())
    if found is None:
        raise ValueError(text)
    return int(found[1]) << _UNITS[found[2]]


def _read_duration(text: str, _: tuple[str, ...]) -> int:
    found = _MEMORY.fullmatch(text.lower())
    if found is None:
        raise ValueError(text)
    return int(found[1]) * _LENGTHS[found[2]]


def _read_fraction(text: str, _: tuple[str, ...]) -> float:
    number = float(text)
    if not 0 <= number <= 1:
        raise ValueError(text)
    return number


_READERS: dict[str, Callable[[str, tuple[str, ...]], Any]] = {
    "boolean": lambda text, _: {"true": True, "false": False}[text.lower()],
    "number": lambda text, _: int(text),
    "decimal": lambda text, _: float(text),
    "fraction": _read_fraction,
    "memory": _read_memory,
    "duration": _read_duration,
    "choice": lambda text, choices: {choice.lower(): choice for choice in choices}[text.lower()],
    "list": lambda text, _: tuple(part.strip() for part in text.split(";") if part.strip()),
    "text": lambda text, _: text,
}
_EXAMPLES = {
    "boolean": "true",
    "number": "4",
    "decimal": "10.0",
    "fraction": "0.5",
    "memory": "64 mb",
    "list": "A;B",
} | {"duration": "10 s"}


@cache
def options() -> dict[str, Option]:
    """Return all options by key."""
    table = tomllib.loads(resources.files(__package__).joinpath("options.toml").read_text(encoding="utf-8"))
    return {key: Option(key, **facts) for key, facts in table.items()}


@cache
def _names() -> dict[str, Option]:
    """Return the options by all their names, the earlier ones included."""
    return {name: option for option in options().values() for name in (option.key, *option.former)}


def find_option(key: str) -> Option:
    """Return the option of a key.

    Raises:
        DeclarationError: There is none; the message has the nearest one.
    """
    names = _names()
    if key in names:
        return names[key]
    option = next((option for name, option in names.items() if name.endswith("*") and key.startswith(name[:-1])), None)
    has_effect = [name for name, known in names.items() if known.effect != "warned"]
    if option is None or (option.effect == "warned" and difflib.get_close_matches(key, has_effect, 1, _SURELY)):
        raise DeclarationError(f"{key!r} is not a key of the configuration{meant(key, names)}")
    return option


@attrs.frozen
class Configuration:
    """Values by key. Created with `of`.

    Attributes:
        values: The values that were set, as the types of their options.
    """

    values: Mapping[str, Any] = attrs.field(factory=dict)

    @classmethod
    def of(
        cls,
        call: Mapping[str, Any] | None = None,
        *,
        spark: Mapping[str, str] | None = None,
        environment: Mapping[str, str] | None = None,
        start: Path | None = None,
        is_local: bool = False,
    ) -> Configuration:
        """Read the configuration from all its places; the earlier argument wins.

        Args:
            call: Values by key.
            spark: The configuration of a Spark session; only keys that begin with `spark.stateshift.` are read.
            environment: Variables; by default those of the process.
            start: Where the search for a `pyproject.toml` begins, which goes upwards; by default the working folder.
            is_local: Whether it is that of the local environment.

        Raises:
            DeclarationError: A key is unknown or refused, or a value does not have the type of its key.
        """
        found: dict[str, Any] = {}
        settings = find_settings(Path.cwd() if start is None else start)
        variables = os.environ if environment is None else environment
        folder = variables.get(FLINK_FOLDER) if is_local else None
        places = (
            (f"{FLINK_FILE} of {FLINK_FOLDER}", {} if not folder else read_flink_file(Path(folder, FLINK_FILE))),
            ("[tool.stateshift]", {} if settings is None else dict(_flat(settings.values))),
            ("the environment", _of_environment(variables)),
            ("the Spark configuration", _of_spark(spark or {})),
            ("the call", call or {}),
        )
        for place, values in places:
            found.update(_checked(place, values, is_local=is_local))
        return cls(found)

    def updated(self, values: Mapping[str, Any], place: str = "the call", *, is_local: bool = False) -> Configuration:
        """Return the configuration with further values, which win; raises as `of`.

        Args:
            values: Values by key.
            place: Where they are from.
            is_local: As for `of`.
        """
        return Configuration({**self.values, **_checked(place, values, is_local=is_local)})

    def __getitem__(self, key: str) -> Any:
        """Return the value of a key; where it is not set its default, else None."""
        option = options()[key]
        default = option.read(option.default) if option.default else None
        return self.values.get(key, default)


def _checked(place: str, values: Mapping[str, Any], *, is_local: bool) -> dict[str, Any]:
    found, without = {}, dict[str, list[str]]()
    for key, value in values.items():
        try:
            option = find_option(key)
            read = option.read(value)
            if option.effect == "refused" and str(read).lower() != option.harmless.lower():
                raise DeclarationError(f"{key} is not supported: {option.note}")
        except DeclarationError as error:
            error.where.setdefault("configuration", place)
            raise
        if option.effect == "warned" or (option.effect == "local" and not is_local):
            without.setdefault(option.note, []).append(key)
        else:
            found[option.key] = read
    for note, keys in without.items():
        have = "has" if len(keys) == 1 else "have"
        warnings.warn(f"{', '.join(keys)} in {place} {have} no effect: {note}", UserWarning, stacklevel=4)
    return found


def read_flink_file(file: Path) -> dict[str, str]:
    """Return the values of Flink's configuration file by key, as text; a list has `;` between its items.

    A key may be written flat (`state.backend.type: rocksdb`), or as tables in tables.

    Raises:
        LibraryNotFound: PyYAML is not installed.
        DeclarationError: The file cannot be read, is no YAML of keys and values, or has a key twice.
    """
    try:
        import yaml  # type: ignore[import-untyped]
    except ImportError as error:
        raise LibraryNotFound(
            f"{file} is read by a library that is not installed: {error.name}", advice="pip install 'stateshift[yaml]'"
        ) from error

    def pairs(node: Any, key: str) -> Iterator[tuple[str, str]]:
        if isinstance(node, yaml.MappingNode):
            for name, value in node.value:
                yield from pairs(value, f"{key}.{name.value}" if key else str(name.value))
        elif key:
            items = node.value if isinstance(node, yaml.SequenceNode) else [node]
            yield key, ";".join(str(item.value) for item in items)
        else:
            raise DeclarationError("it has no keys and values")

    found: dict[str, str] = {}
    with located(file=str(file)):
        try:
            root = yaml.compose(file.read_text(encoding="utf-8"), yaml.SafeLoader)
            for key, value in pairs(root, "") if root is not None else ():
                if key in found:
                    raise DeclarationError(f"it has {key} twice", advice="leave one of them out")
                found[key] = value
        except OSError as error:
            raise DeclarationError(
                f"it cannot be read: {error.strerror}",
                advice=f"name a file of Flink's {FLINK_FILE}, or unset {FLINK_FOLDER}",
            ) from error
        except (yaml.YAMLError, ValueError, RecursionError) as error:
            raise DeclarationError(f"not valid YAML: {error}") from error
    return found


def _flat(table: Mapping[str, Any], start: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the keys of the configuration in a table of TOML, where a dotted key is a table in a table."""
    for name, value in table.items():
        key = f"{start}{name}"
        if key.partition(".")[0] in OPTION_ROOTS:
            if isinstance(value, dict):
                yield from _flat(value, f"{key}.")
            else:
                yield key, value


def _of_spark(values: Mapping[str, str]) -> dict[str, str]:
    own = {key.removeprefix(SPARK_PREFIX): value for key, value in values.items() if key.startswith(SPARK_PREFIX)}
    return {key: value for key, value in own.items() if key.partition(".")[0] in OPTION_ROOTS}


def _of_environment(variables: Mapping[str, str]) -> dict[str, str]:
    known = {_variable(name): name for name in _names()}
    found = {}
    for variable, value in variables.items():
        if variable.startswith(tuple(f"{VARIABLE_PREFIX}{root.upper()}_" for root in OPTION_ROOTS)):
            if variable not in known:
                raise DeclarationError(
                    f"the environment variable {variable} is not a key of the configuration{meant(variable, known)}"
                )
            found[known[variable]] = value
    return found


def _variable(key: str) -> str:
    return VARIABLE_PREFIX + re.sub(r"[.-]", "_", key).upper()
