import org.apache.flink.api.common.ExecutionConfig;
import org.apache.flink.api.common.JobExecutionResult;
import org.apache.flink.api.common.functions.AggregateFunction;
import org.apache.flink.api.common.serialization.SerializerConfig;
import org.apache.flink.api.common.state.*;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.common.typeutils.TypeSerializer;
import org.apache.flink.api.common.typeutils.TypeSerializerSnapshot;
import org.apache.flink.api.common.typeutils.base.ListSerializer;
import org.apache.flink.api.common.typeutils.base.MapSerializer;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.connector.source.*;
import org.apache.flink.api.java.functions.KeySelector;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.core.execution.JobClient;
import org.apache.flink.core.execution.SavepointFormatType;
import org.apache.flink.core.fs.FSDataInputStream;
import org.apache.flink.core.io.InputStatus;
import org.apache.flink.core.io.SimpleVersionedSerializer;
import org.apache.flink.core.memory.DataInputViewStreamWrapper;
import org.apache.flink.runtime.checkpoint.Checkpoints;
import org.apache.flink.runtime.checkpoint.OperatorState;
import org.apache.flink.runtime.checkpoint.OperatorSubtaskState;
import org.apache.flink.runtime.checkpoint.metadata.CheckpointMetadata;
import org.apache.flink.runtime.state.*;
import org.apache.flink.runtime.state.metainfo.StateMetaInfoSnapshot;
import org.apache.flink.runtime.state.metainfo.StateMetaInfoSnapshot.BackendStateType;
import org.apache.flink.runtime.state.metainfo.StateMetaInfoSnapshot.CommonOptionsKeys;
import org.apache.flink.runtime.state.metainfo.StateMetaInfoSnapshot.CommonSerializerKeys;
import org.apache.flink.runtime.util.EnvironmentInformation;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.operators.*;
import org.apache.flink.streaming.api.transformations.OneInputTransformation;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;
import org.apache.flink.util.InstantiationUtil;

import java.io.DataInputStream;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.PrintStream;
import java.net.URLEncoder;
import java.nio.file.*;
import java.util.*;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.stream.Stream;

/**
 * Restores a savepoint in a local cluster, takes a canonical savepoint of it, and then looks every key up.
 *
 * <p>Each operator of the savepoint gets one here, with its id, key type, parallelism and number of key groups. It asks
 * for no state and no timer service before the savepoint is taken: what Flink restores is what it writes, and no timer
 * fires. Serializers are those that the snapshots in the savepoint restore to.
 *
 * <p>Arguments: the savepoint, a folder for the new one, the state backend. What is found is told on standard output,
 * one fact a line, its fields separated by tabs; everything else goes to standard error.
 */
@SuppressWarnings({"unchecked", "rawtypes", "deprecation"})
public final class Prove {
    static final int SHOWN = 5;
    static final Map<String, Operator> OPERATORS = new LinkedHashMap<>();
    static final CompletableFuture<Void> SAVED = new CompletableFuture<>();
    static PrintStream answer;

    /** What `_metadata` and the headers of its streams say of an operator. */
    static final class Operator {
        String id;
        int parallelism, maxParallelism;
        TypeSerializer key;
        final Map<String, StateMetaInfoSnapshot> keyed = new TreeMap<>();
        final CompletableFuture<Void> lookedUp = new CompletableFuture<>();
        int subtasks;

        synchronized void subtaskDone() {
            if (++subtasks == parallelism) lookedUp.complete(null);
        }
    }

    public static void main(String[] arguments) throws Exception {
        answer = new PrintStream(new FileOutputStream(FileDescriptor.out), true, "UTF-8"); // in any locale
        System.setOut(System.err);
        tell("flink", EnvironmentInformation.getVersion());
        tell("java", System.getProperty("java.version"));
        boolean done = false;
        try {
            prove(arguments[0], arguments[1], arguments[2]);
            done = true;
        } catch (Throwable problem) {
            problem.printStackTrace();
            if (problem instanceof ExecutionException && problem.getCause() != null) problem = problem.getCause();
            for (Throwable cause = problem; cause != null; cause = cause.getCause()) {
                tell(isOfTheMachine(cause) ? "exhausted" : "refused", shown(cause));
            }
        }
        tell(done ? "done" : "failed");
        Runtime.getRuntime().halt(done ? 0 : 1);
    }

