"""Drafts and their definitions, for the tests of drafting."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from connector.authoring.drafting.draft import Draft
from connector.authoring.drafting.sample_files import Samples
from connector.authoring.drafting.samples import draft_of
from connector.authoring.metaobject_text import file_text
from connector.businessobjects.definition import Definitions
from connector.config.metaobject_lint import check_metaobjects
from connector.config.metaobjects import collect
from connector.declare.problems import Position, Problems

SAMPLE = Path("sample")


def draft(body: str | bytes, format_name: str, name: str = "Order", path: Path = SAMPLE) -> Draft:
    content = body.encode() if isinstance(body, str) else body
    return draft_of(name, Samples([(path, content)]), format_name)


def draft_all(*bodies: str, format_name: str, header: bool = True, charset: str = "") -> Draft:
    """Returns the draft of several samples, ``sample0`` and so on."""
    files = [(Path(f"sample{n}"), body.encode(charset or "utf-8")) for n, body in enumerate(bodies)]
    return draft_of("Order", Samples(files, charset, has_header=header), format_name)


def definitions(draft: Draft, directory: Path) -> Definitions:
    """Returns the definitions of a draft, as ``connector check`` reads them, without a mistake."""
    file = directory / "draft.yaml"
    file.write_text(file_text(draft.documents()), "utf-8")
    problems = Problems()
    collected = collect([(file, "draft.yaml", Position("draft.yaml"), "")], problems)
    known = check_metaobjects(collected, None, directory).definitions
    assert [str(problem) for problem in problems.sorted() if not problem.warning] == []
    return known


def shapes(draft: Draft) -> dict[str, dict[str, str]]:
    """Returns the attributes of each object: type, ``n`` or nothing, application-specific information."""
    return {
        made.name: {
            one.name: " ".join(filter(None, (one.type, "n" if one.many else "", one.app_specific_info)))
            for one in made.attributes.values()
        }
        for made in draft.objects
    }


def schema_shapes(draft: Draft) -> dict[str, dict[str, str]]:
    """Returns the same without the attribute for ``xsi:schemaLocation``, which is in no schema."""
    return {
        name: {one: text for one, text in made.items() if "chemaLocation" not in one}
        for name, made in shapes(draft).items()
    }


def defaults(handler: Any, **given: object) -> dict[str, Any]:
    """Returns the options of a handler: those given, and the defaults of the others."""
    return {option.name: option.default for option in handler.options} | given
