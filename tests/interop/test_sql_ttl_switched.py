"""What Flink makes of a savepoint of SQL whose new plan has a time to live, or has it no more (STATE-4, STATE-5).

Flink 2.3 takes both: it writes time stamps, or takes them off, as it restores. Flink 1.20 refuses.
"""

from __future__ import annotations

import json
import time

import pytest
from sql_jobs import SqlJobs, contents

from stateshift import Savepoint, check
from stateshift.cli import main
from stateshift.state import describe_plans
from stateshift.state.plans.compiled_plan import read_plan

QUERIES = {"join": "1d", "aggregate": "1d", "deduplicate": "1s"}
"""Which times to live they get: rows of the last one have expired when their state is restored."""
PLAIN, TIMED = SIDES = ("plain", "timed")
REFUSED = "must not be incompatible with the old state serializer"


def prepared(flink, release, place, backend, names):
    """Compile queries, give them times to live, and run them with and without over half of the input."""
    jobs = SqlJobs(flink(release), place, backend)
    plans = {name: tuple(jobs.of(name) / f"{side}.json" for side in SIDES) for name in names}
    jobs.write_inputs(0)
    jobs.run(*(("compile", jobs.script(name), plan) for name, (plan, _) in plans.items()))
    for name, (plan, timed) in plans.items():
        set_ttl(plan, timed, QUERIES[name])
    jobs.run(*(("run", jobs.of(name) / f"{side}.json", "-", jobs.of(name) / side) for name in names for side in SIDES))
    jobs.write_inputs(1)
    return jobs


def going_on(jobs, name, old, new):
    """Return the step from the savepoint of one plan, as Flink left it, with the other one."""
    return "run", jobs.of(name) / f"{new}.json", jobs.of(name) / old, jobs.of(name) / f"{old}-{new}"


def set_ttl(plan, becomes, ttl):
    """Give each state of a plan a time to live."""
    nodes = read_plan(plan.read_bytes(), "").nodes.values()
    states = [f"{node.id}:{state.index}={ttl}" for node in nodes for state in node.states]
    with pytest.raises(SystemExit) as ended:
        main(["ttl", "set", str(plan), *states, "-o", str(becomes)])
    assert 0 == ended.value.code


def checked(jobs, name, old, new):
    """Check the savepoint of one plan for the other one."""
    plans = (str(jobs.of(name) / f"{side}.json") for side in (new, old))
    return check(Savepoint.open(jobs.of(name) / old).describe(), describe_plans(*plans))


def entries(place):
    return {key: json.dumps(told["keyed"], sort_keys=True).replace('"ttl": true', '"ttl": false')
            for key, told in contents(place).items() if "keyed" in told}  # fmt: skip


def stamps(place):
    """Yield the time stamps of a savepoint; 0 for a value without one."""
    for operator in Savepoint.open(place).operators:
        for state in (one for one in operator.states if one.kind.is_keyed and one.kind != "timers"):
            for entry in state.read_entries():
                for value in entry.value.values() if isinstance(entry.value, dict) else (entry.value,):
                    yield getattr(value, "last_access_ms", 0)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["rocksdb", "hashmap"])
def test_flink_2_3_writes_the_stamps_itself_and_takes_them_off(flink, tmp_path, backend):
    jobs = prepared(flink, "2.3", tmp_path, backend, QUERIES)
    begun = time.time() * 1000
    sides = ((PLAIN, PLAIN), (PLAIN, TIMED), (TIMED, PLAIN))
    jobs.run(*(going_on(jobs, name, *pair) for name in QUERIES for pair in sides))

    for name, ttl in QUERIES.items():
        plain, on, off = (jobs.of(name) / "-".join(pair) for pair in sides)
        assert {0} == set(stamps(plain)) == set(stamps(off))
        assert entries(plain) == entries(off)  # what had expired came back, too
        assert begun < min(stamps(on))
        if ttl == "1d":
            assert entries(plain) == entries(on)
        assert "start" == checked(jobs, name, PLAIN, TIMED).decision
        assert "start" != checked(jobs, name, TIMED, PLAIN).decision


@pytest.mark.slow
@pytest.mark.parametrize(("old", "new"), [SIDES, SIDES[::-1]])
def test_flink_1_20_refuses_both(flink, tmp_path, old, new):
    jobs = prepared(flink, "1.20", tmp_path, "rocksdb", ["join"])
    with pytest.raises(AssertionError, match=REFUSED):
        jobs.run(going_on(jobs, "join", old, new))

    assert "migrate" == checked(jobs, "join", old, new).decision
