"""Fixtures for all tests."""

from tests.postgres import database, own_postgres, postgres

__all__ = ["database", "own_postgres", "postgres"]
