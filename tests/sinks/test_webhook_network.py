"""What the sink ``webhook`` makes of the environment: proxies, their exceptions, and certificates."""

# ruff: noqa: E501 -- one case a line

from __future__ import annotations

import re
import ssl
from contextlib import closing
from pathlib import Path

import pytest

from connector.errors import ConnectorError, WrongValue
from connector.sinks.webhook.network import check_network, find_proxy
from connector.sinks.webhook.sink import WebhookUnavailable
from connector.testing.sinks import sample_event, sample_object
from tests.postgres import free_port
from tests.sinks.test_webhook_sink import deliver, sink
from tests.sinks.web_server import WebServer, answer, raw, server, serving
from tests.tables import rows, texts

__all__ = ["server"]

P = "http://proxy:3128"


def proxy_of(url: str, **environment: str) -> str | None:
    found = find_proxy(url, environment)
    return None if found is None else f"{found.url} by {found.variable}"


@rows(
    "environment, url, expected",
    [
        ({}, "http://h.example", None),
        ({"HTTP_PROXY": P}, "http://h.example", f"{P} by HTTP_PROXY"),
        ({"http_proxy": P}, "http://h.example", f"{P} by http_proxy"),
        ({"http_proxy": P, "HTTP_PROXY": "http://other"}, "http://h.example", f"{P} by http_proxy"),
        ({"http_proxy": "", "HTTP_PROXY": P}, "http://h.example", None),
        ({"http_proxy": "", "ALL_PROXY": P}, "http://h.example", f"{P} by ALL_PROXY"),
        ({"HTTP_PROXY": P}, "https://h.example", None),
        ({"HTTPS_PROXY": P, "HTTP_PROXY": "no:port"}, "https://h.example", f"{P} by HTTPS_PROXY"),
        ({"https_proxy": P, "all_proxy": "no:port"}, "https://h.example", f"{P} by https_proxy"),
        ({"ALL_PROXY": " proxy:3128 "}, "https://h.example", f"{P} by ALL_PROXY"),
        ({"HTTP_PROXY": "HTTP://proxy:3128/"}, "http://h.example", f"{P} by HTTP_PROXY"),
        ({"HTTP_PROXY": "https://[fd00::1]:8"}, "http://h.example", "https://[fd00::1]:8 by HTTP_PROXY"),
        ({"HTTP_PROXY": "http://u:p%40ss@proxy:3128"}, "http://h.example", f"{P} by HTTP_PROXY"),
        ({"HTTP_PROXY": "http://u:p@ss@proxy:3128"}, "http://h.example", f"{P} by HTTP_PROXY"),
        ({"HTTP_PROXY": "nonsense://x", "NO_PROXY": "*"}, "http://h.example", None),
        ({"NO_PROXY": "[::1"}, "http://h.example", None),
    ],
)
def test_the_proxy_of_a_server(environment: dict[str, str], url: str, expected: str | None) -> None:
    assert proxy_of(url, **environment) == expected


def test_the_user_of_a_proxy_is_decoded_and_never_shown() -> None:
    found = find_proxy("http://h.example", {"HTTP_PROXY": "http://jos%C3%A9:s%3Acret@proxy:3128"})
    assert found is not None
    assert found.user == ("josé".encode(), b"s:cret")
    assert "cret" not in repr(found)


BAD_PROXIES = """
    http://proxy:port  http://proxy:99999  http://proxy:0  http://proxy:  http://  ://  http://[::1:8080
    http://[nonsense]:80  http://pro xy:80  http://proxy:80/path  http://proxy:80?a=b  http:/proxy:80  //proxy:80
    http://u:s3cret@  http://u:s3cret#4@proxy:80  http://u:s3/cret@proxy:80  ftp://u:s3cret@proxy:21
    socks5://u:s3cret@proxy:1080  socks4://proxy:1080  http://pröxy:80  http://proxy:80,http://other:80  \udcff
"""


