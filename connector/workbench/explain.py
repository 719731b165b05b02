"""Explains a message: the rule, the data handler, the objects, the subscriptions. Publishes nothing."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, cast

from connector.businessobjects.dump import masked_values
from connector.businessobjects.instance import BusinessObject
from connector.businessobjects.rule_conditions import SeenMessage
from connector.businessobjects.rules import HANDLER_KEYS, StaticMetaObject, message_format
from connector.errors import ConfigurationError, MalformedData, ObjectRefused, UnknownBusinessObject
from connector.events.outcome import history
from connector.events.run.convert import Choice, Converter
from connector.events.run.event_keys import body_key, object_keys
from connector.events.run.publication import NOT_MAPPED, conditions_of, mapper_of, unwanted_text
from connector.events.run.task_settings import TaskSettings
from connector.formats.datahandler import COMMON_OPTIONS, HandlerFailed, OptionValue, resolve_options
from connector.formats.handlers import normal_mime_type
from connector.limits.call import ConversionEnded, call_limited
from connector.limits.stages import is_interrupt
from connector.log import AT_WORK
from connector.messaging.destination import Destination, known_destination
from connector.messaging.duplicate_key import BODY, has_value_key
from connector.messaging.history import HOPS, check_hops, hops_of
from connector.messaging.input import Input
from connector.messaging.message import CONTENT_TYPE, Message
from connector.operate.own_history import APPLICATION
from connector.sinks.contract import Event, PreparedSink, SinkContext
from connector.sinks.subscriptions import Subscription
from connector.status import OutcomeKind
from connector.text.gzip_body import packed_limit
from connector.tracebacks import UserCode, error_text


@dataclass(frozen=True, slots=True)
class RuleFinding:
    """A rule beside a message.

    Args:
        name, id: of the rule. The id is unique.
        matches: whether all match keys fit.
        reasons: why not, match key by match key.
        priority: ``rule_priority``.
    """

    name: str
    id: str
    matches: bool
    reasons: tuple[str, ...]
    priority: int = 0


@dataclass(frozen=True, slots=True)
class SubscriptionFinding:
    """A subscription beside an object.

    Args:
        reason: why the subscription does not get the object, or why its message cannot be made. Empty when
            the subscription gets the object.
        confirmed: whether the subscription has confirmed the object in an earlier stay in the queue. Then the
            subscription does not get the object again.
        sends_to: the destination that the subscription sends a message to. None = it calls or writes.
        sent: that message. None = there is none.
        refused: whether its ``when`` says no.
        map: the name of the map that makes the object of the subscription. None = it gets that of the event.
        mapped: that object.
    """

    name: str
    wants: bool
    reason: str = ""
    confirmed: bool = False
    sends_to: str | None = None
    sent: Message | None = field(default=None, repr=False)
    refused: bool = False
    map: str | None = None
    mapped: BusinessObject | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class ObjectFinding:
    """An object of the message.

    Args:
        subscriptions: all subscriptions of the deployment, in their order.
        has_secret: whether a Ciphertext of the object is set. ``values`` masks it, the messages that are sent
            contain it.
    """

    object: str
    verb: str | None
    values: dict[str, Any]
    subscriptions: tuple[SubscriptionFinding, ...]
    has_secret: bool = False

    @property
    def subscribers(self) -> tuple[str, ...]:
        return tuple(one.name for one in self.subscriptions if one.wants)


@dataclass(frozen=True, slots=True)
class Explanation:
    """The way of a message through the adapter, before any process is called.

    Args:
        message_format: the format that rules see, or None.
        rules: every rule of the static meta-object.
        rule: the id of the rule that dictates the object, or None.
        why: why this rule counts, or why none does.
        data_handler, mime_type, config: class, MIME type and data-handler meta-object. Empty = not found.
        named_by: what names the data handler: a rule, ``Default``, the input, the connector or a property.
        options: of the data handler, as configured or by default.
        objects: the business objects. Several for a body that is split.
        reason: why the message is unsubscribed or has failed, as the copy has it. Empty = neither.
        outcome: ``published`` if every subscriber confirms, else ``unsubscribed`` or ``failed``.
        settled: the destination of the copy. None = no copy is kept.
        duplicate_key: the key of the message by values, those of several objects joined. Empty = none.
        business_objects: the objects themselves.
    """

    message_id: str | None
    destination: str
    message_format: str | None
    rules: tuple[RuleFinding, ...] = ()
    rule: str | None = None
    why: str = ""
    data_handler: str = ""
    mime_type: str = ""
    config: str = ""
    named_by: str = ""
    options: dict[str, OptionValue] = field(default_factory=dict)
    objects: tuple[ObjectFinding, ...] = ()
    reason: str = ""
    outcome: str = ""
    settled: str | None = None
    duplicate_key: str = ""
    business_objects: tuple[BusinessObject, ...] = field(default=(), repr=False, compare=False)


def _no_input(destination: Destination, message: Message) -> None:
    """Returns None: there are no inputs."""


class Explainer:
    """Explains messages as the tasks of a deployment would process them.

    Args:
        prepared: the names of the subscriptions with a prepared sink. Their messages are made, and not sent.
        input_of: returns the input of a destination that would take a message. None = there are no inputs.

    Raises:
        ConfigurationError: a data handler cannot be made.
    """

    def __init__(
        self,
        task_settings: TaskSettings,
        deployment: str,
        prepared: Collection[str] = (),
        input_of: Callable[[Destination, Message], Input | None] = _no_input,
    ) -> None:
        self._task_settings = task_settings
        self._copies = task_settings.connector.copies
        self._deployment = deployment
        self._input_of = input_of
        self._converter = Converter(task_settings, deployment)
        self._conditions = conditions_of(task_settings.subscriptions)
        use_defaults = task_settings.connector.use_defaults
        self._mapper = mapper_of(task_settings.subscriptions, use_defaults=use_defaults)
        self._sinks = {
            one.name: self._open(one) for one in task_settings.subscriptions if one.name in prepared
        }

    def _open(self, subscription: Subscription) -> PreparedSink:
        settings = self._task_settings
        context = SinkContext(
            subscription.name,
            self._deployment,
            writer=lambda mime_type: self._converter.handler(mime_type).to_body,
            properties=lambda *of: {} if settings.rules is None else settings.rules.properties(*of),
            format_property=settings.connector.message_format_property,
            persistent=settings.persistent,
            definitions=settings.definitions,
            application=settings.connector.application_name,
            instance=settings.instance,
        )
        return cast(PreparedSink, subscription.sink.open(context))

    def explain(self, message: Message, destination: str) -> Explanation:
        """Returns the way of a message that is taken from ``destination``.

        A child process converts the message, under the limits of the adapter.
        """
        settings = self._task_settings
        history_of, lies_in = settings.own, message.destination or destination
        message = message.copy(message.body)
        if history_of.counts(message, lies_in):
            # it counts where the message goes back to
            message.set_property(APPLICATION, history_of.application)
        message.destination = destination
        earlier, _ = history(message, history_of, destination)
        message.delivery_count = max(message.delivery_count, earlier + 1)
        named = self._input_of(known_destination(destination), message)
        own = settings.by_input.get(named) if named is not None else None
        connector = settings.connector if own is None else own
        explain = partial(self._explain, message, destination, None if own is None else named)
        try:
            return call_limited(explain, connector.convert_timeout, connector.worker_memory)
        except ConversionEnded as ended:
            copy = self._copies.of(OutcomeKind.FAILED, named)
            return Explanation(
                message.message_id,
                destination,
                message_format(message, settings.connector.message_format_property),
                why="the conversion did not come to its end",
                reason=str(ended),
                outcome=OutcomeKind.FAILED,
                settled=None if copy is None else str(copy),
            )

    def _explain(self, message: Message, destination: str, named: Input | None) -> Explanation:
        AT_WORK.set({"message_id": message.message_id, "destination": destination})
        settings = self._task_settings
        found_format = message_format(message, settings.connector.message_format_property)
        where = known_destination(destination)
        rules: tuple[RuleFinding, ...] = ()
        why = "the connector has no ConfigurationMetaObject"
        if settings.rules is not None:
            seen = SeenMessage(message)
            rules = tuple(
                RuleFinding(rule.name, rule.id, not reasons, tuple(reasons), rule.rule_priority)
                for rule in settings.rules.rules
                for reasons in [rule.mismatches(found_format, where, seen)]
            )
            why = _why(settings.rules, found_format, where, message)
        choice, objects, kind, reason = self._convert(message, destination, named)
        is_split = choice is not None and getattr(choice.handler, "splits", False)
        findings = tuple(self._findings(objects, message, is_split=is_split))
        key = ""
        if findings and not reason:
            kind, reason = _outcome(findings, is_split=is_split)
            try:
                key = self._duplicate_key(message, named, objects, findings, is_split=is_split)
            except MalformedData as problem:
                kind, reason = OutcomeKind.FAILED, str(problem)
        copy = self._copies.of(kind, named)
        return Explanation(
            message.message_id,
            destination,
            found_format,
            rules,
            choice.rule.id if choice is not None and choice.rule is not None else None,
            why,
            "" if choice is None else type(choice.handler).__name__,
            "" if choice is None else choice.mime_type,
            "" if choice is None else choice.config,
            "" if choice is None else self._naming_part(choice, named, message),
            {} if choice is None else self._options(choice),
            findings,
            reason,
            kind,
            None if copy is None else str(copy),
            key,
            tuple(objects),
        )

    def _duplicate_key(
        self,
        message: Message,
        named: Input | None,
        objects: Sequence[BusinessObject],
        findings: Sequence[ObjectFinding],
        *,
        is_split: bool,
    ) -> str:
        """Returns the text of the duplicate key by values.

        Raises:
            MalformedData: an object lacks a value of it.
        """
        connector = self._task_settings.connector if named is None else self._task_settings.by_input[named]
        template = connector.duplicate_key or ""
        if not has_value_key(template):
            return ""
        if template == BODY:
            return body_key(self._converter.body_of(message, connector)).text
        wanted = [
            (bo, f"record {number}: " if is_split else "") if finding.subscribers else None
            for number, (bo, finding) in enumerate(zip(objects, findings, strict=True), 1)
        ]
        return ", ".join([one.text for one in object_keys(template, wanted) if one.digest])

    def _convert(
        self, message: Message, destination: str, named: Input | None
    ) -> tuple[Choice | None, Sequence[BusinessObject], OutcomeKind, str]:
        """Returns the data handler, the objects, and the outcome and reason of a message without objects."""
        choice: Choice | None = None
        settings = self._task_settings
        connector = settings.connector if named is None else settings.by_input[named]
        limit = connector.max_body if connector.unpack == "none" else packed_limit(connector.max_body)
        try:
            check_hops(message, settings.connector.max_hops)
            choice = self._converter.choice(message, destination, named)
            if len(message.body) > limit:
                raise MalformedData(
                    f"the body has {len(message.body)} bytes, more than max_body ({limit} bytes)"
                )
            objects = self._converter.convert(message, destination, named)
        except ConfigurationError as problem:
            return choice, (), OutcomeKind.FAILED, problem.problems[0].mistake
        except MalformedData as problem:
            is_unknown = isinstance(problem, UnknownBusinessObject)
            place = problem.place(self._deployment) if isinstance(problem, HandlerFailed) else ""
            kind = OutcomeKind.UNSUBSCRIBED if is_unknown else OutcomeKind.FAILED
            return choice, (), kind, f"{problem}{place}"
        is_split = getattr(choice.handler, "splits", False)
        try:
            for record, bo in enumerate(objects, 1):
                number = record if is_split else 0
                self._map(bo, self._choose(bo, self._task_settings.subscriptions, number)[0], number)
        except MalformedData as problem:
            return choice, objects, OutcomeKind.FAILED, str(problem)
        return choice, objects, OutcomeKind.FAILED, ""

    def _choose(
        self, bo: BusinessObject, subscriptions: Sequence[Subscription], record: int = 0
    ) -> tuple[Sequence[Subscription], Sequence[str]]:
        """Returns the subscribers of an object, and the names of those whose ``when`` says no."""
        subscribers = [one for one in subscriptions if one.wants(bo.type, bo.verb or "")]
        return (
            (subscribers, ())
            if self._conditions is None
            else self._conditions.choose(bo, subscribers, record)
        )

    def _map(
        self, bo: BusinessObject, subscribers: Sequence[Subscription], record: int = 0
    ) -> Mapping[str, BusinessObject]:
        """Returns the objects that maps make for subscribers, by their names."""
        return NOT_MAPPED if self._mapper is None else self._mapper.make(bo, subscribers, record)

    def _findings(
        self, objects: Sequence[BusinessObject], message: Message, *, is_split: bool
    ) -> Iterator[ObjectFinding]:
        own = self._task_settings.own
        confirmed = frozenset(history(message, own, message.destination or "")[1])
        for number, bo in enumerate(objects, 1):
            event = Event(
                bo.object_event_id or "", message.destination or "", message.delivery_count, message
            )
            subscriptions = []
            for subscription in self._task_settings.subscriptions:
                label = f"{subscription.name}#{number}" if is_split else subscription.name
                subscriptions.append(self._finding(subscription, bo, event, label in confirmed))
            values = masked_values(bo)
            mapped = [one.mapped for one in subscriptions if one.mapped is not None]
            has_secret = any(masked_values(one) != one.as_dict() for one in (bo, *mapped))
            yield ObjectFinding(bo.type, bo.verb, values, tuple(subscriptions), has_secret)

    def _finding(
        self, subscription: Subscription, bo: BusinessObject, event: Event, confirmed: bool
    ) -> SubscriptionFinding:
        name = subscription.name
        sink = self._sinks.get(name)
        sends_to = None if sink is None or sink.destination is None else str(sink.destination)
        if not subscription.wants(bo.type, bo.verb or ""):
            verbs = "" if subscription.verbs is None else f".{'|'.join(subscription.verbs)}"
            return SubscriptionFinding(name, False, f"wants {subscription.object}{verbs}", sends_to=sends_to)
        try:
            _, refused_by = self._choose(bo, [subscription])
        except MalformedData as error:
            return SubscriptionFinding(name, True, str(error).removeprefix(f"{name}: "), sends_to=sends_to)
        if refused_by and subscription.when is not None:
            reason = f"its when says no: {subscription.when.text}"
            return SubscriptionFinding(name, False, reason, sends_to=sends_to, refused=True)
        if confirmed:
            return SubscriptionFinding(name, True, "has confirmed already", True, sends_to)
        mapped = None
        if subscription.map is not None:
            try:
                mapped = self._map(bo, [subscription])[name]
            except MalformedData as error:
                reason = str(error).removeprefix(f"{name}: ")
                return SubscriptionFinding(name, True, reason, sends_to=sends_to)
        if mapped is None or subscription.map is None:
            return self._send(name, bo, event, sink)
        found = self._send(name, mapped, replace(event, mapped_from=bo), sink)
        return replace(found, map=subscription.map.name, mapped=mapped)

    def _send(
        self, name: str, bo: BusinessObject, event: Event, sink: PreparedSink | None
    ) -> SubscriptionFinding:
        """Returns a subscription that gets an object, with the message that it sends."""
        if sink is None:
            return SubscriptionFinding(name, True)
        sends_to = str(sink.destination)
        try:
            sent = sink.prepare(bo, event)
            sent.set_property(HOPS, hops_of(event.message) + 1, "int")
            sent.check()
            if sink.destination is None:
                sends_to = str(known_destination(sent.destination or ""))
        except BaseException as error:  # a sink or a data handler may raise any exception
            if is_interrupt(error):
                raise
            return SubscriptionFinding(
                name, True, f"{error_text(error)}{self._place(error, sink)}", sends_to=sends_to
            )
        return SubscriptionFinding(name, True, sends_to=sends_to, sent=sent)

    def _place(self, error: BaseException, sink: PreparedSink) -> str:
        """Returns the place of an exception in user code, `` (FILE:LINE)``, or empty."""
        if isinstance(error, HandlerFailed):
            return error.place(self._deployment)
        if isinstance(error, MalformedData | ObjectRefused | ValueError):
            return ""
        place = UserCode(self._deployment, sink).place(error)
        return f" ({place})" if place else ""

    def _options(self, choice: Choice) -> dict[str, OptionValue]:
        """Returns the options of a data handler. Of the common options only those that are configured."""
        keys = (choice.mime_type, normal_mime_type(choice.mime_type))
        spec = next(
            one
            for one in self._task_settings.handlers
            if one.mime_type in keys and one.config == choice.config
        )
        declared = getattr(type(choice.handler), "options", ())
        options = resolve_options(declared, spec.options, spec.reference, Path(self._deployment))
        own = {option.name for option in declared} | spec.options.keys()
        common = {option.name for option in COMMON_OPTIONS}
        return {name: value for name, value in options.items() if name in own or name not in common}

    def _naming_part(self, choice: Choice, named: Input | None, message: Message) -> str:
        named_type = message.properties.get(CONTENT_TYPE)
        if named_type is not None and choice.mime_type == normal_mime_type(str(named_type)):
            return f"the property {CONTENT_TYPE}"
        if choice.rule is None or not any(choice.rule.handler.get(key) for key in HANDLER_KEYS):
            own = None if named is None else self._task_settings.by_input[named].default_handler
            is_own = own is not None and own != self._task_settings.connector.default_handler
            return "the input" if is_own else "the connector"
        return f"the rule {choice.rule.id}" if choice.rule.names_handler else "Default"


def _why(rules: StaticMetaObject, found_format: str | None, where: Destination, message: Message) -> str:
    name = rules.name
    try:
        matching = rules.match(found_format, where, message)
    except MalformedData:
        return "a rule cannot be evaluated for the message"
    if len(matching) == 1:
        return f"only the rule {matching[0].id} counts"
    if not matching:
        return f"no rule of {name} matches, so the default data handler decides"
    names = ", ".join(rule.id for rule in matching)
    return f"several rules match ({names}), which is as if none did, so the default data handler decides"


def _outcome(findings: Sequence[ObjectFinding], *, is_split: bool) -> tuple[OutcomeKind, str]:
    """Returns the outcome of objects, if every process confirms, and the reason that the copy has."""
    failures, unwanted = [], []
    for number, one in enumerate(findings, 1):
        place = f"record {number}: " if is_split else ""
        failures += [
            f"{place}{subscription.name}: {subscription.reason}"
            for subscription in one.subscriptions
            if subscription.wants and subscription.reason and not subscription.confirmed
        ]
        if not one.subscribers:
            refused_by = [found.name for found in one.subscriptions if found.refused]
            unwanted.append(f"{place}{unwanted_text(one.object, one.verb, refused_by)}")
    if failures:
        return OutcomeKind.FAILED, "; ".join(failures)
    kind = OutcomeKind.UNSUBSCRIBED if len(unwanted) == len(findings) else OutcomeKind.PUBLISHED
    return kind, "; ".join(dict.fromkeys(unwanted))
