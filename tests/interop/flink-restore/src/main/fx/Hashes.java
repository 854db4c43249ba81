package fx;

import java.math.BigInteger;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import org.apache.flink.api.java.tuple.Tuple;
import org.apache.flink.api.java.tuple.Tuple1;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.api.java.tuple.Tuple3;
import org.apache.flink.runtime.state.KeyGroupRangeAssignment;
import org.apache.flink.types.Row;
import org.apache.flink.types.RowKind;

/** Prints hash codes and key groups of keys of every type with a stable hash, as Flink computes them. */
public class Hashes {
    static final int[] MOST = {1, 64, 128, 129, 200, 1000, 32768};

    public static void main(String[] args) throws Exception {
        List<String> rows = new ArrayList<>();
        for (Object key : keys()) {
            StringBuilder groups = new StringBuilder();
            for (int most : MOST) {
                groups.append(groups.length() == 0 ? "" : ", ").append(KeyGroupRangeAssignment.assignToKeyGroup(key, most));
            }
            rows.add("[" + type(key) + ", " + value(key) + ", " + key.hashCode() + ", [" + groups + "]]");
        }
        String most = java.util.Arrays.toString(MOST);
        Files.writeString(Path.of(args[0]), "{\"max_parallelism\": " + most + ",\n\"keys\": [\n" + String.join(",\n", rows) + "\n]}\n");
    }

    static List<Object> keys() {
        Random random = new Random(7);
        List<Object> keys = new ArrayList<>(List.of(
            0L, -1L, 1L, Long.MAX_VALUE, Long.MIN_VALUE, 0x1_0000_0000L, -0x1_0000_0001L,
            0, -1, Integer.MAX_VALUE, Integer.MIN_VALUE, (short) 0, Short.MAX_VALUE, Short.MIN_VALUE,
            (byte) 0, Byte.MAX_VALUE, Byte.MIN_VALUE, 'a', '\0', '\uffff', '\ud83d', true, false,
            0.0, -0.0, 1.0, Double.NaN, Double.longBitsToDouble(0x7ff8000000000001L), Double.MIN_VALUE, Double.MAX_VALUE,
            Double.POSITIVE_INFINITY, Double.NEGATIVE_INFINITY, 0.0f, -0.0f, 1.5f, Float.NaN, Float.MIN_VALUE,
            Float.MAX_VALUE, Float.POSITIVE_INFINITY, Float.NEGATIVE_INFINITY,
            "", "a", "hello", "polygenelubricants", "\0", "é", "日本", "😀", "\ud83d", "a\ud83db", "x".repeat(300)));
        for (int i = 0; i < 25; i++) {
            keys.addAll(List.of(random.nextLong(), random.nextInt(), (short) random.nextInt(), (byte) random.nextInt(),
                (char) random.nextInt(), random.nextGaussian(), random.nextFloat() * 1e6f, text(random)));
        }
        for (int bits : new int[] {0, 1, 31, 32, 33, 63, 64, 65, 127, 128, 300}) {
            keys.addAll(List.of(BigInteger.ONE.shiftLeft(bits), BigInteger.ONE.shiftLeft(bits).negate(), new BigInteger(bits, random)));
            keys.add(List.of(random.nextLong(), (long) bits));
            keys.add(List.of(text(random), text(random), "é"));
            keys.add(List.of(new BigInteger(bits, random), BigInteger.TEN.negate()));
            keys.add(List.of(random.nextDouble()));
            keys.add(Tuple2.of(new BigInteger(bits, random), text(random)));
        }
        for (int i = 0; i < 25; i++) {
            keys.add(Tuple1.of(random.nextLong()));
            keys.add(Tuple2.of(text(random), random.nextInt()));
            keys.add(Tuple3.of(random.nextBoolean(), random.nextDouble(), Tuple2.of((short) random.nextInt(), text(random))));
        }
        for (RowKind kind : RowKind.values()) {
            byte[] bytes = new byte[random.nextInt(6)];
            random.nextBytes(bytes);
            keys.add(Row.ofKind(kind, random.nextLong()));
            keys.add(Row.ofKind(kind, (Object) bytes));
            keys.add(Row.ofKind(kind, text(random), null, random.nextInt(), random.nextBoolean(), random.nextDouble()));
            keys.add(Row.ofKind(kind, Tuple2.of(text(random), 1L), Row.of(text(random), (byte) -1), BigInteger.ONE.shiftLeft(70)));
        }
        keys.add(new Row(0));
        return keys;
    }

    static String text(Random random) {
        StringBuilder text = new StringBuilder();
        for (int n = random.nextInt(12); n > 0; n--) {
            text.append((char) (random.nextInt(4) == 0 ? random.nextInt(0x10000) : ' ' + random.nextInt(95)));
        }
        return text.toString();
    }

    static String type(Object key) {
        if (key == null) {
            return "null";
        }
        if (key instanceof byte[]) {
            return "\"bytes\"";
        }
        if (key instanceof Row) {
            List<String> columns = new ArrayList<>();
            for (int i = 0; i < ((Row) key).getArity(); i++) {
                columns.add(type(((Row) key).getField(i)));
            }
            return "{\"row\": [" + String.join(", ", columns) + "]}";
        }
        if (key instanceof Tuple) {
            List<String> fields = new ArrayList<>();
            for (int i = 0; i < ((Tuple) key).getArity(); i++) {
                fields.add(type(((Tuple) key).getField(i)));
            }
            return "[" + String.join(", ", fields) + "]";
        }
        if (key instanceof List) {
            String inner = type(((List<?>) key).get(0));
            return "\"list<" + inner.substring(1, inner.length() - 1) + ">\"";
        }
        if (key instanceof BigInteger) {
            return "\"bigint\"";
        }
        String name = key.getClass().getSimpleName();
        return "\"" + (name.equals("Integer") ? "int" : name.equals("Character") ? "char" : name.toLowerCase()) + "\"";
    }

    static String value(Object key) {
        if (key instanceof byte[]) {
            return "\"" + java.util.HexFormat.of().formatHex((byte[]) key) + "\"";
        }
        if (key instanceof Row) {
            List<String> columns = new ArrayList<>();
            for (int i = 0; i < ((Row) key).getArity(); i++) {
                columns.add(((Row) key).getField(i) == null ? "null" : value(((Row) key).getField(i)));
            }
            return "[" + ((Row) key).getKind().toByteValue() + ", [" + String.join(", ", columns) + "]]";
        }
        if (key instanceof Tuple) {
            List<String> fields = new ArrayList<>();
            for (int i = 0; i < ((Tuple) key).getArity(); i++) {
                fields.add(value(((Tuple) key).getField(i)));
            }
            return "[" + String.join(", ", fields) + "]";
        }
        if (key instanceof List) {
            List<String> items = new ArrayList<>();
            for (Object item : (List<?>) key) {
                items.add(value(item));
            }
            return "[" + String.join(", ", items) + "]";
        }
        if (key instanceof Double) {
            return "\"" + Double.toHexString((Double) key) + "\"";
        }
        if (key instanceof Float) {
            return "\"" + Float.toHexString((Float) key) + "\"";
        }
        if (!(key instanceof String) && !(key instanceof Character)) {
            return key.toString();
        }
        StringBuilder units = new StringBuilder("\"");
        for (char unit : key.toString().toCharArray()) {
            units.append(unit >= ' ' && unit < 127 && unit != '"' && unit != '\\' ? "" + unit : String.format("\\u%04x", (int) unit));
        }
        return units.append('"').toString();
    }
}
