package shop;

/** Version 2: larger totals, and how many purchases there were. It forgets refunds. */
public class Account {
    public long total;
    public int purchases;

    public void add(int amount) {
        if (amount > 0) {
            total += amount;
            purchases++;
        }
    }
}
