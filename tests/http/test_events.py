"""Messages that come over HTTP: each is durable before its answer, and a key makes one of it."""

from __future__ import annotations

import gzip
import hashlib
import hmac
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, given
from hypothesis import settings as effort
from schemathesis.core.result import Ok

from connector.config.events_model import EventEntry, Signature
from connector.config.http_model import READ, REQUEST, SEND
from connector.errors import UnknownDestination
from connector.http.calls import ServerLimits
from connector.http.event_sender import EventSender
from connector.http.server import Server
from connector.messaging.destination import parse_destination
from connector.messaging.message import Message
from connector.service.observer import Observer
from connector.testing.deployment import Deployment, InProcessAdapter
from tests.http.shop import ADAPTER, BOSS, OBJECTS, deploy, named
from tests.http.test_console import signed_in
from tests.http.world import PATIENCE, client, connect, read_all, settings
from tests.tables import rows
from tests.waiting import beside, wait_for

SUE, TOM, ANN = ("sender-0123456789", "another-sender-01", "reader-0123456789")
SECRET: Final = "a secret that is long enough"
TOKENS: Final = (named(SUE, "sue", SEND), named(TOM, "tom", SEND), named(ANN, "ann", READ))
MEMORY: Final = ADAPTER.replace(
    ADAPTER.partition("\n")[0], "provider: {type: memory}\nstate: {directory: ./state}"
)
ORDER: Final = b'{"Id": "7"}'
TEXT_XML: Final = b"<Order><Id>7</Id></Order>"
BYTES: Final = bytes(range(256))
PARENT: Final = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
SMALL: Final = MEMORY.replace("[queue://orders]", "[{destination: queue://orders, max_body: 1000}]")
HEAD: Final = (
    b"POST /events/orders HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    b"Authorization: Bearer " + SUE.encode() + b"\r\n"
)
LATIN: Final = """\
datahandler_metaobject: MO_DataHandler_Default
handlers:
  text/csv: {charset: ISO-8859-1}
"""
OWN: Final = """\
from connector.datahandlers.json_handler import JsonHandler


class Own(JsonHandler):
    pass
"""


def entry(queue: str, secret: str = "") -> EventEntry:
    """An entry of ``http.events``."""
    signature = Signature.model_construct(header="X-Hub-Signature-256", secret=secret) if secret else None
    return EventEntry.model_construct(destination=parse_destination(queue), signature=signature)


EVENTS: Final = (entry("queue://orders"), entry("queue://notes"), entry("queue://hooks", SECRET))


class Shop:
    """An adapter that does not poll, and its server.

    Args:
        adapter: not started.
    """

    def __init__(self, deployment: Deployment, adapter: InProcessAdapter, server: Server) -> None:
        self.deployment = deployment
        self.adapter = adapter
        self.server = server

    def post(
        self,
        body: bytes | Iterator[bytes] = ORDER,
        *,
        queue: str = "orders",
        token: str | None = SUE,
        key: str = "",
        type: str = "application/json",
        **headers: Any,
    ) -> httpx.Response:
        """Calls ``POST /events/QUEUE``. Underscores in names of headers are hyphens."""
        more = {name.replace("_", "-"): value for name, value in headers.items()}
        given = {"Content-Type": type, "Idempotency-Key": key}
        with client(self.server, token) as http:
            return http.post(
                f"/events/{queue}",
                content=body,
                headers={**{name: one for name, one in given.items() if one}, **more},
            )

    def messages(self, queue: str = "orders") -> list[Message]:
        """What waits in a queue, if there is one."""
        with closing(self.adapter.provider.connect()) as connection, suppress(UnknownDestination):
            return list(connection.browse(parse_destination(f"queue://{queue}")))
        return []


@contextmanager
def shop(
    directory: Path,
    text: str = MEMORY,
    *,
    limits: ServerLimits | None = None,
    objects: str = "",
    **changes: Any,
) -> Iterator[Shop]:
    """A server of an adapter that does not run, so that messages stay where they are."""
    deployment = deploy(directory, text)
    if objects:
        deployment.write("metaobjects/objects.yaml", objects)
    adapter = InProcessAdapter(deployment.configuration)
    definitions = deployment.configuration.metaobjects.definitions
    section = settings(**{"tokens": TOKENS, "events": EVENTS, **changes})
    observer = Observer(adapter)
    server = Server(
        section, adapter.requests, definitions, limits=limits or ServerLimits(), observer=observer
    )
    server.start()
    try:
        yield Shop(deployment, adapter, server)
    finally:
        server.stop()
        adapter.stop()


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Shop]:
    """A server with the provider memory."""
    with shop(tmp_path) as made:
        yield made


