"""The integration broker: who receives published business objects."""
