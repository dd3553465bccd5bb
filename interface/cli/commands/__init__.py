"""One file per command, each with ``configure(parser)`` and ``run(context) -> int``; interface.cli.table lists them."""