def test_a_body_becomes_a_message_with_its_mime_type_and_properties(here: Shop) -> None:
    answer = here.post(
        type='application/json; charset="UTF-8"', X_Connector_Property_Region="EU", traceparent=PARENT
    )
    assert (answer.status_code, list(answer.json())) == (202, ["id"])
    (message,) = here.messages()
    assert (message.message_id, message.body, message.message_class) == (answer.json()["id"], ORDER, "T")
    expected = {"region": "EU", "traceparent": PARENT, "connector_content_type": "application/json"}
    assert message.properties == expected


@rows(
    "type, body, kind",
    [
        ("text/csv", b"Id\n7\n", "T"),
        ("text/csv", "ü".encode("latin-1"), "B"),
        ("application/soap+xml", TEXT_XML, "T"),
        ("application/octet-stream", ORDER, "B"),
        ("text/plain", b"", "T"),
    ],
)
def test_a_text_is_a_text_message_and_the_rest_are_bytes(
    here: Shop, type: str, body: bytes, kind: str
) -> None:
    identity = here.post(body, queue="notes", type=type).json()["id"]
    (message,) = [one for one in here.messages("notes") if one.message_id == identity]
    assert (message.message_class, message.body) == (kind, body)


# -- who may send --------------------------------------------------------------------------------------


@rows(
    "queue, token, status, words",
    [
        ("orders", None, 401, "needs a token"),
        ("orders", "wrong-token-0123", 401, "not one of this server's"),
        ("orders", ANN, 403, "ann does not have the role send"),
        ("nowhere", None, 401, "needs a token"),
        ("nowhere", ANN, 403, "does not have the role send"),
        ("nowhere", SUE, 404, "no queue 'nowhere' takes messages (http.events)"),
        ("..%2Forders", SUE, 404, "takes messages (http.events)"),
        ("ORDERS", SUE, 404, "takes messages (http.events)"),
    ],
)
def test_who_may_not_send_is_told_so(
    here: Shop, queue: str, token: str | None, status: int, words: str
) -> None:
    answer = here.post(queue=queue, token=token)
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json")
    assert words in answer.json()["detail"]
    assert here.messages() == []


def test_without_tokens_nobody_sends_but_who_signs(tmp_path: Path) -> None:
    with shop(tmp_path, tokens=()) as here:
        assert here.post(token=None).status_code == 403
        assert here.post(queue="hooks", token=None, X_Hub_Signature_256=sign(ORDER)).status_code == 202


def sign(body: bytes, secret: str = SECRET) -> str:
    return f"sha256={hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()}"


@rows(
    "signature, status",
    [
        (sign(ORDER), 202),
        (sign(ORDER).upper().replace("SHA", "sha"), 202),
        (sign(ORDER + b" "), 403),
        (sign(ORDER, "another secret"), 403),
        ("sha256=", 403),
        (sign(ORDER)[7:], 403),
        (sign(ORDER).replace("sha256", "sha1"), 403),
        ("", 403),
    ],
)
@pytest.mark.parametrize("token", [None, SUE])
def test_a_signature_stands_in_place_of_a_token(here: Shop, token: str, signature: str, status: int) -> None:
    answer = here.post(queue="hooks", token=token, X_Hub_Signature_256=signature)
    assert answer.status_code == status
    assert SECRET not in answer.text


def test_the_signature_is_of_the_bytes_as_they_came(here: Shop) -> None:
    packed = gzip.compress(ORDER)
    for signed, status in ((packed, 202), (ORDER, 403)):
        signature = sign(signed)
        answer = here.post(packed, queue="hooks", Content_Encoding="gzip", X_Hub_Signature_256=signature)
        assert answer.status_code == status
    (message,) = here.messages("hooks")
    assert (message.body, message.properties["content_encoding"]) == (packed, "gzip")


# -- keys ----------------------------------------------------------------------------------------------


def test_a_key_makes_one_message_and_another_body_is_refused(here: Shop) -> None:
    first, again = here.post(key="k-1"), here.post(key='"k-1"', X_Connector_Property_A="later")
    assert (first.status_code, again.status_code) == (202, 200)
    assert first.json() == again.json()
    assert (first.headers.get("idempotent-replayed"), again.headers["idempotent-replayed"]) == (None, "true")
    for other in (here.post(b"{}", key="k-1"), here.post(key="k-1", queue="notes")):
        assert (other.status_code, other.headers["content-type"]) == (422, "application/problem+json")
    packed = here.post(gzip.compress(ORDER), key="k-1", Content_Encoding="gzip")
    assert (packed.status_code, packed.json()) == (200, first.json())
    (message,) = here.messages()
    key = str(message.properties["connector_key"])
    assert (message.message_id, key.startswith("http/"), key.endswith("/k-1")) == (
        first.json()["id"],
        True,
        True,
    )
    assert here.messages("notes") == []


