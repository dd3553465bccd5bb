"""Commands: ``run_WORD(context) -> int``, and the arguments in ARGUMENTS or ``configure_WORD(parser)``."""
