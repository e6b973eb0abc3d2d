"""HTML pages that ask for nothing from outside; the sorting of tables is a few lines of script.

Words from runs, configs and study files are escaped.
"""

from collections.abc import Iterable
from typing import Any

from analysis.text_tables import TextTable


def render_page(parts: Iterable[str | TextTable], *, title: str) -> str:
    """Paragraphs and tables in order, below a title."""
    return render_template("parts.html.j2", parts=list(parts), title=title)


def render_template(name: str, **values: Any) -> str:
    """The page of a template of this package."""
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        loader=PackageLoader("analysis", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    # Drawn by matplotlib, which escapes the words in it.
    environment.filters["drawing"] = lambda picture: Markup(picture.svg)
    environment.tests["words"] = lambda part: isinstance(part, str)
    return environment.get_template(name).render(values)
