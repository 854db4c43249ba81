"""The local environment: a whole stream program in this process, for development, tests and small data.

    streams      what a program declares, by PyFlink's names
    graph        the same as data: transformations, and the edges between them
    execution    its run: the subtasks of all transformations, one after the other; no threads, no network
    functions    what stands for plain functions, keyed reduce, print and the like
    files        sources and sinks of files
    settings     Flink's keys of a run

An element goes through the whole program before the next one is read. So between two elements nothing is on its way,
and a checkpoint is the state of all subtasks at such a moment.
"""
