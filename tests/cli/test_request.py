"""`connector request`, and an application that answers in this process."""

from __future__ import annotations

import json
import os
import pty
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from connector.messaging.client import ReceivedMessage
from connector.requests.client import RequestClient
from connector.stores.dropbox.provider import DropboxProvider
from tests.cli.conftest import written
from tests.cli.in_process import Answer, call
from tests.forked_command import PipedProcess
from tests.requests.world import Answer as Reply
from tests.requests.world import Application, Replying
from tests.tables import rows
from tests.waiting import lets_wait, wait_for

ADAPTER = """\
provider: {type: dropbox, root: ./data, create: true}
connector:
  ApplicationName: asking
  ConfigurationMetaObject: MO_Config
  DataHandlerMimeType: application/json
metaobjects: ./metaobjects
"""
OBJECTS = """\
business_object: Customer
app_specific_info: cw_mo_conn=Meta
verbs: {Retrieve: , Create: }
attributes:
  CustomerId: {type: String, key: true, required: true}
  Name: String
  Meta: CustomerMeta
---
business_object: CustomerMeta
attributes: {MessageID: String, CorrelationID: String, OutputDestination: String}
---
static_metaobject: MO_Config
Default: {OutputDestination: queue://crm}
rules:
  Customer_Retrieve: {ResponseTimeout: 600000}
"""
ASKED = '{"CustomerId": "7"}'


class Asking:
    """A deployment that makes requests, and the queues under its root."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        written(directory, {"metaobjects/objects.yaml": OBJECTS, "adapter.yaml": ADAPTER})
        self.provider = DropboxProvider(directory / "data", create=True)
        self.applications: list[Application] = []

    def application(self, answer: Reply) -> Application:
        self.applications.append(Application(self.provider, answer, "queue://crm"))
        return self.applications[-1]

    def start(self, *arguments: str, stderr: int | None = None) -> PipedProcess:
        return PipedProcess("request", *arguments, cwd=self.directory, stderr=stderr)

    def ask(self, *arguments: str, data: str = ASKED) -> Answer:
        return call(self.directory, "request", *arguments, data=data)


@pytest.fixture
def asking(tmp_path: Path) -> Iterator[Asking]:
    made = Asking(tmp_path)
    yield made
    for application in made.applications:
        application.end()


def replying_with(result: str, body: object = None) -> Callable[[ReceivedMessage, Replying], None]:
    def reply(request: ReceivedMessage, replying: Replying) -> None:
        replying.reply(request, body, result)

    return reply


def test_what_the_application_answers_is_printed_as_the_object_and_the_status_is_said_beside(
    asking: Asking,
) -> None:
    application = asking.application(replying_with("VALCHANGE", {"CustomerId": "7", "Name": "Ærø"}))
    answered = asking.ask("Customer.Retrieve")
    assert answered.returncode == 0, answered.stderr
    customer = answered.document
    assert (customer["CustomerId"], customer["Name"]) == ("7", "Ærø")
    assert customer["Meta"]["CorrelationID"] == application.requests[0].message_id, "of the reply"
    assert answered.stdout.startswith('{\n  "CustomerId": "7",\n')
    assert answered.stderr == "Customer.Retrieve: VALCHANGE\n"
    assert json.loads(application.requests[0].body)["CustomerId"] == "7"


def test_what_the_application_refuses_ends_with_status_1_and_its_text(asking: Asking) -> None:
    asking.application(replying_with("BO_DOES_NOT_EXIST", b"nobody has the number 7\x1b[2J"))
    failure = asking.ask("Customer.Retrieve").failure()
    assert failure == "connector: BO_DOES_NOT_EXIST: nobody has the number 7\\x1b[2J\n"
    answered = asking.ask("Customer.Retrieve", "--json")
    refused = {"status": "BO_DOES_NOT_EXIST", "message": "nobody has the number 7\x1b[2J"}
    assert (answered.returncode, answered.document) == (1, {**refused, "object": {"CustomerId": "7"}})


def test_the_time_out_of_the_command_is_that_of_the_request(asking: Asking) -> None:
    failure = asking.ask("Customer.Retrieve", "--timeout", "100").failure()
    assert failure.startswith("connector: APPRESPONSETIMEOUT: ")
    assert "100 ms" in failure
    assert asking.ask("Customer.Retrieve", "--timeout", "-1").returncode == 0, "below 0 it does not wait"


def test_the_object_may_come_from_a_file_with_its_dynamic_metaobject_in_it(
    asking: Asking, tmp_path: Path
) -> None:
    application = asking.application(replying_with("SUCCESS"))
    document = {"CustomerId": "7", "Meta": {"CorrelationID": "c-1"}}
    (tmp_path / "customer.json").write_text(json.dumps(document))
    answered = asking.ask("Customer.Retrieve", "--data", str(tmp_path / "customer.json"), data="")
    assert (answered.returncode, answered.document) == (0, document)
    assert application.requests[0].correlation_id == "c-1"
    assert "Meta" not in json.loads(application.requests[0].body)


@rows(
    "line, data, expected",
    [
        ("Custmer.Retrieve", ASKED, "there is no business object 'Custmer', did you mean 'Customer'?"),
        ("Customer.Retrive", ASKED, "no verb 'Retrive', did you mean 'Retrieve'?; it has Retrieve, Create"),
        ("Customer", ASKED, "'Customer' is not OBJECT.VERB"),
        ("Customer.Retrieve", '{"Name": "7", "Name": "8"}', "stdin: the key 'Name' stands twice"),
        ("Customer.Retrieve", "[]", "expected a JSON object"),
        ("Customer.Retrieve", '{"CustomerId": 7}', "CustomerId: found the number 7, expected a text"),
        ("Customer.Retrieve", '{"CustomrId": "7"}', "did you mean 'CustomerId'?"),
        ("Customer.Retrieve --data nowhere", "", "--data nowhere: No such file"),
        ("Customer.Retrieve --timeout soon", "", "--timeout"),
    ],
)
def test_a_wrong_call_ends_with_status_2_says_why_and_sends_nothing(
    asking: Asking, line: str, data: str, expected: str
) -> None:
    assert expected in asking.ask(*line.split(), data=data).refusal()
    assert not (asking.directory / "data/crm").exists()


def test_a_wrong_configuration_ends_with_status_2_before_anything_is_read(asking: Asking) -> None:
    (asking.directory / "adapter.yaml").write_text(ADAPTER.replace("ApplicationName", "AplicationName"))
    refusal = asking.ask("Customer.Retrieve", data="{").refusal()
    assert "did you mean 'ApplicationName'?" in refusal
    assert "JSON" not in refusal


@pytest.mark.process
@pytest.mark.parametrize(
    ("number", "status", "options"), [(signal.SIGINT, 130, []), (signal.SIGTERM, 143, ["--json"])]
)
def test_a_signal_ends_the_wait_promptly_says_so_and_leaves_nothing_of_the_command_behind(
    asking: Asking, number: signal.Signals, status: int, options: list[str]
) -> None:
    process = asking.start("Customer.Retrieve", *options)
    process.stdin.write(ASKED)
    process.stdin.close()
    wait_for(lambda: list(asking.directory.glob("data/crm/incoming/target/*")), what="a request was sent")
    process.send_signal(number)
    output, errors = process.communicate()
    assert (process.returncode, output) == (status, "")
    assert errors == f"connector: Customer.Retrieve: given up by {number.name}; it may have been sent\n"
    assert os.listdir(asking.directory / "data/dropboxmq/clients") == []
    assert [path.name for path in (asking.directory / "data").iterdir() if "temporary" in path.name] == []


@pytest.mark.process
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_the_command_starts_or_reads_its_object_is_said_and_nothing_is_sent(
    asking: Asking, number: signal.Signals
) -> None:
    with asking.start("Customer.Retrieve") as process:  # nobody writes the object
        wait_for(lambda: lets_wait(process.pid, number))
        process.send_signal(number)
        assert process.wait(120) == 128 + number
        said = f"connector: Customer.Retrieve: given up by {number.name}; nothing was sent\n"
        assert process.communicate() == ("", said)
    assert not (asking.directory / "data/crm").exists()


def test_a_second_signal_ends_the_command_at_once_and_says_so(
    asking: Asking, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The first one lets the client stop, which here does not end by itself."""

    class Ends(BaseException):
        pass

    def end(status: int) -> None:
        raise Ends(status)

    def stop(client: RequestClient, *_: float) -> None:
        try:
            signal.raise_signal(signal.SIGTERM)
        finally:
            monkeypatch.undo()
            client.stop()

    monkeypatch.setattr(os, "_exit", end)
    monkeypatch.setattr(RequestClient, "stop", stop)
    main = threading.main_thread().ident
    assert main is not None
    asking.application(lambda *_: signal.pthread_kill(main, signal.SIGINT))
    with pytest.raises(Ends, match="143"):
        asking.ask("Customer.Retrieve")
    said = "connector: Customer.Retrieve: given up by SIGTERM; it may have been sent\n"
    assert capfd.readouterr().err == said


