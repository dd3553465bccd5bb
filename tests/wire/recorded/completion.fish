# fish completion; in ~/.config/fish/config.fish: agent-worker completion fish | source

function __agent_worker_live
    set -l words (commandline -opc)
    command $words[1] _complete $argv[1] 2>/dev/null </dev/null
end

# Whether the words so far begin with these.
function __agent_worker_at
    set -l words (commandline -opc)
    set -l last (math 1 + (count $argv))
    test (count $words) -ge $last; and test "$words[2..$last]" = "$argv"
end

# Whether it is the turn of argument FIRST to LAST of the command of so many words.
function __agent_worker_turn
    set -l seen 0
    set -l given 0
    for word in (commandline -opc)
        set seen (math $seen + 1)
        test $seen -le (math $argv[1] + 1); or string match -q -- '-*' $word; or set given (math $given + 1)
    end
    test $seen -gt $argv[1]; and test $given -ge $argv[2]; and test $given -le $argv[3]
end

complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'run' -d 'run a workflow to its end and report'
complete -c agent-worker -n '__agent_worker_at run' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at run' -l tag -d 'which instance of the workflow (default: main)' -r -f
complete -c agent-worker -n '__agent_worker_at run' -l trust -d 'let it run the commands its files name (setup, shell)'
complete -c agent-worker -n '__agent_worker_at run' -l update -d 'look up again what a remote ref stands for, and pin that'
complete -c agent-worker -n '__agent_worker_at run' -l continue -d 'go on with what was said in the run before'
complete -c agent-worker -n '__agent_worker_at run' -l timeout -d 'end it after so long (30s, 10m): exit 124' -r -f
complete -c agent-worker -n '__agent_worker_at run' -l max-cost -d 'end it once it has cost so much: exit 6' -r -f
complete -c agent-worker -n '__agent_worker_at run' -l max-tokens -d 'end it once it has used so many tokens: exit 6' -r -f
complete -c agent-worker -n '__agent_worker_at run' -l exit-code-from -d 'exit as the work of this agent ends, whatever that of others does' -r -f -a '(__agent_worker_live agent)'
complete -c agent-worker -n '__agent_worker_at run' -l fail-on -d 'never: exit 0 once it has ended, however it did' -r -f -a 'error never'
complete -c agent-worker -n '__agent_worker_at run' -l approve -d 'whether you are asked before a tool runs, whatever the agents\' files say' -r -f -a 'auto ask all deny'
complete -c agent-worker -n '__agent_worker_at run' -l detach -d 'return once it runs; what needs your approval waits for it (pending)'
complete -c agent-worker -n '__agent_worker_at run' -l report -d 'also write: github, junit:FILE, md:FILE, sarif:FILE; several with commas' -r -f
complete -c agent-worker -n '__agent_worker_at run' -l rm -d 'end the kernel afterwards, however it went, if this run started it'
complete -c agent-worker -n '__agent_worker_at run' -l dry-run -d 'only say what would start; runs and asks nothing'
complete -c agent-worker -n '__agent_worker_at run' -l compare -d 'run it in pairs with one agent that has all prompts and tools, and say which of both is worth it' -r -f -a 'solo'
complete -c agent-worker -n '__agent_worker_at run' -l repeat -d 'with --compare: this many pairs at most (default: 10)' -r -f
complete -c agent-worker -n '__agent_worker_at run' -l check -d 'with --compare: a run succeeds if this shell command ends with 0 then' -r -f
complete -c agent-worker -n '__agent_worker_at run' -l margin -d 'with --compare: who fails in so much more of the runs is as good (default: 0.2)' -r -f
complete -c agent-worker -n '__agent_worker_at run' -l seed -d 'with --compare: the order within the pairs, as it was then' -r -f
complete -c agent-worker -n '__agent_worker_at run' -l total-cost -d 'with --compare: what all runs together may cost' -r -f
complete -c agent-worker -n '__agent_worker_at run' -l total-tokens -d 'with --compare: how many tokens all may use together' -r -f
complete -c agent-worker -n '__agent_worker_at run' -l resume -d 'with --compare: go on with this comparison (c3)' -r -f -a '(__agent_worker_live comparison)'
complete -c agent-worker -n '__agent_worker_at run' -l keep -d 'with --compare: keep the copy of the project that each run had'
complete -c agent-worker -n '__agent_worker_at run' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at run' -l jsonl -d 'print one JSON object a line, as they come'
complete -c agent-worker -n '__agent_worker_at run' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c agent-worker -n '__agent_worker_at run' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c agent-worker -n '__agent_worker_at run; and __agent_worker_turn 1 0 0' -F -a '(__agent_worker_live workflow)'
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'send' -d 'send a message; --wait for what comes of it'
complete -c agent-worker -n '__agent_worker_at send' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at send' -l batch -d 'many messages, each a line {to, text} of JSON, in place of TARGET and MESSAGE; - reads standard input' -r -F
complete -c agent-worker -n '__agent_worker_at send' -l wait -d 'wait for the answers, and print them'
complete -c agent-worker -n '__agent_worker_at send' -l timeout -d 'with --wait: at most so long (30s, 5m)' -r -f
complete -c agent-worker -n '__agent_worker_at send' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at send' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c agent-worker -n '__agent_worker_at send' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c agent-worker -n '__agent_worker_at send; and __agent_worker_turn 1 0 0' -f -a '(__agent_worker_live target)'
complete -c agent-worker -n '__agent_worker_at send; and __agent_worker_turn 1 1 1' -f
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'ask' -d 'send a message and stream the answer'
complete -c agent-worker -n '__agent_worker_at ask' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at ask' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at ask' -l jsonl -d 'print one JSON object a line, as they come'
complete -c agent-worker -n '__agent_worker_at ask' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c agent-worker -n '__agent_worker_at ask' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c agent-worker -n '__agent_worker_at ask; and __agent_worker_turn 1 0 0' -f -a '(__agent_worker_live target)'
complete -c agent-worker -n '__agent_worker_at ask; and __agent_worker_turn 1 1 1' -f
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'serve' -d 'send a message and print the answer as JSON'
complete -c agent-worker -n '__agent_worker_at serve' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at serve' -l json -d 'what it does anyway'
complete -c agent-worker -n '__agent_worker_at serve' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c agent-worker -n '__agent_worker_at serve' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c agent-worker -n '__agent_worker_at serve; and __agent_worker_turn 1 0 0' -f -a '(__agent_worker_live target)'
complete -c agent-worker -n '__agent_worker_at serve; and __agent_worker_turn 1 1 1' -f
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'call' -d 'inside an attempt: call a tool of agents, without MCP'
complete -c agent-worker -n '__agent_worker_at call' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at call' -l key -d 'the same call made again with this key takes effect once' -r -f
complete -c agent-worker -n '__agent_worker_at call' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c agent-worker -n '__agent_worker_at call' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c agent-worker -n '__agent_worker_at call; and __agent_worker_turn 1 0 0' -f -a 'ask_agent auth_grant auth_request auth_revoke channel_read channel_send feedback_submit handover_write history_read history_search memory_ask memory_forget memory_read memory_recall memory_tray memory_write my_inbox my_inbox_ack my_status_set note_read note_write resource_create resource_read rule_define rule_invoke rule_list share_with soul_reflect soul_suggest space_create space_members team_doc_accept team_doc_append team_doc_create team_doc_delete team_doc_history team_doc_list team_doc_read team_doc_reject team_doc_suggest team_doc_write team_members team_proposal_cancel team_proposal_create team_proposal_status team_task_claim team_task_done team_task_fail team_task_list team_task_plan team_task_split team_vote todo_add todo_done todo_list tree_commit tree_status tree_take'
complete -c agent-worker -n '__agent_worker_at call; and __agent_worker_turn 1 1 1' -f
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'start' -d 'start the kernel, or a workflow that stays'
complete -c agent-worker -n '__agent_worker_at start' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at start' -l tag -d 'which instance of the workflow (default: main)' -r -f
complete -c agent-worker -n '__agent_worker_at start' -l trust -d 'let it run the commands its files name (setup, shell)'
complete -c agent-worker -n '__agent_worker_at start' -l update -d 'look up again what a remote ref stands for, and pin that'
complete -c agent-worker -n '__agent_worker_at start' -l continue -d 'go on with what was said in the run before'
complete -c agent-worker -n '__agent_worker_at start' -l foreground -d 'stay, log to stderr, end with the kernel'
complete -c agent-worker -n '__agent_worker_at start' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c agent-worker -n '__agent_worker_at start' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c agent-worker -n '__agent_worker_at start; and __agent_worker_turn 1 0 0' -F -a '(__agent_worker_live workflow)'
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'stop' -d 'stop workflows or agents, or everything'
complete -c agent-worker -n '__agent_worker_at stop' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at stop' -l grace -d 'how long running work may take to end (default: 10s)' -r -f
complete -c agent-worker -n '__agent_worker_at stop' -l now -d 'no grace'
complete -c agent-worker -n '__agent_worker_at stop' -l no-wait -d 'do not wait until their processes have ended'
complete -c agent-worker -n '__agent_worker_at stop' -l yes -d 'do not ask'
complete -c agent-worker -n '__agent_worker_at stop' -s A -l all-projects -d 'the kernels of all your projects'
complete -c agent-worker -n '__agent_worker_at stop' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c agent-worker -n '__agent_worker_at stop' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c agent-worker -n '__agent_worker_at stop; and __agent_worker_turn 1 0 1000' -f -a '(__agent_worker_live target)'
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'status' -d 'say whether the kernel is up; starts nothing'
complete -c agent-worker -n '__agent_worker_at status' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at status' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at status' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c agent-worker -n '__agent_worker_at status' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c agent-worker -n '__agent_worker_at status; and __agent_worker_turn 1 0 0' -f -a '(__agent_worker_live target)'
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'service' -d 'have the system keep the kernel, and start it again when it died'
complete -c agent-worker -n '__agent_worker_at service' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at service' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at service' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c agent-worker -n '__agent_worker_at service' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c agent-worker -n '__agent_worker_at service; and __agent_worker_turn 1 0 0' -f -a 'print' -d 'Print the systemd user unit, or the launchd property list.'
complete -c agent-worker -n '__agent_worker_at service print' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at service print' -l systemd -d 'a systemd user unit (default, but on macOS)'
complete -c agent-worker -n '__agent_worker_at service print' -l launchd -d 'a launchd property list (default on macOS)'
complete -c agent-worker -n '__agent_worker_at service print' -l all -d 'one service for all projects: it starts what is needed'
complete -c agent-worker -n '__agent_worker_at service print' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at service; and __agent_worker_turn 1 0 0' -f -a 'install' -d 'Write it, and start it where the service manager can be reached.'
complete -c agent-worker -n '__agent_worker_at service install' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at service install' -l systemd -d 'a systemd user unit (default, but on macOS)'
complete -c agent-worker -n '__agent_worker_at service install' -l launchd -d 'a launchd property list (default on macOS)'
complete -c agent-worker -n '__agent_worker_at service install' -l all -d 'one service for all projects: it starts what is needed'
complete -c agent-worker -n '__agent_worker_at service install' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at service; and __agent_worker_turn 1 0 0' -f -a 'uninstall' -d 'Stop it and remove it.'
complete -c agent-worker -n '__agent_worker_at service uninstall' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at service uninstall' -l systemd -d 'a systemd user unit (default, but on macOS)'
complete -c agent-worker -n '__agent_worker_at service uninstall' -l launchd -d 'a launchd property list (default on macOS)'
complete -c agent-worker -n '__agent_worker_at service uninstall' -l all -d 'one service for all projects: it starts what is needed'
complete -c agent-worker -n '__agent_worker_at service uninstall' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at service; and __agent_worker_turn 1 0 0' -f -a 'run' -d 'Be the service of all projects: start the kernels that are needed, until stopped.'
complete -c agent-worker -n '__agent_worker_at service run' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at service run' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'restart' -d 'restart an agent\'s worker, or the kernel'
complete -c agent-worker -n '__agent_worker_at restart' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at restart' -l kernel -d 'the kernel: what runs goes on after its last entry'
complete -c agent-worker -n '__agent_worker_at restart' -l trust -d 'let it run the commands its files name (setup, shell)'
complete -c agent-worker -n '__agent_worker_at restart' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at restart' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c agent-worker -n '__agent_worker_at restart' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c agent-worker -n '__agent_worker_at restart; and __agent_worker_turn 1 0 0' -f -a '(__agent_worker_live target)'
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'upgrade' -d 'have a new version go on with all that runs, and the old one if it cannot'
complete -c agent-worker -n '__agent_worker_at upgrade' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at upgrade' -l to -d 'a virtual environment or its agent-worker (default: what is installed now)' -r -f
complete -c agent-worker -n '__agent_worker_at upgrade' -l status -d 'only say how the last one went'
complete -c agent-worker -n '__agent_worker_at upgrade' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at upgrade' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c agent-worker -n '__agent_worker_at upgrade' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'backup' -d 'write the project\'s state into one file, also while the kernel works'
complete -c agent-worker -n '__agent_worker_at backup' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at backup' -l force -d 'replace a file of that name'
complete -c agent-worker -n '__agent_worker_at backup' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at backup' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c agent-worker -n '__agent_worker_at backup' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c agent-worker -n '__agent_worker_at backup; and __agent_worker_turn 1 0 0' -F
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'restore' -d 'put what awk backup or a standby wrote in the place of the state'
complete -c agent-worker -n '__agent_worker_at restore' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at restore' -l promote -d 'go on with a standby: its original must not run again'
complete -c agent-worker -n '__agent_worker_at restore' -l force -d 'set aside what is there first, and say where; with --promote, also where the original may run'
complete -c agent-worker -n '__agent_worker_at restore' -l trust -d 'keep its consents and commands: only for a backup that you made yourself (or AGENT_WORKER_TRUST=1)'
complete -c agent-worker -n '__agent_worker_at restore' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at restore' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c agent-worker -n '__agent_worker_at restore' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c agent-worker -n '__agent_worker_at restore; and __agent_worker_turn 1 0 0' -F
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'standby' -d 'check the copy of a project\'s log at another place'
complete -c agent-worker -n '__agent_worker_at standby' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at standby' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at standby' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c agent-worker -n '__agent_worker_at standby' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c agent-worker -n '__agent_worker_at standby; and __agent_worker_turn 1 0 0' -f -a 'check' -d 'Put a copy together elsewhere, and say up to when it goes; changes nothing.'
complete -c agent-worker -n '__agent_worker_at standby check' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at standby check' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at standby check; and __agent_worker_turn 2 0 0' -F
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'reset' -d 'give an agent work again, whatever kept it from it'
complete -c agent-worker -n '__agent_worker_at reset' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at reset' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at reset' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c agent-worker -n '__agent_worker_at reset' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c agent-worker -n '__agent_worker_at reset; and __agent_worker_turn 1 0 0' -f -a '(__agent_worker_live target)'
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'pause' -d 'hold back the work of an agent or a workflow'
complete -c agent-worker -n '__agent_worker_at pause' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at pause' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at pause' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c agent-worker -n '__agent_worker_at pause' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c agent-worker -n '__agent_worker_at pause; and __agent_worker_turn 1 0 0' -f -a '(__agent_worker_live target)'
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'resume' -d 'let paused work go on, or ask a provider again'
complete -c agent-worker -n '__agent_worker_at resume' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at resume' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at resume' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c agent-worker -n '__agent_worker_at resume' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c agent-worker -n '__agent_worker_at resume; and __agent_worker_turn 1 0 0' -f -a '(__agent_worker_live target)'
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'continue' -d 'grant a workflow its limits, or an agent its budget, once more'
complete -c agent-worker -n '__agent_worker_at continue' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at continue' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at continue' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c agent-worker -n '__agent_worker_at continue' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c agent-worker -n '__agent_worker_at continue; and __agent_worker_turn 1 0 0' -f -a '(__agent_worker_live target)'
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'approve' -d 'let a tool be called that waits for your approval'
complete -c agent-worker -n '__agent_worker_at approve' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at approve' -l reason -d 'kept with the decision; who is denied reads it' -r -f
complete -c agent-worker -n '__agent_worker_at approve' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at approve' -l always -d 'grant every call of this tool by this agent, now and from now on, whose whole input, as pending shows it, fits PATTERN: \'{"command":"git *"}\'; * is any text, and here covers \'git x; rm -rf ~\' too' -r -f
complete -c agent-worker -n '__agent_worker_at approve' -l all-agents -d 'with --always: whichever agent makes it'
complete -c agent-worker -n '__agent_worker_at approve' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c agent-worker -n '__agent_worker_at approve' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c agent-worker -n '__agent_worker_at approve; and __agent_worker_turn 1 0 1000' -f -a '(__agent_worker_live approval)'
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'deny' -d 'refuse it, or take back what was approved once for all'
complete -c agent-worker -n '__agent_worker_at deny' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at deny' -l reason -d 'kept with the decision; who is denied reads it' -r -f
complete -c agent-worker -n '__agent_worker_at deny' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at deny' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c agent-worker -n '__agent_worker_at deny' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c agent-worker -n '__agent_worker_at deny; and __agent_worker_turn 1 0 1000' -f -a '(__agent_worker_live deniable)'
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'answer' -d 'say what an agent says that is a person'
complete -c agent-worker -n '__agent_worker_at answer' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at answer' -l as -d 'refuse it where somebody else is asked by now' -r -f -a '(__agent_worker_live agent)'
complete -c agent-worker -n '__agent_worker_at answer' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at answer' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c agent-worker -n '__agent_worker_at answer' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c agent-worker -n '__agent_worker_at answer; and __agent_worker_turn 1 0 0' -f -a '(__agent_worker_live instruction)'
complete -c agent-worker -n '__agent_worker_at answer; and __agent_worker_turn 1 1 1' -f
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'space' -d 'list the spaces that agents opened, change who is in one, or close it'
complete -c agent-worker -n '__agent_worker_at space' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at space' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at space' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c agent-worker -n '__agent_worker_at space' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c agent-worker -n '__agent_worker_at space; and __agent_worker_turn 1 0 0' -f -a 'list' -d 'List what agents opened, who is in it, and whether it is open.'
complete -c agent-worker -n '__agent_worker_at space list' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at space list' -l run -d 'those of this run (r12), closed ones too' -r -f -a '(__agent_worker_live run)'
complete -c agent-worker -n '__agent_worker_at space list' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at space; and __agent_worker_turn 1 0 0' -f -a 'members' -d 'Let members of the run into a space, or have them leave.'
complete -c agent-worker -n '__agent_worker_at space members' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at space members' -l add -d 'who joins; may be repeated' -r -f
complete -c agent-worker -n '__agent_worker_at space members' -l remove -d 'who leaves; may be repeated' -r -f
complete -c agent-worker -n '__agent_worker_at space members' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at space members; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live space)'
complete -c agent-worker -n '__agent_worker_at space; and __agent_worker_turn 1 0 0' -f -a 'close' -d 'Close a space; the work in it is cancelled.'
complete -c agent-worker -n '__agent_worker_at space close' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at space close' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at space close; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live space)'
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'reassign' -d 'have another member asked in a person\'s place'
complete -c agent-worker -n '__agent_worker_at reassign' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at reassign' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at reassign' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c agent-worker -n '__agent_worker_at reassign' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c agent-worker -n '__agent_worker_at reassign; and __agent_worker_turn 1 0 0' -f -a '(__agent_worker_live instruction)'
complete -c agent-worker -n '__agent_worker_at reassign; and __agent_worker_turn 1 1 1' -f -a '(__agent_worker_live agent)'
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'grant' -d 'let an agent do more than its file says, for a while or a few calls'
complete -c agent-worker -n '__agent_worker_at grant' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at grant' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at grant' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c agent-worker -n '__agent_worker_at grant' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c agent-worker -n '__agent_worker_at grant; and __agent_worker_turn 1 0 0' -f -a 'list' -d 'List what was given, by whom, and what it comes to now.'
complete -c agent-worker -n '__agent_worker_at grant list' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at grant list' -s n -d 'the first N (default: 1000; 0: all)' -r -f
complete -c agent-worker -n '__agent_worker_at grant list' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at grant list; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live channel)'
complete -c agent-worker -n '__agent_worker_at grant; and __agent_worker_turn 1 0 0' -f -a 'give' -d 'Give an agent a scope that its file does not give it.'
complete -c agent-worker -n '__agent_worker_at grant give' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at grant give' -l to -d 'who gets it, such as alice@review' -r -f -a '(__agent_worker_live target)'
complete -c agent-worker -n '__agent_worker_at grant give' -l until -d 'for so long (2h), or to this time (2026-11-22T18:00:00Z)' -r -f
complete -c agent-worker -n '__agent_worker_at grant give' -l uses -d 'for so many calls' -r -f
complete -c agent-worker -n '__agent_worker_at grant give' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at grant give; and __agent_worker_turn 2 0 0' -f -a 'channel.read channel.write documents.read documents.write tasks votes status memory ask feedback rules auth spaces'
complete -c agent-worker -n '__agent_worker_at grant; and __agent_worker_turn 1 0 0' -f -a 'revoke' -d 'Take a grant back, and with it what was handed on from it.'
complete -c agent-worker -n '__agent_worker_at grant revoke' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at grant revoke' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at grant revoke; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live grant)'
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'proposal' -d 'see what agents vote on, vote too, or call a vote off'
complete -c agent-worker -n '__agent_worker_at proposal' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at proposal' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at proposal' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c agent-worker -n '__agent_worker_at proposal' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c agent-worker -n '__agent_worker_at proposal; and __agent_worker_turn 1 0 0' -f -a 'list' -d 'List what is put to the vote, or was in one workflow.'
complete -c agent-worker -n '__agent_worker_at proposal list' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at proposal list' -l all -d 'without a workflow: those that have ended too'
complete -c agent-worker -n '__agent_worker_at proposal list' -s n -d 'the first N (default: 1000; 0: all)' -r -f
complete -c agent-worker -n '__agent_worker_at proposal list' -l archive -d 'read it in what awk export wrote, without a kernel' -r -F
complete -c agent-worker -n '__agent_worker_at proposal list' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at proposal list; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live channel)'
complete -c agent-worker -n '__agent_worker_at proposal; and __agent_worker_turn 1 0 0' -f -a 'show' -d 'Show one proposal, its votes and what came of it.'
complete -c agent-worker -n '__agent_worker_at proposal show' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at proposal show' -l archive -d 'read it in what awk export wrote, without a kernel' -r -F
complete -c agent-worker -n '__agent_worker_at proposal show' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at proposal show; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live any_proposal)'
complete -c agent-worker -n '__agent_worker_at proposal; and __agent_worker_turn 1 0 0' -f -a 'vote' -d 'Vote yourself; a vote is final.'
complete -c agent-worker -n '__agent_worker_at proposal vote' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at proposal vote' -l reason -d 'kept with your vote; the members read it' -r -f
complete -c agent-worker -n '__agent_worker_at proposal vote' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at proposal vote; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live proposal)'
complete -c agent-worker -n '__agent_worker_at proposal vote; and __agent_worker_turn 2 1 1' -f -a '(__agent_worker_live choice)'
complete -c agent-worker -n '__agent_worker_at proposal; and __agent_worker_turn 1 0 0' -f -a 'cancel' -d 'Call a vote off, so that nobody wins.'
complete -c agent-worker -n '__agent_worker_at proposal cancel' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at proposal cancel' -l reason -d 'the members read it' -r -f
complete -c agent-worker -n '__agent_worker_at proposal cancel' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at proposal cancel; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live proposal)'
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'rule' -d 'see what follows from what, define rules, and try them on runs'
complete -c agent-worker -n '__agent_worker_at rule' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at rule' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at rule' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c agent-worker -n '__agent_worker_at rule' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c agent-worker -n '__agent_worker_at rule; and __agent_worker_turn 1 0 0' -f -a 'list' -d 'List the rules of a workflow: whose they are, and how often they were done.'
complete -c agent-worker -n '__agent_worker_at rule list' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at rule list' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at rule list; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live channel)'
complete -c agent-worker -n '__agent_worker_at rule; and __agent_worker_turn 1 0 0' -f -a 'show' -d 'Show one rule as it is now.'
complete -c agent-worker -n '__agent_worker_at rule show' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at rule show' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at rule show; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live rule)'
complete -c agent-worker -n '__agent_worker_at rule show; and __agent_worker_turn 2 1 1' -f -a '(__agent_worker_live channel)'
complete -c agent-worker -n '__agent_worker_at rule; and __agent_worker_turn 1 0 0' -f -a 'add' -d 'Define the rules of a file, or define them anew.'
complete -c agent-worker -n '__agent_worker_at rule add' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at rule add' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at rule add; and __agent_worker_turn 2 0 0' -F
complete -c agent-worker -n '__agent_worker_at rule add; and __agent_worker_turn 2 1 1' -f -a '(__agent_worker_live channel)'
complete -c agent-worker -n '__agent_worker_at rule; and __agent_worker_turn 1 0 0' -f -a 'rm' -d 'Switch rules off; they are kept, and do nothing.'
complete -c agent-worker -n '__agent_worker_at rule rm' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at rule rm' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at rule rm; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live rule)'
complete -c agent-worker -n '__agent_worker_at rule rm; and __agent_worker_turn 2 1 1' -f -a '(__agent_worker_live channel)'
complete -c agent-worker -n '__agent_worker_at rule; and __agent_worker_turn 1 0 0' -f -a 'test' -d 'Say what a rule would have done in a run; nothing is done.'
complete -c agent-worker -n '__agent_worker_at rule test' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at rule test' -l run -d 'whose messages are looked at' -r -f -a '(__agent_worker_live run)'
complete -c agent-worker -n '__agent_worker_at rule test' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at rule test; and __agent_worker_turn 2 0 0' -F -a '(__agent_worker_live rule)'
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'task' -d 'see what is to be done, add to it, and say what is done'
complete -c agent-worker -n '__agent_worker_at task' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at task' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at task' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c agent-worker -n '__agent_worker_at task' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c agent-worker -n '__agent_worker_at task; and __agent_worker_turn 1 0 0' -f -a 'list' -d 'List the tasks of a workflow: what is ready, and who is at which.'
complete -c agent-worker -n '__agent_worker_at task list' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at task list' -l state -d 'only those in this state' -r -f -a 'open ready claimed done failed cancelled'
complete -c agent-worker -n '__agent_worker_at task list' -l for -d 'only those for this agent, or claimed by it' -r -f -a '(__agent_worker_live agent)'
complete -c agent-worker -n '__agent_worker_at task list' -s n -d 'the first N (default: 1000; 0: all)' -r -f
complete -c agent-worker -n '__agent_worker_at task list' -l archive -d 'read it in what awk export wrote, without a kernel' -r -F
complete -c agent-worker -n '__agent_worker_at task list' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at task list; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live channel)'
complete -c agent-worker -n '__agent_worker_at task; and __agent_worker_turn 1 0 0' -f -a 'show' -d 'Show one task, what it waits for and what came of it.'
complete -c agent-worker -n '__agent_worker_at task show' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at task show' -l archive -d 'read it in what awk export wrote, without a kernel' -r -F
complete -c agent-worker -n '__agent_worker_at task show' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at task show; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live channel)'
complete -c agent-worker -n '__agent_worker_at task show; and __agent_worker_turn 2 1 1' -f -a '(__agent_worker_live task)'
complete -c agent-worker -n '__agent_worker_at task; and __agent_worker_turn 1 0 0' -f -a 'add' -d 'Add a task; one that is for an agent is given to it.'
complete -c agent-worker -n '__agent_worker_at task add' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at task add' -l text -d 'all that one needs to do it' -r -f
complete -c agent-worker -n '__agent_worker_at task add' -l key -d 'a name for it, beside its id' -r -f
complete -c agent-worker -n '__agent_worker_at task add' -l for -d 'who does it; without it whoever claims it' -r -f -a '(__agent_worker_live agent)'
complete -c agent-worker -n '__agent_worker_at task add' -l needs -d 'what has to be done before' -r -f -a '(__agent_worker_live task)'
complete -c agent-worker -n '__agent_worker_at task add' -l parent -d 'what it is a part of' -r -f -a '(__agent_worker_live task)'
complete -c agent-worker -n '__agent_worker_at task add' -l files -d 'what nobody else changes then' -r -f
complete -c agent-worker -n '__agent_worker_at task add' -l check -d 'a command that has to end with 0 before it is done' -r -f
complete -c agent-worker -n '__agent_worker_at task add' -l on-failure -d 'if one that it needs fails' -r -f -a 'hold skip cancel'
complete -c agent-worker -n '__agent_worker_at task add' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at task add; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live channel)'
complete -c agent-worker -n '__agent_worker_at task add; and __agent_worker_turn 2 1 1' -f
complete -c agent-worker -n '__agent_worker_at task; and __agent_worker_turn 1 0 0' -f -a 'claim' -d 'Claim tasks, so that no agent does them.'
complete -c agent-worker -n '__agent_worker_at task claim' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at task claim' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at task claim; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live channel)'
complete -c agent-worker -n '__agent_worker_at task claim; and __agent_worker_turn 2 1 1000' -f -a '(__agent_worker_live task)'
complete -c agent-worker -n '__agent_worker_at task; and __agent_worker_turn 1 0 0' -f -a 'done' -d 'Count tasks as done, so that what needs them goes on.'
complete -c agent-worker -n '__agent_worker_at task done' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at task done' -l result -d 'what came of it; the members read it' -r -f
complete -c agent-worker -n '__agent_worker_at task done' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at task done; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live channel)'
complete -c agent-worker -n '__agent_worker_at task done; and __agent_worker_turn 2 1 1000' -f -a '(__agent_worker_live task)'
complete -c agent-worker -n '__agent_worker_at task; and __agent_worker_turn 1 0 0' -f -a 'fail' -d 'Count tasks as failed.'
complete -c agent-worker -n '__agent_worker_at task fail' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at task fail' -l reason -d 'why; the members read it' -r -f
complete -c agent-worker -n '__agent_worker_at task fail' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at task fail; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live channel)'
complete -c agent-worker -n '__agent_worker_at task fail; and __agent_worker_turn 2 1 1000' -f -a '(__agent_worker_live task)'
complete -c agent-worker -n '__agent_worker_at task; and __agent_worker_turn 1 0 0' -f -a 'cancel' -d 'Cancel tasks that are not over.'
complete -c agent-worker -n '__agent_worker_at task cancel' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at task cancel' -l reason -d 'the members read it' -r -f
complete -c agent-worker -n '__agent_worker_at task cancel' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at task cancel; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live channel)'
complete -c agent-worker -n '__agent_worker_at task cancel; and __agent_worker_turn 2 1 1000' -f -a '(__agent_worker_live task)'
complete -c agent-worker -n '__agent_worker_at task; and __agent_worker_turn 1 0 0' -f -a 'graph' -d 'Show what waits for what.'
complete -c agent-worker -n '__agent_worker_at task graph' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at task graph' -s n -d 'only N tasks (default: all; 0: all)' -r -f
complete -c agent-worker -n '__agent_worker_at task graph' -l archive -d 'read it in what awk export wrote, without a kernel' -r -F
complete -c agent-worker -n '__agent_worker_at task graph' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at task graph; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live channel)'
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'doc' -d 'read and write the documents that agents share'
complete -c agent-worker -n '__agent_worker_at doc' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at doc' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at doc' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c agent-worker -n '__agent_worker_at doc' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c agent-worker -n '__agent_worker_at doc; and __agent_worker_turn 1 0 0' -f -a 'list' -d 'List the documents of a workflow.'
complete -c agent-worker -n '__agent_worker_at doc list' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at doc list' -s n -d 'the first N (default: 1000; 0: all)' -r -f
complete -c agent-worker -n '__agent_worker_at doc list' -l archive -d 'read it in what awk export wrote, without a kernel' -r -F
complete -c agent-worker -n '__agent_worker_at doc list' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at doc list; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live channel)'
complete -c agent-worker -n '__agent_worker_at doc; and __agent_worker_turn 1 0 0' -f -a 'read' -d 'Print a document, or an older version of it.'
complete -c agent-worker -n '__agent_worker_at doc read' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at doc read' -l version -d 'an older version' -r -f
complete -c agent-worker -n '__agent_worker_at doc read' -l archive -d 'read it in what awk export wrote, without a kernel' -r -F
complete -c agent-worker -n '__agent_worker_at doc read' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at doc read; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live channel)'
complete -c agent-worker -n '__agent_worker_at doc read; and __agent_worker_turn 2 1 1' -f -a '(__agent_worker_live document)'
complete -c agent-worker -n '__agent_worker_at doc; and __agent_worker_turn 1 0 0' -f -a 'write' -d 'Write the whole text of a document.'
complete -c agent-worker -n '__agent_worker_at doc write' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at doc write' -l reason -d 'kept with the version' -r -f
complete -c agent-worker -n '__agent_worker_at doc write' -l if-version -d 'the version that it was made from: what changed since is merged with it, or refused where it touches it' -r -f
complete -c agent-worker -n '__agent_worker_at doc write' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at doc write; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live channel)'
complete -c agent-worker -n '__agent_worker_at doc write; and __agent_worker_turn 2 1 1' -f -a '(__agent_worker_live document)'
complete -c agent-worker -n '__agent_worker_at doc write; and __agent_worker_turn 2 2 2' -f
complete -c agent-worker -n '__agent_worker_at doc; and __agent_worker_turn 1 0 0' -f -a 'append' -d 'Add to the end of a document.'
complete -c agent-worker -n '__agent_worker_at doc append' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at doc append' -l reason -d 'kept with the version' -r -f
complete -c agent-worker -n '__agent_worker_at doc append' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at doc append; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live channel)'
complete -c agent-worker -n '__agent_worker_at doc append; and __agent_worker_turn 2 1 1' -f -a '(__agent_worker_live document)'
complete -c agent-worker -n '__agent_worker_at doc append; and __agent_worker_turn 2 2 2' -f
complete -c agent-worker -n '__agent_worker_at doc; and __agent_worker_turn 1 0 0' -f -a 'create' -d 'Make a document that is not there.'
complete -c agent-worker -n '__agent_worker_at doc create' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at doc create' -l reason -d 'kept with the version' -r -f
complete -c agent-worker -n '__agent_worker_at doc create' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at doc create; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live channel)'
complete -c agent-worker -n '__agent_worker_at doc create; and __agent_worker_turn 2 1 1' -f -a '(__agent_worker_live document)'
complete -c agent-worker -n '__agent_worker_at doc create; and __agent_worker_turn 2 2 2' -f
complete -c agent-worker -n '__agent_worker_at doc; and __agent_worker_turn 1 0 0' -f -a 'delete' -d 'Delete a document; its history stays.'
complete -c agent-worker -n '__agent_worker_at doc delete' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at doc delete' -l if-version -d 'only if this is its newest version' -r -f
complete -c agent-worker -n '__agent_worker_at doc delete' -l reason -d 'kept with the version' -r -f
complete -c agent-worker -n '__agent_worker_at doc delete' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at doc delete; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live channel)'
complete -c agent-worker -n '__agent_worker_at doc delete; and __agent_worker_turn 2 1 1' -f -a '(__agent_worker_live document)'
complete -c agent-worker -n '__agent_worker_at doc; and __agent_worker_turn 1 0 0' -f -a 'history' -d 'List the versions of a document, the newest first.'
complete -c agent-worker -n '__agent_worker_at doc history' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at doc history' -s n -d 'the first N (default: 1000; 0: all)' -r -f
complete -c agent-worker -n '__agent_worker_at doc history' -l archive -d 'read it in what awk export wrote, without a kernel' -r -F
complete -c agent-worker -n '__agent_worker_at doc history' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at doc history; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live channel)'
complete -c agent-worker -n '__agent_worker_at doc history; and __agent_worker_turn 2 1 1' -f -a '(__agent_worker_live document)'
complete -c agent-worker -n '__agent_worker_at doc; and __agent_worker_turn 1 0 0' -f -a 'diff' -d 'Show what a version changed.'
complete -c agent-worker -n '__agent_worker_at doc diff' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at doc diff' -l from -d '(default: the version before)' -r -f
complete -c agent-worker -n '__agent_worker_at doc diff' -l to -d '(default: the newest version)' -r -f
complete -c agent-worker -n '__agent_worker_at doc diff' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at doc diff; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live channel)'
complete -c agent-worker -n '__agent_worker_at doc diff; and __agent_worker_turn 2 1 1' -f -a '(__agent_worker_live document)'
complete -c agent-worker -n '__agent_worker_at doc; and __agent_worker_turn 1 0 0' -f -a 'blame' -d 'Show who wrote each line, and in which version.'
complete -c agent-worker -n '__agent_worker_at doc blame' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at doc blame' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at doc blame; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live channel)'
complete -c agent-worker -n '__agent_worker_at doc blame; and __agent_worker_turn 2 1 1' -f -a '(__agent_worker_live document)'
complete -c agent-worker -n '__agent_worker_at doc; and __agent_worker_turn 1 0 0' -f -a 'suggestions' -d 'List what agents suggest.'
complete -c agent-worker -n '__agent_worker_at doc suggestions' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at doc suggestions' -l all -d 'those that are decided too'
complete -c agent-worker -n '__agent_worker_at doc suggestions' -s n -d 'the first N (default: 1000; 0: all)' -r -f
complete -c agent-worker -n '__agent_worker_at doc suggestions' -l archive -d 'read it in what awk export wrote, without a kernel' -r -F
complete -c agent-worker -n '__agent_worker_at doc suggestions' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at doc suggestions; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live channel)'
complete -c agent-worker -n '__agent_worker_at doc; and __agent_worker_turn 1 0 0' -f -a 'accept' -d 'Make a suggestion the newest version.'
complete -c agent-worker -n '__agent_worker_at doc accept' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at doc accept' -l reason -d 'the members read it' -r -f
complete -c agent-worker -n '__agent_worker_at doc accept' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at doc accept; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live channel)'
complete -c agent-worker -n '__agent_worker_at doc accept; and __agent_worker_turn 2 1 1' -f -a '(__agent_worker_live suggestion)'
complete -c agent-worker -n '__agent_worker_at doc; and __agent_worker_turn 1 0 0' -f -a 'reject' -d 'Decide that a suggestion is not taken.'
complete -c agent-worker -n '__agent_worker_at doc reject' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at doc reject' -l reason -d 'the members read it' -r -f
complete -c agent-worker -n '__agent_worker_at doc reject' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at doc reject; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live channel)'
complete -c agent-worker -n '__agent_worker_at doc reject; and __agent_worker_turn 2 1 1' -f -a '(__agent_worker_live suggestion)'
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'cancel' -d 'take instructions back'
complete -c agent-worker -n '__agent_worker_at cancel' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at cancel' -l agent -d 'all of this agent: alice, alice@review[:tag]' -r -f -a '(__agent_worker_live agent)'
complete -c agent-worker -n '__agent_worker_at cancel' -l dry-run -d 'only say which it would be'
complete -c agent-worker -n '__agent_worker_at cancel' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at cancel' -l queued -d 'only what no worker is at: what runs goes on'
complete -c agent-worker -n '__agent_worker_at cancel' -l yes -d 'do not ask about many'
complete -c agent-worker -n '__agent_worker_at cancel' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c agent-worker -n '__agent_worker_at cancel' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c agent-worker -n '__agent_worker_at cancel; and __agent_worker_turn 1 0 1000' -f -a '(__agent_worker_live steered)'
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'retry' -d 'try again what failed or is dead'
complete -c agent-worker -n '__agent_worker_at retry' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at retry' -l agent -d 'all of this agent: alice, alice@review[:tag]' -r -f -a '(__agent_worker_live agent)'
complete -c agent-worker -n '__agent_worker_at retry' -l dry-run -d 'only say which it would be'
complete -c agent-worker -n '__agent_worker_at retry' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at retry' -l all -d 'all that dead lists'
complete -c agent-worker -n '__agent_worker_at retry' -l fresh -d 'from the beginning; what its calls did may happen twice'
complete -c agent-worker -n '__agent_worker_at retry' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c agent-worker -n '__agent_worker_at retry' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c agent-worker -n '__agent_worker_at retry; and __agent_worker_turn 1 0 1000' -f -a '(__agent_worker_live steered)'
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'clear' -d 'remove what was said and done in a space, for good'
complete -c agent-worker -n '__agent_worker_at clear' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at clear' -l run -d 'of a workflow only this run (r12; default: all its runs)' -r -f -a '(__agent_worker_live run)'
complete -c agent-worker -n '__agent_worker_at clear' -l yes -d 'do not ask'
complete -c agent-worker -n '__agent_worker_at clear' -l force -d 'also working trees with work that is nowhere else'
complete -c agent-worker -n '__agent_worker_at clear' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at clear' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c agent-worker -n '__agent_worker_at clear' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c agent-worker -n '__agent_worker_at clear; and __agent_worker_turn 1 0 0' -f -a '(__agent_worker_live exported)'
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'prune' -d 'remove what takes room and nobody needs any more'
complete -c agent-worker -n '__agent_worker_at prune' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at prune' -l dry-run -d 'say what would go, and why, and remove nothing'
complete -c agent-worker -n '__agent_worker_at prune' -l yes -d 'do not ask'
complete -c agent-worker -n '__agent_worker_at prune' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at prune' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c agent-worker -n '__agent_worker_at prune' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c agent-worker -n '__agent_worker_at prune; and __agent_worker_turn 1 0 1000' -f -a 'trees unfinished logs aside comparisons attempts database'
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'merge' -d 'merge what the agents of a run did into a branch: all of it, or nothing'
complete -c agent-worker -n '__agent_worker_at merge' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at merge' -l agent -d 'only the branch of this agent; else those of all of them' -r -f
complete -c agent-worker -n '__agent_worker_at merge' -l into -d 'merge into this one; else into that which the run began from' -r -f
complete -c agent-worker -n '__agent_worker_at merge' -l squash -d 'one commit for all of it, in place of a merge of each branch'
complete -c agent-worker -n '__agent_worker_at merge' -l check -d 'a shell command that has to succeed on the result before anything is changed' -r -f
complete -c agent-worker -n '__agent_worker_at merge' -l return -d 'what cannot be merged becomes work for the agent whose it is; exits with 1 all the same'
complete -c agent-worker -n '__agent_worker_at merge' -l dry-run -d 'only say what would come of it; changes nothing and runs no check'
complete -c agent-worker -n '__agent_worker_at merge' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at merge' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c agent-worker -n '__agent_worker_at merge' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c agent-worker -n '__agent_worker_at merge; and __agent_worker_turn 1 0 0' -f -a '(__agent_worker_live merged)'
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'promote' -d 'have an instruction done before those of other lanes'
complete -c agent-worker -n '__agent_worker_at promote' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at promote' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at promote' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c agent-worker -n '__agent_worker_at promote' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c agent-worker -n '__agent_worker_at promote; and __agent_worker_turn 1 0 1000' -f -a '(__agent_worker_live instruction)'
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'ps' -d 'list agents as processes'
complete -c agent-worker -n '__agent_worker_at ps' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at ps' -s a -l all -d 'agents of workflows that have ended, too'
complete -c agent-worker -n '__agent_worker_at ps' -s A -l all-projects -d 'of all your projects whose kernel runs'
complete -c agent-worker -n '__agent_worker_at ps' -s q -l quiet -d 'only names, as other commands take them'
complete -c agent-worker -n '__agent_worker_at ps' -l sort -d 'by a column: the largest number first; -COLUMN: the last first' -r -f
complete -c agent-worker -n '__agent_worker_at ps' -s o -l columns -d 'only these, in this order: name,state,cost' -r -f
complete -c agent-worker -n '__agent_worker_at ps' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at ps' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c agent-worker -n '__agent_worker_at ps' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c agent-worker -n '__agent_worker_at ps; and __agent_worker_turn 1 0 0' -f -a '(__agent_worker_live target)'
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'projects' -d 'list all your projects in which a kernel ran, and how each is'
complete -c agent-worker -n '__agent_worker_at projects' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at projects' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at projects' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c agent-worker -n '__agent_worker_at projects' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'top' -d 'watch agents live (q quits)'
complete -c agent-worker -n '__agent_worker_at top' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at top' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at top' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c agent-worker -n '__agent_worker_at top' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'open' -d 'show all of it in a browser, or print the address of the page'
complete -c agent-worker -n '__agent_worker_at open' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at open' -l read-only -d 'let the page look, and change nothing'
complete -c agent-worker -n '__agent_worker_at open' -l print -d 'print the address, good for one browser in the next minute'
complete -c agent-worker -n '__agent_worker_at open' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at open' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c agent-worker -n '__agent_worker_at open' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'ls' -d 'list agents'
complete -c agent-worker -n '__agent_worker_at ls' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at ls' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at ls' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c agent-worker -n '__agent_worker_at ls' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'list' -d 'list agents'
complete -c agent-worker -n '__agent_worker_at list' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at list' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at list' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c agent-worker -n '__agent_worker_at list' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'peek' -d 'show the latest messages of an agent or workflow'
complete -c agent-worker -n '__agent_worker_at peek' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at peek' -s n -d 'the last N (default: 50; 0: all)' -r -f
complete -c agent-worker -n '__agent_worker_at peek' -s f -l follow -d 'go on as messages come'
complete -c agent-worker -n '__agent_worker_at peek' -l archive -d 'read it in what awk export wrote, without a kernel' -r -F
complete -c agent-worker -n '__agent_worker_at peek' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at peek' -l jsonl -d 'print one JSON object a line, as they come'
complete -c agent-worker -n '__agent_worker_at peek' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c agent-worker -n '__agent_worker_at peek' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c agent-worker -n '__agent_worker_at peek; and __agent_worker_turn 1 0 0' -f -a '(__agent_worker_live target)'
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'channel' -d 'show the channel of a workflow'
complete -c agent-worker -n '__agent_worker_at channel' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at channel' -l run -d 'only what was said in that run (r12), also an earlier one' -r -f -a '(__agent_worker_live run)'
complete -c agent-worker -n '__agent_worker_at channel' -s n -d 'the last N (default: 50; 0: all)' -r -f
complete -c agent-worker -n '__agent_worker_at channel' -s f -l follow -d 'go on as messages come'
complete -c agent-worker -n '__agent_worker_at channel' -l archive -d 'read it in what awk export wrote, without a kernel' -r -F
complete -c agent-worker -n '__agent_worker_at channel' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at channel' -l jsonl -d 'print one JSON object a line, as they come'
complete -c agent-worker -n '__agent_worker_at channel' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c agent-worker -n '__agent_worker_at channel' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c agent-worker -n '__agent_worker_at channel; and __agent_worker_turn 1 0 0' -f -a '(__agent_worker_live channel)'
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'resource' -d 'print the long texts that messages refer to, or keep one for agents'
complete -c agent-worker -n '__agent_worker_at resource' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at resource' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at resource' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c agent-worker -n '__agent_worker_at resource' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c agent-worker -n '__agent_worker_at resource; and __agent_worker_turn 1 0 0' -f -a 'list' -d 'List the long texts of all spaces, or of one.'
complete -c agent-worker -n '__agent_worker_at resource list' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at resource list' -s n -d 'the first N (default: 1000; 0: all)' -r -f
complete -c agent-worker -n '__agent_worker_at resource list' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at resource list; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live target)'
complete -c agent-worker -n '__agent_worker_at resource; and __agent_worker_turn 1 0 0' -f -a 'get' -d 'Print one, exactly as it is.'
complete -c agent-worker -n '__agent_worker_at resource get' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at resource get' -l offset -d 'from this character on (default: 0)' -r -f
complete -c agent-worker -n '__agent_worker_at resource get' -l limit -d 'at most so many characters (default: all)' -r -f
complete -c agent-worker -n '__agent_worker_at resource get' -l archive -d 'read it in what awk export wrote, without a kernel' -r -F
complete -c agent-worker -n '__agent_worker_at resource get' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at resource get; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live resource)'
complete -c agent-worker -n '__agent_worker_at resource; and __agent_worker_turn 1 0 0' -f -a 'add' -d 'Keep a text where agents can read it, and print its id.'
complete -c agent-worker -n '__agent_worker_at resource add' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at resource add' -l type -d 'its media type (default: text/plain)' -r -f
complete -c agent-worker -n '__agent_worker_at resource add' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at resource add; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live target)'
complete -c agent-worker -n '__agent_worker_at resource add; and __agent_worker_turn 2 1 1' -f
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'inbox' -d 'show what an agent has not handled'
complete -c agent-worker -n '__agent_worker_at inbox' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at inbox' -s n -d 'the first N (default: 200; 0: all)' -r -f
complete -c agent-worker -n '__agent_worker_at inbox' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at inbox' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c agent-worker -n '__agent_worker_at inbox' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c agent-worker -n '__agent_worker_at inbox; and __agent_worker_turn 1 0 0' -f -a '(__agent_worker_live target)'
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'queue' -d 'show what waits for an agent'
complete -c agent-worker -n '__agent_worker_at queue' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at queue' -s n -d 'the first N (default: 1000; 0: all)' -r -f
complete -c agent-worker -n '__agent_worker_at queue' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at queue' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c agent-worker -n '__agent_worker_at queue' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c agent-worker -n '__agent_worker_at queue; and __agent_worker_turn 1 0 0' -f -a '(__agent_worker_live target)'
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'needs' -d 'list what goes on only once you do something'
complete -c agent-worker -n '__agent_worker_at needs' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at needs' -s f -l follow -d 'go on: say what comes, and what is settled'
complete -c agent-worker -n '__agent_worker_at needs' -s A -l all-projects -d 'of all your projects whose kernel runs, not of this one alone'
complete -c agent-worker -n '__agent_worker_at needs' -s n -d 'the first N (default: 1000; 0: all)' -r -f
complete -c agent-worker -n '__agent_worker_at needs' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at needs' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c agent-worker -n '__agent_worker_at needs' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'pending' -d 'list what waits for your approval'
complete -c agent-worker -n '__agent_worker_at pending' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at pending' -l rules -d 'what approve --always granted; deny ID takes it back'
complete -c agent-worker -n '__agent_worker_at pending' -s n -d 'the first N (default: 1000; 0: all)' -r -f
complete -c agent-worker -n '__agent_worker_at pending' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at pending' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c agent-worker -n '__agent_worker_at pending' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c agent-worker -n '__agent_worker_at pending; and __agent_worker_turn 1 0 0' -f -a '(__agent_worker_live approval)'
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'audit' -d 'see who asked whose memory for what, and what was given'
complete -c agent-worker -n '__agent_worker_at audit' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at audit' -l agent -d 'only where this agent asked, or was asked' -r -f -a '(__agent_worker_live agent)'
complete -c agent-worker -n '__agent_worker_at audit' -s n -d 'the first N (default: 1000; 0: all)' -r -f
complete -c agent-worker -n '__agent_worker_at audit' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at audit' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c agent-worker -n '__agent_worker_at audit' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'feedback' -d 'see what agents say of the work itself, or add to it'
complete -c agent-worker -n '__agent_worker_at feedback' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at feedback' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at feedback' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c agent-worker -n '__agent_worker_at feedback' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c agent-worker -n '__agent_worker_at feedback; and __agent_worker_turn 1 0 0' -f -a 'list' -d 'List what was said about the work.'
complete -c agent-worker -n '__agent_worker_at feedback list' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at feedback list' -s n -d 'the last N (default: 1000; 0: all)' -r -f
complete -c agent-worker -n '__agent_worker_at feedback list' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at feedback; and __agent_worker_turn 1 0 0' -f -a 'add' -d 'Add something yourself.'
complete -c agent-worker -n '__agent_worker_at feedback add' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at feedback add' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at feedback add; and __agent_worker_turn 2 0 0' -f
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'stats' -d 'show what work took: tokens, money, time, and how it ended'
complete -c agent-worker -n '__agent_worker_at stats' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at stats' -l by -d 'part it by agent, workflow, model or day (of UTC), or by two of them: day,model' -r -f
complete -c agent-worker -n '__agent_worker_at stats' -l since -d 'only what ended since then: 7d, 2h, 2026-11-01, or a time such as 2026-11-01T12:00:00Z' -r -f
complete -c agent-worker -n '__agent_worker_at stats' -l until -d 'and before then (default: now)' -r -f
complete -c agent-worker -n '__agent_worker_at stats' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at stats' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c agent-worker -n '__agent_worker_at stats' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c agent-worker -n '__agent_worker_at stats; and __agent_worker_turn 1 0 0' -f -a '(__agent_worker_live target)'
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'dead' -d 'list instructions that failed for good'
complete -c agent-worker -n '__agent_worker_at dead' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at dead' -l clear -d 'list what failed until now no more; show and retry still know it'
complete -c agent-worker -n '__agent_worker_at dead' -s n -d 'the last N (default: 1000; 0: all)' -r -f
complete -c agent-worker -n '__agent_worker_at dead' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at dead' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c agent-worker -n '__agent_worker_at dead' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'runs' -d 'list runs of workflows, the newest first'
complete -c agent-worker -n '__agent_worker_at runs' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at runs' -l status -d 'only those that run, or that ended so' -r -f -a 'running stopped done failed incomplete rejected cancelled timeout'
complete -c agent-worker -n '__agent_worker_at runs' -l since -d 'only those started in the last 10m, 2h, 7d, ...' -r -f
complete -c agent-worker -n '__agent_worker_at runs' -s n -d 'the newest N (default: 100; 0: all)' -r -f
complete -c agent-worker -n '__agent_worker_at runs' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at runs' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c agent-worker -n '__agent_worker_at runs' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c agent-worker -n '__agent_worker_at runs; and __agent_worker_turn 1 0 0' -f -a '(__agent_worker_live channel)'
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'show' -d 'show a run or an instruction'
complete -c agent-worker -n '__agent_worker_at show' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at show' -l prompt -d 'of an instruction: what the model is told first'
complete -c agent-worker -n '__agent_worker_at show' -l steps -d 'of an instruction: what was done, call by call'
complete -c agent-worker -n '__agent_worker_at show' -l full -d 'with --steps: all of arguments and results, however long'
complete -c agent-worker -n '__agent_worker_at show' -s n -d 'with --steps: the first N (default: 1000; 0: all)' -r -f
complete -c agent-worker -n '__agent_worker_at show' -l archive -d 'read it in what awk export wrote, without a kernel' -r -F
complete -c agent-worker -n '__agent_worker_at show' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at show' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c agent-worker -n '__agent_worker_at show' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c agent-worker -n '__agent_worker_at show; and __agent_worker_turn 1 0 0' -f -a '(__agent_worker_live shown)'
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'export' -d 'write all that was said and done in a run or a space into one file'
complete -c agent-worker -n '__agent_worker_at export' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at export' -l format -d 'jsonl, which import reads; md, a page for people' -r -f -a 'jsonl md'
complete -c agent-worker -n '__agent_worker_at export' -s o -l output -d 'write it there, whole or not at all' -r -F
complete -c agent-worker -n '__agent_worker_at export' -l json -d 'with -o: print one JSON document about the file'
complete -c agent-worker -n '__agent_worker_at export' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c agent-worker -n '__agent_worker_at export' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c agent-worker -n '__agent_worker_at export; and __agent_worker_turn 1 0 0' -f -a '(__agent_worker_live exported)'
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'import' -d 'check an archive and say what is in it; show and channel read it'
complete -c agent-worker -n '__agent_worker_at import' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at import' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at import' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c agent-worker -n '__agent_worker_at import' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c agent-worker -n '__agent_worker_at import; and __agent_worker_turn 1 0 0' -F
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'diff' -d 'show what agents did in working trees of their own'
complete -c agent-worker -n '__agent_worker_at diff' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at diff' -l stat -d 'files and numbers of lines only'
complete -c agent-worker -n '__agent_worker_at diff' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at diff' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c agent-worker -n '__agent_worker_at diff' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c agent-worker -n '__agent_worker_at diff; and __agent_worker_turn 1 0 0' -f -a '(__agent_worker_live diffed)'
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'attach' -d 'watch an agent or a workflow work, and approve its calls in place'
complete -c agent-worker -n '__agent_worker_at attach' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at attach' -l jsonl -d 'print one JSON object a line, as they come'
complete -c agent-worker -n '__agent_worker_at attach' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c agent-worker -n '__agent_worker_at attach' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c agent-worker -n '__agent_worker_at attach; and __agent_worker_turn 1 0 0' -f -a '(__agent_worker_live target)'
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'worktree' -d 'list and remove the git working trees of agents'
complete -c agent-worker -n '__agent_worker_at worktree' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at worktree' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at worktree' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c agent-worker -n '__agent_worker_at worktree' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c agent-worker -n '__agent_worker_at worktree; and __agent_worker_turn 1 0 0' -f -a 'list' -d 'List the working trees there are.'
complete -c agent-worker -n '__agent_worker_at worktree list' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at worktree list' -l run -d 'only of this run (r12)' -r -f -a '(__agent_worker_live run)'
complete -c agent-worker -n '__agent_worker_at worktree list' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at worktree; and __agent_worker_turn 1 0 0' -f -a 'rm' -d 'Remove those of a run that has ended.'
complete -c agent-worker -n '__agent_worker_at worktree rm' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at worktree rm' -l run -d 'of this run (r12), which has ended' -r -f -a '(__agent_worker_live run)'
complete -c agent-worker -n '__agent_worker_at worktree rm' -l force -d 'also work that is nowhere else: it does not come back'
complete -c agent-worker -n '__agent_worker_at worktree rm' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at worktree rm; and __agent_worker_turn 2 0 1000' -f -a '(__agent_worker_live agent)'
complete -c agent-worker -n '__agent_worker_at worktree; and __agent_worker_turn 1 0 0' -f -a 'prune' -d 'Remove all of ended runs in which nothing would be lost.'
complete -c agent-worker -n '__agent_worker_at worktree prune' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at worktree prune' -l run -d 'only of this run (r12)' -r -f -a '(__agent_worker_live run)'
complete -c agent-worker -n '__agent_worker_at worktree prune' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'logs' -d 'show what workers and attempts did'
complete -c agent-worker -n '__agent_worker_at logs' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at logs' -l previous -d 'its last attempt that ended; without a target the kernel before this'
complete -c agent-worker -n '__agent_worker_at logs' -l level -d 'only what is at least so grave' -r -f -a 'debug info warning error'
complete -c agent-worker -n '__agent_worker_at logs' -s n -d 'the last N lines; with -f before those that come (default: all; 0: all)' -r -f
complete -c agent-worker -n '__agent_worker_at logs' -s f -l follow -d 'go on as they come; without --since from now on'
complete -c agent-worker -n '__agent_worker_at logs' -l since -d 'only those of the last 10m, 2h, ...' -r -f
complete -c agent-worker -n '__agent_worker_at logs' -l jsonl -d 'print one JSON object a line, as they come'
complete -c agent-worker -n '__agent_worker_at logs' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c agent-worker -n '__agent_worker_at logs' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c agent-worker -n '__agent_worker_at logs; and __agent_worker_turn 1 0 0' -f -a '(__agent_worker_live target)'
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'events' -d 'show the kernel\'s events'
complete -c agent-worker -n '__agent_worker_at events' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at events' -s f -l follow -d 'go on as they come; without --since from now on'
complete -c agent-worker -n '__agent_worker_at events' -l since -d 'only those of the last 10m, 2h, ...' -r -f
complete -c agent-worker -n '__agent_worker_at events' -l jsonl -d 'print one JSON object a line, as they come'
complete -c agent-worker -n '__agent_worker_at events' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c agent-worker -n '__agent_worker_at events' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'doctor' -d 'say what keeps agents from working here, and the way out'
complete -c agent-worker -n '__agent_worker_at doctor' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at doctor' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at doctor' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c agent-worker -n '__agent_worker_at doctor' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'df' -d 'say what of the project\'s state takes room, and how there is less of it'
complete -c agent-worker -n '__agent_worker_at df' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at df' -s n -d 'so many runs at most (0: all)' -r -f
complete -c agent-worker -n '__agent_worker_at df' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at df' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c agent-worker -n '__agent_worker_at df' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'wait' -d 'wait until an agent, a run or an instruction is idle, done, or needs you'
complete -c agent-worker -n '__agent_worker_at wait' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at wait' -l for -d 'idle: has nothing to do; done: has ended (a run, an instruction, a workflow); needs: needs a person' -r -f -a 'idle done needs'
complete -c agent-worker -n '__agent_worker_at wait' -l timeout -d 'for so long at most (10s, 5m); then exit code 124' -r -f
complete -c agent-worker -n '__agent_worker_at wait' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at wait' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c agent-worker -n '__agent_worker_at wait' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c agent-worker -n '__agent_worker_at wait; and __agent_worker_turn 1 0 0' -f -a '(__agent_worker_live target)'
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'watch' -d 'follow a run to its end; --exit-status ends as the run does'
complete -c agent-worker -n '__agent_worker_at watch' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at watch' -l exit-status -d 'end with the exit code that run would have had'
complete -c agent-worker -n '__agent_worker_at watch' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at watch' -l jsonl -d 'print one JSON object a line, as they come'
complete -c agent-worker -n '__agent_worker_at watch' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c agent-worker -n '__agent_worker_at watch' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c agent-worker -n '__agent_worker_at watch; and __agent_worker_turn 1 0 0' -f -a '(__agent_worker_live merged)'
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'new' -d 'make an agent that lives until the kernel stops'
complete -c agent-worker -n '__agent_worker_at new' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at new' -s m -l model -d 'provider/name, or an alias' -r -f
complete -c agent-worker -n '__agent_worker_at new' -s b -l backend -d 'what runs it (default: sdk)' -r -f
complete -c agent-worker -n '__agent_worker_at new' -s s -l system -d 'its system prompt (default: a short one)' -r -f
complete -c agent-worker -n '__agent_worker_at new' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at new' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c agent-worker -n '__agent_worker_at new' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c agent-worker -n '__agent_worker_at new; and __agent_worker_turn 1 0 0' -f
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'agent' -d 'create, change and delete agents; what they know, noted and have to do'
complete -c agent-worker -n '__agent_worker_at agent' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at agent' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at agent' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c agent-worker -n '__agent_worker_at agent' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c agent-worker -n '__agent_worker_at agent; and __agent_worker_turn 1 0 0' -f -a 'list' -d 'List the agents of the project.'
complete -c agent-worker -n '__agent_worker_at agent list' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at agent list' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at agent; and __agent_worker_turn 1 0 0' -f -a 'info' -d 'Show what an agent is.'
complete -c agent-worker -n '__agent_worker_at agent info' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at agent info' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at agent info; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live agent)'
complete -c agent-worker -n '__agent_worker_at agent; and __agent_worker_turn 1 0 0' -f -a 'create' -d 'Write the file of a new agent.'
complete -c agent-worker -n '__agent_worker_at agent create' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at agent create' -s m -l model -d 'provider/name, or an alias' -r -f
complete -c agent-worker -n '__agent_worker_at agent create' -s b -l backend -d 'what runs it (default: sdk)' -r -f
complete -c agent-worker -n '__agent_worker_at agent create' -s s -l system -d 'its system prompt' -r -f
complete -c agent-worker -n '__agent_worker_at agent create' -l system-file -d 'a file of the project that has its system prompt' -r -F
complete -c agent-worker -n '__agent_worker_at agent create' -l role -d 'what it is, in a few words' -r -f
complete -c agent-worker -n '__agent_worker_at agent create' -l expertise -d 'what it knows about' -r -f
complete -c agent-worker -n '__agent_worker_at agent create' -l from -d 'an agent made by new, or a file of .claude/agents' -r -F -a '(__agent_worker_live agent)'
complete -c agent-worker -n '__agent_worker_at agent create' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at agent create; and __agent_worker_turn 2 0 0' -f
complete -c agent-worker -n '__agent_worker_at agent; and __agent_worker_turn 1 0 0' -f -a 'edit' -d 'Change the file of an agent, in an editor or by KEY=VALUE.'
complete -c agent-worker -n '__agent_worker_at agent edit' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at agent edit' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at agent edit; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live agent)'
complete -c agent-worker -n '__agent_worker_at agent edit; and __agent_worker_turn 2 1 1000' -f
complete -c agent-worker -n '__agent_worker_at agent; and __agent_worker_turn 1 0 0' -f -a 'delete' -d 'Move an agent and its context to the trash.'
complete -c agent-worker -n '__agent_worker_at agent delete' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at agent delete' -l yes -d 'do not ask'
complete -c agent-worker -n '__agent_worker_at agent delete' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at agent delete; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live agent)'
complete -c agent-worker -n '__agent_worker_at agent; and __agent_worker_turn 1 0 0' -f -a 'memory' -d 'Show or change what an agent knows.'
complete -c agent-worker -n '__agent_worker_at agent memory' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at agent memory' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at agent memory; and __agent_worker_turn 2 0 0' -f -a 'get' -d ''
complete -c agent-worker -n '__agent_worker_at agent memory get' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at agent memory get' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at agent memory get; and __agent_worker_turn 3 0 0' -f
complete -c agent-worker -n '__agent_worker_at agent memory; and __agent_worker_turn 2 0 0' -f -a 'set' -d ''
complete -c agent-worker -n '__agent_worker_at agent memory set' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at agent memory set' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at agent memory set' -l tier -d 'how soon it comes to mind (default: working)' -r -f -a 'core working archive'
complete -c agent-worker -n '__agent_worker_at agent memory set' -l visibility -d 'who may see it (default: private)' -r -f -a 'private shareable public'
complete -c agent-worker -n '__agent_worker_at agent memory set; and __agent_worker_turn 3 0 0' -f
complete -c agent-worker -n '__agent_worker_at agent memory set; and __agent_worker_turn 3 1 1' -f
complete -c agent-worker -n '__agent_worker_at agent memory; and __agent_worker_turn 2 0 0' -f -a 'rm' -d ''
complete -c agent-worker -n '__agent_worker_at agent memory rm' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at agent memory rm' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at agent memory rm; and __agent_worker_turn 3 0 0' -f
complete -c agent-worker -n '__agent_worker_at agent memory; and __agent_worker_turn 2 0 0' -f -a 'search' -d ''
complete -c agent-worker -n '__agent_worker_at agent memory search' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at agent memory search' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at agent memory search' -l archive -d 'look into the archive, too'
complete -c agent-worker -n '__agent_worker_at agent memory search' -s n -d 'at most so many (default: 10; 0: all)' -r -f
complete -c agent-worker -n '__agent_worker_at agent memory search; and __agent_worker_turn 3 0 0' -f
complete -c agent-worker -n '__agent_worker_at agent memory; and __agent_worker_turn 2 0 0' -f -a 'purge' -d ''
complete -c agent-worker -n '__agent_worker_at agent memory purge' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at agent memory purge' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at agent memory purge' -l source -d 'what it is from: the id of a message (m12), or user, agent, tool, web' -r -f
complete -c agent-worker -n '__agent_worker_at agent memory; and __agent_worker_turn 2 0 0' -f -a 'tray' -d ''
complete -c agent-worker -n '__agent_worker_at agent memory tray' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at agent memory tray' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at agent memory tray; and __agent_worker_turn 3 0 0' -f -a 'approve reject'
complete -c agent-worker -n '__agent_worker_at agent memory tray; and __agent_worker_turn 3 1 1' -f -a '(__agent_worker_live tray)'
complete -c agent-worker -n '__agent_worker_at agent; and __agent_worker_turn 1 0 0' -f -a 'notes' -d 'Show or add notes of an agent.'
complete -c agent-worker -n '__agent_worker_at agent notes' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at agent notes' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at agent notes; and __agent_worker_turn 2 0 0' -f -a 'add' -d ''
complete -c agent-worker -n '__agent_worker_at agent notes add' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at agent notes add' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at agent notes add; and __agent_worker_turn 3 0 0' -f
complete -c agent-worker -n '__agent_worker_at agent notes; and __agent_worker_turn 2 0 0' -f -a 'show' -d ''
complete -c agent-worker -n '__agent_worker_at agent notes show' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at agent notes show' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at agent notes show; and __agent_worker_turn 3 0 0' -f
complete -c agent-worker -n '__agent_worker_at agent; and __agent_worker_turn 1 0 0' -f -a 'soul' -d 'Show who an agent is, and decide what it suggests of that.'
complete -c agent-worker -n '__agent_worker_at agent soul' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at agent soul' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at agent soul; and __agent_worker_turn 2 0 0' -f -a 'show' -d ''
complete -c agent-worker -n '__agent_worker_at agent soul show' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at agent soul show' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at agent soul; and __agent_worker_turn 2 0 0' -f -a 'history' -d ''
complete -c agent-worker -n '__agent_worker_at agent soul history' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at agent soul history' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at agent soul; and __agent_worker_turn 2 0 0' -f -a 'approve' -d ''
complete -c agent-worker -n '__agent_worker_at agent soul approve' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at agent soul approve' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at agent soul approve' -l reason -d 'it is kept with it' -r -f
complete -c agent-worker -n '__agent_worker_at agent soul approve; and __agent_worker_turn 3 0 0' -f -a '(__agent_worker_live soul)'
complete -c agent-worker -n '__agent_worker_at agent soul; and __agent_worker_turn 2 0 0' -f -a 'reject' -d ''
complete -c agent-worker -n '__agent_worker_at agent soul reject' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at agent soul reject' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at agent soul reject' -l reason -d 'it is kept with it' -r -f
complete -c agent-worker -n '__agent_worker_at agent soul reject; and __agent_worker_turn 3 0 0' -f -a '(__agent_worker_live soul)'
complete -c agent-worker -n '__agent_worker_at agent soul; and __agent_worker_turn 2 0 0' -f -a 'rollback' -d ''
complete -c agent-worker -n '__agent_worker_at agent soul rollback' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at agent soul rollback' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at agent soul rollback' -l reason -d 'it is kept with the new version' -r -f
complete -c agent-worker -n '__agent_worker_at agent soul rollback; and __agent_worker_turn 3 0 0' -f
complete -c agent-worker -n '__agent_worker_at agent; and __agent_worker_turn 1 0 0' -f -a 'todo' -d 'Show or change what an agent has to do.'
complete -c agent-worker -n '__agent_worker_at agent todo' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at agent todo' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at agent todo; and __agent_worker_turn 2 0 0' -f -a 'add' -d ''
complete -c agent-worker -n '__agent_worker_at agent todo add' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at agent todo add' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at agent todo add; and __agent_worker_turn 3 0 0' -f
complete -c agent-worker -n '__agent_worker_at agent todo; and __agent_worker_turn 2 0 0' -f -a 'done' -d ''
complete -c agent-worker -n '__agent_worker_at agent todo done' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at agent todo done' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at agent todo done; and __agent_worker_turn 3 0 0' -f
complete -c agent-worker -n '__agent_worker_at agent todo; and __agent_worker_turn 2 0 0' -f -a 'rm' -d ''
complete -c agent-worker -n '__agent_worker_at agent todo rm' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at agent todo rm' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at agent todo rm; and __agent_worker_turn 3 0 0' -f
complete -c agent-worker -n '__agent_worker_at agent; and __agent_worker_turn 1 0 0' -f -a 'reindex' -d 'Make the index of what agents said and did anew.'
complete -c agent-worker -n '__agent_worker_at agent reindex' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at agent reindex' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at agent reindex; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live agent)'
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'memory' -d 'measure how well agents find again what was said'
complete -c agent-worker -n '__agent_worker_at memory' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at memory' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at memory' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c agent-worker -n '__agent_worker_at memory' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c agent-worker -n '__agent_worker_at memory; and __agent_worker_turn 1 0 0' -f -a 'eval' -d 'Measure whether what is found for questions is what answers them.'
complete -c agent-worker -n '__agent_worker_at memory eval' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at memory eval' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at memory eval; and __agent_worker_turn 2 0 0' -F
complete -c agent-worker -n '__agent_worker_at memory; and __agent_worker_turn 1 0 0' -f -a 'growth' -d 'Measure how much junk a memory takes up over generated runs, with and without the guard.'
complete -c agent-worker -n '__agent_worker_at memory growth' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at memory growth' -l seed -d 'the same runs each time for the same N (1)' -r -f
complete -c agent-worker -n '__agent_worker_at memory growth' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at memory growth; and __agent_worker_turn 2 0 0' -f
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'tool' -d 'list, make and mock the tools that agents can have'
complete -c agent-worker -n '__agent_worker_at tool' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at tool' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at tool' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c agent-worker -n '__agent_worker_at tool' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c agent-worker -n '__agent_worker_at tool; and __agent_worker_turn 1 0 0' -f -a 'list' -d 'List the tools that agents can have, and who has them.'
complete -c agent-worker -n '__agent_worker_at tool list' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at tool list' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at tool; and __agent_worker_turn 1 0 0' -f -a 'add' -d 'Make a command a tool of the project.'
complete -c agent-worker -n '__agent_worker_at tool add' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at tool add' -s d -l description -d 'what a model is told of it' -r -f
complete -c agent-worker -n '__agent_worker_at tool add' -s a -l argument -d 'an argument: path:string, limit:integer? (may be left out); a word ${path} of the command is its value' -r -f
complete -c agent-worker -n '__agent_worker_at tool add' -l read-only -d 'it changes nothing: nobody is asked before it runs'
complete -c agent-worker -n '__agent_worker_at tool add' -l timeout -d 'how long a call may take (default: 120s)' -r -f
complete -c agent-worker -n '__agent_worker_at tool add' -l mock -d 'a canned answer, in place of running a command' -r -f
complete -c agent-worker -n '__agent_worker_at tool add' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at tool add; and __agent_worker_turn 2 0 0' -f
complete -c agent-worker -n '__agent_worker_at tool; and __agent_worker_turn 1 0 0' -f -a 'import' -d 'Take tools over from a file of another project.'
complete -c agent-worker -n '__agent_worker_at tool import' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at tool import' -l replace -d 'in place of tools of the same name'
complete -c agent-worker -n '__agent_worker_at tool import' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at tool import; and __agent_worker_turn 2 0 0' -F
complete -c agent-worker -n '__agent_worker_at tool import; and __agent_worker_turn 2 1 1000' -f
complete -c agent-worker -n '__agent_worker_at tool; and __agent_worker_turn 1 0 0' -f -a 'mock' -d 'Have a tool give a canned answer, and nothing run.'
complete -c agent-worker -n '__agent_worker_at tool mock' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at tool mock' -l off -d 'have it run its command again'
complete -c agent-worker -n '__agent_worker_at tool mock' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at tool mock; and __agent_worker_turn 2 0 0' -f
complete -c agent-worker -n '__agent_worker_at tool mock; and __agent_worker_turn 2 1 1' -f
complete -c agent-worker -n '__agent_worker_at tool; and __agent_worker_turn 1 0 0' -f -a 'rm' -d 'Remove a tool of the project.'
complete -c agent-worker -n '__agent_worker_at tool rm' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at tool rm' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at tool rm; and __agent_worker_turn 2 0 0' -f
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'worker' -d 'check a program that is to be a worker'
complete -c agent-worker -n '__agent_worker_at worker' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at worker' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at worker' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c agent-worker -n '__agent_worker_at worker' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c agent-worker -n '__agent_worker_at worker; and __agent_worker_turn 1 0 0' -f -a 'check' -d 'Run a program as a kernel would, and say what it does wrong.'
complete -c agent-worker -n '__agent_worker_at worker check' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at worker check' -l message -d 'what it is asked (default: Say hello.)' -r -f
complete -c agent-worker -n '__agent_worker_at worker check' -l timeout -d 'for each of four runs (default: 60s)' -r -f
complete -c agent-worker -n '__agent_worker_at worker check' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at worker check; and __agent_worker_turn 2 0 1000' -f
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'skills' -d 'list, import and update what agents can read up on'
complete -c agent-worker -n '__agent_worker_at skills' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at skills' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at skills' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c agent-worker -n '__agent_worker_at skills' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c agent-worker -n '__agent_worker_at skills; and __agent_worker_turn 1 0 0' -f -a 'list' -d 'List the skills of the project, and who reads them.'
complete -c agent-worker -n '__agent_worker_at skills list' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at skills list' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at skills; and __agent_worker_turn 1 0 0' -f -a 'import' -d 'Copy skills out of a repository, pinned to a commit.'
complete -c agent-worker -n '__agent_worker_at skills import' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at skills import' -l force -d 'in place of what is there'
complete -c agent-worker -n '__agent_worker_at skills import' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at skills import; and __agent_worker_turn 2 0 0' -f
complete -c agent-worker -n '__agent_worker_at skills import; and __agent_worker_turn 2 1 1000' -f
complete -c agent-worker -n '__agent_worker_at skills; and __agent_worker_turn 1 0 0' -f -a 'update' -d 'Look up again what imported skills come from.'
complete -c agent-worker -n '__agent_worker_at skills update' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at skills update' -l force -d 'also what was changed here: the changes are lost'
complete -c agent-worker -n '__agent_worker_at skills update' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at skills update; and __agent_worker_turn 2 0 1000' -f
complete -c agent-worker -n '__agent_worker_at skills; and __agent_worker_turn 1 0 0' -f -a 'rm' -d 'Remove imported skills.'
complete -c agent-worker -n '__agent_worker_at skills rm' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at skills rm' -l force -d 'also what was changed here'
complete -c agent-worker -n '__agent_worker_at skills rm' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at skills rm; and __agent_worker_turn 2 0 1000' -f
complete -c agent-worker -n '__agent_worker_at skills; and __agent_worker_turn 1 0 0' -f -a 'install-self' -d 'Put a skill into the project that teaches a coding agent to use agent-worker.'
complete -c agent-worker -n '__agent_worker_at skills install-self' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at skills install-self' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'init' -d 'write example files into this project'
complete -c agent-worker -n '__agent_worker_at init' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at init' -l example -d 'which one (default: hello); list: only say which there are' -r -f -a 'handbook hello memory nodes review team verdict list'
complete -c agent-worker -n '__agent_worker_at init' -l backend -d 'this program does the work of its agents, in place of their scripts' -r -f -a 'claude codex cursor opencode'
complete -c agent-worker -n '__agent_worker_at init' -s m -l model -d 'with --backend: its model (claude: sonnet)' -r -f
complete -c agent-worker -n '__agent_worker_at init' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c agent-worker -n '__agent_worker_at init' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'validate' -d 'say everything that is wrong with the project\'s files'
complete -c agent-worker -n '__agent_worker_at validate' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at validate' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at validate' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c agent-worker -n '__agent_worker_at validate' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c agent-worker -n '__agent_worker_at validate; and __agent_worker_turn 1 0 1000' -F
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'config' -d 'show what a file comes to, and where each value is from'
complete -c agent-worker -n '__agent_worker_at config' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at config' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at config' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c agent-worker -n '__agent_worker_at config' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c agent-worker -n '__agent_worker_at config; and __agent_worker_turn 1 0 0' -F -a '(__agent_worker_live named)'
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'schema' -d 'print the JSON Schema of a file, for editors'
complete -c agent-worker -n '__agent_worker_at schema' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at schema' -l write -d 'write all of them where the files\' headers look'
complete -c agent-worker -n '__agent_worker_at schema' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c agent-worker -n '__agent_worker_at schema' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c agent-worker -n '__agent_worker_at schema; and __agent_worker_turn 1 0 0' -f -a 'agent workflow project'
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'completion' -d 'print a script that completes commands in your shell'
complete -c agent-worker -n '__agent_worker_at completion' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at completion' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c agent-worker -n '__agent_worker_at completion' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c agent-worker -n '__agent_worker_at completion; and __agent_worker_turn 1 0 0' -f -a 'bash zsh fish'
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'trust' -d 'keep to trust what files would run or reach'
complete -c agent-worker -n '__agent_worker_at trust' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at trust' -l yes -d 'keep it without asking'
complete -c agent-worker -n '__agent_worker_at trust' -l all -d 'with revoke: everything'
complete -c agent-worker -n '__agent_worker_at trust' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at trust' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c agent-worker -n '__agent_worker_at trust' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c agent-worker -n '__agent_worker_at trust; and __agent_worker_turn 1 0 1000' -F -a '(__agent_worker_live named)'
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'token' -d 'make, list and take back tokens for programs of your own'
complete -c agent-worker -n '__agent_worker_at token' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at token' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at token' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c agent-worker -n '__agent_worker_at token' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c agent-worker -n '__agent_worker_at token; and __agent_worker_turn 1 0 0' -f -a 'create' -d 'Make a token, and print it this once.'
complete -c agent-worker -n '__agent_worker_at token create' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at token create' -l scope -d 'read: look; operate: and give work, and steer it; approve: and decide what waits for a person (approve:alice,bob: approve calls of these agents only)' -r -f -a 'read operate approve'
complete -c agent-worker -n '__agent_worker_at token create' -l name -d 'whom it is for, for the list' -r -f
complete -c agent-worker -n '__agent_worker_at token create' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at token; and __agent_worker_turn 1 0 0' -f -a 'list' -d 'List the tokens that are valid.'
complete -c agent-worker -n '__agent_worker_at token list' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at token list' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at token; and __agent_worker_turn 1 0 0' -f -a 'revoke' -d 'Take tokens back: their next request is refused.'
complete -c agent-worker -n '__agent_worker_at token revoke' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at token revoke' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at token revoke; and __agent_worker_turn 2 0 1000' -f -a '(__agent_worker_live token)'
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'mcp-serve' -d 'be an MCP server on standard input and output, for a coding agent'
complete -c agent-worker -n '__agent_worker_at mcp-serve' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at mcp-serve' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c agent-worker -n '__agent_worker_at mcp-serve' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'node' -d 'list the other machines on which agents work, add one, or be one'
complete -c agent-worker -n '__agent_worker_at node' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at node' -l join -d 'be a node of the kernel that made this word (- reads it)' -r -f
complete -c agent-worker -n '__agent_worker_at node' -l project-id -d 'be a node of the kernel that is spoken to over our streams' -r -f -a '(__agent_worker_live instruction)'
complete -c agent-worker -n '__agent_worker_at node' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at node' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c agent-worker -n '__agent_worker_at node' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c agent-worker -n '__agent_worker_at node; and __agent_worker_turn 1 0 0' -f -a 'list' -d 'List the nodes, how each is, and what keeps it from being up.'
complete -c agent-worker -n '__agent_worker_at node list' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at node list' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at node; and __agent_worker_turn 1 0 0' -f -a 'add' -d 'Have a node that the project file does not name.'
complete -c agent-worker -n '__agent_worker_at node add' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at node add' -l via -d 'the engine that leads there' -r -f -a 'ssh slurm kubectl docker ray command'
complete -c agent-worker -n '__agent_worker_at node add' -l join -d 'it dials home: print the command to type there'
complete -c agent-worker -n '__agent_worker_at node add' -l host -d 'ssh, slurm: the machine; with --join: where it finds this one' -r -f
complete -c agent-worker -n '__agent_worker_at node add' -l image -d 'docker, kubectl: a container of this image is started' -r -f
complete -c agent-worker -n '__agent_worker_at node add' -l container -d 'docker: one that runs; kubectl: which of the pod\'s' -r -f
complete -c agent-worker -n '__agent_worker_at node add' -l pod -d 'kubectl: one that runs' -r -f
complete -c agent-worker -n '__agent_worker_at node add' -l namespace -d 'kubectl: the namespace' -r -f
complete -c agent-worker -n '__agent_worker_at node add' -l address -d 'ray: the cluster' -r -f
complete -c agent-worker -n '__agent_worker_at node add' -l command -d 'the program there (default: agent-worker)' -r -f
complete -c agent-worker -n '__agent_worker_at node add' -l label -d 'what agents may ask for; can be repeated' -r -f
complete -c agent-worker -n '__agent_worker_at node add' -l workers -d 'how many attempts run there at once (default: 8)' -r -f
complete -c agent-worker -n '__agent_worker_at node add' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at node add; and __agent_worker_turn 2 0 0' -f
complete -c agent-worker -n '__agent_worker_at node; and __agent_worker_turn 1 0 0' -f -a 'drain' -d 'Give a node nothing new; what runs there goes on.'
complete -c agent-worker -n '__agent_worker_at node drain' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at node drain' -l undo -d 'give it work again'
complete -c agent-worker -n '__agent_worker_at node drain' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at node drain; and __agent_worker_turn 2 0 0' -f
complete -c agent-worker -n '__agent_worker_at node; and __agent_worker_turn 1 0 0' -f -a 'rm' -d 'Forget a node that was added.'
complete -c agent-worker -n '__agent_worker_at node rm' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at node rm' -l force -d 'also where attempts run: they are done again elsewhere'
complete -c agent-worker -n '__agent_worker_at node rm' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at node rm; and __agent_worker_turn 2 0 0' -f
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'webhook' -d 'list the servers that are told what happens, and try one again'
complete -c agent-worker -n '__agent_worker_at webhook' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at webhook' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at webhook' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c agent-worker -n '__agent_worker_at webhook' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c agent-worker -n '__agent_worker_at webhook; and __agent_worker_turn 1 0 0' -f -a 'list' -d 'List those of the project file, and how they stand.'
complete -c agent-worker -n '__agent_worker_at webhook list' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at webhook list' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at webhook; and __agent_worker_turn 1 0 0' -f -a 'retry' -d 'Tell one again what it was not told, also after its server answered 410.'
complete -c agent-worker -n '__agent_worker_at webhook retry' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at webhook retry' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at webhook retry; and __agent_worker_turn 2 0 0' -f
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'providers' -d 'list model providers and whether their keys are set'
complete -c agent-worker -n '__agent_worker_at providers' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at providers' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at providers' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c agent-worker -n '__agent_worker_at providers' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'backends' -d 'list what can run an agent'
complete -c agent-worker -n '__agent_worker_at backends' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at backends' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at backends' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c agent-worker -n '__agent_worker_at backends' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'version' -d 'print the version'
complete -c agent-worker -n '__agent_worker_at version' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at version' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at version' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c agent-worker -n '__agent_worker_at version' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'help' -d 'explain a command, or a topic: targets, exit-codes, environment'
complete -c agent-worker -n '__agent_worker_at help' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at help' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c agent-worker -n '__agent_worker_at help' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c agent-worker -n '__agent_worker_at help; and __agent_worker_turn 1 0 1000' -f
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'run' -d 'run a workflow to its end and report'
complete -c awk -n '__agent_worker_at run' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at run' -l tag -d 'which instance of the workflow (default: main)' -r -f
complete -c awk -n '__agent_worker_at run' -l trust -d 'let it run the commands its files name (setup, shell)'
complete -c awk -n '__agent_worker_at run' -l update -d 'look up again what a remote ref stands for, and pin that'
complete -c awk -n '__agent_worker_at run' -l continue -d 'go on with what was said in the run before'
complete -c awk -n '__agent_worker_at run' -l timeout -d 'end it after so long (30s, 10m): exit 124' -r -f
complete -c awk -n '__agent_worker_at run' -l max-cost -d 'end it once it has cost so much: exit 6' -r -f
complete -c awk -n '__agent_worker_at run' -l max-tokens -d 'end it once it has used so many tokens: exit 6' -r -f
complete -c awk -n '__agent_worker_at run' -l exit-code-from -d 'exit as the work of this agent ends, whatever that of others does' -r -f -a '(__agent_worker_live agent)'
complete -c awk -n '__agent_worker_at run' -l fail-on -d 'never: exit 0 once it has ended, however it did' -r -f -a 'error never'
complete -c awk -n '__agent_worker_at run' -l approve -d 'whether you are asked before a tool runs, whatever the agents\' files say' -r -f -a 'auto ask all deny'
complete -c awk -n '__agent_worker_at run' -l detach -d 'return once it runs; what needs your approval waits for it (pending)'
complete -c awk -n '__agent_worker_at run' -l report -d 'also write: github, junit:FILE, md:FILE, sarif:FILE; several with commas' -r -f
complete -c awk -n '__agent_worker_at run' -l rm -d 'end the kernel afterwards, however it went, if this run started it'
complete -c awk -n '__agent_worker_at run' -l dry-run -d 'only say what would start; runs and asks nothing'
complete -c awk -n '__agent_worker_at run' -l compare -d 'run it in pairs with one agent that has all prompts and tools, and say which of both is worth it' -r -f -a 'solo'
complete -c awk -n '__agent_worker_at run' -l repeat -d 'with --compare: this many pairs at most (default: 10)' -r -f
complete -c awk -n '__agent_worker_at run' -l check -d 'with --compare: a run succeeds if this shell command ends with 0 then' -r -f
complete -c awk -n '__agent_worker_at run' -l margin -d 'with --compare: who fails in so much more of the runs is as good (default: 0.2)' -r -f
complete -c awk -n '__agent_worker_at run' -l seed -d 'with --compare: the order within the pairs, as it was then' -r -f
complete -c awk -n '__agent_worker_at run' -l total-cost -d 'with --compare: what all runs together may cost' -r -f
complete -c awk -n '__agent_worker_at run' -l total-tokens -d 'with --compare: how many tokens all may use together' -r -f
complete -c awk -n '__agent_worker_at run' -l resume -d 'with --compare: go on with this comparison (c3)' -r -f -a '(__agent_worker_live comparison)'
complete -c awk -n '__agent_worker_at run' -l keep -d 'with --compare: keep the copy of the project that each run had'
complete -c awk -n '__agent_worker_at run' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at run' -l jsonl -d 'print one JSON object a line, as they come'
complete -c awk -n '__agent_worker_at run' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c awk -n '__agent_worker_at run' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c awk -n '__agent_worker_at run; and __agent_worker_turn 1 0 0' -F -a '(__agent_worker_live workflow)'
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'send' -d 'send a message; --wait for what comes of it'
complete -c awk -n '__agent_worker_at send' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at send' -l batch -d 'many messages, each a line {to, text} of JSON, in place of TARGET and MESSAGE; - reads standard input' -r -F
complete -c awk -n '__agent_worker_at send' -l wait -d 'wait for the answers, and print them'
complete -c awk -n '__agent_worker_at send' -l timeout -d 'with --wait: at most so long (30s, 5m)' -r -f
complete -c awk -n '__agent_worker_at send' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at send' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c awk -n '__agent_worker_at send' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c awk -n '__agent_worker_at send; and __agent_worker_turn 1 0 0' -f -a '(__agent_worker_live target)'
complete -c awk -n '__agent_worker_at send; and __agent_worker_turn 1 1 1' -f
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'ask' -d 'send a message and stream the answer'
complete -c awk -n '__agent_worker_at ask' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at ask' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at ask' -l jsonl -d 'print one JSON object a line, as they come'
complete -c awk -n '__agent_worker_at ask' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c awk -n '__agent_worker_at ask' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c awk -n '__agent_worker_at ask; and __agent_worker_turn 1 0 0' -f -a '(__agent_worker_live target)'
complete -c awk -n '__agent_worker_at ask; and __agent_worker_turn 1 1 1' -f
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'serve' -d 'send a message and print the answer as JSON'
complete -c awk -n '__agent_worker_at serve' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at serve' -l json -d 'what it does anyway'
complete -c awk -n '__agent_worker_at serve' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c awk -n '__agent_worker_at serve' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c awk -n '__agent_worker_at serve; and __agent_worker_turn 1 0 0' -f -a '(__agent_worker_live target)'
complete -c awk -n '__agent_worker_at serve; and __agent_worker_turn 1 1 1' -f
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'call' -d 'inside an attempt: call a tool of agents, without MCP'
complete -c awk -n '__agent_worker_at call' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at call' -l key -d 'the same call made again with this key takes effect once' -r -f
complete -c awk -n '__agent_worker_at call' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c awk -n '__agent_worker_at call' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c awk -n '__agent_worker_at call; and __agent_worker_turn 1 0 0' -f -a 'ask_agent auth_grant auth_request auth_revoke channel_read channel_send feedback_submit handover_write history_read history_search memory_ask memory_forget memory_read memory_recall memory_tray memory_write my_inbox my_inbox_ack my_status_set note_read note_write resource_create resource_read rule_define rule_invoke rule_list share_with soul_reflect soul_suggest space_create space_members team_doc_accept team_doc_append team_doc_create team_doc_delete team_doc_history team_doc_list team_doc_read team_doc_reject team_doc_suggest team_doc_write team_members team_proposal_cancel team_proposal_create team_proposal_status team_task_claim team_task_done team_task_fail team_task_list team_task_plan team_task_split team_vote todo_add todo_done todo_list tree_commit tree_status tree_take'
complete -c awk -n '__agent_worker_at call; and __agent_worker_turn 1 1 1' -f
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'start' -d 'start the kernel, or a workflow that stays'
complete -c awk -n '__agent_worker_at start' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at start' -l tag -d 'which instance of the workflow (default: main)' -r -f
complete -c awk -n '__agent_worker_at start' -l trust -d 'let it run the commands its files name (setup, shell)'
complete -c awk -n '__agent_worker_at start' -l update -d 'look up again what a remote ref stands for, and pin that'
complete -c awk -n '__agent_worker_at start' -l continue -d 'go on with what was said in the run before'
complete -c awk -n '__agent_worker_at start' -l foreground -d 'stay, log to stderr, end with the kernel'
complete -c awk -n '__agent_worker_at start' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c awk -n '__agent_worker_at start' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c awk -n '__agent_worker_at start; and __agent_worker_turn 1 0 0' -F -a '(__agent_worker_live workflow)'
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'stop' -d 'stop workflows or agents, or everything'
complete -c awk -n '__agent_worker_at stop' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at stop' -l grace -d 'how long running work may take to end (default: 10s)' -r -f
complete -c awk -n '__agent_worker_at stop' -l now -d 'no grace'
complete -c awk -n '__agent_worker_at stop' -l no-wait -d 'do not wait until their processes have ended'
complete -c awk -n '__agent_worker_at stop' -l yes -d 'do not ask'
complete -c awk -n '__agent_worker_at stop' -s A -l all-projects -d 'the kernels of all your projects'
complete -c awk -n '__agent_worker_at stop' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c awk -n '__agent_worker_at stop' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c awk -n '__agent_worker_at stop; and __agent_worker_turn 1 0 1000' -f -a '(__agent_worker_live target)'
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'status' -d 'say whether the kernel is up; starts nothing'
complete -c awk -n '__agent_worker_at status' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at status' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at status' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c awk -n '__agent_worker_at status' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c awk -n '__agent_worker_at status; and __agent_worker_turn 1 0 0' -f -a '(__agent_worker_live target)'
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'service' -d 'have the system keep the kernel, and start it again when it died'
complete -c awk -n '__agent_worker_at service' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at service' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at service' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c awk -n '__agent_worker_at service' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c awk -n '__agent_worker_at service; and __agent_worker_turn 1 0 0' -f -a 'print' -d 'Print the systemd user unit, or the launchd property list.'
complete -c awk -n '__agent_worker_at service print' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at service print' -l systemd -d 'a systemd user unit (default, but on macOS)'
complete -c awk -n '__agent_worker_at service print' -l launchd -d 'a launchd property list (default on macOS)'
complete -c awk -n '__agent_worker_at service print' -l all -d 'one service for all projects: it starts what is needed'
complete -c awk -n '__agent_worker_at service print' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at service; and __agent_worker_turn 1 0 0' -f -a 'install' -d 'Write it, and start it where the service manager can be reached.'
complete -c awk -n '__agent_worker_at service install' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at service install' -l systemd -d 'a systemd user unit (default, but on macOS)'
complete -c awk -n '__agent_worker_at service install' -l launchd -d 'a launchd property list (default on macOS)'
complete -c awk -n '__agent_worker_at service install' -l all -d 'one service for all projects: it starts what is needed'
complete -c awk -n '__agent_worker_at service install' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at service; and __agent_worker_turn 1 0 0' -f -a 'uninstall' -d 'Stop it and remove it.'
complete -c awk -n '__agent_worker_at service uninstall' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at service uninstall' -l systemd -d 'a systemd user unit (default, but on macOS)'
complete -c awk -n '__agent_worker_at service uninstall' -l launchd -d 'a launchd property list (default on macOS)'
complete -c awk -n '__agent_worker_at service uninstall' -l all -d 'one service for all projects: it starts what is needed'
complete -c awk -n '__agent_worker_at service uninstall' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at service; and __agent_worker_turn 1 0 0' -f -a 'run' -d 'Be the service of all projects: start the kernels that are needed, until stopped.'
complete -c awk -n '__agent_worker_at service run' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at service run' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'restart' -d 'restart an agent\'s worker, or the kernel'
complete -c awk -n '__agent_worker_at restart' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at restart' -l kernel -d 'the kernel: what runs goes on after its last entry'
complete -c awk -n '__agent_worker_at restart' -l trust -d 'let it run the commands its files name (setup, shell)'
complete -c awk -n '__agent_worker_at restart' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at restart' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c awk -n '__agent_worker_at restart' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c awk -n '__agent_worker_at restart; and __agent_worker_turn 1 0 0' -f -a '(__agent_worker_live target)'
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'upgrade' -d 'have a new version go on with all that runs, and the old one if it cannot'
complete -c awk -n '__agent_worker_at upgrade' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at upgrade' -l to -d 'a virtual environment or its agent-worker (default: what is installed now)' -r -f
complete -c awk -n '__agent_worker_at upgrade' -l status -d 'only say how the last one went'
complete -c awk -n '__agent_worker_at upgrade' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at upgrade' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c awk -n '__agent_worker_at upgrade' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'backup' -d 'write the project\'s state into one file, also while the kernel works'
complete -c awk -n '__agent_worker_at backup' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at backup' -l force -d 'replace a file of that name'
complete -c awk -n '__agent_worker_at backup' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at backup' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c awk -n '__agent_worker_at backup' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c awk -n '__agent_worker_at backup; and __agent_worker_turn 1 0 0' -F
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'restore' -d 'put what awk backup or a standby wrote in the place of the state'
complete -c awk -n '__agent_worker_at restore' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at restore' -l promote -d 'go on with a standby: its original must not run again'
complete -c awk -n '__agent_worker_at restore' -l force -d 'set aside what is there first, and say where; with --promote, also where the original may run'
complete -c awk -n '__agent_worker_at restore' -l trust -d 'keep its consents and commands: only for a backup that you made yourself (or AGENT_WORKER_TRUST=1)'
complete -c awk -n '__agent_worker_at restore' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at restore' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c awk -n '__agent_worker_at restore' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c awk -n '__agent_worker_at restore; and __agent_worker_turn 1 0 0' -F
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'standby' -d 'check the copy of a project\'s log at another place'
complete -c awk -n '__agent_worker_at standby' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at standby' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at standby' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c awk -n '__agent_worker_at standby' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c awk -n '__agent_worker_at standby; and __agent_worker_turn 1 0 0' -f -a 'check' -d 'Put a copy together elsewhere, and say up to when it goes; changes nothing.'
complete -c awk -n '__agent_worker_at standby check' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at standby check' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at standby check; and __agent_worker_turn 2 0 0' -F
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'reset' -d 'give an agent work again, whatever kept it from it'
complete -c awk -n '__agent_worker_at reset' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at reset' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at reset' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c awk -n '__agent_worker_at reset' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c awk -n '__agent_worker_at reset; and __agent_worker_turn 1 0 0' -f -a '(__agent_worker_live target)'
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'pause' -d 'hold back the work of an agent or a workflow'
complete -c awk -n '__agent_worker_at pause' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at pause' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at pause' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c awk -n '__agent_worker_at pause' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c awk -n '__agent_worker_at pause; and __agent_worker_turn 1 0 0' -f -a '(__agent_worker_live target)'
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'resume' -d 'let paused work go on, or ask a provider again'
complete -c awk -n '__agent_worker_at resume' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at resume' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at resume' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c awk -n '__agent_worker_at resume' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c awk -n '__agent_worker_at resume; and __agent_worker_turn 1 0 0' -f -a '(__agent_worker_live target)'
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'continue' -d 'grant a workflow its limits, or an agent its budget, once more'
complete -c awk -n '__agent_worker_at continue' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at continue' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at continue' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c awk -n '__agent_worker_at continue' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c awk -n '__agent_worker_at continue; and __agent_worker_turn 1 0 0' -f -a '(__agent_worker_live target)'
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'approve' -d 'let a tool be called that waits for your approval'
complete -c awk -n '__agent_worker_at approve' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at approve' -l reason -d 'kept with the decision; who is denied reads it' -r -f
complete -c awk -n '__agent_worker_at approve' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at approve' -l always -d 'grant every call of this tool by this agent, now and from now on, whose whole input, as pending shows it, fits PATTERN: \'{"command":"git *"}\'; * is any text, and here covers \'git x; rm -rf ~\' too' -r -f
complete -c awk -n '__agent_worker_at approve' -l all-agents -d 'with --always: whichever agent makes it'
complete -c awk -n '__agent_worker_at approve' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c awk -n '__agent_worker_at approve' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c awk -n '__agent_worker_at approve; and __agent_worker_turn 1 0 1000' -f -a '(__agent_worker_live approval)'
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'deny' -d 'refuse it, or take back what was approved once for all'
complete -c awk -n '__agent_worker_at deny' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at deny' -l reason -d 'kept with the decision; who is denied reads it' -r -f
complete -c awk -n '__agent_worker_at deny' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at deny' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c awk -n '__agent_worker_at deny' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c awk -n '__agent_worker_at deny; and __agent_worker_turn 1 0 1000' -f -a '(__agent_worker_live deniable)'
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'answer' -d 'say what an agent says that is a person'
complete -c awk -n '__agent_worker_at answer' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at answer' -l as -d 'refuse it where somebody else is asked by now' -r -f -a '(__agent_worker_live agent)'
complete -c awk -n '__agent_worker_at answer' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at answer' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c awk -n '__agent_worker_at answer' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c awk -n '__agent_worker_at answer; and __agent_worker_turn 1 0 0' -f -a '(__agent_worker_live instruction)'
complete -c awk -n '__agent_worker_at answer; and __agent_worker_turn 1 1 1' -f
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'space' -d 'list the spaces that agents opened, change who is in one, or close it'
complete -c awk -n '__agent_worker_at space' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at space' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at space' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c awk -n '__agent_worker_at space' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c awk -n '__agent_worker_at space; and __agent_worker_turn 1 0 0' -f -a 'list' -d 'List what agents opened, who is in it, and whether it is open.'
complete -c awk -n '__agent_worker_at space list' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at space list' -l run -d 'those of this run (r12), closed ones too' -r -f -a '(__agent_worker_live run)'
complete -c awk -n '__agent_worker_at space list' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at space; and __agent_worker_turn 1 0 0' -f -a 'members' -d 'Let members of the run into a space, or have them leave.'
complete -c awk -n '__agent_worker_at space members' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at space members' -l add -d 'who joins; may be repeated' -r -f
complete -c awk -n '__agent_worker_at space members' -l remove -d 'who leaves; may be repeated' -r -f
complete -c awk -n '__agent_worker_at space members' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at space members; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live space)'
complete -c awk -n '__agent_worker_at space; and __agent_worker_turn 1 0 0' -f -a 'close' -d 'Close a space; the work in it is cancelled.'
complete -c awk -n '__agent_worker_at space close' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at space close' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at space close; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live space)'
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'reassign' -d 'have another member asked in a person\'s place'
complete -c awk -n '__agent_worker_at reassign' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at reassign' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at reassign' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c awk -n '__agent_worker_at reassign' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c awk -n '__agent_worker_at reassign; and __agent_worker_turn 1 0 0' -f -a '(__agent_worker_live instruction)'
complete -c awk -n '__agent_worker_at reassign; and __agent_worker_turn 1 1 1' -f -a '(__agent_worker_live agent)'
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'grant' -d 'let an agent do more than its file says, for a while or a few calls'
complete -c awk -n '__agent_worker_at grant' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at grant' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at grant' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c awk -n '__agent_worker_at grant' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c awk -n '__agent_worker_at grant; and __agent_worker_turn 1 0 0' -f -a 'list' -d 'List what was given, by whom, and what it comes to now.'
complete -c awk -n '__agent_worker_at grant list' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at grant list' -s n -d 'the first N (default: 1000; 0: all)' -r -f
complete -c awk -n '__agent_worker_at grant list' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at grant list; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live channel)'
complete -c awk -n '__agent_worker_at grant; and __agent_worker_turn 1 0 0' -f -a 'give' -d 'Give an agent a scope that its file does not give it.'
complete -c awk -n '__agent_worker_at grant give' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at grant give' -l to -d 'who gets it, such as alice@review' -r -f -a '(__agent_worker_live target)'
complete -c awk -n '__agent_worker_at grant give' -l until -d 'for so long (2h), or to this time (2026-11-22T18:00:00Z)' -r -f
complete -c awk -n '__agent_worker_at grant give' -l uses -d 'for so many calls' -r -f
complete -c awk -n '__agent_worker_at grant give' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at grant give; and __agent_worker_turn 2 0 0' -f -a 'channel.read channel.write documents.read documents.write tasks votes status memory ask feedback rules auth spaces'
complete -c awk -n '__agent_worker_at grant; and __agent_worker_turn 1 0 0' -f -a 'revoke' -d 'Take a grant back, and with it what was handed on from it.'
complete -c awk -n '__agent_worker_at grant revoke' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at grant revoke' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at grant revoke; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live grant)'
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'proposal' -d 'see what agents vote on, vote too, or call a vote off'
complete -c awk -n '__agent_worker_at proposal' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at proposal' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at proposal' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c awk -n '__agent_worker_at proposal' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c awk -n '__agent_worker_at proposal; and __agent_worker_turn 1 0 0' -f -a 'list' -d 'List what is put to the vote, or was in one workflow.'
complete -c awk -n '__agent_worker_at proposal list' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at proposal list' -l all -d 'without a workflow: those that have ended too'
complete -c awk -n '__agent_worker_at proposal list' -s n -d 'the first N (default: 1000; 0: all)' -r -f
complete -c awk -n '__agent_worker_at proposal list' -l archive -d 'read it in what awk export wrote, without a kernel' -r -F
complete -c awk -n '__agent_worker_at proposal list' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at proposal list; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live channel)'
complete -c awk -n '__agent_worker_at proposal; and __agent_worker_turn 1 0 0' -f -a 'show' -d 'Show one proposal, its votes and what came of it.'
complete -c awk -n '__agent_worker_at proposal show' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at proposal show' -l archive -d 'read it in what awk export wrote, without a kernel' -r -F
complete -c awk -n '__agent_worker_at proposal show' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at proposal show; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live any_proposal)'
complete -c awk -n '__agent_worker_at proposal; and __agent_worker_turn 1 0 0' -f -a 'vote' -d 'Vote yourself; a vote is final.'
complete -c awk -n '__agent_worker_at proposal vote' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at proposal vote' -l reason -d 'kept with your vote; the members read it' -r -f
complete -c awk -n '__agent_worker_at proposal vote' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at proposal vote; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live proposal)'
complete -c awk -n '__agent_worker_at proposal vote; and __agent_worker_turn 2 1 1' -f -a '(__agent_worker_live choice)'
complete -c awk -n '__agent_worker_at proposal; and __agent_worker_turn 1 0 0' -f -a 'cancel' -d 'Call a vote off, so that nobody wins.'
complete -c awk -n '__agent_worker_at proposal cancel' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at proposal cancel' -l reason -d 'the members read it' -r -f
complete -c awk -n '__agent_worker_at proposal cancel' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at proposal cancel; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live proposal)'
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'rule' -d 'see what follows from what, define rules, and try them on runs'
complete -c awk -n '__agent_worker_at rule' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at rule' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at rule' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c awk -n '__agent_worker_at rule' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c awk -n '__agent_worker_at rule; and __agent_worker_turn 1 0 0' -f -a 'list' -d 'List the rules of a workflow: whose they are, and how often they were done.'
complete -c awk -n '__agent_worker_at rule list' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at rule list' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at rule list; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live channel)'
complete -c awk -n '__agent_worker_at rule; and __agent_worker_turn 1 0 0' -f -a 'show' -d 'Show one rule as it is now.'
complete -c awk -n '__agent_worker_at rule show' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at rule show' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at rule show; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live rule)'
complete -c awk -n '__agent_worker_at rule show; and __agent_worker_turn 2 1 1' -f -a '(__agent_worker_live channel)'
complete -c awk -n '__agent_worker_at rule; and __agent_worker_turn 1 0 0' -f -a 'add' -d 'Define the rules of a file, or define them anew.'
complete -c awk -n '__agent_worker_at rule add' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at rule add' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at rule add; and __agent_worker_turn 2 0 0' -F
complete -c awk -n '__agent_worker_at rule add; and __agent_worker_turn 2 1 1' -f -a '(__agent_worker_live channel)'
complete -c awk -n '__agent_worker_at rule; and __agent_worker_turn 1 0 0' -f -a 'rm' -d 'Switch rules off; they are kept, and do nothing.'
complete -c awk -n '__agent_worker_at rule rm' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at rule rm' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at rule rm; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live rule)'
complete -c awk -n '__agent_worker_at rule rm; and __agent_worker_turn 2 1 1' -f -a '(__agent_worker_live channel)'
complete -c awk -n '__agent_worker_at rule; and __agent_worker_turn 1 0 0' -f -a 'test' -d 'Say what a rule would have done in a run; nothing is done.'
complete -c awk -n '__agent_worker_at rule test' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at rule test' -l run -d 'whose messages are looked at' -r -f -a '(__agent_worker_live run)'
complete -c awk -n '__agent_worker_at rule test' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at rule test; and __agent_worker_turn 2 0 0' -F -a '(__agent_worker_live rule)'
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'task' -d 'see what is to be done, add to it, and say what is done'
complete -c awk -n '__agent_worker_at task' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at task' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at task' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c awk -n '__agent_worker_at task' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c awk -n '__agent_worker_at task; and __agent_worker_turn 1 0 0' -f -a 'list' -d 'List the tasks of a workflow: what is ready, and who is at which.'
complete -c awk -n '__agent_worker_at task list' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at task list' -l state -d 'only those in this state' -r -f -a 'open ready claimed done failed cancelled'
complete -c awk -n '__agent_worker_at task list' -l for -d 'only those for this agent, or claimed by it' -r -f -a '(__agent_worker_live agent)'
complete -c awk -n '__agent_worker_at task list' -s n -d 'the first N (default: 1000; 0: all)' -r -f
complete -c awk -n '__agent_worker_at task list' -l archive -d 'read it in what awk export wrote, without a kernel' -r -F
complete -c awk -n '__agent_worker_at task list' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at task list; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live channel)'
complete -c awk -n '__agent_worker_at task; and __agent_worker_turn 1 0 0' -f -a 'show' -d 'Show one task, what it waits for and what came of it.'
complete -c awk -n '__agent_worker_at task show' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at task show' -l archive -d 'read it in what awk export wrote, without a kernel' -r -F
complete -c awk -n '__agent_worker_at task show' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at task show; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live channel)'
complete -c awk -n '__agent_worker_at task show; and __agent_worker_turn 2 1 1' -f -a '(__agent_worker_live task)'
complete -c awk -n '__agent_worker_at task; and __agent_worker_turn 1 0 0' -f -a 'add' -d 'Add a task; one that is for an agent is given to it.'
complete -c awk -n '__agent_worker_at task add' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at task add' -l text -d 'all that one needs to do it' -r -f
complete -c awk -n '__agent_worker_at task add' -l key -d 'a name for it, beside its id' -r -f
complete -c awk -n '__agent_worker_at task add' -l for -d 'who does it; without it whoever claims it' -r -f -a '(__agent_worker_live agent)'
complete -c awk -n '__agent_worker_at task add' -l needs -d 'what has to be done before' -r -f -a '(__agent_worker_live task)'
complete -c awk -n '__agent_worker_at task add' -l parent -d 'what it is a part of' -r -f -a '(__agent_worker_live task)'
complete -c awk -n '__agent_worker_at task add' -l files -d 'what nobody else changes then' -r -f
complete -c awk -n '__agent_worker_at task add' -l check -d 'a command that has to end with 0 before it is done' -r -f
complete -c awk -n '__agent_worker_at task add' -l on-failure -d 'if one that it needs fails' -r -f -a 'hold skip cancel'
complete -c awk -n '__agent_worker_at task add' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at task add; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live channel)'
complete -c awk -n '__agent_worker_at task add; and __agent_worker_turn 2 1 1' -f
complete -c awk -n '__agent_worker_at task; and __agent_worker_turn 1 0 0' -f -a 'claim' -d 'Claim tasks, so that no agent does them.'
complete -c awk -n '__agent_worker_at task claim' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at task claim' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at task claim; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live channel)'
complete -c awk -n '__agent_worker_at task claim; and __agent_worker_turn 2 1 1000' -f -a '(__agent_worker_live task)'
complete -c awk -n '__agent_worker_at task; and __agent_worker_turn 1 0 0' -f -a 'done' -d 'Count tasks as done, so that what needs them goes on.'
complete -c awk -n '__agent_worker_at task done' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at task done' -l result -d 'what came of it; the members read it' -r -f
complete -c awk -n '__agent_worker_at task done' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at task done; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live channel)'
complete -c awk -n '__agent_worker_at task done; and __agent_worker_turn 2 1 1000' -f -a '(__agent_worker_live task)'
complete -c awk -n '__agent_worker_at task; and __agent_worker_turn 1 0 0' -f -a 'fail' -d 'Count tasks as failed.'
complete -c awk -n '__agent_worker_at task fail' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at task fail' -l reason -d 'why; the members read it' -r -f
complete -c awk -n '__agent_worker_at task fail' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at task fail; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live channel)'
complete -c awk -n '__agent_worker_at task fail; and __agent_worker_turn 2 1 1000' -f -a '(__agent_worker_live task)'
complete -c awk -n '__agent_worker_at task; and __agent_worker_turn 1 0 0' -f -a 'cancel' -d 'Cancel tasks that are not over.'
complete -c awk -n '__agent_worker_at task cancel' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at task cancel' -l reason -d 'the members read it' -r -f
complete -c awk -n '__agent_worker_at task cancel' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at task cancel; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live channel)'
complete -c awk -n '__agent_worker_at task cancel; and __agent_worker_turn 2 1 1000' -f -a '(__agent_worker_live task)'
complete -c awk -n '__agent_worker_at task; and __agent_worker_turn 1 0 0' -f -a 'graph' -d 'Show what waits for what.'
complete -c awk -n '__agent_worker_at task graph' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at task graph' -s n -d 'only N tasks (default: all; 0: all)' -r -f
complete -c awk -n '__agent_worker_at task graph' -l archive -d 'read it in what awk export wrote, without a kernel' -r -F
complete -c awk -n '__agent_worker_at task graph' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at task graph; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live channel)'
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'doc' -d 'read and write the documents that agents share'
complete -c awk -n '__agent_worker_at doc' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at doc' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at doc' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c awk -n '__agent_worker_at doc' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c awk -n '__agent_worker_at doc; and __agent_worker_turn 1 0 0' -f -a 'list' -d 'List the documents of a workflow.'
complete -c awk -n '__agent_worker_at doc list' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at doc list' -s n -d 'the first N (default: 1000; 0: all)' -r -f
complete -c awk -n '__agent_worker_at doc list' -l archive -d 'read it in what awk export wrote, without a kernel' -r -F
complete -c awk -n '__agent_worker_at doc list' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at doc list; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live channel)'
complete -c awk -n '__agent_worker_at doc; and __agent_worker_turn 1 0 0' -f -a 'read' -d 'Print a document, or an older version of it.'
complete -c awk -n '__agent_worker_at doc read' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at doc read' -l version -d 'an older version' -r -f
complete -c awk -n '__agent_worker_at doc read' -l archive -d 'read it in what awk export wrote, without a kernel' -r -F
complete -c awk -n '__agent_worker_at doc read' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at doc read; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live channel)'
complete -c awk -n '__agent_worker_at doc read; and __agent_worker_turn 2 1 1' -f -a '(__agent_worker_live document)'
complete -c awk -n '__agent_worker_at doc; and __agent_worker_turn 1 0 0' -f -a 'write' -d 'Write the whole text of a document.'
complete -c awk -n '__agent_worker_at doc write' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at doc write' -l reason -d 'kept with the version' -r -f
complete -c awk -n '__agent_worker_at doc write' -l if-version -d 'the version that it was made from: what changed since is merged with it, or refused where it touches it' -r -f
complete -c awk -n '__agent_worker_at doc write' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at doc write; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live channel)'
complete -c awk -n '__agent_worker_at doc write; and __agent_worker_turn 2 1 1' -f -a '(__agent_worker_live document)'
complete -c awk -n '__agent_worker_at doc write; and __agent_worker_turn 2 2 2' -f
complete -c awk -n '__agent_worker_at doc; and __agent_worker_turn 1 0 0' -f -a 'append' -d 'Add to the end of a document.'
complete -c awk -n '__agent_worker_at doc append' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at doc append' -l reason -d 'kept with the version' -r -f
complete -c awk -n '__agent_worker_at doc append' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at doc append; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live channel)'
complete -c awk -n '__agent_worker_at doc append; and __agent_worker_turn 2 1 1' -f -a '(__agent_worker_live document)'
complete -c awk -n '__agent_worker_at doc append; and __agent_worker_turn 2 2 2' -f
complete -c awk -n '__agent_worker_at doc; and __agent_worker_turn 1 0 0' -f -a 'create' -d 'Make a document that is not there.'
complete -c awk -n '__agent_worker_at doc create' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at doc create' -l reason -d 'kept with the version' -r -f
complete -c awk -n '__agent_worker_at doc create' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at doc create; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live channel)'
complete -c awk -n '__agent_worker_at doc create; and __agent_worker_turn 2 1 1' -f -a '(__agent_worker_live document)'
complete -c awk -n '__agent_worker_at doc create; and __agent_worker_turn 2 2 2' -f
complete -c awk -n '__agent_worker_at doc; and __agent_worker_turn 1 0 0' -f -a 'delete' -d 'Delete a document; its history stays.'
complete -c awk -n '__agent_worker_at doc delete' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at doc delete' -l if-version -d 'only if this is its newest version' -r -f
complete -c awk -n '__agent_worker_at doc delete' -l reason -d 'kept with the version' -r -f
complete -c awk -n '__agent_worker_at doc delete' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at doc delete; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live channel)'
complete -c awk -n '__agent_worker_at doc delete; and __agent_worker_turn 2 1 1' -f -a '(__agent_worker_live document)'
complete -c awk -n '__agent_worker_at doc; and __agent_worker_turn 1 0 0' -f -a 'history' -d 'List the versions of a document, the newest first.'
complete -c awk -n '__agent_worker_at doc history' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at doc history' -s n -d 'the first N (default: 1000; 0: all)' -r -f
complete -c awk -n '__agent_worker_at doc history' -l archive -d 'read it in what awk export wrote, without a kernel' -r -F
complete -c awk -n '__agent_worker_at doc history' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at doc history; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live channel)'
complete -c awk -n '__agent_worker_at doc history; and __agent_worker_turn 2 1 1' -f -a '(__agent_worker_live document)'
complete -c awk -n '__agent_worker_at doc; and __agent_worker_turn 1 0 0' -f -a 'diff' -d 'Show what a version changed.'
complete -c awk -n '__agent_worker_at doc diff' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at doc diff' -l from -d '(default: the version before)' -r -f
complete -c awk -n '__agent_worker_at doc diff' -l to -d '(default: the newest version)' -r -f
complete -c awk -n '__agent_worker_at doc diff' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at doc diff; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live channel)'
complete -c awk -n '__agent_worker_at doc diff; and __agent_worker_turn 2 1 1' -f -a '(__agent_worker_live document)'
complete -c awk -n '__agent_worker_at doc; and __agent_worker_turn 1 0 0' -f -a 'blame' -d 'Show who wrote each line, and in which version.'
complete -c awk -n '__agent_worker_at doc blame' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at doc blame' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at doc blame; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live channel)'
complete -c awk -n '__agent_worker_at doc blame; and __agent_worker_turn 2 1 1' -f -a '(__agent_worker_live document)'
complete -c awk -n '__agent_worker_at doc; and __agent_worker_turn 1 0 0' -f -a 'suggestions' -d 'List what agents suggest.'
complete -c awk -n '__agent_worker_at doc suggestions' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at doc suggestions' -l all -d 'those that are decided too'
complete -c awk -n '__agent_worker_at doc suggestions' -s n -d 'the first N (default: 1000; 0: all)' -r -f
complete -c awk -n '__agent_worker_at doc suggestions' -l archive -d 'read it in what awk export wrote, without a kernel' -r -F
complete -c awk -n '__agent_worker_at doc suggestions' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at doc suggestions; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live channel)'
complete -c awk -n '__agent_worker_at doc; and __agent_worker_turn 1 0 0' -f -a 'accept' -d 'Make a suggestion the newest version.'
complete -c awk -n '__agent_worker_at doc accept' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at doc accept' -l reason -d 'the members read it' -r -f
complete -c awk -n '__agent_worker_at doc accept' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at doc accept; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live channel)'
complete -c awk -n '__agent_worker_at doc accept; and __agent_worker_turn 2 1 1' -f -a '(__agent_worker_live suggestion)'
complete -c awk -n '__agent_worker_at doc; and __agent_worker_turn 1 0 0' -f -a 'reject' -d 'Decide that a suggestion is not taken.'
complete -c awk -n '__agent_worker_at doc reject' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at doc reject' -l reason -d 'the members read it' -r -f
complete -c awk -n '__agent_worker_at doc reject' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at doc reject; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live channel)'
complete -c awk -n '__agent_worker_at doc reject; and __agent_worker_turn 2 1 1' -f -a '(__agent_worker_live suggestion)'
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'cancel' -d 'take instructions back'
complete -c awk -n '__agent_worker_at cancel' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at cancel' -l agent -d 'all of this agent: alice, alice@review[:tag]' -r -f -a '(__agent_worker_live agent)'
complete -c awk -n '__agent_worker_at cancel' -l dry-run -d 'only say which it would be'
complete -c awk -n '__agent_worker_at cancel' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at cancel' -l queued -d 'only what no worker is at: what runs goes on'
complete -c awk -n '__agent_worker_at cancel' -l yes -d 'do not ask about many'
complete -c awk -n '__agent_worker_at cancel' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c awk -n '__agent_worker_at cancel' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c awk -n '__agent_worker_at cancel; and __agent_worker_turn 1 0 1000' -f -a '(__agent_worker_live steered)'
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'retry' -d 'try again what failed or is dead'
complete -c awk -n '__agent_worker_at retry' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at retry' -l agent -d 'all of this agent: alice, alice@review[:tag]' -r -f -a '(__agent_worker_live agent)'
complete -c awk -n '__agent_worker_at retry' -l dry-run -d 'only say which it would be'
complete -c awk -n '__agent_worker_at retry' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at retry' -l all -d 'all that dead lists'
complete -c awk -n '__agent_worker_at retry' -l fresh -d 'from the beginning; what its calls did may happen twice'
complete -c awk -n '__agent_worker_at retry' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c awk -n '__agent_worker_at retry' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c awk -n '__agent_worker_at retry; and __agent_worker_turn 1 0 1000' -f -a '(__agent_worker_live steered)'
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'clear' -d 'remove what was said and done in a space, for good'
complete -c awk -n '__agent_worker_at clear' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at clear' -l run -d 'of a workflow only this run (r12; default: all its runs)' -r -f -a '(__agent_worker_live run)'
complete -c awk -n '__agent_worker_at clear' -l yes -d 'do not ask'
complete -c awk -n '__agent_worker_at clear' -l force -d 'also working trees with work that is nowhere else'
complete -c awk -n '__agent_worker_at clear' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at clear' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c awk -n '__agent_worker_at clear' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c awk -n '__agent_worker_at clear; and __agent_worker_turn 1 0 0' -f -a '(__agent_worker_live exported)'
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'prune' -d 'remove what takes room and nobody needs any more'
complete -c awk -n '__agent_worker_at prune' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at prune' -l dry-run -d 'say what would go, and why, and remove nothing'
complete -c awk -n '__agent_worker_at prune' -l yes -d 'do not ask'
complete -c awk -n '__agent_worker_at prune' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at prune' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c awk -n '__agent_worker_at prune' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c awk -n '__agent_worker_at prune; and __agent_worker_turn 1 0 1000' -f -a 'trees unfinished logs aside comparisons attempts database'
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'merge' -d 'merge what the agents of a run did into a branch: all of it, or nothing'
complete -c awk -n '__agent_worker_at merge' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at merge' -l agent -d 'only the branch of this agent; else those of all of them' -r -f
complete -c awk -n '__agent_worker_at merge' -l into -d 'merge into this one; else into that which the run began from' -r -f
complete -c awk -n '__agent_worker_at merge' -l squash -d 'one commit for all of it, in place of a merge of each branch'
complete -c awk -n '__agent_worker_at merge' -l check -d 'a shell command that has to succeed on the result before anything is changed' -r -f
complete -c awk -n '__agent_worker_at merge' -l return -d 'what cannot be merged becomes work for the agent whose it is; exits with 1 all the same'
complete -c awk -n '__agent_worker_at merge' -l dry-run -d 'only say what would come of it; changes nothing and runs no check'
complete -c awk -n '__agent_worker_at merge' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at merge' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c awk -n '__agent_worker_at merge' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c awk -n '__agent_worker_at merge; and __agent_worker_turn 1 0 0' -f -a '(__agent_worker_live merged)'
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'promote' -d 'have an instruction done before those of other lanes'
complete -c awk -n '__agent_worker_at promote' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at promote' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at promote' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c awk -n '__agent_worker_at promote' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c awk -n '__agent_worker_at promote; and __agent_worker_turn 1 0 1000' -f -a '(__agent_worker_live instruction)'
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'ps' -d 'list agents as processes'
complete -c awk -n '__agent_worker_at ps' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at ps' -s a -l all -d 'agents of workflows that have ended, too'
complete -c awk -n '__agent_worker_at ps' -s A -l all-projects -d 'of all your projects whose kernel runs'
complete -c awk -n '__agent_worker_at ps' -s q -l quiet -d 'only names, as other commands take them'
complete -c awk -n '__agent_worker_at ps' -l sort -d 'by a column: the largest number first; -COLUMN: the last first' -r -f
complete -c awk -n '__agent_worker_at ps' -s o -l columns -d 'only these, in this order: name,state,cost' -r -f
complete -c awk -n '__agent_worker_at ps' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at ps' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c awk -n '__agent_worker_at ps' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c awk -n '__agent_worker_at ps; and __agent_worker_turn 1 0 0' -f -a '(__agent_worker_live target)'
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'projects' -d 'list all your projects in which a kernel ran, and how each is'
complete -c awk -n '__agent_worker_at projects' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at projects' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at projects' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c awk -n '__agent_worker_at projects' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'top' -d 'watch agents live (q quits)'
complete -c awk -n '__agent_worker_at top' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at top' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at top' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c awk -n '__agent_worker_at top' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'open' -d 'show all of it in a browser, or print the address of the page'
complete -c awk -n '__agent_worker_at open' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at open' -l read-only -d 'let the page look, and change nothing'
complete -c awk -n '__agent_worker_at open' -l print -d 'print the address, good for one browser in the next minute'
complete -c awk -n '__agent_worker_at open' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at open' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c awk -n '__agent_worker_at open' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'ls' -d 'list agents'
complete -c awk -n '__agent_worker_at ls' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at ls' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at ls' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c awk -n '__agent_worker_at ls' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'list' -d 'list agents'
complete -c awk -n '__agent_worker_at list' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at list' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at list' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c awk -n '__agent_worker_at list' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'peek' -d 'show the latest messages of an agent or workflow'
complete -c awk -n '__agent_worker_at peek' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at peek' -s n -d 'the last N (default: 50; 0: all)' -r -f
complete -c awk -n '__agent_worker_at peek' -s f -l follow -d 'go on as messages come'
complete -c awk -n '__agent_worker_at peek' -l archive -d 'read it in what awk export wrote, without a kernel' -r -F
complete -c awk -n '__agent_worker_at peek' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at peek' -l jsonl -d 'print one JSON object a line, as they come'
complete -c awk -n '__agent_worker_at peek' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c awk -n '__agent_worker_at peek' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c awk -n '__agent_worker_at peek; and __agent_worker_turn 1 0 0' -f -a '(__agent_worker_live target)'
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'channel' -d 'show the channel of a workflow'
complete -c awk -n '__agent_worker_at channel' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at channel' -l run -d 'only what was said in that run (r12), also an earlier one' -r -f -a '(__agent_worker_live run)'
complete -c awk -n '__agent_worker_at channel' -s n -d 'the last N (default: 50; 0: all)' -r -f
complete -c awk -n '__agent_worker_at channel' -s f -l follow -d 'go on as messages come'
complete -c awk -n '__agent_worker_at channel' -l archive -d 'read it in what awk export wrote, without a kernel' -r -F
complete -c awk -n '__agent_worker_at channel' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at channel' -l jsonl -d 'print one JSON object a line, as they come'
complete -c awk -n '__agent_worker_at channel' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c awk -n '__agent_worker_at channel' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c awk -n '__agent_worker_at channel; and __agent_worker_turn 1 0 0' -f -a '(__agent_worker_live channel)'
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'resource' -d 'print the long texts that messages refer to, or keep one for agents'
complete -c awk -n '__agent_worker_at resource' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at resource' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at resource' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c awk -n '__agent_worker_at resource' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c awk -n '__agent_worker_at resource; and __agent_worker_turn 1 0 0' -f -a 'list' -d 'List the long texts of all spaces, or of one.'
complete -c awk -n '__agent_worker_at resource list' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at resource list' -s n -d 'the first N (default: 1000; 0: all)' -r -f
complete -c awk -n '__agent_worker_at resource list' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at resource list; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live target)'
complete -c awk -n '__agent_worker_at resource; and __agent_worker_turn 1 0 0' -f -a 'get' -d 'Print one, exactly as it is.'
complete -c awk -n '__agent_worker_at resource get' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at resource get' -l offset -d 'from this character on (default: 0)' -r -f
complete -c awk -n '__agent_worker_at resource get' -l limit -d 'at most so many characters (default: all)' -r -f
complete -c awk -n '__agent_worker_at resource get' -l archive -d 'read it in what awk export wrote, without a kernel' -r -F
complete -c awk -n '__agent_worker_at resource get' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at resource get; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live resource)'
complete -c awk -n '__agent_worker_at resource; and __agent_worker_turn 1 0 0' -f -a 'add' -d 'Keep a text where agents can read it, and print its id.'
complete -c awk -n '__agent_worker_at resource add' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at resource add' -l type -d 'its media type (default: text/plain)' -r -f
complete -c awk -n '__agent_worker_at resource add' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at resource add; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live target)'
complete -c awk -n '__agent_worker_at resource add; and __agent_worker_turn 2 1 1' -f
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'inbox' -d 'show what an agent has not handled'
complete -c awk -n '__agent_worker_at inbox' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at inbox' -s n -d 'the first N (default: 200; 0: all)' -r -f
complete -c awk -n '__agent_worker_at inbox' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at inbox' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c awk -n '__agent_worker_at inbox' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c awk -n '__agent_worker_at inbox; and __agent_worker_turn 1 0 0' -f -a '(__agent_worker_live target)'
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'queue' -d 'show what waits for an agent'
complete -c awk -n '__agent_worker_at queue' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at queue' -s n -d 'the first N (default: 1000; 0: all)' -r -f
complete -c awk -n '__agent_worker_at queue' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at queue' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c awk -n '__agent_worker_at queue' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c awk -n '__agent_worker_at queue; and __agent_worker_turn 1 0 0' -f -a '(__agent_worker_live target)'
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'needs' -d 'list what goes on only once you do something'
complete -c awk -n '__agent_worker_at needs' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at needs' -s f -l follow -d 'go on: say what comes, and what is settled'
complete -c awk -n '__agent_worker_at needs' -s A -l all-projects -d 'of all your projects whose kernel runs, not of this one alone'
complete -c awk -n '__agent_worker_at needs' -s n -d 'the first N (default: 1000; 0: all)' -r -f
complete -c awk -n '__agent_worker_at needs' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at needs' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c awk -n '__agent_worker_at needs' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'pending' -d 'list what waits for your approval'
complete -c awk -n '__agent_worker_at pending' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at pending' -l rules -d 'what approve --always granted; deny ID takes it back'
complete -c awk -n '__agent_worker_at pending' -s n -d 'the first N (default: 1000; 0: all)' -r -f
complete -c awk -n '__agent_worker_at pending' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at pending' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c awk -n '__agent_worker_at pending' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c awk -n '__agent_worker_at pending; and __agent_worker_turn 1 0 0' -f -a '(__agent_worker_live approval)'
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'audit' -d 'see who asked whose memory for what, and what was given'
complete -c awk -n '__agent_worker_at audit' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at audit' -l agent -d 'only where this agent asked, or was asked' -r -f -a '(__agent_worker_live agent)'
complete -c awk -n '__agent_worker_at audit' -s n -d 'the first N (default: 1000; 0: all)' -r -f
complete -c awk -n '__agent_worker_at audit' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at audit' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c awk -n '__agent_worker_at audit' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'feedback' -d 'see what agents say of the work itself, or add to it'
complete -c awk -n '__agent_worker_at feedback' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at feedback' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at feedback' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c awk -n '__agent_worker_at feedback' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c awk -n '__agent_worker_at feedback; and __agent_worker_turn 1 0 0' -f -a 'list' -d 'List what was said about the work.'
complete -c awk -n '__agent_worker_at feedback list' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at feedback list' -s n -d 'the last N (default: 1000; 0: all)' -r -f
complete -c awk -n '__agent_worker_at feedback list' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at feedback; and __agent_worker_turn 1 0 0' -f -a 'add' -d 'Add something yourself.'
complete -c awk -n '__agent_worker_at feedback add' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at feedback add' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at feedback add; and __agent_worker_turn 2 0 0' -f
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'stats' -d 'show what work took: tokens, money, time, and how it ended'
complete -c awk -n '__agent_worker_at stats' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at stats' -l by -d 'part it by agent, workflow, model or day (of UTC), or by two of them: day,model' -r -f
complete -c awk -n '__agent_worker_at stats' -l since -d 'only what ended since then: 7d, 2h, 2026-11-01, or a time such as 2026-11-01T12:00:00Z' -r -f
complete -c awk -n '__agent_worker_at stats' -l until -d 'and before then (default: now)' -r -f
complete -c awk -n '__agent_worker_at stats' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at stats' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c awk -n '__agent_worker_at stats' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c awk -n '__agent_worker_at stats; and __agent_worker_turn 1 0 0' -f -a '(__agent_worker_live target)'
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'dead' -d 'list instructions that failed for good'
complete -c awk -n '__agent_worker_at dead' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at dead' -l clear -d 'list what failed until now no more; show and retry still know it'
complete -c awk -n '__agent_worker_at dead' -s n -d 'the last N (default: 1000; 0: all)' -r -f
complete -c awk -n '__agent_worker_at dead' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at dead' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c awk -n '__agent_worker_at dead' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'runs' -d 'list runs of workflows, the newest first'
complete -c awk -n '__agent_worker_at runs' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at runs' -l status -d 'only those that run, or that ended so' -r -f -a 'running stopped done failed incomplete rejected cancelled timeout'
complete -c awk -n '__agent_worker_at runs' -l since -d 'only those started in the last 10m, 2h, 7d, ...' -r -f
complete -c awk -n '__agent_worker_at runs' -s n -d 'the newest N (default: 100; 0: all)' -r -f
complete -c awk -n '__agent_worker_at runs' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at runs' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c awk -n '__agent_worker_at runs' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c awk -n '__agent_worker_at runs; and __agent_worker_turn 1 0 0' -f -a '(__agent_worker_live channel)'
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'show' -d 'show a run or an instruction'
complete -c awk -n '__agent_worker_at show' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at show' -l prompt -d 'of an instruction: what the model is told first'
complete -c awk -n '__agent_worker_at show' -l steps -d 'of an instruction: what was done, call by call'
complete -c awk -n '__agent_worker_at show' -l full -d 'with --steps: all of arguments and results, however long'
complete -c awk -n '__agent_worker_at show' -s n -d 'with --steps: the first N (default: 1000; 0: all)' -r -f
complete -c awk -n '__agent_worker_at show' -l archive -d 'read it in what awk export wrote, without a kernel' -r -F
complete -c awk -n '__agent_worker_at show' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at show' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c awk -n '__agent_worker_at show' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c awk -n '__agent_worker_at show; and __agent_worker_turn 1 0 0' -f -a '(__agent_worker_live shown)'
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'export' -d 'write all that was said and done in a run or a space into one file'
complete -c awk -n '__agent_worker_at export' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at export' -l format -d 'jsonl, which import reads; md, a page for people' -r -f -a 'jsonl md'
complete -c awk -n '__agent_worker_at export' -s o -l output -d 'write it there, whole or not at all' -r -F
complete -c awk -n '__agent_worker_at export' -l json -d 'with -o: print one JSON document about the file'
complete -c awk -n '__agent_worker_at export' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c awk -n '__agent_worker_at export' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c awk -n '__agent_worker_at export; and __agent_worker_turn 1 0 0' -f -a '(__agent_worker_live exported)'
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'import' -d 'check an archive and say what is in it; show and channel read it'
complete -c awk -n '__agent_worker_at import' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at import' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at import' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c awk -n '__agent_worker_at import' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c awk -n '__agent_worker_at import; and __agent_worker_turn 1 0 0' -F
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'diff' -d 'show what agents did in working trees of their own'
complete -c awk -n '__agent_worker_at diff' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at diff' -l stat -d 'files and numbers of lines only'
complete -c awk -n '__agent_worker_at diff' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at diff' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c awk -n '__agent_worker_at diff' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c awk -n '__agent_worker_at diff; and __agent_worker_turn 1 0 0' -f -a '(__agent_worker_live diffed)'
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'attach' -d 'watch an agent or a workflow work, and approve its calls in place'
complete -c awk -n '__agent_worker_at attach' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at attach' -l jsonl -d 'print one JSON object a line, as they come'
complete -c awk -n '__agent_worker_at attach' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c awk -n '__agent_worker_at attach' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c awk -n '__agent_worker_at attach; and __agent_worker_turn 1 0 0' -f -a '(__agent_worker_live target)'
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'worktree' -d 'list and remove the git working trees of agents'
complete -c awk -n '__agent_worker_at worktree' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at worktree' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at worktree' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c awk -n '__agent_worker_at worktree' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c awk -n '__agent_worker_at worktree; and __agent_worker_turn 1 0 0' -f -a 'list' -d 'List the working trees there are.'
complete -c awk -n '__agent_worker_at worktree list' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at worktree list' -l run -d 'only of this run (r12)' -r -f -a '(__agent_worker_live run)'
complete -c awk -n '__agent_worker_at worktree list' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at worktree; and __agent_worker_turn 1 0 0' -f -a 'rm' -d 'Remove those of a run that has ended.'
complete -c awk -n '__agent_worker_at worktree rm' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at worktree rm' -l run -d 'of this run (r12), which has ended' -r -f -a '(__agent_worker_live run)'
complete -c awk -n '__agent_worker_at worktree rm' -l force -d 'also work that is nowhere else: it does not come back'
complete -c awk -n '__agent_worker_at worktree rm' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at worktree rm; and __agent_worker_turn 2 0 1000' -f -a '(__agent_worker_live agent)'
complete -c awk -n '__agent_worker_at worktree; and __agent_worker_turn 1 0 0' -f -a 'prune' -d 'Remove all of ended runs in which nothing would be lost.'
complete -c awk -n '__agent_worker_at worktree prune' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at worktree prune' -l run -d 'only of this run (r12)' -r -f -a '(__agent_worker_live run)'
complete -c awk -n '__agent_worker_at worktree prune' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'logs' -d 'show what workers and attempts did'
complete -c awk -n '__agent_worker_at logs' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at logs' -l previous -d 'its last attempt that ended; without a target the kernel before this'
complete -c awk -n '__agent_worker_at logs' -l level -d 'only what is at least so grave' -r -f -a 'debug info warning error'
complete -c awk -n '__agent_worker_at logs' -s n -d 'the last N lines; with -f before those that come (default: all; 0: all)' -r -f
complete -c awk -n '__agent_worker_at logs' -s f -l follow -d 'go on as they come; without --since from now on'
complete -c awk -n '__agent_worker_at logs' -l since -d 'only those of the last 10m, 2h, ...' -r -f
complete -c awk -n '__agent_worker_at logs' -l jsonl -d 'print one JSON object a line, as they come'
complete -c awk -n '__agent_worker_at logs' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c awk -n '__agent_worker_at logs' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c awk -n '__agent_worker_at logs; and __agent_worker_turn 1 0 0' -f -a '(__agent_worker_live target)'
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'events' -d 'show the kernel\'s events'
complete -c awk -n '__agent_worker_at events' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at events' -s f -l follow -d 'go on as they come; without --since from now on'
complete -c awk -n '__agent_worker_at events' -l since -d 'only those of the last 10m, 2h, ...' -r -f
complete -c awk -n '__agent_worker_at events' -l jsonl -d 'print one JSON object a line, as they come'
complete -c awk -n '__agent_worker_at events' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c awk -n '__agent_worker_at events' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'doctor' -d 'say what keeps agents from working here, and the way out'
complete -c awk -n '__agent_worker_at doctor' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at doctor' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at doctor' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c awk -n '__agent_worker_at doctor' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'df' -d 'say what of the project\'s state takes room, and how there is less of it'
complete -c awk -n '__agent_worker_at df' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at df' -s n -d 'so many runs at most (0: all)' -r -f
complete -c awk -n '__agent_worker_at df' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at df' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c awk -n '__agent_worker_at df' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'wait' -d 'wait until an agent, a run or an instruction is idle, done, or needs you'
complete -c awk -n '__agent_worker_at wait' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at wait' -l for -d 'idle: has nothing to do; done: has ended (a run, an instruction, a workflow); needs: needs a person' -r -f -a 'idle done needs'
complete -c awk -n '__agent_worker_at wait' -l timeout -d 'for so long at most (10s, 5m); then exit code 124' -r -f
complete -c awk -n '__agent_worker_at wait' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at wait' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c awk -n '__agent_worker_at wait' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c awk -n '__agent_worker_at wait; and __agent_worker_turn 1 0 0' -f -a '(__agent_worker_live target)'
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'watch' -d 'follow a run to its end; --exit-status ends as the run does'
complete -c awk -n '__agent_worker_at watch' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at watch' -l exit-status -d 'end with the exit code that run would have had'
complete -c awk -n '__agent_worker_at watch' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at watch' -l jsonl -d 'print one JSON object a line, as they come'
complete -c awk -n '__agent_worker_at watch' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c awk -n '__agent_worker_at watch' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c awk -n '__agent_worker_at watch; and __agent_worker_turn 1 0 0' -f -a '(__agent_worker_live merged)'
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'new' -d 'make an agent that lives until the kernel stops'
complete -c awk -n '__agent_worker_at new' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at new' -s m -l model -d 'provider/name, or an alias' -r -f
complete -c awk -n '__agent_worker_at new' -s b -l backend -d 'what runs it (default: sdk)' -r -f
complete -c awk -n '__agent_worker_at new' -s s -l system -d 'its system prompt (default: a short one)' -r -f
complete -c awk -n '__agent_worker_at new' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at new' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c awk -n '__agent_worker_at new' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c awk -n '__agent_worker_at new; and __agent_worker_turn 1 0 0' -f
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'agent' -d 'create, change and delete agents; what they know, noted and have to do'
complete -c awk -n '__agent_worker_at agent' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at agent' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at agent' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c awk -n '__agent_worker_at agent' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c awk -n '__agent_worker_at agent; and __agent_worker_turn 1 0 0' -f -a 'list' -d 'List the agents of the project.'
complete -c awk -n '__agent_worker_at agent list' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at agent list' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at agent; and __agent_worker_turn 1 0 0' -f -a 'info' -d 'Show what an agent is.'
complete -c awk -n '__agent_worker_at agent info' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at agent info' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at agent info; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live agent)'
complete -c awk -n '__agent_worker_at agent; and __agent_worker_turn 1 0 0' -f -a 'create' -d 'Write the file of a new agent.'
complete -c awk -n '__agent_worker_at agent create' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at agent create' -s m -l model -d 'provider/name, or an alias' -r -f
complete -c awk -n '__agent_worker_at agent create' -s b -l backend -d 'what runs it (default: sdk)' -r -f
complete -c awk -n '__agent_worker_at agent create' -s s -l system -d 'its system prompt' -r -f
complete -c awk -n '__agent_worker_at agent create' -l system-file -d 'a file of the project that has its system prompt' -r -F
complete -c awk -n '__agent_worker_at agent create' -l role -d 'what it is, in a few words' -r -f
complete -c awk -n '__agent_worker_at agent create' -l expertise -d 'what it knows about' -r -f
complete -c awk -n '__agent_worker_at agent create' -l from -d 'an agent made by new, or a file of .claude/agents' -r -F -a '(__agent_worker_live agent)'
complete -c awk -n '__agent_worker_at agent create' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at agent create; and __agent_worker_turn 2 0 0' -f
complete -c awk -n '__agent_worker_at agent; and __agent_worker_turn 1 0 0' -f -a 'edit' -d 'Change the file of an agent, in an editor or by KEY=VALUE.'
complete -c awk -n '__agent_worker_at agent edit' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at agent edit' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at agent edit; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live agent)'
complete -c awk -n '__agent_worker_at agent edit; and __agent_worker_turn 2 1 1000' -f
complete -c awk -n '__agent_worker_at agent; and __agent_worker_turn 1 0 0' -f -a 'delete' -d 'Move an agent and its context to the trash.'
complete -c awk -n '__agent_worker_at agent delete' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at agent delete' -l yes -d 'do not ask'
complete -c awk -n '__agent_worker_at agent delete' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at agent delete; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live agent)'
complete -c awk -n '__agent_worker_at agent; and __agent_worker_turn 1 0 0' -f -a 'memory' -d 'Show or change what an agent knows.'
complete -c awk -n '__agent_worker_at agent memory' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at agent memory' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at agent memory; and __agent_worker_turn 2 0 0' -f -a 'get' -d ''
complete -c awk -n '__agent_worker_at agent memory get' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at agent memory get' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at agent memory get; and __agent_worker_turn 3 0 0' -f
complete -c awk -n '__agent_worker_at agent memory; and __agent_worker_turn 2 0 0' -f -a 'set' -d ''
complete -c awk -n '__agent_worker_at agent memory set' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at agent memory set' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at agent memory set' -l tier -d 'how soon it comes to mind (default: working)' -r -f -a 'core working archive'
complete -c awk -n '__agent_worker_at agent memory set' -l visibility -d 'who may see it (default: private)' -r -f -a 'private shareable public'
complete -c awk -n '__agent_worker_at agent memory set; and __agent_worker_turn 3 0 0' -f
complete -c awk -n '__agent_worker_at agent memory set; and __agent_worker_turn 3 1 1' -f
complete -c awk -n '__agent_worker_at agent memory; and __agent_worker_turn 2 0 0' -f -a 'rm' -d ''
complete -c awk -n '__agent_worker_at agent memory rm' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at agent memory rm' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at agent memory rm; and __agent_worker_turn 3 0 0' -f
complete -c awk -n '__agent_worker_at agent memory; and __agent_worker_turn 2 0 0' -f -a 'search' -d ''
complete -c awk -n '__agent_worker_at agent memory search' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at agent memory search' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at agent memory search' -l archive -d 'look into the archive, too'
complete -c awk -n '__agent_worker_at agent memory search' -s n -d 'at most so many (default: 10; 0: all)' -r -f
complete -c awk -n '__agent_worker_at agent memory search; and __agent_worker_turn 3 0 0' -f
complete -c awk -n '__agent_worker_at agent memory; and __agent_worker_turn 2 0 0' -f -a 'purge' -d ''
complete -c awk -n '__agent_worker_at agent memory purge' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at agent memory purge' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at agent memory purge' -l source -d 'what it is from: the id of a message (m12), or user, agent, tool, web' -r -f
complete -c awk -n '__agent_worker_at agent memory; and __agent_worker_turn 2 0 0' -f -a 'tray' -d ''
complete -c awk -n '__agent_worker_at agent memory tray' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at agent memory tray' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at agent memory tray; and __agent_worker_turn 3 0 0' -f -a 'approve reject'
complete -c awk -n '__agent_worker_at agent memory tray; and __agent_worker_turn 3 1 1' -f -a '(__agent_worker_live tray)'
complete -c awk -n '__agent_worker_at agent; and __agent_worker_turn 1 0 0' -f -a 'notes' -d 'Show or add notes of an agent.'
complete -c awk -n '__agent_worker_at agent notes' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at agent notes' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at agent notes; and __agent_worker_turn 2 0 0' -f -a 'add' -d ''
complete -c awk -n '__agent_worker_at agent notes add' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at agent notes add' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at agent notes add; and __agent_worker_turn 3 0 0' -f
complete -c awk -n '__agent_worker_at agent notes; and __agent_worker_turn 2 0 0' -f -a 'show' -d ''
complete -c awk -n '__agent_worker_at agent notes show' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at agent notes show' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at agent notes show; and __agent_worker_turn 3 0 0' -f
complete -c awk -n '__agent_worker_at agent; and __agent_worker_turn 1 0 0' -f -a 'soul' -d 'Show who an agent is, and decide what it suggests of that.'
complete -c awk -n '__agent_worker_at agent soul' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at agent soul' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at agent soul; and __agent_worker_turn 2 0 0' -f -a 'show' -d ''
complete -c awk -n '__agent_worker_at agent soul show' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at agent soul show' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at agent soul; and __agent_worker_turn 2 0 0' -f -a 'history' -d ''
complete -c awk -n '__agent_worker_at agent soul history' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at agent soul history' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at agent soul; and __agent_worker_turn 2 0 0' -f -a 'approve' -d ''
complete -c awk -n '__agent_worker_at agent soul approve' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at agent soul approve' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at agent soul approve' -l reason -d 'it is kept with it' -r -f
complete -c awk -n '__agent_worker_at agent soul approve; and __agent_worker_turn 3 0 0' -f -a '(__agent_worker_live soul)'
complete -c awk -n '__agent_worker_at agent soul; and __agent_worker_turn 2 0 0' -f -a 'reject' -d ''
complete -c awk -n '__agent_worker_at agent soul reject' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at agent soul reject' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at agent soul reject' -l reason -d 'it is kept with it' -r -f
complete -c awk -n '__agent_worker_at agent soul reject; and __agent_worker_turn 3 0 0' -f -a '(__agent_worker_live soul)'
complete -c awk -n '__agent_worker_at agent soul; and __agent_worker_turn 2 0 0' -f -a 'rollback' -d ''
complete -c awk -n '__agent_worker_at agent soul rollback' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at agent soul rollback' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at agent soul rollback' -l reason -d 'it is kept with the new version' -r -f
complete -c awk -n '__agent_worker_at agent soul rollback; and __agent_worker_turn 3 0 0' -f
complete -c awk -n '__agent_worker_at agent; and __agent_worker_turn 1 0 0' -f -a 'todo' -d 'Show or change what an agent has to do.'
complete -c awk -n '__agent_worker_at agent todo' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at agent todo' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at agent todo; and __agent_worker_turn 2 0 0' -f -a 'add' -d ''
complete -c awk -n '__agent_worker_at agent todo add' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at agent todo add' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at agent todo add; and __agent_worker_turn 3 0 0' -f
complete -c awk -n '__agent_worker_at agent todo; and __agent_worker_turn 2 0 0' -f -a 'done' -d ''
complete -c awk -n '__agent_worker_at agent todo done' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at agent todo done' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at agent todo done; and __agent_worker_turn 3 0 0' -f
complete -c awk -n '__agent_worker_at agent todo; and __agent_worker_turn 2 0 0' -f -a 'rm' -d ''
complete -c awk -n '__agent_worker_at agent todo rm' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at agent todo rm' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at agent todo rm; and __agent_worker_turn 3 0 0' -f
complete -c awk -n '__agent_worker_at agent; and __agent_worker_turn 1 0 0' -f -a 'reindex' -d 'Make the index of what agents said and did anew.'
complete -c awk -n '__agent_worker_at agent reindex' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at agent reindex' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at agent reindex; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live agent)'
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'memory' -d 'measure how well agents find again what was said'
complete -c awk -n '__agent_worker_at memory' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at memory' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at memory' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c awk -n '__agent_worker_at memory' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c awk -n '__agent_worker_at memory; and __agent_worker_turn 1 0 0' -f -a 'eval' -d 'Measure whether what is found for questions is what answers them.'
complete -c awk -n '__agent_worker_at memory eval' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at memory eval' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at memory eval; and __agent_worker_turn 2 0 0' -F
complete -c awk -n '__agent_worker_at memory; and __agent_worker_turn 1 0 0' -f -a 'growth' -d 'Measure how much junk a memory takes up over generated runs, with and without the guard.'
complete -c awk -n '__agent_worker_at memory growth' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at memory growth' -l seed -d 'the same runs each time for the same N (1)' -r -f
complete -c awk -n '__agent_worker_at memory growth' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at memory growth; and __agent_worker_turn 2 0 0' -f
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'tool' -d 'list, make and mock the tools that agents can have'
complete -c awk -n '__agent_worker_at tool' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at tool' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at tool' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c awk -n '__agent_worker_at tool' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c awk -n '__agent_worker_at tool; and __agent_worker_turn 1 0 0' -f -a 'list' -d 'List the tools that agents can have, and who has them.'
complete -c awk -n '__agent_worker_at tool list' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at tool list' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at tool; and __agent_worker_turn 1 0 0' -f -a 'add' -d 'Make a command a tool of the project.'
complete -c awk -n '__agent_worker_at tool add' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at tool add' -s d -l description -d 'what a model is told of it' -r -f
complete -c awk -n '__agent_worker_at tool add' -s a -l argument -d 'an argument: path:string, limit:integer? (may be left out); a word ${path} of the command is its value' -r -f
complete -c awk -n '__agent_worker_at tool add' -l read-only -d 'it changes nothing: nobody is asked before it runs'
complete -c awk -n '__agent_worker_at tool add' -l timeout -d 'how long a call may take (default: 120s)' -r -f
complete -c awk -n '__agent_worker_at tool add' -l mock -d 'a canned answer, in place of running a command' -r -f
complete -c awk -n '__agent_worker_at tool add' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at tool add; and __agent_worker_turn 2 0 0' -f
complete -c awk -n '__agent_worker_at tool; and __agent_worker_turn 1 0 0' -f -a 'import' -d 'Take tools over from a file of another project.'
complete -c awk -n '__agent_worker_at tool import' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at tool import' -l replace -d 'in place of tools of the same name'
complete -c awk -n '__agent_worker_at tool import' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at tool import; and __agent_worker_turn 2 0 0' -F
complete -c awk -n '__agent_worker_at tool import; and __agent_worker_turn 2 1 1000' -f
complete -c awk -n '__agent_worker_at tool; and __agent_worker_turn 1 0 0' -f -a 'mock' -d 'Have a tool give a canned answer, and nothing run.'
complete -c awk -n '__agent_worker_at tool mock' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at tool mock' -l off -d 'have it run its command again'
complete -c awk -n '__agent_worker_at tool mock' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at tool mock; and __agent_worker_turn 2 0 0' -f
complete -c awk -n '__agent_worker_at tool mock; and __agent_worker_turn 2 1 1' -f
complete -c awk -n '__agent_worker_at tool; and __agent_worker_turn 1 0 0' -f -a 'rm' -d 'Remove a tool of the project.'
complete -c awk -n '__agent_worker_at tool rm' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at tool rm' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at tool rm; and __agent_worker_turn 2 0 0' -f
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'worker' -d 'check a program that is to be a worker'
complete -c awk -n '__agent_worker_at worker' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at worker' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at worker' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c awk -n '__agent_worker_at worker' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c awk -n '__agent_worker_at worker; and __agent_worker_turn 1 0 0' -f -a 'check' -d 'Run a program as a kernel would, and say what it does wrong.'
complete -c awk -n '__agent_worker_at worker check' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at worker check' -l message -d 'what it is asked (default: Say hello.)' -r -f
complete -c awk -n '__agent_worker_at worker check' -l timeout -d 'for each of four runs (default: 60s)' -r -f
complete -c awk -n '__agent_worker_at worker check' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at worker check; and __agent_worker_turn 2 0 1000' -f
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'skills' -d 'list, import and update what agents can read up on'
complete -c awk -n '__agent_worker_at skills' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at skills' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at skills' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c awk -n '__agent_worker_at skills' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c awk -n '__agent_worker_at skills; and __agent_worker_turn 1 0 0' -f -a 'list' -d 'List the skills of the project, and who reads them.'
complete -c awk -n '__agent_worker_at skills list' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at skills list' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at skills; and __agent_worker_turn 1 0 0' -f -a 'import' -d 'Copy skills out of a repository, pinned to a commit.'
complete -c awk -n '__agent_worker_at skills import' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at skills import' -l force -d 'in place of what is there'
complete -c awk -n '__agent_worker_at skills import' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at skills import; and __agent_worker_turn 2 0 0' -f
complete -c awk -n '__agent_worker_at skills import; and __agent_worker_turn 2 1 1000' -f
complete -c awk -n '__agent_worker_at skills; and __agent_worker_turn 1 0 0' -f -a 'update' -d 'Look up again what imported skills come from.'
complete -c awk -n '__agent_worker_at skills update' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at skills update' -l force -d 'also what was changed here: the changes are lost'
complete -c awk -n '__agent_worker_at skills update' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at skills update; and __agent_worker_turn 2 0 1000' -f
complete -c awk -n '__agent_worker_at skills; and __agent_worker_turn 1 0 0' -f -a 'rm' -d 'Remove imported skills.'
complete -c awk -n '__agent_worker_at skills rm' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at skills rm' -l force -d 'also what was changed here'
complete -c awk -n '__agent_worker_at skills rm' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at skills rm; and __agent_worker_turn 2 0 1000' -f
complete -c awk -n '__agent_worker_at skills; and __agent_worker_turn 1 0 0' -f -a 'install-self' -d 'Put a skill into the project that teaches a coding agent to use agent-worker.'
complete -c awk -n '__agent_worker_at skills install-self' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at skills install-self' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'init' -d 'write example files into this project'
complete -c awk -n '__agent_worker_at init' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at init' -l example -d 'which one (default: hello); list: only say which there are' -r -f -a 'handbook hello memory nodes review team verdict list'
complete -c awk -n '__agent_worker_at init' -l backend -d 'this program does the work of its agents, in place of their scripts' -r -f -a 'claude codex cursor opencode'
complete -c awk -n '__agent_worker_at init' -s m -l model -d 'with --backend: its model (claude: sonnet)' -r -f
complete -c awk -n '__agent_worker_at init' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c awk -n '__agent_worker_at init' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'validate' -d 'say everything that is wrong with the project\'s files'
complete -c awk -n '__agent_worker_at validate' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at validate' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at validate' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c awk -n '__agent_worker_at validate' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c awk -n '__agent_worker_at validate; and __agent_worker_turn 1 0 1000' -F
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'config' -d 'show what a file comes to, and where each value is from'
complete -c awk -n '__agent_worker_at config' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at config' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at config' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c awk -n '__agent_worker_at config' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c awk -n '__agent_worker_at config; and __agent_worker_turn 1 0 0' -F -a '(__agent_worker_live named)'
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'schema' -d 'print the JSON Schema of a file, for editors'
complete -c awk -n '__agent_worker_at schema' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at schema' -l write -d 'write all of them where the files\' headers look'
complete -c awk -n '__agent_worker_at schema' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c awk -n '__agent_worker_at schema' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c awk -n '__agent_worker_at schema; and __agent_worker_turn 1 0 0' -f -a 'agent workflow project'
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'completion' -d 'print a script that completes commands in your shell'
complete -c awk -n '__agent_worker_at completion' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at completion' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c awk -n '__agent_worker_at completion' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c awk -n '__agent_worker_at completion; and __agent_worker_turn 1 0 0' -f -a 'bash zsh fish'
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'trust' -d 'keep to trust what files would run or reach'
complete -c awk -n '__agent_worker_at trust' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at trust' -l yes -d 'keep it without asking'
complete -c awk -n '__agent_worker_at trust' -l all -d 'with revoke: everything'
complete -c awk -n '__agent_worker_at trust' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at trust' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c awk -n '__agent_worker_at trust' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c awk -n '__agent_worker_at trust; and __agent_worker_turn 1 0 1000' -F -a '(__agent_worker_live named)'
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'token' -d 'make, list and take back tokens for programs of your own'
complete -c awk -n '__agent_worker_at token' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at token' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at token' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c awk -n '__agent_worker_at token' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c awk -n '__agent_worker_at token; and __agent_worker_turn 1 0 0' -f -a 'create' -d 'Make a token, and print it this once.'
complete -c awk -n '__agent_worker_at token create' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at token create' -l scope -d 'read: look; operate: and give work, and steer it; approve: and decide what waits for a person (approve:alice,bob: approve calls of these agents only)' -r -f -a 'read operate approve'
complete -c awk -n '__agent_worker_at token create' -l name -d 'whom it is for, for the list' -r -f
complete -c awk -n '__agent_worker_at token create' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at token; and __agent_worker_turn 1 0 0' -f -a 'list' -d 'List the tokens that are valid.'
complete -c awk -n '__agent_worker_at token list' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at token list' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at token; and __agent_worker_turn 1 0 0' -f -a 'revoke' -d 'Take tokens back: their next request is refused.'
complete -c awk -n '__agent_worker_at token revoke' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at token revoke' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at token revoke; and __agent_worker_turn 2 0 1000' -f -a '(__agent_worker_live token)'
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'mcp-serve' -d 'be an MCP server on standard input and output, for a coding agent'
complete -c awk -n '__agent_worker_at mcp-serve' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at mcp-serve' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c awk -n '__agent_worker_at mcp-serve' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'node' -d 'list the other machines on which agents work, add one, or be one'
complete -c awk -n '__agent_worker_at node' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at node' -l join -d 'be a node of the kernel that made this word (- reads it)' -r -f
complete -c awk -n '__agent_worker_at node' -l project-id -d 'be a node of the kernel that is spoken to over our streams' -r -f -a '(__agent_worker_live instruction)'
complete -c awk -n '__agent_worker_at node' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at node' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c awk -n '__agent_worker_at node' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c awk -n '__agent_worker_at node; and __agent_worker_turn 1 0 0' -f -a 'list' -d 'List the nodes, how each is, and what keeps it from being up.'
complete -c awk -n '__agent_worker_at node list' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at node list' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at node; and __agent_worker_turn 1 0 0' -f -a 'add' -d 'Have a node that the project file does not name.'
complete -c awk -n '__agent_worker_at node add' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at node add' -l via -d 'the engine that leads there' -r -f -a 'ssh slurm kubectl docker ray command'
complete -c awk -n '__agent_worker_at node add' -l join -d 'it dials home: print the command to type there'
complete -c awk -n '__agent_worker_at node add' -l host -d 'ssh, slurm: the machine; with --join: where it finds this one' -r -f
complete -c awk -n '__agent_worker_at node add' -l image -d 'docker, kubectl: a container of this image is started' -r -f
complete -c awk -n '__agent_worker_at node add' -l container -d 'docker: one that runs; kubectl: which of the pod\'s' -r -f
complete -c awk -n '__agent_worker_at node add' -l pod -d 'kubectl: one that runs' -r -f
complete -c awk -n '__agent_worker_at node add' -l namespace -d 'kubectl: the namespace' -r -f
complete -c awk -n '__agent_worker_at node add' -l address -d 'ray: the cluster' -r -f
complete -c awk -n '__agent_worker_at node add' -l command -d 'the program there (default: agent-worker)' -r -f
complete -c awk -n '__agent_worker_at node add' -l label -d 'what agents may ask for; can be repeated' -r -f
complete -c awk -n '__agent_worker_at node add' -l workers -d 'how many attempts run there at once (default: 8)' -r -f
complete -c awk -n '__agent_worker_at node add' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at node add; and __agent_worker_turn 2 0 0' -f
complete -c awk -n '__agent_worker_at node; and __agent_worker_turn 1 0 0' -f -a 'drain' -d 'Give a node nothing new; what runs there goes on.'
complete -c awk -n '__agent_worker_at node drain' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at node drain' -l undo -d 'give it work again'
complete -c awk -n '__agent_worker_at node drain' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at node drain; and __agent_worker_turn 2 0 0' -f
complete -c awk -n '__agent_worker_at node; and __agent_worker_turn 1 0 0' -f -a 'rm' -d 'Forget a node that was added.'
complete -c awk -n '__agent_worker_at node rm' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at node rm' -l force -d 'also where attempts run: they are done again elsewhere'
complete -c awk -n '__agent_worker_at node rm' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at node rm; and __agent_worker_turn 2 0 0' -f
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'webhook' -d 'list the servers that are told what happens, and try one again'
complete -c awk -n '__agent_worker_at webhook' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at webhook' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at webhook' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c awk -n '__agent_worker_at webhook' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c awk -n '__agent_worker_at webhook; and __agent_worker_turn 1 0 0' -f -a 'list' -d 'List those of the project file, and how they stand.'
complete -c awk -n '__agent_worker_at webhook list' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at webhook list' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at webhook; and __agent_worker_turn 1 0 0' -f -a 'retry' -d 'Tell one again what it was not told, also after its server answered 410.'
complete -c awk -n '__agent_worker_at webhook retry' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at webhook retry' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at webhook retry; and __agent_worker_turn 2 0 0' -f
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'providers' -d 'list model providers and whether their keys are set'
complete -c awk -n '__agent_worker_at providers' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at providers' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at providers' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c awk -n '__agent_worker_at providers' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'backends' -d 'list what can run an agent'
complete -c awk -n '__agent_worker_at backends' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at backends' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at backends' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c awk -n '__agent_worker_at backends' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'version' -d 'print the version'
complete -c awk -n '__agent_worker_at version' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at version' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at version' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c awk -n '__agent_worker_at version' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'help' -d 'explain a command, or a topic: targets, exit-codes, environment'
complete -c awk -n '__agent_worker_at help' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at help' -l project -d 'the project (default: found from the working directory)' -r -F
complete -c awk -n '__agent_worker_at help' -s v -l verbose -d 'say more; -vv shows where an error arose'
complete -c awk -n '__agent_worker_at help; and __agent_worker_turn 1 0 1000' -f
