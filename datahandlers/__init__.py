"""The data handlers shipped with the connector, one file a format.

They use the public contract only (:mod:`connector.businessobjects.datahandler`) and are therefore models for
handlers of one's own.
"""