@pytest.mark.process
def test_who_waits_at_a_terminal_is_told_what_for_after_a_second(asking: Asking) -> None:
    ours, terminal = pty.openpty()
    with asking.start("Customer.Retrieve", stderr=terminal) as process:
        os.close(terminal)
        process.stdin.write(ASKED)
        process.stdin.close()
        said = b""
        while b"gives up" not in said:
            said += os.read(ours, 4096)
        assert said.startswith(b"Customer.Retrieve: waiting for the reply; Ctrl-C gives up")
        process.send_signal(signal.SIGINT)
        assert process.wait(120) == 130
    os.close(ours)


def test_a_provider_that_is_out_of_reach_is_an_answer_and_no_traceback(asking: Asking) -> None:
    (asking.directory / "adapter.yaml").write_text(ADAPTER.replace(", create: true", ""))
    answered = asking.ask("Customer.Retrieve", "--json")
    assert answered.returncode == 1
    document = answered.document
    assert document["status"] == "APPRESPONSETIMEOUT"
    assert str(asking.directory / "data") in document["message"]
    assert "Traceback" not in answered.stderr


@pytest.mark.process
def test_a_wrong_name_is_said_before_a_body_is_read(asking: Asking) -> None:
    expected = "connector: 'Customer' is not OBJECT.VERB, such as Customer.Retrieve\n"
    with asking.start("Customer") as process:  # nobody writes, and the pipe stays open
        assert process.wait(120) == 2
        assert process.communicate()[1] == expected
    assert asking.ask("Customer", "--data", "no-such-file").refusal() == expected
