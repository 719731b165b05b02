"""Answers ``POST /requests/{BusinessObject}/{Verb}``, and makes the same request from a form."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass
from hashlib import sha256
from http import HTTPStatus
from typing import NamedTuple

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from connector.businessobjects.definition import Definitions
from connector.config.http_model import REQUEST, Http
from connector.errors import MalformedData, ProviderError
from connector.http.answers import SECONDS_TO_RETRY, answer
from connector.http.bodies import check_media_type, parse, read_body, too_large
from connector.http.idempotency import HEADER, KeptAnswers, kept_answer, key_of
from connector.http.places import CallPlaces
from connector.http.problems import HttpProblem
from connector.http.timeout_limits import check_dynamic, milliseconds, requested_timeout
from connector.http.tokens import Caller, Tokens
from connector.messaging.state_store import CallRecord, KeptCall
from connector.operate.trace_context import TRACEPARENT, sending_under, valid_traceparent
from connector.requests.contract import Requests
from connector.requests.result import RequestResult
from connector.service.observer import Observer
from connector.text.names import did_you_mean, shown

_log = logging.getLogger("connector.http")


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """The limits of a server that no configuration changes.

    Args:
        head_seconds: that the head of a call may take to arrive.
        body_seconds: that the body of a call may take to arrive.
        write_seconds: after which a client has to have read a part of an answer that waits.
        threads: that send requests. Sending may take a sync of the disk. No thread waits for a reply.
        event_seconds: that the provider may take for a message of ``POST /events``.
    """

    head_seconds: float = 10.0
    body_seconds: float = 30.0
    write_seconds: float = 10.0
    threads: int = 32
    event_seconds: float = 30.0


class _Call(NamedTuple):
    """A call without its body.

    Args:
        caller: the number of the token.
        name: object and verb, ``Customer.Retrieve``.
        timeout: ResponseTimeout in ms. None = as the meta-objects say.
        key: that the caller has chosen. None = the call may be made twice.
        stored_key: the name of the key in the state of the application.
    """

    caller: int
    name: str
    timeout: int | None
    key: str | None
    stored_key: str


class RequestCalls:
    """Makes requests from calls. For one thread, that of the server.

    Args:
        observer: of the adapter, whose state keeps the calls with a key. None = memory alone keeps them.
    """

    def __init__(
        self,
        settings: Http,
        tokens: Tokens,
        requests: Requests,
        definitions: Definitions,
        limits: ServerLimits,
        observer: Observer | None = None,
    ) -> None:
        self._tokens = tokens
        self._requests = requests
        self._definitions = definitions
        self.max_body = settings.max_body
        """Bytes of the largest body."""
        self._body_seconds = limits.body_seconds
        self._max_timeout = milliseconds(settings.max_timeout)
        self._answers = KeptAnswers(settings.idempotency_time, settings.idempotency_keys)
        self._observer = observer
        self._record: CallRecord | None = None
        self._opening = threading.Lock()
        self._threads = ThreadPoolExecutor(limits.threads, "connector-http")
        self.places = CallPlaces(settings.max_requests)
        """Of all calls that send something. When they are cut, no call waits for a reply any longer."""

    def close(self) -> None:
        """Ends the threads. Does not wait for a thread that is stuck in a provider."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        if self._record is not None:
            self._record.close()

    async def post(self, request: Request) -> Response:
        """Answers one call. Reports the first mistake in the order of the checks.

        Raises:
            HttpProblem: the call made no request.
        """
        caller = self._tokens.check(request, REQUEST)
        business_object, verb = request.path_params["object"], request.path_params["verb"]
        self._tokens.demand(caller, f"{REQUEST}:{business_object}.{verb}")  # before it is told what there is
        call = self._call(
            caller,
            self.name_of(business_object, verb),
            request.query_params.multi_items(),
            request.headers.getlist(HEADER),
        )
        check_media_type(request.headers)
        traceparent = valid_traceparent(",".join(request.headers.getlist(TRACEPARENT)))  # two are none
        with self.places.take(), sending_under(traceparent):
            try:
                body = await read_body(request, self.max_body, self._body_seconds)
            except ClientDisconnect:
                return Response(status_code=HTTPStatus.BAD_REQUEST)  # the client has gone
            return await self._make(call, body)

    async def make(
        self, caller: Caller, name: str, body: bytes, *, timeout: str = "", key: str = ""
    ) -> Response:
        """Returns the answer that :meth:`post` would give to the same call.

        Args:
            caller: has been identified.
            name: that :meth:`name_of` has returned.
            body: JSON.
            timeout: ResponseTimeout in ms. Empty = as the meta-objects say.
            key: an Idempotency-Key. Empty = none.

        Raises:
            HttpProblem: the call made no request.
        """
        self._tokens.demand(caller, REQUEST)
        self._tokens.demand(caller, f"{REQUEST}:{name}")
        call = self._call(caller, name, [("timeout", timeout)] if timeout else [], [key] if key else [])
        with self.places.take():
            if len(body) > self.max_body:
                raise too_large(self.max_body)
            return await self._make(call, body)

    def _call(
        self, caller: Caller, name: str, parameters: Sequence[tuple[str, str]], keys: Sequence[str]
    ) -> _Call:
        timeout, key = requested_timeout(parameters, self._max_timeout), key_of(keys)
        named = self._tokens.key_space(caller) + b" " + (key or "").encode()
        return _Call(caller.number, name, timeout, key, sha256(named).hexdigest())

    async def _make(self, call: _Call, body: bytes) -> Response:
        """Makes the request, unless an earlier call with the same key has an answer."""
        if call.key is None:
            return answer(await self._request(call.name, body, call.timeout))
        fingerprint = sha256(call.name.encode() + b" " + body).digest()
        which = (call.caller, call.key)
        known = self._answers.begin(which, fingerprint)
        if known is not None:
            return known
        kept = None
        try:
            stored = await self._stored(call.stored_key, fingerprint.hex())
            if stored is not None:
                return stored
            kept, response = await self._make_once(call, body, fingerprint.hex())
        finally:
            self._answers.finish(which, kept)
        return response

    async def _make_once(
        self, call: _Call, body: bytes, fingerprint: str
    ) -> tuple[Response | None, Response]:
        """Returns the answer to keep, and the answer to a request whose key is new."""
        may_be_sent = True
        kept = None
        try:
            result = await self._request(call.name, body, call.timeout)
            response = answer(result)
            may_be_sent = not (result.not_sent or result.refused)
            if may_be_sent:
                kept = response
        except HttpProblem as problem:
            is_unknown = problem.status is HTTPStatus.SERVICE_UNAVAILABLE
            may_be_sent = is_unknown and "Retry-After" not in problem.headers
            raise
        finally:
            ended = self._end(call.stored_key, fingerprint, kept, may_be_sent=may_be_sent)
            if ended is not None:
                await asyncio.shield(ended)
        return kept, response

    async def _stored(self, key: str, fingerprint: str) -> Response | None:
        """Returns the answer that the application keeps for a key. None = the key is new, and is now noted.

        Raises:
            HttpProblem: 503, the key cannot be noted. Others as :func:`.kept_answer`.
        """
        if self._observer is None:
            return None
        try:
            found = await asyncio.wrap_future(self._threads.submit(self._begin_key, key, fingerprint))
        except (ProviderError, RuntimeError) as error:
            detail = f"the key cannot be kept: {error}; nothing was sent"
            again = {"Retry-After": SECONDS_TO_RETRY}
            raise HttpProblem(HTTPStatus.SERVICE_UNAVAILABLE, detail, again) from error
        return None if found is None else kept_answer(found, fingerprint)

    def _begin_key(self, key: str, fingerprint: str) -> KeptCall | None:
        assert self._observer is not None
        with self._opening:
            if self._record is None:
                self._record = self._observer.calls(self._answers.limits)
        return self._record.begin(key, fingerprint)

    def _end(
        self, key: str, fingerprint: str, kept: Response | None, *, may_be_sent: bool
    ) -> asyncio.Future[None] | None:
        """Keeps an answer, or that nobody knows one, or forgets a key whose request was not sent."""
        record = self._record
        if record is None:
            return None

        def end() -> None:
            try:
                if may_be_sent:
                    status, body = (0, b"") if kept is None else (kept.status_code, bytes(kept.body))
                    record.finish(key, fingerprint, status, body)
                else:
                    record.forget(key)
            except ProviderError as error:
                _log.error("the answer to a call with a key is not kept", extra={"reason": str(error)})

        try:
            return asyncio.wrap_future(self._threads.submit(end))
        except RuntimeError:  # the server has ended; the key stays, and says that nobody knows the answer
            return None

    async def _request(self, name: str, body: bytes, timeout: int | None) -> RequestResult:
        """Returns the answer to a request. After the cut, returns the answer only if it is there already.

        Raises:
            HttpProblem: there is no answer.
        """
        begun = self._threads.submit(copy_context().run, self._begin, name, body, timeout)
        done = asyncio.ensure_future(_completion(begun))
        cut = asyncio.ensure_future(self.places.cut.wait())
        try:
            await asyncio.wait((done, cut), return_when=asyncio.FIRST_COMPLETED)
        finally:
            cut.cancel()
        try:
            if not done.done():
                done.add_done_callback(_read_exception)
                return _final_answer(begun)
            return done.result()
        except MalformedData as error:
            raise HttpProblem(HTTPStatus.UNPROCESSABLE_ENTITY, str(error)) from None

    def _begin(self, name: str, body: bytes, timeout: int | None) -> Future[RequestResult]:
        """Sends the request, in a thread, because reading a large body and sending take a while."""
        data = parse(body)
        check_dynamic(self._definitions[name.partition(".")[0]], data, self._max_timeout)
        return self._requests.request_async(name, data, timeout=timeout)

    def name_of(self, business_object: str, verb: str) -> str:
        """Returns the name of a request.

        Raises:
            HttpProblem: 404, there is no such business object or verb.
        """
        definition = self._definitions.get(business_object)
        if definition is None:
            having = [name for name, each in self._definitions.items() if each.verbs]
            detail = f"no business object {shown(business_object)}{did_you_mean(business_object, having)}"
            raise HttpProblem(HTTPStatus.NOT_FOUND, detail)
        if verb not in definition.verbs:
            has = f"it has {', '.join(definition.verbs)}" if definition.verbs else "it has no verbs"
            detail = (
                f"{business_object} has no verb {shown(verb)}{did_you_mean(verb, definition.verbs)}; {has}"
            )
            raise HttpProblem(HTTPStatus.NOT_FOUND, detail)
        return f"{business_object}.{verb}"


