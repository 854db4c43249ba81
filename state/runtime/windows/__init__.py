"""Windows: elements of a key are gathered by time or number, and a function makes results of each gathering."""
