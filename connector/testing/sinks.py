"""The suites that every sink passes.

Subclass the suite for the kind of the sink in a test module. Define the entry of a subscription, and for an
external sink also the delivered texts::

    class TestAppend(ExternalSinkSuite):
        key = "append"
        entry = "{append: ./notes.jsonl}"

        def arrived(self, deployment):
            lines = (deployment.directory / "notes.jsonl").read_text().splitlines()
            return [json.loads(line)["object"]["Text"] for line in lines]

The package of the sink must be installed, so that its entry point is found. A sink that needs a directory
or a server makes it in ``prepare``, which may return another entry, and ends it in ``end``.

Every test checks one sentence of :mod:`connector.sinks.contract` or
:mod:`connector.sinks.subscription_model`. The suites need pytest: ``pip install 'event-connector[dev]'``.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest

from connector.businessobjects.instance import BusinessObject
from connector.businessobjects.rules import JMS_TYPE
from connector.config.loading import check
from connector.config.reference import reference
from connector.config.resolved import as_document, as_yaml
from connector.config.schema import json_schema
from connector.config.sinks import SINKS
from connector.declare.reading import field_names
from connector.messaging.message import Message
from connector.sinks.contract import Event, ExternalSink, PreparedSink, SinkContext, ToBody
from connector.sinks.subscription_model import CommonEntry, ExternalEntry, PreparedEntry, SinkEntry
from connector.testing.datahandlers import sample_definitions
from connector.testing.deployment import Deployment

_ADAPTER = """\
provider: {{type: dropbox, root: ./data, create: true, durability: none}}
connector:
  ApplicationName: suite
  InputDestination: queue://in
  ArchiveDestination: queue://archive
  ErrorDestination: queue://error
  UnsubscribedDestination: queue://unsubscribed
  DataHandlerMimeType: application/json
subscriptions:
  - {entry}
