"""A query that is upgraded again and again: each version of its class has one more field than the one before."""

from __future__ import annotations

import importlib
import random
import sys

COLUMNS = "user string, amount long"
USERS = 3000
VERSIONS = 12

_SOURCE = """
from collections.abc import Iterator
from typing import Any
import attrs
from stateshift import KeyedProcessFunction, ValueStateDescriptor, record

@record(aliases=[{aliases}])
@attrs.frozen
class Account:
    total: int
    visits: int
{fields}

class Accounts(KeyedProcessFunction):
    def open(self, runtime_context):
        self.account = runtime_context.get_state(ValueStateDescriptor("account", Account))

    def process_element(self, value: Any, ctx: Any) -> Iterator[tuple[str, str]]:
        before = self.account.value() or Account(0, 0)
        after = attrs.evolve(before, total=before.total + value.amount, visits=before.visits + 1)
        self.account.update(after)
        yield value.user, repr(after)
"""


def build(version, folder):
    """Return what builds the query of a version, whose module is written to a folder: `build(job, query)`."""
    aliases = ", ".join(f'"upgraded_{number}.Account"' for number in range(1, VERSIONS + 1))
    fields = "".join(f"    more_{number}: int = {number}\n" for number in range(2, version + 1))
    (folder / f"upgraded_{version}.py").write_text(_SOURCE.format(aliases=aliases, fields=fields), encoding="utf-8")
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
