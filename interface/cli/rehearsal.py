"""``awk run --dry-run``: what would start; needs no kernel, runs nothing, and asks for no trust."""

from interface.cli.context import Context


def rehearse(context: Context) -> int:
    """Print the plan of the run that was asked for. Raises Failure where it could not begin."""
    from interface.loader import ask  # noqa: PLC0415  (needs subprocess; a run does not)

    given = {"--max-cost": context.args.max_cost, "--exit-code-from": context.args.exit_code_from}
    document = ask(
        context.environ,
        "plan",
        "--project",
        context.project.root,
        "--tag",
        context.args.tag,
        "--state",
        context.project.state,
        *(f"{flag}={value}" for flag, value in given.items() if value is not None),
        "--",
        context.workflow(context.args.workflow),
        *context.params,
    )
    if context.args.json or context.args.jsonl:
        context.out.document(document)
        return 0
    from interface.cli.views.plan import lines  # noqa: PLC0415  (JSON needs no view)

    context.out.lines(lines(document, context.out.screen))
    return 0
