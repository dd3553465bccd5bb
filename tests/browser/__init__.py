"""The page in a real browser. Without one, or without playwright, all is skipped: scripts/test browser has both."""