def _final_answer(begun: Future[Future[RequestResult]]) -> RequestResult:
    """Returns the answer to a request that is not waited for any longer.

    Raises:
        HttpProblem: 503, there is no answer. With Retry-After if nothing was sent.
    """
    if begun.cancel():  # no thread has begun the request
        raise HttpProblem(
            HTTPStatus.SERVICE_UNAVAILABLE,
            "the adapter is stopping; nothing was sent",
            {"Retry-After": SECONDS_TO_RETRY},
        )
    if begun.done() and begun.result().done():
        return begun.result().result()
    # Without Retry-After, because the request may have been sent.
    detail = "the adapter has stopped while the reply was awaited; the request may have been sent"
    raise HttpProblem(HTTPStatus.SERVICE_UNAVAILABLE, detail)


async def _completion(begun: Future[Future[RequestResult]]) -> RequestResult:
    """Waits for a result. A cancelled wait does not cancel the request."""
    request = await asyncio.wrap_future(begun)
    loop = asyncio.get_running_loop()
    completed = asyncio.Event()

    def tell(_: object) -> None:
        try:
            loop.call_soon_threadsafe(completed.set)
        except RuntimeError:
            pass  # the server has ended meanwhile

    request.add_done_callback(tell)
    await completed.wait()
    return request.result()


def _read_exception(done: asyncio.Future[RequestResult]) -> None:
    """Reads the exception of a result that is not needed, so that asyncio does not log the exception."""
    if not done.cancelled():
        done.exception()
