"""The whole thing as a user meets it: real kernel, real workers, real command line."""
