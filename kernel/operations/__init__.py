"""Operations: what can be asked of a kernel, each as one row from which all its fronts are made.

To move a resource here:

1. Write ``kernel/operations/<resource>.py``: request structs with the variables of the path, the query parameters and
   the body together (bases: ``Nothing``, ``InSpace``, ``Forward``, ``Backward``, ``ForwardInSpace``,
   ``BackwardInSpace``, else ``Ask``), one function a verb, and ``OPERATIONS`` with a row for each. ``tasks.py`` is the
   example. A struct with a body keeps the name that it has in OpenAPI; delete its twin in ``protocol``.
2. A function takes ``tx`` or ``conn`` first where one commit or one snapshot is all that it needs; the framework opens
   it. Else it is ``async`` and takes records (``store``, ``files``). ``asked.space`` is resolved before it is called.
   One function serves people and agents: ``actor.identity`` is None for a person, ``actor.author`` and
   ``actor.call_key`` go to the transition. Where the two are answered differently it returns ``A | B``: A to people.
3. The first paragraph of the docstring is the tool's description, word for word as it was, and its first sentence the
   summary in OpenAPI. A ``Meta(description=...)`` of a field is both the tool's and OpenAPI's.
4. ``team=ToolFront("team_x")`` makes it a tool of agents, ``manage=ToolFront("x_list")`` one of people's MCP clients.
   ``cli=`` makes it a command (kernel.operations.commands).
5. Delete the handlers of ``kernel/api/http`` and ``kernel/api/mcp``, their rows in ``routes.py``, ``space_routes.py``,
   ``tools.py`` and ``management.py``, and the lines in ``parameters.py``; add the module to ``table.py``.
"""
