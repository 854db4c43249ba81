"""Makes the savepoints in tests/fixtures/pyflink-2.3 beside the first three, with real PyFlink 2.3.

    PYTHON make_fixtures.py FOLDER [NAME …]

PYTHON is that of an environment with apache-flink 2.3, which needs a JDK. For each program below one job runs on a
mini cluster of its own until all lines are read, and stops with a savepoint: FOLDER/NAME/savepoint, and beside it
expected.json with the lines, and the last result of each key. The results of functions with state say what is kept;
what windows hold follows from the lines. A savepoint has the path of its input, so FOLDER is best /data.

A savepoint is canonical; of a NAME that ends with -native it is a native one of RocksDB, and with -incremental the last
of several incremental checkpoints. All their files are small enough to be in _metadata.
"""

import json
import os
import shutil
import subprocess
import sys
import time
from decimal import Decimal
from pathlib import Path

from pyflink.common import Configuration, Duration, Instant, Row, Time, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.connectors.file_system import FileSource, StreamFormat
from pyflink.datastream.functions import (
    AggregateFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    ProcessWindowFunction,
)
from pyflink.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from pyflink.datastream.window import EventTimeSessionWindows, TumblingEventTimeWindows
from pyflink.java_gateway import get_gateway

PATIENCE_S = 90
LINES = [[number % 7, number] for number in range(40)]
"""The key and the number of each line."""
RULES = ["at least 3", "at most 30"]


class Average(AggregateFunction):
    """Keeps the sum and the count."""

    def create_accumulator(self):
        return 0, 0

    def add(self, value, accumulator):
        return accumulator[0] + value, accumulator[1] + 1

    def get_result(self, accumulator):
        return accumulator[0] / accumulator[1]

    def merge(self, one, other):
        return one[0] + other[0], one[1] + other[1]


class Keeps(KeyedProcessFunction):
    """Has state of each kind."""

    def open(self, context):
        self.count = context.get_state(ValueStateDescriptor("count", Types.LONG()))
        self.last = context.get_state(
            ValueStateDescriptor("last", Types.ROW_NAMED(["at", "text"], [Types.LONG(), Types.STRING()]))
        )
        self.note = context.get_state(ValueStateDescriptor("note", Types.PICKLED_BYTE_ARRAY()))
        kept = ValueStateDescriptor("kept", Types.STRING())
        kept.enable_time_to_live(StateTtlConfig.new_builder(Time.days(7)).build())
        self.kept = context.get_state(kept)
        self.events = context.get_list_state(ListStateDescriptor("events", Types.STRING()))
        self.counts = context.get_map_state(MapStateDescriptor("counts", Types.STRING(), Types.LONG()))
        self.total = context.get_reducing_state(
            ReducingStateDescriptor("total", lambda one, other: one + other, Types.LONG())
        )
        self.mean = context.get_aggregating_state(
            AggregatingStateDescriptor("mean", Average(), Types.TUPLE([Types.LONG(), Types.LONG()]))
        )

    def process_element(self, value, ctx):
        key, number = value
        self.count.update((self.count.value() or 0) + 1)
        self.last.update(Row(at=number, text=f"n{number}"))
        self.note.update({"seen": number})
        self.kept.update(f"k{number}")
        self.events.add(f"e{number}")
        kind = "even" if number % 2 == 0 else "odd"
        self.counts.put(kind, (self.counts.get(kind) or 0) + 1)
        self.total.add(number)
        self.mean.add(number)
        ctx.timer_service().register_processing_time_timer(4102444800000 + key)
        last = self.last.value()
        yield json.dumps(
            [
                key,
                {
                    "count": self.count.value(), "last": {"at": last["at"], "text": last["text"]},
                    "note": self.note.value(), "kept": self.kept.value(), "events": list(self.events.get()),
                    "counts": dict(self.counts.items()), "total": self.total.get(), "mean": self.mean.get(),
                },
            ]
        )  # fmt: skip


