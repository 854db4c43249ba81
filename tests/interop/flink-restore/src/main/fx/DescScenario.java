package fx;

import org.apache.flink.api.common.typeinfo.*;
import org.apache.flink.api.java.typeutils.*;
import java.nio.file.*;
import java.util.*;

/** A scenario from a text file: the descriptors of a made-up new job. */
@SuppressWarnings({"unchecked", "rawtypes"})
public final class DescScenario {
    final String s; int i = 0;
    DescScenario(String s) { this.s = s; }

    static Scenario parse(Path p) {
        try {
            Scenario sc = null;
            List<String> lines = new ArrayList<>();
            for (String l : Files.readAllLines(p)) { l = l.trim(); if (!l.isEmpty() && !l.startsWith("#")) lines.add(l); }
            for (String l : lines) if (l.startsWith("key ")) sc = new Scenario("desc", type(l.substring(4).trim()), (k, i) -> null);
            if (sc == null) sc = new Scenario("desc", Types.LONG, (k, i) -> null);
            for (String l : lines) {
                String[] w = l.split("\\s+");
                Scenario.Gen g = (k, i) -> Scenario.SKIP;
                boolean ttl = w[0].startsWith("ttl");
                String k = ttl ? w[0].substring(3) : w[0];
                switch (k) {
                    case "key": break;
                    case "value": sc.value(w[1], type(w[2]), g); break;
                    case "list": sc.list(w[1], type(w[2]), g); break;
                    case "map": sc.map(w[1], type(w[2]), type(w[3]), g, g); break;
                    case "reducing": sc.reducing(w[1], g); last(sc).type = type(w[2]); break;
                    case "aggregating": sc.aggregating(w[1], g); last(sc).type = type(w[2]); break;
                    case "op": sc.op(w[1], false, type(w[2]), g); break;
                    case "union": sc.op(w[1], true, type(w[2]), g); break;
                    case "bc": sc.broadcast(w[1], type(w[2]), type(w[3]), g, g); break;
                    default: throw new IllegalArgumentException(l);
                }
                if (ttl) { last(sc).ttl = true; }
            }
            return sc;
        } catch (java.io.IOException e) { throw new java.io.UncheckedIOException(e); }
    }
    static Scenario.St last(Scenario sc) { return sc.states.get(sc.states.size() - 1); }

    static TypeInformation<?> type(String s) { DescScenario d = new DescScenario(s); TypeInformation<?> t = d.t(); if (d.i != s.length()) throw new IllegalArgumentException(s + " at " + d.i); return t; }
    char c() { return i < s.length() ? s.charAt(i) : 0; }
    void eat(char x) { if (c() != x) throw new IllegalArgumentException("expected " + x + " at " + i + " in " + s); i++; }
    String word() { int b = i; while (i < s.length() && (Character.isLetterOrDigit(c()) || "_.$-".indexOf(c()) >= 0)) i++; return s.substring(b, i); }
    static Class<?> cls(String n) { try { return Class.forName(n); } catch (ClassNotFoundException e) { throw new RuntimeException(e); } }

    /** A type that came with Flink 2, so that this compiles with Flink 1. */
    static TypeInformation<?> later(String name, TypeInformation<?>... parts) {
        try {
            Class<?>[] of = new Class<?>[parts.length];
            Arrays.fill(of, TypeInformation.class);
            return (TypeInformation<?>) Class.forName("org.apache.flink.api.java.typeutils." + name).getConstructor(of).newInstance((Object[]) parts);
        } catch (ReflectiveOperationException e) { throw new IllegalStateException(name, e); }
    }

