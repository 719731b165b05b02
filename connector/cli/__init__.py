"""The command ``connector``: one file for each verb, imported when the verb is called."""