def test_without_a_key_each_call_is_a_message(here: Shop) -> None:
    assert here.post().json() != here.post().json()
    assert len(here.messages()) == 2


def test_callers_do_not_share_keys(here: Shop) -> None:
    answers = [here.post(token=SUE, key="k"), here.post(token=TOM, key="k")]
    answers.append(here.post(queue="hooks", token=SUE, key="k", X_Hub_Signature_256=sign(ORDER)))
    assert [one.status_code for one in answers] == [202] * 3
    assert len({one.json()["id"] for one in answers}) == 3
    again = here.post(queue="hooks", token=None, key="k", X_Hub_Signature_256=sign(ORDER))
    assert (again.status_code, again.json()) == (200, answers[2].json())


@rows("key", ["k" * 256, "two words", "\x7f"])
def test_what_is_no_key_is_400(here: Shop, key: str) -> None:
    assert here.post(key=key).status_code == 400
    assert here.messages() == []


# -- what is taken -------------------------------------------------------------------------------------


@rows(
    "type, words",
    [
        ("", "found no Content-Type; expected one of application/json, "),
        ("text/html", "did you mean 'text/xml'?"),
        ("application/x-www-form-urlencoded", "has no data handler"),
        ("multipart/form-data; boundary=x", "has no data handler"),
        ("text/csv; charset=iso-8859-1", "the data handler of text/csv reads UTF-8"),
        ("application/json; charset=what", "found the charset 'what'"),
    ],
)
def test_what_no_data_handler_reads_is_415(here: Shop, type: str, words: str) -> None:
    answer = here.post(type=type)
    assert answer.status_code == 415
    assert words in answer.json()["detail"]
    assert here.messages() == []


def test_a_data_handler_says_its_charset(tmp_path: Path) -> None:
    with shop(tmp_path, objects=f"{OBJECTS}---\n{LATIN}") as here:
        for name, status in (("iso8859-1", 202), ("LATIN-1", 202), ("utf-8", 415)):
            assert (
                here.post("Id\nü\n".encode("latin-1"), type=f"text/csv;charset={name}").status_code == status
            )
        assert here.post(TEXT_XML, type="text/xml;charset=utf-16").status_code == 202, "the body says it"


def test_a_data_handler_that_is_named_by_its_class_takes_every_type(tmp_path: Path) -> None:
    text = MEMORY.replace("DataHandlerMimeType: application/json", "DataHandlerClassName: own:Own")
    (tmp_path / "own.py").write_text(OWN)
    with shop(tmp_path, text) as here:
        assert here.post(type="application/vnd.shop+json").status_code == 202
        assert here.post(type="").status_code == 202
        assert here.post(type="no type").status_code == 400


@rows("encoding", ["br", "deflate", "gzip, gzip", "gzip, br"])
def test_another_encoding_than_gzip_is_415(here: Shop, encoding: str) -> None:
    answer = here.post(Content_Encoding=encoding)
    assert (answer.status_code, answer.headers["accept-encoding"]) == (415, "gzip, identity")


LIMITS: Final = (
    (gzip.compress(b" " * 1000), "gzip", 202),
    (gzip.compress(BYTES * 3), "X-GZip", 202),
    (gzip.compress(b" " * 1001), "gzip", 413),
    (gzip.compress(bytes(20 << 20)), "gzip", 413),
    (gzip.compress(ORDER)[:-1], "gzip", 400),
    (ORDER, "gzip", 400),
    (b" " * 1000, "identity", 202),
    (b" " * 1001, "", 413),
)


@rows("text, most, key", [(MEMORY, 1000, "http.max_body"), (SMALL, 1 << 20, "connector.max_body")])
def test_the_limit_counts_unpacked_bytes(tmp_path: Path, text: str, most: int, key: str) -> None:
    with shop(tmp_path, text, max_body=most) as here:
        for body, encoding, status in LIMITS:
            for content in (body, iter([body[:5], body[5:]])):  # the second in chunks
                answer = here.post(content, Content_Encoding=encoding)
                assert answer.status_code == status, (body[:20], encoding)
            if status == 413:
                ends = (f"than 1000 bytes ({key})", f"than 2025 bytes ({key}, and what gzip adds)")
                assert answer.json()["detail"].endswith(ends)


