"""The checkpoint of a Spark query, copied for a query whose state has other types.

`migration` is the call. `plan` decides what is done with each store, of `conversion` (rows by columns) and `merging`
(keys that become equal); `copying` writes the copy and publishes it, `entries` its entries: decoded, converted, encoded
(`row_encoder`), sent to their partition (`partitioning`) and written (`store_writer`); `report` says what was done.
"""
