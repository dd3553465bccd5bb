"""The commands: each ``configure_WORD(parser)`` and ``run_WORD(context) -> int``, from interface.cli.command_table."""
