"""Finds the function behind ``module:function``.

A module beside ``adapter.yaml`` is loaded by path, under a private name. The deployment's directory is
appended to ``sys.path``, never put in front. So a user's ``json.py`` does not hide the ``json`` of Python.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import os
import sys
from collections.abc import Callable
from typing import Any

from connector.errors import ConnectorError
from connector.tracebacks import failure_text


class ProcessNotFound(ConnectorError):
    """The module or function of a business process cannot be loaded. The text gives the reason."""


def load_process(reference: str, deployment: str) -> Callable[..., Any]:
    """Returns the function of ``reference``, ``module:function``.

    Args:
        reference: as in ``process:`` of a subscription.
        deployment: the directory of ``adapter.yaml``, or the directory that the deployment was unpacked to.

    Raises:
        ProcessNotFound: no such module or function, or importing the module raised.
    """
    module_name, separator, path = reference.partition(":")
    if not separator or not module_name or not path:
        raise ProcessNotFound(f"process {reference!r} is not module:function")
    try:
        module = _load_module(module_name, deployment)
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


def _load_module(name: str, deployment: str) -> Any:
    deployment = os.path.abspath(deployment)
    if deployment not in sys.path:
        sys.path.append(deployment)
    relative = name.replace(".", os.sep)
    for candidate in (f"{relative}.py", os.path.join(relative, "__init__.py")):
        path = os.path.join(deployment, candidate)
        if os.path.isfile(path):
            return _load_file(name, path)
    return importlib.import_module(name)


def _load_file(name: str, path: str) -> Any:
    digest = hashlib.blake2b(path.encode("utf-8", "surrogateescape"), digest_size=6).hexdigest()
    private = f"_deployment_{digest}_{name.replace('.', '_')}"
    if private in sys.modules:
        return sys.modules[private]
    package = os.path.dirname(path) if os.path.basename(path) == "__init__.py" else None
    spec = importlib.util.spec_from_file_location(
        private, path, submodule_search_locations=[package] if package else None
    )
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[private] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[private]
        raise
    return module