    static void prove(String savepoint, String target, String backend) throws Exception {
        inspect(savepoint);
        if (OPERATORS.isEmpty()) return;
        int most = 1, tasks = 1;
        for (Operator operator : OPERATORS.values()) {
            most = Math.max(most, operator.parallelism);
            tasks += operator.parallelism;
        }
        Configuration settings = new Configuration();
        settings.setString("state.backend.type", backend);
        settings.setString("state.backend", backend);
        settings.setString("execution.savepoint.path", "file://" + savepoint);
        settings.setString("execution.state-recovery.path", "file://" + savepoint);
        settings.setString("execution.savepoint.ignore-unclaimed-state", "true"); // those that are left out are told
        settings.setString("execution.state-recovery.ignore-unclaimed-state", "true");
        settings.setString("restart-strategy.type", "none");
        settings.setString("execution.checkpointing.storage", "filesystem"); // the default takes 5 MB of a state
        settings.setString("execution.checkpointing.dir", "file://" + target);
        settings.setString("state.checkpoints.dir", "file://" + target);
        settings.setString("io.tmp.dirs", System.getProperty("java.io.tmpdir"));
        settings.setString("rest.bind-address", "localhost");
        settings.setString("rest.bind-port", "0");
        settings.setString("taskmanager.memory.network.min", (64 + tasks) + "m");
        settings.setString("taskmanager.memory.network.max", (64 + tasks) + "m");
        settings.setString("taskmanager.memory.managed.size", (256 + 16 * tasks) + "m");
        settings.setString("execution.checkpointing.timeout", "24 h");
        settings.setString("heartbeat.timeout", "600000");
        StreamExecutionEnvironment env = StreamExecutionEnvironment.createLocalEnvironment(most, settings);
        DataStream<Integer> signal = env.fromSource(new Signal(), WatermarkStrategy.noWatermarks(), "signal", Types.INT)
                .setParallelism(1).broadcast();
        for (Operator operator : OPERATORS.values()) {
            OneInputTransformation<Integer, Integer> step = new OneInputTransformation<>(
                    signal.getTransformation(), operator.id, SimpleOperatorFactory.of(new Prover(operator.id)), Types.INT,
                    operator.parallelism);
            if (operator.key != null) {
                step.setStateKeyType(new Restored<>(operator.key));
                step.setStateKeySelector(new NoKey());
            }
            if (operator.maxParallelism > 0) step.setMaxParallelism(operator.maxParallelism);
            step.setUid(operator.id); // what is restored is found by the hash, what is written has the id of the uid
            step.setUidHash(operator.id);
            env.addOperator(step);
        }
        tell("step", "restores");
        JobClient job = env.executeAsync("prove");
        String saved = save(job, "file://" + target);
        tell("savepoint", new org.apache.flink.core.fs.Path(saved).getPath());
        tell("step", "looks keys up");
        SAVED.complete(null);
        for (Operator operator : OPERATORS.values()) {
            CompletableFuture.anyOf(operator.lookedUp, job.getJobExecutionResult()).get();
        }
    }

    /** Takes a savepoint as soon as all tasks run; throws what made the job fail. */
    static String save(JobClient job, String target) throws Exception {
        CompletableFuture<JobExecutionResult> ended = job.getJobExecutionResult();
        while (true) {
            try {
                return job.triggerSavepoint(target, SavepointFormatType.CANONICAL).get();
            } catch (ExecutionException | IllegalStateException problem) { // the cluster ends with its job
                boolean tooEarly = String.valueOf(problem).contains("Not all required tasks are currently running");
                try {
                    ended.get(tooEarly ? 50 : 10_000, TimeUnit.MILLISECONDS);
                } catch (TimeoutException stillRuns) {
                    if (!tooEarly) throw problem;
                }
            }
        }
    }

