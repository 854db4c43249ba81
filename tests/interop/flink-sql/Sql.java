package fx;

import org.apache.flink.api.common.JobStatus;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.core.execution.JobClient;
import org.apache.flink.core.execution.SavepointFormatType;
import org.apache.flink.runtime.minicluster.MiniCluster;
import org.apache.flink.runtime.minicluster.MiniClusterConfiguration;
import org.apache.flink.table.api.EnvironmentSettings;
import org.apache.flink.table.api.Expressions;
import org.apache.flink.table.api.Schema;
import org.apache.flink.table.api.TableDescriptor;
import org.apache.flink.table.api.TableEnvironment;
import org.apache.flink.table.catalog.Column;
import org.apache.flink.table.connector.source.DynamicTableSource;
import org.apache.flink.table.connector.source.LookupTableSource;
import org.apache.flink.table.connector.source.lookup.LookupFunctionProvider;
import org.apache.flink.table.data.GenericRowData;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.data.StringData;
import org.apache.flink.table.factories.DynamicTableFactory;
import org.apache.flink.table.factories.DynamicTableSourceFactory;
import org.apache.flink.table.functions.LookupFunction;
import org.apache.flink.table.functions.ScalarFunction;
import org.apache.flink.table.types.utils.DataTypeUtils;

import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.file.*;
import java.util.*;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.regex.*;

/**
 * Runs SQL on one mini cluster within this JVM.
 *
 * <p>Sql STEP...  Steps begin in their order; jobs go on beside the steps after them, so many at once as there are slots. Each is one of
 *
 * <pre>
 * compile SCRIPT PLAN          the last statement of a script, whose statements end with ";\n", as a plan; SET NAME=VALUE before it;
 *                              a SELECT gets a sink of its own; VERSIONS NAME OF TABLE BY TIME, KEY makes a temporal table function
 * run PLAN SAVEPOINT|- OUT     the plan, from a savepoint, until its input is read; then a canonical savepoint into OUT
 * native PLAN SAVEPOINT|- OUT  the same with a native savepoint
 * ignoring PLAN SAVEPOINT OUT  the same, where the savepoint has state that the plan does not take
 * empty PLAN - OUT             the same of a plan that has no input: as soon as it runs
 * live PLAN SECONDS            the plan for so long from when it runs, which is printed; results are written each second
 * </pre>
 */
public final class Sql {
    /** What a job does is mostly to wait: for its sources, for its savepoint. */
    private static final int SLOTS = 8;

    private static final HttpClient HTTP = HttpClient.newHttpClient();
    private static final Pattern RECORDS = Pattern.compile("\"(?:read|write)-records\":(\\d+)");
    private static final Pattern BEGINS = Pattern.compile("\"status\":\"(?:CREATED|SCHEDULED|DEPLOYING|INITIALIZING)\"");

    public static void main(String[] a) {
        try {
            steps(a);
        } catch (Throwable e) { // threads of Flink would keep the process alive
            e.printStackTrace();
            System.exit(1);
        }
        System.exit(0);
    }

    private static void steps(String[] a) throws Exception {
        ExecutorService jobs = Executors.newFixedThreadPool(SLOTS);
        List<Future<?>> begun = new ArrayList<>();
        try (MiniCluster cluster = new MiniCluster(cluster())) {
            cluster.start();
            int port = cluster.getRestAddress().get().getPort();
            for (int i = 0; i < a.length; ) {
                String step = a[i];
                Path first = Paths.get(a[i + 1]);
                if (step.equals("compile")) {
                    compile(first, Paths.get(a[i + 2]));
                    i += 3;
                } else if (step.equals("live")) {
                    live(first, Integer.parseInt(a[i + 2]), port);
                    i += 3;
                } else {
                    String savepoint = a[i + 2];
                    Path out = Paths.get(a[i + 3]);
                    begun.add(jobs.submit(() -> {
                        run(first, savepoint, out, step, port);
                        return null;
                    }));
                    i += 4;
                }
            }
            for (Future<?> job : begun) job.get();
        }
    }

    private static MiniClusterConfiguration cluster() {
        Configuration c = new Configuration();
        c.setString("rest.bind-address", "127.0.0.1");
        c.setString("rest.address", "127.0.0.1");
        c.setString("rest.port", "0");
        c.setString("metrics.fetcher.update-interval", "100");
        c.setString("taskmanager.memory.managed.size", "512m");
        c.setString("taskmanager.memory.network.min", "128m");
        c.setString("taskmanager.memory.network.max", "128m");
        return new MiniClusterConfiguration.Builder().setConfiguration(c).setNumTaskManagers(1).setNumSlotsPerTaskManager(SLOTS).build();
    }

    /** A function of a user, of which plans have the name alone. */
    public static class Twice extends ScalarFunction {
        public Integer eval(Integer x) {
            return x == null ? null : 2 * x;
        }
    }

    /** The connector 'looked-up': a table (id INT, name STRING) that has each id. */
    public static class LookedUp implements DynamicTableSourceFactory, LookupTableSource {
        public static class Find extends LookupFunction {
            @Override
            public Collection<RowData> lookup(RowData key) {
                return List.of(GenericRowData.of(key.getInt(0), StringData.fromString("name of " + key.getInt(0))));
            }
        }

        @Override
        public String factoryIdentifier() {
            return "looked-up";
        }

        @Override
        public Set<org.apache.flink.configuration.ConfigOption<?>> requiredOptions() {
            return Set.of();
        }

        @Override
        public Set<org.apache.flink.configuration.ConfigOption<?>> optionalOptions() {
            return Set.of();
        }

        @Override
        public DynamicTableSource createDynamicTableSource(DynamicTableFactory.Context context) {
            return this;
        }

