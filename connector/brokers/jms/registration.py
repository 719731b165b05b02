"""The registrations of the providers ``jms`` and ``amqp`` (see :mod:`connector.messaging.provider_kind`)."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pydantic import ValidationError

from connector.declare.problems import Position
from connector.declare.tree import Leaf
from connector.errors import ProviderMisconfigured
from connector.messaging.destination import known_destination
from connector.messaging.provider_kind import DeploymentPaths, ProviderKind, SectionProblem
from connector.text.names import twins

if TYPE_CHECKING:
    from connector.brokers.jms.factory import Factory
    from connector.brokers.jms.provider import JmsProvider
    from connector.brokers.jms.section import AmqpSection, ClientSection, JmsSection

_CLASS_NAME: Final = re.compile(r"([A-Za-z_$][\w$]*\.)*[A-Za-z_$][\w$]*")
_AMQP_URL: Final = re.compile(r"(amqps?|amqpwss?)://[^/]|failover:")
_STORES: Final = re.compile(r"[?&](transport\.(?:key|trust)StoreLocation)=([^&]+)")
_COPIES: Final = 12
"""So many times the bytes of a text are in the heap while it is read and its copies are sent, as measured."""
_SHARE: Final = 16
"""The part of the heap for the messages of a transaction: a sixteenth, because copies are made of them."""
_CLASS_PATH_OPTIONS: Final = ("-cp", "-classpath", "--class-path", "-Djava.class.path")


def _section() -> type[JmsSection]:
    from connector.brokers.jms.section import JmsSection

    return JmsSection


def _amqp_section() -> type[AmqpSection]:
    from connector.brokers.jms.section import AmqpSection

    return AmqpSection


def _jars(directory: Path, pattern: str) -> list[Path]:
    return [Path(jar) for jar in sorted(glob.glob(str(directory / Path(pattern).expanduser())))]


def _make(section: ClientSection, paths: DeploymentPaths) -> JmsProvider:
    from connector.brokers.engine.transaction_limits import DEFAULT_BATCH, DEFAULT_MAX_BODY, TransactionLimits
    from connector.brokers.jars.locked import Jars
    from connector.brokers.jms.provider import JavaSettings, JmsProvider

    own = [jar for pattern in section.classpath for jar in _jars(paths.directory, pattern)]
    factory = _factory(section, _most_ahead(section, paths))
    return JmsProvider(
        factory,
        JavaSettings(tuple(own), Jars(section.packages, paths.directory), tuple(section.java_options)),
        paths.state or paths.directory / ".connector" / "state",
        TransactionLimits(
            batch=section.batch or min(paths.poll_quantity, DEFAULT_BATCH),
            batch_bytes=_batch_bytes(section),
            lot=section.batch or DEFAULT_BATCH,
            max_body=DEFAULT_MAX_BODY if paths.max_body is None else paths.max_body,
            redelivery_limit=section.redelivery_limit,
        ),
        _commit_queue(section),
    )


def _most_ahead(section: ClientSection, paths: DeploymentPaths) -> int:
    """Returns the number of messages that a consumer has fetched ahead, at most."""
    from connector.brokers.engine.transaction_limits import DEFAULT_BATCH

    return min(paths.poll_quantity, section.batch or DEFAULT_BATCH)


def _batch_bytes(section: ClientSection) -> int:
    """Returns the bytes of bodies of one transaction, and of those that an input has fetched ahead."""
    from connector.brokers.jms.jvm import heap_size

    return min(section.batch_bytes, max(1, heap_size(section.java_options) // _SHARE))


def _factory(section: ClientSection, messages: int) -> Factory:
    from connector.brokers.jms.factory import Factory
    from connector.brokers.jms.naming import Naming, environment_of
    from connector.brokers.jms.section import AmqpSection, JmsSection
    from connector.brokers.jms.urls import QPID

    login = section.ApplicationUserName, section.ApplicationPassword
    if isinstance(section, AmqpSection):
        return Factory(QPID, section.url, *login, messages=messages, bytes_ahead=_batch_bytes(section))
    assert isinstance(section, JmsSection)
    naming = None
    if section.ConnectionFactoryName is not None:
        by_name = section.LookupDestinationsUsingJNDI
        naming = Naming(environment_of(section.context), section.ConnectionFactoryName, by_name)
    return Factory(
        section.factory or "",
        section.url,
        *login,
        messages=messages,
        bytes_ahead=_batch_bytes(section),
        properties=section.properties,
        naming=naming,
    )


def _commit_queue(section: ClientSection) -> str | None:
    from connector.brokers.engine.provider import COMMIT_QUEUE
    from connector.brokers.jms.section import NO_COMMIT_QUEUE

    if section.commit_queue is None:
        return COMMIT_QUEUE
    return None if section.commit_queue == NO_COMMIT_QUEUE else known_destination(section.commit_queue).name


def _check_factory(section: JmsSection) -> Iterator[SectionProblem]:
    from connector.brokers.jms.naming import name_of

    is_named = section.ConnectionFactoryName is not None
    if section.factory is None and not is_named:
        yield SectionProblem(
            ("factory",), "factory is missing", "factory: ..., or ConnectionFactoryName: ..."
        )
    elif section.factory is None:
        if section.url is not None:
            yield SectionProblem(
                ("url",), "url beside ConnectionFactoryName", "the factory of JNDI has the url"
            )
    elif is_named:
        yield SectionProblem(("factory",), "factory beside ConnectionFactoryName", "one of the two")
    elif _CLASS_NAME.fullmatch(section.factory) is None:
        yield SectionProblem(
            ("factory",),
            f"{section.factory!r} is no name of a Java class",
            "for example org.apache.qpid.jms.JmsConnectionFactory",
        )
    elif section.url is None and not section.properties:
        yield SectionProblem(("factory",), "neither url nor properties", "where the broker is")
    for earlier, key in twins(section.context, name_of):
        yield SectionProblem((key,), f"{earlier} and {key}, one name in JNDI", "one of the two")
    if not is_named:
        keys = [
            *section.context,
            *(["LookupDestinationsUsingJNDI"] if section.LookupDestinationsUsingJNDI else []),
        ]
        for key in keys:
            yield SectionProblem((key,), f"{key} without ConnectionFactoryName", "the name in JNDI, too")


def _check(section: ClientSection, paths: DeploymentPaths) -> Iterator[SectionProblem]:
    from connector.brokers.jms.section import AmqpSection, JmsSection

    if isinstance(section, JmsSection):
        yield from _check_factory(section)
    elif isinstance(section, AmqpSection) and _AMQP_URL.match(section.url) is None:
        yield SectionProblem(("url",), "no URL of AMQP", "amqp://HOST:5672 or amqps://HOST:5671")
    for option, store in _STORES.findall(getattr(section, "url", None) or ""):
        if store.startswith("/") and not Path(store).is_file():
            yield SectionProblem(("url",), f"{option}: there is no file {store}", "the store of certificates")
    if not section.packages and not section.classpath:
        yield SectionProblem((), "neither packages nor classpath", "the client library of the broker")
    for number, pattern in enumerate(section.classpath):
        jars = _jars(paths.directory, pattern)
        if not jars:
            yield SectionProblem(("classpath", number), f"no file {pattern}", "a jar")
        for jar in jars:
            if not jar.is_file():
                yield SectionProblem(
                    ("classpath", number), f"{jar} is not a file", "a jar, or DIRECTORY/*.jar"
                )
    for number, option in enumerate(section.java_options):
        if not option.startswith("-"):
            yield SectionProblem(("java_options", number), repr(option), "an option of java, -Xmx256m")
        elif option.split("=")[0] in _CLASS_PATH_OPTIONS:
            yield SectionProblem(("java_options", number), option.split("=")[0], "the jars in classpath")
    yield from _check_heap(section, paths)
    if section.ApplicationPassword is not None and section.ApplicationUserName is None:
        yield SectionProblem(
            ("ApplicationPassword",), "a password without ApplicationUserName", "both, or none"
        )


def _check_heap(section: ClientSection, paths: DeploymentPaths) -> Iterator[SectionProblem]:
    """Compares the heap with the messages that a consumer may have fetched ahead."""
    from connector.brokers.jms.jvm import heap_size
    from connector.brokers.jms.section import AmqpSection
    from connector.brokers.jms.urls import counts_messages
    from connector.declare.value_types import write_size

    if not (isinstance(section, AmqpSection) or counts_messages(getattr(section, "factory", None) or "")):
        return
    quantity = _most_ahead(section, paths)
    max_body = paths.max_body or 0
    needed, heap = (quantity + _COPIES) * max_body, heap_size(section.java_options)
    if heap < needed:
        yield SectionProblem(
            ("java_options",),
            f"a heap of {heap >> 20} MiB: PollQuantity {quantity} messages of max_body "
            f"{write_size(max_body)} need {needed >> 20} MiB for each input",
            "a larger -Xmx, or a smaller max_body or PollQuantity",
            warning=True,
        )


def _lacks(section: ClientSection, paths: DeploymentPaths) -> Iterator[SectionProblem]:
    from connector.brokers.jars.locked import Jars
    from connector.brokers.jms import jvm
    from connector.errors import ConnectorError

    try:
        jvm.check_installed()
    except ConnectorError as error:
        yield SectionProblem(("type",), str(error), "")
    try:
        Jars(section.packages, paths.directory).paths()
    except ConnectorError as error:
        yield SectionProblem(("packages",), str(error).removeprefix("provider.packages: "), "")


def _packages(section: ClientSection) -> Sequence[str]:
    return section.packages


def _open(location: str, *, directory: str | os.PathLike[str] = ".", **options: Any) -> JmsProvider:
    """Returns the provider of the URL ``jms:<url of the broker>``.

    Args:
        location: the URL of the broker, as the factory reads it. Empty = the options say where the broker is.
        directory: has the lock file of the jars. Jars and the records of durable subscriptions are relative
            to it.
        options: the other keys of the section ``provider`` with ``type: jms``, such as ``factory``.

    Raises:
        TypeError: there is no such option, or its value is wrong.
        ProviderMisconfigured: the options do not fit.
    """
    return _opened(_section(), directory, {**({"url": location} if location else {}), **options})


def _open_amqp(location: str, *, directory: str | os.PathLike[str] = ".", **options: Any) -> JmsProvider:
    """Returns the provider of ``amqp://HOST:PORT``, or of ``amqp:amqps://HOST:PORT``. See :func:`_open`."""
    url = f"amqp:{location}" if location.startswith("//") else location
    return _opened(_amqp_section(), directory, {"url": url, **options})


