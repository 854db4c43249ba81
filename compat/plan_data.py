"""Migration plans as plain data: for `--json`, for plan files, and for the lineage of a new savepoint."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .plain_data import fields_of, plain

if TYPE_CHECKING:
    from .plan import MigrationPlan, Rekeying, StatePlan

_OPERATOR = (
    "operator_id uid new_operator_id=new_id? action relabels_key reframed=is_reframed parallelism? compression "
    "bad_values max_parallelism?"
)


def to_data(migration: MigrationPlan) -> dict[str, Any]:
    """Return the plan as plain data, for `--json` and the lineage. Equal plans produce equal data.

    What earlier releases do not know is left out where it is not asked for: a run that one of them began is resumed.
    """
    return fields_of(migration, "source job target max_parallelism? reference_time empty=is_empty") | {
        "operators": [
            {
                **fields_of(operator, _OPERATOR),
                **({"native": True} if operator.is_native else {}),
                "rekeying": rekeying_data(operator.rekeying),
                "states": [_state_data(state) for state in operator.states],
            }
            for operator in migration.operators
        ],
        **({"absolute": True} if migration.absolute else {}),
    }


def rekeying_data(rekeying: Rekeying | None) -> dict[str, Any] | None:
    """Return the rewriting of keys as plain data; None if the keys stay."""
    if rekeying is None:
        return None
    return {
        "key": rekeying.serializer.describe(),
        **fields_of(rekeying, "reader=key.source converter=key.converter?"),
        "merges": {state: merging.merge.name for state, merging in rekeying.merges},
        "flags": [{"path": finding.path, "flag": str(flag)} for finding in rekeying.findings for flag in finding.flags],
        "findings": plain(rekeying.findings),
        "code": dict(rekeying.code),
    }


def _state_data(state: StatePlan) -> dict[str, Any]:
    return {
        **fields_of(state, "name new_name? kind action"),
        "old": state.old.value.describe(),
        "new": state.new.value.describe(),
        "old_snapshots_sha256": state.old.digest(),
        "new_snapshots_sha256": state.new.digest(),
        "rewrites": plain(state.recodings, "path reader=source converter?"),
        **fields_of(state, "former_time_to_live_s=former_time_to_live"),
        "transform": plain(state.transform, "name from=old_kind"),
        **fields_of(state, "trusts=trust drops"),
        "flags": [{"path": path, "flag": flag} for path, flag in state.flags],
        "findings": plain(state.findings),
        "code": dict(state.code),
    }
