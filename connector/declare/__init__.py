"""How a section of the configuration is declared and read: values, places, problems, masking."""
