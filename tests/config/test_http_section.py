"""The section ``http``: who is let in is what was meant."""

from __future__ import annotations

from typing import TYPE_CHECKING

from connector.config.http_model import Address, is_loopback
from connector.config.resolved import as_document, as_yaml, explained
from connector.declare.masking import MASK
from tests.tables import rows

if TYPE_CHECKING:
    from tests.config.conftest import Sample

A = "adapter.yaml"
TOKEN = "0123456789abcdefghij"


def add(deployment: Sample, section: str) -> None:
    deployment.write(A, deployment.read(A) + f"\n{section}\n")


def test_without_the_section_there_is_no_server(deployment: Sample) -> None:
    assert deployment.load().http is None


def test_an_empty_section_is_a_server_of_this_machine_alone(deployment: Sample) -> None:
    add(deployment, "http: {}")
    http = deployment.load().http
    assert http is not None
    assert (str(http.listen), http.listen.is_loopback, http.tokens) == ("127.0.0.1:8080", True, ())
    assert (http.max_body, http.max_requests, http.max_timeout) == (1 << 20, 1000, 300.0)
    assert (http.idempotency_time, http.idempotency_keys) == (86400.0, 10_000)


@rows(
    "text, host, port",
    [
        ("0.0.0.0:80", "0.0.0.0", 80),
        ("'[::]:8080'", "::", 8080),
        ("localhost:0", "localhost", 0),
        ("orders.example.com:65535", "orders.example.com", 65535),
    ],
)
def test_an_address_is_a_host_and_a_port(deployment: Sample, text: str, host: str, port: int) -> None:
    add(deployment, f"http:\n  listen: {text}\n  tokens: {TOKEN}")
    http = deployment.load().http
    assert http is not None
    assert http.listen == Address(host, port)
    assert str(http.listen) == text.strip("'")


@rows(
    "host, loopback",
    [
        ("127.0.0.1", True),
        ("127.255.0.9", True),
        ("::1", True),
        ("localhost", True),
        ("LOCALHOST.", True),
        ("0.0.0.0", False),
        ("::", False),
        ("10.0.0.1", False),
        ("localhost.example.com", False),
        ("127.0.0.1.example.com", False),
        ("", False),
    ],
)
def test_loopback_is_what_only_this_machine_reaches(host: str, loopback: bool) -> None:
    assert is_loopback(host) is loopback


def test_tokens_are_never_shown(deployment: Sample) -> None:
    other = "another-token-of-some-length"
    add(deployment, f'http: {{tokens: ["${{TOKEN}}", {other}]}}')
    configuration = deployment.load(TOKEN=TOKEN)
    assert configuration.http is not None
    assert [one.token for one in configuration.http.tokens] == [TOKEN, other]
    shown = as_yaml(as_document(configuration))
    assert shown.count(MASK) == 2
    for secret in (TOKEN, other):
        assert secret not in shown + repr(configuration) + str(configuration.http)


def test_a_token_has_a_name_and_roles(deployment: Sample) -> None:
    entries = "[{token: '${TOKEN}', name: alice, roles: [read, operate]}, another-token-of-some-length]"
    add(deployment, f"http: {{tokens: {entries}}}")
    configuration = deployment.load(TOKEN=TOKEN)
    assert configuration.http is not None
    alice, other = configuration.http.tokens
    assert (alice.token, alice.name, alice.roles) == (TOKEN, "alice", ("read", "operate"))
    assert (other.name, other.roles) == (None, ("read", "operate", "request"))
    shown = as_document(configuration)["http"]["tokens"]
    assert shown == [{"token": MASK, "name": "alice", "roles": ["read", "operate"]}, MASK]
    assert TOKEN not in repr(configuration)


@rows(
    "entries, path, text",
    [
        (f"[{{token: {TOKEN}, roles: [reed]}}]", "http.tokens[0].roles[0]", "did you mean 'read'"),
        (f"[{{token: {TOKEN}, roles: []}}]", "http.tokens[0].roles", "no role"),
        (f"[{{name: alice}}, {TOKEN}]", "http.tokens[0]", "token is missing"),
        (f"[{TOKEN}, {TOKEN}]", "http.tokens[1]", "a token that stands twice"),
        (
            f"[{{token: {TOKEN}, name: a}}, {{token: {TOKEN}x, name: a}}]",
            "http.tokens[1].name",
            "another token",
        ),
        ("[{token: '${EMPTY}'}]", "http.tokens[0].token", "${EMPTY} is empty"),
        ("[{token: two words}]", "http.tokens[0].token", "a text that cannot be sent"),
    ],
)
def test_mistakes_in_tokens_are_found_where_they_are(
    deployment: Sample, entries: str, path: str, text: str
) -> None:
    add(deployment, f"http: {{tokens: {entries}}}")
    problems = deployment.check(EMPTY="")
    assert [problem.path for problem in problems] == [path]
    assert text in str(problems[0])
    assert TOKEN not in str(problems[0])


@rows("bad", ["two words", 'quo"te', "umlaut-ä", "a=b"])
def test_a_mistake_in_a_token_does_not_show_it(deployment: Sample, bad: str) -> None:
    add(deployment, "http:\n  tokens: ['${TOKEN}']")
    problems = deployment.check(TOKEN=bad)
    assert [problem.path for problem in problems] == ["http.tokens[0]"]
    assert bad not in str(problems[0])


def test_a_token_that_can_be_guessed_is_a_warning(deployment: Sample) -> None:
    add(deployment, "http: {tokens: [secret]}")
    (problem,) = deployment.check()
    assert problem.warning
    assert "a token of 6 characters can be guessed, expected 16 or more" in str(problem)
    assert "'secret'" not in str(problem)


def test_a_variable_that_is_not_set_is_one_mistake(deployment: Sample) -> None:
    add(deployment, "http:\n  tokens:\n    - ${TOKEN}")
    (problem,) = deployment.check()
    assert "TOKEN is not set" in str(problem)


def test_each_key_is_explained_and_a_secret_is_masked(deployment: Sample) -> None:
    add(deployment, f'http: {{tokens: [{{token: "{TOKEN}", name: ann, roles: [read]}}]}}')
    found = explained(deployment.load())
    assert list(found) == list(as_document(deployment.load()))
    http = {one.key: one for one in found["http"]}
    assert http["tokens[1].token"].value == f"'{MASK}'"
    assert (http["tokens[1].name"].value, http["tokens[1].roles"].value) == ("ann", "[read]")
    assert TOKEN not in str(found)
    without = [(name, one.key) for name, rows in found.items() for one in rows if not one.text]
    assert without == []
