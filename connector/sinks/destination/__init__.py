"""The sink ``destination``: a queue or topic of the same provider."""
