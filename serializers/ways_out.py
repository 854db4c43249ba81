"""What a person can do about a finding or an error, as data; the command line and Python each put it into words.

Most ways out are advice: a change of the code or of the data, in words. Others say what stateshift is to be told:
options, with their values.
"""

from __future__ import annotations

import enum
import json
from typing import TYPE_CHECKING, Final

import attrs

from .wording import repr_of, shell_word

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence


class Option(enum.Enum):
    """What stateshift can be told, by the name of the option on the command line."""

    ALLOW_ROOT = "--allow-root"
    TRUST = "--trust"
    TRUST_STORED_SERIALIZERS = "--trust-stored-serializers"
    RENAME_STATE = "--rename-state"
    RENAME_UID = "--rename-uid"
    DROP = "--drop"
    CONVERT = "--convert"
    ALLOW_EMPTY = "--allow-empty"
    LIKE = "--like"
    OLD_PLAN = "--old-plan"
    TEMPLATE = "--template"
    ALLOW_PARTIAL = "--allow-partial"
    ALLOW_STALE = "--allow-stale"
    KEEP_NEWEST = "--keep-newest"
    REPARTITION = "--repartition"
    MAX_PARALLELISM = "--max-parallelism"
    ALLOW = "--allow"
    """A loss, by its name."""
    WAS = "--was"
    REQUIRE_RECORDING = "--require-recording"
    DROP_UNCOMMITTED = "--drop-uncommitted"
    ACCEPT = "--accept"
    """The findings of a rule for Spark's queries."""
    MAP = "--map"
    FILL = "--fill"
    RENAME_FIELD = "--rename-field"
    KEEP_FIELD = "--keep-field"
    CONVERT_FIELD = "--convert-field"
    MERGE_FIELD = "--merge-field"
    TTL = "--ttl"
    DROP_VARIABLE = "--drop-variable"
    CHECKPOINT_ROOT = "--checkpoint-root"
    MAX_BAD_VALUES = "--max-bad-values"
    MERGE = "--merge"
    NO_SOURCE_DIGESTS = "--no-source-digests"
    PARALLELISM = "--parallelism"
    FORMAT = "--format"
    PY_FILES = "--py-files"
    TARGET_EXISTS = "--target-exists"


class Does(enum.Enum):
    """What a way out comes down to."""

    CHANGE = enum.auto()
    """Something else is declared, stored or asked for."""
    MIGRATE = enum.auto()
    """The state is migrated: the difference itself is done."""
    CONVERT = enum.auto()
    """A user function converts values."""


@attrs.frozen
class Told:
    """An option with its values.

    Attributes:
        option: What stateshift is told.
        values: The parts of the value, such as the old and the new name of a state; without them, the option is only
            mentioned if it takes some.
    """

    option: Option
    values: tuple[str, ...] = ()

    @classmethod
    def of(cls, option: Option, *values: object) -> Told:
        """Return an option with the given parts of its value."""
        return cls(option, tuple(map(str, values)))

    @property
    def is_whole(self) -> bool:
        """Whether it can be given as it is, and is not only mentioned."""
        return bool(self.values) or not _FORMS[self.option].takes_value

    def __str__(self) -> str:
        """Return it as the command line takes it."""
        form = _FORMS[self.option]
        return f"{self.option.value} {shell_word(form.word.format(*self.values))}" if self.values else self.option.value


@attrs.frozen
class WayOut:
    """One thing that a person can do about a finding or an error.

    Attributes:
        words: What it is, or what it is good for.
        told: What stateshift is told, if anything; all of it together.
        does: What it comes down to.
        command: The command that takes the options; "": the one that was run.
        is_ready: Whether it can be done as it stands. Otherwise its author has to decide it: a value is to be
            completed, or it may be the wrong one.
        is_choice: Whether each of the options is an example, and not all are meant together.
        more: What follows the options.
    """

    words: str
    told: tuple[Told, ...] = ()
    does: Does = Does.CHANGE
    command: str = attrs.field(default="", kw_only=True)
    is_ready: bool = attrs.field(default=True, kw_only=True)
    is_choice: bool = attrs.field(default=False, kw_only=True)
    more: str = attrs.field(default="", kw_only=True)

    @classmethod
    def telling(cls, words: str, option: Option, *values: object) -> WayOut:
        """Return that stateshift is told one thing."""
        return cls(words, (Told.of(option, *values),))

    def mentions(self, option: Option) -> bool:
        """Whether it tells stateshift something by this option."""
        return any(one.option is option for one in self.told)

    def __str__(self) -> str:
        return on_command_line(self)

    def __repr__(self) -> str:
        return repr_of(self, str(self))


