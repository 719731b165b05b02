"""Maps: an object of one type from an object of another, with one expression an attribute.

A room off the way: the entry point ``map`` of the group ``connector.documents`` names it.
"""
