"""Writes `tests/fixtures/stored-data/<version>`: all that outlives the version that stored it.

    python tests/stored_data/write.py

Run it once for each version that is released. A folder that is there is never written again: it is what that version
stored, and each later one has to load it. Its README says what each part must load to.
"""

from __future__ import annotations

import base64
import json
import os
import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import cloudpickle

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

import stored_shop as shop  # noqa: E402 - found by the path above
from stored_data.contents import BASKET, ERRORS, VALUES  # noqa: E402

import stateshift as ss  # noqa: E402
from stateshift.serializers.enums.serializers import EnumSerializer  # noqa: E402
from stateshift.serializers.flink.opaque import KryoBytesSerializer, KryoSerializerSnapshot  # noqa: E402
from stateshift.serializers.registry import registry  # noqa: E402
from stateshift.serializers.snapshot import snapshot_to_bytes  # noqa: E402

FIXTURES = HERE.parent / "fixtures" / "stored-data"
README = """\
# Stored by stateshift {version}

What this version stored, and each later one must load: `tests/stored_data/test_stored_data.py` does.
`tests/stored_data/write.py` wrote it, once; no file here is ever written again.

- `values.json`, `errors.json`: pickles (protocols 2 and 5) and cloudpickles of values of all public classes, in base64.
  Each loads to the `type` and the `text` beside it.
- `serializers.json`: the same of a serializer of each class.
  Each loads to one of the `snapshot` beside it, which reads and writes the bytes `values`.
- `stored_shop.py`: the job of a user, as it was.
- `accounts/savepoint`: a savepoint with its lineage; `accounts/entries.jsonl` is what an export gives.
- `accounts/plan.json`: a plan file for `stored_shop:accounts_widened`, and `accounts/migrated` what it makes, with a
  quarantine; `accounts/migrated.jsonl` and `accounts/quarantine.json` are what is shown of it.
- `accounts/cut-off`: the target of the same run, killed after two of its four streams.
  In `{place}/accounts` it is resumed, and makes the same.
- `accounts/state_history`: two revisions and a stamp, with which `stored_shop:accounts_now` gets along.
- `opaque/savepoint`: pickled states with values of the library in them, and serializers beside the savepoint;
  `opaque/entries.jsonl` is what an export gives that trusts their classes, `opaque/recorded.json` the types, and
  `opaque/state_history` a revision with which `stored_shop:opaque` gets along.
- `opaque/plan.json`: a plan file for `stored_shop:opaque_now`, by which stored serializers read, and pickles are
  opened; `opaque/migrated.jsonl` is what it makes.
"""
CUT_OFF = """
import os
from stateshift.cli import main
from stateshift.state.migration.journal import Journal

recorded, record = [], Journal.record
def record_and_die(journal, result):
    record(journal, result)
    recorded.append(result)
    if len(recorded) == 2:
        os._exit(9)
Journal.record = record_and_die
main({arguments!r})
"""
STEPS = 4
PLACE = Path("/tmp/stateshift-stored-data")  # noqa: S108 - a run is resumed at the place where it was begun
TRUST = [f"--trust={cls.__module__}.{cls.__qualname__}" for cls in (*shop.HELD, shop.Basket, shop.Account)]


def text_of(data):
    return base64.b64encode(data).decode("ascii")


def pickles_of(thing):
    return {f"pickle {protocol}": text_of(pickle.dumps(thing, protocol)) for protocol in (2, 5)} | {
        "cloudpickle": text_of(cloudpickle.dumps(thing))
    }


def write_json(file, data):
    file.write_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def serializers():
    """Yield name, serializer and values: those of the contract, and those that know a class of the user."""
    from serializers.test_contract import CASES

    for case in CASES:
        yield case.name, case.serializer, case.edges[-3:]
    account = shop.Account("ada", 3)
    yield "record of a class", ss.serializer_for(shop.Account), (account,)
    yield "record with aliases", ss.serializer_for(shop.AccountNow), (shop.AccountNow("ada", 3, "a@example.org"),)
    yield "enum of a class", EnumSerializer.of(ss.RowKind), tuple(ss.RowKind)
    yield "row of hints", ss.serializer_for(ss.Row[int, str]), (ss.Row(1, "a"),)
    yield "cloudpickle", ss.CloudPickleSerializer(shop.Account), (account,)
    yield "pickle of a user's class", ss.PickleSerializer(shop.Basket, references=shop.HELD), (BASKET,)
    pickled = ss.PickleSerializer(shop.Account)
    unopened = pickled.snapshot_configuration().restore_serializer()
    yield "unopened pickle", unopened, (ss.PickledValue("stored_shop.Account", pickle.dumps(account, 5)),)
    kryo = KryoBytesSerializer(KryoSerializerSnapshot("fx.Order"))
    yield "kryo", kryo, ()
    yield "avro with a class", ss.AvroSerializer.of(shop.AccountNow), (shop.AccountNow("ada", 3),)
    yield "a user's own", shop.TemperatureSerializer(), (shop.Temperature(12.0),)


def bytes_of(serializer, value):
    target = ss.DataOutputView()
    serializer.serialize(value, target)
    return target.getvalue()


