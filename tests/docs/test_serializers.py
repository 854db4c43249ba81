"""Every serializer that a page shows keeps the contract: readers copy them."""

from __future__ import annotations

import re
import sys
import types
from pathlib import Path

import pytest
from hypothesis import strategies as st

from stateshift import TypeSerializer
from stateshift.compat.testing import SerializerContract
from stateshift.serializers.registry import registry

DOCS = Path(__file__).parents[2] / "docs"
FENCE = re.compile(r'^```python title="([a-z_/]+)\.py"\n(.*?)^```', re.MULTILINE | re.DOTALL)
SHOWN_TO_FAIL = [("test-your-serializer.md", 0)]
"""Serializers of which the page itself says what is wrong, by their place on the page."""

VALUES = {"degrees": st.integers(-300, 2000).map(float), "tenths": st.integers(-2731, 20000)}
"""By the one field of their values: what these serializers take."""


def sources():
    for page in sorted(DOCS.rglob("*.md")):
        shown = [found for found in FENCE.findall(page.read_text(encoding="utf-8")) if "(TypeSerializer[" in found[1]]
        yield from (
            pytest.param(module.replace("/", "_"), source, id=f"{page.name}-{at}")
            for at, (module, source) in enumerate(shown)
            if (page.name, at) not in SHOWN_TO_FAIL
        )


@pytest.mark.parametrize(("module", "source"), list(sources()))
def test_a_serializer_of_the_docs_keeps_the_contract(monkeypatch, module, source):
    made = types.ModuleType(module)
    monkeypatch.setitem(sys.modules, module, made)
    with registry.restored():
        exec(source, vars(made))  # noqa: S102 - of our own page
        (cls,) = (one for one in vars(made).values() if _is_serializer(one))
        (hint,) = vars(made)["Temperature"].__annotations__
        values = VALUES[hint].map(made.Temperature)
        facts = {
            "serializer": cls(),
            "values": values,
            "edges": (made.Temperature(20.0 if hint == "degrees" else 20),),
            "__module__": module,
        }
        contract = type("Shown", (SerializerContract,), facts)()

        for case in sorted(name for name in dir(contract) if name.startswith("test_")):
            getattr(contract, case)()


def _is_serializer(found):
    return isinstance(found, type) and issubclass(found, TypeSerializer) and found is not TypeSerializer


def test_all_that_is_shown_is_tried():
    assert len(list(sources())) >= len(["version 1", "version 2", "corrected"])
