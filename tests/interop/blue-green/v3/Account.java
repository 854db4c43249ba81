package shop;

/** As version 2, with refunds. */
public class Account {
    public long total;
    public int purchases;

    public void add(int amount) {
        total += amount;
        purchases += amount > 0 ? 1 : 0;
    }
}
