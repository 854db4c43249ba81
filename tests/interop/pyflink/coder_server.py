"""PyFlink's own coders, asked over pipes: a line of JSON is a type with a value, and is answered by a line.

It runs in an environment with PyFlink, which has nothing of stateshift. The answer has the bytes of both coders, and
what they read of the bytes given.
"""

from __future__ import annotations

import json
import sys
import warnings

warnings.simplefilter("ignore")

from coder_values import taken, told, type_of  # noqa: E402
from pyflink.common import Instant, Row, RowKind, Types  # noqa: E402
from pyflink.fn_execution import coder_impl_fast, coder_impl_slow, coders  # noqa: E402
from pyflink.fn_execution.stream_fast import InputStream as FastInput  # noqa: E402, F401 - it must be the compiled one

CLASSES = {"Instant": Instant, "Row": Row, "RowKind": RowKind}
IMPLEMENTATIONS = {"slow": coder_impl_slow, "fast": coder_impl_fast}


def implementation(spelled, which):
    coders.coder_impl = IMPLEMENTATIONS[which]
    return coders.from_type_info(type_of(Types, spelled)).get_impl()


def read_by(coder, question):
    try:
        return coder.decode(bytes.fromhex(question["bytes"])) if "bytes" in question else None
    except Exception as error:  # noqa: BLE001 - the test says what may fail
        return repr(error)


def answer(question):
    answers = {}
    for which in IMPLEMENTATIONS:
        coder = implementation(question["type"], which)
        value = taken(question["value"], CLASSES)
        try:
            written = coder.encode(value).hex()
        except Exception as error:  # noqa: BLE001 - likewise
            written = repr(error)
        read = read_by(coder, question)
        answers[which] = {"bytes": written, "value": told(read)}
    return answers


for line in sys.stdin:
    print(json.dumps(answer(json.loads(line))), flush=True)
