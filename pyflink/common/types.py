"""Rows and their kinds."""

from ...serializers.rows.values import Row, RowKind

__all__ = ["Row", "RowKind"]
