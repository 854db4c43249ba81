package fx;

import org.apache.flink.api.common.functions.RuntimeContext;
import org.apache.flink.api.common.typeutils.TypeSerializer;
import org.apache.flink.api.common.typeutils.TypeSerializerSnapshot;
import org.apache.flink.api.dag.Transformation;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.core.memory.DataOutputSerializer;
import org.apache.flink.streaming.api.operators.SimpleOperatorFactory;
import org.apache.flink.streaming.api.transformations.OneInputTransformation;
import org.apache.flink.table.api.*;
import org.apache.flink.table.api.internal.TableEnvironmentImpl;
import org.apache.flink.table.data.DecimalData;
import org.apache.flink.table.data.RawValueData;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.data.StringData;
import org.apache.flink.table.data.binary.BinaryRawValueData;
import org.apache.flink.table.delegation.InternalPlan;
import org.apache.flink.table.runtime.dataview.StateDataViewStore;
import org.apache.flink.table.runtime.generated.AggsHandleFunction;
import org.apache.flink.table.runtime.generated.GeneratedAggsHandleFunction;
import org.apache.flink.table.runtime.operators.bundle.AbstractMapBundleOperator;
import org.apache.flink.table.runtime.typeutils.InternalSerializers;
import org.apache.flink.table.types.logical.LogicalType;
import org.apache.flink.table.types.logical.RowType;

import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.nio.file.*;
import java.util.*;

/**
 * Tells the accumulators of aggregates: what the operator that Flink makes of a query would register and begin with.
 *
 * <p>Accumulators QUERIES OUT  Each line of QUERIES has, between tabs, a name, the columns of the table `t`, the format
 * of its files (a changelog for one that retracts), a query, and perhaps how: in `two` phases, or `split`. Each line of OUT has the name, then the plan in JSON;
 * the types, the initial values and the views of the accumulators; or why there is none.
 */
public final class Accumulators {
    private static final ClassLoader LOADER = Accumulators.class.getClassLoader();
    private static final RuntimeContext CONTEXT =
            (RuntimeContext) Proxy.newProxyInstance(LOADER, new Class<?>[] {RuntimeContext.class}, (proxy, method, x) -> method.getName().equals("getUserCodeClassLoader") ? LOADER : null);

    public static void main(String[] a) throws Exception {
        List<String> told = new ArrayList<>();
        Configuration c = new Configuration();
        c.setString("table.exec.state.ttl", "0 ms");
        c.setString("table.exec.mini-batch.size", "9");
        c.setString("table.exec.mini-batch.allow-latency", "1 s");
        TableEnvironmentImpl t =
                (TableEnvironmentImpl) TableEnvironment.create(EnvironmentSettings.newInstance().inStreamingMode().withConfiguration(c).build());
        String last = "";
        for (String line : Files.readAllLines(Paths.get(a[0]))) {
            String[] p = line.split("\t");
            String table = p[1] + p[2];
            if (!table.equals(last)) {
                t.executeSql("DROP TEMPORARY TABLE IF EXISTS t");
                t.executeSql("CREATE TEMPORARY TABLE t (" + p[1] + ") WITH ('connector'='filesystem','path'='/none','format'='" + p[2] + "')");
                last = table;
            }
            t.getConfig().set("table.exec.mini-batch.enabled", String.valueOf(p.length > 4));
            t.getConfig().set("table.optimizer.distinct-agg.split.enabled", String.valueOf(p.length > 4 && p[4].equals("split")));
            String of;
            try {
                of = tell(t, p[3]);
            } catch (Throwable e) {
                StringBuilder why = new StringBuilder();
                for (Throwable x = e; x != null; x = x.getCause()) why.append(x).append(" | ");
                if (System.getenv("SHOW") != null) e.printStackTrace();
                of = "error\t" + why.toString().replaceAll("\\s+", " ");
            }
            told.add(p[0] + "\t" + of);
        }
        Files.write(Paths.get(a[1]), told);
        System.exit(0);
    }

