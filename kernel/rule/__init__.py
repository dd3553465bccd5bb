"""Pure rules that turn messages into effects; they access the store only through a view and a sink."""
