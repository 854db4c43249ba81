package fx;

import org.apache.flink.api.common.state.MapState;
import org.apache.flink.api.common.state.MapStateDescriptor;
import org.apache.flink.api.common.state.State;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.core.execution.JobClient;
import org.apache.flink.streaming.api.datastream.*;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.util.Collector;

import java.nio.file.*;
import java.util.*;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * Runs one scenario on RocksDB in steps, each followed by checkpoints, so that a key's entries lie in several files;
 * keeps the last checkpoint, or a native savepoint, and writes expected.json beside it.
 */
@SuppressWarnings({"unchecked", "rawtypes"})
public final class Steps {
    static final AtomicInteger SEEN = new AtomicInteger();
    /** Events with lower numbers may be emitted. */
    static volatile int limit;

    public static class Source extends Src {
        Source(int keys, int events) { super(keys, events, true); }
        @Override public void run(SourceContext<Tuple2<Integer, Integer>> c) throws Exception {
            for (int i = 0; on; ) {
                if (i < Math.min(limit, events)) {
                    for (int k = 0; k < keys; k++) synchronized (c.getCheckpointLock()) { c.collect(Tuple2.of(k, i)); }
                    i++;
                } else Thread.sleep(20);
            }
        }
    }

    /** From the third event on, each clears all states of some keys, and removes the map entry before of others. */
    public static class Clearing extends Fns.Keyed {
        Clearing(String scn) { super(scn); }

        @Override public void processElement(Tuple2<Integer, Integer> e, ReadOnlyContext ctx, Collector<String> out) throws Exception {
            super.processElement(e, ctx, out);
            Object key = ctx.getCurrentKey();
            int turn = e.f1 < 2 ? -1 : (e.f0 + e.f1) % 4;
            if (turn == 0) {
                for (State s : st.values()) s.clear();
                for (Map<String, Object> rows : Fns.EXPECTED.values()) rows.remove(Json.write(Json.of(key)));
                Object time = sc.eventTimer.at(e.f0, e.f1 - 1);
                ctx.timerService().deleteEventTimeTimer((Long) time);
                Fns.TIMER_ROWS.remove("event" + Json.write(Json.list(Json.of(key), Json.tag("$void", true), time)));
            }
            for (Scenario.St s : sc.states) {
                if (turn != 1 || s.kind != Scenario.Kind.MAP) continue;
                ((MapState) st.get(s.name)).remove(s.mapKeyGen.at(e.f0, e.f1 - 1));
                note(Fns.EXPECTED, s, key, st.get(s.name));
            }
            SEEN.incrementAndGet();
        }
    }

    public static void main(String[] args) throws Exception {
        Map<String, String> o = Generate.opts(args);
        Scenario sc = Scenarios.get(o.get("scenario"));
        int p = Integer.parseInt(o.getOrDefault("parallelism", "2"));
        int[] steps = Arrays.stream(o.getOrDefault("steps", "2,4,5").split(",")).mapToInt(Integer::parseInt).toArray();
        String kind = o.getOrDefault("snapshot", "checkpoint");
        Path out = Paths.get(o.get("out")).toAbsolutePath(), checkpoints = Paths.get(o.getOrDefault("root", "/tmp/checkpoints"));
        Files.createDirectories(out);
        Generate.rm(checkpoints);
        Configuration conf = Generate.config(o, "rocksdb");
        HeapTimers.keepCheckpoints(conf, checkpoints, o.containsKey("merged"));
        conf.setString("execution.checkpointing.incremental", "true");
        StreamExecutionEnvironment env = StreamExecutionEnvironment.createLocalEnvironment(p, conf);
        env.setMaxParallelism(Integer.parseInt(o.getOrDefault("max-parallelism", "128")));
        env.enableCheckpointing(1000);
        build(env, sc, steps[steps.length - 1]);
        JobClient client = env.executeAsync("steps");
        for (int step : steps) {
            limit = step;
            while (SEEN.get() < sc.nKeys * step || Fns.OPS.get() < sc.nKeys * step || Fns.BC.get() < sc.nBroadcast * p) Thread.sleep(20);
            long before = HeapTimers.newest(checkpoints.resolve(HeapTimers.JOB));
            while (HeapTimers.newest(checkpoints.resolve(HeapTimers.JOB)) < before + 2) Thread.sleep(20);
        }
        Map<String, Object> root = new TreeMap<>();
        HeapTimers.take(client, kind, checkpoints, out, root);
        root.put("scenario", sc.name);
        root.put("flink_version", org.apache.flink.runtime.util.EnvironmentInformation.getVersion());
        root.put("backend", "rocksdb");
        root.put("format", kind);
        root.put("steps", o.getOrDefault("steps", "2,4,5"));
        root.put("parallelism", p);
        root.put("max_parallelism", env.getMaxParallelism());
        root.put("operators", Generate.operators(sc, p));
        Files.writeString(out.resolve("expected.json"), Json.pretty(root));
        System.exit(0);
    }

    static void build(StreamExecutionEnvironment env, Scenario sc, int events) {
        TypeInformation<Tuple2<Integer, Integer>> type = Types.TUPLE(Types.INT, Types.INT);
        DataStream<Tuple2<Integer, Integer>> src = env.addSource(new Source(sc.nKeys, events), "events", type)
                .setParallelism(1).uid("src-events").name("events");
        src.rebalance().map(new Fns.Ops(sc.name)).returns(Types.STRING).uid(sc.opUid).name(sc.opName).sinkTo(new DiscardingSink<>());
        MapStateDescriptor[] rules = sc.bcStates.stream().map(Fns::bcDescriptor).toArray(MapStateDescriptor[]::new);
        BroadcastStream<Tuple2<Integer, Integer>> broadcast = env.addSource(new Src(sc.nBroadcast, 1, true), "rules", type)
                .setParallelism(1).uid("src-rules").name("rules").broadcast(rules);
        KeyedStream keyed = src.keyBy(new Fns.KeySel(sc.name), (TypeInformation) sc.keyType);
        SingleOutputStreamOperator result = keyed.connect(broadcast).process(new Clearing(sc.name), Types.STRING);
        result.uid(sc.keyedUid).name(sc.keyedName).sinkTo(new DiscardingSink<>());
    }
}
