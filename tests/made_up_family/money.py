"""Amounts of money: values, bytes, snapshots, and the rule by which narrow ones become wide.

narrow   i32 cents, 3 bytes of ASCII
wide     i64 cents, 3 bytes of ASCII
"""

from __future__ import annotations

import attrs

from stateshift import (
    CompatibilityResult,
    CorruptSavepoint,
    Finding,
    TypeSerializer,
    TypeSerializerConfigSnapshot,
    ValueNotConvertible,
    Verdict,
    register_snapshot,
)

converted = 0
"""How many objects were converted in this process; byte rewrites convert none."""


@attrs.frozen
class Money:
    """So many cents of a currency."""

    cents: int
    currency: str


@attrs.frozen
class MoneySerializer(TypeSerializer[Money]):
    """Cents in eight bytes, or in four, and the three letters of a currency."""

    wide: bool = True

    @property
    def length(self):
        return (8 if self.wide else 4) + 3

    def serialize(self, value, target):
        if not isinstance(value, Money) or len(value.currency) != 3 or not value.currency.isascii():
            raise ValueNotConvertible(f"{value!r} is no amount of money")
        (target.write_long if self.wide else target.write_int)(value.cents)
        target.write(value.currency.encode("ascii"))

    def deserialize(self, source):
        cents = source.read_long() if self.wide else source.read_int()
        letters = source.read_fully(3)
        if not letters.isascii():
            raise CorruptSavepoint(f"{letters!r} is no currency")
        return Money(cents, letters.decode("ascii"))

    def snapshot_configuration(self):
        return MoneySnapshot(self.wide)

    def ensure_compatibility(self, snapshot):
        if not isinstance(snapshot, MoneySnapshot) or snapshot.wide or not self.wide:
            return super().ensure_compatibility(snapshot)
        ways = ("migrate the state", "keep four bytes")
        why = "every amount of four bytes fits eight"
        finding = Finding("$", "MONEY-1", Verdict.REQUIRES_MIGRATION, snapshot.describe(), self.describe(), why, ways)
        return CompatibilityResult.requires_migration(finding, conversion=widened)


def widened(money):
    """The same money, which is now written in eight bytes."""
    global converted  # noqa: PLW0603 - a counter for tests
    converted += 1
    return money


@register_snapshot
@attrs.define
class MoneySnapshot(TypeSerializerConfigSnapshot[Money]):
    """Version 1: an empty body, and four bytes. Version 2: whether there are eight."""

    snapshot_id = "stateshift/made-up-money"
    kind = "money"
    version = 2

    wide: bool = True

    def get_compatible_versions(self):
        return (1, 2)

    def write(self, target):
        target.write_boolean(self.wide)

    def read(self, source):
        self.wide = self.get_read_version() == 2 and source.read_boolean()

    def describe(self):
        return "wide money" if self.wide else "money"

    def restore_serializer(self):
        return MoneySerializer(self.wide)
