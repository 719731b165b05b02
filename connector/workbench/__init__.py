"""Tools of a developer: test cases and explanations."""
