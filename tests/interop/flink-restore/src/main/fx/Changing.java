package fx;

import org.apache.flink.api.common.state.*;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.core.execution.JobClient;
import org.apache.flink.core.execution.SavepointFormatType;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.util.Collector;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.file.*;
import java.time.Duration;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.TimeUnit;

/**
 * A job on RocksDB whose keys change all the time, and are deleted, with incremental checkpoints; small files, so that
 * there are compactions all the time, too. It obeys its input: `savepoint DIR` stops it with a native savepoint, whose place is
 * printed; `cancel` stops it at once, and its last checkpoints stay.
 */
public final class Changing {
    /** Emits random (key, number) pairs until it is cancelled. */
    public static class Random32 extends Src {
        final int keys, pause;
        final long seed;
        Random32(int keys, int pause, long seed) { super(0, 0, true); this.keys = keys; this.pause = pause; this.seed = seed; }

        @Override public void run(SourceContext<Tuple2<Integer, Integer>> c) throws Exception {
            Random random = new Random(seed);
            for (long n = 0; on; n++) {
                synchronized (c.getCheckpointLock()) { c.collect(Tuple2.of(random.nextInt(keys), random.nextInt())); }
                if (n % 100 == 99) Thread.sleep(pause);
            }
        }
    }

    public static class Changes extends KeyedProcessFunction<Long, Tuple2<Integer, Integer>, String> {
        transient ValueState<Integer> count, session;
        transient ValueState<String> note;
        transient ListState<Integer> events;
        transient MapState<String, Integer> counts;

        @Override public void open(org.apache.flink.api.common.functions.OpenContext c) {
            ValueStateDescriptor<Integer> expiring = new ValueStateDescriptor<>("session", Types.INT);
            expiring.enableTimeToLive(StateTtlConfig.newBuilder(Duration.ofSeconds(5)).cleanupInRocksdbCompactFilter(1).build());
            session = getRuntimeContext().getState(expiring);
            count = getRuntimeContext().getState(new ValueStateDescriptor<>("count", Types.INT));
            note = getRuntimeContext().getState(new ValueStateDescriptor<>("note", Types.STRING));
            events = getRuntimeContext().getListState(new ListStateDescriptor<>("events", Types.INT));
            counts = getRuntimeContext().getMapState(new MapStateDescriptor<>("counts", Types.STRING, Types.INT));
        }

        @Override public void processElement(Tuple2<Integer, Integer> e, Context c, Collector<String> out) throws Exception {
            int n = e.f1;
            switch (Math.floorMod(n, 8)) {
                case 0 -> { count.clear(); events.clear(); }
                case 1, 2 -> count.update(n);
                case 3 -> events.add(n);
                case 4 -> counts.put("k" + Math.floorMod(n >> 8, 5), n);
                case 5 -> counts.remove("k" + Math.floorMod(n >> 8, 5));
                case 6 -> {
                    session.update(n);
                    c.timerService().registerProcessingTimeTimer(c.timerService().currentProcessingTime() + Math.floorMod(n >> 8, 4000));
                    c.timerService().registerEventTimeTimer(Math.floorMod(n >> 8, 100_000));
                }
                default -> {
                    c.timerService().deleteEventTimeTimer(Math.floorMod(n >> 8, 100_000));
                    if (n % 5 == 0) counts.clear();
                    note.update("note " + n);
                }
            }
        }

        @Override public void onTimer(long time, OnTimerContext c, Collector<String> out) throws Exception { count.clear(); }
    }

    public static void main(String[] args) throws Exception {
        Map<String, String> o = Generate.opts(args);
        Configuration conf = Generate.config(o, "rocksdb");
        for (String name : new String[] {"state.backend.incremental", "execution.checkpointing.incremental"}) conf.setString(name, "true");
        conf.setString("execution.checkpointing.storage", "filesystem");
        conf.setString("state.checkpoint-storage", "filesystem");
        String place = Paths.get(o.get("checkpoints")).toAbsolutePath().toUri().toString();
        conf.setString("execution.checkpointing.dir", place);
        conf.setString("state.checkpoints.dir", place);
        conf.setString("execution.checkpointing.externalized-checkpoint-retention", "RETAIN_ON_CANCELLATION");
        conf.setString("execution.checkpointing.num-retained", "2");
        conf.setString("state.checkpoints.num-retained", "2");
        conf.setString("state.backend.rocksdb.memory.managed", "false");
        conf.removeConfig(org.apache.flink.configuration.ConfigOptions.key("state.backend.rocksdb.memory.fixed-per-slot").stringType().noDefaultValue());
        conf.setString("state.backend.rocksdb.writebuffer.size", "64kb");
        conf.setString("state.backend.rocksdb.compaction.level.max-size-level-base", "64kb");
        conf.setString("state.backend.rocksdb.compaction.level.target-file-size-base", "32kb");
        if (o.containsKey("savepoint")) {
            String from = Paths.get(o.get("savepoint")).toAbsolutePath().toUri().toString();
            conf.setString("execution.savepoint.path", from);
            conf.setString("execution.state-recovery.path", from);
        }
        int p = Integer.parseInt(o.getOrDefault("parallelism", "1"));
        StreamExecutionEnvironment env = StreamExecutionEnvironment.createLocalEnvironment(p, conf);
        env.setMaxParallelism(64);
        env.enableCheckpointing(Long.parseLong(o.getOrDefault("interval-ms", "1000")));
        int keys = Integer.parseInt(o.getOrDefault("keys", "3000")), pause = Integer.parseInt(o.getOrDefault("pause-ms", "20"));
        env.addSource(new Random32(keys, pause, Long.parseLong(o.getOrDefault("seed", "1"))), "numbers", Types.TUPLE(Types.INT, Types.INT))
                .setParallelism(1).uid("numbers").name("numbers")
                .keyBy(e -> (long) e.f0, Types.LONG).process(new Changes(), Types.STRING).uid("changing").name("changing")
                .sinkTo(new DiscardingSink<>());
        JobClient client = env.executeAsync("changing");
        System.out.println("started " + client.getJobID());
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); ; line = in.readLine()) {
            if (line == null || line.equals("cancel")) {
                client.cancel().get(30, TimeUnit.SECONDS);
                break;
            }
            if (line.startsWith("savepoint ")) {
                Path folder = Paths.get(line.substring(10)).toAbsolutePath();
                System.out.println("savepoint " + client.stopWithSavepoint(false, folder.toUri().toString(), SavepointFormatType.NATIVE).get(60, TimeUnit.SECONDS));
                break;
            }
        }
        System.exit(0);
    }
}