metaobjects: ./metaobjects
"""

_OBJECTS = """\
business_object: Note
verbs: {Create: , Update: }
attributes: {Text: {type: LongText, key: true}}
"""


def sample_object(text: str = "one") -> BusinessObject:
    """Returns a ``Note`` with a ``Text``."""
    return BusinessObject(sample_definitions(), "Note", "Create", {"Text": text})


def sample_event(message: Message | None = None, *, delivery_count: int = 1, identity: str = "ID:1") -> Event:
    """Returns the event that a sink gets for a message.

    Args:
        identity: the id of the event. Each event has its own.
    """
    return Event(identity, "queue://in", delivery_count, message or Message(message_id=identity), "suite")


def _writes_json(mime_type: str | None) -> ToBody:
    return lambda bo: json.dumps(bo.as_dict())


def sample_context(
    deployment: str | Path = ".",
    *,
    writer: Callable[[str | None], ToBody] = _writes_json,
    properties: Callable[[str, str], Mapping[str, str]] = lambda name, verb: {},
    persistent: bool = True,
) -> SinkContext:
    """Returns the context in which a worker opens a sink, with the arguments of :class:`SinkContext`."""
    return SinkContext("suite", str(deployment), writer, properties, JMS_TYPE, persistent)


class _SinkSuite:
    """The tests for both kinds of sink."""

    key: ClassVar[str]
    """The key of the sink: the name of the entry point."""
    entry: ClassVar[str]
    """The entry of a subscription without ``object``, as a YAML mapping in braces."""
    files: ClassVar[Mapping[str, str]] = {}
    """More files of the deployment: their texts by name."""
    base: ClassVar[type[SinkEntry]]
    kind: ClassVar[str]

    def prepare(self, directory: Path) -> str | None:
        """Called before each test that has a deployment: makes what the sink needs, such as a server.

        Args:
            directory: of the deployment, which is empty.

        Returns:
            the entry, if it depends on what was made. None = :attr:`entry`.
        """
        return None

    def end(self) -> None:
        """Called after each test for which :meth:`prepare` was called, also if the test has failed."""

    _is_prepared = False

    @pytest.fixture(autouse=True)
    def _end_what_is_prepared(self) -> Iterator[None]:
        yield
        if self._is_prepared:
            self.end()

    @pytest.fixture
    def deployment(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Deployment:
        """A deployment with one subscription, which uses this sink. Also the working directory."""
        monkeypatch.chdir(tmp_path)
        self._is_prepared = True
        entry = self.prepare(tmp_path) or self.entry
        entry = f"{{object: Note, {entry.strip().removeprefix('{')}"
        deployment = Deployment(tmp_path, adapter=_ADAPTER.format(entry=entry), metaobjects=_OBJECTS)
        for name, text in self.files.items():
            deployment.write(name, text)
        return deployment

    @pytest.fixture
    def open_sink(self, deployment: Deployment) -> Callable[[], Any]:
        """Opens a sink as a worker does, from a pickled spec."""
        (entry,) = deployment.configuration.subscriptions
        spec = pickle.dumps(entry.sink())

        def open_sink() -> Any:
            sink = pickle.loads(spec).open(sample_context(deployment.directory))
            assert sink.kind == self.kind
            return sink

        return open_sink

    # --- the entry ----------------------------------------------------------------------------

    def test_an_entry_point_has_the_key_and_names_the_entry(self, deployment: Deployment) -> None:
        (entry,) = deployment.configuration.subscriptions
        assert type(entry) is SINKS.load(self.key)
        assert isinstance(entry, self.base)

    def test_check_finds_no_mistake_in_the_entry(self, deployment: Deployment) -> None:
        assert check("adapter.yaml") == []

    def test_the_key_of_the_sink_means_nothing_in_the_entry_of_another(self) -> None:
        others: list[type[CommonEntry]] = [CommonEntry]
        others += [entry for key, entry in SINKS.all() if key != self.key]
        assert [entry for entry in others if self.key in field_names(entry, ())] == []

    def test_schema_and_reference_describe_each_key(self) -> None:
        entry = SINKS.load(self.key)
        described = json_schema()["$defs"][entry.__name__]["properties"]
        text = reference()
        for key in field_names(entry, ()):
            assert described[key]["description"]
            assert f"\n| `{key}` |" in text
        assert f"\n#### `{self.key}`\n" in text

    def test_the_resolved_configuration_has_the_same_entry(self, deployment: Deployment) -> None:
        first = deployment.configuration
        deployment.write("adapter.yaml", as_yaml(as_document(first)))
        assert deployment.configuration.subscriptions == first.subscriptions

    def test_the_default_name_does_not_depend_on_the_directory(self, deployment: Deployment) -> None:
        (entry,) = deployment.configuration.subscriptions
        assert entry.target()
        assert str(deployment.directory) not in entry.name

    # --- an event -----------------------------------------------------------------------------

    def publish(self, deployment: Deployment, *texts: str) -> None:
        """Processes one event for each text, in a separate worker."""
        for text in texts:
            deployment.drop("in", json.dumps({"BusinessObject": "Note", "Verb": "Create", "Text": text}))
        with deployment.running(isolated=True) as adapter:
            adapter.drain()
        failed = [message.properties.get("connector_reason") for message in deployment.messages("error")]
        assert failed == []
        assert len(deployment.messages("archive")) == len(texts)


class ExternalSinkSuite(_SinkSuite):
    """The tests of a sink that is called."""

    base = ExternalEntry
    kind = "external"

    def arrived(self, deployment: Deployment) -> Sequence[str]:
        """Returns the ``Text`` of each delivered Note, in the order of the deliveries."""
        raise NotImplementedError

    def test_events_that_are_published_have_arrived_once_and_in_their_order(
        self, deployment: Deployment
    ) -> None:
        self.publish(deployment, "one", "two", "Käse\n")
        assert list(self.arrived(deployment)) == ["one", "two", "Käse\n"]

    def test_what_was_delivered_has_arrived_when_deliver_returns(
        self, deployment: Deployment, open_sink: Callable[[], ExternalSink]
    ) -> None:
        sink = open_sink()
        sink.deliver(sample_object(), sample_event())
        assert list(self.arrived(deployment)) == ["one"]
        sink.close()

    def test_a_delivery_leaves_the_object_as_it_was(self, open_sink: Callable[[], ExternalSink]) -> None:
        bo, sink = sample_object(), open_sink()
        sink.deliver(bo, sample_event())
        sink.close()
        assert bo == sample_object()

    def test_an_event_that_comes_again_is_no_failure(
        self, deployment: Deployment, open_sink: Callable[[], ExternalSink]
    ) -> None:
        sink = open_sink()
        sink.deliver(sample_object(), sample_event())
        sink.deliver(sample_object(), sample_event(delivery_count=2))
        sink.close()
        assert set(self.arrived(deployment)) == {"one"}

    def test_sinks_of_several_workers_deliver_side_by_side(
        self, deployment: Deployment, open_sink: Callable[[], ExternalSink]
    ) -> None:
        first, second = open_sink(), open_sink()
        first.deliver(sample_object("one"), sample_event(identity="ID:1"))
        second.deliver(sample_object("two"), sample_event(identity="ID:2"))
        first.close()
        second.deliver(sample_object("three"), sample_event(identity="ID:3"))
        second.close()
        assert list(self.arrived(deployment)) == ["one", "two", "three"]

    def test_a_sink_is_closed_as_often_as_one_likes_used_or_not(
        self, open_sink: Callable[[], ExternalSink]
    ) -> None:
        used, unused = open_sink(), open_sink()
        used.deliver(sample_object(), sample_event())
        for sink in (used, used, unused, unused):
            sink.close()


class PreparedSinkSuite(_SinkSuite):
    """The tests of a sink that makes a message."""

    base = PreparedEntry
    kind = "prepared"

    def queue(self, deployment: Deployment) -> str:
        """Returns the destination of the messages. Override it for a queue of the adapter's own."""
        (entry,) = deployment.configuration.subscriptions
        return str(entry.sends_to)

    def test_each_event_that_is_published_is_one_message(self, deployment: Deployment) -> None:
        self.publish(deployment, "one", "two", "three")
        assert len(deployment.messages(self.queue(deployment))) == 3

    def test_the_destination_is_the_one_that_the_entry_sends_to(
        self, deployment: Deployment, open_sink: Callable[[], PreparedSink]
    ) -> None:
        (entry,) = deployment.configuration.subscriptions
        assert entry.sends_to in (None, open_sink().destination)

    def test_a_message_is_one_that_a_provider_takes(self, open_sink: Callable[[], PreparedSink]) -> None:
        open_sink().prepare(sample_object(), sample_event()).check()

    def test_preparing_again_makes_the_same_message_and_changes_nothing(
        self, open_sink: Callable[[], PreparedSink]
    ) -> None:
        sink, bo, event = open_sink(), sample_object(), sample_event()
        assert sink.prepare(bo, event) == sink.prepare(bo, event)
        assert (bo, event) == (sample_object(), sample_event())

    def test_a_sink_is_closed_as_often_as_one_likes(self, open_sink: Callable[[], PreparedSink]) -> None:
        sink = open_sink()
        sink.prepare(sample_object(), sample_event())
        sink.close()
        sink.close()
