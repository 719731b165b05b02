"""One call: ``POST /requests/{BusinessObject}/{Verb}``."""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from http import HTTPStatus
from typing import Final

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from connector.broker.requesting import Requests
from connector.businessobjects.definition import Definitions
from connector.businessobjects.names import did_you_mean, shown
from connector.config.http_model import Http
from connector.errors import MalformedData
from connector.http.answers import SECONDS_TO_RETRY, answer
from connector.http.bodies import check_media_type, parse, read_body
from connector.http.idempotency import Answers, key_of
from connector.http.problems import HttpProblem
from connector.http.tokens import Tokens
from connector.requests.result import RequestResult

THREADS: Final = 32
"""Threads that hand requests over, which may take a sync of the disk. None waits for a reply."""
MAX_TIMEOUT: Final = 2**31 - 1
_TIMEOUT: Final = re.compile(r"-1|[0-9]{1,10}")


class Calls:
    """Makes requests of calls. For one thread, that of the server.

    Args:
        settings: the section ``http``.
        tokens: who may call.
        requests: makes the requests.
        definitions: the business objects.
    """

    def __init__(self, settings: Http, tokens: Tokens, requests: Requests, definitions: Definitions) -> None:
        self._tokens = tokens
        self._requests = requests
        self._definitions = definitions
        self._max_body = settings.max_body
        self._max_requests = settings.max_requests
        self._answers = Answers(settings.idempotency_time, settings.idempotency_keys)
        self._threads = ThreadPoolExecutor(THREADS, "connector-http")
        self._under_way = 0
        self._stopping = False
        self._cut = asyncio.Event()

    @property
    def under_way(self) -> int:
        """Calls that are being answered."""
        return self._under_way

    def refuse(self) -> None:
        """From now on no request is made."""
        self._stopping = True

    def cut(self) -> None:
        """No call waits for its answer any longer."""
        self._cut.set()

    def close(self) -> None:
        """Ends the threads; one that is stuck in a provider is left alone."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def post(self, request: Request) -> Response:
        """Answers one call. What is wrong with it is said in the order in which it is found out.

        Raises:
            HttpProblem: it made no request.
        """
        caller = self._tokens.check(request.headers)
        name = self._name(request.path_params["object"], request.path_params["verb"])
        timeout = _timeout(request)
        key = key_of(request.headers)
        check_media_type(request.headers)
        with self._place():
            try:
                body = await read_body(request, self._max_body)
            except ClientDisconnect:
                return Response(status_code=HTTPStatus.BAD_REQUEST)  # nobody reads it
            if key is None:
                return answer(await self._request(name, body, timeout))
            fingerprint = hashlib.sha256(name.encode() + b" " + body).digest()
            return await self._once((caller, key), fingerprint, name, body, timeout)

    async def _once(
        self, call: tuple[int, str], fingerprint: bytes, name: str, body: bytes, timeout: int | None
    ) -> Response:
        """Makes the request unless this call had its answer already."""
        known = self._answers.begin(call, fingerprint)
        if known is not None:
            return known
        kept = None
        try:
            result = await self._request(name, body, timeout)
            response = answer(result)
            if not result.not_sent:
                kept = response
        finally:
            self._answers.end(call, kept)
        return response

    async def _request(self, name: str, body: bytes, timeout: int | None) -> RequestResult:
        loop = asyncio.get_running_loop()
        begun = loop.run_in_executor(self._threads, self._begin, name, body, timeout)
        done = asyncio.ensure_future(_completion(begun))
        cut = asyncio.ensure_future(self._cut.wait())
        try:
            await asyncio.wait((done, cut), return_when=asyncio.FIRST_COMPLETED)
        finally:
            cut.cancel()
        if not done.done():
            done.add_done_callback(_forget)
            # Without Retry-After: it may have been sent.
            detail = "the adapter has stopped while the reply was awaited; the request may have been sent"
            raise HttpProblem(HTTPStatus.SERVICE_UNAVAILABLE, detail)
        try:
            return done.result()
        except MalformedData as error:
            raise HttpProblem(HTTPStatus.UNPROCESSABLE_ENTITY, str(error)) from None

    def _begin(self, name: str, body: bytes, timeout: int | None) -> Future[RequestResult]:
        """In a thread: a large body takes a while to read, and a message to be sent."""
        return self._requests.request_async(name, parse(body), timeout=timeout)

    @contextmanager
    def _place(self) -> Iterator[None]:
        """One of the calls that are answered at a time.

        Raises:
            HttpProblem: 503, there are too many, or the server is stopping.
        """
        if self._stopping or self._under_way >= self._max_requests:
            found = "the adapter is stopping" if self._stopping else "too many requests (http.max_requests)"
            raise HttpProblem(
                HTTPStatus.SERVICE_UNAVAILABLE,
                f"{found}; nothing was sent, so that it may be repeated",
                {"Retry-After": SECONDS_TO_RETRY},
                closes=True,
            )
        self._under_way += 1
        try:
            yield
        finally:
            self._under_way -= 1

    def _name(self, business_object: str, verb: str) -> str:
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


async def _completion(begun: asyncio.Future[Future[RequestResult]]) -> RequestResult:
    """Waits for a result, and cancels nothing when it is itself no longer waited for."""
    request = await begun
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


def _forget(done: asyncio.Future[RequestResult]) -> None:
    """Nobody is there for the answer any more, nor for a failure."""
    if not done.cancelled():
        done.exception()


def _timeout(request: Request) -> int | None:
    """ResponseTimeout of this request in ms, from ``?timeout=``; None = as the meta-objects say.

    Raises:
        HttpProblem: 400, it is none, or there is another parameter.
    """
    given = request.query_params.multi_items()
    wrong = [name for name, _ in given if name != "timeout"]
    if wrong:
        guess = did_you_mean(wrong[0], ["timeout"])
        raise HttpProblem(
            HTTPStatus.BAD_REQUEST, f"unknown parameter {shown(wrong[0])}{guess}; there is timeout"
        )
    if not given:
        return None
    text = given[0][1]
    if len(given) > 1 or not _TIMEOUT.fullmatch(text) or int(text) > MAX_TIMEOUT:
        raise HttpProblem(
            HTTPStatus.BAD_REQUEST,
            f"timeout: expected milliseconds, once, from 0 to {MAX_TIMEOUT}, or -1: do not wait for a reply",
        )
    return int(text)
