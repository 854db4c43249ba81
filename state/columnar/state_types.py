"""The types of a state that is written from rows: from the job, from the stored state, or inferred from the columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from ...compat.description import OPERATOR_ID, StateDescription, StateKind
from ...compat.lazy_tables import state_in
from ...serializers.errors import DeclarationError, IncompatibleState, StateNotFound, UnsupportedFormat
from ...serializers.flink.namespaces import GlobalWindowSerializer, VoidNamespaceSerializer
from ...serializers.records.columns import column_of_field
from ...serializers.rows.serializers import RowSerializer
from ...serializers.ways_out import Option, Told, WayOut
from ...serializers.wording import meant
from ..job import Job, Operator
from ..key_groups import has_stable_hash
from ..runtime.descriptors import DESCRIPTORS
from .bootstrap import StateColumns
from .column_types import inferred_serializer, structs_in, unscaled_in
from .row_sources import find_keyed_state, find_operator

if TYPE_CHECKING:
    import pyarrow as pa

    from ...serializers.serializer import TypeSerializer
    from ..runtime.descriptors import StateDescriptor
    from ..savepoint.reader import SavepointOperator
    from ..savepoint.states import SavepointState
    from .row_sources import ResolvedSource

KEY, NAMESPACE, USER_KEY, VALUE = "key", "namespace", "user_key", "value"
KEY_GROUP = "key_group"
FROM_ROWS = tuple(kind for kind in StateKind if kind.has_values)
"""The kinds of state that can be written from rows."""


@attrs.frozen(kw_only=True)
class Wanted:
    """The options of a write that concern the state.

    Attributes:
        operator: The uid or id of the operator.
        state: The name of the state.
        overwrite: Whether the state's entries are replaced; else rows are added to them.
        job: The job that declares the types; None for the stored types, or those of the columns.
        kind: The kind of an undeclared new state; None for map state if there is a user key column, else value state.
    """

    operator: str
    state: str
    overwrite: bool
    job: Job | None = None
    kind: StateKind | None = None


def columns_of(wanted: Wanted, state: StateDescription, schema: pa.Schema) -> StateColumns:
    """Return the columns of a state, after checking that the schema has exactly these.

    Raises:
        DeclarationError: A column is missing or superfluous; or the state is of another kind than the options say.
    """
    kind = state.kind
    if wanted.kind not in {None, kind}:
        raise DeclarationError(
            f"the state is a {kind} state, but the option kind is {wanted.kind}", advice="leave the option out"
        )
    _require_columns(kind, schema, is_namespaced=_is_namespaced(state))
    user_key = USER_KEY if kind.has_user_keys else None
    namespace = NAMESPACE if _is_namespaced(state) else ""
    return StateColumns(wanted.operator, wanted.state, key_by=KEY, namespace=namespace, value=VALUE, user_key=user_key)


def _is_namespaced(state: StateDescription) -> bool:
    if state.namespace is None:
        return False
    return not isinstance(state.namespace.new_side(), VoidNamespaceSerializer | GlobalWindowSerializer)


def _require_columns(kind: StateKind, schema: pa.Schema, *, is_namespaced: bool = False) -> None:
    needed = [KEY, *([NAMESPACE] if is_namespaced else []), *([USER_KEY] if kind.has_user_keys else []), VALUE]
    there = ", ".join(schema.names) or "none"
    missing = next((name for name in needed if name not in schema.names), None)
    if missing is not None:
        ways = f'rename one: .withColumnRenamed("…", "{missing}"), or .select(…, F.struct(…).alias("{missing}"))'
        if missing == USER_KEY:
            ways = "a map state has a row for each key and user key; F.explode makes such rows of a column of maps"
        raise DeclarationError(f"there is no column {missing!r}; the columns are {there}", advice=ways)
    strange = next((name for name in schema.names if name not in {*needed, KEY_GROUP}), None)
    if strange is not None:
        what = f"the columns of this {kind} state are {', '.join(needed)}"
        raise DeclarationError(
            f"the column {strange!r} is not part of the state: {what}",
            advice=f'drop it: .drop("{strange}"); parts of a value go into one column: F.struct(…).alias("value")',
        )


def new_job(wanted: Wanted, schema: pa.Schema) -> Job:
    """Return the job of a new savepoint: the declared one, or one with types inferred from the columns."""
    if wanted.job is not None:
        return wanted.job
    _require_columns(_kind(wanted, schema), schema)
    key = inferred_serializer(schema.field(KEY).type, KEY, is_key=True)
    return Job([_operator_of(wanted.operator, key, _inferred_state(wanted, schema))])


def added_operator(wanted: Wanted, schema: pa.Schema, stored: SavepointOperator | None) -> Operator:
    """Return the operator, with the one state, that is added to a savepoint which has no keyed state for it.

    Raises:
        StateNotFound: No option says that it is new; or the job does not have it; or it is operator state.
    """
    if wanted.job is not None:
        _, operator = find_operator(wanted.job, wanted.operator)
        find_keyed_state(operator, wanted.state)
        states = [state for state in operator.states if state.name == wanted.state]
        return Operator(uid=operator.uid, operator_id=operator.operator_id, key=operator.key, states=states)
    if stored is not None:
        _refuse_operator_state(wanted, stored)
    what = "operator" if stored is None else "keyed state in the operator"
    _require_meant(wanted, f"{what} {wanted.operator!r}")
    return new_job(wanted, schema).operators[0]


def _require_meant(wanted: Wanted, what: str, there: str = "") -> None:
    """Raise unless the kind option says that something is new: the name may only be misspelt."""
    if wanted.kind is None:
        raise StateNotFound(
            f"the base has no {what}{there}",
            advice="to add it, declare it in a job (option job), or give its kind (option kind: "
            f"{', '.join(FROM_ROWS)}); its types are then those of the columns",
        )


def _refuse_operator_state(wanted: Wanted, stored: SavepointOperator) -> None:
    if any(state.name == wanted.state and not state.kind.is_keyed for state in stored.states):
        raise StateNotFound(
            f"{wanted.state!r} is operator state, which has no keys and cannot be made from rows",
            advice=WayOut("a migration can change its type:", command="stateshift migrate"),
        )


def _operator_of(name: str, key: TypeSerializer[Any], state: StateDescriptor) -> Operator:
    is_id = OPERATOR_ID.fullmatch(name) is not None
    return Operator(operator_id=name, key=key, states=[state]) if is_id else Operator(name, key=key, states=[state])


def _kind(wanted: Wanted, schema: pa.Schema) -> StateKind:
    return wanted.kind or (StateKind.MAP if USER_KEY in schema.names else StateKind.VALUE)


def _inferred_state(wanted: Wanted, schema: pa.Schema) -> StateDescriptor:
    kind = _kind(wanted, schema)
    _require_columns(kind, schema)
    make: Any = DESCRIPTORS.get(kind)
    if make is None:
        raise DeclarationError(
            f"a state of the kind {kind} cannot be made from rows", advice=f"use one of {', '.join(FROM_ROWS)}"
        )
    value: Any = inferred_serializer(schema.field(VALUE).type, VALUE)
    if kind.has_elements:
        value = getattr(value, "element", None)
        if value is None:
            raise DeclarationError(
                "the rows of a list state are whole lists, but the column 'value' does not hold arrays",
                advice='F.array_agg("…").alias("value") makes them',
            )
    before: list[Any] = [None] if kind.row.takes_function else []
    if kind.has_user_keys:
        before = [inferred_serializer(schema.field(USER_KEY).type, USER_KEY)]
    descriptor: StateDescriptor = make(wanted.state, *before, value)
    return descriptor


def changed_state(
    wanted: Wanted, operator: SavepointOperator, schema: pa.Schema
) -> tuple[TypeSerializer[Any], StateDescription]:
    """Return the types of a state in a stored operator that has keyed state.

    Returns:
        The serializer of the key, and the description of the new state.

    Raises:
        StateNotFound: There is no such state, and no option says that it is new; or it is operator state.
        IncompatibleState: The job declares another key type, or another type for a state whose entries are kept.
        DeclarationError: The keys have no hash that is the same in every JVM; or the state is migrated lazily.
        UnsupportedFormat: The keyed states of the operator cannot be read, or some of its subtasks are finished.
    """
    key = _stored_key(operator)
    if any(state_in(state.name) == wanted.state != state.name for state in operator.states if state.kind.is_keyed):
        raise DeclarationError(
            f"the state {wanted.state!r} is migrated lazily, and rows would change only one of its tables",
            advice="finish the migration of the base first: `stateshift migrate` with the types to which it goes",
        )
    stored = next((state for state in operator.states if state.name == wanted.state and state.kind.is_keyed), None)
    if stored is None:
        _refuse_operator_state(wanted, operator)
    declared = None
    if wanted.job is not None:
        _, in_code = find_operator(wanted.job, wanted.operator)
        _, declared = find_keyed_state(in_code, wanted.state)
        _require_key(operator, in_code)
    if stored is not None and not (wanted.overwrite and declared is not None):
        if declared is not None:
            _require_same(stored, declared)
        if stored.unsupported:
            raise UnsupportedFormat(
                f"values of the state cannot be written: {stored.unsupported}",
                advice="overwrite it with types of your own: option job",
            )
        return key, stored.description
    if declared is not None:
        return key, declared
    names = [one.name for one in operator.states if one.kind.has_values]
    there = f"; the keyed states of the operator are {', '.join(names) or 'none'}"
    _require_meant(wanted, f"state {wanted.state!r}", there + meant(wanted.state, names))
    return key, _inferred_state(wanted, schema).describe()


def _stored_key(operator: SavepointOperator) -> TypeSerializer[Any]:
    if operator.unreadable_keyed:
        raise UnsupportedFormat(
            f"the keyed states of the operator cannot be read: {operator.unreadable_keyed}",
            advice="import the module that registers the snapshot: option job does",
        )
    if any(subtask.finished for subtask in operator.stored.subtasks):
        raise UnsupportedFormat(
            "the operator has finished on some subtasks, which cannot take state any more",
            advice="take a savepoint of a running job",
        )
    assert operator.key is not None  # noqa: S101 - the caller has checked
    key = operator.key.restore_serializer()
    if operator.description.is_flink_restorable and not has_stable_hash(key):
        raise DeclarationError(
            f"keys of type {key.describe()} have no hash that is the same in every JVM, so Flink would not find them",
            advice=WayOut("change such state by a migration, which moves no keys:", command="stateshift migrate"),
        )
    return key


def _require_key(stored: SavepointOperator, declared: Operator) -> None:
    assert stored.key is not None and declared.key is not None  # noqa: S101, PT018 - both have keyed state
    if not declared.key.ensure_compatibility(stored.key).is_compatible_as_is():
        raise IncompatibleState(
            f"the keys are of type {stored.key.describe()}, but the job declares {declared.key.describe()}",
            advice=WayOut(
                "change the key of the whole operator first:", (Told(Option.REPARTITION),), command="stateshift migrate"
            ),
        )


def _require_same(stored: SavepointState, declared: StateDescription) -> None:
    """Raise if rows would be added to entries of another type."""
    value = declared.value.new_side()
    is_same = (
        stored.kind is declared.kind
        and value.ensure_compatibility(stored.description.value.snapshot).is_compatible_as_is()
    )
    if not is_same:
        raise IncompatibleState(
            f"the state is {stored.kind} of {stored.description.describe()}, but the job declares {declared.kind} of"
            f" {declared.describe()}: existing entries stay, so rows of another type cannot be added",
            advice=(
                WayOut("migrate the savepoint to the job's types first:", command="stateshift migrate"),
                "overwrite the state",
            ),
        )


def refuse_untold(state: StateDescription, *, is_declared: bool) -> None:
    """Raise for types whose values are read as bytes or text, since writing these back would not restore the values.

    Args:
        state: The new state.
        is_declared: Whether a job declares the state; then columns may hold what its custom serializers accept.

    Raises:
        DeclarationError: The state has such a type.
    """
    pending = [state.value.snapshot]
    while pending:
        snapshot = pending.pop()
        if snapshot.kind == "pickle" or (snapshot.kind == "custom" and not is_declared):
            raise DeclarationError(
                f"values of {snapshot.describe()} cannot be made from columns, which have them as bytes or as text",
                advice="use bootstrap with a function that returns the objects, or convert them in a migration",
            )
        pending += snapshot.children()


def require_all_fields(source: ResolvedSource, schema: pa.Schema, *, may_default: bool) -> None:
    """Check that all fields of the rows are written, and that all fields of the state have a column.

    Args:
        source: The state to write, and the columns that it is written from.
        schema: The schema of the rows.
        may_default: Whether fields without a column get their defaults: those that a job declares, but not Java's.

    Raises:
        DeclarationError: A record has no field for a column, or a field has no column.
    """
    whole: Any = source.description.value.new_side()
    parts = [(KEY, source.key), (VALUE, whole if source.has_whole_lists else source.item)]
    if source.user_key_columns:
        parts.append((USER_KEY, whole.key))
    for column, serializer in parts:
        for path, record, kind in structs_in(serializer, schema.field(column).type, column):
            _require_fields(path, record, [field.name for field in kind], may_default=may_default)


def refuse_unscaled_keys(source: ResolvedSource, schema: pa.Schema, *, is_there: bool) -> None:
    """Raise for decimal columns in keys of stored state: 1.5 and 1.50 are two keys, so stored keys would be missed.

    Args:
        source: The state to write, and the columns that it is written from.
        schema: The schema of the rows.
        is_there: Whether the state is stored, and not only its operator.

    Raises:
        DeclarationError: A key contains a decimal column.
    """
    columns = [(name, source.key) for name in source.key_columns if source.key_columns == (KEY,)]
    if is_there and source.user_key_columns:
        whole: Any = source.description.value.new_side()
        columns.append((USER_KEY, whole.key))
    for name, serializer in columns:
        for path in unscaled_in(serializer, schema.field(name).type, name):
            raise DeclarationError(
                f"{path} is a decimal column with one scale, but each stored key has its own scale: different keys "
                "would be written",
                advice="read them with option('exact', 'true'), which returns text with the scale, and write that",
            )


def _require_fields(path: str, record: Any, names: list[str], *, may_default: bool) -> None:
    is_row = isinstance(record, RowSerializer)
    found = set(record.names) if is_row else {column_of_field(field, names) for field in record.fields}
    lost = next((name for name in names if name not in found), None)
    if lost is not None:
        raise DeclarationError(
            f"the field {path}.{lost} would be lost: {record.describe()} has no field of that name",
            advice="remove it explicitly, with dropFields; or declare a type that has it (option job)",
        )
    missing = [] if is_row or may_default else [one for one in record.fields if not column_of_field(one, names)]
    if missing:
        raise DeclarationError(
            f"{path}.{missing[0].name} is missing, which {record.describe()} has",
            advice="add it, with withField; or declare a type that has a default for it (option job)",
        )
