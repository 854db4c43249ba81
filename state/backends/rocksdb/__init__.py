"""The backend that keeps state in RocksDB on the local disk."""
