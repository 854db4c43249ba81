"""Writes `tests/fixtures/stored-data/<version>/queries`: what queries on Spark store, and what is said of it.

    python tests/stored_data/write_queries.py

Run it once for each version that is released, with `write.py`. A folder that is there is never written again: it is
what that version stored, and each later one answers the same of it. Its README says what each part is.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

import spark_classes  # noqa: E402 - found by the path above

for _name, _value in spark_classes.environment().items():
    os.environ.setdefault(_name, _value)

import stored_queries as user  # noqa: E402
from questions import LISTED, PLACE, QUESTIONS, RESTARTS, TO_COUNTS, UPGRADES, answers, unpacked  # noqa: E402
from restarts import AT_S, USERS, feed, feed_rows, restarted, run_accounts, run_source, upgraded  # noqa: E402

import stateshift as ss  # noqa: E402
import stateshift.spark  # noqa: E402
from stateshift.cli import main as command  # noqa: E402
from stateshift.spark import StreamJob  # noqa: E402
from stateshift.spark.sessions import session  # noqa: E402
from stateshift.spark.streaming.carriers import APPLY_IN_PANDAS, TRANSFORM  # noqa: E402
from stateshift.state.streaming import slot  # noqa: E402

FIXTURES = HERE.parent / "fixtures" / "stored-data"
README = """\
# Queries stored by stateshift {version}

What queries on Spark stored, and the answers of that version; `tests/stored_data/test_stored_queries.py` asks each
later one. `tests/stored_data/write_queries.py` wrote it, once, by the code of {commit}; no file here is ever written
again.

Each archive is unpacked at `{place}`, where it was written: state directories have the places of their checkpoints.
`answers.json` has for each the commands, their exit statuses, and what counts of what they print: verdicts and entries.

- `hashmap`, `rocksdb`: state directory, checkpoint, input and results of `stored_queries.Accounts` after three batches
  in two slots, by `applyInPandasWithState`; a savepoint of it, a record of its types, a plan file and a migrated copy.
  `*-transform`: the same by `transformWithState`.
- `lazy`, `lazy-transform`: the same query in the middle of a lazy migration to `stored_queries.AccountsNow`.
- `source`: a query on a source function. `bounded`: the savepoint of a bounded run, with timers.
- `sums`, `windows`, `distinct`, `joined`, `with_names`: queries of Spark alone with their recordings, `windows` in
  RocksDB; `sums-unrecorded`: one without.
- `listed`: `state_history/queries` of all of them.
- `unfinished`: the migration of a checkpoint of Spark, killed before it was published; `migrated`: a finished one.
- `gate`: a history with two heads and a stamp; `gate-merged`: the same after a merge.
"""
KILLED = """
import sys
from killed_migrations import Steps
from stateshift.cli import main
from stateshift.state.storage.files import FileOutput, Folder

steps = Steps(int(sys.argv[1]))
for of, name in ((Folder, "create"), (Folder, "output"), (FileOutput, "write"), (Folder, "rename"), (Folder, "delete")):
    steps.watch(of, name)
try:
    main({arguments!r})
finally:
    print(steps.count)
