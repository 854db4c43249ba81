"""Real Flink goes on with a changed query of SQL from the savepoint that we migrated, as if it had read everything."""

import gzip
import json
import os
import random
from collections import Counter
from contextlib import nullcontext
from operator import itemgetter

import attrs
import pytest
from sql_draws import OF_TIME, drawn
from sql_jobs import FILES, SqlJobs, contents
from sql_upgrades import NEWEST, TABLES, UPGRADES

from stateshift import MigrationOptions, Savepoint, check
from stateshift.compat.repartition import Repartition
from stateshift.serializers.errors import ValuesCollide
from stateshift.serializers.sql.serializers import RowDataSerializer
from stateshift.serializers.ways_out import Option
from stateshift.state import describe_plans
from stateshift.state.savepoint.verify import verify
from stateshift.state.testing import migrate_in_process

PLANS = "tests/fixtures/flink-sql-upgrades.jsonl.gz"
WORDS = ("ant", "bee", "", "Größe", "x" * 30, "crocodile")
SAMPLE = ("OV8", "WJ2", "GA2", "TV5", "TN7b", "J3b", "X4", "X5", "X8", "KW3", "KW5", "UK3", "UK8", "LN1", "RR6")
"""What runs with the other tests of Flink; the rest is run by `make interop-sql`."""
BY_CHANCE = {
    "OV13": ("inputState", "smallestTSState"),
    "OV18": ("inputState", "cleanupTsState", "_timer_state/processing_user-timers"),
    "interval-join": (
        "IntervalJoinLeftTimerState", "IntervalJoinRightTimerState", "_timer_state/event_user-timers"
    ),
}  # fmt: skip
"""States that say when a row was processed, or which of two tables was read first; of a change, or of an operator."""
NOT_TAKEN = ("K1", "K3b")
"""What leaves state behind, which Flink is told to ignore, as `migrate` says."""
OF_1_20 = ("GA2", "TV5", "X11", "KW3", "RR6")
DRAWN = (*drawn(40), *drawn(14, OF_TIME, "E"))
ALL = (*UPGRADES, *DRAWN)


@pytest.fixture(scope="module")
def jobs(flink, tmp_path_factory):
    return SqlJobs(flink("2.3"), tmp_path_factory.mktemp("upgrades"))


def write_inputs(jobs, part):
    draw = random.Random(part)  # noqa: S311 - it draws inputs
    lines = {"MyTable": [], "Other": [], "Third": [(k, k % 5, draw.choice(WORDS)) for k in range(part, 14, 2)]}
    for number in range(80 * part, 80 * part + 80):
        at = f"2024-01-{1 + number // 24:02d} {number % 24:02d}:{number % 60:02d}:07.{number * 7 % 1000:03d}"
        a = draw.randrange(12) if draw.random() > 0.05 else ""
        lines["MyTable"].append((a, draw.randrange(1000), draw.choice(WORDS), draw.choice(("", 1, 2, 3)), at))
        if not number % 4:
            lines["Other"].append((draw.randrange(12), draw.randrange(6), draw.choice(WORDS[:4]), at))
    lines["Versions"] = lines["Other"]
    for table, rows in lines.items():
        jobs.append(table, f"part-{part}.csv", *rows)
    jobs.append("Changed", f"part-{part}.json", *([json.dumps(one)] for one in changes(part)))


def changes(part):
    """Rows that are inserted, and some of them changed and deleted."""
    rows = [
        {"id": 20 * part + one, "v": one % 5, "c": WORDS[one % 3], "e": [{"p": one}] * (one % 3)} for one in range(20)
    ]
    yield from ({"before": None, "after": row, "op": "c"} for row in rows)
    yield from ({"before": row, "after": row | {"c": "changed"}, "op": "u"} for row in rows[::3])
    yield from ({"before": row, "after": None, "op": "d"} for row in rows[1::3])


def script(jobs, upgrade, side):
    tables = TABLES | (upgrade.tables if side == "new" else upgrade.were)
    created = (
        f"CREATE TABLE {table} ({of}) WITH ({FILES.format(place=jobs.place / 'input' / table)});\n"
        for table, of in tables.items()
    )
    file = jobs.of(upgrade.row) / f"{side}.sql"
    query = getattr(upgrade, side).replace("@INPUT@", str(jobs.place / "input"))
    file.write_text("".join(created) + query, encoding="utf-8")
    return file


