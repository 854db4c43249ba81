package fx;

import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.core.execution.JobClient;
import org.apache.flink.core.execution.SavepointFormatType;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.streaming.api.functions.windowing.ProcessWindowFunction;
import org.apache.flink.streaming.api.windowing.assigners.TumblingEventTimeWindows;
import org.apache.flink.streaming.api.windowing.windows.TimeWindow;
import org.apache.flink.util.Collector;

import java.nio.file.*;
import java.time.Duration;
import java.util.*;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Stream;

/**
 * A job with timers: `--write` runs it up to a snapshot and writes expected.json beside that; `--fire` restores it,
 * ends its input, and writes as JSON which timers then fired, each with the value that its key had at that moment.
 */
public final class HeapTimers {
    static final int KEYS = 20, EVENTS = 3;
    static final String JOB = "00000000000000000000000000000001";
    static final long EVENT_TIME = 1_700_000_000_000L;
    /** What was registered, or what fired: "event", "processing", "windows", "values" -> JSON text -> row. */
    static final Map<String, Map<String, Object>> SEEN = new ConcurrentHashMap<>();
    static final AtomicInteger DONE = new AtomicInteger();

    static void see(String what, Object... row) {
        Object json = Json.list(row);
        SEEN.computeIfAbsent(what, x -> new ConcurrentHashMap<>()).put(Json.write(json), json);
    }

    static List<Object> seen(String what) {
        List<Object> rows = new ArrayList<>(SEEN.getOrDefault(what, Map.of()).values());
        Json.sort(rows);
        return rows;
    }

    static String key(int k) { return "key-" + k; }

    static long eventTime(int k, int i) { return EVENT_TIME + 4_000L * i + 10 * k; }

    /** Keeps a count for each key; its first event registers one timer of each domain, and for even keys a second. */
    public static class Timers extends KeyedProcessFunction<String, Tuple2<Integer, Integer>, String> {
        final boolean wide;
        final long due;
        transient ValueState<Object> count;
        Timers(boolean wide, long due) { this.wide = wide; this.due = due; }

        @SuppressWarnings({"unchecked", "rawtypes"})
        @Override public void open(org.apache.flink.api.common.functions.OpenContext c) {
            count = getRuntimeContext().getState(new ValueStateDescriptor("count", (TypeInformation) (wide ? Types.LONG : Types.INT)));
        }

        @Override public void processElement(Tuple2<Integer, Integer> e, Context c, Collector<String> out) throws Exception {
            Number before = (Number) count.value();
            count.update((before == null ? 0 : before.intValue()) + 1000 * e.f0 + e.f1);
            for (int n = 0; e.f1 == 0 && n <= (e.f0 + 1) % 2; n++) {
                long event = EVENT_TIME + 60_000L * e.f0 + n, processing = due + 100L * e.f0 + n;
                c.timerService().registerEventTimeTimer(event);
                c.timerService().registerProcessingTimeTimer(processing);
                see("event", c.getCurrentKey(), Json.tag("$void", true), event);
                see("processing", c.getCurrentKey(), Json.tag("$void", true), processing);
            }
            if (e.f1 == EVENTS - 1) see("values", c.getCurrentKey(), Json.of(count.value()));
            DONE.incrementAndGet();
        }

        @Override public void onTimer(long time, OnTimerContext c, Collector<String> out) throws Exception {
            String domain = c.timeDomain().name().startsWith("EVENT") ? "event" : "processing";
            see(domain, c.getCurrentKey(), Json.tag("$void", true), time);
            see("values", c.getCurrentKey(), Json.of(count.value()));
            if (domain.equals("processing")) DONE.incrementAndGet();
        }
    }

    public static class Windows extends ProcessWindowFunction<Tuple2<Integer, Integer>, String, String, TimeWindow> {
        @Override public void process(String key, Context c, Iterable<Tuple2<Integer, Integer>> in, Collector<String> out) {
            for (Tuple2<Integer, Integer> sum : in) seeWindow(key, c.window(), sum);
        }
    }

    /** Emits nothing, and ends when all processing-time timers have fired, or after some seconds. */
    public static class Wait extends Src {
        final int timers;
        final long patience;
        Wait(int timers, long patience) { super(0, 0, false); this.timers = timers; this.patience = patience; }
        @Override public void run(SourceContext<Tuple2<Integer, Integer>> c) throws Exception {
            for (long end = System.currentTimeMillis() + patience; on && DONE.get() < timers && System.currentTimeMillis() < end; ) Thread.sleep(20);
        }
    }

