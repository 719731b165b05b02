"""The verbs of this room: one file for each, imported when the verb is called."""