def place_of(jobs, upgrade, side):
    return jobs.of(upgrade.row) / f"{side}.json"


@pytest.fixture(scope="module")
def asked(request):
    """The changes that are to be run."""
    tests = (getattr(item, "callspec", None) for item in request.session.items)
    return [test.params["upgrade"] for test in tests if test is not None and "upgrade" in test.params]


def compile_plans(jobs, queries):
    steps = ((script(jobs, one, side), place_of(jobs, one, side)) for one in queries for side in ("old", "new"))
    jobs.run(*(("compile", *step) for step in steps))


def kept_plans(root):
    return [json.loads(line) for line in gzip.decompress((root / PLANS).read_bytes()).splitlines()]


@pytest.fixture(scope="module")
def planned(jobs, root):
    """The plans that are kept, over inputs of ours."""
    plans = {one["row"]: one for one in kept_plans(root)}
    for one in ALL:
        for side in ("old", "new"):
            text = json.dumps(plans[one.row][side]).replace("@INPUT@", str(jobs.place / "input"))
            place_of(jobs, one, side).write_text(text, encoding="utf-8")
    return jobs


@pytest.mark.parametrize(
    "queries",
    [
        pytest.param([one for one in UPGRADES if one.row in SAMPLE], id="sample"),
        pytest.param(ALL, id="all", marks=pytest.mark.slow),
    ],
)
def test_the_plans_that_are_kept_are_those_that_flink_compiles(flink, tmp_path, queries, root):
    jobs = SqlJobs(flink("2.3"), tmp_path)
    compile_plans(jobs, queries)

    def plan(upgrade, side):
        return json.loads(
            place_of(jobs, upgrade, side).read_text("utf-8").replace(str(jobs.place / "input"), "@INPUT@")
        )

    found = [{"row": one.row, "old": plan(one, "old"), "new": plan(one, "new")} for one in queries]
    if os.environ.get("STATESHIFT_RECORD") and queries is ALL:
        lines = "".join(json.dumps(one, ensure_ascii=False, separators=(",", ":")) + "\n" for one in found)
        (root / PLANS).write_bytes(gzip.compress(lines.encode(), mtime=0))
    rows = {one["row"] for one in found}
    assert [one for one in kept_plans(root) if one["row"] in rows] == found


def descriptions(jobs, upgrade):
    old, new = (str(place_of(jobs, upgrade, side)) for side in ("old", "new"))
    place = jobs.of(upgrade.row) / "template"
    template = Savepoint.open(place).describe() if place.exists() else None
    return describe_plans(old), describe_plans(new, old, allows_partial=True, allows_stale=True, template=template)


def write_templates(jobs, upgrades):
    """Run the new queries that need it on no input: the savepoints of that have no values."""
    steps = []
    for one in upgrades:
        if one.given == "--template":
            plan = jobs.of(one.row) / "without-input.json"
            text = place_of(jobs, one, "new").read_text("utf-8")
            plan.write_text(text.replace(str(jobs.place / "input"), str(jobs.place / "nothing")), encoding="utf-8")
            steps.append(("empty", plan, "-", jobs.of(one.row) / "template"))
    for table in (*TABLES, "Changed"):
        (jobs.place / "nothing" / table).mkdir(parents=True, exist_ok=True)
    jobs.run(*steps)


def checked(jobs, upgrade):
    return check(*descriptions(jobs, upgrade), repartition=asked_keys(upgrade))


def asked_keys(upgrade):
    return Repartition() if upgrade.given == "--repartition" else None


@pytest.fixture(scope="module")
def ran(planned, asked):
    run_upgrades(planned, asked)
    return planned


@pytest.fixture(scope="module")
def ran_by_1_20(flink, tmp_path_factory):
    """The same of a few changes, compiled and run by Flink 1.20."""
    jobs = SqlJobs(flink("1.20"), tmp_path_factory.mktemp("upgrades"))
    upgrades = [one for one in UPGRADES if one.row in OF_1_20]
    compile_plans(jobs, upgrades)
    run_upgrades(jobs, upgrades)
    return jobs


