"""The master: what ``spark.master`` may say."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from connector.config.later import not_yet
from connector.config.problems import nearest, shown
from connector.errors import PipelineError

_EXPECTED: Final = "local[*], local[4] or spark://HOST:PORT"
_LOCAL: Final = re.compile(r"local(?:\[(\*|[0-9]+)(,[^\]]*)?\])?")
_MOST_CORES: Final = 9999
_LABEL: Final = "[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_HOST: Final = re.compile(rf"{_LABEL}(?:\.{_LABEL})*\.?|\[[0-9A-Fa-f:.]+\]")
"""A name has no ``_``."""
_LATER: Final = {"yarn": "masters of YARN", "k8s": "masters of Kubernetes"}


class WrongMaster(PipelineError):
    """``spark.master`` is nothing that the adapter can run on.

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
        url: as configured.
        cores: tasks that ``local`` runs at a time; 0 where Spark counts them itself (``*``, a cluster).
        addresses: host and port of each master of a cluster; empty for ``local``.
    """

    url: str
    cores: int
    addresses: tuple[tuple[str, int], ...] = ()

    @property
    def local(self) -> bool:
        return not self.addresses


def parse_master(text: str) -> Master:
    """Reads ``local``, ``local[4]``, ``local[*]`` or ``spark://host:port[,host:port]``.

    Raises:
        WrongMaster: it is something else. ``local[n,failures]`` is refused: it asks Spark to run
            a failed task again.
    """
    if match := _LOCAL.fullmatch(text):
        return _local(text, match[1] or "1", match[2])
    if text.startswith("spark://"):
        addresses = tuple(_address(text, part) for part in text.removeprefix("spark://").split(","))
        return Master(text, 0, addresses)
    manager = text.partition(":")[0]
    if manager in _LATER:
        raise WrongMaster(f"{shown(text)}: {not_yet(_LATER[manager])}")
    raise WrongMaster(shown(text), near=nearest(text, ("local", "local[*]")))


def _local(text: str, count: str, failures: str | None) -> Master:
    if failures is not None:
        raise WrongMaster(
            f"{shown(text)}, which lets Spark repeat a failed task",
            f"local[{count}]: a failed task is repeated from the outcome journal",
        )
    if count == "*":
        return Master(text, 0)
    if len(count) > 4 or not 1 <= int(count) <= _MOST_CORES:
        raise WrongMaster(shown(text), f"local[*], or local[N] with N from 1 to {_MOST_CORES}")
    return Master(text, int(count))


def is_host(text: str) -> bool:
    """Whether Java takes the text as the host of an address: a name, or an address in brackets."""
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
