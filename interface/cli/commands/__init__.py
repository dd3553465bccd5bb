"""Commands: ``run_WORD(context) -> int``, and ARGUMENTS or ``configure_WORD(parser)``; see interface.cli.command_table."""
