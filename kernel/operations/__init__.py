"""Operations of a kernel, each as one row from which its route, tools and command are generated.

To add one:

1. In ``kernel/operations/<resource>.py``, write for each verb a request struct, a function, and a
   row in ``OPERATIONS``. The struct has the path variables, the query parameters and the body
   together (bases: ``Nothing``, ``InSpace``, ``Forward``, ``Backward``, ``ForwardInSpace``,
   ``BackwardInSpace``, else ``Ask``). ``tasks.py`` is the example.
2. A function takes ``tx`` or ``conn`` first if it needs one commit or one snapshot only; the framework opens the
   transaction or snapshot. Otherwise the function is ``async`` and takes records (``store``, ``files``).
   ``asked.space`` is resolved before the call. One function serves people and agents: ``actor.identity`` is None
   for a person; pass ``actor.author`` to the transition. If results differ, annotate ``A | B``: A for people, B for
   agents.
3. The first paragraph of the docstring is the tool's description, and its first sentence the summary in OpenAPI. A
   ``Meta(description=...)`` of a field is both the tool's and OpenAPI's.
4. ``team=ToolFront("team_x")`` makes it a tool of agents, ``manage=ToolFront("x_list")`` one of people's MCP clients.
   ``cli=`` makes it a command (kernel.operations.table).
"""