        @Override
        public LookupRuntimeProvider getLookupRuntimeProvider(LookupContext context) {
            return LookupFunctionProvider.of(new Find());
        }

        @Override
        public DynamicTableSource copy() {
            return this;
        }

        @Override
        public String asSummaryString() {
            return "looked up";
        }
    }

    private static TableEnvironment tables(Configuration more) {
        Configuration c = new Configuration();
        c.setString("state.backend.type", System.getProperty("backend"));
        c.setString("parallelism.default", "1");
        c.setString("table.exec.state.ttl", "0 ms");
        c.addAll(more);
        return TableEnvironment.create(EnvironmentSettings.newInstance().inStreamingMode().withConfiguration(c).build());
    }

    /** Planners of several threads share what they generate and count; what they make is not to depend on it. */
    private static synchronized JobClient start(Path plan, Configuration more, int port) throws Exception {
        more.setString("execution.target", "remote");
        more.setString("rest.address", "127.0.0.1");
        more.setString("rest.port", String.valueOf(port));
        return tables(more).executeSql("EXECUTE PLAN '" + plan.toUri() + "'").getJobClient().get();
    }

    private static synchronized void compile(Path script, Path plan) throws Exception {
        TableEnvironment t = tables(new Configuration());
        List<String> statements = new ArrayList<>();
        for (String s : Files.readString(script).split(";\n")) if (!s.isBlank()) statements.add(s.strip());
        for (String s : statements.subList(0, statements.size() - 1)) {
            if (s.startsWith("SET ")) t.getConfig().set(s.substring(4, s.indexOf('=')), s.substring(s.indexOf('=') + 1));
            else if (s.startsWith("VERSIONS ")) {
                String[] w = s.split("[ ,]+");
                t.createTemporarySystemFunction(w[1], t.from(w[3]).createTemporalTableFunction(Expressions.$(w[5]), Expressions.$(w[6])));
            } else t.executeSql(s);
        }
        countNodesFromOne();
        String last = statements.get(statements.size() - 1);
        if (last.startsWith("SELECT")) {
            Schema.Builder columns = Schema.newBuilder();
            for (Column c : t.sqlQuery(last).getResolvedSchema().getColumns())
                columns.column(c.getName(), DataTypeUtils.removeTimeAttribute(c.getDataType()));
            t.createTable("sink_t", TableDescriptor.forConnector("blackhole").schema(columns.build()).build());
            last = "INSERT INTO sink_t " + last;
        }
        Files.deleteIfExists(plan);
        t.executeSql("COMPILE PLAN '" + plan.toUri() + "' FOR " + last);
    }

    /** Nodes are numbered on and on within one JVM; two plans of one query are to be equal, as those of two JVMs are. */
    private static void countNodesFromOne() throws Exception {
        Class<?> module = Class.forName("org.apache.flink.table.planner.loader.PlannerModule");
        java.lang.reflect.Method instance = module.getDeclaredMethod("getInstance");
        instance.setAccessible(true);
        java.lang.reflect.Field loader = module.getDeclaredField("submoduleClassLoader");
        loader.setAccessible(true);
        ClassLoader planner = (ClassLoader) loader.get(instance.invoke(null));
        planner.loadClass("org.apache.flink.table.planner.plan.nodes.exec.ExecNodeContext").getMethod("resetIdCounter").invoke(null);
    }

    private static void live(Path plan, int seconds, int port) throws Exception {
        Configuration c = new Configuration();
        c.setString("execution.checkpointing.interval", "1 s");
        JobClient j = start(plan, c, port);
        while (j.getJobStatus().get() != JobStatus.RUNNING) Thread.sleep(50);
        System.out.println("running");
        Thread.sleep(1000L * seconds);
        if (j.getJobStatus().get().isTerminalState()) throw new IllegalStateException("the job ended: " + j.getJobStatus().get());
        j.cancel().get();
    }

    private static void run(Path plan, String savepoint, Path out, String step, int port) throws Exception {
        Configuration c = new Configuration();
        if (!savepoint.equals("-")) c.setString("execution.state-recovery.path", savepoint);
        if (step.equals("ignoring")) c.setString("execution.state-recovery.ignore-unclaimed-state", "true");
        JobClient j = start(plan, c, port);
        long last = -1, since = System.nanoTime(), least = step.equals("empty") ? 0 : 1;
        while (last < least || System.nanoTime() - since < 1_500_000_000L) {
            Thread.sleep(100);
            if (j.getJobStatus().get().isTerminalState()) {
                j.getJobExecutionResult().get();
                throw new IllegalStateException("the job ended: " + j.getJobStatus().get());
            }
            long now = records(port, j);
            if (now != last) { last = now; since = System.nanoTime(); }
        }
        SavepointFormatType form = step.equals("native") ? SavepointFormatType.NATIVE : SavepointFormatType.CANONICAL;
        String made = j.triggerSavepoint(out.toUri().toString(), form).get(60, TimeUnit.SECONDS);
        Path from = Paths.get(URI.create(made.replaceFirst("^file:/+", "file:/")));
        try (DirectoryStream<Path> files = Files.newDirectoryStream(from)) {
            for (Path x : files) Files.move(x, out.resolve(x.getFileName()));
        }
        Files.delete(from);
        j.cancel().get();
    }

    private static long records(int port, JobClient j) throws Exception {
        HttpRequest ask = HttpRequest.newBuilder(URI.create("http://127.0.0.1:" + port + "/jobs/" + j.getJobID())).build();
        String told = HTTP.send(ask, HttpResponse.BodyHandlers.ofString()).body();
        if (BEGINS.matcher(told).find()) return -1;
        Matcher m = RECORDS.matcher(told);
        long sum = 0;
        while (m.find()) sum += Long.parseLong(m.group(1));
        return sum;
    }
}
