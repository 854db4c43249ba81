"""The checkpoint of a Spark query, copied for a query whose state has other types."""
