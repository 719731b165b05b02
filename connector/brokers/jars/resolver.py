"""Fetches the jars of Maven packages with Ivy, the resolver that comes with Spark."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final
from xml.sax.saxutils import quoteattr

from connector import user
from connector.errors import ProviderError

CENTRAL: Final = "https://repo1.maven.org/maven2/"
"""Maven Central, the default repository."""

_LAYOUT: Final = "[organisation]/[module]/[revision]/[artifact]-[revision](-[classifier]).[ext]"
_NOT_FOUND: Final = re.compile(r":: (\S+)#(\S+);(\S+): (.+)")
_ACCESS: Final = re.compile(r"Server access error at url \S+ \((.+)\)")


def fetch(
    packages: Sequence[str],
    cache: Path,
    *,
    java: Path,
    spark_jars: Path,
    repositories: Sequence[str] = (CENTRAL,),
) -> list[Path]:
    """Fetches packages and everything they need, unless the cache has them.

    Args:
        packages: coordinates, ``GROUP:ARTIFACT:VERSION``.
        cache: directory of the jars, made if missing.
        spark_jars: directory with Spark's jars, one of which is Ivy.
        repositories: URLs, asked in this order.

    Returns:
        the jars in the cache, in the order of the class path.

    Raises:
        ProviderError: a package cannot be found or fetched.
    """
    ivy = sorted(spark_jars.glob("ivy-[0-9]*.jar"))
    if not ivy:
        raise ProviderError(f"there is no ivy-*.jar in {spark_jars}: pip install pyspark again")
    try:
        cache.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ProviderError(f"{cache} cannot be made: {error.strerror}") from error
    with tempfile.TemporaryDirectory(prefix="connector-jars-") as scratch:
        directory = Path(scratch)
        (directory / "settings.xml").write_text(_settings(cache, repositories), "utf-8")
        (directory / "ivy.xml").write_text(_module(packages), "utf-8")
        found = directory / "found"
        command = [str(java), "-Xrs", *user.java_options(scratch), "-jar", str(ivy[-1])]
        command += ["-settings", "settings.xml", "-ivy", "ivy.xml"]
        command += ["-confs", "default", "-cachepath", str(found), "-warn"]
        answer = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
        if answer.returncode != 0 or not found.exists():
            raise ProviderError(_reason(answer.stdout + answer.stderr, repositories))
        return [Path(path) for path in found.read_text("utf-8").strip().split(os.pathsep) if path]


def _settings(cache: Path, repositories: Sequence[str]) -> str:
    resolvers = "".join(
        f'<ibiblio name="r{number}" m2compatible="true" root={quoteattr(url.rstrip("/") + "/")}/>'
        for number, url in enumerate(repositories)
    )
    return (
        '<ivysettings><settings defaultResolver="all"/>'
        f"<caches defaultCacheDir={quoteattr(str(cache))} artifactPattern={quoteattr(_LAYOUT)}/>"
        f'<resolvers><chain name="all" returnFirst="true">{resolvers}</chain></resolvers></ivysettings>'
    )


def _module(packages: Sequence[str]) -> str:
    dependencies = []
    for package in packages:
        group, artifact, version = package.split(":")
        dependencies.append(
            f"<dependency org={quoteattr(group)} name={quoteattr(artifact)} rev={quoteattr(version)} "
            'conf="default-&gt;runtime,master" force="true"/>'
        )
    return (
        '<ivy-module version="2.0"><info organisation="connector" module="jars"/>'
        '<configurations><conf name="default"/></configurations>'
        f"<dependencies>{''.join(dependencies)}</dependencies></ivy-module>"
    )


def _reason(output: str, repositories: Sequence[str]) -> str:
    asked = ", ".join(repositories)
    if access := _ACCESS.search(output):
        return (
            f"a repository cannot be reached ({asked}): {access.group(1)}. For a proxy set "
            "JAVA_TOOL_OPTIONS, for example -Dhttps.proxyHost=HOST -Dhttps.proxyPort=PORT"
        )
    missing = sorted({f"{g}:{a}:{v} ({why})" for g, a, v, why in _NOT_FOUND.findall(output)})
    if missing:
        return f"{', '.join(missing)}: correct provider.packages, or name the repository (asked: {asked})"
    lines = [line.strip() for line in output.splitlines() if line.strip(": ")]
    return f"the jars cannot be resolved: {' '.join(lines[-5:])}"
