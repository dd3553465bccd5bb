"""The rules: pure functions from a message and a view of the state to effects. A rule decides; it changes nothing."""
