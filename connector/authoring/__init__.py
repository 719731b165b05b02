"""What helps to write a deployment: drafts from samples and schemas, and the import of repositories.

A room off the way: the command finds the verbs of :mod:`connector.authoring.registration` by entry point.
"""
