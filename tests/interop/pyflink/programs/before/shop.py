"""The class of the pickled values, as it was."""


class Account:
    def __init__(self, id, name, visits):
        self.id, self.name, self.visits = id, name, visits
