package fx;

import org.apache.flink.table.runtime.typeutils.InternalSerializers;
import org.apache.flink.table.types.logical.*;

import java.io.ObjectOutputStream;
import java.io.ObjectStreamClass;
import java.io.ObjectStreamField;
import java.io.Serializable;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.util.*;

/** Prints the classes of the logical types of SQL, and of their serializers, as Java serialization describes them. */
public final class JavaClasses {
    private static final Map<String, String> CLASSES = new TreeMap<>();

    public static void main(String[] a) throws Exception {
        LogicalType i = new IntType();
        LogicalType[] plain = {
            new BigIntType(), new BinaryType(), new BooleanType(), new CharType(), new DateType(), new DecimalType(), new DoubleType(),
            new FloatType(), i, new DayTimeIntervalType(DayTimeIntervalType.DayTimeResolution.DAY),
            new YearMonthIntervalType(YearMonthIntervalType.YearMonthResolution.YEAR), new SmallIntType(), new TimestampType(),
            new LocalZonedTimestampType(), new TimeType(), new TinyIntType(), new VarBinaryType(), new VarCharType()
        };
        LogicalType[] composed = {new ArrayType(i), new MapType(i, i), new MultisetType(i), RowType.of(i)};
        Map<String, String> roots = new TreeMap<>(), serializers = new TreeMap<>();
        for (LogicalType of : plain) {
            Object serializer = InternalSerializers.create(of);
            serializers.put(of.getTypeRoot().name(), serializer.getClass().getName());
            walk(serializer);
        }
        List<LogicalType> all = new ArrayList<>(Arrays.asList(plain));
        all.addAll(Arrays.asList(composed));
        for (LogicalType of : all) {
            roots.put(of.getTypeRoot().name(), of.getClass().getName());
            walk(of);
        }
        System.out.println("{\n  \"roots\": " + names(roots) + ",\n  \"serializers\": " + names(serializers) + ",\n  \"classes\": {\n    "
                + String.join(",\n    ", CLASSES.values()) + "\n  }\n}");
    }

    private static String names(Map<String, String> of) {
        StringJoiner lines = new StringJoiner(",\n    ", "{\n    ", "\n  }");
        of.forEach((name, value) -> lines.add(text(name) + ": " + text(value)));
        return lines.toString();
    }

    private static String text(String of) {
        return of == null ? "null" : "\"" + of + "\"";
    }

    /** Describes the class of an object, those above it, and those of what it holds. */
    private static void walk(Object x) throws Exception {
        if (!(x instanceof Serializable) || x instanceof String) return;
        for (Class<?> c = x.getClass(); c != null; c = c.getSuperclass()) {
            for (Method m : c.getDeclaredMethods()) {
                if (m.getName().equals("writeReplace") && m.getParameterCount() == 0) {
                    m.setAccessible(true);
                    walk(m.invoke(x));
                    return;
                }
            }
        }
        for (Class<?> c = x.getClass(); c != null && ObjectStreamClass.lookup(c) != null; c = c.getSuperclass()) {
            ObjectStreamClass of = ObjectStreamClass.lookup(c);
            List<String> fields = new ArrayList<>();
            for (ObjectStreamField f : of.getFields()) {
                fields.add("[\"" + f.getTypeCode() + "\", " + text(f.getName()) + ", " + text(f.getTypeString()) + "]");
                if (f.isPrimitive()) continue;
                Field held = c.getDeclaredField(f.getName());
                held.setAccessible(true);
                walk(held.get(x));
            }
            ObjectStreamClass above = c.getSuperclass() == null ? null : ObjectStreamClass.lookup(c.getSuperclass());
            CLASSES.put(c.getName(), text(c.getName()) + ": {\"serial_version\": " + of.getSerialVersionUID() + ", \"flags\": " + flags(c)
                    + ", \"fields\": [" + String.join(", ", fields) + "], \"above\": " + text(above == null ? null : above.getName()) + "}");
        }
        if (x instanceof ArrayList) for (Object item : (List<?>) x) walk(item);
    }

    private static int flags(Class<?> of) {
        if (Enum.class.isAssignableFrom(of)) return 0x12;
        try {
            of.getDeclaredMethod("writeObject", ObjectOutputStream.class);
            return 3;
        } catch (NoSuchMethodException e) {
            return 2;
        }
    }
}
