"""The rule: message + proposal -> effects. Pure; it knows the store only as a view and a sink."""