    /** Reads the headers; leaves out operators whose serializers cannot be restored. */
    static void inspect(String savepoint) throws Exception {
        ClassLoader classes = Prove.class.getClassLoader();
        CheckpointMetadata metadata;
        try (DataInputStream in = new DataInputStream(Files.newInputStream(Paths.get(savepoint, "_metadata")))) {
            metadata = Checkpoints.loadCheckpointMetadata(in, classes, "file://" + savepoint);
        }
        for (OperatorState stored : metadata.getOperatorStates()) {
            Operator operator = new Operator();
            operator.id = stored.getOperatorID().toHexString();
            operator.parallelism = stored.getParallelism();
            operator.maxParallelism = stored.getMaxParallelism();
            boolean hasState = false;
            try {
                for (OperatorSubtaskState subtask : stored.getStates()) {
                    for (KeyedStateHandle handle : subtask.getManagedKeyedState()) {
                        hasState = true;
                        readKeyed(operator, handle, classes);
                    }
                    for (OperatorStateHandle handle : subtask.getManagedOperatorState()) {
                        if (handle.getStateSize() == 0) continue; // of merged files, which cannot be opened
                        hasState = true;
                        readLists(handle, classes);
                    }
                }
            } catch (Throwable problem) {
                problem.printStackTrace();
                Throwable last = problem;
                while (last.getCause() != null) last = last.getCause();
                boolean lacksClass = last instanceof ClassNotFoundException || last instanceof NoClassDefFoundError;
                tell(lacksClass ? "unproven" : "broken", operator.id, shown(last));
                continue;
            }
            if (hasState) OPERATORS.put(operator.id, operator);
        }
    }

    static void readKeyed(Operator operator, KeyedStateHandle handle, ClassLoader classes) throws Exception {
        StreamStateHandle header = handle instanceof IncrementalRemoteKeyedStateHandle
                ? ((IncrementalRemoteKeyedStateHandle) handle).getMetaDataStateHandle() : (StreamStateHandle) handle;
        try (FSDataInputStream in = header.openInputStream()) {
            KeyedBackendSerializationProxy<?> proxy = new KeyedBackendSerializationProxy<>(classes);
            proxy.read(new DataInputViewStreamWrapper(in));
            operator.key = proxy.getKeySerializerSnapshot().restoreSerializer();
            for (StateMetaInfoSnapshot state : proxy.getStateMetaInfoSnapshots()) {
                restoreSerializers(state);
                operator.keyed.put(state.getBackendStateType() + "/" + state.getName(), state);
            }
        }
    }

    static void readLists(OperatorStateHandle handle, ClassLoader classes) throws Exception {
        try (FSDataInputStream in = handle.openInputStream()) {
            OperatorBackendSerializationProxy proxy = new OperatorBackendSerializationProxy(classes);
            proxy.read(new DataInputViewStreamWrapper(in));
            for (StateMetaInfoSnapshot state : proxy.getOperatorStateMetaInfoSnapshots()) restoreSerializers(state);
            for (StateMetaInfoSnapshot state : proxy.getBroadcastStateMetaInfoSnapshots()) restoreSerializers(state);
        }
    }

    /** Throws if a class is missing. */
    static void restoreSerializers(StateMetaInfoSnapshot state) {
        for (TypeSerializerSnapshot<?> snapshot : state.getSerializerSnapshotsImmutable().values()) {
            snapshot.restoreSerializer();
        }
    }

    static TypeSerializer serializer(StateMetaInfoSnapshot state, CommonSerializerKeys which) {
        return state.getTypeSerializerSnapshot(which).restoreSerializer();
    }

    static synchronized void tell(String... fields) {
        StringJoiner line = new StringJoiner("\t");
        for (String field : fields) line.add(field.replace('\t', ' ').replace('\n', ' ').replace('\r', ' '));
        answer.println(line);
        answer.flush();
    }

    /** Whether a problem says nothing about the savepoint: memory or disk do not suffice. */
    static boolean isOfTheMachine(Throwable problem) {
        return problem instanceof VirtualMachineError || String.valueOf(problem.getMessage()).contains("No space left on device");
    }

    static String shown(Throwable problem) {
        String message = problem.getMessage();
        return problem.getClass().getName() + (message == null ? "" : ": " + message.split("\n")[0]);
    }

