package shop;

/** Version 1. */
public class Account {
    public int total;

    public void add(int amount) {
        total += amount;
    }
}
