"""The class of the pickled values, in the module to which it has moved."""


class Account:
    def __init__(self, id, name, visits):
        self.id, self.name, self.visits = id, name, visits
