"""The options of commands on a checkpoint of Spark: those of the new query, and what types do not say of its state."""

from __future__ import annotations

import functools
import json
from typing import TYPE_CHECKING, Any, TypeVar, cast

import attrs
import click

from .options import search_here

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..compat.queries.changes import FieldChanges

F = TypeVar("F", bound="Callable[..., Any]")


@attrs.frozen
class QueryOptions:
    """The options of a check of a Spark query.

    Attributes:
        query: The new query, as `module:function`.
        was: The old query, likewise, or "".
        accept: Rules whose findings are accepted.
        require_recording: Whether a missing recording is status 4.
    """

    query: str = ""
    was: str = ""
    accept: tuple[str, ...] = ()
    require_recording: bool = False

    def __bool__(self) -> bool:
        return bool(self.query or self.was or self.accept or self.require_recording)


ONLY_OF_QUERIES = {"query", "was", "accept", "require_recording"}
"""The names of these arguments."""


def query_options(function: F) -> F:
    """Add the options of a check of a Spark query; the command receives them as one argument `of_query`."""

    @click.option(
        "--query", default="", metavar="MODULE:FUNCTION",
        help="With spark:CHECKPOINT: the function that builds the new query of Spark, and returns its DataFrame or its"
        " writer before start(). Spark plans the query; nothing is started.",
    )  # fmt: skip
    @click.option(
        "--was", default="", metavar="MODULE:FUNCTION",
        help="The function that builds the query which wrote the checkpoint, from the old code: also FILE.py:FUNCTION,"
        " of another checkout. Or the file in state_history/queries that describes it.",
    )  # fmt: skip
    @click.option(
        "--accept", multiple=True, metavar="RULE",
        help="A rule whose findings are meant: SPK-10, SPK-12, SPK-13, SPK-15; or SPK-21:FUNCTION for a function whose"
        " code changed. Can be given several times.",
    )  # fmt: skip
    @click.option(
        "--require-recording", is_flag=True,
        help="Exit with 4 if no recording says which query wrote the checkpoint.",
    )  # fmt: skip
    @functools.wraps(function)
    def with_query(
        *args: Any, query: str, was: str, accept: tuple[str, ...], require_recording: bool, **rest: Any
    ) -> Any:
        return function(*args, of_query=QueryOptions(query, was, accept, require_recording), **rest)

    return with_query  # type: ignore[return-value]


@attrs.frozen
class SparkChanges:
    """The options that only a checkpoint of Spark takes.

    Attributes:
        fields: What types do not say, by the number of the operator: renames, fills, merges, converters by path.
        variables: The variables that are dropped, by the number of the operator.
        operators: The new numbers of old operators; None: the state is dropped.
        drop_uncommitted: Whether a batch that is not committed is left out.
        new_query_id: Whether the copy gets a query id of its own.
    """

    fields: dict[int, dict[str, dict[str, Any]]]
    variables: dict[int, list[str]]
    operators: dict[int, int | None]
    drop_uncommitted: bool
    new_query_id: bool

    def of_fields(self) -> dict[int, FieldChanges]:
        """Return what types do not say; the functions of converters are imported.

        Raises:
            JobNotFound: There is no such function.
        """
        from ..compat.queries.changes import FieldChanges

        found = {}
        for operator in {**self.fields, **self.variables}:
            changes = self.fields.get(operator, {})
            places = changes.get("converters", {})
            functions = {path: _function(place) for path, place in places.items()}
            dropped = self.variables.get(operator, ())
            found[operator] = FieldChanges(**changes | {"converters": functions}, drops=dropped)
        return found


_REPEATED = "Can be given several times."
_OF_FIELDS = {
    "--rename-field": (
        "renames", "OPERATOR:OLD=NEW", f"A field that has a new name, such as 0:key.k=key.user. {_REPEATED}",
    ),
    "--fill": (
        "fills", "OPERATOR:PATH=JSON",
        f"What stored rows have in a new field, such as 0:value.count=0. {_REPEATED}",
    ),
    "--merge-field": (
        "merges", "OPERATOR:PATH=RULE",
        f"How the values of keys that become equal are merged: sum, min or max. {_REPEATED}",
    ),
    "--ttl": (
        "ttls", "OPERATOR:VARIABLE=MS",
        "When stored entries of a variable expire: so many milliseconds after the last batch, or with a sign, later or "
        "earlier than before, such as 0:count=+60000. " + _REPEATED,
    ),
    "--convert-field": (
        "converters", "OPERATOR:PATH=MODULE:FUNCTION",
        "A function that makes the new values of a field from the old ones, both as Arrow arrays. " + _REPEATED,
    ),
}  # fmt: skip
"""The options that say something of a field: the argument of `FieldChanges`, the form, and the help."""
_OF_OPERATORS = {
    "--keep-field": (
        "OPERATOR:PATH", f"A field that keeps the stored value of its name, such as 0:value.sum. {_REPEATED}",
    ),
    "--drop-variable": (
        "OPERATOR:VARIABLE",
        f"A variable that the new query does not have, and whose entries are dropped, such as 0:total. {_REPEATED}",
    ),
    "--map": (
        "OLD:NEW",
        "The number that an operator has in the new query, where it is not clear; 0: drops the state of operator 0. "
        + _REPEATED,
    ),
}  # fmt: skip
_SWITCHES = {
    "--new-query-id": "The copy gets a query id of its own, for a query that runs beside the old one.",
    "--drop-uncommitted": "Leave out a batch that is planned and not committed; sinks may then see rows twice.",
}