"""


class AccountsLeft(user.AccountsNow):
    """Migrates what it touches, and nothing else."""

    def open(self, runtime_context):
        slot.MIGRATED_PER_BATCH = 0
        super().open(runtime_context)


def ask(folder, *arguments, statuses=(0,)):
    """Run a command in this process and that folder."""
    from click.testing import CliRunner

    os.chdir(folder)
    ran = CliRunner().invoke(command, [str(one) for one in arguments])
    if ran.exit_code not in statuses:
        raise SystemExit(f"{arguments} ended with {ran.exit_code}:\n{ran.output}")


# Functions


def begin(spark, folder, carrier, backend):
    for number in range(3):
        feed(folder, number, *((name, number + 1, (AT_S + 40 * number) * 1000) for name in USERS[number:]))
    run_accounts(spark, folder, user.COLUMNS, user.Accounts(), carrier=carrier, backend=backend)


def write_accounts(spark, folder, carrier, backend):
    begin(spark, folder, carrier, backend)
    ask(folder, "savepoint", "state", "savepoint")
    ask(folder, "snapshot", "state", "-o", "types.json")
    ask(folder, "plan", "savepoint", "--job", "stored_queries:job_now", "-o", "plan.json")
    ask(folder, "migrate", "state", "migrated-before", "--job", "stored_queries:job_now")


def write_lazy(spark, folder, carrier):
    begin(spark, folder, carrier, "rocksdb")
    feed(folder, 3, (USERS[0], 1, (AT_S + 120) * 1000))
    how = {"carrier": carrier, "backend": "rocksdb", "on_incompatible": "lazy"}
    run_accounts(spark, folder, user.COLUMNS, AccountsLeft(), **how)
    ask(folder, "snapshot", "state", "-o", "types.json")


def write_source(folder):
    for end in (30, 50):
        run_source(folder, user, end)
    ask(folder, "savepoint", "state", "savepoint")
    ask(folder, "snapshot", "state", "-o", "types.json")


def write_bounded(spark, folder):
    feed(folder, 0, *((name, 1, AT_S * 1000) for name in USERS))
    job = StreamJob(folder / "state", folder / "checkpoint", slots=2, max_parallelism=8)
    payments = spark.read.schema(user.COLUMNS).parquet(str(folder / "in"))
    told = job.stream(payments, timestamp="at").key_by("user").process(user.Accounts(), uid="accounts")
    writer = told.write.format("json").option("path", str(folder / "out"))
    job.run(writer, savepoint=folder / "savepoint", position={"day": 1}, drain=False)


# Queries of Spark alone


def write_spark(spark, folder, name, *, recorded=True):
    (folder / "checkpoint").parent.mkdir(parents=True, exist_ok=True)
    os.environ["STORED_QUERY"] = folder.name
    for number in range(2):
        for place in ("in", "other")[: 2 if name == "joined" else 1]:
            feed_rows(folder, number, place)
        writer = getattr(user, name)(spark).format("noop").trigger(availableNow=True)
        writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
        query = stateshift.spark.start(writer) if recorded else writer.start()
        query.awaitTermination()


def write_unfinished(spark, folder):
    write_spark(spark, folder, "sums")
    program = KILLED.format(arguments=["migrate", "spark:checkpoint", "spark:new", *TO_COUNTS])
    environment = os.environ | {"PYTHONPATH": f"{HERE}:{HERE.parent}"}

    def migrated(step):
        command = [sys.executable, "-c", program, str(step)]
        return subprocess.run(command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True, check=False)

    whole = migrated(-1)
    state = len(list((folder / "new" / "state").rglob("*")))
    step = int(whole.stdout.split()[-1])
    while True:  # until it has died when some of the state was written
        step -= 1
        shutil.rmtree(folder / "new")
        ran = migrated(step)
        assert ran.returncode == -signal.SIGKILL, ran
        if 2 < len(list((folder / "new" / "state").rglob("*"))) < state:
            return


def write_migrated(spark, folder):
    write_spark(spark, folder, "sums")
    ask(folder, "migrate", "spark:checkpoint", "spark:new", *TO_COUNTS)


# Histories


def write_listed(spark, folder):  # noqa: ARG001 - the commands take the running session
    folder.mkdir(parents=True)
    os.environ["STORED_QUERY"] = folder.name
    listed = "".join(f'{name} = "stored_queries:{name}"\n' for name in LISTED)
    (folder / "pyproject.toml").write_text(f"[tool.stateshift.queries]\n{listed}", encoding="utf-8")
    ask(folder, "snapshot", "--queries")


def write_gate(folder, *, merged):
    folder.mkdir(parents=True)
    (folder / "pyproject.toml").write_text("[tool.stateshift]\n", encoding="utf-8")
    ask(folder, "snapshot", "--job", "stored_queries:job", "-m", "first")
    ask(folder, "stamp", "production", "0001")
    first = {file.name: file.read_bytes() for file in (folder / "state_history").iterdir()}
    ask(folder, "snapshot", "--job", "stored_queries:job_now", "-m", "now")
    (now,) = (
        file for file in (folder / "state_history").iterdir() if file.name not in first and file.suffix == ".json"
    )
    kept = now.read_bytes()
    now.unlink()
    ask(folder, "snapshot", "--job", "stored_queries:job_more", "-m", "more")
    now.write_bytes(kept)
    if merged:
        ask(folder, "snapshot", "--job", "stored_queries:job_both", "-m", "both", "--merge")


def pack(folder, file):
    """Pack a folder, with the times of its files: the sources of Spark look at them."""

    def plain(entry):
        entry.uid = entry.gid = 0
        entry.uname = entry.gname = ""
        return entry

    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:xz", preset=9) as packed:
        packed.add(folder, folder.name, filter=plain)
    file.write_bytes(data.getvalue())


def main():
    version = ".".join(ss.__version__.split(".")[:2])
    target = FIXTURES / version / "queries"
    if target.exists():
        raise SystemExit(f"{target} is there, and is what that version stored: it is never written again")
    commit = subprocess.run(
        ["git", "rev-parse", "--short=8", "HEAD"], cwd=HERE, capture_output=True, text=True, check=True
    ).stdout.strip()
    shutil.rmtree(PLACE, ignore_errors=True)
    PLACE.mkdir()
    spark = session(conf={"spark.sql.shuffle.partitions": "2", "spark.sql.session.timeZone": "UTC"})
    provider = "spark.sql.streaming.stateStore.providerClass"
    before = spark.conf.get(provider)
    for carrier, suffix in ((APPLY_IN_PANDAS, ""), (TRANSFORM, "-transform")):
        for backend in ("hashmap", "rocksdb"):
            write_accounts(spark, PLACE / f"{backend}{suffix}", carrier, backend)
        write_lazy(spark, PLACE / f"lazy{suffix}", carrier)
    write_source(PLACE / "source")
    write_bounded(spark, PLACE / "bounded")
    for name in LISTED:
        if name == "windows":
            spark.conf.set(provider, "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider")
        write_spark(spark, PLACE / name, name)
        spark.conf.set(provider, before)
    write_spark(spark, PLACE / "sums-unrecorded", "sums", recorded=False)
    write_listed(spark, PLACE / "listed")
    write_unfinished(spark, PLACE / "unfinished")
    write_migrated(spark, PLACE / "migrated")
    write_gate(PLACE / "gate", merged=False)
    write_gate(PLACE / "gate-merged", merged=True)
    os.chdir(HERE)
    target.mkdir()
    for kind in QUESTIONS:
        pack(PLACE / kind, target / f"{kind}.tar.xz")
    shutil.copy(HERE / "stored_queries.py", target)
    (target / "README.md").write_text(
        README.format(version=ss.__version__, commit=commit, place=PLACE), encoding="utf-8"
    )
    write_answers(spark, target)


def write_answers(spark, target):
    found = {}
    for kind in QUESTIONS:
        with unpacked(target / f"{kind}.tar.xz") as folder:
            found[kind] = [
                {"question": question, "status": status} | ({} if told is None else {"told": told})
                for question, status, told, _ in answers(kind, folder)
            ]
        print(kind, [one["status"] for one in found[kind]], flush=True)
    for what, kinds, start in (("restarted", RESTARTS, restarted), ("upgraded", UPGRADES, upgraded)):
        for kind in kinds:
            with unpacked(target / f"{kind}.tar.xz") as folder:
                found[kind].append({what: start(spark, kind, folder, user)})
            print(kind, found[kind][-1], flush=True)
    text = json.dumps(found, ensure_ascii=False, separators=(",", ":"))
    for one in ("question", "restarted", "upgraded"):
        text = text.replace(f'{{"{one}"', f'\n{{"{one}"')
    (target / "answers.json").write_text(f"{text}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
