"""The results so far of keyed reduce, sum, min and max, and of the union of two streams."""

from pyflink.common import Row, Types
from pyflink.datastream import StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
rows = Types.ROW_NAMED(["key", "n", "note"], [Types.STRING(), Types.INT(), Types.STRING()])
items = [Row("a", 3, "x"), Row("b", 7, "y"), Row("a", 1, "z"), Row("a", 1, "w"), Row("b", 9, "v")]


def keyed(method, position):
    stream = env.from_collection(items, rows)
    getattr(stream.key_by(lambda row: row[0], Types.STRING()), method)(position).print()
    env.execute()


for each in ("sum", "min", "max", "min_by", "max_by"):
    keyed(each, "n")
    keyed(each, 1)
numbers = env.from_collection([1, 2, 3], Types.INT()).union(env.from_collection([4], Types.INT()))
numbers.key_by(lambda n: n % 2, Types.INT()).reduce(lambda one, two: one + two).filter(lambda n: n > 5).print()
env.execute()
