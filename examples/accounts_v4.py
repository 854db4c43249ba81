"""Version 4: as version 1, and `name` is now called `title`. Flink alone would drop the values."""

from typing import Annotated

import attrs
from accounts_v1 import job_of

from stateshift import Field, Int32, record


@record(java_class="fx.evo.Account")
@attrs.frozen
class Account:
    id: int
    title: Annotated[str, Field(aliases=["name"])]
    visits: Int32
    obsolete: str | None = None


job = job_of(Account)
