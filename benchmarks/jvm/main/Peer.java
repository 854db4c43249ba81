import com.sun.management.OperatingSystemMXBean;
import java.io.BufferedReader;
import java.io.File;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.lang.management.ManagementFactory;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.Arrays;
import java.util.Locale;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericDatumReader;
import org.apache.avro.generic.GenericDatumWriter;
import org.apache.avro.generic.GenericRecord;
import org.apache.avro.io.BinaryDecoder;
import org.apache.avro.io.BinaryEncoder;
import org.apache.avro.io.DecoderFactory;
import org.apache.avro.io.EncoderFactory;
import org.apache.flink.api.common.serialization.SerializerConfigImpl;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.common.typeutils.TypeSerializer;
import org.apache.flink.api.common.typeutils.base.LongSerializer;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.api.java.typeutils.PojoTypeInfo;
import org.apache.flink.api.java.typeutils.TypeExtractor;
import org.apache.flink.core.memory.DataInputDeserializer;
import org.apache.flink.core.memory.DataOutputSerializer;
import org.apache.flink.runtime.state.ttl.TtlStateFactory;
import org.apache.flink.runtime.state.ttl.TtlValue;
import org.apache.flink.table.data.GenericRowData;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.runtime.typeutils.RowDataSerializer;
import org.apache.flink.table.types.logical.BigIntType;
import org.apache.flink.table.types.logical.DecimalType;
import org.apache.flink.table.types.logical.DoubleType;
import org.apache.flink.table.types.logical.IntType;
import org.apache.flink.table.types.logical.LogicalType;
import org.apache.flink.table.types.logical.TimestampType;
import org.apache.flink.table.types.logical.VarCharType;

/**
 * What Flink's own serializers need for the same work: entry by entry the value is read with the old serializer, mapped,
 * and written with the new one. Avro values go through Avro Java.
 *
 * <p>The stream is read into memory as a whole, since Flink reads local files without a buffer, which is no merit of
 * anybody else. One pass for each line {@code STREAM TAB OFFSETS TAB RESULT} on standard input; one line of JSON for each
 * on standard output. OFFSETS holds the place of each key group and of the end; the result begins with the first of them.
 *
 * <p>{@code java Peer SHAPE [FOLDER OF SCHEMAS | STAMP]}
 */
public class Peer {
    static final String REGION = "eu-west-1";
    static final int LIST_SEPARATOR = ',';
    static final int FLUSH_BYTES = 4 << 20;
    static final int KEY_GROUP_BYTES = 1;
    static final int KEY_AT = KEY_GROUP_BYTES + 4 + 1;

    public static class RecBefore {
        public boolean active;
        public double amount;
        public int count;
        public long id;
        public String name;
        public String tag;

        public RecBefore() {}
    }

    public static class RecAfter {
        public double amount;
        public long count;
        public long id;
        public String region;
        public String tag;
        public String title;

        public RecAfter() {}
    }

    public static class RecNative {
        public double amount;
        public int count;
        public long id;
        public String name;
        public String region;
        public String tag;

        public RecNative() {}
    }

    public static class CustomerBefore {
        public String city;
        public String name;
        public int visits;

        public CustomerBefore() {}
    }

    public static class CustomerAfter {
        public String name;
        public String town;
        public long visits;

        public CustomerAfter() {}
    }

    public static class OrderBefore {
        public CustomerBefore customer;
        public long id;
        public String note;
        public double total;

        public OrderBefore() {}
    }

    public static class OrderAfter {
        public CustomerAfter customer;
        public long id;
        public String note;
        public boolean paid;
        public double total;

        public OrderAfter() {}
    }

    public static class SideBefore {
        public Integer customer;
        public Long id;
        public String item;
        public Double price;
        public Long time;

        public SideBefore() {}
    }

    public static class SideAfter {
        public Long customer;
        public Long id;
        public String item;
        public Double price;
        public Long time;
        public Long voucher;

        public SideAfter() {}
    }

    public static class TotalsBefore {
        public Long count;
        public Double highest;
        public Long paid;
        public Long seen;
        public Integer units;

        public TotalsBefore() {}
    }

