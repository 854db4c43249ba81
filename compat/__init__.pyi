# The face of the package: every public name and its place, one import a line, as in that of `stateshift`.

from .difference import compare as compare
