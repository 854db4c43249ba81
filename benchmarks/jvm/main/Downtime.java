import bench.Rec;
import java.nio.file.Path;
import java.util.Locale;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.flink.api.common.JobID;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.core.execution.SavepointFormatType;
import org.apache.flink.runtime.jobgraph.JobGraph;
import org.apache.flink.runtime.jobgraph.SavepointRestoreSettings;
import org.apache.flink.runtime.jobmaster.JobResult;
import org.apache.flink.runtime.minicluster.MiniCluster;
import org.apache.flink.runtime.minicluster.MiniClusterConfiguration;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.streaming.api.functions.source.legacy.SourceFunction;
import org.apache.flink.util.Collector;

/**
 * A job of real Flink with one keyed state of {@code bench.Rec}, on a cluster that runs already.
 *
 * <p>{@code java Downtime FOLDER BACKEND SAVEPOINT [stop]}: starts the job from the savepoint, waits until it has
 * processed its first record with the value found in state, and stops it: with a canonical savepoint, or without any.
 * One line of JSON: {@code restore_s} from the job's submission to that record, {@code take_s} from the call of stop to
 * the end of the job, {@code savepoint} where it lies. FOLDER takes checkpoints, savepoints and the files of RocksDB.
 */
public class Downtime {
    static final int KEYS = 1000;
    static final CountDownLatch PROCESSED = new CountDownLatch(1);
    static volatile long processedAt;
    static volatile boolean wasFound;

    /** Keys of the first entries, again and again, one each millisecond. */
    public static class Records implements SourceFunction<String> {
        volatile boolean runs = true;

        @Override
        public void run(SourceContext<String> context) throws Exception {
            for (long i = 0; runs; i = (i + 1) % KEYS) {
                synchronized (context.getCheckpointLock()) {
                    context.collect("u-" + i * 17);
                }
                Thread.sleep(1);
            }
        }

        @Override
        public void cancel() {
            runs = false;
        }
    }

    public static class Update extends KeyedProcessFunction<String, String, String> {
        transient ValueState<Rec> state;

        @Override
        public void open(OpenContext context) {
            state = getRuntimeContext().getState(new ValueStateDescriptor<>("s", Rec.class));
        }

        @Override
        public void processElement(String key, Context context, Collector<String> out) throws Exception {
            Rec value = state.value();
            if (processedAt == 0) {
                processedAt = System.nanoTime();
                wasFound = value != null;
                PROCESSED.countDown();
            }
            if (value != null) {
                state.update(value);
            }
        }
    }

    static Configuration configuration(Path folder, String backend) {
        Configuration settings = new Configuration();
        settings.setString("state.backend.type", backend);
        settings.setString("execution.checkpointing.storage", "filesystem");
        settings.setString("execution.checkpointing.dir", folder.resolve("checkpoints").toUri().toString());
        settings.setString("io.tmp.dirs", folder.resolve("tmp").toString());
        settings.setString("rest.port", "0");
        settings.setString("rest.bind-port", "0");
        settings.setString("taskmanager.memory.managed.size", "512m");
        settings.setString("taskmanager.memory.network.min", "32m");
        settings.setString("taskmanager.memory.network.max", "32m");
        return settings;
    }

    static JobGraph job(Configuration settings, String savepoint) {
        StreamExecutionEnvironment environment = StreamExecutionEnvironment.getExecutionEnvironment(settings);
        environment.setParallelism(1);
        environment.setMaxParallelism(128);
        environment.addSource(new Records(), "records").uid("records")
                .keyBy(key -> key)
                .process(new Update()).uid("bench").name("bench")
                .sinkTo(new DiscardingSink<>());
        JobGraph graph = environment.getStreamGraph().getJobGraph();
        graph.setSavepointRestoreSettings(SavepointRestoreSettings.forPath(savepoint));
        return graph;
    }

    public static void main(String[] arguments) throws Exception {
        Path folder = Path.of(arguments[0]);
        Configuration settings = configuration(folder, arguments[1]);
        boolean stops = arguments.length > 3;
        MiniClusterConfiguration cluster = new MiniClusterConfiguration.Builder()
                .setConfiguration(settings).setNumTaskManagers(1).setNumSlotsPerTaskManager(1).build();
        String savepoint = "";
        double take = 0;
        long submitted;
        try (MiniCluster flink = new MiniCluster(cluster)) {
            flink.start();
            JobGraph graph = job(settings, Path.of(arguments[2]).toUri().toString());
            JobID id = graph.getJobID();
            submitted = System.nanoTime();
            flink.submitJob(graph).get();
            var result = flink.requestJobResult(id);
            while (!PROCESSED.await(20, TimeUnit.MILLISECONDS)) {
                if (result.isDone()) {
                    JobResult ended = result.get();
                    ended.toJobExecutionResult(Downtime.class.getClassLoader());
                    throw new IllegalStateException("the job has ended before its first record");
                }
            }
            if (!wasFound) {
                throw new IllegalStateException("the first record found no value in state");
            }
            if (stops) {
                long called = System.nanoTime();
                String target = folder.resolve("savepoints").toUri().toString();
                savepoint = flink.stopWithSavepoint(id, target, false, SavepointFormatType.CANONICAL).get();
                result.get();
                take = (System.nanoTime() - called) / 1e9;
            } else {
                flink.cancelJob(id).get();
                result.get();
            }
        }
        System.out.printf(
                Locale.ROOT, "{\"restore_s\": %.6f, \"take_s\": %.6f, \"savepoint\": \"%s\", \"peak_bytes\": %d}%n",
                (processedAt - submitted) / 1e9, take, savepoint.replaceFirst("^file:/*", "/"), Peer.peakBytes());
        System.exit(0);
    }
}
