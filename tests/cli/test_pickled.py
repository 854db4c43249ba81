"""Pickled state on the command line: looked at, judged, refused without trust, and moved to records with it."""

from __future__ import annotations

import hashlib
import importlib
import json
import pickle
import re
import sys

import attrs
import pytest

from stateshift import MigrationOptions, PickledValue, Savepoint, SavepointWriter, TtlValue, UntrustedCode
from stateshift.state.migration.preparation import prepare
from stateshift.state.migration.run import try_out
from stateshift.state.savepoint.verify import verify

SHOP_1 = """
import enum

class Tier(enum.Enum):
    GOLD = "g"
    BASE = "b"

class Line:
    def __init__(self, article):
        self.article = article

class Account:
    def __init__(self, owner, tier, lines):
        self.owner = owner
        self.tier = tier
        self.lines = lines
"""
SHOP_2 = """
import dataclasses, enum
from typing import Annotated
from stateshift import Field

class Tier(enum.Enum):
    BASE = "b"
    GOLD = "g"

@dataclasses.dataclass
class Line:
    article: str

@dataclasses.dataclass
class Account:
    name: Annotated[str, Field(aliases=["owner"])]
    tier: Tier
    lines: list[Line]
    email: str | None = None
"""
STATES = """
from stateshift import Job, ListStateDescriptor, MapStateDescriptor, Operator, ValueStateDescriptor

def job_of(account, line):
    keyed = [
        ValueStateDescriptor("account", account),
        ListStateDescriptor("lines", line),
        MapStateDescriptor("by-name", str, account),
        ValueStateDescriptor("stamped", account, time_to_live=True),
    ]
    lists = Operator("lists", list_states=[ListStateDescriptor("pending", account)],
                     broadcast_states=[MapStateDescriptor("known", str, account)])
    return Job([Operator("accounts", key=str, states=keyed), lists])
"""
JOB_1 = """
import shop, states
from stateshift import PickleSerializer

account = PickleSerializer(shop.Account, references=(shop.Line, shop.Tier))
job = states.job_of(account, PickleSerializer(shop.Line))
"""
JOB_2 = """
import shop, states

job = states.job_of(shop.Account, shop.Line)
"""
TRUST = ["--trust", "shop.Account", "--trust", "shop.Line", "--trust", "shop.Tier"]


@pytest.fixture
def put(job_folder):
    """`put(shop=…)`: modules of the current folder as they are from then on; what was imported of them is forgotten."""

    def write(**sources):
        for name, source in sources.items():
            (job_folder / f"{name}.py").write_text(source, encoding="utf-8")
            sys.modules.pop(name, None)
        importlib.invalidate_caches()
        sys.path.insert(0, str(job_folder))

    return write


def value_of(shop, bomb=None):
    return shop.Account("Ada", shop.Tier.GOLD, [bomb or shop.Line("pen")])


def written(folder, job, shop, value):
    with SavepointWriter(folder, job, parallelism=2) as writer:
        for key in "ada", "bob":
            writer.put("accounts", "account", key, value)
            writer.put("accounts", "lines", key, [shop.Line("pen"), shop.Line("ink")])
            writer.put("accounts", "by-name", key, {"first": value})
            writer.put("accounts", "stamped", key, TtlValue(1, value))
        writer.add("lists", "pending", value)
        writer.put_broadcast("lists", "known", "ada", value)
    return folder


@pytest.fixture
def before(put, tmp_path):
    """A savepoint of pickles, and the modules of the job that is to take it over."""
    put(shop=SHOP_1, states=STATES, job_1=JOB_1)
    shop, job = importlib.import_module("shop"), importlib.import_module("job_1").job
    folder = written(tmp_path / "before", job, shop, value_of(shop))
    put(shop=SHOP_2, states=STATES, job_2=JOB_2)
    sys.modules.pop("job_1")
    return folder


def digest_of(folder):
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in folder.iterdir()}


