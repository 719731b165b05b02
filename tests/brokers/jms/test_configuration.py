"""The section ``provider`` with ``type: jms``, and the jars of its packages. No broker runs here."""

from __future__ import annotations

import importlib.util
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
import yaml

from connector.brokers.jars.locked import LOCK, Jars, cache_directory, sum_of
from connector.brokers.jms import jvm
from connector.brokers.jms.naming import Naming, environment_of
from connector.brokers.jms.provider import JmsProvider
from connector.brokers.jms.section import AmqpSection, JmsSection
from connector.brokers.jms.urls import (
    CLASSIC,
    CORE,
    QPID,
    for_browsers,
    with_options,
    without_additions,
    without_secrets,
)
from connector.cli.app import run
from connector.config.loading import check, load
from connector.config.resolved import as_document, as_yaml
from connector.errors import CapabilityError, ProviderError
from connector.messaging import connect
from connector.messaging.destination import Destination
from connector.service.assembly import make_provider
from tests.tables import rows

PACKAGE = "org.example:client:1.0"

Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Writes a deployment with further keys of the sections. Returns its directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def make(connector: Mapping[str, Any] = MappingProxyType({}), **provider: Any) -> Path:
        section = {
            "type": "jms",
            "factory": QPID,
            "url": "amqp://127.0.0.1:1",
            "packages": [PACKAGE],
            **provider,
        }
        settings = {"ApplicationName": "demo", "InputDestination": "queue://orders", "PollQuantity": 7}
        document = {
            "provider": {key: value for key, value in {**section, **provider}.items() if value is not None},
            "connector": {**settings, **connector},
        }
        (tmp_path / "adapter.yaml").write_text(yaml.safe_dump(document))
        return tmp_path

    return make


def lock_one_jar(directory: Path) -> Path:
    """Puts a jar into the cache and writes the lock, as ``connector jars --resolve`` does."""
    jar = cache_directory() / "org.example/client/1.0/client-1.0.jar"
    jar.parent.mkdir(parents=True, exist_ok=True)
    jar.write_bytes(b"classes")
    Jars([PACKAGE], directory).write([jar])
    return jar


def errors() -> list[tuple[str, str]]:
    """The path and the text of each mistake that ``check`` finds."""
    return [(one.path, one.found) for one in check() if not one.warning]


@pytest.mark.parametrize(
    ("state", "said"),
    [
        ("no lock", "does not exist"),
        ("for others", "is for other packages"),
        ("damaged", "is damaged"),
        ("missing", "client-1.0.jar is missing"),
        ("changed", "client-1.0.jar is not the one of"),
    ],
)
def test_check_finds_the_jars_that_run_would_miss(write: Write, state: str, said: str) -> None:
    directory = write()
    if state != "no lock":
        jar = lock_one_jar(directory)
        assert errors() == []
        assert make_provider(load()).check()
    if state == "for others":
        write(packages=["org.example:client:2.0"])
    elif state == "damaged":
        (directory / LOCK).write_text("no sum")
    elif state == "missing":
        jar.unlink()
    elif state == "changed":
        jar.write_bytes(b"others")
    ((path, text),) = errors()
    assert path == "provider.packages"
    assert said in text
    assert text.endswith("connector jars --resolve")
    with pytest.raises(ProviderError) as refused:
        make_provider(load()).check()
    assert str(refused.value).removeprefix("provider.packages: ") == text
    assert run(["check"]) == 2
    assert run(["config"]) == 0, "other commands go on"