def ways_out(given: Iterable[WayOut | str]) -> tuple[WayOut, ...]:
    """Return ways out; a text is one in words alone."""
    return tuple(one if isinstance(one, WayOut) else WayOut(one) for one in given)


def by_migration(how: str = "", *told: Told) -> WayOut:
    """Return that the state is migrated, and what becomes of its values."""
    return WayOut(f"migrate the state: {how}" if how or told else "migrate the state", told, Does.MIGRATE)


def on_command_line(way: WayOut) -> str:
    """Return a way out as the command line is told it."""
    listed = _list([_as_example(one) if way.is_choice else str(one) for one in way.told], is_choice=way.is_choice)
    return _joined(way, " ".join(filter(None, (way.command, listed))))


def in_python(way: WayOut) -> str:
    """Return a way out as a caller in Python passes it."""
    groups = [[one] for one in way.told] if way.is_choice else [way.told]
    command = way.command if way.does is Does.CHANGE and not way.told else ""  # Python has no other word for it
    return _joined(way, _list(list(map(_arguments, groups)), is_choice=True) or command)


def in_words(way: WayOut) -> str:
    """Return a way out for a place where what stateshift is told stands beside it."""
    return (way.words.removesuffix(":") if way.told or way.command else way.words) + way.more


def _joined(way: WayOut, told: str) -> str:
    return f"{way.words} {told}{way.more}" if told else in_words(way)


def _list(told: Sequence[str], *, is_choice: bool) -> str:
    if not is_choice:
        return " ".join(told)
    return " or ".join(filter(None, (", ".join(told[:-1]), *told[-1:])))


def _as_example(one: Told) -> str:
    note = _FORMS[one.option].note
    return f"{one} ({note})" if note else str(one)


def _arguments(told: Iterable[Told]) -> str:
    """Return the arguments that stand for options; those of a migration of savepoints are in one object."""
    options, others = dict[str, list[str]](), dict[str, list[str]]()
    changes: dict[str, dict[str, list[str]]] = {}
    for one in told:
        form = _FORMS[one.option]
        if not one.values and form.takes_value:
            others[one.option.value.removeprefix("--").replace("-", "_")] = []  # it is only mentioned
            continue
        if form.of is _Of.FIELDS:
            operator, *values = one.values
            changes.setdefault(operator, {}).setdefault(form.argument, []).append(form.item(values))
            continue
        items = (options if form.of is _Of.OPTIONS else others).setdefault(form.argument, [])
        items += [form.item(one.values)] if one.values else []
    made = {operator: f"FieldChanges({_filled(of)})" for operator, of in changes.items()}
    return ", ".join(
        filter(None, (
            f"options=MigrationOptions({_filled(options)})" if options else "",
            f"changes={{{', '.join(f'{operator}: {of}' for operator, of in made.items())}}}" if made else "",
            _filled(others),
        ))
    )  # fmt: skip


def _filled(arguments: dict[str, list[str]]) -> str:
    return ", ".join(argument.replace("{}", ", ".join(items)) for argument, items in arguments.items())


def _quoted(text: str) -> str:
    return '"' + "".join(r"\"" if each == '"' else repr(each)[1:-1] for each in text) + '"'


def _word(values: Sequence[str]) -> str:
    return _quoted("=".join(values))


def _renamed(values: Sequence[str]) -> str:
    return f"{_quoted(values[-1])}: {_quoted(values[0])}"


def _by_path(values: Sequence[str]) -> str:
    return f"{_quoted(values[0])}: {_quoted(values[1])}"


class _Of(enum.Enum):
    """What an argument belongs to in Python."""

    CALL = enum.auto()
    OPTIONS = enum.auto()
    FIELDS = enum.auto()


@attrs.frozen
class _Form:
    """An option as it is written.

    Attributes:
        argument: The argument in Python; `{}` are its items.
        of: What the argument belongs to.
        word: How the parts of a value make a word of the command line; "": it takes no value.
        item: Returns the parts of a value as an item in Python.
        note: What is to be known about the value on the command line, where it is an example.
    """

    argument: str
    of: _Of = _Of.OPTIONS
    word: str = "{}"
    item: Callable[[Sequence[str]], str] = _word
    note: str = ""

    @property
    def takes_value(self) -> bool:
        """Whether the option stands for nothing without a value."""
        return bool(self.word)