def test_a_savepoint_is_shown_without_the_classes(before, run, job_folder):
    (job_folder / "shop.py").unlink()
    inspected, exported = run("inspect", before), run("export", before, "--state", "account")

    assert "pickle shop.Account{lines, owner, tier} with shop.Line{article}" in inspected.stdout
    value = json.loads(exported.stdout.splitlines()[0])["value"]
    assert "shop.Account" == value["$pickle"]["class"]
    assert bytes.fromhex(value["$pickle"]["bytes"]).endswith(b".")
    assert "shop" not in sys.modules


def test_an_export_with_trust_shows_what_is_inside_and_imports_nothing(before, run, job_folder):
    (job_folder / "shop.py").unlink()
    exported = run("export", before, "--state", "account", *TRUST)

    line = {"$object": {"class": "shop.Line", "attributes": {"article": "pen"}}}
    tier = {"$object": {"class": "shop.Tier", "arguments": ["g"]}}
    account = {"class": "shop.Account", "attributes": {"owner": "Ada", "tier": tier, "lines": [line]}}
    expected = {"$pickle": {"class": "shop.Account", "value": {"$object": account}}}
    assert expected == json.loads(exported.stdout.splitlines()[0])["value"]
    assert "shop" not in sys.modules
    refused = run("export", before, "--state", "account", "--trust", "shop.Account")
    assert (2, True) == (refused.status, "--trust shop.Tier" in refused.stderr)


def test_without_trust_a_check_refuses_and_says_what_would_be_trusted(before, run):
    checked = run("check", before, "--job", "job_2:job")

    assert 1 == checked.status
    assert "[READ-4]" in checked.stdout
    assert "--trust shop.Account --trust shop.Line --trust shop.Tier" in checked.stdout


def test_with_trust_a_check_shows_the_migration_and_its_command_fam_1(before, run):
    checked = run("check", before, "--job", "job_2:job", *TRUST)

    assert 4 == checked.status
    assert "[FAM-1]" in checked.stdout
    assert f"--job job_2:job {' '.join(TRUST)}" in checked.stdout


def test_pickled_state_moves_to_records_with_trust_by_name_fam_1(before, run, tmp_path):
    source = digest_of(before)
    refused = run("migrate", before, tmp_path / "after", "--job", "job_2:job")
    assert 1 == refused.status
    assert not (tmp_path / "after").exists()

    done = run("migrate", before, tmp_path / "after", "--job", "job_2:job", *TRUST)
    assert (0, source) == (done.status, digest_of(before)), done.stderr
    assert verify(Savepoint.open(tmp_path / "after")).ok

    exported = run("export", tmp_path / "after", "--format", "tagged")
    assert "$pickle" not in exported.stdout
    line = {"$pojo": {"class": "shop.Line", "fields": {"article": "pen"}}}
    fields = {"email": None, "lines": [line], "name": "Ada", "tier": {"$enum": "GOLD"}}
    assert 9 == exported.stdout.count(json.dumps({"$pojo": {"class": "shop.Account", "fields": fields}}))
    plan = Savepoint.open(tmp_path / "after").lineage.plan
    trusts = [state["trusts"] for operator in plan["operators"] for state in operator["states"]]
    assert {("shop.Account", "shop.Line", "shop.Tier")} == set(map(tuple, trusts))


def test_a_gate_takes_trust_too(put, run, tmp_path):
    put(shop=SHOP_1, states=STATES, job_1=JOB_1)
    recorded = tmp_path / "recorded.json"
    assert 0 == run("snapshot", "--job", "job_1:job", "-o", recorded).status
    put(shop=SHOP_2, states=STATES, job_2=JOB_2)
    sys.modules.pop("job_1")
    gate = ("check", "--job", "job_2:job", "--against", recorded, "--allow-drift")

    assert 1 == run(*gate).status
    assert 0 == run(*gate, *TRUST).status


def test_a_plan_file_holds_a_run_to_the_trust_that_it_tells(before, run, tmp_path):
    planned = run("plan", before, "-o", tmp_path / "plan.json", "--job", "job_2:job", *TRUST)
    assert 0 == planned.status, planned.stderr
    assert TRUST[1::2] == json.loads((tmp_path / "plan.json").read_text())["options"]["trust"]

    tried = run("migrate", before, tmp_path / "after", "--plan", tmp_path / "plan.json", "--dry-run")
    assert 0 == tried.status, tried.stderr
    assert "tried: one entry each of account" in tried.stdout


