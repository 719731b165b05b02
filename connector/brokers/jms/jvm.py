"""The Java virtual machine in this process, in which the JMS client runs. A process has one, started once.

Spark's Java is another process, which a connected adapter starts as a new program. A forked process would get
none of the threads of this machine.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib.util
import logging
import os
import re
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from connector.errors import CapabilityError, ProviderMisconfigured

_log: Final = logging.getLogger("connector.jms")

_MISSING: Final = "the provider jms needs the package JPype1: pip install 'event-connector[jms]'"
_HEAP: Final = re.compile(r"-(?:Xmx|XX:MaxHeapSize=)(\d+)([kmgt]?)", re.IGNORECASE)
_HEAP_SHARE: Final = re.compile(r"-XX:MaxRAMPercentage=([\d.]+)")
_USUAL_SHARE: Final = 25.0
"""Percent of the memory of a machine, or of a container, that the heap may take."""
_CONTAINER: Final = Path("/sys/fs/cgroup/memory.max")
_lock: Final = threading.Lock()
_OPTIONS: Final = (
    "-Xrs",
    "-XX:+UseSerialGC",
    "-Dslf4j.internal.verbosity=ERROR",
    "-Djava.util.logging.config.file=/dev/null",
)
"""``-Xrs`` leaves SIGINT, SIGTERM and SIGHUP to Python: otherwise Java ends the process at once. SLF4J
need not say that nothing shows its log. Netty then writes to the log of Java itself, which has no place among
our lines either: a lost connection would be a trace of 30 lines there."""


def check_installed() -> None:
    """Checks that JPype is installed. Does not import JPype.

    Raises:
        CapabilityError: JPype is not installed.
    """
    if importlib.util.find_spec("jpype") is None:
        raise CapabilityError(_MISSING)


def heap_size(options: Sequence[str]) -> int:
    """Returns the bytes that the heap may take, at most.

    Args:
        options: of the virtual machine. The last one counts.
    """
    share = _USUAL_SHARE
    for option in options:
        if found := _HEAP_SHARE.fullmatch(option):
            share = float(found[1])
    for option in reversed(options):
        if found := _HEAP.fullmatch(option):
            return int(found[1]) << 10 * " kmgt".index(found[2].lower() or " ")
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    with contextlib.suppress(OSError, ValueError):  # no container, or one without a limit
        memory = min(memory, int(_CONTAINER.read_text()))
    return int(memory * share / 100)


def start(home: Path, classpath: Sequence[Path], options: Sequence[str] = ()) -> Any:
    """Starts the machine unless it runs, and returns the module ``jpype``.

    Args:
        home: directory of the Java runtime, as in JAVA_HOME.
        classpath: jars of the JMS client. Another class path needs another process.
        options: of the virtual machine, ``-Xmx256m``.

    Raises:
        CapabilityError: JPype is not installed, or the machine runs with other jars.
        ProviderError: the machine does not start.
    """
    try:
        import jpype
        import jpype.config
    except ImportError:
        raise CapabilityError(_MISSING) from None
    wanted = tuple(str(path) for path in classpath)
    with _lock:
        if jpype.isJVMStarted():
            if _started.get(os.getpid()) != wanted:
                raise CapabilityError(
                    "this process runs a Java virtual machine with other jars; a process has one, so use a "
                    "process for each set of packages and classpath"
                )
            return jpype
        # All connections are closed at the end, and Java would wait for idle threads of the client library.
        jpype.config.destroy_jvm = False
        library = home / "lib" / "server" / "libjvm.so"
        try:
            jpype.startJVM(
                str(library),
                *_OPTIONS,
                *options,
                classpath=list(wanted),
                convertStrings=False,
                interrupt=False,
            )
        except Exception as error:
            raise ProviderMisconfigured(
                f"Java cannot be started in this process ({library}): {error}"
            ) from error
        _started[os.getpid()] = wanted
        atexit.register(_part_from_java)
        os.register_at_fork(after_in_child=_leave_java_uncollected)
    _log.debug("java started", extra={"java": str(home), "jars": len(wanted)})
    return jpype


def leave_at_end() -> None:
    """Lets Java forget this thread when it ends. Each thread that calls Java calls this, too.

    JPype attaches a thread to Java with its first call, and never detaches it. Java would keep such a thread
    for ever, with the buffers that a client library has for it.
    """
    if not hasattr(_threads, "attached") and threading.current_thread() is not threading.main_thread():
        _threads.attached = _Attached()


class _Attached:
    """Lives as long as a thread of Python."""

    def __init__(self) -> None:
        import jpype

        self._detach = jpype.java.lang.Thread.detach
        self._process = os.getpid()

    def __del__(self) -> None:
        if os.getpid() == self._process:  # a forked process has no Java
            self._detach()


_threads: Final = threading.local()


def _part_from_java() -> None:
    """Keeps threads of Java out of Python before Python ends: such a thread would abort the process.

    After each garbage collection of Java, a thread of JPype collects the garbage of Python, too. Only a
    shutdown of Java would end that thread, and Java is not shut down here. So the thread is ended first, and
    Python's last collection starts none of Java.
    """
    import jpype

    _leave_java_uncollected()
    if os.getpid() in _started:
        jpype.JClass("org.jpype.ref.JPypeReferenceQueue").getInstance().stop()


def _leave_java_uncollected() -> None:
    """Keeps a collection of Python from starting one of Java, which never ends in a forked process."""
    gc.callbacks[:] = [callback for callback in gc.callbacks if callback.__module__ != "_jpype"]


_started: Final[dict[int, tuple[str, ...]]] = {}
"""Process -> the class path of its machine."""
