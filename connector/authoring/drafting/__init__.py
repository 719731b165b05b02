"""Drafts the definition of a business object from a sample body or a schema.

:func:`connector.authoring.drafting.samples.draft_of` is the entry.
"""