class Bomb:
    """Makes a folder where it is unpickled."""

    def __init__(self, place):
        self.place = place

    def __reduce__(self):
        return __import__("os").mkdir, (str(self.place),)


@pytest.fixture
def bombed(put, tmp_path):
    """A savepoint whose values hold bombs, and the place that one would make."""
    put(shop=SHOP_1, states=STATES, job_1=JOB_1)
    shop, job = importlib.import_module("shop"), importlib.import_module("job_1")
    held = pickle.dumps(value_of(shop, Bomb(tmp_path / "planted")), 5)
    folder = written(tmp_path / "before", job.job, shop, PickledValue("shop.Account", held))
    put(shop=SHOP_2, states=STATES, job_2=JOB_2)
    sys.modules.pop("job_1")
    return folder, tmp_path / "planted"


def test_a_bomb_goes_off_nowhere(bombed, run, tmp_path):
    folder, planted = bombed
    for command in (
        ("inspect", folder, "--sizes"),
        ("export", folder),
        ("export", folder, *TRUST),
        ("verify", folder),
        ("check", folder, "--job", "job_2:job", *TRUST),
        ("migrate", folder, tmp_path / "after", "--job", "job_2:job"),
        ("diff", folder, folder),
    ):
        run(*command)
        assert not planted.exists(), command


def test_a_bomb_under_a_trusted_name_ends_the_run_with_name_state_and_key(bombed, run, tmp_path):
    folder, planted = bombed
    failed = run("migrate", folder, tmp_path / "after", "--job", "job_2:job", "--dry-run", *TRUST)

    assert 0 != failed.status
    assert re.search(
        r"posix\.mkdir is not trusted(.*\n)+.*operator accounts, state account, key '(ada|bob)', path \$(.*\n)+.*"
        r"--trust posix\.mkdir",
        failed.stderr,
    )
    assert not planted.exists()


def nested(levels):
    value = []
    for _ in range(levels):
        value = [value, value]
    return value


@pytest.mark.parametrize(
    ("lines", "exported", "migrated"),
    [
        (b"cbuiltins\nint\ncdecimal\nDecimal\nX\x0a\0\0\x001E+6000000\x85R\x85R", "by int in a way", "by int in a way"),
        (pickle.dumps(nested(100), 3)[2:-1], "far larger as JSON", "a builtins.list where a shop.Line is described"),
    ],
    ids=["call", "shared lists"],
)
def test_small_pickles_with_large_work_end_a_command_at_once(put, run, tmp_path, lines, exported, migrated):
    put(shop=SHOP_1, states=STATES, job_1=JOB_1)
    shop, job = importlib.import_module("shop"), importlib.import_module("job_1").job
    held = b"\x80\x04cshop\nAccount\n)\x81}X\5\0\0\0lines" + lines + b"sb."
    folder = written(tmp_path / "before", job, shop, PickledValue("shop.Account", held))
    put(shop=SHOP_2, states=STATES, job_2=JOB_2)
    sys.modules.pop("job_1")

    shown = run("export", folder, "--state", "account", *TRUST)
    moved = run("migrate", folder, tmp_path / "after", "--job", "job_2:job", *TRUST)

    assert 0 not in (shown.status, moved.status)
    assert exported in shown.stderr
    assert migrated in moved.stderr
    assert "Traceback" not in shown.stderr + moved.stderr


@pytest.mark.parametrize("name", ["account", "by-name", "stamped", "pending", "known"])
def test_bombs_in_every_kind_of_state_are_refused(bombed, name):
    folder, planted = bombed
    job = importlib.import_module("job_2").job
    options = MigrationOptions(trust=tuple(TRUST[1::2]))
    plan = prepare(Savepoint.open(folder), job, options).plan
    operators = (
        attrs.evolve(operator, states=tuple(state for state in operator.states if state.name == name))
        for operator in plan.operators
    )
    plan = attrs.evolve(plan, operators=tuple(operators))
    with pytest.raises(UntrustedCode, match=r"posix\.mkdir") as raised:
        try_out(Savepoint.open(folder), plan)

    assert name == raised.value.where["state"]
    assert not planted.exists()
