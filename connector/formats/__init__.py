"""The formats of bodies: contract and catalogue of data handlers, and what the shipped ones stand on."""
