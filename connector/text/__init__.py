"""Reading and writing of texts: character sets, JSON, XML, exact numbers, names."""
