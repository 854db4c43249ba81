"""What a worker does before its work, in a process of its own."""

import json
import subprocess
import sys

BEGUN = """
import gc, json
from stateshift.serializers.errors import values_are_redacted
from stateshift.serializers.registry import Additions
from stateshift.spark.worker import begin_work

frozen = []
for redacted in (True, False):
    begin_work(Additions(), redacted=redacted)
    frozen.append(gc.get_freeze_count())
    left = [[] for _ in range(1_000)]  # by a task
print(json.dumps({"frozen": frozen, "redacted": values_are_redacted()}))
"""


def test_what_tasks_leave_behind_is_collected_and_what_libraries_keep_is_not_looked_at():
    printed = subprocess.run([sys.executable, "-c", BEGUN], capture_output=True, text=True, check=True).stdout

    facts = json.loads(printed)
    first, second = facts["frozen"]
    assert 1_000 < first == second
    assert facts["redacted"] is False
