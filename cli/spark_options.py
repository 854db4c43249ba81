"""The options of commands on a checkpoint of Spark: those of the new query, and what types do not say of its state."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import attrs
import click

from ..serializers.ways_out import Option, Told
from .options import search_here, together

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ..state.migration.queries.preparation import Said


@attrs.frozen
class SparkOptions:
    """What the options say of a checkpoint of Spark, as it was typed: also in plan files. Named as the arguments.

    Attributes:
        query: The new query, as `module:function`.
        like: A probe in the place of it.
        was: The old query, likewise, or "".
        accept: Rules whose findings are accepted.
        require_recording: Whether a missing recording is status 4.
        drop_uncommitted: Whether a batch that is not committed is left out.
        new_query_id: Whether the copy gets a query id of its own.
    """

    query: str = ""
    like: str = ""
    was: str = ""
    accept: tuple[str, ...] = ()
    require_recording: bool = False
    rename_field: tuple[str, ...] = ()
    fill: tuple[str, ...] = ()
    merge_field: tuple[str, ...] = ()
    ttl: tuple[str, ...] = ()
    convert_field: tuple[str, ...] = ()
    keep_field: tuple[str, ...] = ()
    drop_variable: tuple[str, ...] = ()
    operator_map: tuple[str, ...] = ()
    drop_uncommitted: bool = False
    new_query_id: bool = False

    @classmethod
    def given(cls) -> SparkOptions:
        """Return those of the running command."""
        parameters = click.get_current_context().params
        return cls(**{name: parameters[name] for name in attrs.fields_dict(cls) if name in parameters})

    def said(self) -> Said:
        """Return what they say of a migration; the functions of converters are imported.

        Raises:
            UsageError: A value has another form.
            JobNotFound: There is no such function.
        """
        told = (_parsed(option, text) for option in _OF_CHANGES for text in getattr(self, _argument(option.value)))
        said = said_by((*told, *(Told.of(Option.ACCEPT, rule) for rule in self.accept)))
        return attrs.evolve(said, drop_uncommitted=self.drop_uncommitted, new_query_id=self.new_query_id)


@attrs.frozen
class _Form:
    """The form of a value: how it is written, and how its parts are found."""

    words: str
    pattern: re.Pattern[str]


_FIELD = _Form("OPERATOR:PATH=…, such as 0:value.count=0", re.compile(r"(\d+):([^=]+)=(.+)", re.DOTALL))
_NAME = _Form("OPERATOR:NAME, such as 0:total", re.compile(r"(\d+):(.+)", re.DOTALL))
_NUMBERS = _Form("OLD:NEW, two numbers of operators, such as 0:1, or 0: to drop its state", re.compile(r"(\d+):(\d*)"))
_OF_CHANGES = {
    Option.RENAME_FIELD: (_FIELD, "OPERATOR:OLD=NEW", "A field that has a new name, such as 0:key.k=key.user."),
    Option.FILL: (_FIELD, "OPERATOR:PATH=JSON", "What stored rows have in a new field, such as 0:value.count=0."),
    Option.MERGE_FIELD: (
        _FIELD, "OPERATOR:PATH=RULE", "How the values of keys that become equal are merged: sum, min or max."
    ),
    Option.TTL: (
        _FIELD, "OPERATOR:VARIABLE=MS",
        (
            "When stored entries of a variable expire: so many milliseconds after the last batch, or with a sign, later"
            " or earlier than before, such as 0:count=+60000."
        ),
    ),
    Option.CONVERT_FIELD: (
        _FIELD, "OPERATOR:PATH=MODULE:FUNCTION",
        "A function that makes the new values of a field from the old ones, both as Arrow arrays.",
    ),
    Option.KEEP_FIELD: (
        _NAME, "OPERATOR:PATH", "A field that keeps the stored value of its name, such as 0:value.sum."
    ),
    Option.DROP_VARIABLE: (
        _NAME, "OPERATOR:VARIABLE",
        "A variable that the new query does not have, and whose entries are dropped, such as 0:total.",
    ),
    Option.MAP: (
        _NUMBERS, "OLD:NEW",
        "The number that an operator has in the new query, where it is not clear; 0: drops the state of operator 0.",
    ),
}  # fmt: skip
"""The options that say something of the state: the form of a value, how it is shown, and the help."""
_SWITCHES = {
    "--new-query-id": "The copy gets a query id of its own, for a query that runs beside the old one.",
    "--drop-uncommitted": "Leave out a batch that is planned and not committed; sinks may then see rows twice.",
}
_KINDS = {Option.MERGE_FIELD: "merges", Option.TTL: "ttls"}


def _argument(option: str) -> str:
    """Return the argument that an option is received as: `map` is Python's."""
    return "operator_map" if option == "--map" else option[2:].replace("-", "_")


