"""The language every provider speaks: message, destination, connection, claim."""
