"""Business objects: definitions, instances, static rules, the dynamic meta-object."""
