package bench;

/** The record as it lies in the savepoint. */
public class Rec {
    public boolean active;
    public double amount;
    public int count;
    public long id;
    public String name;
    public String tag;

    public Rec() {}
}
