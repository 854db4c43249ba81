"""Elements sorted into the main output and a side output."""

from pyflink.common import Types
from pyflink.datastream import OutputTag, ProcessFunction, StreamExecutionEnvironment

ODD = OutputTag("odd", Types.STRING())


class Sort(ProcessFunction):
    def process_element(self, value, ctx):
        if value % 2:
            yield ODD, f"odd {value}"
        else:
            yield value


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(2)
main = env.from_collection(list(range(7)), Types.INT()).process(Sort(), Types.INT())
main.print()
main.get_side_output(ODD).print()
env.execute()
