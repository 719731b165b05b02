"""The sink ``process``: a business process, a Python function."""
