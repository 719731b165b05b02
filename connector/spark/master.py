"""Reads ``spark.master``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from connector.errors import PipelineError
from connector.text.names import nearest, shown

_EXPECTED: Final = "local[*], local[4], spark://HOST:PORT, yarn or k8s://HOST:PORT"
_LOCAL: Final = re.compile(r"local(?:\[(\*|[0-9]+)(?:, *([0-9]+))?\])?")
_MOST_CORES: Final = 9999
_LABEL: Final = "[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_HOST: Final = re.compile(rf"{_LABEL}(?:\.{_LABEL})*\.?|\[[0-9A-Fa-f:.]+\]")
"""The name of a host has no ``_``."""
_MOST_FAILURES: Final = 9999


class WrongMaster(PipelineError):
    """The adapter cannot run on this ``spark.master``.

    Attributes:
        found, expected, near: as in :class:`connector.errors.Problem`.
    """

    def __init__(self, found: str, expected: str = _EXPECTED, near: str | None = None) -> None:
        super().__init__(f"spark.master is {found}, expected {expected}")
        self.found, self.expected, self.near = found, expected, near


@dataclass(frozen=True, slots=True)
class Master:
    """A parsed ``spark.master``.

    Args:
        cores: tasks that ``local`` runs at a time. 0 = Spark counts the cores (``*``, a cluster).
        addresses: host and port of each master of a standalone cluster. Empty for all others.
        failures: how often ``local`` tries a task.
    """

    url: str
    cores: int = 0
    addresses: tuple[tuple[str, int], ...] = ()
    failures: int = 1

    @property
    def local(self) -> bool:
        return self.url.startswith("local")

    def with_slots(self, slots: int) -> str:
        """Returns the URL of a local Spark that runs so many tasks at a time."""
        return f"local[{slots},{self.failures}]"


def parse_master(text: str) -> Master:
    """Reads ``local``, ``local[4]``, ``local[*,3]``, ``spark://host:port[,host:port]``, ``yarn`` or ``k8s://...``.

    Raises:
        WrongMaster: the text has another form.
    """
    if match := _LOCAL.fullmatch(text):
        return _local(text, match[1] or "1", match[2] or "1")
    if text.startswith("spark://"):
        addresses = tuple(_address(text, part) for part in text.removeprefix("spark://").split(","))
        return Master(text, 0, addresses)
    if text == "yarn" or (text.startswith("k8s://") and _is_kubernetes(text.removeprefix("k8s://"))):
        return Master(text)
    if text.startswith("k8s:"):
        raise WrongMaster(shown(text), "k8s://HOST:PORT or k8s://https://HOST:PORT, the API server")
    if text.startswith("sc:"):
        raise WrongMaster(f"{shown(text)}: clients of Spark Connect cannot run the adapter's jobs")
    raise WrongMaster(shown(text), near=nearest(text, ("local", "local[*]", "yarn")))


def _is_kubernetes(server: str) -> bool:
    """Tells whether a text is the address of an API server, in a form that Spark takes."""
    scheme, found, rest = server.rpartition("://")
    host = (rest if found else server).partition("/")[0]
    name, colon, port = host.rpartition(":") if not host.endswith("]") else (host, "", "")
    return (
        scheme in ("", "https", "http")
        and is_host(name if colon else host)
        and (not colon or port.isdecimal())
    )


def _local(text: str, count: str, failures: str) -> Master:
    if len(failures) > 4 or not 1 <= int(failures) <= _MOST_FAILURES:
        raise WrongMaster(shown(text), f"local[{count},N] with N from 1 to {_MOST_FAILURES}")
    if count == "*":
        return Master(text, 0, failures=int(failures))
    if len(count) > 4 or not 1 <= int(count) <= _MOST_CORES:
        raise WrongMaster(shown(text), f"local[*], or local[N] with N from 1 to {_MOST_CORES}")
    return Master(text, int(count), failures=int(failures))


def is_host(text: str) -> bool:
    """Tells whether Java takes the text as the host of an address: a name, or an address in brackets."""
    return _HOST.fullmatch(text) is not None


def _address(text: str, part: str) -> tuple[str, int]:
    host, colon, port = part.rpartition(":") if not part.endswith("]") else (part, "", "")
    if not colon:
        host, port = part, ""
    if not is_host(host):
        what = f"{shown(host)} is no name of a host" if host else "a host is missing"
    elif not port:
        what = "a port is missing"
    elif not re.fullmatch(r"[0-9]{1,5}", port) or not 0 < int(port) < 65536:
        what = f"{shown(port)} is no port"
    else:
        return host.strip("[]"), int(port)
    raise WrongMaster(f"{shown(text)}: {what}", "spark://HOST:PORT, with a port from 1 to 65535")
