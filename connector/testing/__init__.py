"""Support for users' own tests: suites, fixtures, fault injection."""
