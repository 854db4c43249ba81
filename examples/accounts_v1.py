"""The job as it was when Flink took the savepoint `rocksdb-account-v1`: version 1 of the class Account.

`java_class` names the class of the Java job. Java's `int` is `Int32`; `long` is Python's `int`.
"""

import attrs

from stateshift import Int32, Job, ListStateDescriptor, MapStateDescriptor, Operator, ValueStateDescriptor, record


@record(java_class="fx.evo.Account")
@attrs.frozen
class Account:
    id: int
    name: str
    visits: Int32
    obsolete: str | None = None


def job_of(account: type) -> Job:
    """The operators and states of the job; they are the same for every version of the class."""
    return Job(
        [
            Operator(
                "account-state",
                key=int,
                states=[
                    ValueStateDescriptor("account", account),
                    ListStateDescriptor("accounts", account),
                    MapStateDescriptor("account-by-name", str, account),
                    ValueStateDescriptor("version-free", int),
                ],
            ),
            Operator("account-state-lists", list_states=[ListStateDescriptor("pending", account)]),
        ]
    )


job = job_of(Account)