    public static class TotalsAfter {
        public Long count;
        public Double highest;
        public Long paid;
        public Long returned;
        public Long seen;
        public Long units;

        public TotalsAfter() {}
    }

    /** Rewrites the one value that the input holds. */
    interface Change {
        void one(DataInputDeserializer in, DataOutputSerializer out) throws Exception;

        /** Whether that is the user key behind a row as the key, and the value stays. */
        default boolean isOfKeys() {
            return false;
        }
    }

    /** Rows of SQL whose second field is widened, and that get a field more. */
    static Change rows(LogicalType... types) {
        RowDataSerializer before = new RowDataSerializer(types);
        LogicalType[] wider = Arrays.copyOf(types, types.length + 1);
        wider[1] = new BigIntType();
        wider[types.length] = new BigIntType();
        RowDataSerializer after = new RowDataSerializer(wider);
        RowData.FieldGetter[] getters = new RowData.FieldGetter[types.length];
        for (int i = 0; i < types.length; i++) {
            getters[i] = RowData.createFieldGetter(types[i], i);
        }
        return (in, out) -> {
            RowData old = before.deserialize(in);
            GenericRowData now = new GenericRowData(old.getRowKind(), wider.length);
            for (int i = 0; i < types.length; i++) {
                Object value = getters[i].getFieldOrNull(old);
                now.setField(i, i == 1 && value != null ? (Object) (long) (Integer) value : value);
            }
            after.serialize(now, out);
        };
    }

    static Change sides() {
        return rows(
                new BigIntType(), new IntType(), new VarCharType(VarCharType.MAX_LENGTH), new DoubleType(),
                new TimestampType(3));
    }

    /** The same change of user keys, while values stay. */
    static Change ofKeys(Change change) {
        return new Change() {
            @Override
            public void one(DataInputDeserializer in, DataOutputSerializer out) throws Exception {
                change.one(in, out);
            }

            @Override
            public boolean isOfKeys() {
                return true;
            }
        };
    }

    static <T> TypeSerializer<T> pojo(Class<T> type) {
        TypeInformation<T> info = TypeExtractor.createTypeInfo(type);
        if (!(info instanceof PojoTypeInfo)) {
            throw new IllegalStateException(info + " is no POJO");
        }
        return info.createSerializer(new SerializerConfigImpl());
    }

    static <A, B> TypeSerializer<Tuple2<A, B>> pair(TypeInformation<A> first, TypeInformation<B> second) {
        TypeInformation<Tuple2<A, B>> both = Types.TUPLE(first, second);
        return both.createSerializer(new SerializerConfigImpl());
    }

    static RecAfter changed(RecBefore old) {
        RecAfter now = new RecAfter();
        now.amount = old.amount;
        now.count = old.count;
        now.id = old.id;
        now.region = REGION;
        now.tag = old.tag;
        now.title = old.name;
        return now;
    }

    static OrderAfter changed(OrderBefore old) {
        CustomerAfter customer = new CustomerAfter();
        customer.name = old.customer.name;
        customer.town = old.customer.city;
        customer.visits = old.customer.visits;
        OrderAfter now = new OrderAfter();
        now.customer = customer;
        now.id = old.id;
        now.note = old.note;
        now.paid = true;
        now.total = old.total;
        return now;
    }