    /** Keeps the state of an operator, and looks all its keys up when the signal comes. */
    public static final class Prover extends AbstractStreamOperator<Integer>
            implements OneInputStreamOperator<Integer, Integer>, Triggerable<Object, Object> {
        private final String id;

        Prover(String id) { this.id = id; }

        @Override public void setKeyContextElement1(StreamRecord signal) {} // it has no key
        @Override public void onEventTime(InternalTimer<Object, Object> timer) {}
        @Override public void onProcessingTime(InternalTimer<Object, Object> timer) {}

        @Override public void processElement(StreamRecord<Integer> signal) throws Exception {
            Operator operator = OPERATORS.get(id);
            for (StateMetaInfoSnapshot state : operator.keyed.values()) {
                Found found = new Found();
                if (state.getBackendStateType() == BackendStateType.PRIORITY_QUEUE) lookAtTimers(state, found);
                else if (state.getBackendStateType() == BackendStateType.KEY_VALUE) lookUp(state, found);
                else continue;
                String name = URLEncoder.encode(state.getName(), "UTF-8"); // which may have tabs
                tell("found", id, name, Long.toString(found.keys));
                if (found.lost > 0) tell("lost", id, name, Long.toString(found.lost), String.join(", ", found.examples));
            }
            operator.subtaskDone();
        }

        /** Whether Flink looks for a key in this subtask, by the hash of the key. */
        private boolean isHere(Object key) {
            KeyedStateBackend<Object> backend = getKeyedStateBackend();
            int groups = getRuntimeContext().getTaskInfo().getMaxNumberOfParallelSubtasks();
            return ((AbstractKeyedStateBackend) backend).getKeyGroupRange().contains(KeyGroupRangeAssignment.assignToKeyGroup(key, groups));
        }

        private void lookAtTimers(StateMetaInfoSnapshot state, Found found) throws Exception {
            String name = state.getName().substring(state.getName().indexOf('/') + 1);
            boolean eventTime = name.startsWith("event_");
            TypeSerializer timers = serializer(state, CommonSerializerKeys.VALUE_SERIALIZER);
            java.lang.reflect.Method namespace = timers.getClass().getDeclaredMethod("getNamespaceSerializer");
            namespace.setAccessible(true);
            InternalTimerService service = getInternalTimerService(
                    name.substring(name.indexOf('_') + 1), (TypeSerializer) namespace.invoke(timers), (Triggerable) this);
            org.apache.flink.util.function.BiConsumerWithException look =
                    (where, time) -> found.add(isHere(getCurrentKey()), getCurrentKey());
            if (eventTime) service.forEachEventTimeTimer(look);
            else service.forEachProcessingTimeTimer(look);
        }

        private void lookUp(StateMetaInfoSnapshot state, Found found) throws Exception {
            KeyedStateBackend<Object> backend = getKeyedStateBackend();
            TypeSerializer namespaces = serializer(state, CommonSerializerKeys.NAMESPACE_SERIALIZER);
            StateDescriptor descriptor = descriptor(state);
            descriptor.initializeSerializerUnlessSet(getExecutionConfig());
            backend.getOrCreateKeyedState(namespaces, descriptor);
            try (Stream<Tuple2<Object, Object>> keys = backend.getKeysAndNamespaces(state.getName())) {
                for (Iterator<Tuple2<Object, Object>> each = keys.iterator(); each.hasNext();) {
                    Tuple2<Object, Object> place = each.next();
                    if (!isHere(place.f0)) {
                        found.add(false, place.f0);
                        continue;
                    }
                    backend.setCurrentKey(place.f0);
                    found.add(isFound(backend.getPartitionedState(place.f1, namespaces, descriptor)), place.f0);
                }
            }
        }

        /** Reads the whole value, through its serializer. */
        private static boolean isFound(Object state) throws Exception {
            if (state instanceof MapState) {
                boolean any = false;
                for (Object entry : ((MapState) state).entries()) {
                    ((Map.Entry) entry).getKey();
                    ((Map.Entry) entry).getValue();
                    any = true;
                }
                return any;
            }
            return (state instanceof ValueState ? ((ValueState) state).value() : ((AppendingState) state).get()) != null;
        }

        private static StateDescriptor descriptor(StateMetaInfoSnapshot state) throws Exception {
            String name = state.getName();
            TypeSerializer value = bare(serializer(state, CommonSerializerKeys.VALUE_SERIALIZER));
            switch (StateDescriptor.Type.valueOf(state.getOption(CommonOptionsKeys.KEYED_STATE_TYPE))) {
                case VALUE: return new ValueStateDescriptor(name, value);
                case LIST: return new ListStateDescriptor(name, bare(((ListSerializer) value).getElementSerializer()));
                case MAP: return new MapStateDescriptor(name, ((MapSerializer) value).getKeySerializer(), bare(((MapSerializer) value).getValueSerializer()));
                case REDUCING: return new ReducingStateDescriptor(name, (one, other) -> other, value);
                case AGGREGATING: return new AggregatingStateDescriptor(name, new Unchanged(), value);
                default: throw new IllegalStateException("a state of an unknown kind");
            }
        }

        /** Since Flink 2, serializers of state that may get time to live are wrapped. */
        private static TypeSerializer bare(TypeSerializer serializer) throws Exception {
            while (serializer.getClass().getSimpleName().startsWith("TtlAware")) {
                serializer = (TypeSerializer) serializer.getClass().getMethod("getOriginalTypeSerializer").invoke(serializer);
            }
            return serializer;
        }
    }

