"""The checkpoint of a Spark query, copied for a query whose state has other types.

`migration` is the call. `new_side` opens the new query or a probe, and `pairing` the old operator of each new one.
`plan` decides what is done with each store: `meaning` compares what its columns are computed from, `conversion` and
`merging` turn its rows into new ones by columns, `backfill` fills a field from a DataFrame; `variables` does the same
for those of transformWithState. `copying` writes the copy and publishes it; `entries` and `variable_entries` convert
what is stored. `row_encoder`, `layout_encoder` and `avro_encoder` make the bytes that Spark would, `partitioning` knows
where they belong, and `providers` writes them: `store_writer` for the default provider, `rocksdb_writer` for RocksDB,
`operator_files` what describes variables. `report` says what was done.
"""
