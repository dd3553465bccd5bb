"""CLI backends: one module for each program that can do an agent's work, all behind one interface (``backend``)."""
