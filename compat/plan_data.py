"""Migration plans as plain data: for `--json`, for plan files, and for the lineage of a new savepoint."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .reference_time import time_text
from .report_data import finding_data

if TYPE_CHECKING:
    from .plan import MigrationPlan, Rekeying, StatePlan


def to_data(migration: MigrationPlan) -> dict[str, Any]:
    """Return the plan as plain data, for `--json` and the lineage. Equal plans produce equal data."""
    return {
        "source": migration.source,
        "job": migration.job,
        "target": str(migration.target),
        "max_parallelism": migration.max_parallelism or None,
        "reference_time": time_text(migration.reference_time) if migration.reference_time else None,
        "empty": migration.is_empty,
        "operators": [
            {
                "operator_id": operator.operator_id,
                "uid": operator.uid,
                "new_operator_id": operator.new_id or None,
                "action": str(operator.action),
                "relabels_key": operator.relabels_key,
                "reframed": operator.is_reframed,
                "parallelism": operator.parallelism or None,
                "compression": str(operator.compression),
                "bad_values": str(operator.bad_values),
                "max_parallelism": operator.max_parallelism or None,
                "rekeying": None if operator.rekeying is None else rekeying_data(operator.rekeying),
                "states": [_state_data(state) for state in operator.states],
            }
            for operator in migration.operators
        ],
    }


def rekeying_data(rekeying: Rekeying) -> dict[str, Any]:
    """Return the rewriting of keys as plain data."""
    key = rekeying.key
    return {
        "key": rekeying.serializer.describe(),
        "reader": None if key is None else key.source,
        "converter": None if key is None else key.converter or None,
        "merges": {state: merging.merge.name for state, merging in rekeying.merges},
        "flags": [{"path": finding.path, "flag": flag} for finding in rekeying.findings for flag in finding.flags],
        "findings": [finding_data(finding) for finding in rekeying.findings],
        "code": dict(rekeying.code),
    }


def _state_data(state: StatePlan) -> dict[str, Any]:
    pieces = [piece for piece in (state.user_key, state.value) if piece is not None]
    return {
        "name": state.name,
        "new_name": state.new_name or None,
        "kind": str(state.kind),
        "action": str(state.action),
        "old": state.old.value.describe(),
        "new": state.new.value.describe(),
        "old_snapshots_sha256": state.old.digest(),
        "new_snapshots_sha256": state.new.digest(),
        "rewrites": [
            {
                "path": "$" + piece.step,
                "reader": piece.source,
                "converter": piece.converter or None,
            }
            for piece in pieces
        ],
        "former_time_to_live_s": state.former_time_to_live.total_seconds() if state.former_time_to_live else None,
        "transform": {"name": state.transform.name, "from": str(state.transform.old_kind)} if state.transform else None,
        "trusts": list(state.trust),
        "drops": list(state.drops),
        "flags": [{"path": path, "flag": flag} for path, flag in state.flags],
        "findings": [finding_data(finding) for finding in state.findings],
        "code": dict(state.code),
    }
