"""Answers ``POST /events/{queue}``: the body becomes a message of the queue."""

from __future__ import annotations

from hashlib import sha256
from http import HTTPStatus
from typing import Final, NamedTuple
from urllib.parse import quote

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from connector.config.events_model import EventEntry, Signature
from connector.config.http_model import SEND, Http
from connector.config.loading import Configuration
from connector.errors import DestinationError
from connector.http.bodies import read_body
from connector.http.calls import ServerLimits
from connector.http.event_message import content_of, make_message, read_head
from connector.http.event_sender import EventSender, Key
from connector.http.idempotency import HEADER, REPLAYED, another_call, key_of
from connector.http.places import CallPlaces
from connector.http.problems import HttpProblem
from connector.http.signatures import check_signature, signature_of
from connector.http.tokens import Tokens
from connector.messaging.destination import Destination
from connector.service.observer import Observer
from connector.service.queue_bodies import QueueBodies
from connector.text.gzip_body import packed_limit
from connector.text.json_text import to_json
from connector.text.names import shown

_PATH: Final = "/events/{queue}"


class EventQueue(NamedTuple):
    """A queue that takes messages over HTTP.

    Args:
        path: of its calls.
        signature: that a sender makes. None = a sender has a token.
        max_body: bytes of an unpacked body.
        said_by: the key of ``max_body`` in adapter.yaml.
    """

    path: str
    destination: Destination
    signature: Signature | None
    bodies: QueueBodies
    max_body: int
    said_by: str


class EventCalls:
    """Makes messages from calls. For one thread, that of the server.

    Args:
        places: of all calls that send something.
    """

    def __init__(
        self, settings: Http, tokens: Tokens, observer: Observer, limits: ServerLimits, places: CallPlaces
    ) -> None:
        self._settings = settings
        self._tokens = tokens
        self._observer = observer
        self._body_seconds = limits.body_seconds
        self._places = places
        self._sender = EventSender(observer, places, limits.event_seconds)
        self._known: tuple[Configuration, dict[Destination, EventQueue]] | None = None

    def routes(self) -> list[Route]:
        """Returns the route."""
        return [Route(_PATH, self.post, methods=["POST"])]

    def close(self) -> None:
        """Ends the connections. Does not wait long for one that is stuck in a provider."""
        self._sender.close()

    def queues(self) -> dict[Destination, EventQueue]:
        """Returns the queues as the present configuration has them. A reload may change what they take."""
        configuration = self._observer.configuration
        if self._known is None or self._known[0] is not configuration:
            found = [self._queue(entry) for entry in self._settings.events]
            self._known = configuration, {one.destination: one for one in found}
        return self._known[1]

    def _queue(self, entry: EventEntry) -> EventQueue:
        queue = entry.destination
        bodies = self._observer.bodies(queue)
        most, said_by = self._settings.max_body, "http.max_body"
        if bodies.max_body < most:
            most, said_by = bodies.max_body, "connector.max_body"
        name = queue.own_name if self._observer.configuration.own_names else queue.name
        path = _PATH.replace("{queue}", quote(name, safe=""))
        return EventQueue(path, queue, entry.signature, bodies, most, said_by)

    async def post(self, request: Request) -> Response:
        """Answers one call. Reports the first mistake in the order of the checks.

        Raises:
            HttpProblem: the call made no message.
        """
        queue = self._find(request.path_params["queue"])
        if queue is None or queue.signature is None:
            caller = self._tokens.check(request, SEND)
            space = self._tokens.key_space(caller)
        else:
            space = b"signature of " + str(queue.destination).encode()
        if queue is None:
            detail = f"no queue {shown(request.path_params['queue'])} takes messages (http.events)"
            raise HttpProblem(HTTPStatus.NOT_FOUND, detail)
        if request.query_params:
            raise HttpProblem(HTTPStatus.BAD_REQUEST, "found a parameter; this path has none")
        given = None if queue.signature is None else signature_of(request.headers, queue.signature)
        key = key_of(request.headers.getlist(HEADER))
        with self._places.take():
            try:
                return await self._take(request, queue, given, key, space)
            except ClientDisconnect:
                return Response(status_code=HTTPStatus.BAD_REQUEST)  # the client has gone

    def _find(self, name: str) -> EventQueue | None:
        try:
            return self.queues().get(self._observer.configuration.destination(f"queue://{name}"))
        except DestinationError:
            return None

    async def _take(
        self, request: Request, queue: EventQueue, signature: bytes | None, key: str | None, space: bytes
    ) -> Response:
        head = read_head(request.headers, queue.bodies)
        is_packed = head.is_packed or queue.bodies.is_packed
        limit, said_by = queue.max_body, queue.said_by
        if is_packed:
            limit, said_by = packed_limit(limit), f"{said_by}, and what gzip adds"
        body = await read_body(request, limit, self._body_seconds, said_by)
        if signature is not None and queue.signature is not None:
            check_signature(signature, body, queue.signature)
        content = content_of(head, body, queue.bodies, queue.max_body, queue.said_by)
        message = make_message(head, body, is_reliable=self._observer.is_reliable)
        once = None if key is None else _key(key, space, queue.destination, content)
        sent = await self._sender.send(queue.destination, message, once)
        if once is not None and sent.fingerprint != once.fingerprint:
            raise another_call()
        document = to_json({"id": sent.message_id})
        if sent.is_new:
            return Response(document, HTTPStatus.ACCEPTED, media_type="application/json")
        return Response(document, HTTPStatus.OK, {REPLAYED: "true"}, "application/json")


def _key(key: str, space: bytes, queue: Destination, content: bytes) -> Key:
    """Returns the key of a call. It shows neither the token nor its whole digest."""
    caller = sha256(b"events " + space).hexdigest()[:16]
    fingerprint = sha256(f"{queue}\n".encode() + content).hexdigest()
    return Key(f"http/{caller}/{key}", fingerprint)
