"""Explains a message: the rule, the data handler, the objects, the subscriptions. Publishes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from connector.businessobjects.handlers import HANDLER_KEYS
from connector.businessobjects.instance import BusinessObject
from connector.businessobjects.rules import Rule, message_format
from connector.errors import ConfigurationError, MalformedData, UnknownBusinessObject
from connector.events.convert import Choice, Converter
from connector.events.settling import CopyDestinations
from connector.events.task_settings import TaskSettings
from connector.messaging.destination import parse_destination
from connector.messaging.message import Message
from connector.status import OutcomeKind
from connector.trace import masked


@dataclass(frozen=True, slots=True)
class RuleFinding:
    """A rule beside a message.

    Args:
        name: of the rule.
        matches: whether all match keys fit.
        reasons: why not, match key by match key.
        priority: ``rule_priority``.
    """

    name: str
    matches: bool
    reasons: tuple[str, ...]
    priority: int = 0


@dataclass(frozen=True, slots=True)
class SubscriptionFinding:
    """A subscription beside an object.

    Args:
        name: of the subscription.
        wants: whether the subscription gets the object.
        reason: why not. Empty when ``wants``.
    """

    name: str
    wants: bool
    reason: str = ""


@dataclass(frozen=True, slots=True)
class ObjectFinding:
    """An object of the message.

    Args:
        object, verb, values: the object.
        subscriptions: all subscriptions of the deployment, in their order.
    """

    object: str
    verb: str | None
    values: dict[str, Any]
    subscriptions: tuple[SubscriptionFinding, ...]

    @property
    def subscribers(self) -> tuple[str, ...]:
        return tuple(one.name for one in self.subscriptions if one.wants)


@dataclass(frozen=True, slots=True)
class Explanation:
    """The way of a message through the adapter, before any process is called.

    Args:
        message_id: of the message, if it has an id.
        destination: the input destination.
        message_format: the format that rules see, or None.
        rules: every rule of the static meta-object.
        rule: the rule that dictates the object, or None.
        why: why this rule counts, or why none does.
        data_handler, mime_type, config: class, MIME type and data-handler meta-object. Empty = not found.
        named_by: what names the data handler: a rule, ``Default`` or the connector.
        objects: the business objects. Several for a body that is split.
        error: why there is no object. Empty = there is one.
        outcome: ``published`` if every subscriber confirms, else ``unsubscribed`` or ``failed``.
        settled: the destination of the copy. None = no copy is kept.
    """

    message_id: str | None
    destination: str
    message_format: str | None
    rules: tuple[RuleFinding, ...]
    rule: str | None
    why: str
    data_handler: str
    mime_type: str
    config: str
    named_by: str
    objects: tuple[ObjectFinding, ...] = ()
    error: str = ""
    outcome: str = ""
    settled: str | None = None
    business_objects: tuple[BusinessObject, ...] = field(default=(), repr=False, compare=False)


class Explainer:
    """Explains messages as the tasks of a deployment would process them.

    Args:
        task_settings: of the deployment.
        copies: where settled messages go.
        deployment: the directory of ``adapter.yaml``.

    Raises:
        ConfigurationError: a data handler cannot be made.
    """

    def __init__(self, task_settings: TaskSettings, copies: CopyDestinations, deployment: str) -> None:
        self._task_settings = task_settings
        self._copies = copies
        self._converter = Converter(task_settings, deployment)

    def explain(self, message: Message, destination: str) -> Explanation:
        """Returns the way of a message that is taken from ``destination``."""
        settings = self._task_settings
        found_format = message_format(message, settings.format_property)
        where = parse_destination(destination)
        rules: tuple[RuleFinding, ...] = ()
        why = "the connector has no ConfigurationMetaObject"
        if settings.rules is not None:
            rules = tuple(
                RuleFinding(rule.name, not reasons, tuple(reasons), rule.rule_priority)
                for rule in settings.rules.rules
                for reasons in [rule.mismatches(found_format, where, message)]
            )
            why = _why(settings.rules.match(found_format, where, message), settings.rules.name)
        choice: Choice | None = None
        objects: tuple[BusinessObject, ...] = ()
        error = ""
        kind = OutcomeKind.FAILED
        try:
            choice = self._converter.choice(message, destination)
            objects = tuple(self._converter.convert(message, destination))
        except UnknownBusinessObject as problem:
            error, kind = str(problem), OutcomeKind.UNSUBSCRIBED
        except ConfigurationError as problem:
            error = problem.problems[0].mistake
        except MalformedData as problem:
            error = str(problem)
        findings = tuple([self._finding(bo) for bo in objects])
        if findings:
            wanted = any(one.subscribers for one in findings)
            kind = OutcomeKind.PUBLISHED if wanted else OutcomeKind.UNSUBSCRIBED
        copy = self._copies.of(kind.value)
        return Explanation(
            message.message_id,
            destination,
            found_format,
            rules,
            choice.rule.name if choice is not None and choice.rule is not None else None,
            why,
            "" if choice is None else type(choice.handler).__name__,
            "" if choice is None else choice.mime_type,
            "" if choice is None else choice.config,
            "" if choice is None else self._named_by(choice),
            findings,
            error,
            kind.value,
            None if copy is None else str(copy),
            objects,
        )

    def _finding(self, bo: BusinessObject) -> ObjectFinding:
        findings = []
        for subscription in self._task_settings.subscriptions:
            verbs = "" if subscription.verbs is None else f".{'|'.join(subscription.verbs)}"
            wants = subscription.wants(bo.type, bo.verb or "")
            reason = "" if wants else f"wants {subscription.object}{verbs}"
            findings.append(SubscriptionFinding(subscription.name, wants, reason))
        return ObjectFinding(bo.type, bo.verb, masked(bo), tuple(findings))

    def _named_by(self, choice: Choice) -> str:
        if choice.rule is None or not any(choice.rule.properties.get(key) for key in HANDLER_KEYS):
            return "the connector"
        rules = self._task_settings.rules
        defaults = {} if rules is None else rules.defaults
        if all(choice.rule.properties.get(key) == defaults.get(key) for key in HANDLER_KEYS):
            return "Default"
        return f"the rule {choice.rule.name}"


def _why(matching: Sequence[Rule], name: str) -> str:
    if len(matching) == 1:
        return f"only the rule {matching[0].name} counts"
    if not matching:
        return f"no rule of {name} matches, so the default data handler decides"
    names = ", ".join(rule.name for rule in matching)
    return f"several rules match ({names}), which is as if none did, so the default data handler decides"
