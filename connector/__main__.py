"""The command ``connector`` as ``python -m connector``."""

import runpy

if __name__ == "__main__":  # by name, because no import runs upward
    runpy.run_module("connector.cli", run_name="__main__", alter_sys=True)
