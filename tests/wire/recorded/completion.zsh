#compdef agent-worker awk
# zsh completion; in ~/.zshrc, after compinit: source <(agent-worker completion zsh)

_agent_worker_live() {
    local -a found
    found=(${(f)"$($_agent_worker_program _complete $1 2>/dev/null </dev/null)"})
    compadd -a found
}

_agent_worker_both() {
    _agent_worker_live $1
    _files
}

_agent_worker() {
    local _agent_worker_program=$words[1]
    local -a choices
    if (( CURRENT == 2 )); then
        choices=('run:Run a workflow to its end and report the result' 'send:Send a message to an agent or a workflow' 'ask:Send a message and stream the answer' 'serve:Send a message and print the complete answer as JSON' 'call:Call an agent tool from a program that an attempt runs' 'start:Start the kernel, or a workflow that keeps running' 'stop:Stop workflows, agents or the kernel' 'status:Show the state of the kernel or a target, without starting it' 'service:Install the kernel as a system service' 'restart:Restart the worker of an agent, or the kernel' 'upgrade:Replace the running kernel without interrupting work' 'backup:Back up project state to a file, also while the kernel runs' 'restore:Restore project state from a backup or standby copy' 'standby:Verify a standby copy of project state' 'reset:Re-enable an agent that was stopped after repeated failures' 'pause:Pause the work of an agent or a workflow' 'resume:Resume work that is paused, stopped, or blocked by a provider' 'continue:Renew the reached limits of a workflow or budget of an agent' 'unblock:Resume, continue, retry, reset or restart what blocks work' 'approve:Approve pending tool calls' 'deny:Deny pending tool calls, or delete an approval rule' 'answer:Reply on behalf of a human agent' 'space:List or close spaces, or change their members' 'reassign:Reassign a question to another member of its workspace' 'grant:Grant an agent more permissions, limited by time or calls' 'proposal:List proposals, vote on them, or cancel them' 'rule:List, define and test rules' 'task:List, add and complete shared tasks' 'doc:Read and write shared documents' 'cancel:Cancel instructions' 'retry:Retry failed or dead-lettered instructions' 'clear:Delete the conversation of a run, workflow or agent permanently' 'prune:Delete data that is no longer needed to free disk space' 'merge:Merge the branches of a run, completely or not at all' 'promote:Move instructions to the front of the queue' 'ps:List agents with their state, activity and cost' 'projects:List your projects and the state of their kernels' 'top:Watch agents live (q quits)' 'open:Open the web page of the project, or print its address' 'channel:Show the latest messages of a workflow or an agent' 'resource:Print or add long texts that messages refer to' 'inbox:List the unhandled messages of an agent' 'queue:List the queued instructions of an agent' 'needs:List work that is blocked until you act' 'audit:List memory queries between agents' 'feedback:List or add feedback on the work' 'stats:Show tokens, cost, time and results of work' 'dead:List dead-lettered instructions' 'runs:List runs of workflows, latest first' 'show:Show a run or an instruction' 'export:Export the conversation of a run or a space to one file' 'import:Verify an export file and summarize its contents' 'diff:Show changes in the working trees of agents' 'attach:Follow an agent or a workflow, and approve or deny its calls' 'worktree:List and delete the git working trees of agents' 'logs:Show logs of workers and attempts' 'events:Show kernel events' 'doctor:Diagnose problems of this installation and suggest fixes' 'df:Show disk usage of project state' 'wait:Wait until an agent, run or instruction is idle, done or blocked' 'watch:Follow a run to its end' 'agent:Create, edit and delete agents and their context' 'memory:Measure memory search and growth' 'tool:List, add and mock tools of agents' 'worker:Check the protocol of a worker program' 'skills:List, import and update skills' 'init:Create example files in this project' 'adopt:Create agents from the files of other coding agents' 'validate:Validate the files of the project' 'config:Show effective settings and their sources' 'schema:Print the JSON Schema of a file for editors' 'completion:Print the completion script of a shell' 'trust:Trust the commands and connections of project files' 'token:Create, list and revoke API tokens' 'mcp-serve:Serve MCP on standard input and output for a coding agent' 'node:List and add nodes, or run as one' 'webhook:List webhooks and retry their deliveries' 'providers:List model providers and the state of their keys' 'backends:List the backends that can run agents' 'version:Print the version' 'help:Show help for a command, a group or a topic')
        _describe -t commands command choices
        return
    fi
    case "$words[2]" in
        run)
            shift 1 words; (( CURRENT -= 1 ))
            _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--tag[tag of the workflow instance (default\: main)]:value: ' '--trust[trust the commands in the project'"'"'s files (setup, shell)]' '--update[resolve remote refs again and pin the new commits]' '--continue[start with the previous conversation]' '--timeout[maximum duration, such as 10m (exit code 124 when exceeded)]:value: ' '--max-cost[maximum cost of the run in USD (exit code 6 when exceeded)]:value: ' '--max-tokens[maximum tokens (exit code 6 when exceeded)]:value: ' '--exit-code-from[only the work of this agent decides the exit code]:value: _agent_worker_live agent' '--fail-on[never\: always exit with code 0]:value:(error never)' '--approve[override approval of all agents\: auto (run all tools), ask (before changes), all (ask always), deny]:value:(auto ask all deny)' '--detach[return after the start; approvals wait in awk needs]' '--report[additional reports, separated by commas\: github, junit\:FILE, md\:FILE, sarif\:FILE]:value: ' '--rm[stop the kernel after the run if this command started it]' '--dry-run[print the execution plan without running it]' '--compare[compare the workflow with one agent that has the prompts and tools of all members]:value:(solo)' '--repeat[with --compare\: maximum number of pairs (default\: 10)]:value: ' '--check[with --compare\: shell command that decides success by exit code 0]:value: ' '--margin[with --compare\: accepted loss of success rate of the cheaper side (default\: 0.2)]:value: ' '--seed[with --compare\: random seed of the order of the runs in each pair]:value: ' '--total-cost[with --compare\: maximum total cost of all runs in USD]:value: ' '--total-tokens[with --compare\: maximum total tokens of all runs]:value: ' '--resume[with --compare\: continue this comparison (c3)]:value: _agent_worker_live comparison' '--keep[with --compare\: keep the project copy in which each run works]' '--json[print one JSON document]' '--jsonl[print one JSON object per line as items arrive]' '--project[project directory (default\: found from the current one)]:value:_files' '-v[print more detail; -vv prints tracebacks]' '--verbose[print more detail; -vv prints tracebacks]' '1:argument: _agent_worker_both workflow'
            ;;
        send)
            shift 1 words; (( CURRENT -= 1 ))
            _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--batch[file with one JSON object {to, text} per line instead of TARGET and MESSAGE; - reads standard input]:value:_files' '--wait[wait for the answers and print them]' '--timeout[with --wait\: maximum time to wait (30s, 5m)]:value: ' '--json[print one JSON document]' '--project[project directory (default\: found from the current one)]:value:_files' '-v[print more detail; -vv prints tracebacks]' '--verbose[print more detail; -vv prints tracebacks]' '1:argument: _agent_worker_live target' '2:argument: '
            ;;
        ask)
            shift 1 words; (( CURRENT -= 1 ))
            _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--json[print one JSON document]' '--jsonl[print one JSON object per line as items arrive]' '--project[project directory (default\: found from the current one)]:value:_files' '-v[print more detail; -vv prints tracebacks]' '--verbose[print more detail; -vv prints tracebacks]' '1:argument: _agent_worker_live target' '2:argument: '
            ;;
        serve)
            shift 1 words; (( CURRENT -= 1 ))
            _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--json[print one JSON document (always on)]' '--project[project directory (default\: found from the current one)]:value:_files' '-v[print more detail; -vv prints tracebacks]' '--verbose[print more detail; -vv prints tracebacks]' '1:argument: _agent_worker_live target' '2:argument: '
            ;;
        call)
            shift 1 words; (( CURRENT -= 1 ))
            _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--key[idempotency key\: calls with the same key take effect once]:value: ' '--project[project directory (default\: found from the current one)]:value:_files' '-v[print more detail; -vv prints tracebacks]' '--verbose[print more detail; -vv prints tracebacks]' '1:argument:(ask_agent auth_grant auth_request auth_revoke channel_read channel_send feedback_submit handover_write history_read history_search memory_ask memory_forget memory_read memory_recall memory_tray memory_write my_inbox my_inbox_ack my_status_set note_read note_write resource_create resource_read rule_define rule_invoke rule_list share_with soul_reflect soul_suggest space_create space_members team_doc_accept team_doc_append team_doc_create team_doc_delete team_doc_history team_doc_list team_doc_read team_doc_reject team_doc_suggest team_doc_write team_members team_proposal_cancel team_proposal_create team_proposal_status team_task_claim team_task_done team_task_fail team_task_list team_task_plan team_task_split team_vote todo_add todo_done todo_list tree_commit tree_status tree_take)' '2:argument: '
            ;;
        start)
            shift 1 words; (( CURRENT -= 1 ))
            _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--tag[tag of the workflow instance (default\: main)]:value: ' '--trust[trust the commands in the project'"'"'s files (setup, shell)]' '--update[resolve remote refs again and pin the new commits]' '--continue[start with the previous conversation]' '--foreground[run in the foreground and log to stderr]' '--project[project directory (default\: found from the current one)]:value:_files' '-v[print more detail; -vv prints tracebacks]' '--verbose[print more detail; -vv prints tracebacks]' '1:argument: _agent_worker_both workflow'
            ;;
        stop)
            shift 1 words; (( CURRENT -= 1 ))
            _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--grace[time for running work to finish (default\: 10s)]:value: ' '--now[stop running work immediately]' '--no-wait[return without waiting for processes to exit]' '--yes[stop without confirmation]' '-A[stop the kernels of all your projects]' '--all-projects[stop the kernels of all your projects]' '--project[project directory (default\: found from the current one)]:value:_files' '-v[print more detail; -vv prints tracebacks]' '--verbose[print more detail; -vv prints tracebacks]' '*:argument: _agent_worker_live target'
            ;;
        status)
            shift 1 words; (( CURRENT -= 1 ))
            _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--json[print one JSON document]' '--project[project directory (default\: found from the current one)]:value:_files' '-v[print more detail; -vv prints tracebacks]' '--verbose[print more detail; -vv prints tracebacks]' '1:argument: _agent_worker_live target'
            ;;
        service)
            if (( CURRENT == 3 )); then
                choices=('print:Print the systemd user unit or launchd property list.' 'install:Install the service and start it if the service manager is available.' 'uninstall:Stop and remove the service.' 'run:Run as the service of all projects and start their kernels on demand.')
                _describe -t verbs verb choices
                return
            fi
            case "$words[3]" in
                print)
                    shift 2 words; (( CURRENT -= 2 ))
                    _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--systemd[use systemd (default, except on macOS)]' '--launchd[use launchd (default on macOS)]' '--all[one service that starts all projects on demand]' '--json[print one JSON document]'
                    ;;
                install)
                    shift 2 words; (( CURRENT -= 2 ))
                    _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--systemd[use systemd (default, except on macOS)]' '--launchd[use launchd (default on macOS)]' '--all[one service that starts all projects on demand]' '--json[print one JSON document]'
                    ;;
                uninstall)
                    shift 2 words; (( CURRENT -= 2 ))
                    _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--systemd[use systemd (default, except on macOS)]' '--launchd[use launchd (default on macOS)]' '--all[one service that starts all projects on demand]' '--json[print one JSON document]'
                    ;;
                run)
                    shift 2 words; (( CURRENT -= 2 ))
                    _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--json[print one JSON document]'
                    ;;
            esac
            ;;
        restart)
            shift 1 words; (( CURRENT -= 1 ))
            _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--kernel[restart the kernel; unfinished work continues]' '--trust[trust the commands in the project'"'"'s files (setup, shell)]' '--json[print one JSON document]' '--project[project directory (default\: found from the current one)]:value:_files' '-v[print more detail; -vv prints tracebacks]' '--verbose[print more detail; -vv prints tracebacks]' '1:argument: _agent_worker_live target'
            ;;
        upgrade)
            shift 1 words; (( CURRENT -= 1 ))
            _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--to[virtual environment or program of the new version (default\: the installed one)]:value: ' '--status[print the result of the last upgrade]' '--json[print one JSON document]' '--project[project directory (default\: found from the current one)]:value:_files' '-v[print more detail; -vv prints tracebacks]' '--verbose[print more detail; -vv prints tracebacks]'
            ;;
        backup)
            shift 1 words; (( CURRENT -= 1 ))
            _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--force[replace an existing file]' '--json[print one JSON document]' '--project[project directory (default\: found from the current one)]:value:_files' '-v[print more detail; -vv prints tracebacks]' '--verbose[print more detail; -vv prints tracebacks]' 1:argument:_files
            ;;
        restore)
            shift 1 words; (( CURRENT -= 1 ))
            _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--promote[restore a standby copy; its original kernel must not run again]' '--force[move existing state aside first; with --promote, continue even if the original may be running]' '--trust[for your own backups\: also restore consents and commands of open work; grants of awk trust are never restored]' '--json[print one JSON document]' '--project[project directory (default\: found from the current one)]:value:_files' '-v[print more detail; -vv prints tracebacks]' '--verbose[print more detail; -vv prints tracebacks]' 1:argument:_files
            ;;
        standby)
            if (( CURRENT == 3 )); then
                choices=('check:Verify a standby copy in a temporary directory and print the time of its last change.')
                _describe -t verbs verb choices
                return
            fi
            case "$words[3]" in
                check)
                    shift 2 words; (( CURRENT -= 2 ))
                    _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--json[print one JSON document]' 1:argument:_files
                    ;;
            esac
            ;;
        reset)
            shift 1 words; (( CURRENT -= 1 ))
            _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--json[print one JSON document]' '--project[project directory (default\: found from the current one)]:value:_files' '-v[print more detail; -vv prints tracebacks]' '--verbose[print more detail; -vv prints tracebacks]' '1:argument: _agent_worker_live target'
            ;;
        pause)
            shift 1 words; (( CURRENT -= 1 ))
            _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--json[print one JSON document]' '--project[project directory (default\: found from the current one)]:value:_files' '-v[print more detail; -vv prints tracebacks]' '--verbose[print more detail; -vv prints tracebacks]' '1:argument: _agent_worker_live target'
            ;;
        resume)
            shift 1 words; (( CURRENT -= 1 ))
            _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--json[print one JSON document]' '--project[project directory (default\: found from the current one)]:value:_files' '-v[print more detail; -vv prints tracebacks]' '--verbose[print more detail; -vv prints tracebacks]' '1:argument: _agent_worker_live target'
            ;;
        continue)
            shift 1 words; (( CURRENT -= 1 ))
            _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--json[print one JSON document]' '--project[project directory (default\: found from the current one)]:value:_files' '-v[print more detail; -vv prints tracebacks]' '--verbose[print more detail; -vv prints tracebacks]' '1:argument: _agent_worker_live target'
            ;;
        unblock)
            shift 1 words; (( CURRENT -= 1 ))
            _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--json[print one JSON document]' '--project[project directory (default\: found from the current one)]:value:_files' '-v[print more detail; -vv prints tracebacks]' '--verbose[print more detail; -vv prints tracebacks]' '1:argument: _agent_worker_live target'
            ;;
        approve)
            shift 1 words; (( CURRENT -= 1 ))
            _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--reason[reason, visible to the agent]:value: ' '--json[print one JSON document]' '--always[approve this and all future calls of this tool by this agent whose complete input, as in awk needs, matches PATTERN\: '"'"'{"command"\:"git *"}'"'"'; * matches any text, so this also matches '"'"'git x; rm -rf ~'"'"']:value: ' '--all-agents[with --always\: apply to all agents]' '--project[project directory (default\: found from the current one)]:value:_files' '-v[print more detail; -vv prints tracebacks]' '--verbose[print more detail; -vv prints tracebacks]' '*:argument: _agent_worker_live approval'
            ;;
        deny)
            shift 1 words; (( CURRENT -= 1 ))
            _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--reason[reason, visible to the agent]:value: ' '--json[print one JSON document]' '--project[project directory (default\: found from the current one)]:value:_files' '-v[print more detail; -vv prints tracebacks]' '--verbose[print more detail; -vv prints tracebacks]' '*:argument: _agent_worker_live deniable'
            ;;
        answer)
            shift 1 words; (( CURRENT -= 1 ))
            _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--as[fail if another agent is now the assignee]:value: _agent_worker_live agent' '--json[print one JSON document]' '--project[project directory (default\: found from the current one)]:value:_files' '-v[print more detail; -vv prints tracebacks]' '--verbose[print more detail; -vv prints tracebacks]' '1:argument: _agent_worker_live instruction' '2:argument: '
            ;;
        space)
            if (( CURRENT == 3 )); then
                choices=('list:List spaces, their members and their state.' 'create:Open a space for agents of the project.' 'members:Add or remove members of a space.' 'close:Close a space and cancel its work.')
                _describe -t verbs verb choices
                return
            fi
            case "$words[3]" in
                list)
                    shift 2 words; (( CURRENT -= 2 ))
                    _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--run[spaces of this run (r12), including closed spaces]:value: _agent_worker_live run' '--json[print one JSON document]'
                    ;;
                create)
                    shift 2 words; (( CURRENT -= 2 ))
                    _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--member[agent to add; repeatable]:value: _agent_worker_live agent' '--open[make every agent that is mentioned a member]' '--json[print one JSON document]' '1:argument: '
                    ;;
                members)
                    shift 2 words; (( CURRENT -= 2 ))
                    _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--add[member to add; repeatable]:value: ' '--remove[member to remove; repeatable]:value: ' '--json[print one JSON document]' '1:argument: _agent_worker_live space'
                    ;;
                close)
                    shift 2 words; (( CURRENT -= 2 ))
                    _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--json[print one JSON document]' '1:argument: _agent_worker_live space'
                    ;;
            esac
            ;;
        reassign)
            shift 1 words; (( CURRENT -= 1 ))
            _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--json[print one JSON document]' '--project[project directory (default\: found from the current one)]:value:_files' '-v[print more detail; -vv prints tracebacks]' '--verbose[print more detail; -vv prints tracebacks]' '1:argument: _agent_worker_live instruction' '2:argument: _agent_worker_live agent'
            ;;
        grant)
            if (( CURRENT == 3 )); then
                choices=('list:List grants, their origin and their current state.' 'give:Grant an agent a scope that its file does not include.' 'revoke:Revoke a grant and the grants derived from it.')
                _describe -t verbs verb choices
                return
            fi
            case "$words[3]" in
                list)
                    shift 2 words; (( CURRENT -= 2 ))
                    _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '-n[number of entries (default\: 1000; 0\: all)]:value: ' '--json[print one JSON document]' '1:argument: _agent_worker_live channel'
                    ;;
                give)
                    shift 2 words; (( CURRENT -= 2 ))
                    _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--to[receiving agent, such as alice@review]:value: _agent_worker_live target' '--until[duration (2h) or end time (2026-11-22T18\:00\:00Z)]:value: ' '--uses[maximum number of calls]:value: ' '--json[print one JSON document]' '1:argument:(channel.read channel.write documents.read documents.write tasks votes status memory ask feedback rules auth spaces agents workflows)'
                    ;;
                revoke)
                    shift 2 words; (( CURRENT -= 2 ))
                    _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--json[print one JSON document]' '1:argument: _agent_worker_live grant'
                    ;;
            esac
            ;;
        proposal)
            if (( CURRENT == 3 )); then
                choices=('list:List open proposals, or all proposals of one workflow.' 'show:Show a proposal, its votes and its result.' 'vote:Vote on a proposal; a vote is final.' 'cancel:Cancel a proposal: its vote ends without a result.')
                _describe -t verbs verb choices
                return
            fi
            case "$words[3]" in
                list)
                    shift 2 words; (( CURRENT -= 2 ))
                    _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--all[include closed proposals if no workflow is given]' '-n[number of entries (default\: 1000; 0\: all)]:value: ' '--archive[read from this file of awk export, without a kernel]:value:_files' '--json[print one JSON document]' '1:argument: _agent_worker_live channel'
                    ;;
                show)
                    shift 2 words; (( CURRENT -= 2 ))
                    _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--archive[read from this file of awk export, without a kernel]:value:_files' '--json[print one JSON document]' '1:argument: _agent_worker_live any_proposal'
                    ;;
                vote)
                    shift 2 words; (( CURRENT -= 2 ))
                    _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--reason[reason, visible to the members]:value: ' '--json[print one JSON document]' '1:argument: _agent_worker_live proposal' '2:argument: _agent_worker_live choice'
                    ;;
                cancel)
                    shift 2 words; (( CURRENT -= 2 ))
                    _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--reason[reason, visible to the members]:value: ' '--json[print one JSON document]' '1:argument: _agent_worker_live proposal'
                    ;;
            esac
            ;;
        rule)
            if (( CURRENT == 3 )); then
                choices=('list:List the rules of a workflow with author and number of firings.' 'show:Show one rule.' 'add:Add or replace rules from a file.' 'rm:Disable a rule without deleting it.' 'test:Print the effects that a rule would have had on a run.')
                _describe -t verbs verb choices
                return
            fi
            case "$words[3]" in
                list)
                    shift 2 words; (( CURRENT -= 2 ))
                    _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--all[- include the rules of the kernel]' '--json[print one JSON document]' '1:argument: _agent_worker_live channel'
                    ;;
                show)
                    shift 2 words; (( CURRENT -= 2 ))
                    _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--json[print one JSON document]' '1:argument: _agent_worker_live rule' '2:argument: _agent_worker_live channel'
                    ;;
                add)
                    shift 2 words; (( CURRENT -= 2 ))
                    _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--json[print one JSON document]' 1:argument:_files '2:argument: _agent_worker_live channel'
                    ;;
                rm)
                    shift 2 words; (( CURRENT -= 2 ))
                    _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--json[print one JSON document]' '1:argument: _agent_worker_live rule' '2:argument: _agent_worker_live channel'
                    ;;
                test)
                    shift 2 words; (( CURRENT -= 2 ))
                    _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--run[run whose messages are tested]:value: _agent_worker_live run' '--json[print one JSON document]' '1:argument: _agent_worker_both rule'
                    ;;
            esac
            ;;
        task)
            if (( CURRENT == 3 )); then
                choices=('list:List the tasks of a workflow with their states and assignees.' 'show:Show a task, its dependencies and its result.' 'add:Add a task that an agent can claim, or receives with --for.' 'claim:Claim tasks for yourself, so that no agent works on them.' 'done:Mark tasks as done, so that their dependents can start.' 'fail:Mark tasks as failed.' 'cancel:Cancel unfinished tasks.' 'graph:Show the dependency graph of the tasks.')
                _describe -t verbs verb choices
                return
            fi
            case "$words[3]" in
                list)
                    shift 2 words; (( CURRENT -= 2 ))
                    _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--state[only tasks in this state]:value:(open ready claimed done failed cancelled)' '--for[only tasks for this agent or claimed by it]:value: _agent_worker_live agent' '-n[number of entries (default\: 1000; 0\: all)]:value: ' '--archive[read from this file of awk export, without a kernel]:value:_files' '--json[print one JSON document]' '1:argument: _agent_worker_live channel'
                    ;;
                show)
                    shift 2 words; (( CURRENT -= 2 ))
                    _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--archive[read from this file of awk export, without a kernel]:value:_files' '--json[print one JSON document]' '1:argument: _agent_worker_live channel' '2:argument: _agent_worker_live task'
                    ;;
                add)
                    shift 2 words; (( CURRENT -= 2 ))
                    _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--text[description of the task]:value: ' '--key[additional name of the task]:value: ' '--for[agent that receives the task (default\: any agent can claim it)]:value: _agent_worker_live agent' '--needs[dependency (id or key); repeatable]:value: _agent_worker_live task' '--parent[parent task]:value: _agent_worker_live task' '--files[files reserved for the task; repeatable]:value: ' '--check[command that must exit with code 0 before the task is done]:value: ' '--on-failure[after a failed dependency\: hold (wait for a person, default), skip (start without it), cancel this task]:value:(hold skip cancel)' '--json[print one JSON document]' '1:argument: _agent_worker_live channel' '2:argument: '
                    ;;
                claim)
                    shift 2 words; (( CURRENT -= 2 ))
                    _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--json[print one JSON document]' '1:argument: _agent_worker_live channel' '*:argument: _agent_worker_live task'
                    ;;
                done)
                    shift 2 words; (( CURRENT -= 2 ))
                    _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--result[result, visible to the members]:value: ' '--json[print one JSON document]' '1:argument: _agent_worker_live channel' '*:argument: _agent_worker_live task'
                    ;;
                fail)
                    shift 2 words; (( CURRENT -= 2 ))
                    _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--reason[reason, visible to the members]:value: ' '--json[print one JSON document]' '1:argument: _agent_worker_live channel' '*:argument: _agent_worker_live task'
                    ;;
                cancel)
                    shift 2 words; (( CURRENT -= 2 ))
                    _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--reason[reason, visible to the members]:value: ' '--json[print one JSON document]' '1:argument: _agent_worker_live channel' '*:argument: _agent_worker_live task'
                    ;;
                graph)
                    shift 2 words; (( CURRENT -= 2 ))
                    _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '-n[number of tasks (default\: all; 0\: all)]:value: ' '--archive[read from this file of awk export, without a kernel]:value:_files' '--json[print one JSON document]' '1:argument: _agent_worker_live channel'
                    ;;
            esac
            ;;
        doc)
            if (( CURRENT == 3 )); then
                choices=('list:List the documents of a workflow.' 'read:Print a document or one of its versions.' 'write:Replace the text of a document.' 'append:Append text to a document.' 'create:Create a document.' 'delete:Delete a document but retain its history.' 'history:List the versions of a document, latest first.' 'diff:Show the changes of a version.' 'blame:Show the author and version of each line.' 'suggestions:List suggested changes.' 'accept:Accept a suggestion, merged with later changes, as the latest version.' 'reject:Reject a suggestion.')
                _describe -t verbs verb choices
                return
            fi
            case "$words[3]" in
                list)
                    shift 2 words; (( CURRENT -= 2 ))
                    _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '-n[number of entries (default\: 1000; 0\: all)]:value: ' '--archive[read from this file of awk export, without a kernel]:value:_files' '--json[print one JSON document]' '1:argument: _agent_worker_live channel'
                    ;;
                read)
                    shift 2 words; (( CURRENT -= 2 ))
                    _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--version[number of the version (default\: the latest)]:value: ' '--archive[read from this file of awk export, without a kernel]:value:_files' '--json[print one JSON document]' '1:argument: _agent_worker_live channel' '2:argument: _agent_worker_live document'
                    ;;
                write)
                    shift 2 words; (( CURRENT -= 2 ))
                    _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--reason[reason, stored with the version]:value: ' '--if-version[base version of the text; later changes are merged, or the write fails on a conflict]:value: ' '--json[print one JSON document]' '1:argument: _agent_worker_live channel' '2:argument: _agent_worker_live document' '3:argument: '
                    ;;
                append)
                    shift 2 words; (( CURRENT -= 2 ))
                    _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--reason[reason, stored with the version]:value: ' '--json[print one JSON document]' '1:argument: _agent_worker_live channel' '2:argument: _agent_worker_live document' '3:argument: '
                    ;;
                create)
                    shift 2 words; (( CURRENT -= 2 ))
                    _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--reason[reason, stored with the version]:value: ' '--json[print one JSON document]' '1:argument: _agent_worker_live channel' '2:argument: _agent_worker_live document' '3:argument: '
                    ;;
                delete)
                    shift 2 words; (( CURRENT -= 2 ))
                    _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--if-version[delete only if this is the latest version]:value: ' '--reason[reason, stored with the version]:value: ' '--json[print one JSON document]' '1:argument: _agent_worker_live channel' '2:argument: _agent_worker_live document'
                    ;;
                history)
                    shift 2 words; (( CURRENT -= 2 ))
                    _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '-n[number of entries (default\: 1000; 0\: all)]:value: ' '--archive[read from this file of awk export, without a kernel]:value:_files' '--json[print one JSON document]' '1:argument: _agent_worker_live channel' '2:argument: _agent_worker_live document'
                    ;;
                diff)
                    shift 2 words; (( CURRENT -= 2 ))
                    _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--from[first version (default\: previous)]:value: ' '--to[second version (default\: latest)]:value: ' '--json[print one JSON document]' '1:argument: _agent_worker_live channel' '2:argument: _agent_worker_live document'
                    ;;
                blame)
                    shift 2 words; (( CURRENT -= 2 ))
                    _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--json[print one JSON document]' '1:argument: _agent_worker_live channel' '2:argument: _agent_worker_live document'
                    ;;
                suggestions)
                    shift 2 words; (( CURRENT -= 2 ))
                    _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--all[include suggestions that were accepted or rejected]' '-n[number of entries (default\: 1000; 0\: all)]:value: ' '--archive[read from this file of awk export, without a kernel]:value:_files' '--json[print one JSON document]' '1:argument: _agent_worker_live channel'
                    ;;
                accept)
                    shift 2 words; (( CURRENT -= 2 ))
                    _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--reason[reason, visible to the members]:value: ' '--json[print one JSON document]' '1:argument: _agent_worker_live channel' '2:argument: _agent_worker_live suggestion'
                    ;;
                reject)
                    shift 2 words; (( CURRENT -= 2 ))
                    _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--reason[reason, visible to the members]:value: ' '--json[print one JSON document]' '1:argument: _agent_worker_live channel' '2:argument: _agent_worker_live suggestion'
                    ;;
            esac
            ;;
        cancel)
            shift 1 words; (( CURRENT -= 1 ))
            _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--agent[all instructions of this agent\: alice or alice@review\[\:tag\]]:value: _agent_worker_live agent' '--dry-run[print the selected instructions without changes; not with ids]' '--json[print one JSON document]' '--queued[only queued instructions; running instructions continue]' '--yes[cancel a selection without confirmation; ids need none]' '--project[project directory (default\: found from the current one)]:value:_files' '-v[print more detail; -vv prints tracebacks]' '--verbose[print more detail; -vv prints tracebacks]' '*:argument: _agent_worker_live steered'
            ;;
        retry)
            shift 1 words; (( CURRENT -= 1 ))
            _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--agent[all instructions of this agent\: alice or alice@review\[\:tag\]]:value: _agent_worker_live agent' '--dry-run[print the selected instructions without changes; not with ids]' '--json[print one JSON document]' '--all[all instructions that awk dead lists]' '--fresh[start from the beginning; side effects may occur twice]' '--project[project directory (default\: found from the current one)]:value:_files' '-v[print more detail; -vv prints tracebacks]' '--verbose[print more detail; -vv prints tracebacks]' '*:argument: _agent_worker_live steered'
            ;;
        clear)
            shift 1 words; (( CURRENT -= 1 ))
            _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--run[for a workflow\: only this run (r12; default\: all runs)]:value: _agent_worker_live run' '--yes[clear without confirmation]' '--force[also delete unmerged or uncommitted work]' '--json[print one JSON document]' '--project[project directory (default\: found from the current one)]:value:_files' '-v[print more detail; -vv prints tracebacks]' '--verbose[print more detail; -vv prints tracebacks]' '1:argument: _agent_worker_live exported'
            ;;
        prune)
            shift 1 words; (( CURRENT -= 1 ))
            _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--dry-run[list the data and reasons without deleting it]' '--yes[delete without confirmation]' '--json[print one JSON document]' '--project[project directory (default\: found from the current one)]:value:_files' '-v[print more detail; -vv prints tracebacks]' '--verbose[print more detail; -vv prints tracebacks]' '*:argument:(trees unfinished logs aside comparisons attempts database)'
            ;;
        merge)
            shift 1 words; (( CURRENT -= 1 ))
            _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--agent[only the branch of this agent (default\: all)]:value: ' '--into[target branch (default\: base branch of the run)]:value: ' '--squash[create one commit, not one merge per branch]' '--check[shell command that must succeed before the branch changes]:value: ' '--return[return conflicts to agents as work]' '--dry-run[print the result without changes or checks]' '--json[print one JSON document]' '--project[project directory (default\: found from the current one)]:value:_files' '-v[print more detail; -vv prints tracebacks]' '--verbose[print more detail; -vv prints tracebacks]' '1:argument: _agent_worker_live merged'
            ;;
        promote)
            shift 1 words; (( CURRENT -= 1 ))
            _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--json[print one JSON document]' '--project[project directory (default\: found from the current one)]:value:_files' '-v[print more detail; -vv prints tracebacks]' '--verbose[print more detail; -vv prints tracebacks]' '*:argument: _agent_worker_live instruction'
            ;;
        ps)
            shift 1 words; (( CURRENT -= 1 ))
            _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '-a[include agents of ended workflows, and list each idle agent]' '--all[include agents of ended workflows, and list each idle agent]' '-A[include all your projects with a running kernel]' '--all-projects[include all your projects with a running kernel]' '-q[print only names, as other commands accept them]' '--quiet[print only names, as other commands accept them]' '--sort[sort column, largest number first; -COLUMN\: reverse order]:value: ' '-o[columns to print, in this order\: name,state,cost]:value: ' '--columns[columns to print, in this order\: name,state,cost]:value: ' '--json[print one JSON document]' '--project[project directory (default\: found from the current one)]:value:_files' '-v[print more detail; -vv prints tracebacks]' '--verbose[print more detail; -vv prints tracebacks]' '*:argument: _agent_worker_live target'
            ;;
        projects)
            shift 1 words; (( CURRENT -= 1 ))
            _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--json[print one JSON document]' '--project[project directory (default\: found from the current one)]:value:_files' '-v[print more detail; -vv prints tracebacks]' '--verbose[print more detail; -vv prints tracebacks]'
            ;;
        top)
            shift 1 words; (( CURRENT -= 1 ))
            _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--bell[ring the bell for new needs, and notify the desktop if the terminal can]' '--json[print one JSON document]' '--project[project directory (default\: found from the current one)]:value:_files' '-v[print more detail; -vv prints tracebacks]' '--verbose[print more detail; -vv prints tracebacks]'
            ;;
        open)
            shift 1 words; (( CURRENT -= 1 ))
            _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--read-only[open the page in read-only mode]' '--print[print the address, valid once for one minute]' '--json[print one JSON document]' '--project[project directory (default\: found from the current one)]:value:_files' '-v[print more detail; -vv prints tracebacks]' '--verbose[print more detail; -vv prints tracebacks]'
            ;;
        channel)
            shift 1 words; (( CURRENT -= 1 ))
            _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--run[only messages of this run (r12)]:value: _agent_worker_live run' '-n[number of latest messages (default\: 50; 0\: all)]:value: ' '-f[print new messages as they arrive]' '--follow[print new messages as they arrive]' '--archive[read from this file of awk export, without a kernel]:value:_files' '--json[print one JSON document]' '--jsonl[print one JSON object per line as items arrive]' '--project[project directory (default\: found from the current one)]:value:_files' '-v[print more detail; -vv prints tracebacks]' '--verbose[print more detail; -vv prints tracebacks]' '1:argument: _agent_worker_live target'
            ;;
        resource)
            if (( CURRENT == 3 )); then
                choices=('list:List the resources of all spaces or of one space.' 'get:Print a resource unchanged.' 'add:Store a text as a resource and print its id.')
                _describe -t verbs verb choices
                return
            fi
            case "$words[3]" in
                list)
                    shift 2 words; (( CURRENT -= 2 ))
                    _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '-n[number of entries (default\: 1000; 0\: all)]:value: ' '--json[print one JSON document]' '1:argument: _agent_worker_live target'
                    ;;
                get)
                    shift 2 words; (( CURRENT -= 2 ))
                    _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--offset[first character (default\: 0)]:value: ' '--limit[maximum number of characters (default\: all)]:value: ' '--archive[read from this file of awk export, without a kernel]:value:_files' '--json[print one JSON document]' '1:argument: _agent_worker_live resource'
                    ;;
                add)
                    shift 2 words; (( CURRENT -= 2 ))
                    _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--type[media type (default\: text/plain)]:value: ' '--json[print one JSON document]' '1:argument: _agent_worker_live target' '2:argument: '
                    ;;
            esac
            ;;
        inbox)
            shift 1 words; (( CURRENT -= 1 ))
            _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '-n[number of entries (default\: 200; 0\: all)]:value: ' '--json[print one JSON document]' '--project[project directory (default\: found from the current one)]:value:_files' '-v[print more detail; -vv prints tracebacks]' '--verbose[print more detail; -vv prints tracebacks]' '1:argument: _agent_worker_live target'
            ;;
        queue)
            shift 1 words; (( CURRENT -= 1 ))
            _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '-n[number of entries (default\: 1000; 0\: all)]:value: ' '--json[print one JSON document]' '--project[project directory (default\: found from the current one)]:value:_files' '-v[print more detail; -vv prints tracebacks]' '--verbose[print more detail; -vv prints tracebacks]' '1:argument: _agent_worker_live target'
            ;;
        needs)
            shift 1 words; (( CURRENT -= 1 ))
            _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '-f[print new and resolved items as they change]' '--follow[print new and resolved items as they change]' '--approvals[list only approval requests, with their input; always exit with code 0]' '--rules[list the approval rules of awk approve --always; awk deny deletes one]' '-A[include all your projects with a running kernel]' '--all-projects[include all your projects with a running kernel]' '-n[number of entries (default\: 1000; 0\: all)]:value: ' '--json[print one JSON document]' '--project[project directory (default\: found from the current one)]:value:_files' '-v[print more detail; -vv prints tracebacks]' '--verbose[print more detail; -vv prints tracebacks]' '1:argument: _agent_worker_live approval'
            ;;
        audit)
            shift 1 words; (( CURRENT -= 1 ))
            _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--agent[only queries from or to this agent]:value: _agent_worker_live agent' '-n[number of entries (default\: 1000; 0\: all)]:value: ' '--json[print one JSON document]' '--project[project directory (default\: found from the current one)]:value:_files' '-v[print more detail; -vv prints tracebacks]' '--verbose[print more detail; -vv prints tracebacks]'
            ;;
        feedback)
            if (( CURRENT == 3 )); then
                choices=('list:List feedback on the work.' 'add:Add feedback.')
                _describe -t verbs verb choices
                return
            fi
            case "$words[3]" in
                list)
                    shift 2 words; (( CURRENT -= 2 ))
                    _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '-n[number of latest entries (default\: 1000; 0\: all)]:value: ' '--json[print one JSON document]'
                    ;;
                add)
                    shift 2 words; (( CURRENT -= 2 ))
                    _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--json[print one JSON document]' '1:argument: '
                    ;;
            esac
            ;;
        stats)
            shift 1 words; (( CURRENT -= 1 ))
            _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--by[group by agent, workflow, model or day (UTC), or by two of them\: day,model]:value: ' '--since[start of the period\: 7d, 2h, 2026-11-01 or 2026-11-01T12\:00\:00Z]:value: ' '--until[end of the period, as for --since (default\: now)]:value: ' '--json[print one JSON document]' '--project[project directory (default\: found from the current one)]:value:_files' '-v[print more detail; -vv prints tracebacks]' '--verbose[print more detail; -vv prints tracebacks]' '1:argument: _agent_worker_live target'
            ;;
        dead)
            shift 1 words; (( CURRENT -= 1 ))
            _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--clear[hide the current entries; awk show and awk retry still accept them]' '-n[number of latest entries (default\: 1000; 0\: all)]:value: ' '--json[print one JSON document]' '--project[project directory (default\: found from the current one)]:value:_files' '-v[print more detail; -vv prints tracebacks]' '--verbose[print more detail; -vv prints tracebacks]'
            ;;
        runs)
            shift 1 words; (( CURRENT -= 1 ))
            _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--status[only runs with this status]:value:(running stopped done failed incomplete rejected cancelled timeout)' '--since[only runs started within 10m, 2h, 7d, ...]:value: ' '-n[number of latest runs (default\: 100; 0\: all)]:value: ' '--json[print one JSON document]' '--project[project directory (default\: found from the current one)]:value:_files' '-v[print more detail; -vv prints tracebacks]' '--verbose[print more detail; -vv prints tracebacks]' '1:argument: _agent_worker_live channel'
            ;;
        show)
            shift 1 words; (( CURRENT -= 1 ))
            _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--prompt[for an instruction\: print the prompt of the model]' '--steps[for an instruction\: print each model and tool call]' '--wire[for an instruction\: print recorded model requests and responses]' '--full[with --steps\: print arguments and results in full]' '-n[with --steps or --wire\: number of first rows (default\: 1000; 0\: all)]:value: ' '--timeline[for a run\: draw the work of each agent over time]' '--graph[for a run\: print the graph of its messages]:value:(dot mermaid)' '--html[for a run\: write a web page with its timeline to FILE]:value:_files' '--force[with --html\: replace an existing file]' '--archive[read from this file of awk export, without a kernel]:value:_files' '--json[print one JSON document]' '--project[project directory (default\: found from the current one)]:value:_files' '-v[print more detail; -vv prints tracebacks]' '--verbose[print more detail; -vv prints tracebacks]' '*:argument: _agent_worker_live shown'
            ;;
        export)
            shift 1 words; (( CURRENT -= 1 ))
            _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--format[jsonl for awk import, or md (default\: jsonl)]:value:(jsonl md)' '-o[output file (default\: standard output)]:value:_files' '--output[output file (default\: standard output)]:value:_files' '--json[with -o\: print one JSON document that describes the file]' '--project[project directory (default\: found from the current one)]:value:_files' '-v[print more detail; -vv prints tracebacks]' '--verbose[print more detail; -vv prints tracebacks]' '1:argument: _agent_worker_live exported'
            ;;
        import)
            shift 1 words; (( CURRENT -= 1 ))
            _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--json[print one JSON document]' '--project[project directory (default\: found from the current one)]:value:_files' '-v[print more detail; -vv prints tracebacks]' '--verbose[print more detail; -vv prints tracebacks]' 1:argument:_files
            ;;
        diff)
            shift 1 words; (( CURRENT -= 1 ))
            _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--stat[print only files and numbers of lines]' '--json[print one JSON document]' '--project[project directory (default\: found from the current one)]:value:_files' '-v[print more detail; -vv prints tracebacks]' '--verbose[print more detail; -vv prints tracebacks]' '1:argument: _agent_worker_live diffed'
            ;;
        attach)
            shift 1 words; (( CURRENT -= 1 ))
            _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--jsonl[print one JSON object per line as items arrive]' '--project[project directory (default\: found from the current one)]:value:_files' '-v[print more detail; -vv prints tracebacks]' '--verbose[print more detail; -vv prints tracebacks]' '1:argument: _agent_worker_live target'
            ;;
        worktree)
            if (( CURRENT == 3 )); then
                choices=('list:List working trees.' 'rm:Delete the working trees of an ended run.' 'prune:Delete all working trees of ended runs that contain no unmerged work.')
                _describe -t verbs verb choices
                return
            fi
            case "$words[3]" in
                list)
                    shift 2 words; (( CURRENT -= 2 ))
                    _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--run[only of this run (r12)]:value: _agent_worker_live run' '--json[print one JSON document]'
                    ;;
                rm)
                    shift 2 words; (( CURRENT -= 2 ))
                    _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--run[ended run (r12)]:value: _agent_worker_live run' '--force[also delete unmerged or uncommitted work]' '--json[print one JSON document]' '*:argument: _agent_worker_live agent'
                    ;;
                prune)
                    shift 2 words; (( CURRENT -= 2 ))
                    _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--run[only of this run (r12)]:value: _agent_worker_live run' '--json[print one JSON document]'
                    ;;
            esac
            ;;
        logs)
            shift 1 words; (( CURRENT -= 1 ))
            _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--previous[only the previous attempt; without TARGET, the previous kernel process]' '--level[minimum level of log lines]:value:(debug info warning error)' '-n[number of latest lines (default\: all; 0\: all)]:value: ' '-f[print new events as they occur; -f alone prints no earlier events]' '--follow[print new events as they occur; -f alone prints no earlier events]' '--since[only events of the last 10m, 2h, ...]:value: ' '--jsonl[print one JSON object per line as items arrive]' '--project[project directory (default\: found from the current one)]:value:_files' '-v[print more detail; -vv prints tracebacks]' '--verbose[print more detail; -vv prints tracebacks]' '*:argument: _agent_worker_live target'
            ;;
        events)
            shift 1 words; (( CURRENT -= 1 ))
            _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '-f[print new events as they occur; -f alone prints no earlier events]' '--follow[print new events as they occur; -f alone prints no earlier events]' '--since[only events of the last 10m, 2h, ...]:value: ' '--jsonl[print one JSON object per line as items arrive]' '--project[project directory (default\: found from the current one)]:value:_files' '-v[print more detail; -vv prints tracebacks]' '--verbose[print more detail; -vv prints tracebacks]'
            ;;
        doctor)
            shift 1 words; (( CURRENT -= 1 ))
            _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--json[print one JSON document]' '--project[project directory (default\: found from the current one)]:value:_files' '-v[print more detail; -vv prints tracebacks]' '--verbose[print more detail; -vv prints tracebacks]'
            ;;
        df)
            shift 1 words; (( CURRENT -= 1 ))
            _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '-n[number of largest runs (default\: 10; 0\: all)]:value: ' '--json[print one JSON document]' '--project[project directory (default\: found from the current one)]:value:_files' '-v[print more detail; -vv prints tracebacks]' '--verbose[print more detail; -vv prints tracebacks]'
            ;;
        wait)
            shift 1 words; (( CURRENT -= 1 ))
            _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--for[idle\: no work is left; done\: the run, instruction or workflow has ended; needs\: a person must act]:value:(idle done needs)' '--timeout[maximum time to wait (10s, 5m; exit code 124)]:value: ' '--json[print one JSON document]' '--project[project directory (default\: found from the current one)]:value:_files' '-v[print more detail; -vv prints tracebacks]' '--verbose[print more detail; -vv prints tracebacks]' '1:argument: _agent_worker_live target'
            ;;
        watch)
            shift 1 words; (( CURRENT -= 1 ))
            _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--exit-status[exit with the exit code of the run]' '--json[print one JSON document]' '--jsonl[print one JSON object per line as items arrive]' '--project[project directory (default\: found from the current one)]:value:_files' '-v[print more detail; -vv prints tracebacks]' '--verbose[print more detail; -vv prints tracebacks]' '1:argument: _agent_worker_live merged'
            ;;
        agent)
            if (( CURRENT == 3 )); then
                choices=('list:List the agents of the project.' 'info:Show the definition and the state of an agent.' 'create:Create an agent.' 'edit:Edit the file of an agent in $EDITOR or with KEY=VALUE.' 'delete:Move an agent and its context to the trash.' 'memory:Show or change the memory of an agent.' 'notes:Show or add notes of an agent.' 'soul:Show the traits of an agent and decide on the changes it proposes.' 'todo:Show or change the to-do list of an agent.' 'reindex:Rebuild the search index of agents'"'"' conversations.')
                _describe -t verbs verb choices
                return
            fi
            case "$words[3]" in
                list)
                    shift 2 words; (( CURRENT -= 2 ))
                    _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--running[require a kernel or its stored log (default\: read the files)]' '--json[print one JSON document]'
                    ;;
                info)
                    shift 2 words; (( CURRENT -= 2 ))
                    _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--json[print one JSON document]' '1:argument: _agent_worker_live agent'
                    ;;
                create)
                    shift 2 words; (( CURRENT -= 2 ))
                    _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--ephemeral[create an agent without a file; the agent exists until the kernel stops]' '--tag[create a separate instance, named NAME-TAG]:value: ' '-m[model as provider/name, or an alias]:value: ' '--model[model as provider/name, or an alias]:value: ' '-b[backend that runs the agent (default\: sdk)]:value: ' '--backend[backend that runs the agent (default\: sdk)]:value: ' '-s[system prompt]:value: ' '--system[system prompt]:value: ' '--system-file[project file that contains the system prompt]:value:_files' '--role[role of the agent in a few words]:value: ' '--expertise[areas of expertise, separated by commas]:value: ' '--from[convert this ephemeral agent or Claude Code file]:value: _agent_worker_both agent' '--json[print one JSON document]' '1:argument: '
                    ;;
                edit)
                    shift 2 words; (( CURRENT -= 2 ))
                    _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--json[print one JSON document]' '1:argument: _agent_worker_live agent' '*:argument: '
                    ;;
                delete)
                    shift 2 words; (( CURRENT -= 2 ))
                    _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--yes[delete without confirmation]' '--json[print one JSON document]' '1:argument: _agent_worker_live agent'
                    ;;
                memory)
                    shift 2 words; (( CURRENT -= 2 ))
                    _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--json[print one JSON document]' '1:argument: _agent_worker_live agent' '2:argument:(get set rm search purge tray)'
                    ;;
                notes)
                    shift 2 words; (( CURRENT -= 2 ))
                    _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--json[print one JSON document]' '1:argument: _agent_worker_live agent' '2:argument:(add show)'
                    ;;
                soul)
                    shift 2 words; (( CURRENT -= 2 ))
                    _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--json[print one JSON document]' '1:argument: _agent_worker_live agent' '2:argument:(show history approve reject rollback)'
                    ;;
                todo)
                    shift 2 words; (( CURRENT -= 2 ))
                    _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--json[print one JSON document]' '1:argument: _agent_worker_live agent' '2:argument:(add done rm)'
                    ;;
                reindex)
                    shift 2 words; (( CURRENT -= 2 ))
                    _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--json[print one JSON document]' '1:argument: _agent_worker_live agent'
                    ;;
            esac
            ;;
        memory)
            if (( CURRENT == 3 )); then
                choices=('eval:Measure how often memory search finds the answer to a question.' 'growth:Simulate runs and measure junk in memory, with and without the guard model.')
                _describe -t verbs verb choices
                return
            fi
            case "$words[3]" in
                eval)
                    shift 2 words; (( CURRENT -= 2 ))
                    _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--json[print one JSON document]' 1:argument:_files
                    ;;
                growth)
                    shift 2 words; (( CURRENT -= 2 ))
                    _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--seed[random seed of the generated runs (default\: 1)]:value: ' '--json[print one JSON document]' '1:argument: '
                    ;;
            esac
            ;;
        tool)
            if (( CURRENT == 3 )); then
                choices=('list:List the available tools and the agents that use them.' 'add:Add a command as a tool of the project.' 'import:Import tools from a file of another project.' 'mock:Mock a tool: return a fixed result and run no command.' 'rm:Delete a tool of the project.')
                _describe -t verbs verb choices
                return
            fi
            case "$words[3]" in
                list)
                    shift 2 words; (( CURRENT -= 2 ))
                    _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--json[print one JSON document]'
                    ;;
                add)
                    shift 2 words; (( CURRENT -= 2 ))
                    _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '-d[description of the tool for models]:value: ' '--description[description of the tool for models]:value: ' '-a[argument NAME\:TYPE, with ? if optional (path\:string, limit\:integer?); ${path} in the command\: its value]:value: ' '--argument[argument NAME\:TYPE, with ? if optional (path\:string, limit\:integer?); ${path} in the command\: its value]:value: ' '--read-only[the tool only reads; calls need no approval]' '--timeout[timeout of a call (default\: 120s)]:value: ' '--mock[fixed result instead of a command]:value: ' '--json[print one JSON document]' '1:argument: '
                    ;;
                import)
                    shift 2 words; (( CURRENT -= 2 ))
                    _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--replace[replace tools of the same name]' '--json[print one JSON document]' 1:argument:_files '*:argument: '
                    ;;
                mock)
                    shift 2 words; (( CURRENT -= 2 ))
                    _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--off[remove the mock and run the command again]' '--json[print one JSON document]' '1:argument: ' '2:argument: '
                    ;;
                rm)
                    shift 2 words; (( CURRENT -= 2 ))
                    _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--json[print one JSON document]' '1:argument: '
                    ;;
            esac
            ;;
        worker)
            if (( CURRENT == 3 )); then
                choices=('check:Run a worker program and report protocol errors.')
                _describe -t verbs verb choices
                return
            fi
            case "$words[3]" in
                check)
                    shift 2 words; (( CURRENT -= 2 ))
                    _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--message[message for the worker (default\: Say hello.)]:value: ' '--timeout[timeout of each run (default\: 60s)]:value: ' '--json[print one JSON document]' '*:argument: '
                    ;;
            esac
            ;;
        skills)
            if (( CURRENT == 3 )); then
                choices=('list:List the skills of the project and the agents that use them.' 'import:Copy skills from a repository, pinned to a commit.' 'update:Update imported skills from their repositories.' 'rm:Delete imported skills.' 'install-self:Install a skill that teaches coding agents to use agent-worker.')
                _describe -t verbs verb choices
                return
            fi
            case "$words[3]" in
                list)
                    shift 2 words; (( CURRENT -= 2 ))
                    _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--json[print one JSON document]'
                    ;;
                import)
                    shift 2 words; (( CURRENT -= 2 ))
                    _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--force[replace existing skills]' '--json[print one JSON document]' '1:argument: ' '*:argument: '
                    ;;
                update)
                    shift 2 words; (( CURRENT -= 2 ))
                    _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--force[also update changed skills; discard the changes]' '--json[print one JSON document]' '*:argument: '
                    ;;
                rm)
                    shift 2 words; (( CURRENT -= 2 ))
                    _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--force[also delete locally changed skills]' '--json[print one JSON document]' '*:argument: '
                    ;;
                install-self)
                    shift 2 words; (( CURRENT -= 2 ))
                    _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--json[print one JSON document]'
                    ;;
            esac
            ;;
        init)
            shift 1 words; (( CURRENT -= 1 ))
            _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--example[example to create (default\: hello); list\: print the examples]:value:(handbook hello memory nodes review team verdict list)' '--backend[program that runs the agents (default\: scripted answers without a model)]:value:(claude codex cursor opencode)' '-m[with --backend\: model of the agents (claude\: sonnet)]:value: ' '--model[with --backend\: model of the agents (claude\: sonnet)]:value: ' '--project[project directory (default\: found from the current one)]:value:_files' '-v[print more detail; -vv prints tracebacks]' '--verbose[print more detail; -vv prints tracebacks]'
            ;;
        adopt)
            shift 1 words; (( CURRENT -= 1 ))
            _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--yes[write the files without confirmation]' '--json[print one JSON document]' '--project[project directory (default\: found from the current one)]:value:_files' '-v[print more detail; -vv prints tracebacks]' '--verbose[print more detail; -vv prints tracebacks]'
            ;;
        validate)
            shift 1 words; (( CURRENT -= 1 ))
            _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--report[warn about workflows that give awk run --report github or sarif no findings]' '--json[print one JSON document]' '--project[project directory (default\: found from the current one)]:value:_files' '-v[print more detail; -vv prints tracebacks]' '--verbose[print more detail; -vv prints tracebacks]' '*:argument:_files'
            ;;
        config)
            shift 1 words; (( CURRENT -= 1 ))
            _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--json[print one JSON document]' '--project[project directory (default\: found from the current one)]:value:_files' '-v[print more detail; -vv prints tracebacks]' '--verbose[print more detail; -vv prints tracebacks]' '1:argument: _agent_worker_both named'
            ;;
        schema)
            shift 1 words; (( CURRENT -= 1 ))
            _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--write[write all schemas to .agents/.schema, which headers of files refer to]' '--project[project directory (default\: found from the current one)]:value:_files' '-v[print more detail; -vv prints tracebacks]' '--verbose[print more detail; -vv prints tracebacks]' '1:argument:(agent workflow project)'
            ;;
        completion)
            shift 1 words; (( CURRENT -= 1 ))
            _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--project[project directory (default\: found from the current one)]:value:_files' '-v[print more detail; -vv prints tracebacks]' '--verbose[print more detail; -vv prints tracebacks]' '1:argument:(bash zsh fish)'
            ;;
        trust)
            shift 1 words; (( CURRENT -= 1 ))
            _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--yes[trust without confirmation]' '--all[with revoke\: revoke all consents]' '--json[print one JSON document]' '--project[project directory (default\: found from the current one)]:value:_files' '-v[print more detail; -vv prints tracebacks]' '--verbose[print more detail; -vv prints tracebacks]' '*:argument: _agent_worker_both named'
            ;;
        token)
            if (( CURRENT == 3 )); then
                choices=('create:Create a token and print it once.' 'list:List the valid tokens.' 'revoke:Revoke tokens, effective with their next request.')
                _describe -t verbs verb choices
                return
            fi
            case "$words[3]" in
                create)
                    shift 2 words; (( CURRENT -= 2 ))
                    _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--scope[permission level\: read, operate (also create and control work), or approve (also decide approvals; approve\:alice,bob\: only calls of these agents)]:value:(read operate approve)' '--name[name of the token in awk token list]:value: ' '--json[print one JSON document]'
                    ;;
                list)
                    shift 2 words; (( CURRENT -= 2 ))
                    _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--json[print one JSON document]'
                    ;;
                revoke)
                    shift 2 words; (( CURRENT -= 2 ))
                    _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--json[print one JSON document]' '*:argument: _agent_worker_live token'
                    ;;
            esac
            ;;
        mcp-serve)
            shift 1 words; (( CURRENT -= 1 ))
            _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--project[project directory (default\: found from the current one)]:value:_files' '-v[print more detail; -vv prints tracebacks]' '--verbose[print more detail; -vv prints tracebacks]'
            ;;
        node)
            if (( CURRENT == 3 )); then
                choices=('list:List the nodes with their state and problems.' 'add:Add a node that the project file does not define.' 'drain:Drain a node: running work continues, no new work starts there.' 'rm:Remove a node that awk node add created.')
                _describe -t verbs verb choices
                return
            fi
            case "$words[3]" in
                list)
                    shift 2 words; (( CURRENT -= 2 ))
                    _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--json[print one JSON document]'
                    ;;
                add)
                    shift 2 words; (( CURRENT -= 2 ))
                    _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--via[engine of the connection]:value:(ssh slurm kubectl docker ray command)' '--join[create a join token and print the command for the node]' '--host[ssh, slurm\: host of the node; with --join\: address of this kernel]:value: ' '--image[docker, kubectl\: image of the container to start]:value: ' '--container[docker\: running container; kubectl\: container of the pod]:value: ' '--pod[kubectl\: running pod]:value: ' '--namespace[kubectl\: namespace]:value: ' '--address[ray\: address of the cluster]:value: ' '--command[agent-worker program on the node (default\: agent-worker)]:value: ' '--label[label that agents can require; repeatable]:value: ' '--workers[maximum number of concurrent attempts (default\: 8)]:value: ' '--json[print one JSON document]' '1:argument: '
                    ;;
                drain)
                    shift 2 words; (( CURRENT -= 2 ))
                    _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--undo[make the node available again]' '--json[print one JSON document]' '1:argument: '
                    ;;
                rm)
                    shift 2 words; (( CURRENT -= 2 ))
                    _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--force[also if attempts run there; they run again elsewhere]' '--json[print one JSON document]' '1:argument: '
                    ;;
            esac
            ;;
        webhook)
            if (( CURRENT == 3 )); then
                choices=('list:List the webhooks of the project file with their state.' 'retry:Retry the deliveries of a webhook, also if its server answered 410.')
                _describe -t verbs verb choices
                return
            fi
            case "$words[3]" in
                list)
                    shift 2 words; (( CURRENT -= 2 ))
                    _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--json[print one JSON document]'
                    ;;
                retry)
                    shift 2 words; (( CURRENT -= 2 ))
                    _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--json[print one JSON document]' '1:argument: '
                    ;;
            esac
            ;;
        providers)
            shift 1 words; (( CURRENT -= 1 ))
            _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--json[print one JSON document]' '--project[project directory (default\: found from the current one)]:value:_files' '-v[print more detail; -vv prints tracebacks]' '--verbose[print more detail; -vv prints tracebacks]'
            ;;
        backends)
            shift 1 words; (( CURRENT -= 1 ))
            _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--json[print one JSON document]' '--project[project directory (default\: found from the current one)]:value:_files' '-v[print more detail; -vv prints tracebacks]' '--verbose[print more detail; -vv prints tracebacks]'
            ;;
        version)
            shift 1 words; (( CURRENT -= 1 ))
            _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--json[print one JSON document]' '--project[project directory (default\: found from the current one)]:value:_files' '-v[print more detail; -vv prints tracebacks]' '--verbose[print more detail; -vv prints tracebacks]'
            ;;
        help)
            shift 1 words; (( CURRENT -= 1 ))
            _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--project[project directory (default\: found from the current one)]:value:_files' '-v[print more detail; -vv prints tracebacks]' '--verbose[print more detail; -vv prints tracebacks]' '*:argument: '
            ;;
        *) if [[ $service == awk ]]; then _awk; else _default; fi ;;
    esac
}

if [ "$funcstack[1]" = _agent_worker ]; then
    _agent_worker "$@"
else
    compdef _agent_worker agent-worker awk
fi