ONLY_OF_QUERIES = {"query", "was", "accept", "require_recording"}
"""The names of the arguments that say which queries there are."""
OF_CHANGES = {_argument(name) for name in (*(option.value for option in _OF_CHANGES), *_SWITCHES)}
"""The names of the arguments that say what becomes of the state."""

query_options = together(
    click.option(
        "--query", default="", metavar="MODULE:FUNCTION",
        help="With spark:CHECKPOINT: the function that builds the new query of Spark, and returns its DataFrame or its"
        " writer before start(). Spark plans the query; nothing is started.",
    ),
    click.option(
        "--was", default="", metavar="MODULE:FUNCTION",
        help="The function that builds the query which wrote the checkpoint, from the old code: also FILE.py:FUNCTION,"
        " of another checkout. Or the file in state_history/queries that describes it.",
    ),
    click.option(
        "--accept", multiple=True, metavar="RULE",
        help="A rule whose findings are meant: SPK-10, SPK-12, SPK-13, SPK-15; or SPK-21:FUNCTION for a function whose"
        " code changed. Can be given several times.",
    ),
    click.option(
        "--require-recording", is_flag=True,
        help="Exit with 4 if no recording says which query wrote the checkpoint.",
    ),
)  # fmt: skip
spark_change_options = together(
    *(
        click.option(
            option.value, _argument(option.value), multiple=True, metavar=metavar,
            help=f"spark: only. {told} Can be given several times.",
        )
        for option, (_, metavar, told) in _OF_CHANGES.items()
    ),
    *(click.option(name, is_flag=True, help=f"spark: only. {told}") for name, told in _SWITCHES.items()),
)  # fmt: skip


def _parsed(option: Option, text: str) -> Told:
    form = _OF_CHANGES[option][0]
    found = form.pattern.fullmatch(text)
    if found is None:
        raise click.UsageError(f"{text!r} is not {form.words}")
    return Told(option, found.groups())


def said_by(told: Iterable[Told]) -> Said:
    """Return what options say of a migration, as data; the functions of converters are imported.

    Raises:
        UsageError: A value is no JSON.
        JobNotFound: There is no such function.
    """
    from ..compat.queries.changes import FieldChanges
    from ..state.migration.queries.preparation import Said

    fields: dict[int, dict[str, dict[str, Any]]] = {}
    operators: dict[int, int | None] = {}
    accept = []
    for one in told:
        if one.option is Option.ACCEPT:
            accept.append(one.values[0])
        elif one.option is Option.MAP:
            old, new = one.values
            operators[int(old)] = int(new) if new else None
        else:
            of_operator = fields.setdefault(int(one.values[0]), {})
            for kind, path, value in _changes(one):
                of_operator.setdefault(kind, {})[path] = value
    return Said({number: FieldChanges(**of) for number, of in fields.items()}, operators, tuple(accept))


def _changes(one: Told) -> Iterator[tuple[str, str, Any]]:
    """Yield the argument of `FieldChanges` that an option is, a path, and what is said of it."""
    _, path, *values = one.values
    if one.option is Option.RENAME_FIELD:
        yield "renames", values[0], path
    elif one.option is Option.KEEP_FIELD:
        yield "renames", path, path
    elif one.option is Option.DROP_VARIABLE:
        yield "drops", path, None
    elif one.option is Option.FILL:
        yield "fills", path, _json(one, values[0])
    elif one.option is Option.CONVERT_FIELD:
        yield "converters", path, _function(values[0])
    else:
        yield _KINDS[one.option], path, values[0]


def _function(place: str) -> Any:
    from ..state.job import load_function

    search_here()
    return load_function(place, advice="name a function of the module")


def _json(one: Told, said: str) -> Any:
    try:
        return json.loads(said)
    except ValueError as error:
        raise click.UsageError(f"{one}: {said!r} is no JSON (text stands in double quotes): {error}") from error
