"""The class of the pickled values, as it was."""


class Account:
    def __init__(self, number, name, visits):
        self.number, self.name, self.visits = number, name, visits