def described(types):
    """Return each of the types with a value made of a number."""
    return {
        "byte": (types.BYTE(), lambda n: n),
        "short": (types.SHORT(), lambda n: n * 300),
        "int": (types.INT(), lambda n: n * 70_000),
        "float": (types.FLOAT(), lambda n: n / 4),
        "double": (types.DOUBLE(), lambda n: n / 8),
        "boolean": (types.BOOLEAN(), lambda n: n % 2 == 0),
        "char": (types.CHAR(), lambda n: chr(65 + n % 26)),
        "big_int": (types.BIG_INT(), lambda n: n * 10**12),
        "big_dec": (types.BIG_DEC(), lambda n: Decimal(n) / 100),
        "instant": (types.INSTANT(), lambda n: Instant(n, n * 1000)),
        "texts": (types.BASIC_ARRAY(types.STRING()), lambda n: [f"t{n}", "é"]),
        "objects": (types.OBJECT_ARRAY(types.MAP(types.STRING(), types.LONG())), lambda n: [{"n": n}]),
        "ints": (types.PRIMITIVE_ARRAY(types.INT()), lambda n: [n, -n]),
        "numbers": (types.LIST(types.LONG()), lambda n: [n, n + 1]),
        "floats": (types.MAP(types.INT(), types.FLOAT()), lambda n: {n: n / 2}),
        "tuple": (types.TUPLE([types.STRING(), types.INT()]), lambda n: (f"t{n}", n)),
        "row": (types.ROW_NAMED(["a", "b"], [types.LONG(), types.STRING()]), lambda n: Row(a=n, b=None)),
    }


class EachType(KeyedProcessFunction):
    """Has a value of each type."""

    def __init__(self, left_out=()):
        self.left_out = left_out

    def open(self, context):
        self.states = [
            (context.get_state(ValueStateDescriptor(name, of)), make)
            for name, (of, make) in described(Types).items()
            if name not in self.left_out
        ]

    def process_element(self, value, ctx):
        for state, make in self.states:
            state.update(make(value[1]))
        yield json.dumps([value[0], value[1]])


class Rules(KeyedBroadcastProcessFunction):
    """Has a broadcast map and the numbers of a key."""

    def __init__(self, rules):
        self.rules = rules

    def open(self, context):
        self.seen = context.get_list_state(ListStateDescriptor("seen", Types.LONG()))

    def process_element(self, value, ctx):
        self.seen.add(value[1])
        yield json.dumps([value[0], {"seen": list(self.seen.get())}])

    def process_broadcast_element(self, value, ctx):
        state = ctx.get_broadcast_state(self.rules)
        state.put(value, len(value))
        yield json.dumps(["rules", dict(state.items())])


class Both(KeyedCoProcessFunction):
    """Counts the elements of two inputs."""

    def open(self, context):
        self.left = context.get_state(ValueStateDescriptor("left", Types.LONG()))
        self.right = context.get_map_state(MapStateDescriptor("right", Types.LONG(), Types.STRING()))

    def process_element1(self, value, ctx):
        self.left.update((self.left.value() or 0) + value[1])
        yield self.told(value[0])

    def process_element2(self, value, ctx):
        self.right.put(value[1], f"r{value[1]}")
        yield self.told(value[0])

    def told(self, key):
        right = {str(one): text for one, text in self.right.items()}
        return json.dumps([key, {"left": self.left.value(), "right": right}])


class Collects(ProcessWindowFunction):
    """Makes a text of a window."""

    def process(self, key, context, elements):
        yield json.dumps([key, [one[1] for one in elements]])


class Seconds(TimestampAssigner):
    """The number of a line is its time in seconds."""

    def extract_timestamp(self, value, record_timestamp):
        return value[1] * 1000


NUMBERS = Types.TUPLE([Types.LONG(), Types.LONG()])


def key_of(value):
    return value[0]


def keyed(stream):
    return stream.key_by(key_of, Types.LONG())


def values(stream):
    return keyed(stream).process(Keeps(), Types.STRING()).uid("keeps")


def types(stream):
    return keyed(stream).process(EachType(), Types.STRING()).uid("types")