def test_an_input_whose_bodies_are_packed_takes_only_packed_ones(tmp_path: Path) -> None:
    text = MEMORY.replace("[queue://orders]", "[{destination: queue://orders, unpack: gzip}]")
    with shop(tmp_path, text) as here:
        assert here.post(gzip.compress(ORDER)).status_code == 202
        refused = here.post()
        assert (refused.status_code, "unpack of the input" in refused.json()["detail"]) == (400, True)


# -- hostile -------------------------------------------------------------------------------------------


@rows(
    "name, value",
    [
        ("X-Connector-Property-a-b", "1"),
        ("X-Connector-Property-", "1"),
        ("X-Connector-Property-7", "1"),
        ("X-Connector-Property-and", "1"),
        ("X-Connector-Property-JMSType", "1"),
        ("X-Connector-Property-jmsxdeliverycount", "1"),
        ("X-Connector-Property-connector_hops", "1"),
        ("X-Connector-Property-Connector_Key", "1"),
        ("X-Connector-Property-content_encoding", "gzip"),
        ("X-Connector-Property-traceparent", "1"),
        ("X-Connector-Property-a", b"\x01"),
        ("X-Connector-Property-a", b"a\tb"),
        ("X-Connector-Property-a", b"\x7f"),
        ("X-Connector-Property-a", b"\xc2\x85"),
        ("X-Connector-Property-a", b"\xff"),
        ("X-Connector-Propery-a", "1"),
    ],
)
def test_a_property_that_cannot_be_is_400(here: Shop, name: str, value: str | bytes) -> None:
    with client(here.server, SUE) as http:
        headers: dict[Any, Any] = {"Content-Type": "application/json", name: value}
        answer = http.post("/events/orders", content=ORDER, headers=headers)
    assert (answer.status_code, answer.headers["content-type"]) == (400, "application/problem+json")
    assert here.messages() == []


def test_a_property_keeps_every_other_text(here: Shop) -> None:
    for value in ("ü\U0001f600 'x' \"y\" ; , %00 ${A} {b}", ""):
        assert here.post(X_Connector_Property_A=value.encode()).status_code == 202
    assert [one.properties["a"] for one in here.messages()] == ["ü\U0001f600 'x' \"y\" ; , %00 ${A} {b}", ""]


@rows(
    "more, status",
    [
        (b"X-Connector-Property-a: 1\r\nX-Connector-Property-A: 2\r\nContent-Length: 2\r\n\r\n{}", 400),
        (b"Content-Type: text/xml\r\nContent-Length: 2\r\n\r\n{}", 400),
        (b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
        (b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}", 400),
        (b"Content-Length: 99999999999\r\n\r\n{}", 413),
        (b"Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n", 400),
        (b"Transfer-Encoding: gzip\r\n\r\n", 400),
    ],
)
def test_a_call_that_can_be_read_in_two_ways_sends_nothing(here: Shop, more: bytes, status: int) -> None:
    with connect(here.server) as connection:
        connection.sendall(HEAD + more)
        connection.shutdown(1)
        answer = read_all(connection)
    assert answer.startswith(b"HTTP/1.1 %d " % status)
    assert here.messages() == []


def test_a_client_that_hangs_up_in_its_body_has_sent_nothing(here: Shop) -> None:
    with connect(here.server) as connection:
        connection.sendall(HEAD + b"Content-Length: 20\r\n\r\n{")
    places = here.server._calls.places  # type: ignore[union-attr]
    wait_for(lambda: here.post().status_code == 202 and places.under_way == 0, what="the call has ended")
    assert len(here.messages()) == 1


def test_a_body_that_does_not_come_is_408(tmp_path: Path) -> None:
    with shop(tmp_path, limits=ServerLimits(body_seconds=0.05)) as here, connect(here.server) as connection:
        connection.sendall(HEAD + b"Content-Length: 20\r\n\r\n{")
        assert read_all(connection).startswith(b"HTTP/1.1 408 ")
        assert here.messages() == []


def test_a_parameter_and_another_method_are_refused(here: Shop) -> None:
    assert here.post(queue="orders?type=x").status_code == 400
    with client(here.server, SUE) as http:
        assert http.get("/events/orders").status_code == 405
        assert http.post("/events/").status_code == 404


# -- a provider that is away, a full disk, a stop ------------------------------------------------------


def test_a_full_disk_is_503(tmp_path: Path) -> None:
    with shop(tmp_path, f"{ADAPTER}min_free: 100%\n") as here:
        here.deployment.send("queue://notes", "")  # makes the root
        for key, more in (("", "nothing was taken"), ("k", "repeat the call with the same key")):
            answer = here.post(key=key)
            assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
            assert f"messages cannot be stored now: {more}" in answer.json()["detail"]


def test_a_provider_that_is_away_is_503_and_its_text_is_for_the_log_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="connector.http")
    with shop(tmp_path) as here:
        here.adapter.provider.close()  # type: ignore[attr-defined]
        answer = here.post()
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
        assert "provider is closed" not in answer.text
        (record,) = [one for one in caplog.records if one.getMessage() == "messages over HTTP are not taken"]
        assert "provider is closed" in str(vars(record)["reason"])


