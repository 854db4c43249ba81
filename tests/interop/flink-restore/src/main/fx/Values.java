package fx;

import java.math.BigDecimal;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import org.apache.flink.api.common.serialization.SerializerConfigImpl;
import org.apache.flink.api.common.typeinfo.BasicArrayTypeInfo;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.common.typeutils.TypeSerializer;
import org.apache.flink.api.common.typeutils.TypeSerializerSnapshot;
import org.apache.flink.api.common.typeutils.base.LongSerializer;
import org.apache.flink.api.java.tuple.Tuple0;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.api.java.typeutils.ObjectArrayTypeInfo;
import org.apache.flink.api.java.typeutils.TupleTypeInfo;
import org.apache.flink.api.java.typeutils.runtime.NullableSerializer;
import org.apache.flink.api.java.typeutils.runtime.RowSerializer;
import org.apache.flink.core.memory.DataOutputSerializer;
import org.apache.flink.runtime.state.ArrayListSerializer;
import org.apache.flink.streaming.api.windowing.windows.GlobalWindow;
import org.apache.flink.types.Either;
import org.apache.flink.types.Row;
import org.apache.flink.types.RowKind;

/** Prints snapshots and values of types that no fixture has, as Flink writes them: by name [length, snapshot, values]. */
public class Values {
    public static class Bag {
        public int[] ids;
        public Integer[] maybe;
        public String[] notes;
        public long n;
    }

    static final List<String> ROWS = new ArrayList<>();

    public static void main(String[] args) throws Exception {
        arrays();
        rows();
        others();
        Files.writeString(Path.of(args[0]), "{\n" + String.join(",\n", ROWS) + "\n}\n");
    }

    static void arrays() throws Exception {
        add("List[]", ObjectArrayTypeInfo.getInfoFor(Types.LIST(Types.LONG)), (Object) new List<?>[] {Arrays.asList(1L, 2L), null});
        add("Map[]", ObjectArrayTypeInfo.getInfoFor(Types.MAP(Types.STRING, Types.LONG)), (Object) new Map<?, ?>[] {Map.of("a", 1L)});
        add("BigDecimal[]", Types.OBJECT_ARRAY(Types.BIG_DEC), (Object) new BigDecimal[] {new BigDecimal("12.5"), null});
        add("Row[]", Types.OBJECT_ARRAY(Types.ROW(Types.LONG, Types.STRING)), (Object) new Row[] {Row.of(1L, null), null});
        add("Either[]", Types.OBJECT_ARRAY(Types.EITHER(Types.STRING, Types.LONG)), (Object) new Either<?, ?>[] {Either.Left("a"), Either.Right(2L)});
        add("long[][]", Types.OBJECT_ARRAY(Types.PRIMITIVE_ARRAY(Types.LONG)), (Object) new long[][] {{1L}, {}});
        add("Long[][]", Types.OBJECT_ARRAY(BasicArrayTypeInfo.LONG_ARRAY_TYPE_INFO), (Object) new Long[][] {{1L, null}, null});
        add("String[][]", Types.OBJECT_ARRAY(BasicArrayTypeInfo.STRING_ARRAY_TYPE_INFO), (Object) new String[][] {{"x"}, {}});
        add("byte[][]", Types.OBJECT_ARRAY(Types.PRIMITIVE_ARRAY(Types.BYTE)), (Object) new byte[][] {{1}});
        add("Tuple2[]", Types.OBJECT_ARRAY(Types.TUPLE(Types.LONG, Types.STRING)), (Object) new Tuple2<?, ?>[] {Tuple2.of(1L, "a"), null});
        add("Byte[]", BasicArrayTypeInfo.BYTE_ARRAY_TYPE_INFO, (Object) new Byte[] {1, null});
        add("Boolean[]", BasicArrayTypeInfo.BOOLEAN_ARRAY_TYPE_INFO, (Object) new Boolean[] {true, null});
        add("Character[]", BasicArrayTypeInfo.CHAR_ARRAY_TYPE_INFO, (Object) new Character[] {'c', null});
        Bag bag = new Bag();
        bag.ids = new int[] {1, 2};
        bag.maybe = new Integer[] {null};
        add("Bag", Types.POJO(Bag.class), bag);
    }

    static void rows() throws Exception {
        Row updated = Row.of(5L, "a"), deleted = Row.of(null, null), before = Row.of(5L, null);
        updated.setKind(RowKind.UPDATE_AFTER);
        deleted.setKind(RowKind.DELETE);
        before.setKind(RowKind.UPDATE_BEFORE);
        add("Row", Types.ROW_NAMED(new String[] {"id", "title"}, Types.LONG, Types.STRING), updated, deleted, before);
        add("Row of nothing", Types.ROW(), new Row(0));
        add("Row of Void", Types.ROW(Types.VOID), Row.of((Object) null));
        add("Row without kind", new RowSerializer(new TypeSerializer<?>[] {LongSerializer.INSTANCE}, null, false), Row.of(5L), Row.of((Object) null));
    }

    static void others() throws Exception {
        add("Tuple0", new TupleTypeInfo<>(Tuple0.class), Tuple0.INSTANCE);
        add("Void", Types.VOID, (Object) null);
        add("Map of Void", Types.MAP(Types.STRING, Types.VOID), Map.of(), new java.util.HashMap<String, Void>() {{ put("a", null); }});
        add("padded", NullableSerializer.wrap(LongSerializer.INSTANCE, true), 7L, null);
        add("ArrayList", new ArrayListSerializer<>(LongSerializer.INSTANCE), new ArrayList<>(List.of(1L)));
        add("GlobalWindow", new GlobalWindow.Serializer(), GlobalWindow.get());
    }

    static void add(String name, TypeInformation<?> type, Object... values) throws Exception {
        add(name, type.createSerializer(new SerializerConfigImpl()), values);
    }

    @SuppressWarnings("unchecked")
    static void add(String name, TypeSerializer<?> serializer, Object... values) throws Exception {
        DataOutputSerializer snapshot = new DataOutputSerializer(64);
        TypeSerializerSnapshot.writeVersionedSnapshot(snapshot, serializer.snapshotConfiguration());
        List<String> written = new ArrayList<>();
        for (Object value : values) {
            DataOutputSerializer out = new DataOutputSerializer(64);
            ((TypeSerializer<Object>) serializer).serialize(value, out);
            written.add("\"" + hex(out) + "\"");
        }
        ROWS.add("\"" + name + "\": [" + serializer.getLength() + ", \"" + hex(snapshot) + "\", [" + String.join(", ", written) + "]]");
    }

    static String hex(DataOutputSerializer out) {
        StringBuilder text = new StringBuilder();
        for (byte one : out.getCopyOfBuffer()) {
            text.append(String.format("%02x", one));
        }
        return text.toString();
    }
}
