"""Drafts the definition of a business object from a sample body or a schema.

:func:`connector.workbench.drafting.samples.draft_of` is the entry.
"""