@rows("value", texts(BAD_PROXIES))
@rows("name", ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"])
def test_a_proxy_that_cannot_be_used_is_a_mistake(value: str, name: str) -> None:
    with pytest.raises(WrongValue, match=f"^{name} with.*, expected .*http://HOST:PORT") as refused:
        check_network("http://h.example", {name: value, "NO_PROXY": "other"})
    assert "s3" not in str(refused.value)


EXCEPTED = """
    http://h.example by h.example   http://h.example by H.Example   http://a.h.example by h.example
    http://h.example. by h.example  http://h.example by h.example.  http://h.example by *
    http://h.example by other, h.example  http://h.example by other h.example  http://h.example by ,,h.example,
    http://h.example by h.example:80  https://h.example by h.example:443  http://h.example:81 by h.example:81
    http://a.h.example by .h.example  http://a.h.example by *.h.example  http://b.a.h.example by .h.example
    http://h.example by http://h.example  https://h.example by https://h.example/  http://localhost:8 by localhost
    http://127.0.0.1 by 127.0.0.1  http://127.0.0.1:81 by 127.0.0.0/8  http://127.9.9.9 by 127.0.0.1/8
    http://127.0.0.1:81 by 127.0.0.1:81  http://10.1.2.3 by ::1/128,10.0.0.0/8  http://10.1.2.3 by 10.0.0.0/255.0.0.0
    http://[::1] by ::1  http://[::1]:81 by [::1]  http://[::1]:81 by [::1]:81  http://[::1] by ::1/128
    http://[0:0::1] by ::1  http://[fd00::5] by fd00::/8  http://[fd00::5] by [fd00::]/8  http://[FD00::5] by [fd00::/8]
"""
NOT_EXCEPTED = """
    http://h.example by example.h   http://xh.example by h.example  http://h.example by .h.example
    http://h.example by *.h.example   http://h.example by a.h.example   http://h.example:81 by h.example:80
    http://h.example by https://h.example  http://127.0.0.1 by 128.0.0.0/8  http://h.example by 0.0.0.0/0
    http://[::1]:81 by [::1]:80  http://[::1] by ::2/128  http://[::1] by 0.0.0.0/0  http://1.2.3.4 by 2.3.4
    http://h.example by 127.0.0.1,localhost,::1/128,[::1]
"""


@rows("row", texts(EXCEPTED + NOT_EXCEPTED))
@rows("name", ["no_proxy", "NO_PROXY"])
def test_what_is_called_without_the_proxy(row: str, name: str) -> None:
    url, _, value = row.partition(" by ")
    assert (proxy_of(url, ALL_PROXY=P, **{name: value}) is None) is (row in texts(EXCEPTED))


BAD_EXCEPTIONS = """
    [::1   ::1]   10.0.0.0/99   ::1/129   h.example:port   h.example:99999   h.example:0   10.*   <local>   a;b
    h.example/path  http://  [h.example]  10.0.0.0/8:80  \udcff
"""


@rows("value", [*texts(BAD_EXCEPTIONS), *(f"*,h.example,{one}" for one in texts(BAD_EXCEPTIONS))])
def test_an_exception_that_cannot_be_read_is_a_mistake(value: str) -> None:
    wrong = ascii(value.rpartition(",")[2])
    with pytest.raises(WrongValue) as refused:
        check_network("http://h.example", {"HTTP_PROXY": P, "NO_PROXY": value})
    assert refused.value.found == f"NO_PROXY with {wrong}"


# --- the way to the server -------------------------------------------------------------------


def test_a_proxy_gets_the_whole_url_and_its_user(server: WebServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", server.url.replace("http://", "http://me:s3%3Acret@"))
    monkeypatch.setenv("NO_PROXY", "localhost,127.0.0.0/8,::1/128")
    deliver("http://h.example/x?a=b")
    deliver("http://[fd00::1]:81")
    deliver(f"{server.url}/direct")
    targets = [one.target for one in server.asked]
    assert targets == ["http://h.example/x?a=b", "http://[fd00::1]:81/", "/direct"]
    users = [one.headers.get("proxy-authorization") for one in server.asked]
    assert users == ["Basic bWU6czM6Y3JldA==", "Basic bWU6czM6Y3JldA==", None]
    assert server.asked[1].headers["host"] == "[fd00::1]:81"
    server.answers = [answer(407, b"who are you?")]
    route = f"http://h.example through the proxy {server.url} (HTTP_PROXY): the answer is 407"
    with pytest.raises(ConnectorError, match=re.escape(route)):
        deliver("http://h.example")


@rows("scheme", ["http", "https"])
def test_a_proxy_that_is_away_is_named(scheme: str, monkeypatch: pytest.MonkeyPatch) -> None:
    port = free_port()
    monkeypatch.setenv("ALL_PROXY", f"http://me:s3cret@127.0.0.1:{port}")
    with pytest.raises(WebhookUnavailable) as failed:
        deliver(f"{scheme}://h.example/x")
    proxy = f"http://127.0.0.1:{port} (ALL_PROXY)"
    assert str(failed.value) == f"{scheme}://h.example through the proxy {proxy}: Connection refused"


def test_a_proxy_that_makes_no_tunnel_is_named(server: WebServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("https_proxy", server.url)
    with pytest.raises(WebhookUnavailable, match=r"\(https_proxy\): the proxy has answered 501 Unsupported"):
        deliver("https://h.example/x")


# --- certificates ----------------------------------------------------------------------------

CERTIFICATE = """\
-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgybIMbCXtqNCQXSC9
/gJZwKvCZfwHE7flYfvexYG0nTyhRANCAAQGfJh4JvlRD7/JISDWRho7FEPPmhj+
M/7M78QAc7HPQVEkpLqoY2bF3MX2WlzR2uJJgeLFQQWQmXtVVl7SpB5y
-----END PRIVATE KEY-----
-----BEGIN CERTIFICATE-----
MIIBmjCCAUGgAwIBAgIUA1N4TGokS8B3TNIeR89UzjogENcwCgYIKoZIzj0EAwIw
FDESMBAGA1UEAwwJbG9jYWxob3N0MCAXDTI2MTEyODIzNDgyMloYDzIxMjYxMTA0
MjM0ODIyWjAUMRIwEAYDVQQDDAlsb2NhbGhvc3QwWTATBgcqhkjOPQIBBggqhkjO
PQMBBwNCAAQGfJh4JvlRD7/JISDWRho7FEPPmhj+M/7M78QAc7HPQVEkpLqoY2bF
3MX2WlzR2uJJgeLFQQWQmXtVVl7SpB5yo28wbTAdBgNVHQ4EFgQU7RuVvxVClhKw
X0VFZ6PHabZuoB0wHwYDVR0jBBgwFoAU7RuVvxVClhKwX0VFZ6PHabZuoB0wDwYD
VR0TAQH/BAUwAwEB/zAaBgNVHREEEzARhwR/AAABgglsb2NhbGhvc3QwCgYIKoZI
zj0EAwIDRwAwRAIgQYdFtqOVFs22cQa8PEmFtu94UXA6EonEqKoag+v4IEACIBnk
CivmQlWlzJCZDkyid0qQf0/JMR95DhcDGutcro3f
-----END CERTIFICATE-----
"""
"""A key and a certificate for 127.0.0.1 until the year 2126, of nobody but this test."""


def test_certificates_count_in_place_of_the_known_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate = tmp_path / "own.pem"
    certificate.write_text(CERTIFICATE)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate)
    with serving(tls) as secured:
        with pytest.raises(WebhookUnavailable, match=r"certificate is refused \(self-signed certificate\)"):
            deliver(secured.url)
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        deliver(secured.url)
        good = b"HTTP/1.1 200 X\r\nContent-Length: 0\r\n\r\n"
        secured.answers = [raw(good), raw(good + good), answer(500)]
        with closing(sink(secured.url)) as made:
            for _ in range(2):
                made.deliver(sample_object(), sample_event())
            with pytest.raises(WebhookUnavailable, match="the answer is 500"):
                made.deliver(sample_object(), sample_event())


@rows("variable", ["SSL_CERT_FILE", "SSL_CERT_DIR", "SSLKEYLOGFILE"])
@rows("value", ["missing/x", "empty", ".", "missing/x:.", "missing/\udcff"])
def test_certificates_that_cannot_be_read_are_a_mistake(
    tmp_path: Path, variable: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "empty").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(variable, value)
    if (variable, value) in [("SSL_CERT_DIR", "."), ("SSLKEYLOGFILE", "empty")]:
        check_network("https://h.example")
        return
    check_network("http://h.example")
    with pytest.raises(WrongValue, match=f"^{variable} with {re.escape(ascii(value))}[^\\[]*, expected "):
        check_network("https://h.example")
    with pytest.raises(ConnectorError, match=f"the webhook https://h.example: found {variable} with"):
        deliver("https://h.example")
