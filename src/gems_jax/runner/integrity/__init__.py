"""Checks of files that may be damaged or hostile: schemas, links, and the inspection of a run folder."""
