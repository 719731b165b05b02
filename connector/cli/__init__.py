"""The command ``connector``: one file a verb, imported when it is asked for."""
