"""What programs read from and write to."""
