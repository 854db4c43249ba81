import bench.Rec;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Field;
import java.nio.file.Path;
import java.util.Locale;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.LinkedBlockingQueue;
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
import org.rocksdb.ColumnFamilyHandle;
import org.rocksdb.RocksDB;

/**
 * A job of real Flink with one keyed state of {@code bench.Rec} in RocksDB, on a cluster that runs already.
 *
 * <p>{@code java Downtime FOLDER SAVEPOINT} starts the job from the savepoint and waits until it has processed its first
 * record, whose value must be found in state. Then it does what lines of its input say, and answers each with a line of
 * JSON. FOLDER takes checkpoints, savepoints and the files of RocksDB.
 *
 * <pre>
 *   (the start)        restore_s: from submission until the function is open, its state restored and registered;
 *                      first_record_s: from there; amount: of the first key
 *   change COUNT STEP  add 1 to the amount of every STEP-th key, COUNT of them, and wait until that is done
 *   compact            compact the state: all of its files are new
 *   checkpoint         take one; place
 *   stop FORMAT        with a savepoint, CANONICAL or NATIVE; place, take_s until the job has ended
 *   cancel             with a checkpoint right before; place, take_s of both
 *   end                without any
 * </pre>
 */
public class Downtime {
    static final int KEYS = 1000;
    static final String CHANGE = "+";
    static final String COMPACT = "!";
    static final BlockingQueue<String> ASKED = new LinkedBlockingQueue<>();
    static final CompletableFuture<Double> FIRST = new CompletableFuture<>();
    static volatile long openedAt;
    static volatile long processedAt;
    static volatile long done;

    /** Keys of the first entries, again and again, one each millisecond; and what is asked for, at once. */
    public static class Records implements SourceFunction<String> {
        volatile boolean runs = true;

        @Override
        public void run(SourceContext<String> context) throws Exception {
            for (long i = 0; runs; i = (i + 1) % KEYS) {
                String asked = ASKED.poll(1, TimeUnit.MILLISECONDS);
                synchronized (context.getCheckpointLock()) {
                    context.collect(asked == null ? "u-" + i * 17 : asked);
                }
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
            openedAt = System.nanoTime();
        }

        @Override
        public void processElement(String asked, Context context, Collector<String> out) throws Exception {
            if (asked.startsWith(COMPACT)) {
                compact();
                done++;
                return;
            }
            Rec value = state.value();
            if (processedAt == 0) {
                processedAt = System.nanoTime();
                if (value == null) {
                    FIRST.completeExceptionally(new IllegalStateException("the first record found no value in state"));
                } else {
                    FIRST.complete(value.amount);
                }
            }
            if (value != null) {
                boolean changes = asked.startsWith(CHANGE);
                value.amount += changes ? 1 : 0;
                state.update(value);
                done += changes ? 1 : 0;
            }
        }

        void compact() throws Exception {
            Object backend = in(state, "backend");
            ((RocksDB) in(backend, "db")).compactRange((ColumnFamilyHandle) in(state, "columnFamily"));
        }

        static Object in(Object object, String name) throws Exception {
            for (Class<?> one = object.getClass(); one != null; one = one.getSuperclass()) {
                for (Field field : one.getDeclaredFields()) {
                    if (field.getName().equals(name)) {
                        field.setAccessible(true);
                        return field.get(object);
                    }
                }
            }
            throw new NoSuchFieldException(name);
        }
    }

    static Configuration configuration(Path folder) {
        Configuration settings = new Configuration();
        settings.setString("state.backend.type", "rocksdb");
        settings.setString("execution.checkpointing.storage", "filesystem");
        settings.setString("execution.checkpointing.dir", folder.resolve("checkpoints").toUri().toString());
        settings.setString("execution.checkpointing.incremental", "true");
        settings.setString("execution.checkpointing.externalized-checkpoint-retention", "RETAIN_ON_CANCELLATION");
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
                .keyBy(asked -> asked.startsWith(CHANGE) || asked.startsWith(COMPACT) ? asked.substring(1) : asked)
                .process(new Update()).uid("bench").name("bench")
                .sinkTo(new DiscardingSink<>());
        JobGraph graph = environment.getStreamGraph().getJobGraph();
        graph.setSavepointRestoreSettings(SavepointRestoreSettings.forPath(savepoint));
        return graph;
    }

    static void ask(String what, long count, long step) throws InterruptedException {
        long before = done;
        for (long i = 0; i < count; i++) {
            ASKED.add(what + "u-" + i * step * 17);
        }
        while (done < before + count) {
            Thread.sleep(10);
        }
    }

    static void answer(String form, Object... values) {
        System.out.printf(Locale.ROOT, form + "%n", values);
        System.out.flush();
    }

    static String path(String place) {
        return place.replaceFirst("^file:/*", "/");
    }

    public static void main(String[] arguments) throws Exception {
        Path folder = Path.of(arguments[0]);
        Configuration settings = configuration(folder);
        MiniClusterConfiguration cluster = new MiniClusterConfiguration.Builder()
                .setConfiguration(settings).setNumTaskManagers(1).setNumSlotsPerTaskManager(1).build();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        try (MiniCluster flink = new MiniCluster(cluster)) {
            flink.start();
            JobGraph graph = job(settings, Path.of(arguments[1]).toUri().toString());
            JobID id = graph.getJobID();
            long submitted = System.nanoTime();
            flink.submitJob(graph).get();
            var result = flink.requestJobResult(id);
            result.thenAccept(ended -> FIRST.completeExceptionally(ended.getSerializedThrowable()
                    .map(error -> (Throwable) error).orElseGet(() -> new IllegalStateException("the job has ended"))));
            double amount = FIRST.get();
            answer("{\"restore_s\": %.6f, \"first_record_s\": %.6f, \"amount\": %.6f}",
                    (openedAt - submitted) / 1e9, (processedAt - openedAt) / 1e9, amount);
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                String[] words = line.split(" ");
                long called = System.nanoTime();
                String place = "";
                boolean ends = true;
                switch (words[0]) {
                    case "change":
                        ask(CHANGE, Long.parseLong(words[1]), Long.parseLong(words[2]));
                        ends = false;
                        break;
                    case "compact":
                        ask(COMPACT, 1, 1);
                        ends = false;
                        break;
                    case "checkpoint":
                        place = flink.triggerCheckpoint(id).get();
                        ends = false;
                        break;
                    case "stop":
                        String target = folder.resolve("savepoints").toUri().toString();
                        place = flink.stopWithSavepoint(id, target, false, SavepointFormatType.valueOf(words[1])).get();
                        break;
                    case "cancel":
                        place = flink.triggerCheckpoint(id).get();
                        flink.cancelJob(id).get();
                        break;
                    case "end":
                        flink.cancelJob(id).get();
                        break;
                    default:
                        throw new IllegalArgumentException(line);
                }
                if (ends) {
                    JobResult ended = result.get();
                    if (words[0].equals("stop")) {
                        ended.toJobExecutionResult(Downtime.class.getClassLoader());
                    }
                }
                answer("{\"take_s\": %.6f, \"place\": \"%s\"}", (System.nanoTime() - called) / 1e9, path(place));
                if (ends) {
                    break;
                }
            }
        }
        System.exit(0);
    }
}