@attrs.frozen
class TypedOptions:
    """What the options of a migration of a checkpoint say, as it was typed: for plan files. Named as the arguments."""

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
    def given(cls) -> TypedOptions:
        """Return the options of the running command."""
        parameters = click.get_current_context().params
        return cls(**{field.name: parameters[field.name] for field in attrs.fields(cls)})

    @property
    def of_query(self) -> QueryOptions:
        """The options of the query."""
        return QueryOptions(self.query, self.was, self.accept, self.require_recording)

    @property
    def changes(self) -> SparkChanges:
        """What is said of the state; raises `UsageError`."""
        said = {kind: getattr(self, _argument(name)) for name, (kind, *_) in _OF_FIELDS.items()}
        return SparkChanges(
            _fields(said, self.keep_field),
            _variables(self.drop_variable),
            dict(map(_numbers, self.operator_map)),
            self.drop_uncommitted,
            self.new_query_id,
        )


def _argument(option: str) -> str:
    """Return the argument that an option is received as: `map` is Python's."""
    return "operator_map" if option == "--map" else option[2:].replace("-", "_")


OF_CHANGES = {_argument(name) for name in (*_OF_FIELDS, *_OF_OPERATORS, *_SWITCHES)}
"""The names of the arguments of these options."""


def spark_change_options(function: F) -> F:
    """Add the options for a checkpoint of Spark; the command receives them as `spark_changes`."""

    @functools.wraps(function)
    def with_changes(*args: Any, **given: Any) -> Any:
        said = {name: given.pop(name) for name in OF_CHANGES}
        return function(*args, spark_changes=TypedOptions(**said).changes, **given)

    decorated: Any = with_changes
    of_fields = {name: (form, told) for name, (_, form, told) in _OF_FIELDS.items()}
    for name, told in reversed(_SWITCHES.items()):
        decorated = click.option(name, is_flag=True, help=f"spark: only. {told}")(decorated)
    for name, (form, told) in reversed((of_fields | _OF_OPERATORS).items()):
        option = click.option(name, _argument(name), multiple=True, metavar=form, help=f"spark: only. {told}")
        decorated = option(decorated)
    return cast("F", decorated)


def _fields(said: dict[str, tuple[str, ...]], kept: tuple[str, ...]) -> dict[int, dict[str, dict[str, Any]]]:
    """Return what is said of fields, by the number of the operator and the argument of `FieldChanges`."""
    found: dict[int, dict[str, dict[str, Any]]] = {}
    for kind, texts in said.items():
        for text in texts:
            operator, path, value = _parted(text)
            if kind == "renames":
                path, value = value, path
            found.setdefault(operator, {}).setdefault(kind, {})[path] = _json(text, value) if kind == "fills" else value
    for number, path in map(_variable, kept):
        found.setdefault(number, {}).setdefault("renames", {})[path] = path
    return found


def _variables(dropped: tuple[str, ...]) -> dict[int, list[str]]:
    found: dict[int, list[str]] = {}
    for number, name in map(_variable, dropped):
        found.setdefault(number, []).append(name)
    return found


def _parted(text: str) -> tuple[int, str, str]:
    operator, _, rest = text.partition(":")
    path, _, said = rest.partition("=")
    if not operator.isdigit() or not path or not said:
        raise click.UsageError(f"{text!r} is not OPERATOR:PATH=…, such as 0:value.count=0")
    return int(operator), path, said


def _variable(text: str) -> tuple[int, str]:
    operator, _, name = text.partition(":")
    if not operator.isdigit() or not name:
        raise click.UsageError(f"{text!r} is not OPERATOR:NAME, such as 0:total")
    return int(operator), name


def _numbers(text: str) -> tuple[int, int | None]:
    old, colon, new = text.partition(":")
    if not (old.isdigit() and colon and (new.isdigit() or not new)):
        raise click.UsageError(
            f"{text!r} is not OLD:NEW, two numbers of operators, such as 0:1, or 0: to drop its state"
        )
    return int(old), int(new) if new else None


def _function(place: str) -> Any:
    from ..serializers.errors import JobNotFound
    from ..state.job import import_user_module

    module, _, name = place.rpartition(":")
    if not module or not name:
        raise JobNotFound(
            f"{place!r} does not name a function", advice="write module:function, such as clicks:to_total"
        )
    search_here()
    function = getattr(import_user_module(module), name, None)
    if not callable(function):
        raise JobNotFound(f"{module} has no function {name!r}", advice="name a function of the module")
    return function


def _json(text: str, said: str) -> Any:
    try:
        return json.loads(said)
    except ValueError as error:
        raise click.UsageError(f"{text!r}: {said!r} is no JSON (text stands in double quotes): {error}") from error
