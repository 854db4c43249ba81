"""State as columns: which Arrow type each type of values has, and blocks of entries decoded into arrays.

numpy comes with the extra `spark`; only who reads or writes columns imports this package. The mapping of types is the
one by which `state.bootstrap` takes columns, so that what is read can be written again.
"""
