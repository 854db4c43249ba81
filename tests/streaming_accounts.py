"""The module of a query with an account for each user, whose class changes from version to version."""

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


def accounts_module(names, fields=()):
    """Return the source of a module.

    Args:
        names: The modules whose class may be in the state.
        fields: The fields of the class that it has besides.
    """
    aliases = ", ".join(f'"{name}.Account"' for name in names)
    return _SOURCE.format(aliases=aliases, fields="".join(f"    {field}\n" for field in fields))