def types_of_threads(stream):
    """Return the stream of the types that thread mode can keep: of others PyFlink fails at the first checkpoint."""
    fails = EachType(("big_int", "instant", "ints", "numbers", "texts"))
    return keyed(stream).process(fails, Types.STRING()).uid("types")


def windows(stream):
    """Event-time windows of a hundred seconds, with a list, a reduced value and an accumulator."""
    assigner = TumblingEventTimeWindows.of(Time.seconds(100))
    lists = keyed(stream).window(assigner).process(Collects(), Types.STRING()).uid("lists")
    reduced = keyed(stream).window(assigner).reduce(lambda one, other: (one[0], one[1] + other[1]), output_type=NUMBERS)
    told = reduced.uid("reduced").map(json.dumps, Types.STRING())
    return lists.union(told)


def sessions(stream):
    gap = EventTimeSessionWindows.with_gap(Time.seconds(3))
    return (
        keyed(stream.filter(lambda value: value[1] % 10 < 8))
        .window(gap)
        .process(Collects(), Types.STRING())
        .uid("sessions")
    )


def counts(stream):
    tumbling = keyed(stream).count_window(4).process(Collects(), Types.STRING()).uid("tumbling")
    sliding = keyed(stream).count_window(4, 2).process(Collects(), Types.STRING()).uid("sliding")
    return tumbling.union(sliding)


def broadcast(stream):
    rules = MapStateDescriptor("rules", Types.STRING(), Types.LONG())
    said = stream.get_execution_environment().from_collection(RULES, Types.STRING()).broadcast(rules)
    return keyed(stream).connect(said).process(Rules(rules), Types.STRING()).uid("rules")


def reduces(stream):
    """Sums of keyed streams, whose state PyFlink names anew at each start, in each subtask."""
    summed = keyed(stream).reduce(lambda one, other: (one[0], one[1] + other[1])).uid("reduces")
    return summed.map(json.dumps, Types.STRING())


def inputs(stream):
    odd = keyed(stream.filter(lambda value: value[1] % 2 == 1))
    return (
        keyed(stream.filter(lambda value: value[1] % 2 == 0)).connect(odd).process(Both(), Types.STRING()).uid("both")
    )


PROGRAMS = {
    "types": (types, "process"),
    "types-thread": (types_of_threads, "thread"),
    "values-thread": (values, "thread"),
    "values-process": (values, "process"),
    "windows": (windows, "process"),
    "sessions": (sessions, "process"),
    "counts": (counts, "process"),
    "broadcast": (broadcast, "process"),
    "inputs": (inputs, "process"),
    "windows-thread": (windows, "thread"),
    "inputs-thread": (inputs, "thread"),
    "reduces": (reduces, "process"),
    "reduces-again": (reduces, "process"),
    "reduces-thread": (reduces, "thread"),
}
PARALLELISM = {"reduces": 2, "reduces-again": 2}
RESTORED = {"reduces-again": "reduces"}
"""From which other savepoint a job starts."""
NATIVE, INCREMENTAL = "-native", "-incremental"
FORMS = [
    *(
        f"{name}{form}"
        for name in ("values-process", "types", "windows", "broadcast", "inputs")
        for form in (NATIVE, INCREMENTAL)
    ),
    *(
        f"{name}{NATIVE}"
        for name in ("sessions", "counts", "values-thread", "types-thread", "windows-thread", "inputs-thread")
    ),
]
"""What is made in files of RocksDB, too."""
OF_ROCKSDB = {
    "state.backend.type": "rocksdb",
    "execution.checkpointing.data-inline-threshold": "1mb",
    "state.backend.rocksdb.log.dir": "/data/log",  # which its options name
}
CHECKPOINTS_MS = 500


class Notes:
    """Appends each text to a file of its own process."""

    def __init__(self, folder):
        self.folder = folder

    def __call__(self, text):
        with Path(self.folder, f"{os.getpid()}").open("a", encoding="utf-8") as file:
            file.write(text + "\n")
        return text


def parsed(line):
    key, number = line.split()
    return int(key), int(number)