    static void build(StreamExecutionEnvironment env, Src source, boolean wide, long due) {
        DataStream<Tuple2<Integer, Integer>> events = env.addSource(source, "events", Types.TUPLE(Types.INT, Types.INT))
                .setParallelism(1).uid("events").name("events");
        events.keyBy(e -> key(e.f0), Types.STRING).process(new Timers(wide, due), Types.STRING)
                .uid("timers").name("timers").sinkTo(new DiscardingSink<>());
        events.assignTimestampsAndWatermarks(WatermarkStrategy.<Tuple2<Integer, Integer>>noWatermarks()
                        .withTimestampAssigner((e, x) -> eventTime(e.f0, e.f1))).uid("times").name("times")
                .keyBy(e -> key(e.f0), Types.STRING).window(TumblingEventTimeWindows.of(Duration.ofSeconds(10)))
                .reduce((a, b) -> Tuple2.of(a.f0, a.f1 + b.f1), new Windows(), Types.STRING)
                .uid("windows").name("windows").sinkTo(new DiscardingSink<>());
    }

    public static void main(String[] args) throws Exception {
        Map<String, String> o = Generate.opts(args);
        String backend = o.getOrDefault("backend", "rocksdb"), timers = o.getOrDefault("timers", "HEAP");
        int p = Integer.parseInt(o.getOrDefault("parallelism", "1"));
        Configuration conf = Generate.config(o, backend);
        conf.setString("state.backend.rocksdb.timer-service.factory", timers);
        conf.setString("state.backend.incremental", o.getOrDefault("incremental", "true"));
        conf.setString("execution.checkpointing.incremental", o.getOrDefault("incremental", "true"));
        Map<String, Object> root = new TreeMap<>();
        root.put("flink_version", org.apache.flink.runtime.util.EnvironmentInformation.getVersion());
        root.put("backend", backend);
        root.put("timers", timers);
        root.put("parallelism", p);
        int status = 0;
        if (o.containsKey("write")) write(o, conf, p, root);
        else status = fire(o, conf, p, root);
        Path out = Paths.get(o.get("out")).toAbsolutePath();
        Files.writeString(o.containsKey("write") ? out.resolve("expected.json") : out, Json.pretty(root));
        System.exit(status);
    }

    static void write(Map<String, String> o, Configuration conf, int p, Map<String, Object> root) throws Exception {
        String kind = o.getOrDefault("snapshot", "checkpoint");
        Path out = Paths.get(o.get("out")).toAbsolutePath(), checkpoints = Paths.get(o.getOrDefault("root", "/tmp/checkpoints"));
        Files.createDirectories(out);
        Generate.rm(checkpoints);
        keepCheckpoints(conf, checkpoints, o.containsKey("merged"));
        long due = System.currentTimeMillis() + 1000L * Long.parseLong(o.getOrDefault("due-s", "60"));
        StreamExecutionEnvironment env = StreamExecutionEnvironment.createLocalEnvironment(p, conf);
        env.setMaxParallelism(Integer.parseInt(o.getOrDefault("max-parallelism", "128")));
        if (kind.equals("checkpoint")) env.enableCheckpointing(500);
        build(env, new Src(KEYS, EVENTS, true), false, due);
        JobClient client = env.executeAsync("timers");
        while (DONE.get() < KEYS * EVENTS) Thread.sleep(20);
        Thread.sleep(1000);  // the window operator, too, has got all
        take(client, kind, checkpoints, out, root);
        if (System.currentTimeMillis() >= due) throw new IllegalStateException("too slow: timers fired before the snapshot");
        root.put("format", kind);
        root.put("max_parallelism", env.getMaxParallelism());
        expectWindows();
        root.put("operators", List.of(timersOf(), windowsOf()));
    }

    /** Lets a job keep its checkpoints in a folder, under a job id of our own. */
    static void keepCheckpoints(Configuration conf, Path checkpoints, boolean merged) {
        conf.setString("$internal.pipeline.job-id", JOB);
        conf.setString("execution.checkpointing.storage", "filesystem");
        conf.setString("execution.checkpointing.dir", checkpoints.toUri().toString());
        conf.setString("execution.checkpointing.externalized-checkpoint-retention", "RETAIN_ON_CANCELLATION");
        conf.setString("execution.checkpointing.file-merging.enabled", String.valueOf(merged));
    }