def write_pickles(folder):
    for file, things, text in [("values", VALUES, repr), ("errors", ERRORS, str)]:
        found = {
            name: {"type": type(thing).__qualname__, "text": text(thing), **pickles_of(thing)}
            for name, thing in things.items()
        }
        write_json(folder / f"{file}.json", found)
    found = {}
    for name, serializer, values in serializers():
        found[name] = {
            "type": type(serializer).__qualname__,
            "describe": serializer.describe(),
            "snapshot": snapshot_to_bytes(serializer.snapshot_configuration()).hex(),
            "values": [bytes_of(serializer, value).hex() for value in values],
            **pickles_of(serializer),
        }
    write_json(folder / "serializers.json", found)


def stateshift(folder, *arguments, statuses=(0,)):
    """Run a command there, and give what it prints."""
    ran = subprocess.run(
        [sys.executable, "-m", "stateshift", *arguments],
        cwd=folder,
        env=environment(folder),
        capture_output=True,
        text=True,
        check=False,
    )
    if ran.returncode not in statuses:
        raise SystemExit(f"{arguments} ended with {ran.returncode}:\n{ran.stdout}{ran.stderr}")
    return ran.stdout


def environment(folder):
    return os.environ | {"PYTHONPATH": str(folder.parent)}


def write_accounts(folder):
    folder.mkdir()
    with ss.SavepointWriter(folder / "savepoint", shop.accounts, parallelism=STEPS) as writer:
        for key in range(12):
            writer.put("accounts", "account", key, shop.Account(f"user {key}", key))
            writer.put("accounts", "visits", key, [key, key + 1])
            writer.put("accounts", "notes", key, {"last": b"\xff\xfe" if key == 5 else b"hello"})
            writer.put("accounts", "seen", key, ss.Instant(1_700_000_000 + key, key))
    (folder / "entries.jsonl").write_text(stateshift(folder, "export", "savepoint"), encoding="utf-8")
    to_now = ("--job", "stored_shop:accounts_widened", "--bad-values", "quarantine")
    stateshift(folder, "snapshot", "--job", "stored_shop:accounts", "-m", "As it was")
    stateshift(folder, "snapshot", "--job", "stored_shop:accounts_now", "-m", "As it is")
    stateshift(folder, "stamp", "production", "0001")
    stateshift(folder, "plan", "savepoint", *to_now, "-o", "plan.json")
    stateshift(folder, "migrate", "savepoint", "migrated", "--plan", "plan.json", statuses=(0, 6))
    (folder / "migrated.jsonl").write_text(stateshift(folder, "export", "migrated"), encoding="utf-8")
    (folder / "quarantine.json").write_text(
        stateshift(folder, "quarantine", "migrated", "--bytes", "--json"), encoding="utf-8"
    )
    arguments = ["migrate", "savepoint", "cut-off", "--plan", "plan.json"]
    ran = subprocess.run(
        [sys.executable, "-c", CUT_OFF.format(arguments=arguments)], cwd=folder, env=environment(folder), check=False
    )
    assert ran.returncode == 9, ran


def write_opaque(folder):
    folder.mkdir()
    with registry.restored():
        ss.register_snapshot(shop.TemperatureSnapshot)
        ss.register_serializer(shop.Temperature, shop.TemperatureSerializer())
        job = shop.opaque_with(ss.ValueStateDescriptor("temperatures", list[shop.Temperature]))
        with ss.SavepointWriter(folder / "savepoint", job, store_serializers=True) as writer:
            for state, value in [
                ("basket", BASKET),
                ("clouded", BASKET),
                ("moment", ss.Instant(5, 6)),
                ("kind", ss.RowKind.DELETE),
                ("raw", pickle.dumps(shop.Account("ada", 3))),
                ("temperatures", [shop.Temperature(12.0)]),
            ]:
                writer.put("opaque", state, "ada", value)
    (folder / "entries.jsonl").write_text(
        stateshift(folder, "export", "savepoint", *TRUST, statuses=(0, 7)), encoding="utf-8"
    )
    stateshift(folder, "snapshot", "savepoint", "-o", "recorded.json")
    stateshift(folder, "snapshot", "--job", "stored_shop:opaque", "-m", "As it was")
    to_now = ("--job", "stored_shop:opaque_now", "--trust-stored-serializers", *TRUST)
    stateshift(folder, "plan", "savepoint", *to_now, "-o", "plan.json")
    stateshift(folder, "migrate", "savepoint", "migrated", "--plan", "plan.json")
    (folder / "migrated.jsonl").write_text(stateshift(folder, "export", "migrated", *TRUST), encoding="utf-8")
    shutil.rmtree(folder / "migrated")


def main():
    version = ".".join(ss.__version__.split(".")[:2])
    folder = FIXTURES / version
    if folder.exists():
        raise SystemExit(f"{folder} is there, and is what that version stored: it is never written again")
    PLACE.mkdir()
    try:
        shutil.copy(HERE / "stored_shop.py", PLACE)
        (PLACE / "README.md").write_text(README.format(version=ss.__version__, place=PLACE), encoding="utf-8")
        write_pickles(PLACE)
        write_accounts(PLACE / "accounts")
        write_opaque(PLACE / "opaque")
        shutil.copytree(PLACE, folder, ignore=shutil.ignore_patterns("__pycache__"))
    finally:
        shutil.rmtree(PLACE)


if __name__ == "__main__":
    main()
