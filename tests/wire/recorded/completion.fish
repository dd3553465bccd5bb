# fish completion; in ~/.config/fish/config.fish: agent-worker completion fish | source

function __agent_worker_live
    set -l words (commandline -opc)
    command $words[1] _complete $argv[1] 2>/dev/null </dev/null
end

# Whether the command line starts with these words.
function __agent_worker_at
    set -l words (commandline -opc)
    set -l last (math 1 + (count $argv))
    test (count $words) -ge $last; and test "$words[2..$last]" = "$argv"
end

# Whether argument FIRST to LAST of the command with this number of words is next.
function __agent_worker_turn
    set -l seen 0
    set -l given 0
    for word in (commandline -opc)
        set seen (math $seen + 1)
        test $seen -le (math $argv[1] + 1); or string match -q -- '-*' $word; or set given (math $given + 1)
    end
    test $seen -gt $argv[1]; and test $given -ge $argv[2]; and test $given -le $argv[3]
end

complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'run' -d 'Run a workflow to its end and report the result'
complete -c agent-worker -n '__agent_worker_at run' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at run' -l tag -d 'tag of the workflow instance (default: main)' -r -f
complete -c agent-worker -n '__agent_worker_at run' -l trust -d 'trust the commands in the project\'s files (setup, shell)'
complete -c agent-worker -n '__agent_worker_at run' -l update -d 'resolve remote refs again and pin the new commits'
complete -c agent-worker -n '__agent_worker_at run' -l continue -d 'start with the previous conversation'
complete -c agent-worker -n '__agent_worker_at run' -l timeout -d 'maximum duration, such as 10m (exit code 124 when exceeded)' -r -f
complete -c agent-worker -n '__agent_worker_at run' -l max-cost -d 'maximum cost of the run in USD (exit code 6 when exceeded)' -r -f
complete -c agent-worker -n '__agent_worker_at run' -l max-tokens -d 'maximum tokens (exit code 6 when exceeded)' -r -f
complete -c agent-worker -n '__agent_worker_at run' -l exit-code-from -d 'only the work of this agent decides the exit code' -r -f -a '(__agent_worker_live agent)'
complete -c agent-worker -n '__agent_worker_at run' -l fail-on -d 'never: always exit with code 0' -r -f -a 'error never'
complete -c agent-worker -n '__agent_worker_at run' -l approve -d 'override approval of all agents: auto (run all tools), ask (before changes), all (ask always), deny' -r -f -a 'auto ask all deny'
complete -c agent-worker -n '__agent_worker_at run' -l detach -d 'return after the start; approvals wait in awk needs'
complete -c agent-worker -n '__agent_worker_at run' -l report -d 'additional reports, separated by commas: github, junit:FILE, md:FILE, sarif:FILE' -r -f
complete -c agent-worker -n '__agent_worker_at run' -l rm -d 'stop the kernel after the run if this command started it'
complete -c agent-worker -n '__agent_worker_at run' -l dry-run -d 'print the execution plan without running it'
complete -c agent-worker -n '__agent_worker_at run' -l compare -d 'compare the workflow with one agent that has the prompts and tools of all members' -r -f -a 'solo'
complete -c agent-worker -n '__agent_worker_at run' -l repeat -d 'with --compare: maximum number of pairs (default: 10)' -r -f
complete -c agent-worker -n '__agent_worker_at run' -l check -d 'with --compare: shell command that decides success by exit code 0' -r -f
complete -c agent-worker -n '__agent_worker_at run' -l margin -d 'with --compare: accepted loss of success rate of the cheaper side (default: 0.2)' -r -f
complete -c agent-worker -n '__agent_worker_at run' -l seed -d 'with --compare: random seed of the order of the runs in each pair' -r -f
complete -c agent-worker -n '__agent_worker_at run' -l total-cost -d 'with --compare: maximum total cost of all runs in USD' -r -f
complete -c agent-worker -n '__agent_worker_at run' -l total-tokens -d 'with --compare: maximum total tokens of all runs' -r -f
complete -c agent-worker -n '__agent_worker_at run' -l resume -d 'with --compare: continue this comparison (c3)' -r -f -a '(__agent_worker_live comparison)'
complete -c agent-worker -n '__agent_worker_at run' -l keep -d 'with --compare: keep the project copy in which each run works'
complete -c agent-worker -n '__agent_worker_at run' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at run' -l jsonl -d 'print one JSON object per line as items arrive'
complete -c agent-worker -n '__agent_worker_at run' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c agent-worker -n '__agent_worker_at run' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c agent-worker -n '__agent_worker_at run; and __agent_worker_turn 1 0 0' -F -a '(__agent_worker_live workflow)'
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'send' -d 'Send a message to an agent or a workflow'
complete -c agent-worker -n '__agent_worker_at send' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at send' -l batch -d 'file with one JSON object {to, text} per line instead of TARGET and MESSAGE; - reads standard input' -r -F
complete -c agent-worker -n '__agent_worker_at send' -l wait -d 'wait for the answers and print them'
complete -c agent-worker -n '__agent_worker_at send' -l timeout -d 'with --wait: maximum time to wait (30s, 5m)' -r -f
complete -c agent-worker -n '__agent_worker_at send' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at send' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c agent-worker -n '__agent_worker_at send' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c agent-worker -n '__agent_worker_at send; and __agent_worker_turn 1 0 0' -f -a '(__agent_worker_live target)'
complete -c agent-worker -n '__agent_worker_at send; and __agent_worker_turn 1 1 1' -f
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'ask' -d 'Send a message and stream the answer'
complete -c agent-worker -n '__agent_worker_at ask' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at ask' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at ask' -l jsonl -d 'print one JSON object per line as items arrive'
complete -c agent-worker -n '__agent_worker_at ask' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c agent-worker -n '__agent_worker_at ask' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c agent-worker -n '__agent_worker_at ask; and __agent_worker_turn 1 0 0' -f -a '(__agent_worker_live target)'
complete -c agent-worker -n '__agent_worker_at ask; and __agent_worker_turn 1 1 1' -f
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'serve' -d 'Send a message and print the complete answer as JSON'
complete -c agent-worker -n '__agent_worker_at serve' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at serve' -l json -d 'print one JSON document (always on)'
complete -c agent-worker -n '__agent_worker_at serve' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c agent-worker -n '__agent_worker_at serve' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c agent-worker -n '__agent_worker_at serve; and __agent_worker_turn 1 0 0' -f -a '(__agent_worker_live target)'
complete -c agent-worker -n '__agent_worker_at serve; and __agent_worker_turn 1 1 1' -f
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'call' -d 'Call an agent tool from a program that an attempt runs'
complete -c agent-worker -n '__agent_worker_at call' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at call' -l key -d 'idempotency key: calls with the same key take effect once' -r -f
complete -c agent-worker -n '__agent_worker_at call' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c agent-worker -n '__agent_worker_at call' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c agent-worker -n '__agent_worker_at call; and __agent_worker_turn 1 0 0' -f -a 'ask_agent auth_grant auth_request auth_revoke channel_read channel_send feedback_submit handover_write history_read history_search memory_ask memory_forget memory_read memory_recall memory_tray memory_write my_inbox my_inbox_ack my_status_set note_read note_write resource_create resource_read rule_define rule_invoke rule_list share_with soul_reflect soul_suggest space_create space_members team_doc_accept team_doc_append team_doc_create team_doc_delete team_doc_history team_doc_list team_doc_read team_doc_reject team_doc_suggest team_doc_write team_members team_proposal_cancel team_proposal_create team_proposal_status team_task_claim team_task_done team_task_fail team_task_list team_task_plan team_task_split team_vote todo_add todo_done todo_list tree_commit tree_status tree_take'
complete -c agent-worker -n '__agent_worker_at call; and __agent_worker_turn 1 1 1' -f
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'start' -d 'Start the kernel, or a workflow that keeps running'
complete -c agent-worker -n '__agent_worker_at start' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at start' -l tag -d 'tag of the workflow instance (default: main)' -r -f
complete -c agent-worker -n '__agent_worker_at start' -l trust -d 'trust the commands in the project\'s files (setup, shell)'
complete -c agent-worker -n '__agent_worker_at start' -l update -d 'resolve remote refs again and pin the new commits'
complete -c agent-worker -n '__agent_worker_at start' -l continue -d 'start with the previous conversation'
complete -c agent-worker -n '__agent_worker_at start' -l foreground -d 'run in the foreground and log to stderr'
complete -c agent-worker -n '__agent_worker_at start' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c agent-worker -n '__agent_worker_at start' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c agent-worker -n '__agent_worker_at start; and __agent_worker_turn 1 0 0' -F -a '(__agent_worker_live workflow)'
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'stop' -d 'Stop workflows, agents or the kernel'
complete -c agent-worker -n '__agent_worker_at stop' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at stop' -l grace -d 'time for running work to finish (default: 10s)' -r -f
complete -c agent-worker -n '__agent_worker_at stop' -l now -d 'stop running work immediately'
complete -c agent-worker -n '__agent_worker_at stop' -l no-wait -d 'return without waiting for processes to exit'
complete -c agent-worker -n '__agent_worker_at stop' -l yes -d 'stop without confirmation'
complete -c agent-worker -n '__agent_worker_at stop' -s A -l all-projects -d 'stop the kernels of all your projects'
complete -c agent-worker -n '__agent_worker_at stop' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c agent-worker -n '__agent_worker_at stop' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c agent-worker -n '__agent_worker_at stop; and __agent_worker_turn 1 0 1000' -f -a '(__agent_worker_live target)'
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'status' -d 'Show the state of the kernel or a target, without starting it'
complete -c agent-worker -n '__agent_worker_at status' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at status' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at status' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c agent-worker -n '__agent_worker_at status' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c agent-worker -n '__agent_worker_at status; and __agent_worker_turn 1 0 0' -f -a '(__agent_worker_live target)'
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'service' -d 'Install the kernel as a system service'
complete -c agent-worker -n '__agent_worker_at service' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at service' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at service' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c agent-worker -n '__agent_worker_at service' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c agent-worker -n '__agent_worker_at service; and __agent_worker_turn 1 0 0' -f -a 'print' -d 'Print the systemd user unit or launchd property list.'
complete -c agent-worker -n '__agent_worker_at service print' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at service print' -l systemd -d 'use systemd (default, except on macOS)'
complete -c agent-worker -n '__agent_worker_at service print' -l launchd -d 'use launchd (default on macOS)'
complete -c agent-worker -n '__agent_worker_at service print' -l all -d 'one service that starts all projects on demand'
complete -c agent-worker -n '__agent_worker_at service print' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at service; and __agent_worker_turn 1 0 0' -f -a 'install' -d 'Install the service and start it if the service manager is available.'
complete -c agent-worker -n '__agent_worker_at service install' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at service install' -l systemd -d 'use systemd (default, except on macOS)'
complete -c agent-worker -n '__agent_worker_at service install' -l launchd -d 'use launchd (default on macOS)'
complete -c agent-worker -n '__agent_worker_at service install' -l all -d 'one service that starts all projects on demand'
complete -c agent-worker -n '__agent_worker_at service install' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at service; and __agent_worker_turn 1 0 0' -f -a 'uninstall' -d 'Stop and remove the service.'
complete -c agent-worker -n '__agent_worker_at service uninstall' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at service uninstall' -l systemd -d 'use systemd (default, except on macOS)'
complete -c agent-worker -n '__agent_worker_at service uninstall' -l launchd -d 'use launchd (default on macOS)'
complete -c agent-worker -n '__agent_worker_at service uninstall' -l all -d 'one service that starts all projects on demand'
complete -c agent-worker -n '__agent_worker_at service uninstall' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at service; and __agent_worker_turn 1 0 0' -f -a 'run' -d 'Run as the service of all projects and start their kernels on demand.'
complete -c agent-worker -n '__agent_worker_at service run' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at service run' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'restart' -d 'Restart the worker of an agent, or the kernel'
complete -c agent-worker -n '__agent_worker_at restart' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at restart' -l kernel -d 'restart the kernel; unfinished work continues'
complete -c agent-worker -n '__agent_worker_at restart' -l trust -d 'trust the commands in the project\'s files (setup, shell)'
complete -c agent-worker -n '__agent_worker_at restart' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at restart' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c agent-worker -n '__agent_worker_at restart' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c agent-worker -n '__agent_worker_at restart; and __agent_worker_turn 1 0 0' -f -a '(__agent_worker_live target)'
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'upgrade' -d 'Replace the running kernel without interrupting work'
complete -c agent-worker -n '__agent_worker_at upgrade' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at upgrade' -l to -d 'virtual environment or program of the new version (default: the installed one)' -r -f
complete -c agent-worker -n '__agent_worker_at upgrade' -l status -d 'print the result of the last upgrade'
complete -c agent-worker -n '__agent_worker_at upgrade' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at upgrade' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c agent-worker -n '__agent_worker_at upgrade' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'backup' -d 'Back up project state to a file, also while the kernel runs'
complete -c agent-worker -n '__agent_worker_at backup' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at backup' -l force -d 'replace an existing file'
complete -c agent-worker -n '__agent_worker_at backup' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at backup' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c agent-worker -n '__agent_worker_at backup' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c agent-worker -n '__agent_worker_at backup; and __agent_worker_turn 1 0 0' -F
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'restore' -d 'Restore project state from a backup or standby copy'
complete -c agent-worker -n '__agent_worker_at restore' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at restore' -l promote -d 'restore a standby copy; its original kernel must not run again'
complete -c agent-worker -n '__agent_worker_at restore' -l force -d 'move existing state aside first; with --promote, continue even if the original may be running'
complete -c agent-worker -n '__agent_worker_at restore' -l trust -d 'for your own backups: also restore consents and commands of open work; grants of awk trust are never restored'
complete -c agent-worker -n '__agent_worker_at restore' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at restore' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c agent-worker -n '__agent_worker_at restore' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c agent-worker -n '__agent_worker_at restore; and __agent_worker_turn 1 0 0' -F
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'standby' -d 'Verify a standby copy of project state'
complete -c agent-worker -n '__agent_worker_at standby' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at standby' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at standby' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c agent-worker -n '__agent_worker_at standby' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c agent-worker -n '__agent_worker_at standby; and __agent_worker_turn 1 0 0' -f -a 'check' -d 'Verify a standby copy in a temporary directory and print the time of its last change.'
complete -c agent-worker -n '__agent_worker_at standby check' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at standby check' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at standby check; and __agent_worker_turn 2 0 0' -F
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'reset' -d 'Re-enable an agent that was stopped after repeated failures'
complete -c agent-worker -n '__agent_worker_at reset' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at reset' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at reset' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c agent-worker -n '__agent_worker_at reset' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c agent-worker -n '__agent_worker_at reset; and __agent_worker_turn 1 0 0' -f -a '(__agent_worker_live target)'
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'pause' -d 'Pause the work of an agent or a workflow'
complete -c agent-worker -n '__agent_worker_at pause' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at pause' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at pause' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c agent-worker -n '__agent_worker_at pause' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c agent-worker -n '__agent_worker_at pause; and __agent_worker_turn 1 0 0' -f -a '(__agent_worker_live target)'
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'resume' -d 'Resume work that is paused, stopped, or blocked by a provider'
complete -c agent-worker -n '__agent_worker_at resume' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at resume' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at resume' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c agent-worker -n '__agent_worker_at resume' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c agent-worker -n '__agent_worker_at resume; and __agent_worker_turn 1 0 0' -f -a '(__agent_worker_live target)'
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'continue' -d 'Renew the reached limits of a workflow or budget of an agent'
complete -c agent-worker -n '__agent_worker_at continue' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at continue' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at continue' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c agent-worker -n '__agent_worker_at continue' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c agent-worker -n '__agent_worker_at continue; and __agent_worker_turn 1 0 0' -f -a '(__agent_worker_live target)'
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'unblock' -d 'Resume, continue, retry, reset or restart what blocks work'
complete -c agent-worker -n '__agent_worker_at unblock' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at unblock' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at unblock' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c agent-worker -n '__agent_worker_at unblock' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c agent-worker -n '__agent_worker_at unblock; and __agent_worker_turn 1 0 0' -f -a '(__agent_worker_live target)'
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'approve' -d 'Approve pending tool calls'
complete -c agent-worker -n '__agent_worker_at approve' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at approve' -l reason -d 'reason, visible to the agent' -r -f
complete -c agent-worker -n '__agent_worker_at approve' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at approve' -l always -d 'approve this and all future calls of this tool by this agent whose complete input, as in awk needs, matches PATTERN: \'{"command":"git *"}\'; * matches any text, so this also matches \'git x; rm -rf ~\'' -r -f
complete -c agent-worker -n '__agent_worker_at approve' -l all-agents -d 'with --always: apply to all agents'
complete -c agent-worker -n '__agent_worker_at approve' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c agent-worker -n '__agent_worker_at approve' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c agent-worker -n '__agent_worker_at approve; and __agent_worker_turn 1 0 1000' -f -a '(__agent_worker_live approval)'
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'deny' -d 'Deny pending tool calls, or delete an approval rule'
complete -c agent-worker -n '__agent_worker_at deny' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at deny' -l reason -d 'reason, visible to the agent' -r -f
complete -c agent-worker -n '__agent_worker_at deny' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at deny' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c agent-worker -n '__agent_worker_at deny' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c agent-worker -n '__agent_worker_at deny; and __agent_worker_turn 1 0 1000' -f -a '(__agent_worker_live deniable)'
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'answer' -d 'Reply on behalf of a human agent'
complete -c agent-worker -n '__agent_worker_at answer' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at answer' -l as -d 'fail if another agent is now the assignee' -r -f -a '(__agent_worker_live agent)'
complete -c agent-worker -n '__agent_worker_at answer' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at answer' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c agent-worker -n '__agent_worker_at answer' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c agent-worker -n '__agent_worker_at answer; and __agent_worker_turn 1 0 0' -f -a '(__agent_worker_live instruction)'
complete -c agent-worker -n '__agent_worker_at answer; and __agent_worker_turn 1 1 1' -f
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'space' -d 'List or close spaces, or change their members'
complete -c agent-worker -n '__agent_worker_at space' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at space' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at space' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c agent-worker -n '__agent_worker_at space' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c agent-worker -n '__agent_worker_at space; and __agent_worker_turn 1 0 0' -f -a 'list' -d 'List spaces, their members and their state.'
complete -c agent-worker -n '__agent_worker_at space list' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at space list' -l run -d 'spaces of this run (r12), including closed spaces' -r -f -a '(__agent_worker_live run)'
complete -c agent-worker -n '__agent_worker_at space list' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at space; and __agent_worker_turn 1 0 0' -f -a 'create' -d 'Open a space for agents of the project.'
complete -c agent-worker -n '__agent_worker_at space create' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at space create' -l member -d 'agent to add; repeatable' -r -f -a '(__agent_worker_live agent)'
complete -c agent-worker -n '__agent_worker_at space create' -l open -d 'make every agent that is mentioned a member'
complete -c agent-worker -n '__agent_worker_at space create' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at space create; and __agent_worker_turn 2 0 0' -f
complete -c agent-worker -n '__agent_worker_at space; and __agent_worker_turn 1 0 0' -f -a 'members' -d 'Add or remove members of a space.'
complete -c agent-worker -n '__agent_worker_at space members' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at space members' -l add -d 'member to add; repeatable' -r -f
complete -c agent-worker -n '__agent_worker_at space members' -l remove -d 'member to remove; repeatable' -r -f
complete -c agent-worker -n '__agent_worker_at space members' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at space members; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live space)'
complete -c agent-worker -n '__agent_worker_at space; and __agent_worker_turn 1 0 0' -f -a 'close' -d 'Close a space and cancel its work.'
complete -c agent-worker -n '__agent_worker_at space close' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at space close' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at space close; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live space)'
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'reassign' -d 'Reassign a question to another member of its workspace'
complete -c agent-worker -n '__agent_worker_at reassign' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at reassign' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at reassign' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c agent-worker -n '__agent_worker_at reassign' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c agent-worker -n '__agent_worker_at reassign; and __agent_worker_turn 1 0 0' -f -a '(__agent_worker_live instruction)'
complete -c agent-worker -n '__agent_worker_at reassign; and __agent_worker_turn 1 1 1' -f -a '(__agent_worker_live agent)'
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'grant' -d 'Grant an agent more permissions, limited by time or calls'
complete -c agent-worker -n '__agent_worker_at grant' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at grant' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at grant' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c agent-worker -n '__agent_worker_at grant' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c agent-worker -n '__agent_worker_at grant; and __agent_worker_turn 1 0 0' -f -a 'list' -d 'List grants, their origin and their current state.'
complete -c agent-worker -n '__agent_worker_at grant list' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at grant list' -s n -d 'number of entries (default: 1000; 0: all)' -r -f
complete -c agent-worker -n '__agent_worker_at grant list' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at grant list; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live channel)'
complete -c agent-worker -n '__agent_worker_at grant; and __agent_worker_turn 1 0 0' -f -a 'give' -d 'Grant an agent a scope that its file does not include.'
complete -c agent-worker -n '__agent_worker_at grant give' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at grant give' -l to -d 'receiving agent, such as alice@review' -r -f -a '(__agent_worker_live target)'
complete -c agent-worker -n '__agent_worker_at grant give' -l until -d 'duration (2h) or end time (2026-11-22T18:00:00Z)' -r -f
complete -c agent-worker -n '__agent_worker_at grant give' -l uses -d 'maximum number of calls' -r -f
complete -c agent-worker -n '__agent_worker_at grant give' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at grant give; and __agent_worker_turn 2 0 0' -f -a 'channel.read channel.write documents.read documents.write tasks votes status memory ask feedback rules auth spaces agents workflows'
complete -c agent-worker -n '__agent_worker_at grant; and __agent_worker_turn 1 0 0' -f -a 'revoke' -d 'Revoke a grant and the grants derived from it.'
complete -c agent-worker -n '__agent_worker_at grant revoke' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at grant revoke' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at grant revoke; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live grant)'
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'proposal' -d 'List proposals, vote on them, or cancel them'
complete -c agent-worker -n '__agent_worker_at proposal' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at proposal' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at proposal' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c agent-worker -n '__agent_worker_at proposal' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c agent-worker -n '__agent_worker_at proposal; and __agent_worker_turn 1 0 0' -f -a 'list' -d 'List open proposals, or all proposals of one workflow.'
complete -c agent-worker -n '__agent_worker_at proposal list' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at proposal list' -l all -d 'include closed proposals if no workflow is given'
complete -c agent-worker -n '__agent_worker_at proposal list' -s n -d 'number of entries (default: 1000; 0: all)' -r -f
complete -c agent-worker -n '__agent_worker_at proposal list' -l archive -d 'read from this file of awk export, without a kernel' -r -F
complete -c agent-worker -n '__agent_worker_at proposal list' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at proposal list; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live channel)'
complete -c agent-worker -n '__agent_worker_at proposal; and __agent_worker_turn 1 0 0' -f -a 'show' -d 'Show a proposal, its votes and its result.'
complete -c agent-worker -n '__agent_worker_at proposal show' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at proposal show' -l archive -d 'read from this file of awk export, without a kernel' -r -F
complete -c agent-worker -n '__agent_worker_at proposal show' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at proposal show; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live any_proposal)'
complete -c agent-worker -n '__agent_worker_at proposal; and __agent_worker_turn 1 0 0' -f -a 'vote' -d 'Vote on a proposal; a vote is final.'
complete -c agent-worker -n '__agent_worker_at proposal vote' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at proposal vote' -l reason -d 'reason, visible to the members' -r -f
complete -c agent-worker -n '__agent_worker_at proposal vote' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at proposal vote; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live proposal)'
complete -c agent-worker -n '__agent_worker_at proposal vote; and __agent_worker_turn 2 1 1' -f -a '(__agent_worker_live choice)'
complete -c agent-worker -n '__agent_worker_at proposal; and __agent_worker_turn 1 0 0' -f -a 'cancel' -d 'Cancel a proposal: its vote ends without a result.'
complete -c agent-worker -n '__agent_worker_at proposal cancel' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at proposal cancel' -l reason -d 'reason, visible to the members' -r -f
complete -c agent-worker -n '__agent_worker_at proposal cancel' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at proposal cancel; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live proposal)'
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'rule' -d 'List, define and test rules'
complete -c agent-worker -n '__agent_worker_at rule' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at rule' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at rule' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c agent-worker -n '__agent_worker_at rule' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c agent-worker -n '__agent_worker_at rule; and __agent_worker_turn 1 0 0' -f -a 'list' -d 'List the rules of a workflow with author and number of firings.'
complete -c agent-worker -n '__agent_worker_at rule list' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at rule list' -l all -d '- include the rules of the kernel'
complete -c agent-worker -n '__agent_worker_at rule list' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at rule list; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live channel)'
complete -c agent-worker -n '__agent_worker_at rule; and __agent_worker_turn 1 0 0' -f -a 'show' -d 'Show one rule.'
complete -c agent-worker -n '__agent_worker_at rule show' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at rule show' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at rule show; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live rule)'
complete -c agent-worker -n '__agent_worker_at rule show; and __agent_worker_turn 2 1 1' -f -a '(__agent_worker_live channel)'
complete -c agent-worker -n '__agent_worker_at rule; and __agent_worker_turn 1 0 0' -f -a 'add' -d 'Add or replace rules from a file.'
complete -c agent-worker -n '__agent_worker_at rule add' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at rule add' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at rule add; and __agent_worker_turn 2 0 0' -F
complete -c agent-worker -n '__agent_worker_at rule add; and __agent_worker_turn 2 1 1' -f -a '(__agent_worker_live channel)'
complete -c agent-worker -n '__agent_worker_at rule; and __agent_worker_turn 1 0 0' -f -a 'rm' -d 'Disable a rule without deleting it.'
complete -c agent-worker -n '__agent_worker_at rule rm' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at rule rm' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at rule rm; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live rule)'
complete -c agent-worker -n '__agent_worker_at rule rm; and __agent_worker_turn 2 1 1' -f -a '(__agent_worker_live channel)'
complete -c agent-worker -n '__agent_worker_at rule; and __agent_worker_turn 1 0 0' -f -a 'test' -d 'Print the effects that a rule would have had on a run.'
complete -c agent-worker -n '__agent_worker_at rule test' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at rule test' -l run -d 'run whose messages are tested' -r -f -a '(__agent_worker_live run)'
complete -c agent-worker -n '__agent_worker_at rule test' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at rule test; and __agent_worker_turn 2 0 0' -F -a '(__agent_worker_live rule)'
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'task' -d 'List, add and complete shared tasks'
complete -c agent-worker -n '__agent_worker_at task' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at task' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at task' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c agent-worker -n '__agent_worker_at task' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c agent-worker -n '__agent_worker_at task; and __agent_worker_turn 1 0 0' -f -a 'list' -d 'List the tasks of a workflow with their states and assignees.'
complete -c agent-worker -n '__agent_worker_at task list' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at task list' -l state -d 'only tasks in this state' -r -f -a 'open ready claimed done failed cancelled'
complete -c agent-worker -n '__agent_worker_at task list' -l for -d 'only tasks for this agent or claimed by it' -r -f -a '(__agent_worker_live agent)'
complete -c agent-worker -n '__agent_worker_at task list' -s n -d 'number of entries (default: 1000; 0: all)' -r -f
complete -c agent-worker -n '__agent_worker_at task list' -l archive -d 'read from this file of awk export, without a kernel' -r -F
complete -c agent-worker -n '__agent_worker_at task list' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at task list; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live channel)'
complete -c agent-worker -n '__agent_worker_at task; and __agent_worker_turn 1 0 0' -f -a 'show' -d 'Show a task, its dependencies and its result.'
complete -c agent-worker -n '__agent_worker_at task show' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at task show' -l archive -d 'read from this file of awk export, without a kernel' -r -F
complete -c agent-worker -n '__agent_worker_at task show' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at task show; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live channel)'
complete -c agent-worker -n '__agent_worker_at task show; and __agent_worker_turn 2 1 1' -f -a '(__agent_worker_live task)'
complete -c agent-worker -n '__agent_worker_at task; and __agent_worker_turn 1 0 0' -f -a 'add' -d 'Add a task that an agent can claim, or receives with --for.'
complete -c agent-worker -n '__agent_worker_at task add' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at task add' -l text -d 'description of the task' -r -f
complete -c agent-worker -n '__agent_worker_at task add' -l key -d 'additional name of the task' -r -f
complete -c agent-worker -n '__agent_worker_at task add' -l for -d 'agent that receives the task (default: any agent can claim it)' -r -f -a '(__agent_worker_live agent)'
complete -c agent-worker -n '__agent_worker_at task add' -l needs -d 'dependency (id or key); repeatable' -r -f -a '(__agent_worker_live task)'
complete -c agent-worker -n '__agent_worker_at task add' -l parent -d 'parent task' -r -f -a '(__agent_worker_live task)'
complete -c agent-worker -n '__agent_worker_at task add' -l files -d 'files reserved for the task; repeatable' -r -f
complete -c agent-worker -n '__agent_worker_at task add' -l check -d 'command that must exit with code 0 before the task is done' -r -f
complete -c agent-worker -n '__agent_worker_at task add' -l on-failure -d 'after a failed dependency: hold (wait for a person, default), skip (start without it), cancel this task' -r -f -a 'hold skip cancel'
complete -c agent-worker -n '__agent_worker_at task add' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at task add; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live channel)'
complete -c agent-worker -n '__agent_worker_at task add; and __agent_worker_turn 2 1 1' -f
complete -c agent-worker -n '__agent_worker_at task; and __agent_worker_turn 1 0 0' -f -a 'claim' -d 'Claim tasks for yourself, so that no agent works on them.'
complete -c agent-worker -n '__agent_worker_at task claim' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at task claim' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at task claim; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live channel)'
complete -c agent-worker -n '__agent_worker_at task claim; and __agent_worker_turn 2 1 1000' -f -a '(__agent_worker_live task)'
complete -c agent-worker -n '__agent_worker_at task; and __agent_worker_turn 1 0 0' -f -a 'done' -d 'Mark tasks as done, so that their dependents can start.'
complete -c agent-worker -n '__agent_worker_at task done' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at task done' -l result -d 'result, visible to the members' -r -f
complete -c agent-worker -n '__agent_worker_at task done' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at task done; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live channel)'
complete -c agent-worker -n '__agent_worker_at task done; and __agent_worker_turn 2 1 1000' -f -a '(__agent_worker_live task)'
complete -c agent-worker -n '__agent_worker_at task; and __agent_worker_turn 1 0 0' -f -a 'fail' -d 'Mark tasks as failed.'
complete -c agent-worker -n '__agent_worker_at task fail' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at task fail' -l reason -d 'reason, visible to the members' -r -f
complete -c agent-worker -n '__agent_worker_at task fail' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at task fail; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live channel)'
complete -c agent-worker -n '__agent_worker_at task fail; and __agent_worker_turn 2 1 1000' -f -a '(__agent_worker_live task)'
complete -c agent-worker -n '__agent_worker_at task; and __agent_worker_turn 1 0 0' -f -a 'cancel' -d 'Cancel unfinished tasks.'
complete -c agent-worker -n '__agent_worker_at task cancel' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at task cancel' -l reason -d 'reason, visible to the members' -r -f
complete -c agent-worker -n '__agent_worker_at task cancel' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at task cancel; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live channel)'
complete -c agent-worker -n '__agent_worker_at task cancel; and __agent_worker_turn 2 1 1000' -f -a '(__agent_worker_live task)'
complete -c agent-worker -n '__agent_worker_at task; and __agent_worker_turn 1 0 0' -f -a 'graph' -d 'Show the dependency graph of the tasks.'
complete -c agent-worker -n '__agent_worker_at task graph' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at task graph' -s n -d 'number of tasks (default: all; 0: all)' -r -f
complete -c agent-worker -n '__agent_worker_at task graph' -l archive -d 'read from this file of awk export, without a kernel' -r -F
complete -c agent-worker -n '__agent_worker_at task graph' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at task graph; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live channel)'
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'doc' -d 'Read and write shared documents'
complete -c agent-worker -n '__agent_worker_at doc' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at doc' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at doc' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c agent-worker -n '__agent_worker_at doc' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c agent-worker -n '__agent_worker_at doc; and __agent_worker_turn 1 0 0' -f -a 'list' -d 'List the documents of a workflow.'
complete -c agent-worker -n '__agent_worker_at doc list' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at doc list' -s n -d 'number of entries (default: 1000; 0: all)' -r -f
complete -c agent-worker -n '__agent_worker_at doc list' -l archive -d 'read from this file of awk export, without a kernel' -r -F
complete -c agent-worker -n '__agent_worker_at doc list' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at doc list; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live channel)'
complete -c agent-worker -n '__agent_worker_at doc; and __agent_worker_turn 1 0 0' -f -a 'read' -d 'Print a document or one of its versions.'
complete -c agent-worker -n '__agent_worker_at doc read' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at doc read' -l version -d 'number of the version (default: the latest)' -r -f
complete -c agent-worker -n '__agent_worker_at doc read' -l archive -d 'read from this file of awk export, without a kernel' -r -F
complete -c agent-worker -n '__agent_worker_at doc read' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at doc read; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live channel)'
complete -c agent-worker -n '__agent_worker_at doc read; and __agent_worker_turn 2 1 1' -f -a '(__agent_worker_live document)'
complete -c agent-worker -n '__agent_worker_at doc; and __agent_worker_turn 1 0 0' -f -a 'write' -d 'Replace the text of a document.'
complete -c agent-worker -n '__agent_worker_at doc write' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at doc write' -l reason -d 'reason, stored with the version' -r -f
complete -c agent-worker -n '__agent_worker_at doc write' -l if-version -d 'base version of the text; later changes are merged, or the write fails on a conflict' -r -f
complete -c agent-worker -n '__agent_worker_at doc write' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at doc write; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live channel)'
complete -c agent-worker -n '__agent_worker_at doc write; and __agent_worker_turn 2 1 1' -f -a '(__agent_worker_live document)'
complete -c agent-worker -n '__agent_worker_at doc write; and __agent_worker_turn 2 2 2' -f
complete -c agent-worker -n '__agent_worker_at doc; and __agent_worker_turn 1 0 0' -f -a 'append' -d 'Append text to a document.'
complete -c agent-worker -n '__agent_worker_at doc append' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at doc append' -l reason -d 'reason, stored with the version' -r -f
complete -c agent-worker -n '__agent_worker_at doc append' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at doc append; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live channel)'
complete -c agent-worker -n '__agent_worker_at doc append; and __agent_worker_turn 2 1 1' -f -a '(__agent_worker_live document)'
complete -c agent-worker -n '__agent_worker_at doc append; and __agent_worker_turn 2 2 2' -f
complete -c agent-worker -n '__agent_worker_at doc; and __agent_worker_turn 1 0 0' -f -a 'create' -d 'Create a document.'
complete -c agent-worker -n '__agent_worker_at doc create' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at doc create' -l reason -d 'reason, stored with the version' -r -f
complete -c agent-worker -n '__agent_worker_at doc create' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at doc create; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live channel)'
complete -c agent-worker -n '__agent_worker_at doc create; and __agent_worker_turn 2 1 1' -f -a '(__agent_worker_live document)'
complete -c agent-worker -n '__agent_worker_at doc create; and __agent_worker_turn 2 2 2' -f
complete -c agent-worker -n '__agent_worker_at doc; and __agent_worker_turn 1 0 0' -f -a 'delete' -d 'Delete a document but retain its history.'
complete -c agent-worker -n '__agent_worker_at doc delete' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at doc delete' -l if-version -d 'delete only if this is the latest version' -r -f
complete -c agent-worker -n '__agent_worker_at doc delete' -l reason -d 'reason, stored with the version' -r -f
complete -c agent-worker -n '__agent_worker_at doc delete' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at doc delete; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live channel)'
complete -c agent-worker -n '__agent_worker_at doc delete; and __agent_worker_turn 2 1 1' -f -a '(__agent_worker_live document)'
complete -c agent-worker -n '__agent_worker_at doc; and __agent_worker_turn 1 0 0' -f -a 'history' -d 'List the versions of a document, latest first.'
complete -c agent-worker -n '__agent_worker_at doc history' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at doc history' -s n -d 'number of entries (default: 1000; 0: all)' -r -f
complete -c agent-worker -n '__agent_worker_at doc history' -l archive -d 'read from this file of awk export, without a kernel' -r -F
complete -c agent-worker -n '__agent_worker_at doc history' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at doc history; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live channel)'
complete -c agent-worker -n '__agent_worker_at doc history; and __agent_worker_turn 2 1 1' -f -a '(__agent_worker_live document)'
complete -c agent-worker -n '__agent_worker_at doc; and __agent_worker_turn 1 0 0' -f -a 'diff' -d 'Show the changes of a version.'
complete -c agent-worker -n '__agent_worker_at doc diff' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at doc diff' -l from -d 'first version (default: previous)' -r -f
complete -c agent-worker -n '__agent_worker_at doc diff' -l to -d 'second version (default: latest)' -r -f
complete -c agent-worker -n '__agent_worker_at doc diff' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at doc diff; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live channel)'
complete -c agent-worker -n '__agent_worker_at doc diff; and __agent_worker_turn 2 1 1' -f -a '(__agent_worker_live document)'
complete -c agent-worker -n '__agent_worker_at doc; and __agent_worker_turn 1 0 0' -f -a 'blame' -d 'Show the author and version of each line.'
complete -c agent-worker -n '__agent_worker_at doc blame' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at doc blame' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at doc blame; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live channel)'
complete -c agent-worker -n '__agent_worker_at doc blame; and __agent_worker_turn 2 1 1' -f -a '(__agent_worker_live document)'
complete -c agent-worker -n '__agent_worker_at doc; and __agent_worker_turn 1 0 0' -f -a 'suggestions' -d 'List suggested changes.'
complete -c agent-worker -n '__agent_worker_at doc suggestions' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at doc suggestions' -l all -d 'include suggestions that were accepted or rejected'
complete -c agent-worker -n '__agent_worker_at doc suggestions' -s n -d 'number of entries (default: 1000; 0: all)' -r -f
complete -c agent-worker -n '__agent_worker_at doc suggestions' -l archive -d 'read from this file of awk export, without a kernel' -r -F
complete -c agent-worker -n '__agent_worker_at doc suggestions' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at doc suggestions; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live channel)'
complete -c agent-worker -n '__agent_worker_at doc; and __agent_worker_turn 1 0 0' -f -a 'accept' -d 'Accept a suggestion, merged with later changes, as the latest version.'
complete -c agent-worker -n '__agent_worker_at doc accept' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at doc accept' -l reason -d 'reason, visible to the members' -r -f
complete -c agent-worker -n '__agent_worker_at doc accept' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at doc accept; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live channel)'
complete -c agent-worker -n '__agent_worker_at doc accept; and __agent_worker_turn 2 1 1' -f -a '(__agent_worker_live suggestion)'
complete -c agent-worker -n '__agent_worker_at doc; and __agent_worker_turn 1 0 0' -f -a 'reject' -d 'Reject a suggestion.'
complete -c agent-worker -n '__agent_worker_at doc reject' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at doc reject' -l reason -d 'reason, visible to the members' -r -f
complete -c agent-worker -n '__agent_worker_at doc reject' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at doc reject; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live channel)'
complete -c agent-worker -n '__agent_worker_at doc reject; and __agent_worker_turn 2 1 1' -f -a '(__agent_worker_live suggestion)'
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'cancel' -d 'Cancel instructions'
complete -c agent-worker -n '__agent_worker_at cancel' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at cancel' -l agent -d 'all instructions of this agent: alice or alice@review[:tag]' -r -f -a '(__agent_worker_live agent)'
complete -c agent-worker -n '__agent_worker_at cancel' -l dry-run -d 'print the selected instructions without changes; not with ids'
complete -c agent-worker -n '__agent_worker_at cancel' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at cancel' -l queued -d 'only queued instructions; running instructions continue'
complete -c agent-worker -n '__agent_worker_at cancel' -l yes -d 'cancel a selection without confirmation; ids need none'
complete -c agent-worker -n '__agent_worker_at cancel' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c agent-worker -n '__agent_worker_at cancel' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c agent-worker -n '__agent_worker_at cancel; and __agent_worker_turn 1 0 1000' -f -a '(__agent_worker_live steered)'
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'retry' -d 'Retry failed or dead-lettered instructions'
complete -c agent-worker -n '__agent_worker_at retry' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at retry' -l agent -d 'all instructions of this agent: alice or alice@review[:tag]' -r -f -a '(__agent_worker_live agent)'
complete -c agent-worker -n '__agent_worker_at retry' -l dry-run -d 'print the selected instructions without changes; not with ids'
complete -c agent-worker -n '__agent_worker_at retry' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at retry' -l all -d 'all instructions that awk dead lists'
complete -c agent-worker -n '__agent_worker_at retry' -l fresh -d 'start from the beginning; side effects may occur twice'
complete -c agent-worker -n '__agent_worker_at retry' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c agent-worker -n '__agent_worker_at retry' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c agent-worker -n '__agent_worker_at retry; and __agent_worker_turn 1 0 1000' -f -a '(__agent_worker_live steered)'
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'clear' -d 'Delete the conversation of a run, workflow or agent permanently'
complete -c agent-worker -n '__agent_worker_at clear' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at clear' -l run -d 'for a workflow: only this run (r12; default: all runs)' -r -f -a '(__agent_worker_live run)'
complete -c agent-worker -n '__agent_worker_at clear' -l yes -d 'clear without confirmation'
complete -c agent-worker -n '__agent_worker_at clear' -l force -d 'also delete unmerged or uncommitted work'
complete -c agent-worker -n '__agent_worker_at clear' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at clear' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c agent-worker -n '__agent_worker_at clear' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c agent-worker -n '__agent_worker_at clear; and __agent_worker_turn 1 0 0' -f -a '(__agent_worker_live exported)'
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'prune' -d 'Delete data that is no longer needed to free disk space'
complete -c agent-worker -n '__agent_worker_at prune' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at prune' -l dry-run -d 'list the data and reasons without deleting it'
complete -c agent-worker -n '__agent_worker_at prune' -l yes -d 'delete without confirmation'
complete -c agent-worker -n '__agent_worker_at prune' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at prune' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c agent-worker -n '__agent_worker_at prune' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c agent-worker -n '__agent_worker_at prune; and __agent_worker_turn 1 0 1000' -f -a 'trees unfinished logs aside comparisons attempts database'
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'merge' -d 'Merge the branches of a run, completely or not at all'
complete -c agent-worker -n '__agent_worker_at merge' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at merge' -l agent -d 'only the branch of this agent (default: all)' -r -f
complete -c agent-worker -n '__agent_worker_at merge' -l into -d 'target branch (default: base branch of the run)' -r -f
complete -c agent-worker -n '__agent_worker_at merge' -l squash -d 'create one commit, not one merge per branch'
complete -c agent-worker -n '__agent_worker_at merge' -l check -d 'shell command that must succeed before the branch changes' -r -f
complete -c agent-worker -n '__agent_worker_at merge' -l return -d 'return conflicts to agents as work'
complete -c agent-worker -n '__agent_worker_at merge' -l dry-run -d 'print the result without changes or checks'
complete -c agent-worker -n '__agent_worker_at merge' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at merge' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c agent-worker -n '__agent_worker_at merge' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c agent-worker -n '__agent_worker_at merge; and __agent_worker_turn 1 0 0' -f -a '(__agent_worker_live merged)'
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'promote' -d 'Move instructions to the front of the queue'
complete -c agent-worker -n '__agent_worker_at promote' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at promote' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at promote' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c agent-worker -n '__agent_worker_at promote' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c agent-worker -n '__agent_worker_at promote; and __agent_worker_turn 1 0 1000' -f -a '(__agent_worker_live instruction)'
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'ps' -d 'List agents with their state, activity and cost'
complete -c agent-worker -n '__agent_worker_at ps' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at ps' -s a -l all -d 'include agents of ended workflows, and list each idle agent'
complete -c agent-worker -n '__agent_worker_at ps' -s A -l all-projects -d 'include all your projects with a running kernel'
complete -c agent-worker -n '__agent_worker_at ps' -s q -l quiet -d 'print only names, as other commands accept them'
complete -c agent-worker -n '__agent_worker_at ps' -l sort -d 'sort column, largest number first; -COLUMN: reverse order' -r -f
complete -c agent-worker -n '__agent_worker_at ps' -s o -l columns -d 'columns to print, in this order: name,state,cost' -r -f
complete -c agent-worker -n '__agent_worker_at ps' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at ps' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c agent-worker -n '__agent_worker_at ps' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c agent-worker -n '__agent_worker_at ps; and __agent_worker_turn 1 0 1000' -f -a '(__agent_worker_live target)'
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'projects' -d 'List your projects and the state of their kernels'
complete -c agent-worker -n '__agent_worker_at projects' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at projects' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at projects' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c agent-worker -n '__agent_worker_at projects' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'top' -d 'Watch agents live (q quits)'
complete -c agent-worker -n '__agent_worker_at top' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at top' -l bell -d 'ring the bell for new needs, and notify the desktop if the terminal can'
complete -c agent-worker -n '__agent_worker_at top' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at top' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c agent-worker -n '__agent_worker_at top' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'open' -d 'Open the web page of the project, or print its address'
complete -c agent-worker -n '__agent_worker_at open' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at open' -l read-only -d 'open the page in read-only mode'
complete -c agent-worker -n '__agent_worker_at open' -l print -d 'print the address, valid once for one minute'
complete -c agent-worker -n '__agent_worker_at open' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at open' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c agent-worker -n '__agent_worker_at open' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'channel' -d 'Show the latest messages of a workflow or an agent'
complete -c agent-worker -n '__agent_worker_at channel' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at channel' -l run -d 'only messages of this run (r12)' -r -f -a '(__agent_worker_live run)'
complete -c agent-worker -n '__agent_worker_at channel' -s n -d 'number of latest messages (default: 50; 0: all)' -r -f
complete -c agent-worker -n '__agent_worker_at channel' -s f -l follow -d 'print new messages as they arrive'
complete -c agent-worker -n '__agent_worker_at channel' -l archive -d 'read from this file of awk export, without a kernel' -r -F
complete -c agent-worker -n '__agent_worker_at channel' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at channel' -l jsonl -d 'print one JSON object per line as items arrive'
complete -c agent-worker -n '__agent_worker_at channel' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c agent-worker -n '__agent_worker_at channel' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c agent-worker -n '__agent_worker_at channel; and __agent_worker_turn 1 0 0' -f -a '(__agent_worker_live target)'
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'resource' -d 'Print or add long texts that messages refer to'
complete -c agent-worker -n '__agent_worker_at resource' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at resource' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at resource' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c agent-worker -n '__agent_worker_at resource' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c agent-worker -n '__agent_worker_at resource; and __agent_worker_turn 1 0 0' -f -a 'list' -d 'List the resources of all spaces or of one space.'
complete -c agent-worker -n '__agent_worker_at resource list' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at resource list' -s n -d 'number of entries (default: 1000; 0: all)' -r -f
complete -c agent-worker -n '__agent_worker_at resource list' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at resource list; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live target)'
complete -c agent-worker -n '__agent_worker_at resource; and __agent_worker_turn 1 0 0' -f -a 'get' -d 'Print a resource unchanged.'
complete -c agent-worker -n '__agent_worker_at resource get' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at resource get' -l offset -d 'first character (default: 0)' -r -f
complete -c agent-worker -n '__agent_worker_at resource get' -l limit -d 'maximum number of characters (default: all)' -r -f
complete -c agent-worker -n '__agent_worker_at resource get' -l archive -d 'read from this file of awk export, without a kernel' -r -F
complete -c agent-worker -n '__agent_worker_at resource get' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at resource get; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live resource)'
complete -c agent-worker -n '__agent_worker_at resource; and __agent_worker_turn 1 0 0' -f -a 'add' -d 'Store a text as a resource and print its id.'
complete -c agent-worker -n '__agent_worker_at resource add' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at resource add' -l type -d 'media type (default: text/plain)' -r -f
complete -c agent-worker -n '__agent_worker_at resource add' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at resource add; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live target)'
complete -c agent-worker -n '__agent_worker_at resource add; and __agent_worker_turn 2 1 1' -f
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'inbox' -d 'List the unhandled messages of an agent'
complete -c agent-worker -n '__agent_worker_at inbox' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at inbox' -s n -d 'number of entries (default: 200; 0: all)' -r -f
complete -c agent-worker -n '__agent_worker_at inbox' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at inbox' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c agent-worker -n '__agent_worker_at inbox' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c agent-worker -n '__agent_worker_at inbox; and __agent_worker_turn 1 0 0' -f -a '(__agent_worker_live target)'
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'queue' -d 'List the queued instructions of an agent'
complete -c agent-worker -n '__agent_worker_at queue' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at queue' -s n -d 'number of entries (default: 1000; 0: all)' -r -f
complete -c agent-worker -n '__agent_worker_at queue' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at queue' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c agent-worker -n '__agent_worker_at queue' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c agent-worker -n '__agent_worker_at queue; and __agent_worker_turn 1 0 0' -f -a '(__agent_worker_live target)'
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'needs' -d 'List work that is blocked until you act'
complete -c agent-worker -n '__agent_worker_at needs' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at needs' -s f -l follow -d 'print new and resolved items as they change'
complete -c agent-worker -n '__agent_worker_at needs' -l approvals -d 'list only approval requests, with their input; always exit with code 0'
complete -c agent-worker -n '__agent_worker_at needs' -l rules -d 'list the approval rules of awk approve --always; awk deny deletes one'
complete -c agent-worker -n '__agent_worker_at needs' -s A -l all-projects -d 'include all your projects with a running kernel'
complete -c agent-worker -n '__agent_worker_at needs' -s n -d 'number of entries (default: 1000; 0: all)' -r -f
complete -c agent-worker -n '__agent_worker_at needs' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at needs' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c agent-worker -n '__agent_worker_at needs' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c agent-worker -n '__agent_worker_at needs; and __agent_worker_turn 1 0 0' -f -a '(__agent_worker_live approval)'
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'audit' -d 'List memory queries between agents'
complete -c agent-worker -n '__agent_worker_at audit' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at audit' -l agent -d 'only queries from or to this agent' -r -f -a '(__agent_worker_live agent)'
complete -c agent-worker -n '__agent_worker_at audit' -s n -d 'number of entries (default: 1000; 0: all)' -r -f
complete -c agent-worker -n '__agent_worker_at audit' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at audit' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c agent-worker -n '__agent_worker_at audit' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'feedback' -d 'List or add feedback on the work'
complete -c agent-worker -n '__agent_worker_at feedback' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at feedback' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at feedback' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c agent-worker -n '__agent_worker_at feedback' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c agent-worker -n '__agent_worker_at feedback; and __agent_worker_turn 1 0 0' -f -a 'list' -d 'List feedback on the work.'
complete -c agent-worker -n '__agent_worker_at feedback list' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at feedback list' -s n -d 'number of latest entries (default: 1000; 0: all)' -r -f
complete -c agent-worker -n '__agent_worker_at feedback list' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at feedback; and __agent_worker_turn 1 0 0' -f -a 'add' -d 'Add feedback.'
complete -c agent-worker -n '__agent_worker_at feedback add' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at feedback add' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at feedback add; and __agent_worker_turn 2 0 0' -f
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'stats' -d 'Show tokens, cost, time and results of work'
complete -c agent-worker -n '__agent_worker_at stats' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at stats' -l by -d 'group by agent, workflow, model or day (UTC), or by two of them: day,model' -r -f
complete -c agent-worker -n '__agent_worker_at stats' -l since -d 'start of the period: 7d, 2h, 2026-11-01 or 2026-11-01T12:00:00Z' -r -f
complete -c agent-worker -n '__agent_worker_at stats' -l until -d 'end of the period, as for --since (default: now)' -r -f
complete -c agent-worker -n '__agent_worker_at stats' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at stats' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c agent-worker -n '__agent_worker_at stats' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c agent-worker -n '__agent_worker_at stats; and __agent_worker_turn 1 0 0' -f -a '(__agent_worker_live target)'
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'dead' -d 'List dead-lettered instructions'
complete -c agent-worker -n '__agent_worker_at dead' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at dead' -l clear -d 'hide the current entries; awk show and awk retry still accept them'
complete -c agent-worker -n '__agent_worker_at dead' -s n -d 'number of latest entries (default: 1000; 0: all)' -r -f
complete -c agent-worker -n '__agent_worker_at dead' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at dead' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c agent-worker -n '__agent_worker_at dead' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'runs' -d 'List runs of workflows, latest first'
complete -c agent-worker -n '__agent_worker_at runs' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at runs' -l status -d 'only runs with this status' -r -f -a 'running stopped done failed incomplete rejected cancelled timeout'
complete -c agent-worker -n '__agent_worker_at runs' -l since -d 'only runs started within 10m, 2h, 7d, ...' -r -f
complete -c agent-worker -n '__agent_worker_at runs' -s n -d 'number of latest runs (default: 100; 0: all)' -r -f
complete -c agent-worker -n '__agent_worker_at runs' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at runs' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c agent-worker -n '__agent_worker_at runs' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c agent-worker -n '__agent_worker_at runs; and __agent_worker_turn 1 0 0' -f -a '(__agent_worker_live channel)'
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'show' -d 'Show a run or an instruction'
complete -c agent-worker -n '__agent_worker_at show' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at show' -l prompt -d 'for an instruction: print the prompt of the model'
complete -c agent-worker -n '__agent_worker_at show' -l steps -d 'for an instruction: print each model and tool call'
complete -c agent-worker -n '__agent_worker_at show' -l wire -d 'for an instruction: print recorded model requests and responses'
complete -c agent-worker -n '__agent_worker_at show' -l full -d 'with --steps: print arguments and results in full'
complete -c agent-worker -n '__agent_worker_at show' -s n -d 'with --steps or --wire: number of first rows (default: 1000; 0: all)' -r -f
complete -c agent-worker -n '__agent_worker_at show' -l timeline -d 'for a run: draw the work of each agent over time'
complete -c agent-worker -n '__agent_worker_at show' -l graph -d 'for a run: print the graph of its messages' -r -f -a 'dot mermaid'
complete -c agent-worker -n '__agent_worker_at show' -l html -d 'for a run: write a web page with its timeline to FILE' -r -F
complete -c agent-worker -n '__agent_worker_at show' -l force -d 'with --html: replace an existing file'
complete -c agent-worker -n '__agent_worker_at show' -l archive -d 'read from this file of awk export, without a kernel' -r -F
complete -c agent-worker -n '__agent_worker_at show' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at show' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c agent-worker -n '__agent_worker_at show' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c agent-worker -n '__agent_worker_at show; and __agent_worker_turn 1 0 1000' -f -a '(__agent_worker_live shown)'
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'export' -d 'Export the conversation of a run or a space to one file'
complete -c agent-worker -n '__agent_worker_at export' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at export' -l format -d 'jsonl for awk import, or md (default: jsonl)' -r -f -a 'jsonl md'
complete -c agent-worker -n '__agent_worker_at export' -s o -l output -d 'output file (default: standard output)' -r -F
complete -c agent-worker -n '__agent_worker_at export' -l json -d 'with -o: print one JSON document that describes the file'
complete -c agent-worker -n '__agent_worker_at export' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c agent-worker -n '__agent_worker_at export' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c agent-worker -n '__agent_worker_at export; and __agent_worker_turn 1 0 0' -f -a '(__agent_worker_live exported)'
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'import' -d 'Verify an export file and summarize its contents'
complete -c agent-worker -n '__agent_worker_at import' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at import' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at import' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c agent-worker -n '__agent_worker_at import' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c agent-worker -n '__agent_worker_at import; and __agent_worker_turn 1 0 0' -F
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'diff' -d 'Show changes in the working trees of agents'
complete -c agent-worker -n '__agent_worker_at diff' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at diff' -l stat -d 'print only files and numbers of lines'
complete -c agent-worker -n '__agent_worker_at diff' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at diff' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c agent-worker -n '__agent_worker_at diff' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c agent-worker -n '__agent_worker_at diff; and __agent_worker_turn 1 0 0' -f -a '(__agent_worker_live diffed)'
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'attach' -d 'Follow an agent or a workflow, and approve or deny its calls'
complete -c agent-worker -n '__agent_worker_at attach' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at attach' -l jsonl -d 'print one JSON object per line as items arrive'
complete -c agent-worker -n '__agent_worker_at attach' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c agent-worker -n '__agent_worker_at attach' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c agent-worker -n '__agent_worker_at attach; and __agent_worker_turn 1 0 0' -f -a '(__agent_worker_live target)'
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'worktree' -d 'List and delete the git working trees of agents'
complete -c agent-worker -n '__agent_worker_at worktree' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at worktree' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at worktree' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c agent-worker -n '__agent_worker_at worktree' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c agent-worker -n '__agent_worker_at worktree; and __agent_worker_turn 1 0 0' -f -a 'list' -d 'List working trees.'
complete -c agent-worker -n '__agent_worker_at worktree list' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at worktree list' -l run -d 'only of this run (r12)' -r -f -a '(__agent_worker_live run)'
complete -c agent-worker -n '__agent_worker_at worktree list' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at worktree; and __agent_worker_turn 1 0 0' -f -a 'rm' -d 'Delete the working trees of an ended run.'
complete -c agent-worker -n '__agent_worker_at worktree rm' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at worktree rm' -l run -d 'ended run (r12)' -r -f -a '(__agent_worker_live run)'
complete -c agent-worker -n '__agent_worker_at worktree rm' -l force -d 'also delete unmerged or uncommitted work'
complete -c agent-worker -n '__agent_worker_at worktree rm' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at worktree rm; and __agent_worker_turn 2 0 1000' -f -a '(__agent_worker_live agent)'
complete -c agent-worker -n '__agent_worker_at worktree; and __agent_worker_turn 1 0 0' -f -a 'prune' -d 'Delete all working trees of ended runs that contain no unmerged work.'
complete -c agent-worker -n '__agent_worker_at worktree prune' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at worktree prune' -l run -d 'only of this run (r12)' -r -f -a '(__agent_worker_live run)'
complete -c agent-worker -n '__agent_worker_at worktree prune' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'logs' -d 'Show logs of workers and attempts'
complete -c agent-worker -n '__agent_worker_at logs' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at logs' -l previous -d 'only the previous attempt; without TARGET, the previous kernel process'
complete -c agent-worker -n '__agent_worker_at logs' -l level -d 'minimum level of log lines' -r -f -a 'debug info warning error'
complete -c agent-worker -n '__agent_worker_at logs' -s n -d 'number of latest lines (default: all; 0: all)' -r -f
complete -c agent-worker -n '__agent_worker_at logs' -s f -l follow -d 'print new events as they occur; -f alone prints no earlier events'
complete -c agent-worker -n '__agent_worker_at logs' -l since -d 'only events of the last 10m, 2h, ...' -r -f
complete -c agent-worker -n '__agent_worker_at logs' -l jsonl -d 'print one JSON object per line as items arrive'
complete -c agent-worker -n '__agent_worker_at logs' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c agent-worker -n '__agent_worker_at logs' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c agent-worker -n '__agent_worker_at logs; and __agent_worker_turn 1 0 1000' -f -a '(__agent_worker_live target)'
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'events' -d 'Show kernel events'
complete -c agent-worker -n '__agent_worker_at events' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at events' -s f -l follow -d 'print new events as they occur; -f alone prints no earlier events'
complete -c agent-worker -n '__agent_worker_at events' -l since -d 'only events of the last 10m, 2h, ...' -r -f
complete -c agent-worker -n '__agent_worker_at events' -l jsonl -d 'print one JSON object per line as items arrive'
complete -c agent-worker -n '__agent_worker_at events' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c agent-worker -n '__agent_worker_at events' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'doctor' -d 'Diagnose problems of this installation and suggest fixes'
complete -c agent-worker -n '__agent_worker_at doctor' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at doctor' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at doctor' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c agent-worker -n '__agent_worker_at doctor' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'df' -d 'Show disk usage of project state'
complete -c agent-worker -n '__agent_worker_at df' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at df' -s n -d 'number of largest runs (default: 10; 0: all)' -r -f
complete -c agent-worker -n '__agent_worker_at df' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at df' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c agent-worker -n '__agent_worker_at df' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'wait' -d 'Wait until an agent, run or instruction is idle, done or blocked'
complete -c agent-worker -n '__agent_worker_at wait' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at wait' -l for -d 'idle: no work is left; done: the run, instruction or workflow has ended; needs: a person must act' -r -f -a 'idle done needs'
complete -c agent-worker -n '__agent_worker_at wait' -l timeout -d 'maximum time to wait (10s, 5m; exit code 124)' -r -f
complete -c agent-worker -n '__agent_worker_at wait' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at wait' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c agent-worker -n '__agent_worker_at wait' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c agent-worker -n '__agent_worker_at wait; and __agent_worker_turn 1 0 0' -f -a '(__agent_worker_live target)'
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'watch' -d 'Follow a run to its end'
complete -c agent-worker -n '__agent_worker_at watch' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at watch' -l exit-status -d 'exit with the exit code of the run'
complete -c agent-worker -n '__agent_worker_at watch' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at watch' -l jsonl -d 'print one JSON object per line as items arrive'
complete -c agent-worker -n '__agent_worker_at watch' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c agent-worker -n '__agent_worker_at watch' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c agent-worker -n '__agent_worker_at watch; and __agent_worker_turn 1 0 0' -f -a '(__agent_worker_live merged)'
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'agent' -d 'Create, edit and delete agents and their context'
complete -c agent-worker -n '__agent_worker_at agent' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at agent' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at agent' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c agent-worker -n '__agent_worker_at agent' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c agent-worker -n '__agent_worker_at agent; and __agent_worker_turn 1 0 0' -f -a 'list' -d 'List the agents of the project.'
complete -c agent-worker -n '__agent_worker_at agent list' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at agent list' -l running -d 'require a kernel or its stored log (default: read the files)'
complete -c agent-worker -n '__agent_worker_at agent list' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at agent; and __agent_worker_turn 1 0 0' -f -a 'info' -d 'Show the definition and the state of an agent.'
complete -c agent-worker -n '__agent_worker_at agent info' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at agent info' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at agent info; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live agent)'
complete -c agent-worker -n '__agent_worker_at agent; and __agent_worker_turn 1 0 0' -f -a 'create' -d 'Create an agent.'
complete -c agent-worker -n '__agent_worker_at agent create' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at agent create' -l ephemeral -d 'create an agent without a file; the agent exists until the kernel stops'
complete -c agent-worker -n '__agent_worker_at agent create' -l tag -d 'create a separate instance, named NAME-TAG' -r -f
complete -c agent-worker -n '__agent_worker_at agent create' -s m -l model -d 'model as provider/name, or an alias' -r -f
complete -c agent-worker -n '__agent_worker_at agent create' -s b -l backend -d 'backend that runs the agent (default: sdk)' -r -f
complete -c agent-worker -n '__agent_worker_at agent create' -s s -l system -d 'system prompt' -r -f
complete -c agent-worker -n '__agent_worker_at agent create' -l system-file -d 'project file that contains the system prompt' -r -F
complete -c agent-worker -n '__agent_worker_at agent create' -l role -d 'role of the agent in a few words' -r -f
complete -c agent-worker -n '__agent_worker_at agent create' -l expertise -d 'areas of expertise, separated by commas' -r -f
complete -c agent-worker -n '__agent_worker_at agent create' -l from -d 'convert this ephemeral agent or Claude Code file' -r -F -a '(__agent_worker_live agent)'
complete -c agent-worker -n '__agent_worker_at agent create' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at agent create; and __agent_worker_turn 2 0 0' -f
complete -c agent-worker -n '__agent_worker_at agent; and __agent_worker_turn 1 0 0' -f -a 'edit' -d 'Edit the file of an agent in $EDITOR or with KEY=VALUE.'
complete -c agent-worker -n '__agent_worker_at agent edit' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at agent edit' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at agent edit; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live agent)'
complete -c agent-worker -n '__agent_worker_at agent edit; and __agent_worker_turn 2 1 1000' -f
complete -c agent-worker -n '__agent_worker_at agent; and __agent_worker_turn 1 0 0' -f -a 'delete' -d 'Move an agent and its context to the trash.'
complete -c agent-worker -n '__agent_worker_at agent delete' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at agent delete' -l yes -d 'delete without confirmation'
complete -c agent-worker -n '__agent_worker_at agent delete' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at agent delete; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live agent)'
complete -c agent-worker -n '__agent_worker_at agent; and __agent_worker_turn 1 0 0' -f -a 'memory' -d 'Show or change the memory of an agent.'
complete -c agent-worker -n '__agent_worker_at agent memory' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at agent memory' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at agent memory; and __agent_worker_turn 2 0 0' -f -a 'get' -d 'Print the value of a key.'
complete -c agent-worker -n '__agent_worker_at agent memory get' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at agent memory get' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at agent memory get; and __agent_worker_turn 3 0 0' -f
complete -c agent-worker -n '__agent_worker_at agent memory; and __agent_worker_turn 2 0 0' -f -a 'set' -d 'Store a value under a key.'
complete -c agent-worker -n '__agent_worker_at agent memory set' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at agent memory set' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at agent memory set' -l tier -d 'memory tier (default: working)' -r -f -a 'core working archive'
complete -c agent-worker -n '__agent_worker_at agent memory set' -l visibility -d 'readers of the item (default: private)' -r -f -a 'private shareable public'
complete -c agent-worker -n '__agent_worker_at agent memory set; and __agent_worker_turn 3 0 0' -f
complete -c agent-worker -n '__agent_worker_at agent memory set; and __agent_worker_turn 3 1 1' -f
complete -c agent-worker -n '__agent_worker_at agent memory; and __agent_worker_turn 2 0 0' -f -a 'rm' -d 'Delete an entry.'
complete -c agent-worker -n '__agent_worker_at agent memory rm' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at agent memory rm' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at agent memory rm; and __agent_worker_turn 3 0 0' -f
complete -c agent-worker -n '__agent_worker_at agent memory; and __agent_worker_turn 2 0 0' -f -a 'search' -d 'Search the memory by words.'
complete -c agent-worker -n '__agent_worker_at agent memory search' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at agent memory search' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at agent memory search' -l archive -d 'include archived items'
complete -c agent-worker -n '__agent_worker_at agent memory search' -s n -d 'maximum number of results (default: 10; 0: all)' -r -f
complete -c agent-worker -n '__agent_worker_at agent memory search; and __agent_worker_turn 3 0 0' -f
complete -c agent-worker -n '__agent_worker_at agent memory; and __agent_worker_turn 2 0 0' -f -a 'purge' -d 'Delete all entries from a source, and everything derived from them.'
complete -c agent-worker -n '__agent_worker_at agent memory purge' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at agent memory purge' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at agent memory purge' -l source -d 'source: id of a message (m12), or user, agent, tool, web' -r -f
complete -c agent-worker -n '__agent_worker_at agent memory; and __agent_worker_turn 2 0 0' -f -a 'tray' -d 'List suggested items, or decide whether to store one.'
complete -c agent-worker -n '__agent_worker_at agent memory tray' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at agent memory tray' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at agent memory tray; and __agent_worker_turn 3 0 0' -f -a 'approve reject'
complete -c agent-worker -n '__agent_worker_at agent memory tray; and __agent_worker_turn 3 1 1' -f -a '(__agent_worker_live tray)'
complete -c agent-worker -n '__agent_worker_at agent; and __agent_worker_turn 1 0 0' -f -a 'notes' -d 'Show or add notes of an agent.'
complete -c agent-worker -n '__agent_worker_at agent notes' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at agent notes' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at agent notes; and __agent_worker_turn 2 0 0' -f -a 'add' -d 'Add a note.'
complete -c agent-worker -n '__agent_worker_at agent notes add' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at agent notes add' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at agent notes add; and __agent_worker_turn 3 0 0' -f
complete -c agent-worker -n '__agent_worker_at agent notes; and __agent_worker_turn 2 0 0' -f -a 'show' -d 'Print a note.'
complete -c agent-worker -n '__agent_worker_at agent notes show' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at agent notes show' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at agent notes show; and __agent_worker_turn 3 0 0' -f
complete -c agent-worker -n '__agent_worker_at agent; and __agent_worker_turn 1 0 0' -f -a 'soul' -d 'Show the traits of an agent and decide on the changes it proposes.'
complete -c agent-worker -n '__agent_worker_at agent soul' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at agent soul' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at agent soul; and __agent_worker_turn 2 0 0' -f -a 'show' -d 'Show the traits and the open suggestions.'
complete -c agent-worker -n '__agent_worker_at agent soul show' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at agent soul show' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at agent soul; and __agent_worker_turn 2 0 0' -f -a 'history' -d 'List the versions and their changes.'
complete -c agent-worker -n '__agent_worker_at agent soul history' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at agent soul history' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at agent soul; and __agent_worker_turn 2 0 0' -f -a 'approve' -d 'Approve a suggested trait.'
complete -c agent-worker -n '__agent_worker_at agent soul approve' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at agent soul approve' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at agent soul approve' -l reason -d 'reason, stored with the decision' -r -f
complete -c agent-worker -n '__agent_worker_at agent soul approve; and __agent_worker_turn 3 0 0' -f -a '(__agent_worker_live soul)'
complete -c agent-worker -n '__agent_worker_at agent soul; and __agent_worker_turn 2 0 0' -f -a 'reject' -d 'Reject a suggested trait.'
complete -c agent-worker -n '__agent_worker_at agent soul reject' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at agent soul reject' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at agent soul reject' -l reason -d 'reason, stored with the decision' -r -f
complete -c agent-worker -n '__agent_worker_at agent soul reject; and __agent_worker_turn 3 0 0' -f -a '(__agent_worker_live soul)'
complete -c agent-worker -n '__agent_worker_at agent soul; and __agent_worker_turn 2 0 0' -f -a 'rollback' -d 'Restore an earlier version.'
complete -c agent-worker -n '__agent_worker_at agent soul rollback' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at agent soul rollback' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at agent soul rollback' -l reason -d 'reason, stored with the new version' -r -f
complete -c agent-worker -n '__agent_worker_at agent soul rollback; and __agent_worker_turn 3 0 0' -f
complete -c agent-worker -n '__agent_worker_at agent; and __agent_worker_turn 1 0 0' -f -a 'todo' -d 'Show or change the to-do list of an agent.'
complete -c agent-worker -n '__agent_worker_at agent todo' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at agent todo' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at agent todo; and __agent_worker_turn 2 0 0' -f -a 'add' -d 'Add an item.'
complete -c agent-worker -n '__agent_worker_at agent todo add' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at agent todo add' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at agent todo add; and __agent_worker_turn 3 0 0' -f
complete -c agent-worker -n '__agent_worker_at agent todo; and __agent_worker_turn 2 0 0' -f -a 'done' -d 'Mark an item as done.'
complete -c agent-worker -n '__agent_worker_at agent todo done' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at agent todo done' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at agent todo done; and __agent_worker_turn 3 0 0' -f
complete -c agent-worker -n '__agent_worker_at agent todo; and __agent_worker_turn 2 0 0' -f -a 'rm' -d 'Delete an item.'
complete -c agent-worker -n '__agent_worker_at agent todo rm' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at agent todo rm' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at agent todo rm; and __agent_worker_turn 3 0 0' -f
complete -c agent-worker -n '__agent_worker_at agent; and __agent_worker_turn 1 0 0' -f -a 'reindex' -d 'Rebuild the search index of agents\' conversations.'
complete -c agent-worker -n '__agent_worker_at agent reindex' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at agent reindex' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at agent reindex; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live agent)'
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'memory' -d 'Measure memory search and growth'
complete -c agent-worker -n '__agent_worker_at memory' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at memory' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at memory' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c agent-worker -n '__agent_worker_at memory' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c agent-worker -n '__agent_worker_at memory; and __agent_worker_turn 1 0 0' -f -a 'eval' -d 'Measure how often memory search finds the answer to a question.'
complete -c agent-worker -n '__agent_worker_at memory eval' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at memory eval' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at memory eval; and __agent_worker_turn 2 0 0' -F
complete -c agent-worker -n '__agent_worker_at memory; and __agent_worker_turn 1 0 0' -f -a 'growth' -d 'Simulate runs and measure junk in memory, with and without the guard model.'
complete -c agent-worker -n '__agent_worker_at memory growth' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at memory growth' -l seed -d 'random seed of the generated runs (default: 1)' -r -f
complete -c agent-worker -n '__agent_worker_at memory growth' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at memory growth; and __agent_worker_turn 2 0 0' -f
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'tool' -d 'List, add and mock tools of agents'
complete -c agent-worker -n '__agent_worker_at tool' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at tool' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at tool' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c agent-worker -n '__agent_worker_at tool' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c agent-worker -n '__agent_worker_at tool; and __agent_worker_turn 1 0 0' -f -a 'list' -d 'List the available tools and the agents that use them.'
complete -c agent-worker -n '__agent_worker_at tool list' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at tool list' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at tool; and __agent_worker_turn 1 0 0' -f -a 'add' -d 'Add a command as a tool of the project.'
complete -c agent-worker -n '__agent_worker_at tool add' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at tool add' -s d -l description -d 'description of the tool for models' -r -f
complete -c agent-worker -n '__agent_worker_at tool add' -s a -l argument -d 'argument NAME:TYPE, with ? if optional (path:string, limit:integer?); ${path} in the command: its value' -r -f
complete -c agent-worker -n '__agent_worker_at tool add' -l read-only -d 'the tool only reads; calls need no approval'
complete -c agent-worker -n '__agent_worker_at tool add' -l timeout -d 'timeout of a call (default: 120s)' -r -f
complete -c agent-worker -n '__agent_worker_at tool add' -l mock -d 'fixed result instead of a command' -r -f
complete -c agent-worker -n '__agent_worker_at tool add' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at tool add; and __agent_worker_turn 2 0 0' -f
complete -c agent-worker -n '__agent_worker_at tool; and __agent_worker_turn 1 0 0' -f -a 'import' -d 'Import tools from a file of another project.'
complete -c agent-worker -n '__agent_worker_at tool import' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at tool import' -l replace -d 'replace tools of the same name'
complete -c agent-worker -n '__agent_worker_at tool import' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at tool import; and __agent_worker_turn 2 0 0' -F
complete -c agent-worker -n '__agent_worker_at tool import; and __agent_worker_turn 2 1 1000' -f
complete -c agent-worker -n '__agent_worker_at tool; and __agent_worker_turn 1 0 0' -f -a 'mock' -d 'Mock a tool: return a fixed result and run no command.'
complete -c agent-worker -n '__agent_worker_at tool mock' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at tool mock' -l off -d 'remove the mock and run the command again'
complete -c agent-worker -n '__agent_worker_at tool mock' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at tool mock; and __agent_worker_turn 2 0 0' -f
complete -c agent-worker -n '__agent_worker_at tool mock; and __agent_worker_turn 2 1 1' -f
complete -c agent-worker -n '__agent_worker_at tool; and __agent_worker_turn 1 0 0' -f -a 'rm' -d 'Delete a tool of the project.'
complete -c agent-worker -n '__agent_worker_at tool rm' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at tool rm' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at tool rm; and __agent_worker_turn 2 0 0' -f
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'worker' -d 'Check the protocol of a worker program'
complete -c agent-worker -n '__agent_worker_at worker' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at worker' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at worker' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c agent-worker -n '__agent_worker_at worker' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c agent-worker -n '__agent_worker_at worker; and __agent_worker_turn 1 0 0' -f -a 'check' -d 'Run a worker program and report protocol errors.'
complete -c agent-worker -n '__agent_worker_at worker check' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at worker check' -l message -d 'message for the worker (default: Say hello.)' -r -f
complete -c agent-worker -n '__agent_worker_at worker check' -l timeout -d 'timeout of each run (default: 60s)' -r -f
complete -c agent-worker -n '__agent_worker_at worker check' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at worker check; and __agent_worker_turn 2 0 1000' -f
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'skills' -d 'List, import and update skills'
complete -c agent-worker -n '__agent_worker_at skills' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at skills' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at skills' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c agent-worker -n '__agent_worker_at skills' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c agent-worker -n '__agent_worker_at skills; and __agent_worker_turn 1 0 0' -f -a 'list' -d 'List the skills of the project and the agents that use them.'
complete -c agent-worker -n '__agent_worker_at skills list' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at skills list' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at skills; and __agent_worker_turn 1 0 0' -f -a 'import' -d 'Copy skills from a repository, pinned to a commit.'
complete -c agent-worker -n '__agent_worker_at skills import' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at skills import' -l force -d 'replace existing skills'
complete -c agent-worker -n '__agent_worker_at skills import' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at skills import; and __agent_worker_turn 2 0 0' -f
complete -c agent-worker -n '__agent_worker_at skills import; and __agent_worker_turn 2 1 1000' -f
complete -c agent-worker -n '__agent_worker_at skills; and __agent_worker_turn 1 0 0' -f -a 'update' -d 'Update imported skills from their repositories.'
complete -c agent-worker -n '__agent_worker_at skills update' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at skills update' -l force -d 'also update changed skills; discard the changes'
complete -c agent-worker -n '__agent_worker_at skills update' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at skills update; and __agent_worker_turn 2 0 1000' -f
complete -c agent-worker -n '__agent_worker_at skills; and __agent_worker_turn 1 0 0' -f -a 'rm' -d 'Delete imported skills.'
complete -c agent-worker -n '__agent_worker_at skills rm' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at skills rm' -l force -d 'also delete locally changed skills'
complete -c agent-worker -n '__agent_worker_at skills rm' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at skills rm; and __agent_worker_turn 2 0 1000' -f
complete -c agent-worker -n '__agent_worker_at skills; and __agent_worker_turn 1 0 0' -f -a 'install-self' -d 'Install a skill that teaches coding agents to use agent-worker.'
complete -c agent-worker -n '__agent_worker_at skills install-self' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at skills install-self' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'init' -d 'Create example files in this project'
complete -c agent-worker -n '__agent_worker_at init' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at init' -l example -d 'example to create (default: hello); list: print the examples' -r -f -a 'handbook hello memory nodes review team verdict list'
complete -c agent-worker -n '__agent_worker_at init' -l backend -d 'program that runs the agents (default: scripted answers without a model)' -r -f -a 'claude codex cursor opencode'
complete -c agent-worker -n '__agent_worker_at init' -s m -l model -d 'with --backend: model of the agents (claude: sonnet)' -r -f
complete -c agent-worker -n '__agent_worker_at init' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c agent-worker -n '__agent_worker_at init' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'adopt' -d 'Create agents from the files of other coding agents'
complete -c agent-worker -n '__agent_worker_at adopt' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at adopt' -l yes -d 'write the files without confirmation'
complete -c agent-worker -n '__agent_worker_at adopt' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at adopt' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c agent-worker -n '__agent_worker_at adopt' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'validate' -d 'Validate the files of the project'
complete -c agent-worker -n '__agent_worker_at validate' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at validate' -l report -d 'warn about workflows that give awk run --report github or sarif no findings'
complete -c agent-worker -n '__agent_worker_at validate' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at validate' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c agent-worker -n '__agent_worker_at validate' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c agent-worker -n '__agent_worker_at validate; and __agent_worker_turn 1 0 1000' -F
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'config' -d 'Show effective settings and their sources'
complete -c agent-worker -n '__agent_worker_at config' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at config' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at config' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c agent-worker -n '__agent_worker_at config' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c agent-worker -n '__agent_worker_at config; and __agent_worker_turn 1 0 0' -F -a '(__agent_worker_live named)'
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'schema' -d 'Print the JSON Schema of a file for editors'
complete -c agent-worker -n '__agent_worker_at schema' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at schema' -l write -d 'write all schemas to .agents/.schema, which headers of files refer to'
complete -c agent-worker -n '__agent_worker_at schema' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c agent-worker -n '__agent_worker_at schema' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c agent-worker -n '__agent_worker_at schema; and __agent_worker_turn 1 0 0' -f -a 'agent workflow project'
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'completion' -d 'Print the completion script of a shell'
complete -c agent-worker -n '__agent_worker_at completion' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at completion' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c agent-worker -n '__agent_worker_at completion' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c agent-worker -n '__agent_worker_at completion; and __agent_worker_turn 1 0 0' -f -a 'bash zsh fish'
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'trust' -d 'Trust the commands and connections of project files'
complete -c agent-worker -n '__agent_worker_at trust' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at trust' -l yes -d 'trust without confirmation'
complete -c agent-worker -n '__agent_worker_at trust' -l all -d 'with revoke: revoke all consents'
complete -c agent-worker -n '__agent_worker_at trust' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at trust' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c agent-worker -n '__agent_worker_at trust' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c agent-worker -n '__agent_worker_at trust; and __agent_worker_turn 1 0 1000' -F -a '(__agent_worker_live named)'
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'token' -d 'Create, list and revoke API tokens'
complete -c agent-worker -n '__agent_worker_at token' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at token' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at token' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c agent-worker -n '__agent_worker_at token' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c agent-worker -n '__agent_worker_at token; and __agent_worker_turn 1 0 0' -f -a 'create' -d 'Create a token and print it once.'
complete -c agent-worker -n '__agent_worker_at token create' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at token create' -l scope -d 'permission level: read, operate (also create and control work), or approve (also decide approvals; approve:alice,bob: only calls of these agents)' -r -f -a 'read operate approve'
complete -c agent-worker -n '__agent_worker_at token create' -l name -d 'name of the token in awk token list' -r -f
complete -c agent-worker -n '__agent_worker_at token create' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at token; and __agent_worker_turn 1 0 0' -f -a 'list' -d 'List the valid tokens.'
complete -c agent-worker -n '__agent_worker_at token list' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at token list' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at token; and __agent_worker_turn 1 0 0' -f -a 'revoke' -d 'Revoke tokens, effective with their next request.'
complete -c agent-worker -n '__agent_worker_at token revoke' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at token revoke' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at token revoke; and __agent_worker_turn 2 0 1000' -f -a '(__agent_worker_live token)'
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'mcp-serve' -d 'Serve MCP on standard input and output for a coding agent'
complete -c agent-worker -n '__agent_worker_at mcp-serve' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at mcp-serve' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c agent-worker -n '__agent_worker_at mcp-serve' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'node' -d 'List and add nodes, or run as one'
complete -c agent-worker -n '__agent_worker_at node' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at node' -l join -d 'run as a node of the kernel that created this token; - reads standard input' -r -f
complete -c agent-worker -n '__agent_worker_at node' -l project-id -d 'run as a node over standard input and output (used by the kernel)' -r -f -a '(__agent_worker_live instruction)'
complete -c agent-worker -n '__agent_worker_at node' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at node' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c agent-worker -n '__agent_worker_at node' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c agent-worker -n '__agent_worker_at node; and __agent_worker_turn 1 0 0' -f -a 'list' -d 'List the nodes with their state and problems.'
complete -c agent-worker -n '__agent_worker_at node list' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at node list' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at node; and __agent_worker_turn 1 0 0' -f -a 'add' -d 'Add a node that the project file does not define.'
complete -c agent-worker -n '__agent_worker_at node add' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at node add' -l via -d 'engine of the connection' -r -f -a 'ssh slurm kubectl docker ray command'
complete -c agent-worker -n '__agent_worker_at node add' -l join -d 'create a join token and print the command for the node'
complete -c agent-worker -n '__agent_worker_at node add' -l host -d 'ssh, slurm: host of the node; with --join: address of this kernel' -r -f
complete -c agent-worker -n '__agent_worker_at node add' -l image -d 'docker, kubectl: image of the container to start' -r -f
complete -c agent-worker -n '__agent_worker_at node add' -l container -d 'docker: running container; kubectl: container of the pod' -r -f
complete -c agent-worker -n '__agent_worker_at node add' -l pod -d 'kubectl: running pod' -r -f
complete -c agent-worker -n '__agent_worker_at node add' -l namespace -d 'kubectl: namespace' -r -f
complete -c agent-worker -n '__agent_worker_at node add' -l address -d 'ray: address of the cluster' -r -f
complete -c agent-worker -n '__agent_worker_at node add' -l command -d 'agent-worker program on the node (default: agent-worker)' -r -f
complete -c agent-worker -n '__agent_worker_at node add' -l label -d 'label that agents can require; repeatable' -r -f
complete -c agent-worker -n '__agent_worker_at node add' -l workers -d 'maximum number of concurrent attempts (default: 8)' -r -f
complete -c agent-worker -n '__agent_worker_at node add' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at node add; and __agent_worker_turn 2 0 0' -f
complete -c agent-worker -n '__agent_worker_at node; and __agent_worker_turn 1 0 0' -f -a 'drain' -d 'Drain a node: running work continues, no new work starts there.'
complete -c agent-worker -n '__agent_worker_at node drain' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at node drain' -l undo -d 'make the node available again'
complete -c agent-worker -n '__agent_worker_at node drain' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at node drain; and __agent_worker_turn 2 0 0' -f
complete -c agent-worker -n '__agent_worker_at node; and __agent_worker_turn 1 0 0' -f -a 'rm' -d 'Remove a node that awk node add created.'
complete -c agent-worker -n '__agent_worker_at node rm' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at node rm' -l force -d 'also if attempts run there; they run again elsewhere'
complete -c agent-worker -n '__agent_worker_at node rm' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at node rm; and __agent_worker_turn 2 0 0' -f
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'webhook' -d 'List webhooks and retry their deliveries'
complete -c agent-worker -n '__agent_worker_at webhook' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at webhook' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at webhook' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c agent-worker -n '__agent_worker_at webhook' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c agent-worker -n '__agent_worker_at webhook; and __agent_worker_turn 1 0 0' -f -a 'list' -d 'List the webhooks of the project file with their state.'
complete -c agent-worker -n '__agent_worker_at webhook list' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at webhook list' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at webhook; and __agent_worker_turn 1 0 0' -f -a 'retry' -d 'Retry the deliveries of a webhook, also if its server answered 410.'
complete -c agent-worker -n '__agent_worker_at webhook retry' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at webhook retry' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at webhook retry; and __agent_worker_turn 2 0 0' -f
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'providers' -d 'List model providers and the state of their keys'
complete -c agent-worker -n '__agent_worker_at providers' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at providers' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at providers' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c agent-worker -n '__agent_worker_at providers' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'backends' -d 'List the backends that can run agents'
complete -c agent-worker -n '__agent_worker_at backends' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at backends' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at backends' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c agent-worker -n '__agent_worker_at backends' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'version' -d 'Print the version'
complete -c agent-worker -n '__agent_worker_at version' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at version' -l json -d 'print one JSON document'
complete -c agent-worker -n '__agent_worker_at version' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c agent-worker -n '__agent_worker_at version' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c agent-worker -n '__agent_worker_turn 0 0 0' -f -a 'help' -d 'Show help for a command, a group or a topic'
complete -c agent-worker -n '__agent_worker_at help' -s h -l help -d 'show this help message and exit'
complete -c agent-worker -n '__agent_worker_at help' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c agent-worker -n '__agent_worker_at help' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c agent-worker -n '__agent_worker_at help; and __agent_worker_turn 1 0 1000' -f
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'run' -d 'Run a workflow to its end and report the result'
complete -c awk -n '__agent_worker_at run' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at run' -l tag -d 'tag of the workflow instance (default: main)' -r -f
complete -c awk -n '__agent_worker_at run' -l trust -d 'trust the commands in the project\'s files (setup, shell)'
complete -c awk -n '__agent_worker_at run' -l update -d 'resolve remote refs again and pin the new commits'
complete -c awk -n '__agent_worker_at run' -l continue -d 'start with the previous conversation'
complete -c awk -n '__agent_worker_at run' -l timeout -d 'maximum duration, such as 10m (exit code 124 when exceeded)' -r -f
complete -c awk -n '__agent_worker_at run' -l max-cost -d 'maximum cost of the run in USD (exit code 6 when exceeded)' -r -f
complete -c awk -n '__agent_worker_at run' -l max-tokens -d 'maximum tokens (exit code 6 when exceeded)' -r -f
complete -c awk -n '__agent_worker_at run' -l exit-code-from -d 'only the work of this agent decides the exit code' -r -f -a '(__agent_worker_live agent)'
complete -c awk -n '__agent_worker_at run' -l fail-on -d 'never: always exit with code 0' -r -f -a 'error never'
complete -c awk -n '__agent_worker_at run' -l approve -d 'override approval of all agents: auto (run all tools), ask (before changes), all (ask always), deny' -r -f -a 'auto ask all deny'
complete -c awk -n '__agent_worker_at run' -l detach -d 'return after the start; approvals wait in awk needs'
complete -c awk -n '__agent_worker_at run' -l report -d 'additional reports, separated by commas: github, junit:FILE, md:FILE, sarif:FILE' -r -f
complete -c awk -n '__agent_worker_at run' -l rm -d 'stop the kernel after the run if this command started it'
complete -c awk -n '__agent_worker_at run' -l dry-run -d 'print the execution plan without running it'
complete -c awk -n '__agent_worker_at run' -l compare -d 'compare the workflow with one agent that has the prompts and tools of all members' -r -f -a 'solo'
complete -c awk -n '__agent_worker_at run' -l repeat -d 'with --compare: maximum number of pairs (default: 10)' -r -f
complete -c awk -n '__agent_worker_at run' -l check -d 'with --compare: shell command that decides success by exit code 0' -r -f
complete -c awk -n '__agent_worker_at run' -l margin -d 'with --compare: accepted loss of success rate of the cheaper side (default: 0.2)' -r -f
complete -c awk -n '__agent_worker_at run' -l seed -d 'with --compare: random seed of the order of the runs in each pair' -r -f
complete -c awk -n '__agent_worker_at run' -l total-cost -d 'with --compare: maximum total cost of all runs in USD' -r -f
complete -c awk -n '__agent_worker_at run' -l total-tokens -d 'with --compare: maximum total tokens of all runs' -r -f
complete -c awk -n '__agent_worker_at run' -l resume -d 'with --compare: continue this comparison (c3)' -r -f -a '(__agent_worker_live comparison)'
complete -c awk -n '__agent_worker_at run' -l keep -d 'with --compare: keep the project copy in which each run works'
complete -c awk -n '__agent_worker_at run' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at run' -l jsonl -d 'print one JSON object per line as items arrive'
complete -c awk -n '__agent_worker_at run' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c awk -n '__agent_worker_at run' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c awk -n '__agent_worker_at run; and __agent_worker_turn 1 0 0' -F -a '(__agent_worker_live workflow)'
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'send' -d 'Send a message to an agent or a workflow'
complete -c awk -n '__agent_worker_at send' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at send' -l batch -d 'file with one JSON object {to, text} per line instead of TARGET and MESSAGE; - reads standard input' -r -F
complete -c awk -n '__agent_worker_at send' -l wait -d 'wait for the answers and print them'
complete -c awk -n '__agent_worker_at send' -l timeout -d 'with --wait: maximum time to wait (30s, 5m)' -r -f
complete -c awk -n '__agent_worker_at send' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at send' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c awk -n '__agent_worker_at send' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c awk -n '__agent_worker_at send; and __agent_worker_turn 1 0 0' -f -a '(__agent_worker_live target)'
complete -c awk -n '__agent_worker_at send; and __agent_worker_turn 1 1 1' -f
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'ask' -d 'Send a message and stream the answer'
complete -c awk -n '__agent_worker_at ask' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at ask' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at ask' -l jsonl -d 'print one JSON object per line as items arrive'
complete -c awk -n '__agent_worker_at ask' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c awk -n '__agent_worker_at ask' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c awk -n '__agent_worker_at ask; and __agent_worker_turn 1 0 0' -f -a '(__agent_worker_live target)'
complete -c awk -n '__agent_worker_at ask; and __agent_worker_turn 1 1 1' -f
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'serve' -d 'Send a message and print the complete answer as JSON'
complete -c awk -n '__agent_worker_at serve' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at serve' -l json -d 'print one JSON document (always on)'
complete -c awk -n '__agent_worker_at serve' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c awk -n '__agent_worker_at serve' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c awk -n '__agent_worker_at serve; and __agent_worker_turn 1 0 0' -f -a '(__agent_worker_live target)'
complete -c awk -n '__agent_worker_at serve; and __agent_worker_turn 1 1 1' -f
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'call' -d 'Call an agent tool from a program that an attempt runs'
complete -c awk -n '__agent_worker_at call' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at call' -l key -d 'idempotency key: calls with the same key take effect once' -r -f
complete -c awk -n '__agent_worker_at call' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c awk -n '__agent_worker_at call' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c awk -n '__agent_worker_at call; and __agent_worker_turn 1 0 0' -f -a 'ask_agent auth_grant auth_request auth_revoke channel_read channel_send feedback_submit handover_write history_read history_search memory_ask memory_forget memory_read memory_recall memory_tray memory_write my_inbox my_inbox_ack my_status_set note_read note_write resource_create resource_read rule_define rule_invoke rule_list share_with soul_reflect soul_suggest space_create space_members team_doc_accept team_doc_append team_doc_create team_doc_delete team_doc_history team_doc_list team_doc_read team_doc_reject team_doc_suggest team_doc_write team_members team_proposal_cancel team_proposal_create team_proposal_status team_task_claim team_task_done team_task_fail team_task_list team_task_plan team_task_split team_vote todo_add todo_done todo_list tree_commit tree_status tree_take'
complete -c awk -n '__agent_worker_at call; and __agent_worker_turn 1 1 1' -f
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'start' -d 'Start the kernel, or a workflow that keeps running'
complete -c awk -n '__agent_worker_at start' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at start' -l tag -d 'tag of the workflow instance (default: main)' -r -f
complete -c awk -n '__agent_worker_at start' -l trust -d 'trust the commands in the project\'s files (setup, shell)'
complete -c awk -n '__agent_worker_at start' -l update -d 'resolve remote refs again and pin the new commits'
complete -c awk -n '__agent_worker_at start' -l continue -d 'start with the previous conversation'
complete -c awk -n '__agent_worker_at start' -l foreground -d 'run in the foreground and log to stderr'
complete -c awk -n '__agent_worker_at start' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c awk -n '__agent_worker_at start' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c awk -n '__agent_worker_at start; and __agent_worker_turn 1 0 0' -F -a '(__agent_worker_live workflow)'
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'stop' -d 'Stop workflows, agents or the kernel'
complete -c awk -n '__agent_worker_at stop' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at stop' -l grace -d 'time for running work to finish (default: 10s)' -r -f
complete -c awk -n '__agent_worker_at stop' -l now -d 'stop running work immediately'
complete -c awk -n '__agent_worker_at stop' -l no-wait -d 'return without waiting for processes to exit'
complete -c awk -n '__agent_worker_at stop' -l yes -d 'stop without confirmation'
complete -c awk -n '__agent_worker_at stop' -s A -l all-projects -d 'stop the kernels of all your projects'
complete -c awk -n '__agent_worker_at stop' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c awk -n '__agent_worker_at stop' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c awk -n '__agent_worker_at stop; and __agent_worker_turn 1 0 1000' -f -a '(__agent_worker_live target)'
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'status' -d 'Show the state of the kernel or a target, without starting it'
complete -c awk -n '__agent_worker_at status' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at status' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at status' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c awk -n '__agent_worker_at status' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c awk -n '__agent_worker_at status; and __agent_worker_turn 1 0 0' -f -a '(__agent_worker_live target)'
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'service' -d 'Install the kernel as a system service'
complete -c awk -n '__agent_worker_at service' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at service' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at service' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c awk -n '__agent_worker_at service' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c awk -n '__agent_worker_at service; and __agent_worker_turn 1 0 0' -f -a 'print' -d 'Print the systemd user unit or launchd property list.'
complete -c awk -n '__agent_worker_at service print' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at service print' -l systemd -d 'use systemd (default, except on macOS)'
complete -c awk -n '__agent_worker_at service print' -l launchd -d 'use launchd (default on macOS)'
complete -c awk -n '__agent_worker_at service print' -l all -d 'one service that starts all projects on demand'
complete -c awk -n '__agent_worker_at service print' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at service; and __agent_worker_turn 1 0 0' -f -a 'install' -d 'Install the service and start it if the service manager is available.'
complete -c awk -n '__agent_worker_at service install' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at service install' -l systemd -d 'use systemd (default, except on macOS)'
complete -c awk -n '__agent_worker_at service install' -l launchd -d 'use launchd (default on macOS)'
complete -c awk -n '__agent_worker_at service install' -l all -d 'one service that starts all projects on demand'
complete -c awk -n '__agent_worker_at service install' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at service; and __agent_worker_turn 1 0 0' -f -a 'uninstall' -d 'Stop and remove the service.'
complete -c awk -n '__agent_worker_at service uninstall' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at service uninstall' -l systemd -d 'use systemd (default, except on macOS)'
complete -c awk -n '__agent_worker_at service uninstall' -l launchd -d 'use launchd (default on macOS)'
complete -c awk -n '__agent_worker_at service uninstall' -l all -d 'one service that starts all projects on demand'
complete -c awk -n '__agent_worker_at service uninstall' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at service; and __agent_worker_turn 1 0 0' -f -a 'run' -d 'Run as the service of all projects and start their kernels on demand.'
complete -c awk -n '__agent_worker_at service run' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at service run' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'restart' -d 'Restart the worker of an agent, or the kernel'
complete -c awk -n '__agent_worker_at restart' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at restart' -l kernel -d 'restart the kernel; unfinished work continues'
complete -c awk -n '__agent_worker_at restart' -l trust -d 'trust the commands in the project\'s files (setup, shell)'
complete -c awk -n '__agent_worker_at restart' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at restart' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c awk -n '__agent_worker_at restart' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c awk -n '__agent_worker_at restart; and __agent_worker_turn 1 0 0' -f -a '(__agent_worker_live target)'
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'upgrade' -d 'Replace the running kernel without interrupting work'
complete -c awk -n '__agent_worker_at upgrade' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at upgrade' -l to -d 'virtual environment or program of the new version (default: the installed one)' -r -f
complete -c awk -n '__agent_worker_at upgrade' -l status -d 'print the result of the last upgrade'
complete -c awk -n '__agent_worker_at upgrade' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at upgrade' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c awk -n '__agent_worker_at upgrade' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'backup' -d 'Back up project state to a file, also while the kernel runs'
complete -c awk -n '__agent_worker_at backup' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at backup' -l force -d 'replace an existing file'
complete -c awk -n '__agent_worker_at backup' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at backup' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c awk -n '__agent_worker_at backup' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c awk -n '__agent_worker_at backup; and __agent_worker_turn 1 0 0' -F
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'restore' -d 'Restore project state from a backup or standby copy'
complete -c awk -n '__agent_worker_at restore' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at restore' -l promote -d 'restore a standby copy; its original kernel must not run again'
complete -c awk -n '__agent_worker_at restore' -l force -d 'move existing state aside first; with --promote, continue even if the original may be running'
complete -c awk -n '__agent_worker_at restore' -l trust -d 'for your own backups: also restore consents and commands of open work; grants of awk trust are never restored'
complete -c awk -n '__agent_worker_at restore' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at restore' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c awk -n '__agent_worker_at restore' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c awk -n '__agent_worker_at restore; and __agent_worker_turn 1 0 0' -F
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'standby' -d 'Verify a standby copy of project state'
complete -c awk -n '__agent_worker_at standby' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at standby' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at standby' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c awk -n '__agent_worker_at standby' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c awk -n '__agent_worker_at standby; and __agent_worker_turn 1 0 0' -f -a 'check' -d 'Verify a standby copy in a temporary directory and print the time of its last change.'
complete -c awk -n '__agent_worker_at standby check' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at standby check' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at standby check; and __agent_worker_turn 2 0 0' -F
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'reset' -d 'Re-enable an agent that was stopped after repeated failures'
complete -c awk -n '__agent_worker_at reset' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at reset' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at reset' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c awk -n '__agent_worker_at reset' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c awk -n '__agent_worker_at reset; and __agent_worker_turn 1 0 0' -f -a '(__agent_worker_live target)'
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'pause' -d 'Pause the work of an agent or a workflow'
complete -c awk -n '__agent_worker_at pause' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at pause' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at pause' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c awk -n '__agent_worker_at pause' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c awk -n '__agent_worker_at pause; and __agent_worker_turn 1 0 0' -f -a '(__agent_worker_live target)'
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'resume' -d 'Resume work that is paused, stopped, or blocked by a provider'
complete -c awk -n '__agent_worker_at resume' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at resume' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at resume' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c awk -n '__agent_worker_at resume' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c awk -n '__agent_worker_at resume; and __agent_worker_turn 1 0 0' -f -a '(__agent_worker_live target)'
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'continue' -d 'Renew the reached limits of a workflow or budget of an agent'
complete -c awk -n '__agent_worker_at continue' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at continue' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at continue' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c awk -n '__agent_worker_at continue' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c awk -n '__agent_worker_at continue; and __agent_worker_turn 1 0 0' -f -a '(__agent_worker_live target)'
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'unblock' -d 'Resume, continue, retry, reset or restart what blocks work'
complete -c awk -n '__agent_worker_at unblock' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at unblock' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at unblock' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c awk -n '__agent_worker_at unblock' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c awk -n '__agent_worker_at unblock; and __agent_worker_turn 1 0 0' -f -a '(__agent_worker_live target)'
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'approve' -d 'Approve pending tool calls'
complete -c awk -n '__agent_worker_at approve' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at approve' -l reason -d 'reason, visible to the agent' -r -f
complete -c awk -n '__agent_worker_at approve' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at approve' -l always -d 'approve this and all future calls of this tool by this agent whose complete input, as in awk needs, matches PATTERN: \'{"command":"git *"}\'; * matches any text, so this also matches \'git x; rm -rf ~\'' -r -f
complete -c awk -n '__agent_worker_at approve' -l all-agents -d 'with --always: apply to all agents'
complete -c awk -n '__agent_worker_at approve' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c awk -n '__agent_worker_at approve' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c awk -n '__agent_worker_at approve; and __agent_worker_turn 1 0 1000' -f -a '(__agent_worker_live approval)'
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'deny' -d 'Deny pending tool calls, or delete an approval rule'
complete -c awk -n '__agent_worker_at deny' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at deny' -l reason -d 'reason, visible to the agent' -r -f
complete -c awk -n '__agent_worker_at deny' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at deny' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c awk -n '__agent_worker_at deny' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c awk -n '__agent_worker_at deny; and __agent_worker_turn 1 0 1000' -f -a '(__agent_worker_live deniable)'
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'answer' -d 'Reply on behalf of a human agent'
complete -c awk -n '__agent_worker_at answer' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at answer' -l as -d 'fail if another agent is now the assignee' -r -f -a '(__agent_worker_live agent)'
complete -c awk -n '__agent_worker_at answer' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at answer' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c awk -n '__agent_worker_at answer' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c awk -n '__agent_worker_at answer; and __agent_worker_turn 1 0 0' -f -a '(__agent_worker_live instruction)'
complete -c awk -n '__agent_worker_at answer; and __agent_worker_turn 1 1 1' -f
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'space' -d 'List or close spaces, or change their members'
complete -c awk -n '__agent_worker_at space' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at space' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at space' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c awk -n '__agent_worker_at space' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c awk -n '__agent_worker_at space; and __agent_worker_turn 1 0 0' -f -a 'list' -d 'List spaces, their members and their state.'
complete -c awk -n '__agent_worker_at space list' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at space list' -l run -d 'spaces of this run (r12), including closed spaces' -r -f -a '(__agent_worker_live run)'
complete -c awk -n '__agent_worker_at space list' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at space; and __agent_worker_turn 1 0 0' -f -a 'create' -d 'Open a space for agents of the project.'
complete -c awk -n '__agent_worker_at space create' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at space create' -l member -d 'agent to add; repeatable' -r -f -a '(__agent_worker_live agent)'
complete -c awk -n '__agent_worker_at space create' -l open -d 'make every agent that is mentioned a member'
complete -c awk -n '__agent_worker_at space create' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at space create; and __agent_worker_turn 2 0 0' -f
complete -c awk -n '__agent_worker_at space; and __agent_worker_turn 1 0 0' -f -a 'members' -d 'Add or remove members of a space.'
complete -c awk -n '__agent_worker_at space members' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at space members' -l add -d 'member to add; repeatable' -r -f
complete -c awk -n '__agent_worker_at space members' -l remove -d 'member to remove; repeatable' -r -f
complete -c awk -n '__agent_worker_at space members' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at space members; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live space)'
complete -c awk -n '__agent_worker_at space; and __agent_worker_turn 1 0 0' -f -a 'close' -d 'Close a space and cancel its work.'
complete -c awk -n '__agent_worker_at space close' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at space close' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at space close; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live space)'
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'reassign' -d 'Reassign a question to another member of its workspace'
complete -c awk -n '__agent_worker_at reassign' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at reassign' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at reassign' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c awk -n '__agent_worker_at reassign' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c awk -n '__agent_worker_at reassign; and __agent_worker_turn 1 0 0' -f -a '(__agent_worker_live instruction)'
complete -c awk -n '__agent_worker_at reassign; and __agent_worker_turn 1 1 1' -f -a '(__agent_worker_live agent)'
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'grant' -d 'Grant an agent more permissions, limited by time or calls'
complete -c awk -n '__agent_worker_at grant' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at grant' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at grant' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c awk -n '__agent_worker_at grant' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c awk -n '__agent_worker_at grant; and __agent_worker_turn 1 0 0' -f -a 'list' -d 'List grants, their origin and their current state.'
complete -c awk -n '__agent_worker_at grant list' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at grant list' -s n -d 'number of entries (default: 1000; 0: all)' -r -f
complete -c awk -n '__agent_worker_at grant list' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at grant list; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live channel)'
complete -c awk -n '__agent_worker_at grant; and __agent_worker_turn 1 0 0' -f -a 'give' -d 'Grant an agent a scope that its file does not include.'
complete -c awk -n '__agent_worker_at grant give' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at grant give' -l to -d 'receiving agent, such as alice@review' -r -f -a '(__agent_worker_live target)'
complete -c awk -n '__agent_worker_at grant give' -l until -d 'duration (2h) or end time (2026-11-22T18:00:00Z)' -r -f
complete -c awk -n '__agent_worker_at grant give' -l uses -d 'maximum number of calls' -r -f
complete -c awk -n '__agent_worker_at grant give' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at grant give; and __agent_worker_turn 2 0 0' -f -a 'channel.read channel.write documents.read documents.write tasks votes status memory ask feedback rules auth spaces agents workflows'
complete -c awk -n '__agent_worker_at grant; and __agent_worker_turn 1 0 0' -f -a 'revoke' -d 'Revoke a grant and the grants derived from it.'
complete -c awk -n '__agent_worker_at grant revoke' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at grant revoke' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at grant revoke; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live grant)'
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'proposal' -d 'List proposals, vote on them, or cancel them'
complete -c awk -n '__agent_worker_at proposal' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at proposal' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at proposal' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c awk -n '__agent_worker_at proposal' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c awk -n '__agent_worker_at proposal; and __agent_worker_turn 1 0 0' -f -a 'list' -d 'List open proposals, or all proposals of one workflow.'
complete -c awk -n '__agent_worker_at proposal list' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at proposal list' -l all -d 'include closed proposals if no workflow is given'
complete -c awk -n '__agent_worker_at proposal list' -s n -d 'number of entries (default: 1000; 0: all)' -r -f
complete -c awk -n '__agent_worker_at proposal list' -l archive -d 'read from this file of awk export, without a kernel' -r -F
complete -c awk -n '__agent_worker_at proposal list' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at proposal list; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live channel)'
complete -c awk -n '__agent_worker_at proposal; and __agent_worker_turn 1 0 0' -f -a 'show' -d 'Show a proposal, its votes and its result.'
complete -c awk -n '__agent_worker_at proposal show' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at proposal show' -l archive -d 'read from this file of awk export, without a kernel' -r -F
complete -c awk -n '__agent_worker_at proposal show' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at proposal show; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live any_proposal)'
complete -c awk -n '__agent_worker_at proposal; and __agent_worker_turn 1 0 0' -f -a 'vote' -d 'Vote on a proposal; a vote is final.'
complete -c awk -n '__agent_worker_at proposal vote' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at proposal vote' -l reason -d 'reason, visible to the members' -r -f
complete -c awk -n '__agent_worker_at proposal vote' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at proposal vote; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live proposal)'
complete -c awk -n '__agent_worker_at proposal vote; and __agent_worker_turn 2 1 1' -f -a '(__agent_worker_live choice)'
complete -c awk -n '__agent_worker_at proposal; and __agent_worker_turn 1 0 0' -f -a 'cancel' -d 'Cancel a proposal: its vote ends without a result.'
complete -c awk -n '__agent_worker_at proposal cancel' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at proposal cancel' -l reason -d 'reason, visible to the members' -r -f
complete -c awk -n '__agent_worker_at proposal cancel' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at proposal cancel; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live proposal)'
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'rule' -d 'List, define and test rules'
complete -c awk -n '__agent_worker_at rule' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at rule' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at rule' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c awk -n '__agent_worker_at rule' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c awk -n '__agent_worker_at rule; and __agent_worker_turn 1 0 0' -f -a 'list' -d 'List the rules of a workflow with author and number of firings.'
complete -c awk -n '__agent_worker_at rule list' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at rule list' -l all -d '- include the rules of the kernel'
complete -c awk -n '__agent_worker_at rule list' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at rule list; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live channel)'
complete -c awk -n '__agent_worker_at rule; and __agent_worker_turn 1 0 0' -f -a 'show' -d 'Show one rule.'
complete -c awk -n '__agent_worker_at rule show' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at rule show' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at rule show; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live rule)'
complete -c awk -n '__agent_worker_at rule show; and __agent_worker_turn 2 1 1' -f -a '(__agent_worker_live channel)'
complete -c awk -n '__agent_worker_at rule; and __agent_worker_turn 1 0 0' -f -a 'add' -d 'Add or replace rules from a file.'
complete -c awk -n '__agent_worker_at rule add' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at rule add' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at rule add; and __agent_worker_turn 2 0 0' -F
complete -c awk -n '__agent_worker_at rule add; and __agent_worker_turn 2 1 1' -f -a '(__agent_worker_live channel)'
complete -c awk -n '__agent_worker_at rule; and __agent_worker_turn 1 0 0' -f -a 'rm' -d 'Disable a rule without deleting it.'
complete -c awk -n '__agent_worker_at rule rm' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at rule rm' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at rule rm; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live rule)'
complete -c awk -n '__agent_worker_at rule rm; and __agent_worker_turn 2 1 1' -f -a '(__agent_worker_live channel)'
complete -c awk -n '__agent_worker_at rule; and __agent_worker_turn 1 0 0' -f -a 'test' -d 'Print the effects that a rule would have had on a run.'
complete -c awk -n '__agent_worker_at rule test' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at rule test' -l run -d 'run whose messages are tested' -r -f -a '(__agent_worker_live run)'
complete -c awk -n '__agent_worker_at rule test' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at rule test; and __agent_worker_turn 2 0 0' -F -a '(__agent_worker_live rule)'
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'task' -d 'List, add and complete shared tasks'
complete -c awk -n '__agent_worker_at task' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at task' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at task' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c awk -n '__agent_worker_at task' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c awk -n '__agent_worker_at task; and __agent_worker_turn 1 0 0' -f -a 'list' -d 'List the tasks of a workflow with their states and assignees.'
complete -c awk -n '__agent_worker_at task list' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at task list' -l state -d 'only tasks in this state' -r -f -a 'open ready claimed done failed cancelled'
complete -c awk -n '__agent_worker_at task list' -l for -d 'only tasks for this agent or claimed by it' -r -f -a '(__agent_worker_live agent)'
complete -c awk -n '__agent_worker_at task list' -s n -d 'number of entries (default: 1000; 0: all)' -r -f
complete -c awk -n '__agent_worker_at task list' -l archive -d 'read from this file of awk export, without a kernel' -r -F
complete -c awk -n '__agent_worker_at task list' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at task list; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live channel)'
complete -c awk -n '__agent_worker_at task; and __agent_worker_turn 1 0 0' -f -a 'show' -d 'Show a task, its dependencies and its result.'
complete -c awk -n '__agent_worker_at task show' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at task show' -l archive -d 'read from this file of awk export, without a kernel' -r -F
complete -c awk -n '__agent_worker_at task show' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at task show; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live channel)'
complete -c awk -n '__agent_worker_at task show; and __agent_worker_turn 2 1 1' -f -a '(__agent_worker_live task)'
complete -c awk -n '__agent_worker_at task; and __agent_worker_turn 1 0 0' -f -a 'add' -d 'Add a task that an agent can claim, or receives with --for.'
complete -c awk -n '__agent_worker_at task add' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at task add' -l text -d 'description of the task' -r -f
complete -c awk -n '__agent_worker_at task add' -l key -d 'additional name of the task' -r -f
complete -c awk -n '__agent_worker_at task add' -l for -d 'agent that receives the task (default: any agent can claim it)' -r -f -a '(__agent_worker_live agent)'
complete -c awk -n '__agent_worker_at task add' -l needs -d 'dependency (id or key); repeatable' -r -f -a '(__agent_worker_live task)'
complete -c awk -n '__agent_worker_at task add' -l parent -d 'parent task' -r -f -a '(__agent_worker_live task)'
complete -c awk -n '__agent_worker_at task add' -l files -d 'files reserved for the task; repeatable' -r -f
complete -c awk -n '__agent_worker_at task add' -l check -d 'command that must exit with code 0 before the task is done' -r -f
complete -c awk -n '__agent_worker_at task add' -l on-failure -d 'after a failed dependency: hold (wait for a person, default), skip (start without it), cancel this task' -r -f -a 'hold skip cancel'
complete -c awk -n '__agent_worker_at task add' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at task add; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live channel)'
complete -c awk -n '__agent_worker_at task add; and __agent_worker_turn 2 1 1' -f
complete -c awk -n '__agent_worker_at task; and __agent_worker_turn 1 0 0' -f -a 'claim' -d 'Claim tasks for yourself, so that no agent works on them.'
complete -c awk -n '__agent_worker_at task claim' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at task claim' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at task claim; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live channel)'
complete -c awk -n '__agent_worker_at task claim; and __agent_worker_turn 2 1 1000' -f -a '(__agent_worker_live task)'
complete -c awk -n '__agent_worker_at task; and __agent_worker_turn 1 0 0' -f -a 'done' -d 'Mark tasks as done, so that their dependents can start.'
complete -c awk -n '__agent_worker_at task done' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at task done' -l result -d 'result, visible to the members' -r -f
complete -c awk -n '__agent_worker_at task done' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at task done; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live channel)'
complete -c awk -n '__agent_worker_at task done; and __agent_worker_turn 2 1 1000' -f -a '(__agent_worker_live task)'
complete -c awk -n '__agent_worker_at task; and __agent_worker_turn 1 0 0' -f -a 'fail' -d 'Mark tasks as failed.'
complete -c awk -n '__agent_worker_at task fail' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at task fail' -l reason -d 'reason, visible to the members' -r -f
complete -c awk -n '__agent_worker_at task fail' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at task fail; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live channel)'
complete -c awk -n '__agent_worker_at task fail; and __agent_worker_turn 2 1 1000' -f -a '(__agent_worker_live task)'
complete -c awk -n '__agent_worker_at task; and __agent_worker_turn 1 0 0' -f -a 'cancel' -d 'Cancel unfinished tasks.'
complete -c awk -n '__agent_worker_at task cancel' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at task cancel' -l reason -d 'reason, visible to the members' -r -f
complete -c awk -n '__agent_worker_at task cancel' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at task cancel; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live channel)'
complete -c awk -n '__agent_worker_at task cancel; and __agent_worker_turn 2 1 1000' -f -a '(__agent_worker_live task)'
complete -c awk -n '__agent_worker_at task; and __agent_worker_turn 1 0 0' -f -a 'graph' -d 'Show the dependency graph of the tasks.'
complete -c awk -n '__agent_worker_at task graph' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at task graph' -s n -d 'number of tasks (default: all; 0: all)' -r -f
complete -c awk -n '__agent_worker_at task graph' -l archive -d 'read from this file of awk export, without a kernel' -r -F
complete -c awk -n '__agent_worker_at task graph' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at task graph; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live channel)'
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'doc' -d 'Read and write shared documents'
complete -c awk -n '__agent_worker_at doc' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at doc' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at doc' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c awk -n '__agent_worker_at doc' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c awk -n '__agent_worker_at doc; and __agent_worker_turn 1 0 0' -f -a 'list' -d 'List the documents of a workflow.'
complete -c awk -n '__agent_worker_at doc list' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at doc list' -s n -d 'number of entries (default: 1000; 0: all)' -r -f
complete -c awk -n '__agent_worker_at doc list' -l archive -d 'read from this file of awk export, without a kernel' -r -F
complete -c awk -n '__agent_worker_at doc list' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at doc list; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live channel)'
complete -c awk -n '__agent_worker_at doc; and __agent_worker_turn 1 0 0' -f -a 'read' -d 'Print a document or one of its versions.'
complete -c awk -n '__agent_worker_at doc read' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at doc read' -l version -d 'number of the version (default: the latest)' -r -f
complete -c awk -n '__agent_worker_at doc read' -l archive -d 'read from this file of awk export, without a kernel' -r -F
complete -c awk -n '__agent_worker_at doc read' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at doc read; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live channel)'
complete -c awk -n '__agent_worker_at doc read; and __agent_worker_turn 2 1 1' -f -a '(__agent_worker_live document)'
complete -c awk -n '__agent_worker_at doc; and __agent_worker_turn 1 0 0' -f -a 'write' -d 'Replace the text of a document.'
complete -c awk -n '__agent_worker_at doc write' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at doc write' -l reason -d 'reason, stored with the version' -r -f
complete -c awk -n '__agent_worker_at doc write' -l if-version -d 'base version of the text; later changes are merged, or the write fails on a conflict' -r -f
complete -c awk -n '__agent_worker_at doc write' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at doc write; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live channel)'
complete -c awk -n '__agent_worker_at doc write; and __agent_worker_turn 2 1 1' -f -a '(__agent_worker_live document)'
complete -c awk -n '__agent_worker_at doc write; and __agent_worker_turn 2 2 2' -f
complete -c awk -n '__agent_worker_at doc; and __agent_worker_turn 1 0 0' -f -a 'append' -d 'Append text to a document.'
complete -c awk -n '__agent_worker_at doc append' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at doc append' -l reason -d 'reason, stored with the version' -r -f
complete -c awk -n '__agent_worker_at doc append' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at doc append; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live channel)'
complete -c awk -n '__agent_worker_at doc append; and __agent_worker_turn 2 1 1' -f -a '(__agent_worker_live document)'
complete -c awk -n '__agent_worker_at doc append; and __agent_worker_turn 2 2 2' -f
complete -c awk -n '__agent_worker_at doc; and __agent_worker_turn 1 0 0' -f -a 'create' -d 'Create a document.'
complete -c awk -n '__agent_worker_at doc create' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at doc create' -l reason -d 'reason, stored with the version' -r -f
complete -c awk -n '__agent_worker_at doc create' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at doc create; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live channel)'
complete -c awk -n '__agent_worker_at doc create; and __agent_worker_turn 2 1 1' -f -a '(__agent_worker_live document)'
complete -c awk -n '__agent_worker_at doc create; and __agent_worker_turn 2 2 2' -f
complete -c awk -n '__agent_worker_at doc; and __agent_worker_turn 1 0 0' -f -a 'delete' -d 'Delete a document but retain its history.'
complete -c awk -n '__agent_worker_at doc delete' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at doc delete' -l if-version -d 'delete only if this is the latest version' -r -f
complete -c awk -n '__agent_worker_at doc delete' -l reason -d 'reason, stored with the version' -r -f
complete -c awk -n '__agent_worker_at doc delete' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at doc delete; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live channel)'
complete -c awk -n '__agent_worker_at doc delete; and __agent_worker_turn 2 1 1' -f -a '(__agent_worker_live document)'
complete -c awk -n '__agent_worker_at doc; and __agent_worker_turn 1 0 0' -f -a 'history' -d 'List the versions of a document, latest first.'
complete -c awk -n '__agent_worker_at doc history' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at doc history' -s n -d 'number of entries (default: 1000; 0: all)' -r -f
complete -c awk -n '__agent_worker_at doc history' -l archive -d 'read from this file of awk export, without a kernel' -r -F
complete -c awk -n '__agent_worker_at doc history' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at doc history; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live channel)'
complete -c awk -n '__agent_worker_at doc history; and __agent_worker_turn 2 1 1' -f -a '(__agent_worker_live document)'
complete -c awk -n '__agent_worker_at doc; and __agent_worker_turn 1 0 0' -f -a 'diff' -d 'Show the changes of a version.'
complete -c awk -n '__agent_worker_at doc diff' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at doc diff' -l from -d 'first version (default: previous)' -r -f
complete -c awk -n '__agent_worker_at doc diff' -l to -d 'second version (default: latest)' -r -f
complete -c awk -n '__agent_worker_at doc diff' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at doc diff; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live channel)'
complete -c awk -n '__agent_worker_at doc diff; and __agent_worker_turn 2 1 1' -f -a '(__agent_worker_live document)'
complete -c awk -n '__agent_worker_at doc; and __agent_worker_turn 1 0 0' -f -a 'blame' -d 'Show the author and version of each line.'
complete -c awk -n '__agent_worker_at doc blame' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at doc blame' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at doc blame; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live channel)'
complete -c awk -n '__agent_worker_at doc blame; and __agent_worker_turn 2 1 1' -f -a '(__agent_worker_live document)'
complete -c awk -n '__agent_worker_at doc; and __agent_worker_turn 1 0 0' -f -a 'suggestions' -d 'List suggested changes.'
complete -c awk -n '__agent_worker_at doc suggestions' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at doc suggestions' -l all -d 'include suggestions that were accepted or rejected'
complete -c awk -n '__agent_worker_at doc suggestions' -s n -d 'number of entries (default: 1000; 0: all)' -r -f
complete -c awk -n '__agent_worker_at doc suggestions' -l archive -d 'read from this file of awk export, without a kernel' -r -F
complete -c awk -n '__agent_worker_at doc suggestions' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at doc suggestions; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live channel)'
complete -c awk -n '__agent_worker_at doc; and __agent_worker_turn 1 0 0' -f -a 'accept' -d 'Accept a suggestion, merged with later changes, as the latest version.'
complete -c awk -n '__agent_worker_at doc accept' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at doc accept' -l reason -d 'reason, visible to the members' -r -f
complete -c awk -n '__agent_worker_at doc accept' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at doc accept; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live channel)'
complete -c awk -n '__agent_worker_at doc accept; and __agent_worker_turn 2 1 1' -f -a '(__agent_worker_live suggestion)'
complete -c awk -n '__agent_worker_at doc; and __agent_worker_turn 1 0 0' -f -a 'reject' -d 'Reject a suggestion.'
complete -c awk -n '__agent_worker_at doc reject' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at doc reject' -l reason -d 'reason, visible to the members' -r -f
complete -c awk -n '__agent_worker_at doc reject' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at doc reject; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live channel)'
complete -c awk -n '__agent_worker_at doc reject; and __agent_worker_turn 2 1 1' -f -a '(__agent_worker_live suggestion)'
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'cancel' -d 'Cancel instructions'
complete -c awk -n '__agent_worker_at cancel' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at cancel' -l agent -d 'all instructions of this agent: alice or alice@review[:tag]' -r -f -a '(__agent_worker_live agent)'
complete -c awk -n '__agent_worker_at cancel' -l dry-run -d 'print the selected instructions without changes; not with ids'
complete -c awk -n '__agent_worker_at cancel' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at cancel' -l queued -d 'only queued instructions; running instructions continue'
complete -c awk -n '__agent_worker_at cancel' -l yes -d 'cancel a selection without confirmation; ids need none'
complete -c awk -n '__agent_worker_at cancel' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c awk -n '__agent_worker_at cancel' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c awk -n '__agent_worker_at cancel; and __agent_worker_turn 1 0 1000' -f -a '(__agent_worker_live steered)'
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'retry' -d 'Retry failed or dead-lettered instructions'
complete -c awk -n '__agent_worker_at retry' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at retry' -l agent -d 'all instructions of this agent: alice or alice@review[:tag]' -r -f -a '(__agent_worker_live agent)'
complete -c awk -n '__agent_worker_at retry' -l dry-run -d 'print the selected instructions without changes; not with ids'
complete -c awk -n '__agent_worker_at retry' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at retry' -l all -d 'all instructions that awk dead lists'
complete -c awk -n '__agent_worker_at retry' -l fresh -d 'start from the beginning; side effects may occur twice'
complete -c awk -n '__agent_worker_at retry' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c awk -n '__agent_worker_at retry' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c awk -n '__agent_worker_at retry; and __agent_worker_turn 1 0 1000' -f -a '(__agent_worker_live steered)'
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'clear' -d 'Delete the conversation of a run, workflow or agent permanently'
complete -c awk -n '__agent_worker_at clear' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at clear' -l run -d 'for a workflow: only this run (r12; default: all runs)' -r -f -a '(__agent_worker_live run)'
complete -c awk -n '__agent_worker_at clear' -l yes -d 'clear without confirmation'
complete -c awk -n '__agent_worker_at clear' -l force -d 'also delete unmerged or uncommitted work'
complete -c awk -n '__agent_worker_at clear' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at clear' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c awk -n '__agent_worker_at clear' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c awk -n '__agent_worker_at clear; and __agent_worker_turn 1 0 0' -f -a '(__agent_worker_live exported)'
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'prune' -d 'Delete data that is no longer needed to free disk space'
complete -c awk -n '__agent_worker_at prune' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at prune' -l dry-run -d 'list the data and reasons without deleting it'
complete -c awk -n '__agent_worker_at prune' -l yes -d 'delete without confirmation'
complete -c awk -n '__agent_worker_at prune' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at prune' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c awk -n '__agent_worker_at prune' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c awk -n '__agent_worker_at prune; and __agent_worker_turn 1 0 1000' -f -a 'trees unfinished logs aside comparisons attempts database'
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'merge' -d 'Merge the branches of a run, completely or not at all'
complete -c awk -n '__agent_worker_at merge' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at merge' -l agent -d 'only the branch of this agent (default: all)' -r -f
complete -c awk -n '__agent_worker_at merge' -l into -d 'target branch (default: base branch of the run)' -r -f
complete -c awk -n '__agent_worker_at merge' -l squash -d 'create one commit, not one merge per branch'
complete -c awk -n '__agent_worker_at merge' -l check -d 'shell command that must succeed before the branch changes' -r -f
complete -c awk -n '__agent_worker_at merge' -l return -d 'return conflicts to agents as work'
complete -c awk -n '__agent_worker_at merge' -l dry-run -d 'print the result without changes or checks'
complete -c awk -n '__agent_worker_at merge' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at merge' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c awk -n '__agent_worker_at merge' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c awk -n '__agent_worker_at merge; and __agent_worker_turn 1 0 0' -f -a '(__agent_worker_live merged)'
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'promote' -d 'Move instructions to the front of the queue'
complete -c awk -n '__agent_worker_at promote' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at promote' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at promote' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c awk -n '__agent_worker_at promote' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c awk -n '__agent_worker_at promote; and __agent_worker_turn 1 0 1000' -f -a '(__agent_worker_live instruction)'
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'ps' -d 'List agents with their state, activity and cost'
complete -c awk -n '__agent_worker_at ps' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at ps' -s a -l all -d 'include agents of ended workflows, and list each idle agent'
complete -c awk -n '__agent_worker_at ps' -s A -l all-projects -d 'include all your projects with a running kernel'
complete -c awk -n '__agent_worker_at ps' -s q -l quiet -d 'print only names, as other commands accept them'
complete -c awk -n '__agent_worker_at ps' -l sort -d 'sort column, largest number first; -COLUMN: reverse order' -r -f
complete -c awk -n '__agent_worker_at ps' -s o -l columns -d 'columns to print, in this order: name,state,cost' -r -f
complete -c awk -n '__agent_worker_at ps' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at ps' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c awk -n '__agent_worker_at ps' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c awk -n '__agent_worker_at ps; and __agent_worker_turn 1 0 1000' -f -a '(__agent_worker_live target)'
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'projects' -d 'List your projects and the state of their kernels'
complete -c awk -n '__agent_worker_at projects' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at projects' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at projects' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c awk -n '__agent_worker_at projects' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'top' -d 'Watch agents live (q quits)'
complete -c awk -n '__agent_worker_at top' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at top' -l bell -d 'ring the bell for new needs, and notify the desktop if the terminal can'
complete -c awk -n '__agent_worker_at top' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at top' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c awk -n '__agent_worker_at top' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'open' -d 'Open the web page of the project, or print its address'
complete -c awk -n '__agent_worker_at open' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at open' -l read-only -d 'open the page in read-only mode'
complete -c awk -n '__agent_worker_at open' -l print -d 'print the address, valid once for one minute'
complete -c awk -n '__agent_worker_at open' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at open' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c awk -n '__agent_worker_at open' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'channel' -d 'Show the latest messages of a workflow or an agent'
complete -c awk -n '__agent_worker_at channel' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at channel' -l run -d 'only messages of this run (r12)' -r -f -a '(__agent_worker_live run)'
complete -c awk -n '__agent_worker_at channel' -s n -d 'number of latest messages (default: 50; 0: all)' -r -f
complete -c awk -n '__agent_worker_at channel' -s f -l follow -d 'print new messages as they arrive'
complete -c awk -n '__agent_worker_at channel' -l archive -d 'read from this file of awk export, without a kernel' -r -F
complete -c awk -n '__agent_worker_at channel' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at channel' -l jsonl -d 'print one JSON object per line as items arrive'
complete -c awk -n '__agent_worker_at channel' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c awk -n '__agent_worker_at channel' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c awk -n '__agent_worker_at channel; and __agent_worker_turn 1 0 0' -f -a '(__agent_worker_live target)'
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'resource' -d 'Print or add long texts that messages refer to'
complete -c awk -n '__agent_worker_at resource' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at resource' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at resource' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c awk -n '__agent_worker_at resource' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c awk -n '__agent_worker_at resource; and __agent_worker_turn 1 0 0' -f -a 'list' -d 'List the resources of all spaces or of one space.'
complete -c awk -n '__agent_worker_at resource list' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at resource list' -s n -d 'number of entries (default: 1000; 0: all)' -r -f
complete -c awk -n '__agent_worker_at resource list' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at resource list; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live target)'
complete -c awk -n '__agent_worker_at resource; and __agent_worker_turn 1 0 0' -f -a 'get' -d 'Print a resource unchanged.'
complete -c awk -n '__agent_worker_at resource get' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at resource get' -l offset -d 'first character (default: 0)' -r -f
complete -c awk -n '__agent_worker_at resource get' -l limit -d 'maximum number of characters (default: all)' -r -f
complete -c awk -n '__agent_worker_at resource get' -l archive -d 'read from this file of awk export, without a kernel' -r -F
complete -c awk -n '__agent_worker_at resource get' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at resource get; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live resource)'
complete -c awk -n '__agent_worker_at resource; and __agent_worker_turn 1 0 0' -f -a 'add' -d 'Store a text as a resource and print its id.'
complete -c awk -n '__agent_worker_at resource add' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at resource add' -l type -d 'media type (default: text/plain)' -r -f
complete -c awk -n '__agent_worker_at resource add' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at resource add; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live target)'
complete -c awk -n '__agent_worker_at resource add; and __agent_worker_turn 2 1 1' -f
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'inbox' -d 'List the unhandled messages of an agent'
complete -c awk -n '__agent_worker_at inbox' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at inbox' -s n -d 'number of entries (default: 200; 0: all)' -r -f
complete -c awk -n '__agent_worker_at inbox' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at inbox' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c awk -n '__agent_worker_at inbox' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c awk -n '__agent_worker_at inbox; and __agent_worker_turn 1 0 0' -f -a '(__agent_worker_live target)'
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'queue' -d 'List the queued instructions of an agent'
complete -c awk -n '__agent_worker_at queue' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at queue' -s n -d 'number of entries (default: 1000; 0: all)' -r -f
complete -c awk -n '__agent_worker_at queue' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at queue' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c awk -n '__agent_worker_at queue' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c awk -n '__agent_worker_at queue; and __agent_worker_turn 1 0 0' -f -a '(__agent_worker_live target)'
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'needs' -d 'List work that is blocked until you act'
complete -c awk -n '__agent_worker_at needs' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at needs' -s f -l follow -d 'print new and resolved items as they change'
complete -c awk -n '__agent_worker_at needs' -l approvals -d 'list only approval requests, with their input; always exit with code 0'
complete -c awk -n '__agent_worker_at needs' -l rules -d 'list the approval rules of awk approve --always; awk deny deletes one'
complete -c awk -n '__agent_worker_at needs' -s A -l all-projects -d 'include all your projects with a running kernel'
complete -c awk -n '__agent_worker_at needs' -s n -d 'number of entries (default: 1000; 0: all)' -r -f
complete -c awk -n '__agent_worker_at needs' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at needs' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c awk -n '__agent_worker_at needs' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c awk -n '__agent_worker_at needs; and __agent_worker_turn 1 0 0' -f -a '(__agent_worker_live approval)'
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'audit' -d 'List memory queries between agents'
complete -c awk -n '__agent_worker_at audit' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at audit' -l agent -d 'only queries from or to this agent' -r -f -a '(__agent_worker_live agent)'
complete -c awk -n '__agent_worker_at audit' -s n -d 'number of entries (default: 1000; 0: all)' -r -f
complete -c awk -n '__agent_worker_at audit' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at audit' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c awk -n '__agent_worker_at audit' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'feedback' -d 'List or add feedback on the work'
complete -c awk -n '__agent_worker_at feedback' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at feedback' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at feedback' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c awk -n '__agent_worker_at feedback' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c awk -n '__agent_worker_at feedback; and __agent_worker_turn 1 0 0' -f -a 'list' -d 'List feedback on the work.'
complete -c awk -n '__agent_worker_at feedback list' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at feedback list' -s n -d 'number of latest entries (default: 1000; 0: all)' -r -f
complete -c awk -n '__agent_worker_at feedback list' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at feedback; and __agent_worker_turn 1 0 0' -f -a 'add' -d 'Add feedback.'
complete -c awk -n '__agent_worker_at feedback add' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at feedback add' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at feedback add; and __agent_worker_turn 2 0 0' -f
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'stats' -d 'Show tokens, cost, time and results of work'
complete -c awk -n '__agent_worker_at stats' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at stats' -l by -d 'group by agent, workflow, model or day (UTC), or by two of them: day,model' -r -f
complete -c awk -n '__agent_worker_at stats' -l since -d 'start of the period: 7d, 2h, 2026-11-01 or 2026-11-01T12:00:00Z' -r -f
complete -c awk -n '__agent_worker_at stats' -l until -d 'end of the period, as for --since (default: now)' -r -f
complete -c awk -n '__agent_worker_at stats' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at stats' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c awk -n '__agent_worker_at stats' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c awk -n '__agent_worker_at stats; and __agent_worker_turn 1 0 0' -f -a '(__agent_worker_live target)'
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'dead' -d 'List dead-lettered instructions'
complete -c awk -n '__agent_worker_at dead' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at dead' -l clear -d 'hide the current entries; awk show and awk retry still accept them'
complete -c awk -n '__agent_worker_at dead' -s n -d 'number of latest entries (default: 1000; 0: all)' -r -f
complete -c awk -n '__agent_worker_at dead' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at dead' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c awk -n '__agent_worker_at dead' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'runs' -d 'List runs of workflows, latest first'
complete -c awk -n '__agent_worker_at runs' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at runs' -l status -d 'only runs with this status' -r -f -a 'running stopped done failed incomplete rejected cancelled timeout'
complete -c awk -n '__agent_worker_at runs' -l since -d 'only runs started within 10m, 2h, 7d, ...' -r -f
complete -c awk -n '__agent_worker_at runs' -s n -d 'number of latest runs (default: 100; 0: all)' -r -f
complete -c awk -n '__agent_worker_at runs' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at runs' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c awk -n '__agent_worker_at runs' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c awk -n '__agent_worker_at runs; and __agent_worker_turn 1 0 0' -f -a '(__agent_worker_live channel)'
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'show' -d 'Show a run or an instruction'
complete -c awk -n '__agent_worker_at show' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at show' -l prompt -d 'for an instruction: print the prompt of the model'
complete -c awk -n '__agent_worker_at show' -l steps -d 'for an instruction: print each model and tool call'
complete -c awk -n '__agent_worker_at show' -l wire -d 'for an instruction: print recorded model requests and responses'
complete -c awk -n '__agent_worker_at show' -l full -d 'with --steps: print arguments and results in full'
complete -c awk -n '__agent_worker_at show' -s n -d 'with --steps or --wire: number of first rows (default: 1000; 0: all)' -r -f
complete -c awk -n '__agent_worker_at show' -l timeline -d 'for a run: draw the work of each agent over time'
complete -c awk -n '__agent_worker_at show' -l graph -d 'for a run: print the graph of its messages' -r -f -a 'dot mermaid'
complete -c awk -n '__agent_worker_at show' -l html -d 'for a run: write a web page with its timeline to FILE' -r -F
complete -c awk -n '__agent_worker_at show' -l force -d 'with --html: replace an existing file'
complete -c awk -n '__agent_worker_at show' -l archive -d 'read from this file of awk export, without a kernel' -r -F
complete -c awk -n '__agent_worker_at show' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at show' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c awk -n '__agent_worker_at show' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c awk -n '__agent_worker_at show; and __agent_worker_turn 1 0 1000' -f -a '(__agent_worker_live shown)'
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'export' -d 'Export the conversation of a run or a space to one file'
complete -c awk -n '__agent_worker_at export' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at export' -l format -d 'jsonl for awk import, or md (default: jsonl)' -r -f -a 'jsonl md'
complete -c awk -n '__agent_worker_at export' -s o -l output -d 'output file (default: standard output)' -r -F
complete -c awk -n '__agent_worker_at export' -l json -d 'with -o: print one JSON document that describes the file'
complete -c awk -n '__agent_worker_at export' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c awk -n '__agent_worker_at export' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c awk -n '__agent_worker_at export; and __agent_worker_turn 1 0 0' -f -a '(__agent_worker_live exported)'
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'import' -d 'Verify an export file and summarize its contents'
complete -c awk -n '__agent_worker_at import' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at import' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at import' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c awk -n '__agent_worker_at import' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c awk -n '__agent_worker_at import; and __agent_worker_turn 1 0 0' -F
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'diff' -d 'Show changes in the working trees of agents'
complete -c awk -n '__agent_worker_at diff' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at diff' -l stat -d 'print only files and numbers of lines'
complete -c awk -n '__agent_worker_at diff' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at diff' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c awk -n '__agent_worker_at diff' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c awk -n '__agent_worker_at diff; and __agent_worker_turn 1 0 0' -f -a '(__agent_worker_live diffed)'
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'attach' -d 'Follow an agent or a workflow, and approve or deny its calls'
complete -c awk -n '__agent_worker_at attach' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at attach' -l jsonl -d 'print one JSON object per line as items arrive'
complete -c awk -n '__agent_worker_at attach' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c awk -n '__agent_worker_at attach' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c awk -n '__agent_worker_at attach; and __agent_worker_turn 1 0 0' -f -a '(__agent_worker_live target)'
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'worktree' -d 'List and delete the git working trees of agents'
complete -c awk -n '__agent_worker_at worktree' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at worktree' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at worktree' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c awk -n '__agent_worker_at worktree' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c awk -n '__agent_worker_at worktree; and __agent_worker_turn 1 0 0' -f -a 'list' -d 'List working trees.'
complete -c awk -n '__agent_worker_at worktree list' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at worktree list' -l run -d 'only of this run (r12)' -r -f -a '(__agent_worker_live run)'
complete -c awk -n '__agent_worker_at worktree list' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at worktree; and __agent_worker_turn 1 0 0' -f -a 'rm' -d 'Delete the working trees of an ended run.'
complete -c awk -n '__agent_worker_at worktree rm' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at worktree rm' -l run -d 'ended run (r12)' -r -f -a '(__agent_worker_live run)'
complete -c awk -n '__agent_worker_at worktree rm' -l force -d 'also delete unmerged or uncommitted work'
complete -c awk -n '__agent_worker_at worktree rm' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at worktree rm; and __agent_worker_turn 2 0 1000' -f -a '(__agent_worker_live agent)'
complete -c awk -n '__agent_worker_at worktree; and __agent_worker_turn 1 0 0' -f -a 'prune' -d 'Delete all working trees of ended runs that contain no unmerged work.'
complete -c awk -n '__agent_worker_at worktree prune' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at worktree prune' -l run -d 'only of this run (r12)' -r -f -a '(__agent_worker_live run)'
complete -c awk -n '__agent_worker_at worktree prune' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'logs' -d 'Show logs of workers and attempts'
complete -c awk -n '__agent_worker_at logs' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at logs' -l previous -d 'only the previous attempt; without TARGET, the previous kernel process'
complete -c awk -n '__agent_worker_at logs' -l level -d 'minimum level of log lines' -r -f -a 'debug info warning error'
complete -c awk -n '__agent_worker_at logs' -s n -d 'number of latest lines (default: all; 0: all)' -r -f
complete -c awk -n '__agent_worker_at logs' -s f -l follow -d 'print new events as they occur; -f alone prints no earlier events'
complete -c awk -n '__agent_worker_at logs' -l since -d 'only events of the last 10m, 2h, ...' -r -f
complete -c awk -n '__agent_worker_at logs' -l jsonl -d 'print one JSON object per line as items arrive'
complete -c awk -n '__agent_worker_at logs' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c awk -n '__agent_worker_at logs' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c awk -n '__agent_worker_at logs; and __agent_worker_turn 1 0 1000' -f -a '(__agent_worker_live target)'
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'events' -d 'Show kernel events'
complete -c awk -n '__agent_worker_at events' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at events' -s f -l follow -d 'print new events as they occur; -f alone prints no earlier events'
complete -c awk -n '__agent_worker_at events' -l since -d 'only events of the last 10m, 2h, ...' -r -f
complete -c awk -n '__agent_worker_at events' -l jsonl -d 'print one JSON object per line as items arrive'
complete -c awk -n '__agent_worker_at events' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c awk -n '__agent_worker_at events' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'doctor' -d 'Diagnose problems of this installation and suggest fixes'
complete -c awk -n '__agent_worker_at doctor' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at doctor' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at doctor' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c awk -n '__agent_worker_at doctor' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'df' -d 'Show disk usage of project state'
complete -c awk -n '__agent_worker_at df' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at df' -s n -d 'number of largest runs (default: 10; 0: all)' -r -f
complete -c awk -n '__agent_worker_at df' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at df' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c awk -n '__agent_worker_at df' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'wait' -d 'Wait until an agent, run or instruction is idle, done or blocked'
complete -c awk -n '__agent_worker_at wait' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at wait' -l for -d 'idle: no work is left; done: the run, instruction or workflow has ended; needs: a person must act' -r -f -a 'idle done needs'
complete -c awk -n '__agent_worker_at wait' -l timeout -d 'maximum time to wait (10s, 5m; exit code 124)' -r -f
complete -c awk -n '__agent_worker_at wait' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at wait' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c awk -n '__agent_worker_at wait' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c awk -n '__agent_worker_at wait; and __agent_worker_turn 1 0 0' -f -a '(__agent_worker_live target)'
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'watch' -d 'Follow a run to its end'
complete -c awk -n '__agent_worker_at watch' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at watch' -l exit-status -d 'exit with the exit code of the run'
complete -c awk -n '__agent_worker_at watch' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at watch' -l jsonl -d 'print one JSON object per line as items arrive'
complete -c awk -n '__agent_worker_at watch' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c awk -n '__agent_worker_at watch' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c awk -n '__agent_worker_at watch; and __agent_worker_turn 1 0 0' -f -a '(__agent_worker_live merged)'
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'agent' -d 'Create, edit and delete agents and their context'
complete -c awk -n '__agent_worker_at agent' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at agent' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at agent' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c awk -n '__agent_worker_at agent' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c awk -n '__agent_worker_at agent; and __agent_worker_turn 1 0 0' -f -a 'list' -d 'List the agents of the project.'
complete -c awk -n '__agent_worker_at agent list' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at agent list' -l running -d 'require a kernel or its stored log (default: read the files)'
complete -c awk -n '__agent_worker_at agent list' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at agent; and __agent_worker_turn 1 0 0' -f -a 'info' -d 'Show the definition and the state of an agent.'
complete -c awk -n '__agent_worker_at agent info' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at agent info' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at agent info; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live agent)'
complete -c awk -n '__agent_worker_at agent; and __agent_worker_turn 1 0 0' -f -a 'create' -d 'Create an agent.'
complete -c awk -n '__agent_worker_at agent create' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at agent create' -l ephemeral -d 'create an agent without a file; the agent exists until the kernel stops'
complete -c awk -n '__agent_worker_at agent create' -l tag -d 'create a separate instance, named NAME-TAG' -r -f
complete -c awk -n '__agent_worker_at agent create' -s m -l model -d 'model as provider/name, or an alias' -r -f
complete -c awk -n '__agent_worker_at agent create' -s b -l backend -d 'backend that runs the agent (default: sdk)' -r -f
complete -c awk -n '__agent_worker_at agent create' -s s -l system -d 'system prompt' -r -f
complete -c awk -n '__agent_worker_at agent create' -l system-file -d 'project file that contains the system prompt' -r -F
complete -c awk -n '__agent_worker_at agent create' -l role -d 'role of the agent in a few words' -r -f
complete -c awk -n '__agent_worker_at agent create' -l expertise -d 'areas of expertise, separated by commas' -r -f
complete -c awk -n '__agent_worker_at agent create' -l from -d 'convert this ephemeral agent or Claude Code file' -r -F -a '(__agent_worker_live agent)'
complete -c awk -n '__agent_worker_at agent create' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at agent create; and __agent_worker_turn 2 0 0' -f
complete -c awk -n '__agent_worker_at agent; and __agent_worker_turn 1 0 0' -f -a 'edit' -d 'Edit the file of an agent in $EDITOR or with KEY=VALUE.'
complete -c awk -n '__agent_worker_at agent edit' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at agent edit' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at agent edit; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live agent)'
complete -c awk -n '__agent_worker_at agent edit; and __agent_worker_turn 2 1 1000' -f
complete -c awk -n '__agent_worker_at agent; and __agent_worker_turn 1 0 0' -f -a 'delete' -d 'Move an agent and its context to the trash.'
complete -c awk -n '__agent_worker_at agent delete' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at agent delete' -l yes -d 'delete without confirmation'
complete -c awk -n '__agent_worker_at agent delete' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at agent delete; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live agent)'
complete -c awk -n '__agent_worker_at agent; and __agent_worker_turn 1 0 0' -f -a 'memory' -d 'Show or change the memory of an agent.'
complete -c awk -n '__agent_worker_at agent memory' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at agent memory' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at agent memory; and __agent_worker_turn 2 0 0' -f -a 'get' -d 'Print the value of a key.'
complete -c awk -n '__agent_worker_at agent memory get' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at agent memory get' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at agent memory get; and __agent_worker_turn 3 0 0' -f
complete -c awk -n '__agent_worker_at agent memory; and __agent_worker_turn 2 0 0' -f -a 'set' -d 'Store a value under a key.'
complete -c awk -n '__agent_worker_at agent memory set' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at agent memory set' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at agent memory set' -l tier -d 'memory tier (default: working)' -r -f -a 'core working archive'
complete -c awk -n '__agent_worker_at agent memory set' -l visibility -d 'readers of the item (default: private)' -r -f -a 'private shareable public'
complete -c awk -n '__agent_worker_at agent memory set; and __agent_worker_turn 3 0 0' -f
complete -c awk -n '__agent_worker_at agent memory set; and __agent_worker_turn 3 1 1' -f
complete -c awk -n '__agent_worker_at agent memory; and __agent_worker_turn 2 0 0' -f -a 'rm' -d 'Delete an entry.'
complete -c awk -n '__agent_worker_at agent memory rm' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at agent memory rm' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at agent memory rm; and __agent_worker_turn 3 0 0' -f
complete -c awk -n '__agent_worker_at agent memory; and __agent_worker_turn 2 0 0' -f -a 'search' -d 'Search the memory by words.'
complete -c awk -n '__agent_worker_at agent memory search' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at agent memory search' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at agent memory search' -l archive -d 'include archived items'
complete -c awk -n '__agent_worker_at agent memory search' -s n -d 'maximum number of results (default: 10; 0: all)' -r -f
complete -c awk -n '__agent_worker_at agent memory search; and __agent_worker_turn 3 0 0' -f
complete -c awk -n '__agent_worker_at agent memory; and __agent_worker_turn 2 0 0' -f -a 'purge' -d 'Delete all entries from a source, and everything derived from them.'
complete -c awk -n '__agent_worker_at agent memory purge' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at agent memory purge' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at agent memory purge' -l source -d 'source: id of a message (m12), or user, agent, tool, web' -r -f
complete -c awk -n '__agent_worker_at agent memory; and __agent_worker_turn 2 0 0' -f -a 'tray' -d 'List suggested items, or decide whether to store one.'
complete -c awk -n '__agent_worker_at agent memory tray' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at agent memory tray' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at agent memory tray; and __agent_worker_turn 3 0 0' -f -a 'approve reject'
complete -c awk -n '__agent_worker_at agent memory tray; and __agent_worker_turn 3 1 1' -f -a '(__agent_worker_live tray)'
complete -c awk -n '__agent_worker_at agent; and __agent_worker_turn 1 0 0' -f -a 'notes' -d 'Show or add notes of an agent.'
complete -c awk -n '__agent_worker_at agent notes' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at agent notes' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at agent notes; and __agent_worker_turn 2 0 0' -f -a 'add' -d 'Add a note.'
complete -c awk -n '__agent_worker_at agent notes add' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at agent notes add' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at agent notes add; and __agent_worker_turn 3 0 0' -f
complete -c awk -n '__agent_worker_at agent notes; and __agent_worker_turn 2 0 0' -f -a 'show' -d 'Print a note.'
complete -c awk -n '__agent_worker_at agent notes show' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at agent notes show' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at agent notes show; and __agent_worker_turn 3 0 0' -f
complete -c awk -n '__agent_worker_at agent; and __agent_worker_turn 1 0 0' -f -a 'soul' -d 'Show the traits of an agent and decide on the changes it proposes.'
complete -c awk -n '__agent_worker_at agent soul' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at agent soul' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at agent soul; and __agent_worker_turn 2 0 0' -f -a 'show' -d 'Show the traits and the open suggestions.'
complete -c awk -n '__agent_worker_at agent soul show' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at agent soul show' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at agent soul; and __agent_worker_turn 2 0 0' -f -a 'history' -d 'List the versions and their changes.'
complete -c awk -n '__agent_worker_at agent soul history' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at agent soul history' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at agent soul; and __agent_worker_turn 2 0 0' -f -a 'approve' -d 'Approve a suggested trait.'
complete -c awk -n '__agent_worker_at agent soul approve' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at agent soul approve' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at agent soul approve' -l reason -d 'reason, stored with the decision' -r -f
complete -c awk -n '__agent_worker_at agent soul approve; and __agent_worker_turn 3 0 0' -f -a '(__agent_worker_live soul)'
complete -c awk -n '__agent_worker_at agent soul; and __agent_worker_turn 2 0 0' -f -a 'reject' -d 'Reject a suggested trait.'
complete -c awk -n '__agent_worker_at agent soul reject' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at agent soul reject' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at agent soul reject' -l reason -d 'reason, stored with the decision' -r -f
complete -c awk -n '__agent_worker_at agent soul reject; and __agent_worker_turn 3 0 0' -f -a '(__agent_worker_live soul)'
complete -c awk -n '__agent_worker_at agent soul; and __agent_worker_turn 2 0 0' -f -a 'rollback' -d 'Restore an earlier version.'
complete -c awk -n '__agent_worker_at agent soul rollback' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at agent soul rollback' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at agent soul rollback' -l reason -d 'reason, stored with the new version' -r -f
complete -c awk -n '__agent_worker_at agent soul rollback; and __agent_worker_turn 3 0 0' -f
complete -c awk -n '__agent_worker_at agent; and __agent_worker_turn 1 0 0' -f -a 'todo' -d 'Show or change the to-do list of an agent.'
complete -c awk -n '__agent_worker_at agent todo' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at agent todo' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at agent todo; and __agent_worker_turn 2 0 0' -f -a 'add' -d 'Add an item.'
complete -c awk -n '__agent_worker_at agent todo add' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at agent todo add' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at agent todo add; and __agent_worker_turn 3 0 0' -f
complete -c awk -n '__agent_worker_at agent todo; and __agent_worker_turn 2 0 0' -f -a 'done' -d 'Mark an item as done.'
complete -c awk -n '__agent_worker_at agent todo done' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at agent todo done' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at agent todo done; and __agent_worker_turn 3 0 0' -f
complete -c awk -n '__agent_worker_at agent todo; and __agent_worker_turn 2 0 0' -f -a 'rm' -d 'Delete an item.'
complete -c awk -n '__agent_worker_at agent todo rm' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at agent todo rm' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at agent todo rm; and __agent_worker_turn 3 0 0' -f
complete -c awk -n '__agent_worker_at agent; and __agent_worker_turn 1 0 0' -f -a 'reindex' -d 'Rebuild the search index of agents\' conversations.'
complete -c awk -n '__agent_worker_at agent reindex' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at agent reindex' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at agent reindex; and __agent_worker_turn 2 0 0' -f -a '(__agent_worker_live agent)'
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'memory' -d 'Measure memory search and growth'
complete -c awk -n '__agent_worker_at memory' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at memory' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at memory' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c awk -n '__agent_worker_at memory' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c awk -n '__agent_worker_at memory; and __agent_worker_turn 1 0 0' -f -a 'eval' -d 'Measure how often memory search finds the answer to a question.'
complete -c awk -n '__agent_worker_at memory eval' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at memory eval' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at memory eval; and __agent_worker_turn 2 0 0' -F
complete -c awk -n '__agent_worker_at memory; and __agent_worker_turn 1 0 0' -f -a 'growth' -d 'Simulate runs and measure junk in memory, with and without the guard model.'
complete -c awk -n '__agent_worker_at memory growth' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at memory growth' -l seed -d 'random seed of the generated runs (default: 1)' -r -f
complete -c awk -n '__agent_worker_at memory growth' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at memory growth; and __agent_worker_turn 2 0 0' -f
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'tool' -d 'List, add and mock tools of agents'
complete -c awk -n '__agent_worker_at tool' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at tool' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at tool' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c awk -n '__agent_worker_at tool' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c awk -n '__agent_worker_at tool; and __agent_worker_turn 1 0 0' -f -a 'list' -d 'List the available tools and the agents that use them.'
complete -c awk -n '__agent_worker_at tool list' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at tool list' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at tool; and __agent_worker_turn 1 0 0' -f -a 'add' -d 'Add a command as a tool of the project.'
complete -c awk -n '__agent_worker_at tool add' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at tool add' -s d -l description -d 'description of the tool for models' -r -f
complete -c awk -n '__agent_worker_at tool add' -s a -l argument -d 'argument NAME:TYPE, with ? if optional (path:string, limit:integer?); ${path} in the command: its value' -r -f
complete -c awk -n '__agent_worker_at tool add' -l read-only -d 'the tool only reads; calls need no approval'
complete -c awk -n '__agent_worker_at tool add' -l timeout -d 'timeout of a call (default: 120s)' -r -f
complete -c awk -n '__agent_worker_at tool add' -l mock -d 'fixed result instead of a command' -r -f
complete -c awk -n '__agent_worker_at tool add' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at tool add; and __agent_worker_turn 2 0 0' -f
complete -c awk -n '__agent_worker_at tool; and __agent_worker_turn 1 0 0' -f -a 'import' -d 'Import tools from a file of another project.'
complete -c awk -n '__agent_worker_at tool import' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at tool import' -l replace -d 'replace tools of the same name'
complete -c awk -n '__agent_worker_at tool import' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at tool import; and __agent_worker_turn 2 0 0' -F
complete -c awk -n '__agent_worker_at tool import; and __agent_worker_turn 2 1 1000' -f
complete -c awk -n '__agent_worker_at tool; and __agent_worker_turn 1 0 0' -f -a 'mock' -d 'Mock a tool: return a fixed result and run no command.'
complete -c awk -n '__agent_worker_at tool mock' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at tool mock' -l off -d 'remove the mock and run the command again'
complete -c awk -n '__agent_worker_at tool mock' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at tool mock; and __agent_worker_turn 2 0 0' -f
complete -c awk -n '__agent_worker_at tool mock; and __agent_worker_turn 2 1 1' -f
complete -c awk -n '__agent_worker_at tool; and __agent_worker_turn 1 0 0' -f -a 'rm' -d 'Delete a tool of the project.'
complete -c awk -n '__agent_worker_at tool rm' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at tool rm' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at tool rm; and __agent_worker_turn 2 0 0' -f
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'worker' -d 'Check the protocol of a worker program'
complete -c awk -n '__agent_worker_at worker' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at worker' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at worker' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c awk -n '__agent_worker_at worker' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c awk -n '__agent_worker_at worker; and __agent_worker_turn 1 0 0' -f -a 'check' -d 'Run a worker program and report protocol errors.'
complete -c awk -n '__agent_worker_at worker check' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at worker check' -l message -d 'message for the worker (default: Say hello.)' -r -f
complete -c awk -n '__agent_worker_at worker check' -l timeout -d 'timeout of each run (default: 60s)' -r -f
complete -c awk -n '__agent_worker_at worker check' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at worker check; and __agent_worker_turn 2 0 1000' -f
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'skills' -d 'List, import and update skills'
complete -c awk -n '__agent_worker_at skills' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at skills' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at skills' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c awk -n '__agent_worker_at skills' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c awk -n '__agent_worker_at skills; and __agent_worker_turn 1 0 0' -f -a 'list' -d 'List the skills of the project and the agents that use them.'
complete -c awk -n '__agent_worker_at skills list' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at skills list' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at skills; and __agent_worker_turn 1 0 0' -f -a 'import' -d 'Copy skills from a repository, pinned to a commit.'
complete -c awk -n '__agent_worker_at skills import' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at skills import' -l force -d 'replace existing skills'
complete -c awk -n '__agent_worker_at skills import' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at skills import; and __agent_worker_turn 2 0 0' -f
complete -c awk -n '__agent_worker_at skills import; and __agent_worker_turn 2 1 1000' -f
complete -c awk -n '__agent_worker_at skills; and __agent_worker_turn 1 0 0' -f -a 'update' -d 'Update imported skills from their repositories.'
complete -c awk -n '__agent_worker_at skills update' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at skills update' -l force -d 'also update changed skills; discard the changes'
complete -c awk -n '__agent_worker_at skills update' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at skills update; and __agent_worker_turn 2 0 1000' -f
complete -c awk -n '__agent_worker_at skills; and __agent_worker_turn 1 0 0' -f -a 'rm' -d 'Delete imported skills.'
complete -c awk -n '__agent_worker_at skills rm' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at skills rm' -l force -d 'also delete locally changed skills'
complete -c awk -n '__agent_worker_at skills rm' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at skills rm; and __agent_worker_turn 2 0 1000' -f
complete -c awk -n '__agent_worker_at skills; and __agent_worker_turn 1 0 0' -f -a 'install-self' -d 'Install a skill that teaches coding agents to use agent-worker.'
complete -c awk -n '__agent_worker_at skills install-self' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at skills install-self' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'init' -d 'Create example files in this project'
complete -c awk -n '__agent_worker_at init' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at init' -l example -d 'example to create (default: hello); list: print the examples' -r -f -a 'handbook hello memory nodes review team verdict list'
complete -c awk -n '__agent_worker_at init' -l backend -d 'program that runs the agents (default: scripted answers without a model)' -r -f -a 'claude codex cursor opencode'
complete -c awk -n '__agent_worker_at init' -s m -l model -d 'with --backend: model of the agents (claude: sonnet)' -r -f
complete -c awk -n '__agent_worker_at init' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c awk -n '__agent_worker_at init' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'adopt' -d 'Create agents from the files of other coding agents'
complete -c awk -n '__agent_worker_at adopt' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at adopt' -l yes -d 'write the files without confirmation'
complete -c awk -n '__agent_worker_at adopt' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at adopt' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c awk -n '__agent_worker_at adopt' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'validate' -d 'Validate the files of the project'
complete -c awk -n '__agent_worker_at validate' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at validate' -l report -d 'warn about workflows that give awk run --report github or sarif no findings'
complete -c awk -n '__agent_worker_at validate' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at validate' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c awk -n '__agent_worker_at validate' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c awk -n '__agent_worker_at validate; and __agent_worker_turn 1 0 1000' -F
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'config' -d 'Show effective settings and their sources'
complete -c awk -n '__agent_worker_at config' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at config' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at config' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c awk -n '__agent_worker_at config' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c awk -n '__agent_worker_at config; and __agent_worker_turn 1 0 0' -F -a '(__agent_worker_live named)'
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'schema' -d 'Print the JSON Schema of a file for editors'
complete -c awk -n '__agent_worker_at schema' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at schema' -l write -d 'write all schemas to .agents/.schema, which headers of files refer to'
complete -c awk -n '__agent_worker_at schema' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c awk -n '__agent_worker_at schema' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c awk -n '__agent_worker_at schema; and __agent_worker_turn 1 0 0' -f -a 'agent workflow project'
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'completion' -d 'Print the completion script of a shell'
complete -c awk -n '__agent_worker_at completion' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at completion' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c awk -n '__agent_worker_at completion' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c awk -n '__agent_worker_at completion; and __agent_worker_turn 1 0 0' -f -a 'bash zsh fish'
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'trust' -d 'Trust the commands and connections of project files'
complete -c awk -n '__agent_worker_at trust' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at trust' -l yes -d 'trust without confirmation'
complete -c awk -n '__agent_worker_at trust' -l all -d 'with revoke: revoke all consents'
complete -c awk -n '__agent_worker_at trust' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at trust' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c awk -n '__agent_worker_at trust' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c awk -n '__agent_worker_at trust; and __agent_worker_turn 1 0 1000' -F -a '(__agent_worker_live named)'
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'token' -d 'Create, list and revoke API tokens'
complete -c awk -n '__agent_worker_at token' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at token' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at token' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c awk -n '__agent_worker_at token' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c awk -n '__agent_worker_at token; and __agent_worker_turn 1 0 0' -f -a 'create' -d 'Create a token and print it once.'
complete -c awk -n '__agent_worker_at token create' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at token create' -l scope -d 'permission level: read, operate (also create and control work), or approve (also decide approvals; approve:alice,bob: only calls of these agents)' -r -f -a 'read operate approve'
complete -c awk -n '__agent_worker_at token create' -l name -d 'name of the token in awk token list' -r -f
complete -c awk -n '__agent_worker_at token create' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at token; and __agent_worker_turn 1 0 0' -f -a 'list' -d 'List the valid tokens.'
complete -c awk -n '__agent_worker_at token list' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at token list' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at token; and __agent_worker_turn 1 0 0' -f -a 'revoke' -d 'Revoke tokens, effective with their next request.'
complete -c awk -n '__agent_worker_at token revoke' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at token revoke' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at token revoke; and __agent_worker_turn 2 0 1000' -f -a '(__agent_worker_live token)'
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'mcp-serve' -d 'Serve MCP on standard input and output for a coding agent'
complete -c awk -n '__agent_worker_at mcp-serve' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at mcp-serve' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c awk -n '__agent_worker_at mcp-serve' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'node' -d 'List and add nodes, or run as one'
complete -c awk -n '__agent_worker_at node' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at node' -l join -d 'run as a node of the kernel that created this token; - reads standard input' -r -f
complete -c awk -n '__agent_worker_at node' -l project-id -d 'run as a node over standard input and output (used by the kernel)' -r -f -a '(__agent_worker_live instruction)'
complete -c awk -n '__agent_worker_at node' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at node' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c awk -n '__agent_worker_at node' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c awk -n '__agent_worker_at node; and __agent_worker_turn 1 0 0' -f -a 'list' -d 'List the nodes with their state and problems.'
complete -c awk -n '__agent_worker_at node list' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at node list' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at node; and __agent_worker_turn 1 0 0' -f -a 'add' -d 'Add a node that the project file does not define.'
complete -c awk -n '__agent_worker_at node add' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at node add' -l via -d 'engine of the connection' -r -f -a 'ssh slurm kubectl docker ray command'
complete -c awk -n '__agent_worker_at node add' -l join -d 'create a join token and print the command for the node'
complete -c awk -n '__agent_worker_at node add' -l host -d 'ssh, slurm: host of the node; with --join: address of this kernel' -r -f
complete -c awk -n '__agent_worker_at node add' -l image -d 'docker, kubectl: image of the container to start' -r -f
complete -c awk -n '__agent_worker_at node add' -l container -d 'docker: running container; kubectl: container of the pod' -r -f
complete -c awk -n '__agent_worker_at node add' -l pod -d 'kubectl: running pod' -r -f
complete -c awk -n '__agent_worker_at node add' -l namespace -d 'kubectl: namespace' -r -f
complete -c awk -n '__agent_worker_at node add' -l address -d 'ray: address of the cluster' -r -f
complete -c awk -n '__agent_worker_at node add' -l command -d 'agent-worker program on the node (default: agent-worker)' -r -f
complete -c awk -n '__agent_worker_at node add' -l label -d 'label that agents can require; repeatable' -r -f
complete -c awk -n '__agent_worker_at node add' -l workers -d 'maximum number of concurrent attempts (default: 8)' -r -f
complete -c awk -n '__agent_worker_at node add' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at node add; and __agent_worker_turn 2 0 0' -f
complete -c awk -n '__agent_worker_at node; and __agent_worker_turn 1 0 0' -f -a 'drain' -d 'Drain a node: running work continues, no new work starts there.'
complete -c awk -n '__agent_worker_at node drain' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at node drain' -l undo -d 'make the node available again'
complete -c awk -n '__agent_worker_at node drain' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at node drain; and __agent_worker_turn 2 0 0' -f
complete -c awk -n '__agent_worker_at node; and __agent_worker_turn 1 0 0' -f -a 'rm' -d 'Remove a node that awk node add created.'
complete -c awk -n '__agent_worker_at node rm' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at node rm' -l force -d 'also if attempts run there; they run again elsewhere'
complete -c awk -n '__agent_worker_at node rm' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at node rm; and __agent_worker_turn 2 0 0' -f
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'webhook' -d 'List webhooks and retry their deliveries'
complete -c awk -n '__agent_worker_at webhook' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at webhook' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at webhook' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c awk -n '__agent_worker_at webhook' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c awk -n '__agent_worker_at webhook; and __agent_worker_turn 1 0 0' -f -a 'list' -d 'List the webhooks of the project file with their state.'
complete -c awk -n '__agent_worker_at webhook list' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at webhook list' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at webhook; and __agent_worker_turn 1 0 0' -f -a 'retry' -d 'Retry the deliveries of a webhook, also if its server answered 410.'
complete -c awk -n '__agent_worker_at webhook retry' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at webhook retry' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at webhook retry; and __agent_worker_turn 2 0 0' -f
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'providers' -d 'List model providers and the state of their keys'
complete -c awk -n '__agent_worker_at providers' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at providers' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at providers' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c awk -n '__agent_worker_at providers' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'backends' -d 'List the backends that can run agents'
complete -c awk -n '__agent_worker_at backends' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at backends' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at backends' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c awk -n '__agent_worker_at backends' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'version' -d 'Print the version'
complete -c awk -n '__agent_worker_at version' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at version' -l json -d 'print one JSON document'
complete -c awk -n '__agent_worker_at version' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c awk -n '__agent_worker_at version' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c awk -n '__agent_worker_turn 0 0 0' -f -a 'help' -d 'Show help for a command, a group or a topic'
complete -c awk -n '__agent_worker_at help' -s h -l help -d 'show this help message and exit'
complete -c awk -n '__agent_worker_at help' -l project -d 'project directory (default: found from the current one)' -r -F
complete -c awk -n '__agent_worker_at help' -s v -l verbose -d 'print more detail; -vv prints tracebacks'
complete -c awk -n '__agent_worker_at help; and __agent_worker_turn 1 0 1000' -f
