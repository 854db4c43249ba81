"""A program of the local environment as a query of Spark: `execute(spark=session, checkpoint=FOLDER)`.

    run      from the program to the end of its query
    shape    which part of the program runs where; what cannot be carried is refused
    steps    the functions without state, in Spark's workers
    wire     elements on their way between workers
    sinks    the sinks, in this process

Elements go from sources by steps to an operator, from there perhaps to another one, and at last by steps to the sinks.
"""