    static Change change(String shape, String argument) throws Exception {
        TypeSerializer<RecBefore> before = pojo(RecBefore.class);
        TypeSerializer<RecAfter> after = pojo(RecAfter.class);
        switch (shape) {
            case "S1": {
                TypeSerializer<Tuple2<Integer, Long>> old = pair(Types.INT, Types.LONG);
                TypeSerializer<Tuple2<Long, Long>> now = pair(Types.LONG, Types.LONG);
                return (in, out) -> {
                    Tuple2<Integer, Long> value = old.deserialize(in);
                    now.serialize(Tuple2.of((long) value.f0, value.f1), out);
                };
            }
            case "S1id": {
                TypeSerializer<Tuple2<Integer, Long>> same = pair(Types.INT, Types.LONG);
                return (in, out) -> same.serialize(same.deserialize(in), out);
            }
            case "S2":
                return (in, out) -> after.serialize(changed(before.deserialize(in)), out);
            case "S2id":
                return (in, out) -> before.serialize(before.deserialize(in), out);
            case "S2n":
            case "wide": {
                TypeSerializer<RecNative> now = pojo(RecNative.class);
                return (in, out) -> {
                    RecBefore old = before.deserialize(in);
                    RecNative value = new RecNative();
                    value.amount = old.amount;
                    value.count = old.count;
                    value.id = old.id;
                    value.name = old.name;
                    value.tag = old.tag;
                    now.serialize(value, out);
                };
            }
            case "S3":
                return avro(argument);
            case "map":
                return (in, out) -> {
                    boolean isNull = in.readBoolean();
                    out.writeBoolean(isNull);
                    if (!isNull) {
                        after.serialize(changed(before.deserialize(in)), out);
                    }
                };
            case "list":
                return (in, out) -> {
                    while (true) {
                        after.serialize(changed(before.deserialize(in)), out);
                        if (in.available() == 0) {
                            return;
                        }
                        in.readByte();
                        out.write(LIST_SEPARATOR);
                    }
                };
            case "nested": {
                TypeSerializer<OrderBefore> old = pojo(OrderBefore.class);
                TypeSerializer<OrderAfter> now = pojo(OrderAfter.class);
                return (in, out) -> now.serialize(changed(old.deserialize(in)), out);
            }
            case "ttl": {
                TypeSerializer<TtlValue<RecAfter>> now =
                        new TtlStateFactory.TtlSerializer<>(LongSerializer.INSTANCE, after);
                long stamp = Long.parseLong(argument);
                return (in, out) -> now.serialize(new TtlValue<>(changed(before.deserialize(in)), stamp), out);
            }
            case "side":
                return sides();
            case "join":
                return ofKeys(sides());
            case "counted":
                return ofKeys(change("record", argument));
            case "aggregate":
                return rows(
                        new BigIntType(), new IntType(), new BigIntType(), new DoubleType(), new DecimalType(18, 2));
            case "record": {
                TypeSerializer<SideBefore> old = pojo(SideBefore.class);
                TypeSerializer<SideAfter> now = pojo(SideAfter.class);
                return (in, out) -> {
                    SideBefore value = old.deserialize(in);
                    SideAfter made = new SideAfter();
                    made.customer = value.customer == null ? null : (Long) (long) value.customer;
                    made.id = value.id;
                    made.item = value.item;
                    made.price = value.price;
                    made.time = value.time;
                    now.serialize(made, out);
                };
            }
            case "totals": {
                TypeSerializer<TotalsBefore> old = pojo(TotalsBefore.class);
                TypeSerializer<TotalsAfter> now = pojo(TotalsAfter.class);
                return (in, out) -> {
                    TotalsBefore value = old.deserialize(in);
                    TotalsAfter made = new TotalsAfter();
                    made.count = value.count;
                    made.highest = value.highest;
                    made.paid = value.paid;
                    made.seen = value.seen;
                    made.units = value.units == null ? null : (Long) (long) value.units;
                    now.serialize(made, out);
                };
            }
            default:
                throw new IllegalArgumentException(shape);
        }
    }

    /** By a reader schema, straight from the stream's bytes and straight into the result. */
    static Change avro(String folder) throws Exception {
        Schema old = new Schema.Parser().parse(new File(folder, "before.avsc"));
        Schema now = new Schema.Parser().parse(new File(folder, "after.avsc"));
        GenericDatumReader<GenericRecord> reader = new GenericDatumReader<>(old, now);
        GenericDatumWriter<GenericRecord> writer = new GenericDatumWriter<>(now);
        Into target = new Into();
        return new Change() {
            BinaryDecoder decoder;
            BinaryEncoder encoder;
            GenericRecord record;

            @Override
            public void one(DataInputDeserializer in, DataOutputSerializer out) throws Exception {
                target.out = out;
                decoder = DecoderFactory.get().binaryDecoder(stream, in.getPosition(), in.available(), decoder);
                record = reader.read(record, decoder);
                encoder = EncoderFactory.get().directBinaryEncoder(target, encoder);
                writer.write(record, encoder);
                encoder.flush();
            }
        };
    }

    static class Into extends OutputStream {
        DataOutputSerializer out;

