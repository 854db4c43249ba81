"""Two streams that share the state of a key, whichever is first; and two without keys."""

from pyflink.common import Types
from pyflink.datastream import CoMapFunction, KeyedCoProcessFunction, StreamExecutionEnvironment
from pyflink.datastream.state import ListStateDescriptor


class Join(KeyedCoProcessFunction):
    def open(self, runtime_context):
        self.left = runtime_context.get_list_state(ListStateDescriptor("left", Types.STRING()))
        self.right = runtime_context.get_list_state(ListStateDescriptor("right", Types.STRING()))

    def process_element1(self, value, ctx):
        self.left.add(value[1])
        for other in self.right.get():
            yield ctx.get_current_key(), value[1], other

    def process_element2(self, value, ctx):
        self.right.add(value[1])
        for other in self.left.get():
            yield ctx.get_current_key(), other, value[1]


class Both(CoMapFunction):
    def map1(self, value):
        return "first", value[1]

    def map2(self, value):
        return "second", value[1]


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(2)
pair = Types.TUPLE([Types.INT(), Types.STRING()])
names = env.from_collection([(1, "ada"), (2, "bob"), (1, "eva")], pair)
visits = env.from_collection([(2, "x"), (1, "y"), (3, "z")], pair)
names.connect(visits).key_by(lambda v: v[0], lambda v: v[0], Types.INT()).process(Join()).print()
names.connect(visits).map(Both()).print()
env.execute()
