"""The jars of MiniYARNCluster: fetched once from Maven Central, each checked by its digest."""

from __future__ import annotations

import hashlib
import sys
import urllib.request
from pathlib import Path

REPOSITORY = "https://repo1.maven.org/maven2"
JARS = {
    "org/apache/hadoop/hadoop-client-minicluster/3.5.0/hadoop-client-minicluster-3.5.0.jar": (
        "06772d24529e59939915979b3edba204d367750ef7dc5120411f35221dd4818c"
    ),
    "org/junit/jupiter/junit-jupiter-api/5.11.4/junit-jupiter-api-5.11.4.jar": (
        "ab83ef9e51ac4597d59d26b4b58812129550e2f579a404c8af7d09f5ce5b4293"
    ),
    "org/junit/platform/junit-platform-commons/1.11.4/junit-platform-commons-1.11.4.jar": (
        "9edd969b0d0670c54105bc91ae79bd1c6f503e12115faba82073b84c86bbc334"
    ),
    "org/opentest4j/opentest4j/1.3.0/opentest4j-1.3.0.jar": (
        "48e2df636cab6563ced64dcdff8abb2355627cb236ef0bf37598682ddf742f1b"
    ),
    "org/bouncycastle/bcprov-jdk18on/1.78.1/bcprov-jdk18on-1.78.1.jar": (
        "add5915e6acfc6ab5836e1fd8a5e21c6488536a8c1f21f386eeb3bf280b702d7"
    ),
    "org/bouncycastle/bcpkix-jdk18on/1.78.1/bcpkix-jdk18on-1.78.1.jar": (
        "4b48ea084e5232b9d79ebca1887b9de037b124931807cd60710748c2aee08cc9"
    ),
    "org/bouncycastle/bcutil-jdk18on/1.78.1/bcutil-jdk18on-1.78.1.jar": (
        "d9fa56f97b0f761ce3bc8d9d74c5d7137a987bf5bd3abfe1003f9bafa45a1d2f"
    ),
}
"""Path in the repository, to the SHA-256 digest. The first has the version of the Hadoop in PySpark."""


def fetch(directory: Path) -> None:
    """Fetches what is missing in a directory.

    Raises:
        OSError: a file cannot be fetched, or is another one.
    """
    directory.mkdir(parents=True, exist_ok=True)
    for path, digest in JARS.items():
        target = directory / path.rpartition("/")[2]
        if target.exists():
            continue
        with urllib.request.urlopen(f"{REPOSITORY}/{path}", timeout=300) as answer:
            data = answer.read()
        if hashlib.sha256(data).hexdigest() != digest:
            raise OSError(f"{path} is not the file that was expected: its digest differs")
        target.write_bytes(data)


if __name__ == "__main__":
    fetch(Path(sys.argv[1]))
