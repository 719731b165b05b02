"""Definitions of business objects for tests, read from files as an adapter reads them."""

from __future__ import annotations

from pathlib import Path

from connector.businessobjects.definition import Definitions
from connector.config.metaobject_lint import check_metaobjects
from connector.config.metaobjects import collect
from connector.declare.problems import Position, Problems
from connector.errors import ConfigurationError


def definitions_of(*sources: str | Path) -> Definitions:
    """Returns the business objects that files define.

    Args:
        sources: files, or directories whose ``*.yaml`` are read, as in ``metaobjects:``.

    Raises:
        ConfigurationError: with every mistake in the files. Warnings are none.
    """
    problems = Problems()
    places = [(Path(one), str(one), Position(str(one)), "") for one in sources]
    found = check_metaobjects(collect(places, problems), None, Path())
    if problems.errors:
        raise ConfigurationError([one for one in problems.sorted() if not one.warning])
    return found.definitions
