"""Programs in a worker's place: the contract suite over all of them, and what is special about each."""
