"""Inbound processing, in the order of the data: claim, convert, publish, settle. Also recovery."""
