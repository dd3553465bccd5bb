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
        choices=('run:run a workflow to its end and report' 'send:send a message; --wait for what comes of it' 'ask:send a message and stream the answer' 'serve:send a message and print the answer as JSON' 'call:inside an attempt: call a tool of agents, without MCP' 'start:start the kernel, or a workflow that stays' 'stop:stop workflows or agents, or everything' 'status:say whether the kernel is up; starts nothing' 'service:have the system keep the kernel, and start it again when it died' 'restart:restart an agent'"'"'s worker, or the kernel' 'upgrade:have a new version go on with all that runs, and the old one if it cannot' 'backup:write the project'"'"'s state into one file, also while the kernel works' 'restore:put what awk backup or a standby wrote in the place of the state' 'standby:check the copy of a project'"'"'s log at another place' 'reset:give an agent work again, whatever kept it from it' 'pause:hold back the work of an agent or a workflow' 'resume:let paused work go on, or ask a provider again' 'continue:grant a workflow its limits, or an agent its budget, once more' 'approve:let a tool be called that waits for your approval' 'deny:refuse it, or take back what was approved once for all' 'answer:say what an agent says that is a person' 'space:list the spaces that agents opened, change who is in one, or close it' 'reassign:have another member asked in a person'"'"'s place' 'grant:let an agent do more than its file says, for a while or a few calls' 'proposal:see what agents vote on, vote too, or call a vote off' 'rule:see what follows from what, define rules, and try them on runs' 'task:see what is to be done, add to it, and say what is done' 'doc:read and write the documents that agents share' 'cancel:take instructions back' 'retry:try again what failed or is dead' 'clear:remove what was said and done in a space, for good' 'prune:remove what takes room and nobody needs any more' 'merge:merge what the agents of a run did into a branch: all of it, or nothing' 'promote:have an instruction done before those of other lanes' 'ps:list agents as processes' 'projects:list all your projects in which a kernel ran, and how each is' 'top:watch agents live (q quits)' 'open:show all of it in a browser, or print the address of the page' 'ls:list agents' 'list:list agents' 'peek:show the latest messages of an agent or workflow' 'channel:show the channel of a workflow' 'resource:print the long texts that messages refer to, or keep one for agents' 'inbox:show what an agent has not handled' 'queue:show what waits for an agent' 'needs:list what goes on only once you do something' 'pending:list what waits for your approval' 'audit:see who asked whose memory for what, and what was given' 'feedback:see what agents say of the work itself, or add to it' 'stats:show what work took: tokens, money, time, and how it ended' 'dead:list instructions that failed for good' 'runs:list runs of workflows, the newest first' 'show:show a run or an instruction' 'export:write all that was said and done in a run or a space into one file' 'import:check an archive and say what is in it; show and channel read it' 'diff:show what agents did in working trees of their own' 'attach:watch an agent or a workflow work, and approve its calls in place' 'worktree:list and remove the git working trees of agents' 'logs:show what workers and attempts did' 'events:show the kernel'"'"'s events' 'doctor:say what keeps agents from working here, and the way out' 'df:say what of the project'"'"'s state takes room, and how there is less of it' 'wait:wait until an agent, a run or an instruction is idle, done, or needs you' 'watch:follow a run to its end; --exit-status ends as the run does' 'new:make an agent that lives until the kernel stops' 'agent:create, change and delete agents; what they know, noted and have to do' 'memory:measure how well agents find again what was said' 'tool:list, make and mock the tools that agents can have' 'worker:check a program that is to be a worker' 'skills:list, import and update what agents can read up on' 'init:write example files into this project' 'validate:say everything that is wrong with the project'"'"'s files' 'config:show what a file comes to, and where each value is from' 'schema:print the JSON Schema of a file, for editors' 'completion:print a script that completes commands in your shell' 'trust:keep to trust what files would run or reach' 'token:make, list and take back tokens for programs of your own' 'mcp-serve:be an MCP server on standard input and output, for a coding agent' 'node:list the other machines on which agents work, add one, or be one' 'webhook:list the servers that are told what happens, and try one again' 'providers:list model providers and whether their keys are set' 'backends:list what can run an agent' 'version:print the version' 'help:explain a command, or a topic: targets, exit-codes, environment')
        _describe -t commands command choices
        return
    fi
    case "$words[2]" in
        run)
            shift 1 words; (( CURRENT -= 1 ))
            _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--tag[which instance of the workflow (default\: main)]:value: ' '--trust[let it run the commands its files name (setup, shell)]' '--update[look up again what a remote ref stands for, and pin that]' '--continue[go on with what was said in the run before]' '--timeout[end it after so long (30s, 10m)\: exit 124]:value: ' '--max-cost[end it once it has cost so much\: exit 6]:value: ' '--max-tokens[end it once it has used so many tokens\: exit 6]:value: ' '--exit-code-from[exit as the work of this agent ends, whatever that of others does]:value: _agent_worker_live agent' '--fail-on[never\: exit 0 once it has ended, however it did]:value:(error never)' '--approve[whether you are asked before a tool runs, whatever the agents'"'"' files say]:value:(auto ask all deny)' '--detach[return once it runs; what needs your approval waits for it (pending)]' '--report[also write\: github, junit\:FILE, md\:FILE, sarif\:FILE; several with commas]:value: ' '--rm[end the kernel afterwards, however it went, if this run started it]' '--dry-run[only say what would start; runs and asks nothing]' '--compare[run it in pairs with one agent that has all prompts and tools, and say which of both is worth it]:value:(solo)' '--repeat[with --compare\: this many pairs at most (default\: 10)]:value: ' '--check[with --compare\: a run succeeds if this shell command ends with 0 then]:value: ' '--margin[with --compare\: who fails in so much more of the runs is as good (default\: 0.2)]:value: ' '--seed[with --compare\: the order within the pairs, as it was then]:value: ' '--total-cost[with --compare\: what all runs together may cost]:value: ' '--total-tokens[with --compare\: how many tokens all may use together]:value: ' '--resume[with --compare\: go on with this comparison (c3)]:value: _agent_worker_live comparison' '--keep[with --compare\: keep the copy of the project that each run had]' '--json[print one JSON document]' '--jsonl[print one JSON object a line, as they come]' '--project[the project (default\: found from the working directory)]:value:_files' '-v[say more; -vv shows where an error arose]' '--verbose[say more; -vv shows where an error arose]' '1:argument: _agent_worker_both workflow'
            ;;
        send)
            shift 1 words; (( CURRENT -= 1 ))
            _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--batch[many messages, each a line {to, text} of JSON, in place of TARGET and MESSAGE; - reads standard input]:value:_files' '--wait[wait for the answers, and print them]' '--timeout[with --wait\: at most so long (30s, 5m)]:value: ' '--json[print one JSON document]' '--project[the project (default\: found from the working directory)]:value:_files' '-v[say more; -vv shows where an error arose]' '--verbose[say more; -vv shows where an error arose]' '1:argument: _agent_worker_live target' '2:argument: '
            ;;
        ask)
            shift 1 words; (( CURRENT -= 1 ))
            _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--json[print one JSON document]' '--jsonl[print one JSON object a line, as they come]' '--project[the project (default\: found from the working directory)]:value:_files' '-v[say more; -vv shows where an error arose]' '--verbose[say more; -vv shows where an error arose]' '1:argument: _agent_worker_live target' '2:argument: '
            ;;
        serve)
            shift 1 words; (( CURRENT -= 1 ))
            _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--json[what it does anyway]' '--project[the project (default\: found from the working directory)]:value:_files' '-v[say more; -vv shows where an error arose]' '--verbose[say more; -vv shows where an error arose]' '1:argument: _agent_worker_live target' '2:argument: '
            ;;
        call)
            shift 1 words; (( CURRENT -= 1 ))
            _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--key[the same call made again with this key takes effect once]:value: ' '--project[the project (default\: found from the working directory)]:value:_files' '-v[say more; -vv shows where an error arose]' '--verbose[say more; -vv shows where an error arose]' '1:argument:(ask_agent auth_grant auth_request auth_revoke channel_read channel_send feedback_submit handover_write history_read history_search memory_ask memory_forget memory_read memory_recall memory_tray memory_write my_inbox my_inbox_ack my_status_set note_read note_write resource_create resource_read rule_define rule_invoke rule_list share_with soul_reflect soul_suggest space_create space_members team_doc_accept team_doc_append team_doc_create team_doc_delete team_doc_history team_doc_list team_doc_read team_doc_reject team_doc_suggest team_doc_write team_members team_proposal_cancel team_proposal_create team_proposal_status team_task_claim team_task_done team_task_fail team_task_list team_task_plan team_task_split team_vote todo_add todo_done todo_list tree_commit tree_status tree_take)' '2:argument: '
            ;;
        start)
            shift 1 words; (( CURRENT -= 1 ))
            _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--tag[which instance of the workflow (default\: main)]:value: ' '--trust[let it run the commands its files name (setup, shell)]' '--update[look up again what a remote ref stands for, and pin that]' '--continue[go on with what was said in the run before]' '--foreground[stay, log to stderr, end with the kernel]' '--project[the project (default\: found from the working directory)]:value:_files' '-v[say more; -vv shows where an error arose]' '--verbose[say more; -vv shows where an error arose]' '1:argument: _agent_worker_both workflow'
            ;;
        stop)
            shift 1 words; (( CURRENT -= 1 ))
            _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--grace[how long running work may take to end (default\: 10s)]:value: ' '--now[no grace]' '--no-wait[do not wait until their processes have ended]' '--yes[do not ask]' '-A[the kernels of all your projects]' '--all-projects[the kernels of all your projects]' '--project[the project (default\: found from the working directory)]:value:_files' '-v[say more; -vv shows where an error arose]' '--verbose[say more; -vv shows where an error arose]' '*:argument: _agent_worker_live target'
            ;;
        status)
            shift 1 words; (( CURRENT -= 1 ))
            _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--json[print one JSON document]' '--project[the project (default\: found from the working directory)]:value:_files' '-v[say more; -vv shows where an error arose]' '--verbose[say more; -vv shows where an error arose]' '1:argument: _agent_worker_live target'
            ;;
        service)
            if (( CURRENT == 3 )); then
                choices=('print:Print the systemd user unit, or the launchd property list.' 'install:Write it, and start it where the service manager can be reached.' 'uninstall:Stop it and remove it.' 'run:Be the service of all projects: start the kernels that are needed, until stopped.')
                _describe -t verbs verb choices
                return
            fi
            case "$words[3]" in
                print)
                    shift 2 words; (( CURRENT -= 2 ))
                    _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--systemd[a systemd user unit (default, but on macOS)]' '--launchd[a launchd property list (default on macOS)]' '--all[one service for all projects\: it starts what is needed]' '--json[print one JSON document]'
                    ;;
                install)
                    shift 2 words; (( CURRENT -= 2 ))
                    _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--systemd[a systemd user unit (default, but on macOS)]' '--launchd[a launchd property list (default on macOS)]' '--all[one service for all projects\: it starts what is needed]' '--json[print one JSON document]'
                    ;;
                uninstall)
                    shift 2 words; (( CURRENT -= 2 ))
                    _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--systemd[a systemd user unit (default, but on macOS)]' '--launchd[a launchd property list (default on macOS)]' '--all[one service for all projects\: it starts what is needed]' '--json[print one JSON document]'
                    ;;
                run)
                    shift 2 words; (( CURRENT -= 2 ))
                    _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--json[print one JSON document]'
                    ;;
            esac
            ;;
        restart)
            shift 1 words; (( CURRENT -= 1 ))
            _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--kernel[the kernel\: what runs goes on after its last entry]' '--trust[let it run the commands its files name (setup, shell)]' '--json[print one JSON document]' '--project[the project (default\: found from the working directory)]:value:_files' '-v[say more; -vv shows where an error arose]' '--verbose[say more; -vv shows where an error arose]' '1:argument: _agent_worker_live target'
            ;;
        upgrade)
            shift 1 words; (( CURRENT -= 1 ))
            _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--to[a virtual environment or its agent-worker (default\: what is installed now)]:value: ' '--status[only say how the last one went]' '--json[print one JSON document]' '--project[the project (default\: found from the working directory)]:value:_files' '-v[say more; -vv shows where an error arose]' '--verbose[say more; -vv shows where an error arose]'
            ;;
        backup)
            shift 1 words; (( CURRENT -= 1 ))
            _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--force[replace a file of that name]' '--json[print one JSON document]' '--project[the project (default\: found from the working directory)]:value:_files' '-v[say more; -vv shows where an error arose]' '--verbose[say more; -vv shows where an error arose]' 1:argument:_files
            ;;
        restore)
            shift 1 words; (( CURRENT -= 1 ))
            _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--promote[go on with a standby\: its original must not run again]' '--force[set aside what is there first, and say where; with --promote, also where the original may run]' '--trust[keep its consents and commands\: only for a backup that you made yourself (or AGENT_WORKER_TRUST=1)]' '--json[print one JSON document]' '--project[the project (default\: found from the working directory)]:value:_files' '-v[say more; -vv shows where an error arose]' '--verbose[say more; -vv shows where an error arose]' 1:argument:_files
            ;;
        standby)
            if (( CURRENT == 3 )); then
                choices=('check:Put a copy together elsewhere, and say up to when it goes; changes nothing.')
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
            _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--json[print one JSON document]' '--project[the project (default\: found from the working directory)]:value:_files' '-v[say more; -vv shows where an error arose]' '--verbose[say more; -vv shows where an error arose]' '1:argument: _agent_worker_live target'
            ;;
        pause)
            shift 1 words; (( CURRENT -= 1 ))
            _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--json[print one JSON document]' '--project[the project (default\: found from the working directory)]:value:_files' '-v[say more; -vv shows where an error arose]' '--verbose[say more; -vv shows where an error arose]' '1:argument: _agent_worker_live target'
            ;;
        resume)
            shift 1 words; (( CURRENT -= 1 ))
            _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--json[print one JSON document]' '--project[the project (default\: found from the working directory)]:value:_files' '-v[say more; -vv shows where an error arose]' '--verbose[say more; -vv shows where an error arose]' '1:argument: _agent_worker_live target'
            ;;
        continue)
            shift 1 words; (( CURRENT -= 1 ))
            _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--json[print one JSON document]' '--project[the project (default\: found from the working directory)]:value:_files' '-v[say more; -vv shows where an error arose]' '--verbose[say more; -vv shows where an error arose]' '1:argument: _agent_worker_live target'
            ;;
        approve)
            shift 1 words; (( CURRENT -= 1 ))
            _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--reason[kept with the decision; who is denied reads it]:value: ' '--json[print one JSON document]' '--always[grant every call of this tool by this agent, now and from now on, whose whole input, as pending shows it, fits PATTERN\: '"'"'{"command"\:"git *"}'"'"'; * is any text, and here covers '"'"'git x; rm -rf ~'"'"' too]:value: ' '--all-agents[with --always\: whichever agent makes it]' '--project[the project (default\: found from the working directory)]:value:_files' '-v[say more; -vv shows where an error arose]' '--verbose[say more; -vv shows where an error arose]' '*:argument: _agent_worker_live approval'
            ;;
        deny)
            shift 1 words; (( CURRENT -= 1 ))
            _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--reason[kept with the decision; who is denied reads it]:value: ' '--json[print one JSON document]' '--project[the project (default\: found from the working directory)]:value:_files' '-v[say more; -vv shows where an error arose]' '--verbose[say more; -vv shows where an error arose]' '*:argument: _agent_worker_live deniable'
            ;;
        answer)
            shift 1 words; (( CURRENT -= 1 ))
            _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--as[refuse it where somebody else is asked by now]:value: _agent_worker_live agent' '--json[print one JSON document]' '--project[the project (default\: found from the working directory)]:value:_files' '-v[say more; -vv shows where an error arose]' '--verbose[say more; -vv shows where an error arose]' '1:argument: _agent_worker_live instruction' '2:argument: '
            ;;
        space)
            if (( CURRENT == 3 )); then
                choices=('list:List what agents opened, who is in it, and whether it is open.' 'members:Let members of the run into a space, or have them leave.' 'close:Close a space; the work in it is cancelled.')
                _describe -t verbs verb choices
                return
            fi
            case "$words[3]" in
                list)
                    shift 2 words; (( CURRENT -= 2 ))
                    _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--run[those of this run (r12), closed ones too]:value: _agent_worker_live run' '--json[print one JSON document]'
                    ;;
                members)
                    shift 2 words; (( CURRENT -= 2 ))
                    _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--add[who joins; may be repeated]:value: ' '--remove[who leaves; may be repeated]:value: ' '--json[print one JSON document]' '1:argument: _agent_worker_live space'
                    ;;
                close)
                    shift 2 words; (( CURRENT -= 2 ))
                    _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--json[print one JSON document]' '1:argument: _agent_worker_live space'
                    ;;
            esac
            ;;
        reassign)
            shift 1 words; (( CURRENT -= 1 ))
            _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--json[print one JSON document]' '--project[the project (default\: found from the working directory)]:value:_files' '-v[say more; -vv shows where an error arose]' '--verbose[say more; -vv shows where an error arose]' '1:argument: _agent_worker_live instruction' '2:argument: _agent_worker_live agent'
            ;;
        grant)
            if (( CURRENT == 3 )); then
                choices=('list:List what was given, by whom, and what it comes to now.' 'give:Give an agent a scope that its file does not give it.' 'revoke:Take a grant back, and with it what was handed on from it.')
                _describe -t verbs verb choices
                return
            fi
            case "$words[3]" in
                list)
                    shift 2 words; (( CURRENT -= 2 ))
                    _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '-n[the first N (default\: 1000; 0\: all)]:value: ' '--json[print one JSON document]' '1:argument: _agent_worker_live channel'
                    ;;
                give)
                    shift 2 words; (( CURRENT -= 2 ))
                    _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--to[who gets it, such as alice@review]:value: _agent_worker_live target' '--until[for so long (2h), or to this time (2026-11-22T18\:00\:00Z)]:value: ' '--uses[for so many calls]:value: ' '--json[print one JSON document]' '1:argument:(channel.read channel.write documents.read documents.write tasks votes status memory ask feedback rules auth spaces)'
                    ;;
                revoke)
                    shift 2 words; (( CURRENT -= 2 ))
                    _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--json[print one JSON document]' '1:argument: _agent_worker_live grant'
                    ;;
            esac
            ;;
        proposal)
            if (( CURRENT == 3 )); then
                choices=('list:List what is put to the vote, or was in one workflow.' 'show:Show one proposal, its votes and what came of it.' 'vote:Vote yourself; a vote is final.' 'cancel:Call a vote off, so that nobody wins.')
                _describe -t verbs verb choices
                return
            fi
            case "$words[3]" in
                list)
                    shift 2 words; (( CURRENT -= 2 ))
                    _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--all[without a workflow\: those that have ended too]' '-n[the first N (default\: 1000; 0\: all)]:value: ' '--archive[read it in what awk export wrote, without a kernel]:value:_files' '--json[print one JSON document]' '1:argument: _agent_worker_live channel'
                    ;;
                show)
                    shift 2 words; (( CURRENT -= 2 ))
                    _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--archive[read it in what awk export wrote, without a kernel]:value:_files' '--json[print one JSON document]' '1:argument: _agent_worker_live any_proposal'
                    ;;
                vote)
                    shift 2 words; (( CURRENT -= 2 ))
                    _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--reason[kept with your vote; the members read it]:value: ' '--json[print one JSON document]' '1:argument: _agent_worker_live proposal' '2:argument: _agent_worker_live choice'
                    ;;
                cancel)
                    shift 2 words; (( CURRENT -= 2 ))
                    _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--reason[the members read it]:value: ' '--json[print one JSON document]' '1:argument: _agent_worker_live proposal'
                    ;;
            esac
            ;;
        rule)
            if (( CURRENT == 3 )); then
                choices=('list:List the rules of a workflow: whose they are, and how often they were done.' 'show:Show one rule as it is now.' 'add:Define the rules of a file, or define them anew.' 'rm:Switch rules off; they are kept, and do nothing.' 'test:Say what a rule would have done in a run; nothing is done.')
                _describe -t verbs verb choices
                return
            fi
            case "$words[3]" in
                list)
                    shift 2 words; (( CURRENT -= 2 ))
                    _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--json[print one JSON document]' '1:argument: _agent_worker_live channel'
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
                    _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--run[whose messages are looked at]:value: _agent_worker_live run' '--json[print one JSON document]' '1:argument: _agent_worker_both rule'
                    ;;
            esac
            ;;
        task)
            if (( CURRENT == 3 )); then
                choices=('list:List the tasks of a workflow: what is ready, and who is at which.' 'show:Show one task, what it waits for and what came of it.' 'add:Add a task; one that is for an agent is given to it.' 'claim:Claim tasks, so that no agent does them.' 'done:Count tasks as done, so that what needs them goes on.' 'fail:Count tasks as failed.' 'cancel:Cancel tasks that are not over.' 'graph:Show what waits for what.')
                _describe -t verbs verb choices
                return
            fi
            case "$words[3]" in
                list)
                    shift 2 words; (( CURRENT -= 2 ))
                    _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--state[only those in this state]:value:(open ready claimed done failed cancelled)' '--for[only those for this agent, or claimed by it]:value: _agent_worker_live agent' '-n[the first N (default\: 1000; 0\: all)]:value: ' '--archive[read it in what awk export wrote, without a kernel]:value:_files' '--json[print one JSON document]' '1:argument: _agent_worker_live channel'
                    ;;
                show)
                    shift 2 words; (( CURRENT -= 2 ))
                    _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--archive[read it in what awk export wrote, without a kernel]:value:_files' '--json[print one JSON document]' '1:argument: _agent_worker_live channel' '2:argument: _agent_worker_live task'
                    ;;
                add)
                    shift 2 words; (( CURRENT -= 2 ))
                    _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--text[all that one needs to do it]:value: ' '--key[a name for it, beside its id]:value: ' '--for[who does it; without it whoever claims it]:value: _agent_worker_live agent' '--needs[what has to be done before]:value: _agent_worker_live task' '--parent[what it is a part of]:value: _agent_worker_live task' '--files[what nobody else changes then]:value: ' '--check[a command that has to end with 0 before it is done]:value: ' '--on-failure[if one that it needs fails]:value:(hold skip cancel)' '--json[print one JSON document]' '1:argument: _agent_worker_live channel' '2:argument: '
                    ;;
                claim)
                    shift 2 words; (( CURRENT -= 2 ))
                    _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--json[print one JSON document]' '1:argument: _agent_worker_live channel' '*:argument: _agent_worker_live task'
                    ;;
                done)
                    shift 2 words; (( CURRENT -= 2 ))
                    _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--result[what came of it; the members read it]:value: ' '--json[print one JSON document]' '1:argument: _agent_worker_live channel' '*:argument: _agent_worker_live task'
                    ;;
                fail)
                    shift 2 words; (( CURRENT -= 2 ))
                    _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--reason[why; the members read it]:value: ' '--json[print one JSON document]' '1:argument: _agent_worker_live channel' '*:argument: _agent_worker_live task'
                    ;;
                cancel)
                    shift 2 words; (( CURRENT -= 2 ))
                    _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--reason[the members read it]:value: ' '--json[print one JSON document]' '1:argument: _agent_worker_live channel' '*:argument: _agent_worker_live task'
                    ;;
                graph)
                    shift 2 words; (( CURRENT -= 2 ))
                    _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '-n[only N tasks (default\: all; 0\: all)]:value: ' '--archive[read it in what awk export wrote, without a kernel]:value:_files' '--json[print one JSON document]' '1:argument: _agent_worker_live channel'
                    ;;
            esac
            ;;
        doc)
            if (( CURRENT == 3 )); then
                choices=('list:List the documents of a workflow.' 'read:Print a document, or an older version of it.' 'write:Write the whole text of a document.' 'append:Add to the end of a document.' 'create:Make a document that is not there.' 'delete:Delete a document; its history stays.' 'history:List the versions of a document, the newest first.' 'diff:Show what a version changed.' 'blame:Show who wrote each line, and in which version.' 'suggestions:List what agents suggest.' 'accept:Make a suggestion the newest version.' 'reject:Decide that a suggestion is not taken.')
                _describe -t verbs verb choices
                return
            fi
            case "$words[3]" in
                list)
                    shift 2 words; (( CURRENT -= 2 ))
                    _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '-n[the first N (default\: 1000; 0\: all)]:value: ' '--archive[read it in what awk export wrote, without a kernel]:value:_files' '--json[print one JSON document]' '1:argument: _agent_worker_live channel'
                    ;;
                read)
                    shift 2 words; (( CURRENT -= 2 ))
                    _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--version[an older version]:value: ' '--archive[read it in what awk export wrote, without a kernel]:value:_files' '--json[print one JSON document]' '1:argument: _agent_worker_live channel' '2:argument: _agent_worker_live document'
                    ;;
                write)
                    shift 2 words; (( CURRENT -= 2 ))
                    _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--reason[kept with the version]:value: ' '--if-version[the version that it was made from\: what changed since is merged with it, or refused where it touches it]:value: ' '--json[print one JSON document]' '1:argument: _agent_worker_live channel' '2:argument: _agent_worker_live document' '3:argument: '
                    ;;
                append)
                    shift 2 words; (( CURRENT -= 2 ))
                    _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--reason[kept with the version]:value: ' '--json[print one JSON document]' '1:argument: _agent_worker_live channel' '2:argument: _agent_worker_live document' '3:argument: '
                    ;;
                create)
                    shift 2 words; (( CURRENT -= 2 ))
                    _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--reason[kept with the version]:value: ' '--json[print one JSON document]' '1:argument: _agent_worker_live channel' '2:argument: _agent_worker_live document' '3:argument: '
                    ;;
                delete)
                    shift 2 words; (( CURRENT -= 2 ))
                    _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--if-version[only if this is its newest version]:value: ' '--reason[kept with the version]:value: ' '--json[print one JSON document]' '1:argument: _agent_worker_live channel' '2:argument: _agent_worker_live document'
                    ;;
                history)
                    shift 2 words; (( CURRENT -= 2 ))
                    _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '-n[the first N (default\: 1000; 0\: all)]:value: ' '--archive[read it in what awk export wrote, without a kernel]:value:_files' '--json[print one JSON document]' '1:argument: _agent_worker_live channel' '2:argument: _agent_worker_live document'
                    ;;
                diff)
                    shift 2 words; (( CURRENT -= 2 ))
                    _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--from[(default\: the version before)]:value: ' '--to[(default\: the newest version)]:value: ' '--json[print one JSON document]' '1:argument: _agent_worker_live channel' '2:argument: _agent_worker_live document'
                    ;;
                blame)
                    shift 2 words; (( CURRENT -= 2 ))
                    _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--json[print one JSON document]' '1:argument: _agent_worker_live channel' '2:argument: _agent_worker_live document'
                    ;;
                suggestions)
                    shift 2 words; (( CURRENT -= 2 ))
                    _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--all[those that are decided too]' '-n[the first N (default\: 1000; 0\: all)]:value: ' '--archive[read it in what awk export wrote, without a kernel]:value:_files' '--json[print one JSON document]' '1:argument: _agent_worker_live channel'
                    ;;
                accept)
                    shift 2 words; (( CURRENT -= 2 ))
                    _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--reason[the members read it]:value: ' '--json[print one JSON document]' '1:argument: _agent_worker_live channel' '2:argument: _agent_worker_live suggestion'
                    ;;
                reject)
                    shift 2 words; (( CURRENT -= 2 ))
                    _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--reason[the members read it]:value: ' '--json[print one JSON document]' '1:argument: _agent_worker_live channel' '2:argument: _agent_worker_live suggestion'
                    ;;
            esac
            ;;
        cancel)
            shift 1 words; (( CURRENT -= 1 ))
            _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--agent[all of this agent\: alice, alice@review\[\:tag\]]:value: _agent_worker_live agent' '--dry-run[only say which it would be]' '--json[print one JSON document]' '--queued[only what no worker is at\: what runs goes on]' '--yes[do not ask about many]' '--project[the project (default\: found from the working directory)]:value:_files' '-v[say more; -vv shows where an error arose]' '--verbose[say more; -vv shows where an error arose]' '*:argument: _agent_worker_live steered'
            ;;
        retry)
            shift 1 words; (( CURRENT -= 1 ))
            _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--agent[all of this agent\: alice, alice@review\[\:tag\]]:value: _agent_worker_live agent' '--dry-run[only say which it would be]' '--json[print one JSON document]' '--all[all that dead lists]' '--fresh[from the beginning; what its calls did may happen twice]' '--project[the project (default\: found from the working directory)]:value:_files' '-v[say more; -vv shows where an error arose]' '--verbose[say more; -vv shows where an error arose]' '*:argument: _agent_worker_live steered'
            ;;
        clear)
            shift 1 words; (( CURRENT -= 1 ))
            _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--run[of a workflow only this run (r12; default\: all its runs)]:value: _agent_worker_live run' '--yes[do not ask]' '--force[also working trees with work that is nowhere else]' '--json[print one JSON document]' '--project[the project (default\: found from the working directory)]:value:_files' '-v[say more; -vv shows where an error arose]' '--verbose[say more; -vv shows where an error arose]' '1:argument: _agent_worker_live exported'
            ;;
        prune)
            shift 1 words; (( CURRENT -= 1 ))
            _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--dry-run[say what would go, and why, and remove nothing]' '--yes[do not ask]' '--json[print one JSON document]' '--project[the project (default\: found from the working directory)]:value:_files' '-v[say more; -vv shows where an error arose]' '--verbose[say more; -vv shows where an error arose]' '*:argument:(trees unfinished logs aside comparisons attempts database)'
            ;;
        merge)
            shift 1 words; (( CURRENT -= 1 ))
            _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--agent[only the branch of this agent; else those of all of them]:value: ' '--into[merge into this one; else into that which the run began from]:value: ' '--squash[one commit for all of it, in place of a merge of each branch]' '--check[a shell command that has to succeed on the result before anything is changed]:value: ' '--return[what cannot be merged becomes work for the agent whose it is; exits with 1 all the same]' '--dry-run[only say what would come of it; changes nothing and runs no check]' '--json[print one JSON document]' '--project[the project (default\: found from the working directory)]:value:_files' '-v[say more; -vv shows where an error arose]' '--verbose[say more; -vv shows where an error arose]' '1:argument: _agent_worker_live merged'
            ;;
        promote)
            shift 1 words; (( CURRENT -= 1 ))
            _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--json[print one JSON document]' '--project[the project (default\: found from the working directory)]:value:_files' '-v[say more; -vv shows where an error arose]' '--verbose[say more; -vv shows where an error arose]' '*:argument: _agent_worker_live instruction'
            ;;
        ps)
            shift 1 words; (( CURRENT -= 1 ))
            _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '-a[agents of workflows that have ended, too]' '--all[agents of workflows that have ended, too]' '-A[of all your projects whose kernel runs]' '--all-projects[of all your projects whose kernel runs]' '-q[only names, as other commands take them]' '--quiet[only names, as other commands take them]' '--sort[by a column\: the largest number first; -COLUMN\: the last first]:value: ' '-o[only these, in this order\: name,state,cost]:value: ' '--columns[only these, in this order\: name,state,cost]:value: ' '--json[print one JSON document]' '--project[the project (default\: found from the working directory)]:value:_files' '-v[say more; -vv shows where an error arose]' '--verbose[say more; -vv shows where an error arose]' '1:argument: _agent_worker_live target'
            ;;
        projects)
            shift 1 words; (( CURRENT -= 1 ))
            _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--json[print one JSON document]' '--project[the project (default\: found from the working directory)]:value:_files' '-v[say more; -vv shows where an error arose]' '--verbose[say more; -vv shows where an error arose]'
            ;;
        top)
            shift 1 words; (( CURRENT -= 1 ))
            _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--json[print one JSON document]' '--project[the project (default\: found from the working directory)]:value:_files' '-v[say more; -vv shows where an error arose]' '--verbose[say more; -vv shows where an error arose]'
            ;;
        open)
            shift 1 words; (( CURRENT -= 1 ))
            _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--read-only[let the page look, and change nothing]' '--print[print the address, good for one browser in the next minute]' '--json[print one JSON document]' '--project[the project (default\: found from the working directory)]:value:_files' '-v[say more; -vv shows where an error arose]' '--verbose[say more; -vv shows where an error arose]'
            ;;
        ls)
            shift 1 words; (( CURRENT -= 1 ))
            _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--json[print one JSON document]' '--project[the project (default\: found from the working directory)]:value:_files' '-v[say more; -vv shows where an error arose]' '--verbose[say more; -vv shows where an error arose]'
            ;;
        list)
            shift 1 words; (( CURRENT -= 1 ))
            _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--json[print one JSON document]' '--project[the project (default\: found from the working directory)]:value:_files' '-v[say more; -vv shows where an error arose]' '--verbose[say more; -vv shows where an error arose]'
            ;;
        peek)
            shift 1 words; (( CURRENT -= 1 ))
            _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '-n[the last N (default\: 50; 0\: all)]:value: ' '-f[go on as messages come]' '--follow[go on as messages come]' '--archive[read it in what awk export wrote, without a kernel]:value:_files' '--json[print one JSON document]' '--jsonl[print one JSON object a line, as they come]' '--project[the project (default\: found from the working directory)]:value:_files' '-v[say more; -vv shows where an error arose]' '--verbose[say more; -vv shows where an error arose]' '1:argument: _agent_worker_live target'
            ;;
        channel)
            shift 1 words; (( CURRENT -= 1 ))
            _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--run[only what was said in that run (r12), also an earlier one]:value: _agent_worker_live run' '-n[the last N (default\: 50; 0\: all)]:value: ' '-f[go on as messages come]' '--follow[go on as messages come]' '--archive[read it in what awk export wrote, without a kernel]:value:_files' '--json[print one JSON document]' '--jsonl[print one JSON object a line, as they come]' '--project[the project (default\: found from the working directory)]:value:_files' '-v[say more; -vv shows where an error arose]' '--verbose[say more; -vv shows where an error arose]' '1:argument: _agent_worker_live channel'
            ;;
        resource)
            if (( CURRENT == 3 )); then
                choices=('list:List the long texts of all spaces, or of one.' 'get:Print one, exactly as it is.' 'add:Keep a text where agents can read it, and print its id.')
                _describe -t verbs verb choices
                return
            fi
            case "$words[3]" in
                list)
                    shift 2 words; (( CURRENT -= 2 ))
                    _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '-n[the first N (default\: 1000; 0\: all)]:value: ' '--json[print one JSON document]' '1:argument: _agent_worker_live target'
                    ;;
                get)
                    shift 2 words; (( CURRENT -= 2 ))
                    _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--offset[from this character on (default\: 0)]:value: ' '--limit[at most so many characters (default\: all)]:value: ' '--archive[read it in what awk export wrote, without a kernel]:value:_files' '--json[print one JSON document]' '1:argument: _agent_worker_live resource'
                    ;;
                add)
                    shift 2 words; (( CURRENT -= 2 ))
                    _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--type[its media type (default\: text/plain)]:value: ' '--json[print one JSON document]' '1:argument: _agent_worker_live target' '2:argument: '
                    ;;
            esac
            ;;
        inbox)
            shift 1 words; (( CURRENT -= 1 ))
            _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '-n[the first N (default\: 200; 0\: all)]:value: ' '--json[print one JSON document]' '--project[the project (default\: found from the working directory)]:value:_files' '-v[say more; -vv shows where an error arose]' '--verbose[say more; -vv shows where an error arose]' '1:argument: _agent_worker_live target'
            ;;
        queue)
            shift 1 words; (( CURRENT -= 1 ))
            _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '-n[the first N (default\: 1000; 0\: all)]:value: ' '--json[print one JSON document]' '--project[the project (default\: found from the working directory)]:value:_files' '-v[say more; -vv shows where an error arose]' '--verbose[say more; -vv shows where an error arose]' '1:argument: _agent_worker_live target'
            ;;
        needs)
            shift 1 words; (( CURRENT -= 1 ))
            _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '-f[go on\: say what comes, and what is settled]' '--follow[go on\: say what comes, and what is settled]' '-A[of all your projects whose kernel runs, not of this one alone]' '--all-projects[of all your projects whose kernel runs, not of this one alone]' '-n[the first N (default\: 1000; 0\: all)]:value: ' '--json[print one JSON document]' '--project[the project (default\: found from the working directory)]:value:_files' '-v[say more; -vv shows where an error arose]' '--verbose[say more; -vv shows where an error arose]'
            ;;
        pending)
            shift 1 words; (( CURRENT -= 1 ))
            _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--rules[what approve --always granted; deny ID takes it back]' '-n[the first N (default\: 1000; 0\: all)]:value: ' '--json[print one JSON document]' '--project[the project (default\: found from the working directory)]:value:_files' '-v[say more; -vv shows where an error arose]' '--verbose[say more; -vv shows where an error arose]' '1:argument: _agent_worker_live approval'
            ;;
        audit)
            shift 1 words; (( CURRENT -= 1 ))
            _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--agent[only where this agent asked, or was asked]:value: _agent_worker_live agent' '-n[the first N (default\: 1000; 0\: all)]:value: ' '--json[print one JSON document]' '--project[the project (default\: found from the working directory)]:value:_files' '-v[say more; -vv shows where an error arose]' '--verbose[say more; -vv shows where an error arose]'
            ;;
        feedback)
            if (( CURRENT == 3 )); then
                choices=('list:List what was said about the work.' 'add:Add something yourself.')
                _describe -t verbs verb choices
                return
            fi
            case "$words[3]" in
                list)
                    shift 2 words; (( CURRENT -= 2 ))
                    _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '-n[the last N (default\: 1000; 0\: all)]:value: ' '--json[print one JSON document]'
                    ;;
                add)
                    shift 2 words; (( CURRENT -= 2 ))
                    _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--json[print one JSON document]' '1:argument: '
                    ;;
            esac
            ;;
        stats)
            shift 1 words; (( CURRENT -= 1 ))
            _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--by[part it by agent, workflow, model or day (of UTC), or by two of them\: day,model]:value: ' '--since[only what ended since then\: 7d, 2h, 2026-11-01, or a time such as 2026-11-01T12\:00\:00Z]:value: ' '--until[and before then (default\: now)]:value: ' '--json[print one JSON document]' '--project[the project (default\: found from the working directory)]:value:_files' '-v[say more; -vv shows where an error arose]' '--verbose[say more; -vv shows where an error arose]' '1:argument: _agent_worker_live target'
            ;;
        dead)
            shift 1 words; (( CURRENT -= 1 ))
            _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--clear[list what failed until now no more; show and retry still know it]' '-n[the last N (default\: 1000; 0\: all)]:value: ' '--json[print one JSON document]' '--project[the project (default\: found from the working directory)]:value:_files' '-v[say more; -vv shows where an error arose]' '--verbose[say more; -vv shows where an error arose]'
            ;;
        runs)
            shift 1 words; (( CURRENT -= 1 ))
            _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--status[only those that run, or that ended so]:value:(running stopped done failed incomplete rejected cancelled timeout)' '--since[only those started in the last 10m, 2h, 7d, ...]:value: ' '-n[the newest N (default\: 100; 0\: all)]:value: ' '--json[print one JSON document]' '--project[the project (default\: found from the working directory)]:value:_files' '-v[say more; -vv shows where an error arose]' '--verbose[say more; -vv shows where an error arose]' '1:argument: _agent_worker_live channel'
            ;;
        show)
            shift 1 words; (( CURRENT -= 1 ))
            _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--prompt[of an instruction\: what the model is told first]' '--steps[of an instruction\: what was done, call by call]' '--full[with --steps\: all of arguments and results, however long]' '-n[with --steps\: the first N (default\: 1000; 0\: all)]:value: ' '--archive[read it in what awk export wrote, without a kernel]:value:_files' '--json[print one JSON document]' '--project[the project (default\: found from the working directory)]:value:_files' '-v[say more; -vv shows where an error arose]' '--verbose[say more; -vv shows where an error arose]' '1:argument: _agent_worker_live shown'
            ;;
        export)
            shift 1 words; (( CURRENT -= 1 ))
            _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--format[jsonl, which import reads; md, a page for people]:value:(jsonl md)' '-o[write it there, whole or not at all]:value:_files' '--output[write it there, whole or not at all]:value:_files' '--json[with -o\: print one JSON document about the file]' '--project[the project (default\: found from the working directory)]:value:_files' '-v[say more; -vv shows where an error arose]' '--verbose[say more; -vv shows where an error arose]' '1:argument: _agent_worker_live exported'
            ;;
        import)
            shift 1 words; (( CURRENT -= 1 ))
            _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--json[print one JSON document]' '--project[the project (default\: found from the working directory)]:value:_files' '-v[say more; -vv shows where an error arose]' '--verbose[say more; -vv shows where an error arose]' 1:argument:_files
            ;;
        diff)
            shift 1 words; (( CURRENT -= 1 ))
            _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--stat[files and numbers of lines only]' '--json[print one JSON document]' '--project[the project (default\: found from the working directory)]:value:_files' '-v[say more; -vv shows where an error arose]' '--verbose[say more; -vv shows where an error arose]' '1:argument: _agent_worker_live diffed'
            ;;
        attach)
            shift 1 words; (( CURRENT -= 1 ))
            _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--jsonl[print one JSON object a line, as they come]' '--project[the project (default\: found from the working directory)]:value:_files' '-v[say more; -vv shows where an error arose]' '--verbose[say more; -vv shows where an error arose]' '1:argument: _agent_worker_live target'
            ;;
        worktree)
            if (( CURRENT == 3 )); then
                choices=('list:List the working trees there are.' 'rm:Remove those of a run that has ended.' 'prune:Remove all of ended runs in which nothing would be lost.')
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
                    _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--run[of this run (r12), which has ended]:value: _agent_worker_live run' '--force[also work that is nowhere else\: it does not come back]' '--json[print one JSON document]' '*:argument: _agent_worker_live agent'
                    ;;
                prune)
                    shift 2 words; (( CURRENT -= 2 ))
                    _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--run[only of this run (r12)]:value: _agent_worker_live run' '--json[print one JSON document]'
                    ;;
            esac
            ;;
        logs)
            shift 1 words; (( CURRENT -= 1 ))
            _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--previous[its last attempt that ended; without a target the kernel before this]' '--level[only what is at least so grave]:value:(debug info warning error)' '-n[the last N lines; with -f before those that come (default\: all; 0\: all)]:value: ' '-f[go on as they come; without --since from now on]' '--follow[go on as they come; without --since from now on]' '--since[only those of the last 10m, 2h, ...]:value: ' '--jsonl[print one JSON object a line, as they come]' '--project[the project (default\: found from the working directory)]:value:_files' '-v[say more; -vv shows where an error arose]' '--verbose[say more; -vv shows where an error arose]' '1:argument: _agent_worker_live target'
            ;;
        events)
            shift 1 words; (( CURRENT -= 1 ))
            _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '-f[go on as they come; without --since from now on]' '--follow[go on as they come; without --since from now on]' '--since[only those of the last 10m, 2h, ...]:value: ' '--jsonl[print one JSON object a line, as they come]' '--project[the project (default\: found from the working directory)]:value:_files' '-v[say more; -vv shows where an error arose]' '--verbose[say more; -vv shows where an error arose]'
            ;;
        doctor)
            shift 1 words; (( CURRENT -= 1 ))
            _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--json[print one JSON document]' '--project[the project (default\: found from the working directory)]:value:_files' '-v[say more; -vv shows where an error arose]' '--verbose[say more; -vv shows where an error arose]'
            ;;
        df)
            shift 1 words; (( CURRENT -= 1 ))
            _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '-n[so many runs at most (0\: all)]:value: ' '--json[print one JSON document]' '--project[the project (default\: found from the working directory)]:value:_files' '-v[say more; -vv shows where an error arose]' '--verbose[say more; -vv shows where an error arose]'
            ;;
        wait)
            shift 1 words; (( CURRENT -= 1 ))
            _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--for[idle\: has nothing to do; done\: has ended (a run, an instruction, a workflow); needs\: needs a person]:value:(idle done needs)' '--timeout[for so long at most (10s, 5m); then exit code 124]:value: ' '--json[print one JSON document]' '--project[the project (default\: found from the working directory)]:value:_files' '-v[say more; -vv shows where an error arose]' '--verbose[say more; -vv shows where an error arose]' '1:argument: _agent_worker_live target'
            ;;
        watch)
            shift 1 words; (( CURRENT -= 1 ))
            _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--exit-status[end with the exit code that run would have had]' '--json[print one JSON document]' '--jsonl[print one JSON object a line, as they come]' '--project[the project (default\: found from the working directory)]:value:_files' '-v[say more; -vv shows where an error arose]' '--verbose[say more; -vv shows where an error arose]' '1:argument: _agent_worker_live merged'
            ;;
        new)
            shift 1 words; (( CURRENT -= 1 ))
            _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '-m[provider/name, or an alias]:value: ' '--model[provider/name, or an alias]:value: ' '-b[what runs it (default\: sdk)]:value: ' '--backend[what runs it (default\: sdk)]:value: ' '-s[its system prompt (default\: a short one)]:value: ' '--system[its system prompt (default\: a short one)]:value: ' '--json[print one JSON document]' '--project[the project (default\: found from the working directory)]:value:_files' '-v[say more; -vv shows where an error arose]' '--verbose[say more; -vv shows where an error arose]' '1:argument: '
            ;;
        agent)
            if (( CURRENT == 3 )); then
                choices=('list:List the agents of the project.' 'info:Show what an agent is.' 'create:Write the file of a new agent.' 'edit:Change the file of an agent, in an editor or by KEY=VALUE.' 'delete:Move an agent and its context to the trash.' 'memory:Show or change what an agent knows.' 'notes:Show or add notes of an agent.' 'soul:Show who an agent is, and decide what it suggests of that.' 'todo:Show or change what an agent has to do.' 'reindex:Make the index of what agents said and did anew.')
                _describe -t verbs verb choices
                return
            fi
            case "$words[3]" in
                list)
                    shift 2 words; (( CURRENT -= 2 ))
                    _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--json[print one JSON document]'
                    ;;
                info)
                    shift 2 words; (( CURRENT -= 2 ))
                    _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--json[print one JSON document]' '1:argument: _agent_worker_live agent'
                    ;;
                create)
                    shift 2 words; (( CURRENT -= 2 ))
                    _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '-m[provider/name, or an alias]:value: ' '--model[provider/name, or an alias]:value: ' '-b[what runs it (default\: sdk)]:value: ' '--backend[what runs it (default\: sdk)]:value: ' '-s[its system prompt]:value: ' '--system[its system prompt]:value: ' '--system-file[a file of the project that has its system prompt]:value:_files' '--role[what it is, in a few words]:value: ' '--expertise[what it knows about]:value: ' '--from[an agent made by new, or a file of .claude/agents]:value: _agent_worker_both agent' '--json[print one JSON document]' '1:argument: '
                    ;;
                edit)
                    shift 2 words; (( CURRENT -= 2 ))
                    _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--json[print one JSON document]' '1:argument: _agent_worker_live agent' '*:argument: '
                    ;;
                delete)
                    shift 2 words; (( CURRENT -= 2 ))
                    _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--yes[do not ask]' '--json[print one JSON document]' '1:argument: _agent_worker_live agent'
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
                choices=('eval:Measure whether what is found for questions is what answers them.' 'growth:Measure how much junk a memory takes up over generated runs, with and without the guard.')
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
                    _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--seed[the same runs each time for the same N (1)]:value: ' '--json[print one JSON document]' '1:argument: '
                    ;;
            esac
            ;;
        tool)
            if (( CURRENT == 3 )); then
                choices=('list:List the tools that agents can have, and who has them.' 'add:Make a command a tool of the project.' 'import:Take tools over from a file of another project.' 'mock:Have a tool give a canned answer, and nothing run.' 'rm:Remove a tool of the project.')
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
                    _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '-d[what a model is told of it]:value: ' '--description[what a model is told of it]:value: ' '-a[an argument\: path\:string, limit\:integer? (may be left out); a word ${path} of the command is its value]:value: ' '--argument[an argument\: path\:string, limit\:integer? (may be left out); a word ${path} of the command is its value]:value: ' '--read-only[it changes nothing\: nobody is asked before it runs]' '--timeout[how long a call may take (default\: 120s)]:value: ' '--mock[a canned answer, in place of running a command]:value: ' '--json[print one JSON document]' '1:argument: '
                    ;;
                import)
                    shift 2 words; (( CURRENT -= 2 ))
                    _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--replace[in place of tools of the same name]' '--json[print one JSON document]' 1:argument:_files '*:argument: '
                    ;;
                mock)
                    shift 2 words; (( CURRENT -= 2 ))
                    _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--off[have it run its command again]' '--json[print one JSON document]' '1:argument: ' '2:argument: '
                    ;;
                rm)
                    shift 2 words; (( CURRENT -= 2 ))
                    _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--json[print one JSON document]' '1:argument: '
                    ;;
            esac
            ;;
        worker)
            if (( CURRENT == 3 )); then
                choices=('check:Run a program as a kernel would, and say what it does wrong.')
                _describe -t verbs verb choices
                return
            fi
            case "$words[3]" in
                check)
                    shift 2 words; (( CURRENT -= 2 ))
                    _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--message[what it is asked (default\: Say hello.)]:value: ' '--timeout[for each of four runs (default\: 60s)]:value: ' '--json[print one JSON document]' '*:argument: '
                    ;;
            esac
            ;;
        skills)
            if (( CURRENT == 3 )); then
                choices=('list:List the skills of the project, and who reads them.' 'import:Copy skills out of a repository, pinned to a commit.' 'update:Look up again what imported skills come from.' 'rm:Remove imported skills.' 'install-self:Put a skill into the project that teaches a coding agent to use agent-worker.')
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
                    _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--force[in place of what is there]' '--json[print one JSON document]' '1:argument: ' '*:argument: '
                    ;;
                update)
                    shift 2 words; (( CURRENT -= 2 ))
                    _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--force[also what was changed here\: the changes are lost]' '--json[print one JSON document]' '*:argument: '
                    ;;
                rm)
                    shift 2 words; (( CURRENT -= 2 ))
                    _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--force[also what was changed here]' '--json[print one JSON document]' '*:argument: '
                    ;;
                install-self)
                    shift 2 words; (( CURRENT -= 2 ))
                    _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--json[print one JSON document]'
                    ;;
            esac
            ;;
        init)
            shift 1 words; (( CURRENT -= 1 ))
            _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--example[which one (default\: hello); list\: only say which there are]:value:(handbook hello memory nodes review team verdict list)' '--backend[this program does the work of its agents, in place of their scripts]:value:(claude codex cursor opencode)' '-m[with --backend\: its model (claude\: sonnet)]:value: ' '--model[with --backend\: its model (claude\: sonnet)]:value: ' '--project[the project (default\: found from the working directory)]:value:_files' '-v[say more; -vv shows where an error arose]' '--verbose[say more; -vv shows where an error arose]'
            ;;
        validate)
            shift 1 words; (( CURRENT -= 1 ))
            _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--json[print one JSON document]' '--project[the project (default\: found from the working directory)]:value:_files' '-v[say more; -vv shows where an error arose]' '--verbose[say more; -vv shows where an error arose]' '*:argument:_files'
            ;;
        config)
            shift 1 words; (( CURRENT -= 1 ))
            _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--json[print one JSON document]' '--project[the project (default\: found from the working directory)]:value:_files' '-v[say more; -vv shows where an error arose]' '--verbose[say more; -vv shows where an error arose]' '1:argument: _agent_worker_both named'
            ;;
        schema)
            shift 1 words; (( CURRENT -= 1 ))
            _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--write[write all of them where the files'"'"' headers look]' '--project[the project (default\: found from the working directory)]:value:_files' '-v[say more; -vv shows where an error arose]' '--verbose[say more; -vv shows where an error arose]' '1:argument:(agent workflow project)'
            ;;
        completion)
            shift 1 words; (( CURRENT -= 1 ))
            _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--project[the project (default\: found from the working directory)]:value:_files' '-v[say more; -vv shows where an error arose]' '--verbose[say more; -vv shows where an error arose]' '1:argument:(bash zsh fish)'
            ;;
        trust)
            shift 1 words; (( CURRENT -= 1 ))
            _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--yes[keep it without asking]' '--all[with revoke\: everything]' '--json[print one JSON document]' '--project[the project (default\: found from the working directory)]:value:_files' '-v[say more; -vv shows where an error arose]' '--verbose[say more; -vv shows where an error arose]' '*:argument: _agent_worker_both named'
            ;;
        token)
            if (( CURRENT == 3 )); then
                choices=('create:Make a token, and print it this once.' 'list:List the tokens that are valid.' 'revoke:Take tokens back: their next request is refused.')
                _describe -t verbs verb choices
                return
            fi
            case "$words[3]" in
                create)
                    shift 2 words; (( CURRENT -= 2 ))
                    _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--scope[read\: look; operate\: and give work, and steer it; approve\: and decide what waits for a person (approve\:alice,bob\: approve calls of these agents only)]:value:(read operate approve)' '--name[whom it is for, for the list]:value: ' '--json[print one JSON document]'
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
            _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--project[the project (default\: found from the working directory)]:value:_files' '-v[say more; -vv shows where an error arose]' '--verbose[say more; -vv shows where an error arose]'
            ;;
        node)
            if (( CURRENT == 3 )); then
                choices=('list:List the nodes, how each is, and what keeps it from being up.' 'add:Have a node that the project file does not name.' 'drain:Give a node nothing new; what runs there goes on.' 'rm:Forget a node that was added.')
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
                    _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--via[the engine that leads there]:value:(ssh slurm kubectl docker ray command)' '--join[it dials home\: print the command to type there]' '--host[ssh, slurm\: the machine; with --join\: where it finds this one]:value: ' '--image[docker, kubectl\: a container of this image is started]:value: ' '--container[docker\: one that runs; kubectl\: which of the pod'"'"'s]:value: ' '--pod[kubectl\: one that runs]:value: ' '--namespace[kubectl\: the namespace]:value: ' '--address[ray\: the cluster]:value: ' '--command[the program there (default\: agent-worker)]:value: ' '--label[what agents may ask for; can be repeated]:value: ' '--workers[how many attempts run there at once (default\: 8)]:value: ' '--json[print one JSON document]' '1:argument: '
                    ;;
                drain)
                    shift 2 words; (( CURRENT -= 2 ))
                    _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--undo[give it work again]' '--json[print one JSON document]' '1:argument: '
                    ;;
                rm)
                    shift 2 words; (( CURRENT -= 2 ))
                    _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--force[also where attempts run\: they are done again elsewhere]' '--json[print one JSON document]' '1:argument: '
                    ;;
            esac
            ;;
        webhook)
            if (( CURRENT == 3 )); then
                choices=('list:List those of the project file, and how they stand.' 'retry:Tell one again what it was not told, also after its server answered 410.')
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
            _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--json[print one JSON document]' '--project[the project (default\: found from the working directory)]:value:_files' '-v[say more; -vv shows where an error arose]' '--verbose[say more; -vv shows where an error arose]'
            ;;
        backends)
            shift 1 words; (( CURRENT -= 1 ))
            _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--json[print one JSON document]' '--project[the project (default\: found from the working directory)]:value:_files' '-v[say more; -vv shows where an error arose]' '--verbose[say more; -vv shows where an error arose]'
            ;;
        version)
            shift 1 words; (( CURRENT -= 1 ))
            _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--json[print one JSON document]' '--project[the project (default\: found from the working directory)]:value:_files' '-v[say more; -vv shows where an error arose]' '--verbose[say more; -vv shows where an error arose]'
            ;;
        help)
            shift 1 words; (( CURRENT -= 1 ))
            _arguments '-h[show this help message and exit]' '--help[show this help message and exit]' '--project[the project (default\: found from the working directory)]:value:_files' '-v[say more; -vv shows where an error arose]' '--verbose[say more; -vv shows where an error arose]' '*:argument: '
            ;;
        *) if [[ $service == awk ]]; then _awk; else _default; fi ;;
    esac
}

if [ "$funcstack[1]" = _agent_worker ]; then
    _agent_worker "$@"
else
    compdef _agent_worker agent-worker awk
fi
