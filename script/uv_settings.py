"""Prints variables that let uv use the package index of pip, as lines of a shell. For script/bootstrap.

A company's index, its certificate and its proxy are often set for pip only. What is set for uv counts more.
"""

from __future__ import annotations

import ast
import os
import shlex
import ssl
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

SECTIONS = ("global", "install", ":env:")
"""Sections of pip's configuration, the last one counts most."""
ONE = {
    "index-url": ("UV_DEFAULT_INDEX", "UV_INDEX_URL"),
    "cert": ("SSL_CERT_FILE",),
    "client-cert": ("SSL_CLIENT_CERT",),
    "timeout": ("UV_HTTP_TIMEOUT",),
}
"""Options of pip with one value, and the variables of uv for each. The first is set if none is set."""


def main() -> None:
    """Prints the variables."""
    listed = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=True
    )
    for name, value in settings(pip_options(listed.stdout), os.environ):
        print(f"export {name}={shlex.quote(value)}")


def pip_options(listed: str) -> dict[str, str]:
    """Returns the options of ``pip install`` in the output of ``pip config list``."""
    found: dict[str, dict[str, str]] = {section: {} for section in SECTIONS}
    for line in listed.splitlines():
        key, _, value = line.partition("=")
        section, _, option = key.rpartition(".")
        if section in found:
            found[section][option.replace("_", "-")] = str(ast.literal_eval(value))
    return {option: value for section in SECTIONS for option, value in found[section].items()}


def settings(pip: Mapping[str, str], environment: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yields the variables of uv that are not set yet."""
    given = {name for name, value in environment.items() if value}
    for option, variables in ONE.items():
        if option in pip and given.isdisjoint(variables):
            yield variables[0], pip[option]
    bundle = environment.get("REQUESTS_CA_BUNDLE") or environment.get("CURL_CA_BUNDLE")
    if bundle and "cert" not in pip and "SSL_CERT_FILE" not in given:  # pip reads these, and uv does not
        yield "SSL_CERT_FILE", bundle
    elif "cert" not in pip and has_certificates():  # of a company, perhaps; uv has only public ones
        yield from (("UV_SYSTEM_CERTS", "true"), ("UV_NATIVE_TLS", "true"))
    if more := pip.get("extra-index-url", "").split():
        if given.isdisjoint(("UV_INDEX", "UV_EXTRA_INDEX_URL")):
            yield "UV_INDEX", " ".join(more)
        if "UV_INDEX_STRATEGY" not in given:  # all indexes are equal, as for pip; the hashes are locked
            yield "UV_INDEX_STRATEGY", "unsafe-best-match"
    links = [one for one in pip.get("find-links", "").split() if "://" in one or Path(one).exists()]
    if links and "UV_FIND_LINKS" not in given:
        yield "UV_FIND_LINKS", ",".join(links)
    if hosts := pip.get("trusted-host", "").split():
        yield "UV_INSECURE_HOST", " ".join(hosts)
    if pip.get("keyring-provider") == "subprocess":
        yield "UV_KEYRING_PROVIDER", "subprocess"
    if "proxy" in pip:
        proxy = pip["proxy"] if "://" in pip["proxy"] else f"http://{pip['proxy']}"
        yield from (("HTTPS_PROXY", proxy), ("HTTP_PROXY", proxy))
    if pip.get("no-index", "").lower() in ("1", "true", "yes", "on"):
        yield "uv_options", "--no-index"  # has no variable of uv; script/bootstrap gives it


def has_certificates() -> bool:
    """Whether this system has certificates."""
    paths = ssl.get_default_verify_paths()
    return paths.cafile is not None or (paths.capath is not None and any(os.scandir(paths.capath)))


if __name__ == "__main__":
    main()
