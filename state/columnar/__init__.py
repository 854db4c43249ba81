"""State as columns, by the column codecs of serializers: what was read can be written again.

    table, table_columns, runs                      entries and elements as record batches
    bootstrap, row_sources, rows                    rows of a DataFrame, encoded as entries
    row_files, row_streams                          encoded rows, shuffled, sorted, and written to streams
    new_savepoint, state_write, merge_into_base     the savepoints of a bootstrap and of `df.write`

All of it works on Arrow blocks and needs no engine; `spark/bootstrap_run.py` and `spark/source/` pass the rows. Only
code that reads or writes columns imports this package, because numpy is part of the extra `spark`.
"""
