"""The embedded runner: a function, a backend, elements and times in, results out, in one process.

It is a test tool, also for notebooks, and no engine; it is as Flink's `KeyedOneInputStreamOperatorTestHarness`.
`stateshift.state.testing` has its names. Source: runtime notes, section 6.
"""
