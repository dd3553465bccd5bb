"""Workers forked from an interpreter that has everything loaded: keeper, preloading, warming, huge pages."""
