"""Drafts the definition of a business object from a sample body or a schema.

:func:`connector.config.drafting.samples.draft_of` is the entry.
"""
