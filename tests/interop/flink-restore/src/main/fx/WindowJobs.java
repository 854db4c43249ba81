package fx;

import org.apache.flink.api.common.functions.AggregateFunction;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.core.execution.JobClient;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.datastream.KeyedStream;
import org.apache.flink.streaming.api.datastream.SingleOutputStreamOperator;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.streaming.api.functions.windowing.ProcessWindowFunction;
import org.apache.flink.streaming.api.watermark.Watermark;
import org.apache.flink.streaming.api.windowing.assigners.EventTimeSessionWindows;
import org.apache.flink.streaming.api.windowing.assigners.SlidingEventTimeWindows;
import org.apache.flink.streaming.api.windowing.triggers.CountTrigger;
import org.apache.flink.streaming.api.windowing.triggers.PurgingTrigger;
import org.apache.flink.streaming.api.windowing.windows.Window;
import org.apache.flink.util.Collector;
import org.apache.flink.util.OutputTag;

import java.nio.file.*;
import java.time.Duration;
import java.util.*;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicBoolean;

/**
 * Window operators of several kinds over events from a file, whose lines are `e KEY TIME VALUE` or `w WATERMARK`.
 * `--write` takes a savepoint after them; without it the input ends. `--savepoint` restores. What windows emitted,
 * and what came too late, is written as JSON: rows of [key, window, value, how often it fired].
 */
public final class WindowJobs {
    static final Map<String, List<Object>> SEEN = new ConcurrentHashMap<>();
    static final AtomicBoolean DONE = new AtomicBoolean();
    static final TypeInformation<Tuple2<Integer, Integer>> PAIR = Types.TUPLE(Types.INT, Types.INT);

    static void see(String uid, Object... row) {
        SEEN.computeIfAbsent(uid, x -> Collections.synchronizedList(new ArrayList<>())).add(Json.list(row));
    }

    static Object json(Window window) { return window.maxTimestamp() == Long.MAX_VALUE ? "global" : Json.of(window); }

    static class Events extends Src {
        final List<String> lines;
        Events(List<String> lines, boolean stay) { super(0, 0, stay); this.lines = lines; }
        @Override public void run(SourceContext<Tuple2<Integer, Integer>> c) throws Exception {
            for (String line : lines) {
                String[] w = line.split(" ");
                synchronized (c.getCheckpointLock()) {
                    if (w[0].equals("w")) c.emitWatermark(new Watermark(Long.parseLong(w[1])));
                    else c.collectWithTimestamp(Tuple2.of(Integer.parseInt(w[1]), Integer.parseInt(w[3])), Long.parseLong(w[2]));
                }
            }
            DONE.set(true);
            super.run(c);
        }
    }

    /** Notes what is in a window that fires, and counts how often windows fired: of the key, or each for itself. */
    static class Note<T, W extends Window> extends ProcessWindowFunction<T, String, Integer, W> {
        static final ValueStateDescriptor<Integer> FIRED = new ValueStateDescriptor<>("fired", Types.INT);
        final String uid;
        final boolean each;
        Note(String uid, boolean each) { this.uid = uid; this.each = each; }

        @Override public void process(Integer key, Context c, Iterable<T> in, Collector<String> out) throws Exception {
            ValueState<Integer> fired = (each ? c.windowState() : c.globalState()).getState(FIRED);
            fired.update(fired.value() == null ? 1 : fired.value() + 1);
            List<Object> values = new ArrayList<>();
            for (T one : in) values.add(Json.of(one));
            Json.sort(values);
            see(uid, Json.of(key), json(c.window()), values, Json.of(fired.value()));
        }

        @Override public void clear(Context c) throws Exception {
            if (each) c.windowState().getState(FIRED).clear();
        }
    }

    static class Sum implements AggregateFunction<Tuple2<Integer, Integer>, Tuple2<Integer, Integer>, Integer> {
        @Override public Tuple2<Integer, Integer> createAccumulator() { return Tuple2.of(0, 0); }
        @Override public Tuple2<Integer, Integer> add(Tuple2<Integer, Integer> e, Tuple2<Integer, Integer> a) { return Tuple2.of(a.f0 + e.f1, a.f1 + 1); }
        @Override public Integer getResult(Tuple2<Integer, Integer> a) { return 1000 * a.f0 + a.f1; }
        @Override public Tuple2<Integer, Integer> merge(Tuple2<Integer, Integer> a, Tuple2<Integer, Integer> b) { return Tuple2.of(a.f0 + b.f0, a.f1 + b.f1); }
    }

