import java.io.ByteArrayOutputStream;
import org.apache.avro.Schema;
import org.apache.avro.SchemaCompatibility;
import org.apache.avro.generic.GenericDatumReader;
import org.apache.avro.generic.GenericDatumWriter;
import org.apache.avro.io.DecoderFactory;
import org.apache.avro.io.EncoderFactory;

/** Says of each pair of schemas what Avro's own checker and reader make of a record of the first; a line each. */
public class Resolve {
    public static void main(String[] args) throws Exception {
        for (int i = 0; i + 2 < args.length; i += 3) {
            Schema writer = new Schema.Parser().parse(args[i]);
            Schema reader = new Schema.Parser().parse(args[i + 1]);
            System.out.println(judged(writer, reader) + "\t" + read(writer, reader, args[i + 2]));
        }
    }

    private static String judged(Schema writer, Schema reader) {
        SchemaCompatibility.SchemaCompatibilityResult result;
        try {
            result = SchemaCompatibility.checkReaderWriterCompatibility(reader, writer).getResult();
        } catch (RuntimeException error) {
            return error.getClass().getSimpleName() + ": " + error.getMessage();
        }
        if (result.getIncompatibilities().isEmpty()) {
            return result.getCompatibility().toString();
        }
        var kinds = new StringBuilder();
        for (var one : result.getIncompatibilities()) {
            kinds.append(kinds.length() == 0 ? "" : ",").append(one.getType()).append(" ").append(one.getLocation());
        }
        return kinds.toString();
    }

    private static String read(Schema writer, Schema reader, String json) throws Exception {
        try {
            Object value = new GenericDatumReader<Object>(writer).read(null, DecoderFactory.get().jsonDecoder(writer, json));
            var out = new ByteArrayOutputStream();
            var encoder = EncoderFactory.get().binaryEncoder(out, null);
            new GenericDatumWriter<Object>(writer).write(value, encoder);
            encoder.flush();
            var decoder = DecoderFactory.get().binaryDecoder(out.toByteArray(), null);
            return String.valueOf(new GenericDatumReader<Object>(writer, reader).read(null, decoder));
        } catch (RuntimeException error) {
            return error.getClass().getSimpleName() + ": " + error.getMessage();
        }
    }
}
