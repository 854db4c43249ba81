package shop;

import java.time.Duration;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.serialization.SimpleStringEncoder;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.connector.file.sink.FileSink;
import org.apache.flink.connector.file.src.FileSource;
import org.apache.flink.connector.file.src.reader.TextLineInputFormat;
import org.apache.flink.core.fs.Path;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.streaming.api.functions.sink.filesystem.rollingpolicies.OnCheckpointRollingPolicy;
import org.apache.flink.util.Collector;

/** The total of each customer, of lines as {@code ada,5}: {@code Accounts NAME INPUT OUTPUT}, both of them folders. */
public class Accounts {
    public static class Add extends KeyedProcessFunction<String, String, String> {
        transient ValueState<Account> state;

        @Override
        public void open(OpenContext context) {
            state = getRuntimeContext().getState(new ValueStateDescriptor<>("account", Account.class));
        }

        @Override
        public void processElement(String line, Context context, Collector<String> out) throws Exception {
            Account account = state.value() == null ? new Account() : state.value();
            account.add(Integer.parseInt(line.substring(line.indexOf(',') + 1)));
            state.update(account);
            out.collect(context.getCurrentKey() + " has " + account.total);
        }
    }

    public static void main(String[] arguments) throws Exception {
        StreamExecutionEnvironment environment = StreamExecutionEnvironment.getExecutionEnvironment();
        FileSource<String> lines = FileSource.forRecordStreamFormat(new TextLineInputFormat(), new Path(arguments[1]))
                .monitorContinuously(Duration.ofMillis(100)).build();
        FileSink<String> totals = FileSink.forRowFormat(new Path(arguments[2]), new SimpleStringEncoder<String>())
                .withRollingPolicy(OnCheckpointRollingPolicy.build()).build();
        environment.fromSource(lines, WatermarkStrategy.noWatermarks(), "purchases").uid("purchases")
                .keyBy(line -> line.substring(0, line.indexOf(',')))
                .process(new Add()).uid("accounts")
                .sinkTo(totals).uid("totals");
        environment.execute(arguments[0]);
    }
}