def run_upgrades(jobs, upgrades):
    """Run old queries that read half of the input; new ones from what we made of it, and new ones that read everything.

    These read it in two halves, too: else it would be chance which half comes first.
    """
    write_templates(jobs, upgrades)
    chosen = [one for one in upgrades if checked(jobs, one).decision != "refuse"]
    write_inputs(jobs, 0)
    sides = (("old", "before"), ("new", "half"))
    jobs.run(*(("run", place_of(jobs, one, s), "-", jobs.of(one.row) / to) for one in chosen for s, to in sides))
    steps = []
    for one in chosen:
        folder, plan = jobs.of(one.row), place_of(jobs, one, "new")
        _, described = descriptions(jobs, one)
        options = MigrationOptions(repartition=asked_keys(one))
        with pytest.raises(ValuesCollide) if one.collides else nullcontext():
            migrate_in_process(Savepoint.open(folder / "before"), folder / "ours", described, options)
        if one.collides:
            assert not (folder / "ours").exists()
            continue
        assert verify(folder / "ours").ok, one.row
        way = "ignoring" if one.row in NOT_TAKEN else "run"
        steps += [(way, plan, folder / "ours", folder / "after"), ("run", plan, folder / "half", folder / "whole")]
    write_inputs(jobs, 1)
    jobs.run(*steps)


def rows_of(serializer):
    """Yield the serializers of rows within one."""
    if isinstance(serializer, RowDataSerializer):
        yield serializer
    elif attrs.has(type(serializer)):
        for field in attrs.fields(type(serializer)):
            inner = getattr(serializer, field.name)
            for one in inner if isinstance(inner, tuple) else (inner,):
                yield from rows_of(one)


def begun(report):
    """The positions of columns that are new, by operator and state: before the upgrade they have no value."""
    found = {}
    for operator, state in report.states():
        if state.becomes is not None and state.becomes.value.serializer is not None:
            rows = rows_of(state.becomes.value.serializer)
            found[operator.uid, state.name] = {
                place
                for row in rows
                for place, column in enumerate(row.columns)
                if column.takes is None and column.filled is None
            }
    return found


def without(found, places):
    """Blank the columns at some places of every row."""
    if isinstance(found, dict) and "$sqlrow" in found:
        fields = found["$sqlrow"]["fields"]
        return {"$sqlrow": [None if at in places else without(one, places) for at, one in enumerate(fields)]}
    if isinstance(found, dict):
        return {name: without(one, places) for name, one in found.items()}
    return [without(one, places) for one in found] if isinstance(found, list) else found


def compared(found, *, is_rank):
    """Bring what is stored into one order, add up what became equal, and leave out what a rank keeps beyond.

    Whether a row of an inner join has met another one is left out: the flag is that of the one that came first.
    """
    if isinstance(found, dict) and isinstance(found.get("$tuple", [None])[-1], bool):
        return compared(found["$tuple"][0], is_rank=is_rank)
    if isinstance(found, dict) and "$map" in found:
        entries = [(json.dumps(compared(key, is_rank=False)), key, value) for key, value in found["$map"]]
        if is_rank:  # by the second column, downwards; how many more are kept depends on the order of the input
            best = sorted(((first_field(key), value) for _, key, value in entries), key=itemgetter(0), reverse=True)
            rows = [(at, row) for at, value in best for row in value][:3]
            return [row for at, row in rows if at > rows[-1][0]]  # of several at the last place, any may be kept
        if all(isinstance(number_of(value), int) for _, _, value in entries):
            sums = Counter()
            for key, _, value in entries:
                number, *matches = [value] if isinstance(value, int) else value["$tuple"]
                sums[key, *matches] += number
            return sorted(map(str, sums.items()))
        return sorted((key, json.dumps(compared(value, is_rank=False))) for key, _, value in entries)
    if isinstance(found, dict):
        inner = {name: compared(one, is_rank=is_rank) for name, one in found.items()}
        return inner | ({"entries": sorted(inner["entries"], key=json.dumps)} if "entries" in inner else {})
    return [compared(one, is_rank=is_rank) for one in found] if isinstance(found, list) else found


