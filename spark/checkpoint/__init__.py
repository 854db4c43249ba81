"""Checkpoints of Spark's own streaming queries, read without the query, without Spark and without Java.

    metadata                       the query's id
    offsets/N, commits/N           batch N: how far the sources are read, and the settings; that it is committed
    state/OPERATOR/_metadata/…     the name of the operator, its stores, its number of partitions
    state/OPERATOR/PARTITION/…     the files of a store: version N + 1 is the state after batch N

`reader` opens a checkpoint; `logs`, `operators`, `schema_files` and `families` read what it says of itself,
`spark_types` the types; `store_files` and `rocksdb_files` find the entries of a store; `rows`, and for RocksDB
`layouts` and `avro_rows`, decode them. Source: notes on Spark, and Spark 4.3.
"""
