"""Everything that providers on a broker's own client share."""
