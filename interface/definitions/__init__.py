"""Files of agents that commands write: made from flags, from an agent of the kernel, or from another tool's file."""
