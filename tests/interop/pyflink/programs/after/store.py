"""The class of the pickled values, in the module to which it has moved."""


class Account:
    def __init__(self, number, name, visits):
        self.number, self.name, self.visits = number, name, visits
