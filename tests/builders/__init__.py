"""What many tests build: real parts of the product, with what a test does not care about filled in."""
