"""Reads a message selector and makes a function of it: syntax, identifiers, logic, translation."""
