"""The data handlers shipped with the connector, one file for each format.

They use only the public contract (:mod:`connector.formats.datahandler`). So they are models for your
own handlers.
"""
