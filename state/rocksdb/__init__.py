"""Databases of RocksDB and ForSt, opened from the files that a snapshot names. It knows nothing of savepoints.

manifest      the log of the files of a database: held against its checksums, and written
options_file  what reading needs of an OPTIONS file
workspace     folders on the local disk for the files of databases, shared by processes
database      the opened database
"""
