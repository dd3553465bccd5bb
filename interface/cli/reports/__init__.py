"""Reports of a run for the programs of a CI job: pure functions over one record, and what writes their results."""
