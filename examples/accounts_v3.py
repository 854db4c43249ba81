"""Version 3: as version 2, and `visits` is widened from int to long. Flink refuses this."""

import attrs
from accounts_v1 import job_of

from stateshift import record


@record(java_class="fx.evo.Account")
@attrs.frozen
class Account:
    id: int
    name: str
    visits: int
    score: float = 0.0
    email: str | None = None


job = job_of(Account)
