"""Business objects: definitions, instances, static rules, the dynamic child, the data-handler contract."""
