"""Tools of a developer: drafts of definitions, the import of repositories, test cases, explanations."""
