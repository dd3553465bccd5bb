"""Workers forked from an interpreter with all modules loaded: keeper, preloading, warm-up, huge pages."""
