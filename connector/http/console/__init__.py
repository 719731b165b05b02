"""The console: pages for the people who are called when orders do not arrive.

::

    pages          answers the paths below /console
    session        who has signed in, and whether a form is one of ours
    views          what a page shows, from the documents of the commands
    requests       the form that makes a request
    bodies         the body of a message as a text that can be read

Every page is complete without JavaScript. htmx fetches the same page again, and exchanges the part that
changes. What a page does, :data:`connector.http.actions.ACTIONS` does. A request of an application is made by
:class:`connector.http.calls.RequestCalls`, as one that comes over HTTP.
"""
