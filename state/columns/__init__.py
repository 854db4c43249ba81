"""State as columns: the Arrow type of each type of value, and blocks of entries decoded to arrays.

numpy is part of the extra `spark`; only code that reads or writes columns imports this package. `state.bootstrap` uses
the same mapping of types, so that columns that were read can be written again.
"""
