"""The commands under ``agent``, a module each: ``configure(parser)`` and ``run(context)``."""
