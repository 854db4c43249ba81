"""Strategies of nothing and of windows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import strategies as st

from ..drawing import always, whole
from .namespaces import (
    CountWindow,
    CountWindowSerializer,
    GlobalWindow,
    GlobalWindowSerializer,
    SqlGlobalWindowSerializer,
    SqlTimeWindowSerializer,
    TimeWindow,
    TimeWindowSerializer,
    VoidNamespace,
    VoidNamespaceSerializer,
    VoidSerializer,
)

if TYPE_CHECKING:
    from ..drawing import StrategyTable

_WINDOWS = st.builds(TimeWindow, whole(63), whole(63))
STRATEGIES: StrategyTable = {
    VoidSerializer: always(st.none()),
    VoidNamespaceSerializer: always(st.just(VoidNamespace())),
    GlobalWindowSerializer: always(st.just(GlobalWindow())),
    SqlGlobalWindowSerializer: always(st.just(GlobalWindow())),
    CountWindowSerializer: always(st.builds(CountWindow, whole(63))),
    TimeWindowSerializer: always(_WINDOWS),
    SqlTimeWindowSerializer: always(_WINDOWS),
}
