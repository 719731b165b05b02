"""The sink ``webhook``: a request over HTTP to a server of somebody else."""