def test_a_call_that_a_stop_finds_waiting_is_taken_or_may_be_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held, free, send = threading.Event(), threading.Event(), EventSender._send

    def slow(*arguments: Any) -> Any:
        held.set()
        free.wait(PATIENCE)
        return send(*arguments)

    monkeypatch.setattr(EventSender, "_send", slow)
    with shop(tmp_path) as here:
        calls = [beside(here.post), beside(lambda: here.post(key="k"))]
        assert held.wait(PATIENCE)
        places = here.server._calls.places  # type: ignore[union-attr]
        wait_for(lambda: places.under_way == 2, what="both calls are there")
        here.server.stop()
        free.set()
        keyless, keyed = (call.result(PATIENCE) for call in calls)
    assert (keyless.status_code, "retry-after" in keyless.headers) == (503, False)
    assert "may have been taken" in keyless.json()["detail"]
    assert (keyed.status_code, keyed.headers["retry-after"]) == (503, "1")


def test_a_slow_provider_does_not_hold_a_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    free = threading.Event()
    monkeypatch.setattr(EventSender, "_send", lambda *_: free.wait(PATIENCE))
    with shop(tmp_path, limits=ServerLimits(event_seconds=0.05)) as here:
        answers = [here.post() for _ in range(5)]
        free.set()
    assert [one.status_code for one in answers] == [503] * 5
    assert ["retry-after" in one.headers for one in answers] == [False] * 4 + [True], "the last has not begun"


# -- beside the others ---------------------------------------------------------------------------------


def test_the_description_has_each_queue(here: Shop) -> None:
    with client(here.server, None) as http:
        document = http.get("/openapi.json").json()
    paths = {path: one["post"] for path, one in document["paths"].items() if path.startswith("/events")}
    assert list(paths) == ["/events/orders", "/events/notes", "/events/hooks"]
    plain, signed = paths["/events/orders"], paths["/events/hooks"]
    assert plain["security"] == [{"token": []}]
    assert "security" not in signed
    assert [one["name"] for one in signed["parameters"]] == ["X-Hub-Signature-256", "Idempotency-Key"]
    assert {"application/json", "text/csv", "text/xml"} <= plain["requestBody"]["content"].keys()
    expected = "200 202 400 401 403 404 405 408 413 415 421 422 429 500 501 503"
    assert " ".join(plain["responses"]) == expected
    assert "401" not in signed["responses"]


def test_the_description_is_true(here: Shop) -> None:
    with client(here.server, None) as http:
        schema = schemathesis.openapi.from_dict(http.get("/openapi.json").json())
    schema.validate()
    found = [one.ok() for one in schema.get_all_operations() if isinstance(one, Ok)]
    (operation,) = [one for one in found if one.path == "/events/orders"]

    @effort(max_examples=15, suppress_health_check=[HealthCheck.too_slow])
    @given(operation.as_strategy())
    def check(case: schemathesis.Case[Any]) -> None:
        case.headers.pop("Idempotency-Key", None)  # which belongs to one body
        case.call_and_validate(base_url=here.server.url, headers={"Authorization": f"Bearer {SUE}"})

    check()


def test_the_console_shows_requests_and_no_events(tmp_path: Path) -> None:
    boss = named(BOSS, "eva", READ, REQUEST)
    with (
        shop(tmp_path, tokens=(*TOKENS, boss), console=True) as here,
        signed_in(here.server, BOSS) as console,
    ):
        page = console.get("/console/requests").text
        assert "Order" in page
        assert "http.events" not in page
        assert "verb=Create" in console.get("/console/requests?object=Order&verb=Create").url.query.decode()


def test_messages_count_among_the_most_requests(tmp_path: Path) -> None:
    with shop(tmp_path, max_requests=1) as here, connect(here.server) as connection:
        connection.sendall(HEAD + b"Content-Length: 20\r\n\r\n{")
        places = here.server._calls.places  # type: ignore[union-attr]
        wait_for(lambda: places.under_way == 1, what="a call is being answered")
        answer = here.post()
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
        assert "too many requests (http.max_requests)" in answer.json()["detail"]
