package bench;

/** What Flink itself can make of it: a field dropped, another added. */
public class Rec {
    public double amount;
    public int count;
    public long id;
    public String name;
    public String region;
    public String tag;

    public Rec() {}
}
