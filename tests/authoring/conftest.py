"""What the tests of this room share with those of the other verbs: a deployment."""

from tests.cli.conftest import plugged

__all__ = ["plugged"]