    public static final class NoKey implements KeySelector<Integer, Object> {
        @Override public Object getKey(Integer signal) { throw new IllegalStateException("the signal has no key"); }
    }

    static final class Found {
        long keys, lost;
        final List<String> examples = new ArrayList<>();

        void add(boolean isFound, Object key) {
            keys++;
            if (isFound) return;
            lost++;
            if (examples.size() < SHOWN) examples.add(String.valueOf(key));
        }
    }

    public static final class Unchanged implements AggregateFunction<Object, Object, Object> {
        @Override public Object createAccumulator() { return null; }
        @Override public Object add(Object value, Object accumulator) { return accumulator; }
        @Override public Object getResult(Object accumulator) { return accumulator; }
        @Override public Object merge(Object one, Object other) { return one; }
    }

    /** The type of a restored serializer. */
    public static final class Restored<T> extends TypeInformation<T> {
        private final TypeSerializer<T> serializer;

        Restored(TypeSerializer<T> serializer) { this.serializer = serializer; }

        @Override public boolean isBasicType() { return false; }
        @Override public boolean isTupleType() { return false; }
        @Override public int getArity() { return 1; }
        @Override public int getTotalFields() { return 1; }
        @Override public Class<T> getTypeClass() { return (Class<T>) Object.class; }
        @Override public boolean isKeyType() { return true; }
        @Override public TypeSerializer<T> createSerializer(SerializerConfig config) { return serializer; }
        public TypeSerializer<T> createSerializer(ExecutionConfig config) { return serializer; } // before Flink 2
        @Override public String toString() { return "restored " + serializer; }
        @Override public boolean equals(Object other) { return other instanceof Restored && ((Restored) other).serializer.equals(serializer); }
        @Override public int hashCode() { return 1; }
        @Override public boolean canEqual(Object other) { return other instanceof Restored; }
    }

    /** A source without end that emits one number, once the savepoint is taken. */
    public static final class Signal implements Source<Integer, Signal.Part, Integer> {
        public static final class Part implements SourceSplit {
            @Override public String splitId() { return ""; }
        }

        public static final class Reader implements SourceReader<Integer, Part> {
            private boolean emitted;

            @Override public void start() {}
            @Override public InputStatus pollNext(ReaderOutput<Integer> output) {
                if (SAVED.isDone() && !emitted) {
                    output.collect(1);
                    emitted = true;
                }
                return InputStatus.NOTHING_AVAILABLE;
            }
            @Override public List<Part> snapshotState(long checkpoint) { return List.of(); }
            @Override public CompletableFuture<Void> isAvailable() { return emitted ? new CompletableFuture<>() : SAVED; }
            @Override public void addSplits(List<Part> parts) {}
            @Override public void notifyNoMoreSplits() {}
            @Override public void close() {}
        }

        public static final class Parts implements SplitEnumerator<Part, Integer> {
            @Override public void start() {}
            @Override public void handleSplitRequest(int subtask, String host) {}
            @Override public void addSplitsBack(List<Part> parts, int subtask) {}
            @Override public void addReader(int subtask) {}
            @Override public Integer snapshotState(long checkpoint) { return 0; }
            @Override public void close() {}
        }

        public static final class Bytes<T extends java.io.Serializable> implements SimpleVersionedSerializer<T> {
            @Override public int getVersion() { return 1; }
            @Override public byte[] serialize(T value) { return new byte[0]; }
            @Override public T deserialize(int version, byte[] bytes) { return null; }
        }

        @Override public Boundedness getBoundedness() { return Boundedness.CONTINUOUS_UNBOUNDED; }
        @Override public SourceReader<Integer, Part> createReader(SourceReaderContext context) { return new Reader(); }
        @Override public SplitEnumerator<Part, Integer> createEnumerator(SplitEnumeratorContext<Part> context) { return new Parts(); }
        @Override public SplitEnumerator<Part, Integer> restoreEnumerator(SplitEnumeratorContext<Part> context, Integer stored) { return new Parts(); }
        @Override public SimpleVersionedSerializer<Part> getSplitSerializer() { return (SimpleVersionedSerializer) new Bytes<>(); }
        @Override public SimpleVersionedSerializer<Integer> getEnumeratorCheckpointSerializer() { return new Bytes<>(); }
    }
}
