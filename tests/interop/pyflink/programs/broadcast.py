"""A broadcast stream that is collected in every subtask, and told for each key at the end."""

from pyflink.common import Types
from pyflink.datastream import KeyedBroadcastProcessFunction, StreamExecutionEnvironment
from pyflink.datastream.state import MapStateDescriptor, ValueStateDescriptor

RULES = MapStateDescriptor("rules", Types.STRING(), Types.INT())
END = 2**63 - 1


class Apply(KeyedBroadcastProcessFunction):
    def open(self, runtime_context):
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG()))

    def process_element(self, value, ctx):
        self.total.update((self.total.value() or 0) + value)
        ctx.timer_service().register_event_time_timer(END)

    def process_broadcast_element(self, value, ctx):
        ctx.get_broadcast_state(RULES).put(value[0], value[1])

    def on_timer(self, timestamp, ctx):
        for name, factor in sorted(ctx.get_broadcast_state(RULES).items()):
            yield ctx.get_current_key(), name, self.total.value() * factor


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(2)
rules = env.from_collection([("double", 2), ("ten", 10)], Types.TUPLE([Types.STRING(), Types.INT()]))
numbers = env.from_collection([1, 2, 3, 4, 5, 6, 7], Types.INT())
numbers.key_by(lambda n: n % 3, Types.INT()).connect(rules.broadcast(RULES)).process(Apply()).print()
env.execute()
