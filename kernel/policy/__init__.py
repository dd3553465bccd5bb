"""Pure decisions about scheduling: no clock, no storage, no I/O. What they need is passed in."""
