"""Checks the section ``http`` of ``adapter.yaml``."""

from __future__ import annotations

from connector.config.http_model import SHORT, Http
from connector.config.problem_reporter import ProblemReporter
from connector.config.reading import Location, find
from connector.config.tree import Items, Leaf, Table

_TOKENS = ("http", "tokens")


def check_http(http: Http | None, reporter: ProblemReporter) -> None:
    """Reports settings that would let in more callers than intended."""
    if http is None:
        return
    written = _written(reporter)
    for location, token in written:
        # Other empty values count as not given. Without a token every caller would be let in.
        if token.is_absent and token.from_environment and not _is_noted(token, reporter):
            reporter.add(location, f"{token.raw} is empty", "a token, or no tokens at all")
    if not written and not http.listen.is_loopback:
        reporter.add(
            ("http", "listen"),
            f"{http.listen} can be reached by other machines, and there are no tokens",
            "tokens, or a loopback address: 127.0.0.1, [::1]",
        )
    for location, token in written:
        if 0 < len(token) < SHORT and token in http.tokens:
            reporter.add(
                location,
                f"a token of {len(token)} characters can be guessed",
                f"{SHORT} or more: python3 -c 'import secrets; print(secrets.token_urlsafe())'",
                warning=True,
            )


def _is_noted(token: Leaf, reporter: ProblemReporter) -> bool:
    """Tells whether a problem is reported already that the variable is not set."""
    place = (token.position.line, token.position.column)
    return any((problem.line, problem.column) == place for problem in reporter.problems.sorted())


def _written(reporter: ProblemReporter) -> list[tuple[Location, Leaf]]:
    """Returns the tokens as written in the file, also those that could not be read."""
    section = find(reporter.tree, ("http",))[0]
    node = section.entries.get("tokens") if isinstance(section, Table) else None
    if isinstance(node, Items):
        return [((*_TOKENS, i), item) for i, item in enumerate(node.items) if isinstance(item, Leaf)]
    return [(_TOKENS, node)] if isinstance(node, Leaf) else []
