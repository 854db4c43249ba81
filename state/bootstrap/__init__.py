"""New state from columns: the declarations of a bootstrap, and the conversion of its rows to savepoint streams.

All of it works on Arrow blocks and needs no engine; `spark/bootstrapping.py` passes the rows to it.
"""
