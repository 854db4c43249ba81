"""Merging of the snapshots that a job's subtasks wrote, which differ where the subtasks met different values.

A POJO's snapshot lists the subclasses that are stored with their class names. RocksDB writes it after the values, and
so lists those that this one subtask has met; the union describes the values of all. Source: format notes 6.1 and 7.
"""

from __future__ import annotations

from copy import copy
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, TypeVar

import attrs

from ..containers.wrappers import LazyMigrationSnapshot
from ..snapshot import CompositeTypeSerializerSnapshot, snapshot_to_bytes
from .pojo import PojoField, PojoSerializerSnapshot, PojoSubclass

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..snapshot import TypeSerializerConfigSnapshot

P = TypeVar("P", PojoField, PojoSubclass)


def merge_snapshots(
    one: TypeSerializerConfigSnapshot[Any], other: TypeSerializerConfigSnapshot[Any]
) -> TypeSerializerConfigSnapshot[Any] | None:
    """Return one snapshot for the values of both; None if they differ in more than the subclasses that were met."""
    if one is other or snapshot_to_bytes(one) == snapshot_to_bytes(other):
        return one
    if isinstance(one, LazyMigrationSnapshot) and isinstance(other, LazyMigrationSnapshot):
        return _merged_tables(one, other)
    if isinstance(one, PojoSerializerSnapshot) and isinstance(other, PojoSerializerSnapshot):
        return _merged_pojo(one, other)
    if isinstance(one, CompositeTypeSerializerSnapshot) and type(one) is type(other):
        return _merged_composite(one, other)
    return None


def _merged_tables(one: LazyMigrationSnapshot, other: LazyMigrationSnapshot) -> LazyMigrationSnapshot | None:
    """Merge the descriptions of one table; what code declares is known if both sides know it."""
    inner = None if one.inner is None or other.inner is None else merge_snapshots(one.inner, other.inner)
    if inner is None:
        return None
    return LazyMigrationSnapshot(inner, one.declared if one.declared == other.declared else "")


def _merged_composite(
    one: CompositeTypeSerializerSnapshot[Any], other: CompositeTypeSerializerSnapshot[Any]
) -> TypeSerializerConfigSnapshot[Any] | None:
    if len(one.nested) != len(other.nested):
        return None
    pairs = zip(one.nested, other.nested, strict=True)
    merged = tuple(nested for pair in pairs if (nested := merge_snapshots(*pair)) is not None)
    mine, theirs = copy(one), copy(other)
    mine.nested = theirs.nested = merged
    agrees = len(merged) == len(one.nested) and snapshot_to_bytes(mine) == snapshot_to_bytes(theirs)
    return mine if agrees else None


def _merged_pojo(one: PojoSerializerSnapshot, other: PojoSerializerSnapshot) -> PojoSerializerSnapshot | None:
    mine, theirs = ({subclass.name: subclass for subclass in side.unregistered} for side in (one, other))
    met_by_both = [name for name in mine if name in theirs]
    fields = _merged_parts(one.fields, other.fields)
    registered = _merged_parts(one.registered, other.registered)
    common = _merged_parts([mine[name] for name in met_by_both], [theirs[name] for name in met_by_both])
    if one.java_class != other.java_class or fields is None or registered is None or common is None:
        return None
    union = mine | theirs | {subclass.name: subclass for subclass in common}
    return PojoSerializerSnapshot(one.java_class, fields, registered, tuple(union.values()))


def _merged_parts(mine: Sequence[P], theirs: Sequence[P]) -> tuple[P, ...] | None:
    """Merge fields or subclasses pair by pair; None if they are not the same, or only one side could be read."""
    merged = []
    for one, other in zip_longest(mine, theirs):
        if one is None or other is None or attrs.evolve(one, snapshot=other.snapshot) != other:
            return None
        if one == other:
            merged.append(one)
            continue
        snapshot = merge_snapshots(one.snapshot, other.snapshot) if one.snapshot and other.snapshot else None
        if snapshot is None:
            return None
        merged.append(attrs.evolve(one, snapshot=snapshot))
    return tuple(merged)
