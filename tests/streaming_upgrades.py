"""A query that is upgraded again and again: each version of its class has one more field than the one before."""

from __future__ import annotations

import importlib
import random
import sys

from streaming_accounts import accounts_module

COLUMNS = "user string, amount long"
USERS = 3000
VERSIONS = 12


def build(version, folder):
    """Return what builds the query of a version, whose module is written to a folder: `build(job, query)`."""
    names = [f"upgraded_{number}" for number in range(1, VERSIONS + 1)]
    fields = [f"more_{number}: int = {number}" for number in range(2, version + 1)]
    (folder / f"upgraded_{version}.py").write_text(accounts_module(names, fields), encoding="utf-8")
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    importlib.invalidate_caches()
    module = importlib.import_module(f"upgraded_{version}")
    return lambda job, query: job.stream(query.frame()).key_by("user").process(
        module.Accounts(), uid="accounts", output_type=tuple[str, str]
    )  # fmt: skip


def batch(seed, version):
    """Return the rows of the batch that a version begins with."""
    choice = random.Random(f"rows {seed} {version}")  # noqa: S311 - no secret
    users = range(USERS) if version == 1 else choice.sample(range(USERS), USERS // 10)
    return [(f"user {user}", choice.randint(1, 50)) for user in users]


def expected(seed, last):
    """Return what the versions up to the last one write, each for its batch."""
    totals, visits, results = {}, {}, []
    for version in range(1, last + 1):
        more = "".join(f", more_{number}={number}" for number in range(2, version + 1))
        for user, amount in batch(seed, version):
            totals[user] = totals.get(user, 0) + amount
            visits[user] = visits.get(user, 0) + 1
            results.append((user, f"Account(total={totals[user]}, visits={visits[user]}{more})"))
    return sorted(results, key=repr)
