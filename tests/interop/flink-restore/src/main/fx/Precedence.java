package fx;

import java.lang.reflect.Proxy;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.flink.api.common.ExecutionConfig;
import org.apache.flink.api.common.functions.MapFunction;
import org.apache.flink.core.fs.CloseableRegistry;
import org.apache.flink.runtime.state.DefaultOperatorStateBackend;
import org.apache.flink.runtime.state.DefaultOperatorStateBackendBuilder;
import org.apache.flink.runtime.state.FunctionInitializationContext;
import org.apache.flink.runtime.state.FunctionSnapshotContext;
import org.apache.flink.runtime.state.StateInitializationContext;
import org.apache.flink.runtime.state.StateSnapshotContext;
import org.apache.flink.streaming.api.checkpoint.CheckpointedFunction;
import org.apache.flink.streaming.api.checkpoint.ListCheckpointed;
import org.apache.flink.streaming.util.functions.StreamingFunctionUtils;

/** Writes which methods of a function with two interfaces Flink calls at a restore and a snapshot: one line a function. */
public final class Precedence {
    static final List<String> CALLS = new ArrayList<>();

    @SuppressWarnings("deprecation")
    public static class Listed implements MapFunction<String, String>, ListCheckpointed<String> {
        @Override public String map(String value) { return value; }
        @Override public List<String> snapshotState(long id, long time) { CALLS.add("list snapshotState"); return List.of("x"); }
        @Override public void restoreState(List<String> state) { CALLS.add("restoreState " + state); }
    }

    public static final class Both extends Listed implements CheckpointedFunction {
        @Override public void initializeState(FunctionInitializationContext context) { CALLS.add("initializeState"); }
        @Override public void snapshotState(FunctionSnapshotContext context) { CALLS.add("snapshotState"); }
    }

    private static <T> T answering(Class<T> type, Map<String, Object> answers) {
        return type.cast(Proxy.newProxyInstance(type.getClassLoader(), new Class<?>[] {type}, (self, method, arguments) -> answers.get(method.getName())));
    }

    public static void main(String[] arguments) throws Exception {
        DefaultOperatorStateBackend states = new DefaultOperatorStateBackendBuilder(
                Precedence.class.getClassLoader(), new ExecutionConfig(), false, List.of(), new CloseableRegistry()).build();
        StateSnapshotContext snapshot = answering(StateSnapshotContext.class, Map.of("getCheckpointId", 1L, "getCheckpointTimestamp", 2L));
        StateInitializationContext restore = answering(StateInitializationContext.class, Map.of("isRestored", true, "getOperatorStateStore", states));
        StreamingFunctionUtils.snapshotFunctionState(snapshot, states, new Listed());
        List<String> lines = new ArrayList<>();
        for (MapFunction<String, String> function : List.of(new Listed(), new Both())) {
            CALLS.clear();
            StreamingFunctionUtils.restoreFunctionState(restore, function);
            StreamingFunctionUtils.snapshotFunctionState(snapshot, states, function);
            lines.add(function.getClass().getSimpleName() + ": " + String.join(", ", CALLS));
        }
        Files.write(Path.of(arguments[0]), lines);
    }
}
