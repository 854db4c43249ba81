"""State as columns: blocks of entries and elements as record batches, by the column codecs of their serializers.

numpy is part of the extra `spark`; only code that reads or writes columns imports this package. `state.bootstrap` uses
the same mapping of types, so that columns that were read can be written again.
"""