    TypeInformation<?> t() {
        String w = word();
        switch (w) {
            case "INT": return Types.INT; case "LONG": return Types.LONG; case "STRING": return Types.STRING; case "DOUBLE": return Types.DOUBLE;
            case "FLOAT": return Types.FLOAT; case "SHORT": return Types.SHORT; case "BYTE": return Types.BYTE; case "BOOLEAN": return Types.BOOLEAN; case "CHAR": return Types.CHAR;
            case "BIG_DEC": return Types.BIG_DEC; case "BIG_INT": return Types.BIG_INT; case "INSTANT": return Types.INSTANT; case "LOCAL_DATE": return Types.LOCAL_DATE;
            case "LOCAL_TIME": return Types.LOCAL_TIME; case "LOCAL_DATE_TIME": return Types.LOCAL_DATE_TIME; case "SQL_TIMESTAMP": return Types.SQL_TIMESTAMP; case "SQL_DATE": return Types.SQL_DATE;
            case "DATE": return BasicTypeInfo.DATE_TYPE_INFO; case "BYTES": return PrimitiveArrayTypeInfo.BYTE_PRIMITIVE_ARRAY_TYPE_INFO;
            case "STRARR": return BasicArrayTypeInfo.STRING_ARRAY_TYPE_INFO; case "LONGARR": return PrimitiveArrayTypeInfo.LONG_PRIMITIVE_ARRAY_TYPE_INFO; case "INTARR": return PrimitiveArrayTypeInfo.INT_PRIMITIVE_ARRAY_TYPE_INFO;
            case "VOID": return Types.VOID;
        }
        if (w.equals("LIST")) { eat('('); TypeInformation<?> a = t(); eat(')'); return Types.LIST(a); }
        if (w.equals("SET")) { eat('('); TypeInformation<?> a = t(); eat(')'); return later("SetTypeInfo", a); }
        if (w.equals("ARRAY")) { eat('('); TypeInformation<?> a = t(); eat(')'); return Types.OBJECT_ARRAY(a); }
        if (w.equals("MAP")) { eat('('); TypeInformation<?> a = t(); eat(','); TypeInformation<?> b = t(); eat(')'); return Types.MAP(a, b); }
        if (w.equals("EITHER")) { eat('('); TypeInformation<?> a = t(); eat(','); TypeInformation<?> b = t(); eat(')'); return Types.EITHER(a, b); }
        if (w.equals("NLIST")) { eat('('); TypeInformation<?> a = t(); eat(')'); return later("NullableListTypeInfo", a); }
        if (w.equals("NSET")) { eat('('); TypeInformation<?> a = t(); eat(')'); return later("NullableSetTypeInfo", a); }
        if (w.equals("NMAP")) { eat('('); TypeInformation<?> a = t(); eat(','); TypeInformation<?> b = t(); eat(')'); return later("NullableMapTypeInfo", a, b); }
        if (w.equals("TUPLE")) { List<TypeInformation<?>> l = list(); return Types.TUPLE(l.toArray(new TypeInformation[0])); }
        if (w.equals("ENUM")) { eat('('); String n = word(); eat(')'); return Types.ENUM((Class) cls(n)); }
        if (w.equals("ROW")) {
            eat('('); List<String> ns = new ArrayList<>(); List<TypeInformation<?>> l = new ArrayList<>();
            while (true) { ns.add(word()); eat(':'); l.add(t()); if (c() == ',') { i++; continue; } break; }
            eat(')'); return Types.ROW_NAMED(ns.toArray(new String[0]), l.toArray(new TypeInformation[0]));
        }
        if (w.equals("POJO")) {
            eat('('); String n = word(); eat(')');
            if (c() != '{') return Types.POJO((Class) cls(n));
            eat('{'); Map<String, TypeInformation<?>> m = new LinkedHashMap<>();
            while (true) { String f = word(); eat(':'); m.put(f, t()); if (c() == ',') { i++; continue; } break; }
            eat('}'); return Types.POJO((Class) cls(n), m);
        }
        throw new IllegalArgumentException(w + " in " + s);
    }
    List<TypeInformation<?>> list() {
        eat('('); List<TypeInformation<?>> l = new ArrayList<>();
        while (true) { l.add(t()); if (c() == ',') { i++; continue; } break; }
        eat(')'); return l;
    }
}
