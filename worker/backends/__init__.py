"""Programs that do the work in a worker's place: one file for each, behind one contract (``backend``)."""
