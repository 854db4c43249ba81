"""Metrics as functions register them."""

import pytest

from stateshift import DeclarationError
from stateshift.state.runtime import metrics
from stateshift.state.runtime.metrics import MetricGroup, MetricReporter


def test_a_name_has_one_metric():
    group = MetricGroup()
    group.counter("n").inc()
    group.counter("n").inc(5)
    group.counter("n").dec(2)

    assert 4 == group.counter("n").get_count()
    with pytest.raises(DeclarationError, match="the metric 'n' is a Counter, not a Meter"):
        group.meter("n")


def test_groups_lie_in_groups():
    group = MetricGroup()
    inner = group.add_group("shop", "orders")

    assert inner is group.add_group("shop").add_group("orders")
    assert group.add_group("shop").groups == {"orders": inner}


def test_a_meter_has_the_rate_over_its_time(monkeypatch):
    now = [100.5]
    monkeypatch.setattr(metrics.time, "monotonic", lambda: now[0])
    meter = MetricGroup().meter("m", 10)
    meter.mark_event(20)
    meter.mark_event()
    now[0] = 105
    meter.mark_event(9)
    assert (30, 3.0) == (meter.get_count(), meter.get_rate())
    now[0] = 110

    assert (30, 0.9) == (meter.get_count(), meter.get_rate())


def test_a_distribution_and_a_gauge():
    group = MetricGroup()
    for value in (5, 2, 9):
        group.distribution("d").update(value)
    group.gauge("g", lambda: 7)
    found = group.distribution("d")

    assert (3, 16, 2, 9, 7) == (found.count, found.sum, found.min, found.max, group.metrics["g"]())


def test_each_report_is_of_what_came_after_the_one_before():
    group = MetricGroup()
    reporter = MetricReporter(group)
    counter, values = group.counter("n"), group.add_group("shop").distribution("d")
    group.gauge("g", lambda: 7)
    counter.inc(2)
    values.update(5)
    values.update(9)

    first = {figure.name: (figure.how, figure.value) for figure in reporter.report()}
    counter.inc()
    second = {figure.name: (figure.how, figure.value) for figure in reporter.report()}

    gauge = {"g.count": ("sum", 1), "g.sum": ("sum", 7), "g.min": ("min", 7), "g.max": ("max", 7)}
    spread = {"count": ("sum", 2), "sum": ("sum", 14), "min": ("min", 5), "max": ("max", 9)}
    assert first == {"n": ("sum", 2), **gauge, **{f"shop.d.{part}": figure for part, figure in spread.items()}}
    assert second == {"n": ("sum", 1), **gauge, "shop.d.count": ("sum", 0), "shop.d.sum": ("sum", 0)}
    assert 3 == counter.get_count()


def test_an_error_of_a_gauge_names_it():
    group = MetricGroup()
    group.gauge("share", lambda: 1 // 0)

    with pytest.raises(ZeroDivisionError) as failed:
        list(MetricReporter(group).report())
    assert ["in the gauge 'share'"] == failed.value.__notes__
