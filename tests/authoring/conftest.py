"""A configuration without objects, and a fixture that the tests of other verbs have, too."""

from typing import Final

from tests.cli.conftest import plugged

__all__ = ["plugged"]

BARE: Final = """\
provider: {type: dropbox, root: ./data, create: true}
connector:
  ApplicationName: shop
  InputDestination: queue://orders
  ErrorDestination: queue://error
  UnsubscribedDestination: queue://unsubscribed
metaobjects: ./metaobjects
"""
"""A configuration that knows no object."""
