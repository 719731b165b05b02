"""The suites of providers and of state stores. Only authors of providers need them, so the wheel has none."""

import pkgutil

import pytest

# A failed assertion then shows its values as in a test module.
pytest.register_assert_rewrite(*(f"{__name__}.{part.name}" for part in pkgutil.iter_modules(__path__)))
