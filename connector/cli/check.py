"""``connector check``: finds the mistakes that ``run`` would refuse without connecting."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated, Final

import typer

from connector.cli.common import DEFAULT_CONFIG, ConfigOption, JsonOption, answer, answer_json, counted, note
from connector.config.loading import Configuration, load
from connector.config.loading import check as find_problems
from connector.messaging.provider import Capabilities
from connector.messaging.provider_kind import AdapterProvider, Finding, Surveyor
from connector.messaging.subscription import TopicSubscription
from connector.service.assembly import (
    check_databases,
    make_event_settings,
    make_provider,
    needs_delays,
)
from connector.service.import_check import check_imports
from connector.service.queues import roles

_DELAY: Final = "delivery delay"
_ABILITIES: Final = {
    "topics": "topics",
    "selectors": "message selectors",
    "temporary_destinations": "temporary destinations",
    "virtual_destinations": "virtual destinations",
    "in_progress": "InProgressDestination",
    "takeover": "taking over from dead clients",
    "shows_all": "browsing claimed messages",
    "delays": _DELAY,
}
"""From the name of a capability to words for an operator."""


_NORMAL: Final = {
    "virtual destinations": "the provider has none",
    "taking over from dead clients": "the broker gives the messages of a dead client back",
    "browsing claimed messages": "the broker shows waiting messages only",
}
"""From the name of an ability that brokers do not have to what is normal there."""

_COMMIT_QUEUE: Final = "commit queue "


def check(
    config: ConfigOption = DEFAULT_CONFIG,
    connect: Annotated[
        bool,
        typer.Option("--connect", help="Connects, too, and says what provider and databases can do."),
    ] = False,
    json: JsonOption = False,
) -> None:
    """Finds the mistakes that run would refuse without connecting: FILE:LINE:COLUMN: path: found, expected.

    Runs no code of the deployment and makes no file. With --json each mistake is an object on a separate
    line. With --connect and without a mistake, loads the code of the deployment in child processes, connects
    to the provider and the databases, and says what they can and cannot do. A line begins with yes, with no
    for what the configuration needs, or with - for what the provider cannot do and nobody needs. Exit status
    2 when there is a mistake, 1 when the provider cannot be reached or cannot do what is needed, or when a
    database or code cannot be used, 0 when there are only warnings or nothing.
    """
    problems = find_problems(config)
    for problem in problems:
        if json:
            answer_json(asdict(problem))
        else:
            answer(str(problem))
    errors = sum(not problem.warning for problem in problems)
    warnings = len(problems) - errors
    note(f"{config}: {counted(errors, 'mistake')}, {counted(warnings, 'warning')}")
    if errors:
        raise typer.Exit(2)
    if connect:
        _connect(config, as_json=json)


def _connect(config: str, *, as_json: bool) -> None:
    configuration = load(config)
    provider = make_provider(configuration)
    missing = list(check_imports(configuration, provider))  # before threads of a client run here
    findings = [*missing, *_findings(provider, configuration)]
    databases = [
        Finding(one.name, not one.problem, one.problem or one.text)
        for one in check_databases(configuration, makes=False)
    ]
    needs = _needs(configuration, provider.capabilities)
    lacks = False
    for finding in (*findings, *databases):
        needed = finding.needed or finding in databases or finding.name in needs
        needed = needed or finding.name.startswith(_COMMIT_QUEUE)
        lacks = lacks or (needed and not finding.able)
        text = finding.text or ("" if finding.able else _NORMAL.get(finding.name, ""))
        if as_json:
            answer_json({"ability": finding.name, "able": finding.able, "needed": needed, "text": text})
        else:
            word = "yes" if finding.able else "no" if needed else "-"
            answer(f"{word:3} {finding.name}{': ' if text else ''}{text}")
    if lacks:
        raise typer.Exit(1)


def _needs(configuration: Configuration, capabilities: Capabilities) -> set[str]:
    """Returns the names of the abilities without which the deployment cannot run."""
    found = {"connection"}
    inputs = configuration.connector.inputs
    topics = [entry for entry in inputs if not entry.destination.is_queue]
    if inputs and capabilities.transactions:
        found |= {"transactions", "message selectors", "browsing"}
    if topics:
        found.add("topics")
    if not capabilities.shares_client_ids and any(not entry.no_local for entry in topics):
        found.add("shared subscriptions")
    if any(entry.selector for entry in inputs):
        found.add("message selectors")
    if any(entry.destination.view for entry in inputs):
        found.add("virtual destinations")
    if needs_delays(configuration):
        found.add(_DELAY)
    if configuration.connector.copies.in_progress is not None:
        found.add("InProgressDestination")
    return found


def _findings(provider: AdapterProvider, configuration: Configuration) -> Sequence[Finding]:
    """Returns what a provider can and cannot do, after a connection.

    Raises:
        ProviderError, CapabilityError: the provider cannot be reached.
    """
    if isinstance(provider, Surveyor):
        inputs = make_event_settings(configuration, provider, "").inputs
        subscriptions = [one.source for one in inputs if isinstance(one.source, TopicSubscription)]
        application = configuration.connector.application_name
        found = list(provider.survey(application, roles(configuration), subscriptions))
        if _sends_once(configuration) and all(one.able for one in found if one.needed):
            found += provider.survey_once(application)
    else:
        found = _local(provider)
    tried = {one.name for one in found}
    said = [Finding(words, getattr(provider.capabilities, name)) for name, words in _ABILITIES.items()]
    return found + [one for one in said if one.name not in tried]


def _sends_once(configuration: Configuration) -> bool:
    """Whether the deployment sends messages once by key."""
    http = configuration.http
    return bool(configuration.timers) or (http is not None and bool(http.events))


def _local(provider: AdapterProvider) -> list[Finding]:
    if not provider.check():
        return [Finding("connection", True, "the first connection makes the provider")]
    provider.existing().close()
    return [Finding("connection", True)]
