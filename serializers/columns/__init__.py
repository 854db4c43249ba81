"""Values as columns: the Arrow type of each type of value, and blocks of stored values decoded to arrays.

The codecs of a family are in its module `columns`. numpy and pyarrow are part of the extra `spark`; only code that
reads or writes columns imports these modules.
"""