def _tree(value: Any) -> Any:
    """Returns values of Python as adapter.yaml would have them."""
    if isinstance(value, Mapping):
        return {key: _tree(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_tree(one) for one in value]
    return Leaf.of(str(value).lower() if isinstance(value, bool) else str(value), Position("", 0, 0))


def _opened(
    kind: type[ClientSection], directory: str | os.PathLike[str], keys: Mapping[str, Any]
) -> JmsProvider:
    name = "amqp" if kind is _amqp_section() else "jms"
    try:
        section = kind.model_validate(_tree({"type": name, **keys}))
    except ValidationError as error:  # its text has the values, and so passwords
        found = "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors())
        raise TypeError(f"{name}: {found}") from None
    paths = DeploymentPaths(Path(directory).absolute())
    for problem in [one for one in _check(section, paths) if not one.warning]:
        place = ".".join(map(str, problem.location)) or name
        raise ProviderMisconfigured(f"{place}: {problem.found}; expected {problem.expected}")
    return _make(section, paths)


KIND: Final = ProviderKind(
    section=_section,
    make=_make,
    open=_open,
    check=_check,
    packages=_packages,
    own_selectors=True,
    own_names=True,
    lacks=_lacks,
)
AMQP: Final = replace(KIND, section=_amqp_section, open=_open_amqp)
