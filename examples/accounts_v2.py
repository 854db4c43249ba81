"""Version 2: `obsolete` is gone, `score` and `email` are new. Flink itself can migrate this."""

import attrs
from accounts_v1 import job_of

from stateshift import Int32, record


@record(java_class="fx.evo.Account")
@attrs.frozen
class Account:
    id: int
    name: str
    visits: Int32
    score: float = 0.0
    email: str | None = None


job = job_of(Account)
