"""Loads the function that an entry of ``subscriptions`` names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from connector.errors import ConnectorError
from connector.modules import load_module
from connector.tracebacks import failure_text


class ProcessNotFound(ConnectorError):
    """The module or function of a business process cannot be loaded. The text gives the reason."""


def load_process(reference: str, deployment: str) -> Callable[..., Any]:
    """Returns the function of ``reference``, ``module:function``.

    Args:
        reference: as in ``process:`` or ``load:`` of a subscription.
        deployment: the directory of ``adapter.yaml``, or the directory that the deployment was unpacked to.

    Raises:
        ProcessNotFound: no such module or function, or importing the module raised.
    """
    module_name, separator, path = reference.partition(":")
    if not separator or not module_name or not path:
        raise ProcessNotFound(f"process {reference!r} is not module:function")
    try:
        module = load_module(module_name, deployment)
    except (Exception, SystemExit) as error:
        raise ProcessNotFound(
            f"process {reference}: importing {module_name} raised {failure_text(error, None, deployment)}"
        ) from error
    target: Any = module
    for part in path.split("."):
        target = getattr(target, part, None)
    if not callable(target):
        raise ProcessNotFound(f"process {reference}: {module_name} has no function {path}")
    return target  # type: ignore[no-any-return]  # callable() has just said so
