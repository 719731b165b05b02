"""How a message selector is read and becomes a function: syntax, identifiers, logic, translation."""