_OF_FIELD: Final = "{}:{}={}"
_FORMS: Final = {
    Option.ALLOW_ROOT: _Form("allow_roots=[{}]", _Of.CALL),
    Option.TRUST: _Form("trust=({},)"),
    Option.TRUST_STORED_SERIALIZERS: _Form("trust_stored_serializers=True", word=""),
    Option.RENAME_STATE: _Form("edits=parse_edits(rename_states=[{}])", word="{}={}"),
    Option.RENAME_UID: _Form("edits=parse_edits(rename_uids=[{}])", word="{}={}"),
    Option.DROP: _Form("edits=parse_edits(drop=[{}])"),
    Option.CONVERT: _Form("edits=parse_edits(convert=[{}])"),
    Option.ALLOW_EMPTY: _Form("policy=Policy(allow_empty=[{}])"),
    Option.LIKE: _Form('like="…"', _Of.CALL),
    Option.OLD_PLAN: _Form('old="…"', _Of.CALL, "{}"),
    Option.TEMPLATE: _Form('template=Savepoint.open("…").describe()', _Of.CALL),
    Option.ALLOW_PARTIAL: _Form("allows_partial=True", _Of.CALL, ""),
    Option.ALLOW_STALE: _Form("allows_stale=True", _Of.CALL, ""),
    Option.KEEP_NEWEST: _Form("keeps_newest=True", _Of.CALL, ""),
    Option.REPARTITION: _Form("repartition=Repartition({})", word=""),
    Option.MAX_PARALLELISM: _Form("repartition=Repartition({})", item=lambda values: f"max_parallelism={values[0]}"),
    Option.ALLOW: _Form("guard=Guard(allow=[{}])", _Of.CALL),
    Option.WAS: _Form("was=old_query", _Of.CALL),
    Option.REQUIRE_RECORDING: _Form("require_recording=True", _Of.CALL, ""),
    Option.DROP_UNCOMMITTED: _Form("drop_uncommitted=True", _Of.CALL, ""),
    Option.ACCEPT: _Form("accept=({},)", _Of.CALL),
    Option.MAP: _Form("operators={{}}", _Of.CALL, "{}:{}", lambda values: f"{values[0]}: {values[1] or None}"),
    Option.FILL: _Form(
        "fills={{}}", _Of.FIELDS, _OF_FIELD, lambda values: f"{_quoted(values[0])}: {json.loads(values[1])!r}",
        "JSON; null for none",
    ),
    Option.RENAME_FIELD: _Form("renames={{}}", _Of.FIELDS, _OF_FIELD, _renamed),
    Option.KEEP_FIELD: _Form("renames={{}}", _Of.FIELDS, "{}:{}", _renamed),
    Option.CONVERT_FIELD: _Form(
        "converters={{}}", _Of.FIELDS, _OF_FIELD, lambda values: f"{_quoted(values[0])}: function"
    ),
    Option.MERGE_FIELD: _Form("merges={{}}", _Of.FIELDS, _OF_FIELD, _by_path, "or min, or max"),
    Option.TTL: _Form("ttls={{}}", _Of.FIELDS, _OF_FIELD, _by_path, "milliseconds after the last batch"),
    Option.DROP_VARIABLE: _Form("drops=[{}]", _Of.FIELDS, "{}:{}", lambda values: _quoted(values[0])),
    Option.CHECKPOINT_ROOT: _Form(
        "allow_roots=[{}]", _Of.CALL, "{}={}", lambda values: f"({_quoted(values[0])}, {_quoted(values[1])})"
    ),
    Option.MAX_BAD_VALUES: _Form("max_bad_values={}", item=lambda values: values[0]),
    Option.MERGE: _Form(
        "repartition=Repartition(merge={{}})", word="{}={}", item=lambda values: f"{_quoted(values[0])}: function"
    ),
    Option.NO_SOURCE_DIGESTS: _Form("source_digests=False", word=""),
    Option.PARALLELISM: _Form("parallelism={}", item=lambda values: values[0]),
    Option.FORMAT: _Form("format=SavepointFormatType.{}", item=lambda values: values[0].upper()),
    Option.PY_FILES: _Form("py_files=[{}]", _Of.CALL),
    Option.TARGET_EXISTS: _Form(
        "target_exists=IfTargetExists.{}", _Of.CALL, item=lambda values: values[0].upper()
    ),
}  # fmt: skip
"""Each option as the command line and Python write it."""
