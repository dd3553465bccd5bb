"""Commands: functions ``configure_WORD(parser)`` and ``run_WORD(context) -> int`` for interface.cli.command_table."""
