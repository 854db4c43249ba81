"""What the job that wrote stored state says of it beyond the snapshots: what PyFlink's bytes hold.

For Flink, a state of a Python function is bytes, and a savepoint says no more. The declarations of the job that wrote
it do. They are used where they describe just what is stored: their snapshots are the same bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from ..serializers.containers.wrappers import TtlAwareSerializerSnapshot, without_ttl_awareness
from ..serializers.errors import DeclarationError, located
from ..serializers.snapshot import snapshot_to_bytes
from .description import StateKind
from .lazy_tables import state_in

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..serializers.snapshot import TypeSerializerConfigSnapshot
    from .description import JobDescription, OperatorDescription, SerializerDescription, StateDescription

    Snapshot = TypeSerializerConfigSnapshot[Any]


@attrs.frozen
class FormerJob:
    """The job that wrote a savepoint. Created with `of`.

    Attributes:
        origin: The job, for messages.
    """

    origin: str
    _states: Mapping[str, Mapping[tuple[str, str], StateDescription]] = attrs.field(repr=False)
    _keys: Mapping[str, SerializerDescription] = attrs.field(factory=dict, repr=False)

    @classmethod
    def of(cls, job: JobDescription) -> FormerJob:
        """Return what a job says of the state that it wrote. It need not declare every state."""
        states = {
            one.operator_id: {(state.kind.scope, state.name): state for state in one.states} for one in job.operators
        }
        keys = {one.operator_id: one.key for one in job.operators if one.key is not None}
        return cls(job.origin, states, keys)

    def described(self, stored: JobDescription) -> JobDescription:
        """Return the description of the stored state with what the job says of its types.

        Args:
            stored: The stored state; names that a migration gives it do not matter.

        Raises:
            DeclarationError: It is another job: none of its states is stored, or one is stored as another type.
        """
        for one in stored.operators:
            self._require_key(one)
        operators = tuple(
            attrs.evolve(one, states=tuple(self.state(one.stored_id or one.operator_id, state) for state in one.states))
            for one in stored.operators
        )
        if not any(self._said(one.stored_id or one.operator_id, state) for one in operators for state in one.states):
            raise DeclarationError.before_writing(
                f"{self.origin} declares no state that {stored.origin} has",
                advice="name the job that wrote the savepoint, with its uids and the names of its states",
            )
        return attrs.evolve(stored, operators=operators)

    def _require_key(self, stored: OperatorDescription) -> None:
        said = self._keys.get(stored.stored_id or stored.operator_id)
        if said is None or said.serializer is None or stored.key is None:
            return
        if not said.serializer.ensure_compatibility(stored.key.snapshot).is_compatible_as_is():
            with located(operator=stored.operator_id):
                raise self._other(said.snapshot, stored.key.snapshot, "as the key")

    def state(self, operator_id: str, stored: StateDescription) -> StateDescription:
        """Return a stored state with what the job says of its types.

        Raises:
            DeclarationError: The job declares it as another type.
        """
        said = self._said(operator_id, stored)
        if said is None:
            return stored
        with located(operator=operator_id, state=stored.name):
            value = attrs.evolve(stored.value, snapshot=self._more(stored.value.snapshot, said.value.snapshot))
            key = stored.key
            if key is not None and said.key is not None:
                key = attrs.evolve(key, snapshot=self._more(key.snapshot, said.key.snapshot))
        return attrs.evolve(stored, value=value, key=key)

    def _said(self, operator_id: str, stored: StateDescription) -> StateDescription | None:
        states = self._states.get(operator_id, {})
        return states.get((stored.kind.scope, state_in(stored.stored_name or stored.name)))

    def _more(self, stored: Snapshot, said: Snapshot) -> Snapshot:
        if isinstance(stored, TtlAwareSerializerSnapshot) and stored.inner is not None:
            return attrs.evolve(stored, inner=self._more(stored.inner, said))
        if snapshot_to_bytes(stored) != snapshot_to_bytes(said):
            raise self._other(said, stored, "as the state")
        return said

    def _other(self, said: Snapshot, stored: Snapshot, what: str) -> DeclarationError:
        return DeclarationError.before_writing(
            f"{self.origin} is not the job that wrote the state: it declares {said.describe()} {what}, and"
            f" {stored.describe()} is stored",
            advice="name the job that wrote the savepoint, as it was then; it need not declare every state",
        )


def as_value(state: StateDescription) -> StateDescription:
    """Return a state that PyFlink keeps as a list of one value as the value state that it is; others as they are.

    An entry of a list of one is the bytes of that one, as the entry of a value.
    """
    whole = without_ttl_awareness(state.value.snapshot)
    if state.kind is not StateKind.LIST:
        return state
    from ..serializers.pyflink.contents import ContentSnapshot, PyFlinkBytes

    (element,) = whole.children()
    held = element.children()[-1] if element.kind == "ttl" else element
    if not (isinstance(held, ContentSnapshot) and held.reader is PyFlinkBytes):
        return state
    return attrs.evolve(state, kind=StateKind.VALUE, value=attrs.evolve(state.value, snapshot=element))


def saying_more(stored: Snapshot, known: Snapshot) -> Snapshot:
    """Return `known`, which may say more of a type, if its entries are the bytes that `stored` describes; else that."""
    if stored == known:
        return known
    data = snapshot_to_bytes(known)
    (element,) = children if len(children := without_ttl_awareness(stored).children()) == 1 else (stored,)
    return known if data in {snapshot_to_bytes(stored), snapshot_to_bytes(element)} else stored