def test_check_finds_the_missing_extra(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    lock_one_jar(write())
    find = importlib.util.find_spec
    monkeypatch.setattr(
        "importlib.util.find_spec", lambda name, *more: None if name == "jpype" else find(name, *more)
    )
    ((path, text),) = errors()
    assert path == "provider.type"
    assert "pip install 'event-connector[jms]'" in text
    with pytest.raises(CapabilityError, match=r"pip install 'event-connector\[jms\]'"):
        jvm.check_installed()


def test_check_finds_no_lack_without_packages(write: Write) -> None:
    directory = write(packages=None, classpath=["client.jar"])
    assert [path for path, _ in errors()] == ["provider.classpath[0]"]
    (directory / "client.jar").touch()
    assert errors() == []


@rows("selector", ["\"x-region\" = 'EU'", "XPATH 'a/b'", "a = = 1", "x LIKE 'a' ESCAPE", "a.b = 1 #", "('"])
def test_a_selector_of_a_broker_is_a_warning_at_most(write: Write, selector: str) -> None:
    inputs = {"InputDestination": [{"destination": "queue://orders", "selector": selector}]}
    place = "connector.InputDestination[0].selector"
    lock_one_jar(write(inputs))
    (problem,) = (one for one in check() if "selector" in one.path)
    assert (problem.warning, problem.path) == (True, place)
    assert errors() == []
    assert load().connector.inputs[0].selector == selector
    write(inputs, type="dropbox", root="data", create=True, factory=None, url=None, packages=None)
    assert [path for path, _ in errors()] == [place]


@rows(
    "given",
    [
        "amqp://h:1",
        "amqp://h:1?jms.x y=1",
        "failover:(amqp://a:1?x=y,amqp://b:2)?z=1",
        "failover:(amqp://a:1",
        "amqps://h:1?jms.prefetchPolicy.all=3&amqp.idleTimeout=9",
    ],
)
def test_a_text_of_the_client_shows_no_options_of_the_adapter(given: str) -> None:
    for made in (with_options(QPID, given, 7), for_browsers(QPID, given, 5.0)):
        assert without_additions(f"no URL: {made}", given, made) == f"no URL: {given}"
        options = made.removeprefix(given)[1:]
        assert without_additions(f"at h:1?{options}", given, made) == "at h:1"


JNDI: dict[str, Any] = {"factory": None, "url": None, "ConnectionFactoryName": "jms/cf"}


@rows(
    "keys, path, words",
    [
        ({"packages": ["qpid-jms-client:2.10.0"]}, "packages[0]", "GROUP:ARTIFACT:VERSION"),
        ({"packages": None}, "", "the client library"),
        ({"classpath": ["lib/*.jar"]}, "classpath[0]", "a jar"),
        ({"java_options": ["Xmx1g"]}, "java_options[0]", "an option of java"),
        ({"java_options": ["-Djava.class.path=x.jar"]}, "java_options[0]", "classpath"),
        ({"factory": "no class"}, "factory", "JmsConnectionFactory"),
        ({"ApplicationPassword": "x"}, "ApplicationPassword", "both"),
        ({"commit_queue": "topic://t"}, "commit_queue", "a queue, or none"),
        ({"batch": 251}, "batch", "250"),
        ({"factory": None}, "factory", "factory is missing"),
        ({"url": None}, "factory", "neither url nor properties"),
        ({**JNDI, "url": "amqp://h"}, "url", "url beside ConnectionFactoryName"),
        ({"ConnectionFactoryName": "cf"}, "factory", "factory beside ConnectionFactoryName"),
        ({**JNDI, "CTX_ProviderURL": "a", "CTX_PROVIDER_URL": "b"}, "CTX_PROVIDER_URL", "one name in JNDI"),
        ({"CTX_x": "y"}, "CTX_x", "without ConnectionFactoryName"),
        ({"LookupDestinationsUsingJNDI": True}, "LookupDestinationsUsingJNDI", "without"),
        ({**JNDI, "CTX_x": ["y"]}, "CTX_x", "a list"),
        ({**JNDI, "CTY_x": "y"}, "CTY_x", "unknown key"),
    ],
)
def test_a_mistake_names_its_place(write: Write, keys: dict[str, Any], path: str, words: str) -> None:
    lock_one_jar(write(**keys))
    place = f"provider.{path}".removesuffix(".")
    (problem,) = (one for one in check() if one.path == place and not one.warning)
    assert words in f"{problem.found}, expected {problem.expected}"
    assert len(errors()) == 1 or keys.get("packages"), "other packages are not locked, too"


_LARGE = {"PollQuantity": 100, "max_body": 10 << 20}


@rows(
    "connector, keys, expected",
    [
        (_LARGE, {"java_options": ["-Xmx256m"]}, "a heap of 256 MiB: PollQuantity 100 messages"),
        (_LARGE, {"java_options": ["-Xmx2g"]}, ""),
        (_LARGE, {"java_options": ["-Xmx2g", "-Xmx1119M"]}, "need 1120 MiB for each input"),
        (_LARGE, {"java_options": ["-XX:MaxRAMPercentage=0.01"]}, "need 1120 MiB"),
        (_LARGE, {"java_options": ["-Xmx256m"], "batch": 5}, ""),
        (_LARGE, {"java_options": ["-Xmx256m"], "factory": CORE}, ""),
        (_LARGE, {"java_options": ["-Xmx256m"], "type": "amqp", "factory": None}, "need 1120 MiB"),
        ({"max_body": 10 << 20}, {"java_options": ["-Xmx190m"]}, ""),
        (
            {"PollQuantity": 1, "max_body": 300 << 20},
            {"java_options": ["-Xmx1g"]},
            "messages of max_body 300MiB",
        ),
    ],
)
def test_a_heap_that_is_too_small_for_the_messages_is_a_warning(
    write: Write, connector: dict[str, Any], keys: dict[str, Any], expected: str
) -> None:
    lock_one_jar(write(connector, **keys))
    found = [one.found for one in check() if one.warning and one.path == "provider.java_options"]
    assert bool(found) is bool(expected)
    assert all(expected in text for text in found)
    assert errors() == [] or keys.get("type")


def test_a_heap_without_an_option_is_a_share_of_the_memory() -> None:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert 0 < jvm.heap_size([]) <= memory / 4
    assert jvm.heap_size(["-XX:MaxRAMPercentage=50"]) == pytest.approx(2 * jvm.heap_size([]), rel=0.01)
    assert jvm.heap_size(["-XX:MaxHeapSize=4096k"]) == 4 << 20


def test_a_key_of_jndi_stands_in_one_section(write: Write) -> None:
    lock_one_jar(write({"ConnectionFactoryName": "other"}, **JNDI))
    assert [path for path, _ in errors()] == ["connector.ConnectionFactoryName"]


def test_the_url_gets_the_prefetch_of_the_poll() -> None:
    limits = "jms.sendTimeout=30000&jms.requestTimeout=30000&jms.closeTimeout=10000"
    always = f"{limits}&jms.validatePropertyNames=false"
    answer = "amqp.drainTimeout=30000"
    local = f"{always}&jms.receiveLocalOnly=true&{answer}"
    ours = f"{local}&jms.prefetchPolicy.all=7"
    assert with_options(QPID, "amqp://h:1", 7) == f"amqp://h:1?{ours}"
    assert with_options(QPID, "amqp://h:1?a=b", 7) == f"amqp://h:1?a=b&{ours}"
    failover = "failover:(amqp://a:1?x=y,amqp://b:2)"
    lost, new = "failover.maxReconnectAttempts=", "failover.startupMaxReconnectAttempts="
    once = f"{lost}0&{new}1"
    ours = ours.replace(answer, f"failover.nested.{answer}")
    assert with_options(QPID, failover, 7) == f"{failover}?{ours}&{once}"
    assert with_options(QPID, failover + "?z=1", 7) == f"{failover}?z=1&{ours}&{once}"
    assert with_options(QPID, f"{failover}?{new}9", 7) == f"{failover}?{new}9&{ours}&{lost}0"
    made = with_options(QPID, f"{failover}?{lost}9&z=1", 7)
    assert made == f"{failover}?{lost}0&z=1&{ours}&{new}9", "the limit is that of a new connection"
    assert with_options(QPID, made, 7) == made
    nested = "failover.nested.amqp.drainTimeout=5000"
    assert for_browsers(QPID, failover, 5.0) == f"{failover}?{always}&{nested}&{once}"
    few = "jms.prefetchPolicy.queueBrowserPrefetch=4"
    assert for_browsers(QPID, "amqp://h:1", 30.0) == f"amqp://h:1?{always}&{answer}&{few}"
    for short in ("amqp://h:1?amqp.drainTimeout=9", "failover:(amqp://h:1?amqp.drainTimeout=9)"):
        assert "=9" not in for_browsers(QPID, short, 5.0), "a browser does not tell of a time-out"
        assert "amqp.drainTimeout=9" in with_options(QPID, short, 7)
    own = "amqp://h:1?jms.prefetchPolicy.queuePrefetch=1000"
    assert with_options(QPID, own, 7) == f"{own}&{local}"
    assert with_options("org.example.Other", "tcp://h:1", 7) == "tcp://h:1"


def test_other_known_clients_get_options_of_their_own() -> None:
    policy = "jms.redeliveryPolicy"
    always = f"jms.alwaysSyncSend=true&jms.sendTimeout=30000&{policy}.maximumRedeliveries=-1"
    always += f"&{policy}.initialRedeliveryDelay=0&{policy}.redeliveryDelay=0"
    assert with_options(CLASSIC, "tcp://h:1", 7) == f"tcp://h:1?{always}&jms.prefetchPolicy.all=7"
    assert for_browsers(CLASSIC, "tcp://h:1", 5.0) == f"tcp://h:1?{always}"
    failover = "failover:(tcp://a:1,tcp://b:2)"
    assert with_options(CLASSIC, failover, 7).endswith(
        "&maxReconnectAttempts=0&startupMaxReconnectAttempts=1"
    )
    limited = with_options(CLASSIC, f"{failover}?maxReconnectAttempts=9", 7)
    assert limited.startswith(f"{failover}?maxReconnectAttempts=0&")
    assert limited.endswith("&startupMaxReconnectAttempts=9")
    assert with_options(CORE, "tcp://h:1", 7) == "tcp://h:1?consumerWindowSize=7168"
    assert with_options(CORE, "tcp://h:1?consumerWindowSize=1", 7) == "tcp://h:1?consumerWindowSize=1"
    assert for_browsers(CORE, "tcp://h:1", 5.0) == "tcp://h:1"


@rows("no_local", [False, True])
def test_a_client_that_shares_no_subscription_has_one_instance(write: Write, no_local: bool) -> None:
    topic = {"destination": "topic://prices", "subscription": "mine", "no_local": no_local}
    lock_one_jar(write({"InputDestination": [topic]}, factory=CLASSIC, url="tcp://h:1"))
    found = [one for one in check() if not one.warning]
    assert [one.path for one in found] == ([] if no_local else ["connector.InputDestination[0]"])
    assert all("no_local: true" in one.expected for one in found)


def test_a_broker_for_amqp_needs_two_lines(write: Write) -> None:
    lock_one_jar(write(type="amqp", factory=None))
    assert errors() == []
    write(type="amqp", factory=None, packages=None, url="amqps://h:1")
    ((path, text),) = errors()
    assert path == "provider.packages"
    assert "is for other packages" in text
    section = load().provider
    assert isinstance(section, AmqpSection)
    assert section.packages == ("org.apache.qpid:qpid-jms-client:2.10.0", "org.slf4j:slf4j-nop:2.0.17")
    assert isinstance(make_provider(load()), JmsProvider)


@rows("section", ["provider", "connector"])
def test_jndi_stands_where_wbi_adapter_has_it_or_under_provider(write: Write, section: str) -> None:
    keys = {
        "ConnectionFactoryName": "jms/cf",
        "LookupDestinationsUsingJNDI": True,
        "CTX_InitialContextFactory": "x.Y",
        "CTX_ProviderURL": "file:///d",
        "CTX_SECURITY_PRINCIPAL": "me",
        "CTX_SecurityCredentials": "hush",
        "CTX_queue.orders": "Q",
    }
    in_provider = section == "provider"
    write({} if in_provider else keys, factory=None, url=None, **(keys if in_provider else {}))
    provider = load().provider
    assert isinstance(provider, JmsSection)
    assert environment_of(provider.context) == {
        "java.naming.factory.initial": "x.Y",
        "java.naming.provider.url": "file:///d",
        "java.naming.security.principal": "me",
        "java.naming.security.credentials": "hush",
        "queue.orders": "Q",
    }
    assert (provider.ConnectionFactoryName, provider.LookupDestinationsUsingJNDI) == ("jms/cf", True)
    shown = as_yaml(as_document(load()))
    assert "CTX_queue.orders: Q" in shown
    assert "hush" not in shown + repr(provider)


def test_no_secret_is_shown(write: Write) -> None:
    login = {"ApplicationUserName": "me", "ApplicationPassword": "hush2"}
    write(url="amqp://h:1?jms.password=hush1", **login)
    assert "hush" not in as_yaml(as_document(load()))
    assert "hush" not in without_secrets("refused hush2 at amqp://me:hush1@h", "hush2")


def test_the_commands_name_the_way_to_get_the_jars(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    write()
    assert run(["browse", "orders"]) == 1
    assert "run: connector jars --resolve" in capsys.readouterr().err
    assert run(["jars"]) == 1
    assert "connector jars --resolve" in capsys.readouterr().err


def test_jars_lists_what_is_there_missing_and_changed(
    write: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    jar = lock_one_jar(write())
    for content, state, status in ((b"classes", "there", 0), (b"others", "changed", 1), (None, "missing", 1)):
        jar.unlink()
        if content is not None:
            jar.write_bytes(content)
        assert run(["jars", "--json"]) == status
        (line,) = capsys.readouterr().out.splitlines()
        name = "org.example/client/1.0/client-1.0.jar"
        assert json.loads(line) == {"jar": name, "path": str(jar), "state": state}


@rows(
    "old, new",
    [
        ("url: amqp", "ApplicationPassword: ${NO_SUCH_VARIABLE}\n  url: amqp"),
        ("url: amqp://127.0.0.1:1", "url: ${NO_SUCH_VARIABLE}"),
        ("url: amqp://127.0.0.1:1", "batch: many"),
        ("url: amqp://127.0.0.1:1", "url: [amqp]"),
        ("url: amqp", "classpath: [nowhere.jar]\n  url: amqp"),
        ("type: jms\n  url: amqp://127.0.0.1:1", "type: amqp"),
        ("type: jms\n  url: amqp://127.0.0.1:1", "type: amqp\n  url: [amqp]"),
        ("factory:", "factry:"),
        ("ApplicationName:", "AplicationName:"),
        ("queue://orders", "nonsense://orders"),
        ("queue://orders", "${NO_SUCH_VARIABLE}"),
        ("connector:", "conector:"),
        ("connector:", "spark: {core: 1}\nsubscriptions: 5\nstate: nowhere\nconnector:"),
        ("connector:", 'http: {listen: nowhere, tokens: ["${NO_SUCH_VARIABLE}"]}\nconnector:'),
        ("connector:", "metaobjects: ./nowhere\nconnector:"),
    ],
)
def test_a_mistake_elsewhere_keeps_nobody_from_the_jars(
    write: Write, monkeypatch: pytest.MonkeyPatch, old: str, new: str
) -> None:
    directory = write()
    (directory / "queue.py").touch()  # hides a module of Python
    edit(directory, old, new)
    asked: list[tuple[str, ...]] = []
    monkeypatch.setattr("connector.brokers.verbs.jars._resolve", lambda jars, _: asked.append(jars.packages))
    assert run(["jars", "--resolve"]) == 1, "nothing was fetched"
    assert asked == [(PACKAGE,)]
    jar = lock_one_jar(directory)
    assert run(["jars"]) == 0
    jar.unlink()
    assert run(["jars"]) == 1
    assert run(["check"]) == 2


def edit(directory: Path, old: str, new: str) -> None:
    text = (directory / "adapter.yaml").read_text()
    assert old in text
    (directory / "adapter.yaml").write_text(text.replace(old, new))


@rows(
    "old, new, word",
    [
        ("packages:", "package:", "provider.package:"),
        (PACKAGE, "org.example", "provider.packages[0]"),
        (PACKAGE, "${NO_SUCH_VARIABLE}", "NO_SUCH_VARIABLE"),
        ("type: jms", "type: jsm", "provider.type"),
        ("type: jms", "type: ${NO_SUCH_VARIABLE}", "NO_SUCH_VARIABLE"),
        ("provider:", "providr:", "providr"),
        ("provider:", "provider: [", "adapter.yaml"),
    ],
)
def test_the_jars_need_their_provider_and_hear_of_nothing_else(
    write: Write, capsys: pytest.CaptureFixture[str], old: str, new: str, word: str
) -> None:
    directory = write({"InputDestination": "nonsense://orders"}, batch="many")
    edit(directory, old, new)
    assert run(["jars"]) == 2
    told = capsys.readouterr().err
    assert word in told
    assert "nonsense" not in told
    assert "many" not in told


@rows(
    "keys",
    [
        {"classpath": ["nowhere.jar"]},
        {"ApplicationPassword": "x"},
        {"java_options": ["-cp"]},
        {"factory": "x y"},
        {"url": None},
        {"batch": "many"},
    ],
)
def test_check_tells_of_missing_jars_beside_each_other_mistake(write: Write, keys: dict[str, Any]) -> None:
    write(**keys)
    found = errors()
    assert len(found) == 2
    assert any(path == "provider.packages" and "does not exist" in text for path, text in found)


def test_the_lock_is_one_that_sha256sum_reads_and_knows_another_jar_of_the_same_version(write: Write) -> None:
    directory = write()
    jar = lock_one_jar(directory)
    lines = (directory / LOCK).read_text().splitlines()
    assert lines[-1] == f"{sum_of(jar)}  org.example/client/1.0/client-1.0.jar"
    assert all(line.startswith("#") for line in lines[:-1])
    jar.write_bytes(b"others")
    with pytest.raises(ProviderError, match="another org"):
        Jars([PACKAGE], directory).write([jar])


@rows(
    "url, options, text",
    [
        ("jms:amqp://127.0.0.1:1", {}, "factory is missing"),
        ("jms:amqp://127.0.0.1:1", {"factory": "x y"}, "no name of a Java class"),
        ("amqp://127.0.0.1:1", {"nope": 1}, "amqp: nope"),
        ("amqp://127.0.0.1:1", {"batch": "many"}, "amqp: batch"),
        ("amqp://127.0.0.1:1", {"ApplicationPassword": "secret"}, "without ApplicationUserName"),
        ("amqp:http://127.0.0.1:1", {}, "no URL of AMQP"),
        ("amqp://127.0.0.1:1", {}, "connector jars --resolve"),
    ],
)
def test_a_mistake_of_a_url_is_told_before_java_starts(
    tmp_path: Path, url: str, options: dict[str, Any], text: str
) -> None:
    with pytest.raises((TypeError, ProviderError)) as found:
        connect(url, directory=tmp_path, **options)
    assert text in str(found.value)
    assert "secret" not in str(found.value)


@rows("name", ["ldap:..127.0.0.1:1389.x", "rmi:x", "java:comp.env"])
def test_a_name_with_a_colon_is_never_looked_up(name: str) -> None:
    """A foreign message may name it for its reply, and JNDI would ask the server that it names."""
    naming = Naming({"java.naming.factory.initial": "no.such.Factory"}, "factory", destinations=True)
    java_that_must_not_be_used = None
    assert naming.find(java_that_must_not_be_used, Destination("queue", name)) == (
        None,
        "a name in JNDI has no colon",
    )