        @Override
        public void write(int b) throws IOException {
            out.write(b);
        }

        @Override
        public void write(byte[] bytes, int offset, int length) throws IOException {
            out.write(bytes, offset, length);
        }
    }

    static byte[] stream;

    static int int32(byte[] b, int at) {
        return (b[at] & 255) << 24 | (b[at + 1] & 255) << 16 | (b[at + 2] & 255) << 8 | (b[at + 3] & 255);
    }

    static long[] offsets(String file) throws IOException {
        ByteBuffer bytes = ByteBuffer.wrap(Files.readAllBytes(Paths.get(file)));
        long[] found = new long[bytes.remaining() / 8];
        for (int i = 0; i < found.length; i++) {
            found[i] = bytes.getLong();
        }
        return found;
    }

    static long peakBytes() throws IOException {
        for (String line : Files.readAllLines(Paths.get("/proc/self/status"))) {
            if (line.startsWith("VmHWM")) {
                return Long.parseLong(line.replaceAll("[^0-9]", "")) * 1024;
            }
        }
        return 0;
    }

    /** Of all threads, those of the garbage collector and the compiler as well. */
    static long processorNanos() {
        return ((OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean()).getProcessCpuTime();
    }

    static String pass(Change change, String source, String offsetFile, String target) throws Exception {
        long[] offsets = offsets(offsetFile);
        long used = processorNanos();
        long started = System.nanoTime();
        byte[] b = Files.readAllBytes(Paths.get(source));
        stream = b;
        long read = System.nanoTime();
        long writing = 0;
        long entries = 0;
        DataInputDeserializer in = new DataInputDeserializer();
        DataOutputSerializer out = new DataOutputSerializer(2 * FLUSH_BYTES);
        try (FileOutputStream file = new FileOutputStream(target)) {
            for (int group = 0; group + 1 < offsets.length; group++) {
                int at = (int) offsets[group];
                out.write(b, at, 2); // the state's id
                at += 2;
                boolean isLast = false;
                while (!isLast) {
                    int keyBytes = int32(b, at);
                    isLast = b[at + 4] < 0;
                    int valueAt = at + 4 + keyBytes;
                    int valueBytes = int32(b, valueAt);
                    int lengthAt = out.length();
                    if (change.isOfKeys()) {
                        int before = KEY_AT + int32(b, at + 4 + KEY_GROUP_BYTES); // and the namespace
                        out.writeInt(0);
                        out.write(b, at + 4, before);
                        in.setBuffer(b, at + 4 + before, keyBytes - before);
                        change.one(in, out);
                        out.writeIntUnsafe(out.length() - lengthAt - 4, lengthAt);
                        out.write(b, valueAt, 4 + valueBytes);
                    } else {
                        out.write(b, at, 4 + keyBytes);
                        lengthAt = out.length();
                        out.writeInt(0);
                        in.setBuffer(b, valueAt + 4, valueBytes);
                        change.one(in, out);
                        out.writeIntUnsafe(out.length() - lengthAt - 4, lengthAt);
                    }
                    entries++;
                    at = valueAt + 4 + valueBytes;
                }
                out.write(b, at, 2); // the end mark
                if (out.length() > FLUSH_BYTES) {
                    long before = System.nanoTime();
                    file.write(out.getSharedBuffer(), 0, out.length());
                    out.clear();
                    writing += System.nanoTime() - before;
                }
            }
            file.write(out.getSharedBuffer(), 0, out.length());
        }
        long ended = System.nanoTime();
        return String.format(
                Locale.ROOT,
                "{\"entries\": %d, \"seconds\": %.6f, \"cpu_seconds\": %.6f, \"kernel_seconds\": %.6f, \"peak_bytes\": %d}",
                entries, (ended - started) / 1e9, (processorNanos() - used) / 1e9, (ended - read - writing) / 1e9,
                peakBytes());
    }

    public static void main(String[] arguments) throws Exception {
        Change change = change(arguments[0], arguments.length > 1 ? arguments[1] : "");
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        System.out.println("{\"ready\": true}");
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] files = line.split("\t");
            System.out.println(pass(change, files[0], files[1], files[2]));
        }
    }
}
