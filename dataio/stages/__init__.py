"""Pipeline stages, one concept a file; `dataio.pipeline` puts them in order."""
