"""Reads a message selector and makes a function of it: syntax, identifiers, literals, logic."""
