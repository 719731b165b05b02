"""What the environment of the process says about the network: proxies, and the authorities of certificates.

``HTTP_PROXY``, ``HTTPS_PROXY``, ``ALL_PROXY`` and ``NO_PROXY`` also count in lower case, which comes first.
``SSL_CERT_FILE`` and ``SSL_CERT_DIR`` count in place of the authorities that the package certifi brings.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote_to_bytes

from connector.errors import WrongValue

if TYPE_CHECKING:
    import ssl

_AUTHORITY: Final = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9._-]+))(?::([0-9]{1,5}))?")
_PROXY: Final = re.compile(r"(?:([A-Za-z0-9+.-]+)://)?(?:([^/?#]*)@)?([^@/?#]*)/?")
_BRACKETS: Final = re.compile(r"\[([^\[\]]*)\]")
_PORTS: Final = {"http": 80, "https": 443}
_SOCKS: Final = ("socks5", "socks5h")
_A_PROXY: Final = "http://HOST:PORT, with %XX for the special characters of a password"
_EXCEPTIONS: Final = "hosts, addresses and networks such as 10.0.0.0/8 with a comma between two, or *"
_OF_TLS: Final = ("SSL_CERT_FILE", "SSL_CERT_DIR", "SSLKEYLOGFILE")

Environment = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Proxy:
    """A proxy.

    Args:
        variable: that names the proxy.
        url: without the user.
        user: name and password, if the proxy wants them.
    """

    variable: str
    url: str
    user: tuple[bytes, bytes] | None = field(default=None, repr=False)


def split_authority(text: str) -> tuple[str, int | None] | None:
    """Returns host and port, an IPv6 address without its brackets. None = the text is not ``HOST:PORT``."""
    parts = _AUTHORITY.fullmatch(text)
    if parts is None or not 0 < int(parts[3] or 1) < 65536 or (parts[1] and _address(parts[1]) is None):
        return None
    return parts[1] or parts[2], int(parts[3]) if parts[3] else None


def check_network(origin: str, environment: Environment = os.environ) -> None:
    """Checks what the environment says about the way to a server. Connects to nothing.

    Args, Raises: as :func:`find_proxy`.
    """
    proxy = find_proxy(origin, environment)
    is_secured = origin.startswith("https:") or (proxy is not None and proxy.url.startswith("https:"))
    if is_secured and any(environment.get(name) for name in _OF_TLS):
        make_tls_context(environment)


def find_proxy(origin: str, environment: Environment = os.environ) -> Proxy | None:
    """Returns the proxy for a server. None = the server is called without one.

    Args:
        origin: scheme, host and port of a valid URL.

    Raises:
        WrongValue: the proxy cannot be used, or ``NO_PROXY`` cannot be read.
    """
    scheme, _, authority = origin.partition("://")
    for name in (f"{scheme}_proxy", "all_proxy"):
        variable, value = _variable(name, environment)
        if value:
            return None if _is_excepted(scheme, authority, environment) else _read_proxy(variable, value)
    return None


def make_tls_context(environment: Environment = os.environ) -> ssl.SSLContext:
    """Returns the settings of TLS, with the authorities that the environment names.

    Raises:
        WrongValue: a file or a directory cannot be used.
    """
    import ssl

    file, directories = environment.get("SSL_CERT_FILE", ""), environment.get("SSL_CERT_DIR", "")
    if directories and not all(map(os.path.isdir, directories.split(os.pathsep))):
        raise WrongValue(f"SSL_CERT_DIR with {directories!a}", "directories of certificates")
    try:
        if file:
            ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(file)
    except (OSError, ValueError) as error:
        raise WrongValue(f"SSL_CERT_FILE with {file!a}{_reason(error)}", "certificates in PEM") from None
    if not (file or directories):
        import certifi

        file = certifi.where()
    try:
        return ssl.create_default_context(cafile=file or None, capath=directories or None)
    except (OSError, ValueError) as error:
        key_log = environment.get("SSLKEYLOGFILE", "")
        raise WrongValue(f"SSLKEYLOGFILE with {key_log!a}{_reason(error)}", "a file to write") from None


def _reason(error: OSError | ValueError) -> str:
    """Returns the words of the system for an error. OpenSSL's have brackets and name its source."""
    text = error.strerror if isinstance(error, OSError) else None
    return f" ({text})" if text and "[" not in text else ""


def _variable(name: str, environment: Environment) -> tuple[str, str]:
    """Returns the name that counts, in lower or upper case, and its value."""
    name = name if name in environment else name.upper()
    return name, environment.get(name, "").strip()


def _read_proxy(variable: str, value: str) -> Proxy:
    parts = _PROXY.fullmatch(value)
    scheme, user, authority = parts.groups() if parts is not None else (None, None, "")
    if split_authority(authority) is None:
        raise WrongValue(f"{variable} without a valid host and port", _A_PROXY)
    scheme = (scheme or "http").lower()
    if scheme not in (*_PORTS, *_SOCKS):
        raise WrongValue(f"{variable} with a proxy for {scheme}", _A_PROXY)
    if scheme in _SOCKS and find_spec("socksio") is None:
        raise WrongValue(f"{variable} with a proxy for {scheme}", "the package socksio, or http://HOST:PORT")
    name, _, password = (user or "").partition(":")
    login = (unquote_to_bytes(name), unquote_to_bytes(password)) if user else None
    return Proxy(variable, f"{scheme}://{authority}", login)


def _is_excepted(scheme: str, authority: str, environment: Environment) -> bool:
    """Whether ``NO_PROXY`` names a server."""
    host, port = split_authority(authority) or ("", None)
    variable, value = _variable("no_proxy", environment)
    entries = filter(None, re.split(r"[,\s]+", value))
    server = scheme, host.lower().rstrip("."), port or _PORTS[scheme]
    return True in [_names(entry, *server, variable) for entry in entries]  # so each is checked


def _names(entry: str, scheme: str, host: str, port: int, variable: str) -> bool:
    """Whether an entry of ``NO_PROXY`` names a server.

    A name is also that of all hosts below it. A name behind a dot is only that of these hosts.
    """
    if entry == "*":
        return True
    of_scheme, _, rest = entry.lower().rpartition("://")
    parts, address = split_authority(rest.removeprefix("*").removesuffix("/")), _address(host)
    if parts is None:
        try:
            network = ip_network(_BRACKETS.sub(r"\1", rest), strict=False)
        except ValueError:
            raise WrongValue(f"{variable} with {entry!a}", _EXCEPTIONS) from None
        return of_scheme in ("", scheme) and address is not None and address in network
    name, of_port = parts[0].rstrip("."), parts[1]
    is_named = _address(name) == address if address else host == name or host.endswith(f".{name.lstrip('.')}")
    return is_named and of_scheme in ("", scheme) and of_port in (None, port)


def _address(host: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(host)
    except ValueError:
        return None
