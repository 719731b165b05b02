"""The sink ``table``: business objects become rows."""
