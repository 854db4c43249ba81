"""The stores of two operators, paired: rows of each, or the variables of a transformWithState.

Variables pair by name. Beside one Spark keeps what follows from it (keys by the end of their time to live, the lengths
of lists), in stores whose names begin with `$`; these are derived from it, and not paired.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from ...serializers.compatibility import Path
from ...serializers.spark_rows.pairing import (
    KEY,
    OF_MAP_KEYS,
    VALUE,
    Answers,
    FieldPair,
    Origin,
    Pairing,
    Reading,
    is_within,
)
from .columns import origins, path_of_values, reading_of
from .kinds import OF_VARIABLES, TIMERS, TIMERS_BY_TIME, derived_from

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ...serializers.spark_rows.spark_types import SparkType, StoreSchema
    from ..description import Computation

STEPS = {"value": "", "list": "[]", "map": "{}"}
"""What stands behind the name of a variable in the path of its values, by its kind."""


@attrs.frozen
class Variable:
    """A variable of a transformWithState.

    Attributes:
        kind: `value`, `list` or `map`.
        group: The type of the grouping key.
        user_key: The type of the keys of a map; None: it is none.
        value: The type of its values, without their deadlines.
        expires: Whether its entries have a time to live.
    """

    kind: str
    group: SparkType
    user_key: SparkType | None
    value: SparkType
    expires: bool

    @property
    def indexes(self) -> tuple[str, ...]:
        """The words in the names of the stores that Spark keeps beside it; a counter of rows only if none expire."""
        if self.kind == "list":
            return ("ttl", "min", "count") if self.expires else ("rowCounter",)
        return ("ttl",) if self.expires else ()

    @classmethod
    def of(cls, name: str, stores: Mapping[str, StoreSchema]) -> Variable:
        """Return the variable that a store has, by its types and by the stores that Spark keeps beside it."""
        key, value = stores[name].key, stores[name].value
        beside = {f"${word}_{name}" for word in ("ttl", "min", "count", "rowCounter")} & {*stores}
        expires = value.names[1:] == ("ttlExpirationMs",) and bool(beside & {f"$ttl_{name}", f"$min_{name}"})
        of_value = value.fields[0].type if expires else value
        if key.names[1:] == ("userKey",):
            return cls("map", key.fields[0].type, key.fields[1].type, of_value, expires)
        is_list = bool(beside & {f"$rowCounter_{name}", f"$count_{name}"})
        return cls("list" if is_list else "value", key, None, of_value, expires)


@attrs.frozen
class StorePair:
    """A store that both operators have.

    Attributes:
        store: Its name in the new query.
        source: Its name in the old one.
        parts: What becomes of the parts of its entries: key and value, of a map also its own key.
        reading: Whether names say which stored fields are which.
        variables: The variable before and after, if it is one.
    """

    store: str
    source: str
    parts: tuple[FieldPair, ...]
    reading: Reading
    variables: tuple[Variable, Variable] | None = None


@attrs.frozen
class OperatorPair:
    """The stores of two operators.

    Attributes:
        was: The old operator.
        becomes: The new operator.
        stores: The stores that both have.
        gone: The names of those that the new one does not have.
        added: The names of those that the old one does not have.
        renames: The stored paths of fields by their new ones: what is said, and what follows from what both compute.
    """

    was: Computation
    becomes: Computation
    stores: tuple[StorePair, ...]
    gone: tuple[str, ...]
    added: tuple[str, ...]
    renames: Mapping[str, str]


def pair_stores(
    was: Computation,
    becomes: Computation,
    answers: Answers | None = None,
    *,
    is_by_name: bool = False,
    accepts_otherwise: bool = False,
) -> OperatorPair:
    """Return what becomes of all that an operator keeps.

    Args:
        was: The old operator, with what it computes where that is known.
        becomes: The new one.
        answers: What is said of fields.
        is_by_name: Whether entries are in avro: Spark reads those of variables by the names of fields.
        accepts_otherwise: Whether a field goes on from one that is computed from something else.
    """
    answers = answers or Answers()
    is_processor = was.kind in OF_VARIABLES
    sources = _sources(was, becomes, answers)
    renames = dict(answers.renames)
    stores = []
    for store, source in sources.items():
        known = dict(_known(store, was, becomes, answers))
        renames = {path: one.source or path for path, one in known.items() if one.source or accepts_otherwise} | renames
        clear = becomes.columns.get(store, {}) if was.is_known and not is_processor else ()
        values = path_of_values(store, was.kind)
        pairing = Pairing(
            answers,
            reading_of(was.kind, was.stores, becomes.stores, store, is_by_name=is_by_name and is_processor),
            known,
            {_under(values, path) for path in clear},
            accepts_otherwise,
        )
        old, new = was.stores[source], becomes.stores[store]
        if not is_processor:
            rows = pairing.pair(old.key, new.key, KEY), pairing.pair(old.value, new.value, values)
            stores.append(StorePair(store, source, rows, pairing.reading))
        elif store in TIMERS:
            group = pairing.pair(old.key.fields[0].type, new.key.fields[0].type, KEY)
            stores.append(StorePair(store, source, (group,), pairing.reading))
        else:
            variables = Variable.of(source, was.stores), Variable.of(store, becomes.stores)
            parts = _of_variable(pairing, store, source, *variables)
            stores.append(StorePair(store, source, parts, pairing.reading, variables))
    used = {*sources.values()}
    gone = (one for one in was.stores if one not in used and not _is_derived(one, was, becomes))
    added = (one for one in becomes.stores if one not in sources and not _is_derived(one, was, becomes))
    return OperatorPair(was, becomes, tuple(stores), tuple(gone), tuple(added), renames)


def _sources(was: Computation, becomes: Computation, answers: Answers) -> dict[str, str]:
    """Return the old stores of the new ones, by name."""
    if was.kind not in OF_VARIABLES:
        return {name: name for name in becomes.stores if name in was.stores}
    old, new = ({name for name in of.stores if name[:1] != "$" or name in TIMERS} for of in (was, becomes))
    said = {name: of for name, of in answers.renames.items() if name in new}
    taken = {*said.values()}
    by_name = {name: name for name in becomes.stores if name in new and name not in taken}
    return {name: of for name, of in (by_name | said).items() if of in old}


def _is_derived(store: str, *operators: Computation) -> bool:
    """Whether Spark keeps a store beside a variable."""
    variable = derived_from(store) or TIMERS_BY_TIME.get(store, "")
    return bool(variable) and any(variable in one.stores for one in operators if one.kind in OF_VARIABLES)


def _known(store: str, was: Computation, becomes: Computation, answers: Answers) -> Iterator[tuple[str, Origin]]:
    """Yield what is known of both sides of a store, by the path of the new field, where nothing is said of that."""
    said = {*answers.renames, *answers.filled, *answers.converted}
    values = path_of_values(store, was.kind)
    for one in origins(store, was, becomes):
        if was.kind in OF_VARIABLES and not one.path.is_within(KEY):
            continue  # what a variable has comes from the code of its processor
        path, source = (_under(values, each) for each in (one.path, one.source))
        if not is_within(path, said):
            yield path, attrs.evolve(one, path=path, source=source)


def _under(values: str, path: str) -> str:
    """Return the path of a column as options say it."""
    return values + path.removeprefix(VALUE) if Path(path).is_within(VALUE) else path


def _of_variable(pairing: Pairing, name: str, source: str, old: Variable, new: Variable) -> tuple[FieldPair, ...]:
    """Return what becomes of the grouping key, of the keys of a map, and of the values."""
    key = pairing.pair(old.group, new.group, KEY)
    if old.kind != new.kind:
        return (key,)
    step = STEPS[old.kind]
    value = pairing.pair(old.value, new.value, f"{name}{step}", f"{source}{step}")
    if old.user_key is None or new.user_key is None:
        return (key, value)
    return (key, pairing.pair(old.user_key, new.user_key, name + OF_MAP_KEYS, source + OF_MAP_KEYS), value)
