"""The one way from data to HTML: templates in which every text is escaped, and made visible.

Text of a savepoint may contain anything. A template prints it by `{{ … }}` alone: controls and bidirectional marks are
shown as everywhere else (`one_line`), then `<`, `>`, `&` and quotes are escaped. What a macro returns is HTML already.
Reports are sent to others: credentials in URIs are masked.
"""

from __future__ import annotations

import base64
import hashlib
import re
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from ...serializers.wording import many, masked, one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


_PLACE = re.compile(r'(?<= )(id="|href="#)')
"""What a place, or a link to one, begins with; in text of others quotes are escaped."""


def piece(name: str, *args: object, **given: object) -> Markup:
    """Return a piece of HTML: what the macro of a name in `pieces.html` or `charts.html` makes of data."""
    macro: Callable[..., str] = _macros()[name]
    return Markup(macro(*args, **given))  # noqa: S704 - the template has escaped it


def page(title: str, pieces: Iterable[Markup], *, made_by: str) -> str:
    """Return a whole file.

    Args:
        title: The title of the window.
        pieces: What it shows, from top to bottom.
        made_by: The command, such as `stateshift check`; by this an earlier file of the same command is known.
    """
    style, script = _file("style.css"), _file("script.js")
    policy = f"default-src 'none'; style-src {_digest(style)}; script-src {_digest(script)}"
    template = _environment().get_template("page.html")
    ours = {"style": Markup(style), "script": Markup(script)}  # noqa: S704 - they are files of ours
    return template.render(title=title, pieces=list(pieces), made_by=made_by, policy=policy, **ours)


def fragment(pieces: Iterable[Markup]) -> str:
    """Return pieces with their style, for a notebook; there is no script.

    A notebook shows several: ids of places are made those of this one, so that its links lead to no other.
    """
    style = Markup(_file("style.css"))  # noqa: S704 - it is a file of ours
    text = _environment().get_template("fragment.html").render(pieces=list(pieces), style=style)
    own = f"s{hashlib.sha256(text.encode()).hexdigest()[:8]}-"
    return _PLACE.sub(rf"\g<0>{own}", text)


@cache
def _file(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    """Return what a policy says of an inline style or script."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _visible(value: Any) -> Any:
    if not isinstance(value, str) or isinstance(value, Markup):
        return value
    return one_line(masked(value) if "://" in value else value)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FunctionLoader(_file),
        autoescape=True,
        finalize=_visible,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals["many"] = many
    return environment


@cache
def _macros() -> dict[str, Any]:
    made = (_environment().get_template(name).module for name in ("pieces.html", "charts.html"))
    return {name: macro for module in made for name, macro in vars(module).items() if not name.startswith("_")}
