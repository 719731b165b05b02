"""The parts of :class:`connector.testing.provider.ProviderSuite`: one file for each topic."""

import pkgutil

import pytest

# A failed assertion then shows its values as in a test module.
pytest.register_assert_rewrite(*(f"{__name__}.{part.name}" for part in pkgutil.iter_modules(__path__)))
