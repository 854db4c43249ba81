"""Print pip constraints: what users install with stateshift, in the oldest versions that pyproject.toml allows."""

import tomllib
from itertools import chain
from pathlib import Path

from packaging.requirements import Requirement

project = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text())["project"]
extras = (project["optional-dependencies"][name] for name in ("fast", "rocksdb", "spark", "connect"))
for wanted in map(Requirement, chain(project["dependencies"], *extras)):
    for part in wanted.specifier:
        if part.operator == ">=":
            print(f"{wanted.name}=={part.version}")