def lines_in(folder):
    return [line for one in folder.iterdir() for line in one.read_text("utf-8").splitlines()]


def run(name, folder):
    """Run a program, and keep its savepoint."""
    program, mode = PROGRAMS[name.removesuffix(NATIVE).removesuffix(INCREMENTAL)]
    place = folder / name
    shutil.rmtree(place, ignore_errors=True)
    lines, results, read = (place / one for one in ("lines", "results", "read"))
    for one in (lines, results, read):
        one.mkdir(parents=True)
    (lines / "1.txt").write_text("".join(f"{key} {number}\n" for key, number in LINES))
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(os.path.isdir, sys.path[1:]))  # thread mode knows no environment
    configuration = Configuration()
    taken = {
        "execution.checkpointing.interval": f"{CHECKPOINTS_MS} ms",
        "execution.checkpointing.incremental": "true",
        "execution.checkpointing.dir": place.resolve().as_uri(),
        "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
    }
    for option, value in {
        "python.executable": sys.executable,
        "python.client.executable": sys.executable,
        "python.execution-mode": mode,
        "python.fn-execution.bundle.time": "100",
        "state.backend.type": "hashmap",
        "rest.port": "0",
        **(OF_ROCKSDB if name in FORMS else {}),
        **(taken if name.endswith(INCREMENTAL) else {}),
    }.items():
        configuration.set_string(option, value)
    if name in RESTORED:
        before = folder / RESTORED[name] / "savepoint"
        configuration.set_string("execution.state-recovery.path", before.as_uri())
    environment = StreamExecutionEnvironment.get_execution_environment(configuration)
    environment.set_parallelism(PARALLELISM.get(name, 1))
    environment.set_max_parallelism(128)
    source = (
        FileSource.for_record_stream_format(StreamFormat.text_line_format(), lines.as_uri())
        .monitor_continuously(Duration.of_millis(200))
        .build()
    )
    times = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Seconds())
    stream = (
        environment.from_source(source, WatermarkStrategy.no_watermarks(), "lines")
        .uid("lines")
        .map(parsed, NUMBERS)
        .assign_timestamps_and_watermarks(times)
    )
    program(stream).map(Notes(str(results)), Types.STRING()).print()
    stream.map(json.dumps, Types.STRING()).map(Notes(str(read)), Types.STRING()).print()
    client = environment.execute_async()
    begin = time.monotonic()
    while len(lines_in(read)) < len(LINES):
        if time.monotonic() - begin > PATIENCE_S or client._j_job_client.getJobExecutionResult().isDone():
            print(client.get_job_execution_result().result())
            raise SystemExit(f"{name}: {len(lines_in(read))} of {len(LINES)} lines")
        time.sleep(0.1)
    time.sleep(3)
    if name.endswith(INCREMENTAL):
        client.cancel().result()
        (written,) = place.glob("*/chk-*")
    else:
        forms = get_gateway().jvm.org.apache.flink.core.execution.SavepointFormatType
        form = forms.NATIVE if name.endswith(NATIVE) else forms.CANONICAL
        taken_at = client._j_job_client.stopWithSavepoint(False, place.resolve().as_uri(), form).get()
        written = Path(taken_at.removeprefix("file:"))
    written.rename(place / "savepoint")
    last = dict(json.loads(line) for line in lines_in(results))
    expected = {"mode": mode, "lines": LINES, "last": {str(key): last[key] for key in sorted(last, key=str)}}
    (place / "expected.json").write_text(json.dumps(expected) + "\n", "utf-8")
    for one in place.iterdir():
        if one.is_dir() and one.name != "savepoint":
            shutil.rmtree(one)
    print(name, "done", flush=True)


if __name__ == "__main__":
    place = Path(sys.argv[1])
    names = sys.argv[2:] or [*PROGRAMS, *FORMS]
    if len(names) == 1:
        run(names[0], place)
    else:
        for each in names:  # a mini cluster is of one process
            subprocess.run([sys.executable, __file__, str(place), each], check=True)
