"""``connector resume``, beside ``connector pause``."""

from connector.cli.pause import resume

__all__ = ["resume"]
