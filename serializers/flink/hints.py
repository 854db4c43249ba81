"""Hints of nothing and of namespaces."""

from __future__ import annotations

import types
from typing import TYPE_CHECKING

from .void import VoidSerializer
from .windows import (
    GlobalWindow,
    GlobalWindowSerializer,
    TimeWindow,
    TimeWindowSerializer,
    VoidNamespace,
    VoidNamespaceSerializer,
)

if TYPE_CHECKING:
    from ..hints import HintTable

HINTS: HintTable = {
    None: VoidSerializer(),
    types.NoneType: VoidSerializer(),
    GlobalWindow: GlobalWindowSerializer(),
    TimeWindow: TimeWindowSerializer(),
    VoidNamespace: VoidNamespaceSerializer(),
}