def number_of(value):
    """How often a row is there, of what counts rows."""
    return value.get("$tuple", [None])[0] if isinstance(value, dict) else value


def first_field(row):
    return row["$sqlrow"][0] if isinstance(row["$sqlrow"], list) else row["$sqlrow"]["fields"][0]


@pytest.mark.parametrize(
    "upgrade",
    [
        pytest.param(one, id=one.row, marks=[] if one.row in SAMPLE else [pytest.mark.slow])
        for one in ALL
        if one.decision != "refuse" and one.is_run
    ],
)
def test_flink_goes_on_as_if_the_new_query_had_read_everything(ran, upgrade):
    require_equal(ran, upgrade)


@pytest.mark.slow
@pytest.mark.parametrize("row", OF_1_20)
def test_flink_1_20_does_so_too(ran_by_1_20, row):
    require_equal(ran_by_1_20, next(one for one in UPGRADES if one.row == row))


def require_equal(ran, upgrade):
    """Compare what is stored with that of a run of the new query over everything."""
    report = checked(ran, upgrade)
    if upgrade.collides:
        return
    if report.decision == "refuse":
        assert upgrade in DRAWN
        return
    after, whole = contents(ran.of(upgrade.row) / "after"), contents(ran.of(upgrade.row) / "whole")

    assert any(one["entries"] for told in whole.values() for one in told.get("keyed", {}).values())
    assert whole.keys() == after.keys()
    new = begun(report)
    for place, expected in whole.items():
        operator = place[0].partition("_")[2]
        if any(place[1] in BY_CHANCE.get(one, ()) for one in (upgrade.row, operator)):
            continue
        is_rank = place[1] == "data-state-with-append"
        said, found = (compared(without(one, new.get(place, ())), is_rank=is_rank) for one in (expected, after[place]))
        assert said == found


@pytest.mark.slow
def test_the_newest_row_of_a_unique_key_stays(flink, tmp_path):
    """A row of each key in a file, and a file for each run: so the time stamps of a key's rows differ."""
    jobs = SqlJobs(flink("2.3"), tmp_path)
    compile_plans(jobs, [NEWEST])
    folder, old, new = jobs.of(NEWEST.row), *(place_of(jobs, NEWEST, side) for side in ("old", "new"))

    def write(part, keys):
        at = f"2024-01-0{1 + part} 00:00:00.000"
        jobs.append("Other", f"part-{part}.csv", *((x, part, f"{part} of {x}", at) for x in keys))
        jobs.append("MyTable", f"part-{part}.csv", *((x, part, f"{part} of {x}", 1, at) for x in range(12)))

    def described(**options):
        return describe_plans(str(new), str(old), allows_stale=True, **options)

    write(0, range(6))
    jobs.run(("run", old, "-", folder / "first"), ("run", new, "-", folder / "first-of-new"))
    write(1, range(2, 8))
    jobs.run(("run", old, folder / "first", folder / "before"), ("run", new, folder / "first-of-new", folder / "half"))
    before = Savepoint.open(folder / "before")
    with pytest.raises(ValuesCollide, match="unique key") as collided:
        migrate_in_process(before, folder / "ours", described())
    assert collided.value.ways_out[0].mentions(Option.KEEP_NEWEST)
    migrate_in_process(before, folder / "ours", described(keeps_newest=True))
    assert verify(folder / "ours").ok
    write(2, range(4, 10))
    jobs.run(("run", new, folder / "ours", folder / "after"), ("run", new, folder / "half", folder / "whole"))

    found, expected = ({place: compared(one, is_rank=False) for place, one in contents(folder / of).items()}
                       for of in ("after", "whole"))  # fmt: skip
    assert expected == found


@pytest.mark.slow
def test_most_drawn_changes_are_carried_out(planned):
    decisions = Counter(checked(planned, one).decision for one in DRAWN)

    assert 0.6 * len(DRAWN) <= len(DRAWN) - decisions["refuse"]