    /** Ends a job with a checkpoint that has all of its state, or a savepoint, and moves that below `out`. */
    static void take(JobClient client, String kind, Path checkpoints, Path out, Map<String, Object> root) throws Exception {
        Path from = checkpoints, to = out.resolve("checkpoints");
        if (kind.equals("checkpoint")) {
            long before = newest(checkpoints.resolve(JOB));
            while (newest(checkpoints.resolve(JOB)) < before + 2) Thread.sleep(20);
            client.cancel().get(30, TimeUnit.SECONDS);
            Thread.sleep(500);
            root.put("snapshot", "checkpoints/" + JOB + "/chk-" + newest(checkpoints.resolve(JOB)));
            root.put("original_root", "file://" + checkpoints + "/");
        } else {
            SavepointFormatType format = kind.equals("native") ? SavepointFormatType.NATIVE : SavepointFormatType.CANONICAL;
            String place = client.triggerSavepoint(Files.createTempDirectory("fxsp").toUri().toString(), format).get(60, TimeUnit.SECONDS);
            client.cancel().get(30, TimeUnit.SECONDS);
            from = Paths.get(java.net.URI.create(place.startsWith("file:") ? place : "file:" + place));
            to = out.resolve("savepoint");
            root.put("snapshot", "savepoint");
        }
        Generate.rm(to);
        Generate.copy(from, to);
        Generate.rm(from);
    }

    /** Gives the highest N of `chk-N` that is complete; 0 for none. */
    static long newest(Path folder) throws Exception {
        if (!Files.isDirectory(folder)) return 0;
        try (Stream<Path> s = Files.list(folder)) {
            return s.filter(f -> f.getFileName().toString().startsWith("chk-") && Files.exists(f.resolve("_metadata")))
                    .mapToLong(f -> Long.parseLong(f.getFileName().toString().substring(4))).max().orElse(0);
        }
    }

    static int fire(Map<String, String> o, Configuration conf, int p, Map<String, Object> root) {
        try {
            String place = Paths.get(o.get("savepoint")).toAbsolutePath().toUri().toString();
            conf.setString("execution.savepoint.path", place);
            conf.setString("execution.state-recovery.path", place);
            StreamExecutionEnvironment env = StreamExecutionEnvironment.createLocalEnvironment(p, conf);
            env.setMaxParallelism(Integer.parseInt(o.getOrDefault("max-parallelism", "128")));
            build(env, new Wait(Integer.parseInt(o.get("expect")), 1000L * Long.parseLong(o.getOrDefault("patience-s", "10"))), o.containsKey("wide"), 0);
            env.execute("fire");
            root.put("status", "restored");
            root.put("operators", List.of(timersOf(), windowsOf()));
            return 0;
        } catch (Throwable t) {
            List<Object> why = new ArrayList<>();
            for (Throwable x = t; x != null; x = x.getCause()) why.add(x.getClass().getName() + ": " + String.valueOf(x.getMessage()).split("\n")[0]);
            root.put("status", "failed");
            root.put("causes", why);
            return 1;
        }
    }

    /** The shape of an operator in expected.json; the values are those of keys with timers, which are all. */
    static Map<String, Object> timersOf() {
        Map<String, Object> op = new TreeMap<>();
        op.put("uid", "timers");
        op.put("name", "timers");
        op.put("key_type", "String");
        op.put("keyed", new TreeMap<>(Map.of("count", new TreeMap<>(Map.of("kind", "VALUE", "ttl", false, "type", "Integer", "entries", seen("values"))))));
        op.put("timers", new TreeMap<>(Map.of("event", seen("event"), "processing", seen("processing"))));
        return op;
    }

    static Map<String, Object> windowsOf() {
        Map<String, Object> op = new TreeMap<>(), contents = new TreeMap<>();
        op.put("uid", "windows");
        op.put("name", "windows");
        op.put("key_type", "String");
        contents.putAll(Map.of("kind", "REDUCING", "ttl", false, "namespaced", true, "type", "Java Tuple2<Integer, Integer>"));
        contents.put("entries", seen("windows"));
        op.put("keyed", new TreeMap<>(Map.of("window-contents", contents)));
        op.put("timers", new TreeMap<>(Map.of("event", seen("window-ends"), "processing", List.of())));
        return op;
    }

    /** Notes the windows that the events fall into, before any fires. */
    static void expectWindows() {
        for (int k = 0; k < KEYS; k++) {
            Map<Long, Integer> sums = new TreeMap<>();
            for (int i = 0; i < EVENTS; i++) sums.merge(eventTime(k, i) - eventTime(k, i) % 10_000, i, Integer::sum);
            for (Map.Entry<Long, Integer> e : sums.entrySet()) seeWindow(key(k), new TimeWindow(e.getKey(), e.getKey() + 10_000), Tuple2.of(k, e.getValue()));
        }
    }

    static void seeWindow(String key, TimeWindow window, Tuple2<Integer, Integer> sum) {
        see("windows", key, Json.of(window), Json.of(sum));
        see("window-ends", key, Json.of(window), window.maxTimestamp());
    }
}
