"""New state out of columns: what a bootstrap declares, and how its rows become the streams of a savepoint.

All of it works on Arrow blocks and needs no engine; `spark/bootstrapping.py` brings the rows to it.
"""