    static void end(SingleOutputStreamOperator<String> windows, String uid) {
        windows.uid(uid).name(uid).sinkTo(new DiscardingSink<>());
    }

    static void build(StreamExecutionEnvironment env, Src source) {
        DataStream<Tuple2<Integer, Integer>> events = env.addSource(source, "events", PAIR).setParallelism(1).uid("events");
        KeyedStream<Tuple2<Integer, Integer>, Integer> keyed = events.keyBy(e -> e.f0, Types.INT);
        OutputTag<Tuple2<Integer, Integer>> late = new OutputTag<>("late", PAIR);
        SingleOutputStreamOperator<String> sessions = keyed.window(EventTimeSessionWindows.withGap(Duration.ofSeconds(5)))
                .allowedLateness(Duration.ofSeconds(3)).sideOutputLateData(late)
                .reduce((a, b) -> Tuple2.of(a.f0, a.f1 + b.f1), new Note<>("sessions", false), Types.STRING);
        end(sessions, "sessions");
        sessions.getSideOutput(late).map(e -> { see("late", Json.of(e.f0), Json.of(e.f1)); return e; }, PAIR)
                .uid("late").sinkTo(new DiscardingSink<>());
        end(keyed.window(SlidingEventTimeWindows.of(Duration.ofSeconds(20), Duration.ofSeconds(10)))
                .allowedLateness(Duration.ofSeconds(3))
                .aggregate(new Sum(), new Note<>("sums", true), PAIR, Types.INT, Types.STRING), "sums");
        end(keyed.window(EventTimeSessionWindows.<Tuple2<Integer, Integer>>withDynamicGap(e -> 2000L * (1 + e.f1 % 5)))
                .trigger(PurgingTrigger.of(CountTrigger.of(3)))
                .process(new Note<>("lists", false), Types.STRING), "lists");
        end(keyed.countWindow(4).process(new Note<>("counts", false), Types.STRING), "counts");
    }

    /** Takes a savepoint as soon as all tasks are running. */
    static void write(JobClient client, Path out) throws Exception {
        Files.createDirectories(out);
        for (int tries = 0; ; tries++) {
            try {
                HeapTimers.take(client, "canonical", null, out, new TreeMap<>());
                return;
            } catch (java.util.concurrent.ExecutionException e) {
                if (tries == 100) throw e;
                Thread.sleep(200);
            }
        }
    }

    public static void main(String[] args) throws Exception {
        Map<String, String> o = Generate.opts(args);
        Configuration conf = Generate.config(o, o.getOrDefault("backend", "hashmap"));
        int p = Integer.parseInt(o.getOrDefault("parallelism", "1"));
        Map<String, Object> root = new TreeMap<>();
        int status = 0;
        try {
            if (o.containsKey("savepoint")) {
                String place = Paths.get(o.get("savepoint")).toAbsolutePath().toUri().toString();
                conf.setString("execution.savepoint.path", place);
                conf.setString("execution.state-recovery.path", place);
            }
            StreamExecutionEnvironment env = StreamExecutionEnvironment.createLocalEnvironment(p, conf);
            env.setMaxParallelism(Integer.parseInt(o.getOrDefault("max-parallelism", "128")));
            build(env, new Events(Files.readAllLines(Paths.get(o.get("events"))), o.containsKey("write")));
            if (o.containsKey("write")) {
                JobClient client = env.executeAsync("windows");
                while (!DONE.get()) Thread.sleep(20);
                write(client, Paths.get(o.get("write")).toAbsolutePath());
            } else env.execute("windows");
            root.put("status", "restored");
            for (List<Object> rows : SEEN.values()) Json.sort(rows);
            root.put("results", new TreeMap<>(SEEN));
        } catch (Throwable t) {
            List<Object> why = new ArrayList<>();
            for (Throwable x = t; x != null; x = x.getCause()) why.add(x.getClass().getName() + ": " + String.valueOf(x.getMessage()).split("\n")[0]);
            root.put("status", "failed");
            root.put("causes", why);
            status = 1;
        }
        Files.writeString(Paths.get(o.get("out")), Json.pretty(root));
        System.exit(status);
    }
}