    private static String tell(TableEnvironmentImpl t, String query) throws Exception {
        Table of = t.sqlQuery(query);
        t.createTemporaryTable("s", TableDescriptor.forConnector("blackhole").schema(Schema.newBuilder().fromResolvedSchema(of.getResolvedSchema()).build()).build());
        try {
            CompiledPlan plan = t.compilePlanSql("INSERT INTO s " + query);
            Method unwrap = plan.getClass().getDeclaredMethod("unwrap");
            unwrap.setAccessible(true);
            List<Transformation<?>> operators = t.getPlanner().translatePlan((InternalPlan) unwrap.invoke(plan));
            Object function = aggregate(operators, new HashSet<>());
            if (function == null) return "error\tno accumulators";
            LogicalType[] types = (LogicalType[]) field(function, "accTypes");
            List<String> views = new ArrayList<>();
            Object made = field(function, "genAggsHandler");
            if (made == null) made = field(function, "genGlobalAggsHandler");
            AggsHandleFunction handle = ((GeneratedAggsHandleFunction) made).newInstance(LOADER);
            handle.open(store(views));
            RowData initial = handle.createAccumulators();
            List<String> fields = new ArrayList<>(), values = new ArrayList<>();
            for (int i = 0; i < types.length; i++) {
                fields.add(types[i].asSummaryString());
                values.add(text(RowData.createFieldGetter(types[i], i).getFieldOrNull(initial), types[i]));
            }
            String json = plan.asJsonString().replaceAll("\\s*\n\\s*", " ");
            return json + "\t" + String.join("; ", fields) + "\t" + values + "\t" + String.join("; ", views) + "\t" + name(InternalSerializers.create(RowType.of(types)));
        } finally {
            t.executeSql("DROP TEMPORARY TABLE s");
        }
    }

    /** A value in JSON. */
    private static String text(Object x, LogicalType of) {
        if (x instanceof RowData) {
            RowData row = (RowData) x;
            List<String> parts = new ArrayList<>();
            for (int i = 0; i < row.getArity(); i++) {
                LogicalType at = of.getChildren().get(i);
                parts.add(text(RowData.createFieldGetter(at, i).getFieldOrNull(row), at));
            }
            return parts.toString();
        }
        if (x instanceof RawValueData) {
            Object held = ((BinaryRawValueData<?>) x).getJavaObject();
            return held instanceof Collection ? "{\"elements\": " + held + "}" : "{\"view\": true}";
        }
        if (x instanceof StringData) return "\"" + x + "\"";
        if (x instanceof DecimalData && ((DecimalData) x).toBigDecimal().signum() == 0) return "0";
        if (x instanceof Number || x == null || x instanceof Boolean) return String.valueOf(x);
        throw new IllegalStateException("an initial value is a " + x.getClass());
    }

    private static StateDataViewStore store(List<String> views) {
        return (StateDataViewStore) Proxy.newProxyInstance(LOADER, new Class<?>[] {StateDataViewStore.class}, (proxy, method, x) -> {
            if (method.getName().equals("getStateMapView")) views.add(x[0] + " MAP " + name(x[2]) + " " + name(x[3]) + ((boolean) x[1] ? " null" : ""));
            if (method.getName().equals("getStateListView")) views.add(x[0] + " LIST " + name(x[1]));
            return method.getName().equals("getRuntimeContext") ? CONTEXT : null;
        });
    }

    /** The snapshot of a serializer as it stands in a savepoint, in hexadecimal digits. */
    private static String name(Object x) throws Exception {
        DataOutputSerializer out = new DataOutputSerializer(64);
        TypeSerializerSnapshot.writeVersionedSnapshot(out, ((TypeSerializer<?>) x).snapshotConfiguration());
        return HexFormat.of().formatHex(out.getCopyOfBuffer());
    }

    /** The function that keeps accumulators, next to the sink. */
    private static Object aggregate(List<Transformation<?>> of, Set<Transformation<?>> seen) throws Exception {
        for (Transformation<?> x : of) {
            if (!seen.add(x)) continue;
            if (x instanceof OneInputTransformation && ((OneInputTransformation<?, ?>) x).getOperatorFactory() instanceof SimpleOperatorFactory) {
                Object operator = ((OneInputTransformation<?, ?>) x).getOperator();
                Object function = operator instanceof AbstractMapBundleOperator ? field(operator, "function") : field(operator, "userFunction");
                if (function != null && field(function, "accTypes") != null) return function;
            }
            Object found = aggregate(x.getInputs(), seen);
            if (found != null) return found;
        }
        return null;
    }

    private static Object field(Object x, String name) throws Exception {
        for (Class<?> c = x.getClass(); c != null; c = c.getSuperclass()) {
            for (Field f : c.getDeclaredFields()) {
                if (f.getName().equals(name)) {
                    f.setAccessible(true);
                    return f.get(x);
                }
            }
        }
        return null;
    }
}
