"""``script/bootstrap docs`` in a copy of its files: which program installs, and from which index."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from hashlib import sha256
from pathlib import Path

import pip
import pytest

pytestmark = pytest.mark.process
REPOSITORY = Path(__file__).resolve().parents[2]
FAKE_UV = """#!/bin/sh
env | grep '^UV_\\|^SSL_\\|^HTTPS_PROXY' | sort >>"$UV_LOG"
echo "uv $*" >>"$UV_LOG"
echo "error: $UV_FAILS" >&2
[ -z "$UV_FAILS" ]
"""


class Clone:
    """The files of the script, with a lock of one package that is beside them.

    Args:
        directory: where they are put.
    """

    def __init__(self, directory: Path) -> None:
        self.root = directory / "clone"
        self.log = directory / "uv.log"
        for part in ("script", "website"):
            (self.root / part).mkdir(parents=True)
        for name in ("bootstrap", "uv_settings.py"):
            shutil.copy(REPOSITORY / "script" / name, self.root / "script")
        self._wheel(self.root / "wheels/thing-1-py3-none-any.whl")
        (self.root / "script/bootstrap.lock").write_text(f"uv==0.0.1 --hash=sha256:{'0' * 64}\n")
        self.bin = directory / "bin"
        self.bin.mkdir()
        # An environment takes seconds because of its pip, and the one of the tests has a pip.
        python = self.bin / "python"
        python.write_text(
            f'#!/bin/sh\n[ "$2" != venv ] || set -- "$@" --without-pip\nexec {sys.executable} "$@"\n'
        )
        python.chmod(0o755)

    def _wheel(self, path: Path) -> None:
        path.parent.mkdir()
        with zipfile.ZipFile(path, "w") as wheel:
            wheel.writestr("thing.py", "")
            wheel.writestr("thing-1.dist-info/METADATA", "Metadata-Version: 2.1\nName: thing\nVersion: 1\n")
            wheel.writestr("thing-1.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
            wheel.writestr("thing-1.dist-info/RECORD", "")
        digest = sha256(path.read_bytes()).hexdigest()
        (self.root / "website/requirements.lock").write_text(f"thing==1 --hash=sha256:{digest}\n")

    def bootstrap(self, *, uv: bool, fails: str = "", **variables: str) -> str:
        """Runs the script, which must go well. Returns what it says."""
        if uv:
            (self.bin / "uv").write_text(FAKE_UV)
            (self.bin / "uv").chmod(0o755)
        packages = Path(pip.__path__[0]).parent
        done = subprocess.run(
            [self.root / "script/bootstrap", "docs"],
            env={
                "PATH": f"{self.bin}:/usr/bin:/bin", "PYTHON": str(self.bin / "python"),
                "PYTHONPATH": str(packages), "HOME": str(self.root), "UV_LOG": str(self.log),
                "UV_FAILS": fails, **variables,
            },
            capture_output=True,
            text=True,
            check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stderr

    @property
    def has_thing(self) -> bool:
        return bool(list(self.root.glob(".venv/docs/lib/python*/site-packages/thing.py")))


@pytest.fixture
def clone(tmp_path: Path) -> Clone:
    return Clone(tmp_path)


def test_uv_installs_from_the_index_that_only_pip_knows(clone: Clone) -> None:
    configuration = clone.root / "pip.conf"
    configuration.write_text(
        "[global]\nindex-url = https://packages.example/simple\nextra-index-url = https://more.example/simple\n"
        "trusted-host = packages.example\ncert = /etc/company.pem\n[install]\nproxy = proxy.example:3128\n"
    )
    said = clone.bootstrap(
        uv=True, PIP_CONFIG_FILE=str(configuration), PIP_FIND_LINKS=str(clone.root / "wheels")
    )
    assert "pip does" not in said
    *settings, call = clone.log.read_text().splitlines()
    wanted = {
        "UV_DEFAULT_INDEX=https://packages.example/simple", "UV_INDEX=https://more.example/simple",
        "UV_INDEX_STRATEGY=unsafe-best-match", "UV_INSECURE_HOST=packages.example",
        "SSL_CERT_FILE=/etc/company.pem", "HTTPS_PROXY=http://proxy.example:3128",
        f"UV_FIND_LINKS={clone.root}/wheels",
    }  # fmt: skip
    assert wanted <= set(settings)
    assert call.startswith("uv pip install --quiet --python ")
    assert "--require-hashes -r " in call


def test_what_is_set_for_uv_counts_more(clone: Clone) -> None:
    index = {"PIP_INDEX_URL": "https://pip.example/simple", "UV_DEFAULT_INDEX": "https://uv.example/simple"}
    clone.bootstrap(uv=True, **index, PIP_NO_INDEX="1")
    *settings, call = clone.log.read_text().splitlines()
    assert "UV_DEFAULT_INDEX=https://uv.example/simple" in settings
    assert " --no-index " in call


@pytest.mark.parametrize("has_uv", [True, False], ids=["uv fails", "no uv"])
def test_pip_installs_where_uv_cannot_and_says_so(clone: Clone, has_uv: bool) -> None:
    local = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(clone.root / "wheels")}
    said = clone.bootstrap(uv=has_uv, fails="no such index", **local)
    if has_uv:
        assert "so pip does, which takes longer: error: no such index\n" in said
    else:
        assert "the package index has no uv for this machine, so pip installs, which takes longer\n" in said
    assert clone.has_thing


def test_the_lock_of_the_script_pins_uv_with_hashes() -> None:
    lines = (REPOSITORY / "script/bootstrap.lock").read_text().splitlines()
    assert [line for line in lines if line.startswith("uv==")]
    assert all(line.startswith(("#", "uv==", "    --hash=sha256:")) for line in lines)
    assert os.access(REPOSITORY / "script/bootstrap", os.X_OK)
