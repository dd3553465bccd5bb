# bash completion; in ~/.bashrc: source <(agent-worker completion bash)
_agent_worker_words='run send ask serve call start stop status service restart upgrade backup restore standby reset pause resume continue unblock approve deny answer space reassign grant proposal rule task doc cancel retry clear prune merge promote ps projects top open channel resource inbox queue needs audit feedback stats dead runs show export import diff attach worktree logs events doctor df wait watch agent memory tool worker skills init adopt validate config schema completion trust token mcp-serve node webhook providers backends version help'

_agent_worker_takes() {
    case "$1" in
        run) options=(-h --help --tag --trust --update --continue --timeout --max-cost --max-tokens --exit-code-from --fail-on --approve --detach --report --rm --dry-run --compare --repeat --check --margin --seed --total-cost --total-tokens --resume --keep --json --jsonl --project -v --verbose) arguments=(both:workflow) many= ;;
        send) options=(-h --help --batch --wait --timeout --json --project -v --verbose) arguments=(live:target none:) many= ;;
        ask) options=(-h --help --json --jsonl --project -v --verbose) arguments=(live:target none:) many= ;;
        serve) options=(-h --help --json --project -v --verbose) arguments=(live:target none:) many= ;;
        call) options=(-h --help --key --project -v --verbose) arguments=('words:ask_agent auth_grant auth_request auth_revoke channel_read channel_send feedback_submit handover_write history_read history_search memory_ask memory_forget memory_read memory_recall memory_tray memory_write my_inbox my_inbox_ack my_status_set note_read note_write resource_create resource_read rule_define rule_invoke rule_list share_with soul_reflect soul_suggest space_create space_members team_doc_accept team_doc_append team_doc_create team_doc_delete team_doc_history team_doc_list team_doc_read team_doc_reject team_doc_suggest team_doc_write team_members team_proposal_cancel team_proposal_create team_proposal_status team_task_claim team_task_done team_task_fail team_task_list team_task_plan team_task_split team_vote todo_add todo_done todo_list tree_commit tree_status tree_take' none:) many= ;;
        start) options=(-h --help --tag --trust --update --continue --foreground --project -v --verbose) arguments=(both:workflow) many= ;;
        stop) options=(-h --help --grace --now --no-wait --yes -A --all-projects --project -v --verbose) arguments=(live:target) many=1 ;;
        status) options=(-h --help --json --project -v --verbose) arguments=(live:target) many= ;;
        service) options=(-h --help --json --project -v --verbose) arguments=('words:print install uninstall run') many= ;;
        'service print') options=(-h --help --systemd --launchd --all --json) arguments=() many= ;;
        'service install') options=(-h --help --systemd --launchd --all --json) arguments=() many= ;;
        'service uninstall') options=(-h --help --systemd --launchd --all --json) arguments=() many= ;;
        'service run') options=(-h --help --json) arguments=() many= ;;
        restart) options=(-h --help --kernel --trust --json --project -v --verbose) arguments=(live:target) many= ;;
        upgrade) options=(-h --help --to --status --json --project -v --verbose) arguments=() many= ;;
        backup) options=(-h --help --force --json --project -v --verbose) arguments=(files:) many= ;;
        restore) options=(-h --help --promote --force --trust --json --project -v --verbose) arguments=(files:) many= ;;
        standby) options=(-h --help --json --project -v --verbose) arguments=(words:check) many= ;;
        'standby check') options=(-h --help --json) arguments=(files:) many= ;;
        reset) options=(-h --help --json --project -v --verbose) arguments=(live:target) many= ;;
        pause) options=(-h --help --json --project -v --verbose) arguments=(live:target) many= ;;
        resume) options=(-h --help --json --project -v --verbose) arguments=(live:target) many= ;;
        continue) options=(-h --help --json --project -v --verbose) arguments=(live:target) many= ;;
        unblock) options=(-h --help --json --project -v --verbose) arguments=(live:target) many= ;;
        approve) options=(-h --help --reason --json --always --all-agents --project -v --verbose) arguments=(live:approval) many=1 ;;
        deny) options=(-h --help --reason --json --project -v --verbose) arguments=(live:deniable) many=1 ;;
        answer) options=(-h --help --as --json --project -v --verbose) arguments=(live:instruction none:) many= ;;
        space) options=(-h --help --json --project -v --verbose) arguments=('words:list create members close') many= ;;
        'space list') options=(-h --help --run --json) arguments=() many= ;;
        'space create') options=(-h --help --member --open --json) arguments=(none:) many= ;;
        'space members') options=(-h --help --add --remove --json) arguments=(live:space) many= ;;
        'space close') options=(-h --help --json) arguments=(live:space) many= ;;
        reassign) options=(-h --help --json --project -v --verbose) arguments=(live:instruction live:agent) many= ;;
        grant) options=(-h --help --json --project -v --verbose) arguments=('words:list give revoke') many= ;;
        'grant list') options=(-h --help -n --json) arguments=(live:channel) many= ;;
        'grant give') options=(-h --help --to --until --uses --json) arguments=('words:channel.read channel.write documents.read documents.write tasks votes status memory ask feedback rules auth spaces agents workflows') many= ;;
        'grant revoke') options=(-h --help --json) arguments=(live:grant) many= ;;
        proposal) options=(-h --help --json --project -v --verbose) arguments=('words:list show vote cancel') many= ;;
        'proposal list') options=(-h --help --all -n --archive --json) arguments=(live:channel) many= ;;
        'proposal show') options=(-h --help --archive --json) arguments=(live:any_proposal) many= ;;
        'proposal vote') options=(-h --help --reason --json) arguments=(live:proposal live:choice) many= ;;
        'proposal cancel') options=(-h --help --reason --json) arguments=(live:proposal) many= ;;
        rule) options=(-h --help --json --project -v --verbose) arguments=('words:list show add rm test') many= ;;
        'rule list') options=(-h --help --all --json) arguments=(live:channel) many= ;;
        'rule show') options=(-h --help --json) arguments=(live:rule live:channel) many= ;;
        'rule add') options=(-h --help --json) arguments=(files: live:channel) many= ;;
        'rule rm') options=(-h --help --json) arguments=(live:rule live:channel) many= ;;
        'rule test') options=(-h --help --run --json) arguments=(both:rule) many= ;;
        task) options=(-h --help --json --project -v --verbose) arguments=('words:list show add claim done fail cancel graph') many= ;;
        'task list') options=(-h --help --state --for -n --archive --json) arguments=(live:channel) many= ;;
        'task show') options=(-h --help --archive --json) arguments=(live:channel live:task) many= ;;
        'task add') options=(-h --help --text --key --for --needs --parent --files --check --on-failure --json) arguments=(live:channel none:) many= ;;
        'task claim') options=(-h --help --json) arguments=(live:channel live:task) many=1 ;;
        'task done') options=(-h --help --result --json) arguments=(live:channel live:task) many=1 ;;
        'task fail') options=(-h --help --reason --json) arguments=(live:channel live:task) many=1 ;;
        'task cancel') options=(-h --help --reason --json) arguments=(live:channel live:task) many=1 ;;
        'task graph') options=(-h --help -n --archive --json) arguments=(live:channel) many= ;;
        doc) options=(-h --help --json --project -v --verbose) arguments=('words:list read write append create delete history diff blame suggestions accept reject') many= ;;
        'doc list') options=(-h --help -n --archive --json) arguments=(live:channel) many= ;;
        'doc read') options=(-h --help --version --archive --json) arguments=(live:channel live:document) many= ;;
        'doc write') options=(-h --help --reason --if-version --json) arguments=(live:channel live:document none:) many= ;;
        'doc append') options=(-h --help --reason --json) arguments=(live:channel live:document none:) many= ;;
        'doc create') options=(-h --help --reason --json) arguments=(live:channel live:document none:) many= ;;
        'doc delete') options=(-h --help --if-version --reason --json) arguments=(live:channel live:document) many= ;;
        'doc history') options=(-h --help -n --archive --json) arguments=(live:channel live:document) many= ;;
        'doc diff') options=(-h --help --from --to --json) arguments=(live:channel live:document) many= ;;
        'doc blame') options=(-h --help --json) arguments=(live:channel live:document) many= ;;
        'doc suggestions') options=(-h --help --all -n --archive --json) arguments=(live:channel) many= ;;
        'doc accept') options=(-h --help --reason --json) arguments=(live:channel live:suggestion) many= ;;
        'doc reject') options=(-h --help --reason --json) arguments=(live:channel live:suggestion) many= ;;
        cancel) options=(-h --help --agent --dry-run --json --queued --yes --project -v --verbose) arguments=(live:steered) many=1 ;;
        retry) options=(-h --help --agent --dry-run --json --all --fresh --project -v --verbose) arguments=(live:steered) many=1 ;;
        clear) options=(-h --help --run --yes --force --json --project -v --verbose) arguments=(live:exported) many= ;;
        prune) options=(-h --help --dry-run --yes --json --project -v --verbose) arguments=('words:trees unfinished logs aside comparisons attempts database') many=1 ;;
        merge) options=(-h --help --agent --into --squash --check --return --dry-run --json --project -v --verbose) arguments=(live:merged) many= ;;
        promote) options=(-h --help --json --project -v --verbose) arguments=(live:instruction) many=1 ;;
        ps) options=(-h --help -a --all -A --all-projects -q --quiet --sort -o --columns --json --project -v --verbose) arguments=(live:target) many=1 ;;
        projects) options=(-h --help --json --project -v --verbose) arguments=() many= ;;
        top) options=(-h --help --bell --json --project -v --verbose) arguments=() many= ;;
        open) options=(-h --help --read-only --print --json --project -v --verbose) arguments=() many= ;;
        channel) options=(-h --help --run -n -f --follow --archive --json --jsonl --project -v --verbose) arguments=(live:target) many= ;;
        resource) options=(-h --help --json --project -v --verbose) arguments=('words:list get add') many= ;;
        'resource list') options=(-h --help -n --json) arguments=(live:target) many= ;;
        'resource get') options=(-h --help --offset --limit --archive --json) arguments=(live:resource) many= ;;
        'resource add') options=(-h --help --type --json) arguments=(live:target none:) many= ;;
        inbox) options=(-h --help -n --json --project -v --verbose) arguments=(live:target) many= ;;
        queue) options=(-h --help -n --json --project -v --verbose) arguments=(live:target) many= ;;
        needs) options=(-h --help -f --follow --approvals --rules -A --all-projects -n --json --project -v --verbose) arguments=(live:approval) many= ;;
        audit) options=(-h --help --agent -n --json --project -v --verbose) arguments=() many= ;;
        feedback) options=(-h --help --json --project -v --verbose) arguments=('words:list add') many= ;;
        'feedback list') options=(-h --help -n --json) arguments=() many= ;;
        'feedback add') options=(-h --help --json) arguments=(none:) many= ;;
        stats) options=(-h --help --by --since --until --json --project -v --verbose) arguments=(live:target) many= ;;
        dead) options=(-h --help --clear -n --json --project -v --verbose) arguments=() many= ;;
        runs) options=(-h --help --status --since -n --json --project -v --verbose) arguments=(live:channel) many= ;;
        show) options=(-h --help --prompt --steps --wire --full -n --timeline --graph --html --force --archive --json --project -v --verbose) arguments=(live:shown) many=1 ;;
        export) options=(-h --help --format -o --output --json --project -v --verbose) arguments=(live:exported) many= ;;
        import) options=(-h --help --json --project -v --verbose) arguments=(files:) many= ;;
        diff) options=(-h --help --stat --json --project -v --verbose) arguments=(live:diffed) many= ;;
        attach) options=(-h --help --jsonl --project -v --verbose) arguments=(live:target) many= ;;
        worktree) options=(-h --help --json --project -v --verbose) arguments=('words:list rm prune') many= ;;
        'worktree list') options=(-h --help --run --json) arguments=() many= ;;
        'worktree rm') options=(-h --help --run --force --json) arguments=(live:agent) many=1 ;;
        'worktree prune') options=(-h --help --run --json) arguments=() many= ;;
        logs) options=(-h --help --previous --level -n -f --follow --since --jsonl --project -v --verbose) arguments=(live:target) many=1 ;;
        events) options=(-h --help -f --follow --since --jsonl --project -v --verbose) arguments=() many= ;;
        doctor) options=(-h --help --json --project -v --verbose) arguments=() many= ;;
        df) options=(-h --help -n --json --project -v --verbose) arguments=() many= ;;
        wait) options=(-h --help --for --timeout --json --project -v --verbose) arguments=(live:target) many= ;;
        watch) options=(-h --help --exit-status --json --jsonl --project -v --verbose) arguments=(live:merged) many= ;;
        agent) options=(-h --help --json --project -v --verbose) arguments=('words:list info create edit delete memory notes soul todo reindex') many= ;;
        'agent list') options=(-h --help --running --json) arguments=() many= ;;
        'agent info') options=(-h --help --json) arguments=(live:agent) many= ;;
        'agent create') options=(-h --help --ephemeral --tag -m --model -b --backend -s --system --system-file --role --expertise --from --json) arguments=(none:) many= ;;
        'agent edit') options=(-h --help --json) arguments=(live:agent none:) many=1 ;;
        'agent delete') options=(-h --help --yes --json) arguments=(live:agent) many= ;;
        'agent memory') options=(-h --help --json) arguments=(live:agent 'words:get set rm search purge tray') many= ;;
        'agent memory get') options=(-h --help --json) arguments=(none:) many= ;;
        'agent memory set') options=(-h --help --json --tier --visibility) arguments=(none: none:) many= ;;
        'agent memory rm') options=(-h --help --json) arguments=(none:) many= ;;
        'agent memory search') options=(-h --help --json --archive -n) arguments=(none:) many= ;;
        'agent memory purge') options=(-h --help --json --source) arguments=() many= ;;
        'agent memory tray') options=(-h --help --json) arguments=('words:approve reject' live:tray) many= ;;
        'agent notes') options=(-h --help --json) arguments=(live:agent 'words:add show') many= ;;
        'agent notes add') options=(-h --help --json) arguments=(none:) many= ;;
        'agent notes show') options=(-h --help --json) arguments=(none:) many= ;;
        'agent soul') options=(-h --help --json) arguments=(live:agent 'words:show history approve reject rollback') many= ;;
        'agent soul show') options=(-h --help --json) arguments=() many= ;;
        'agent soul history') options=(-h --help --json) arguments=() many= ;;
        'agent soul approve') options=(-h --help --json --reason) arguments=(live:soul) many= ;;
        'agent soul reject') options=(-h --help --json --reason) arguments=(live:soul) many= ;;
        'agent soul rollback') options=(-h --help --json --reason) arguments=(none:) many= ;;
        'agent todo') options=(-h --help --json) arguments=(live:agent 'words:add done rm') many= ;;
        'agent todo add') options=(-h --help --json) arguments=(none:) many= ;;
        'agent todo done') options=(-h --help --json) arguments=(none:) many= ;;
        'agent todo rm') options=(-h --help --json) arguments=(none:) many= ;;
        'agent reindex') options=(-h --help --json) arguments=(live:agent) many= ;;
        memory) options=(-h --help --json --project -v --verbose) arguments=('words:eval growth') many= ;;
        'memory eval') options=(-h --help --json) arguments=(files:) many= ;;
        'memory growth') options=(-h --help --seed --json) arguments=(none:) many= ;;
        tool) options=(-h --help --json --project -v --verbose) arguments=('words:list add import mock rm') many= ;;
        'tool list') options=(-h --help --json) arguments=() many= ;;
        'tool add') options=(-h --help -d --description -a --argument --read-only --timeout --mock --json) arguments=(none:) many= ;;
        'tool import') options=(-h --help --replace --json) arguments=(files: none:) many=1 ;;
        'tool mock') options=(-h --help --off --json) arguments=(none: none:) many= ;;
        'tool rm') options=(-h --help --json) arguments=(none:) many= ;;
        worker) options=(-h --help --json --project -v --verbose) arguments=(words:check) many= ;;
        'worker check') options=(-h --help --message --timeout --json) arguments=(none:) many=1 ;;
        skills) options=(-h --help --json --project -v --verbose) arguments=('words:list import update rm install-self') many= ;;
        'skills list') options=(-h --help --json) arguments=() many= ;;
        'skills import') options=(-h --help --force --json) arguments=(none: none:) many=1 ;;
        'skills update') options=(-h --help --force --json) arguments=(none:) many=1 ;;
        'skills rm') options=(-h --help --force --json) arguments=(none:) many=1 ;;
        'skills install-self') options=(-h --help --json) arguments=() many= ;;
        init) options=(-h --help --example --backend -m --model --project -v --verbose) arguments=() many= ;;
        adopt) options=(-h --help --yes --json --project -v --verbose) arguments=() many= ;;
        validate) options=(-h --help --report --json --project -v --verbose) arguments=(files:) many=1 ;;
        config) options=(-h --help --json --project -v --verbose) arguments=(both:named) many= ;;
        schema) options=(-h --help --write --project -v --verbose) arguments=('words:agent workflow project') many= ;;
        completion) options=(-h --help --project -v --verbose) arguments=('words:bash zsh fish') many= ;;
        trust) options=(-h --help --yes --all --json --project -v --verbose) arguments=(both:named) many=1 ;;
        token) options=(-h --help --json --project -v --verbose) arguments=('words:create list revoke') many= ;;
        'token create') options=(-h --help --scope --name --json) arguments=() many= ;;
        'token list') options=(-h --help --json) arguments=() many= ;;
        'token revoke') options=(-h --help --json) arguments=(live:token) many=1 ;;
        mcp-serve) options=(-h --help --project -v --verbose) arguments=() many= ;;
        node) options=(-h --help --join --project-id --json --project -v --verbose) arguments=('words:list add drain rm') many= ;;
        'node list') options=(-h --help --json) arguments=() many= ;;
        'node add') options=(-h --help --via --join --host --image --container --pod --namespace --address --command --label --workers --json) arguments=(none:) many= ;;
        'node drain') options=(-h --help --undo --json) arguments=(none:) many= ;;
        'node rm') options=(-h --help --force --json) arguments=(none:) many= ;;
        webhook) options=(-h --help --json --project -v --verbose) arguments=('words:list retry') many= ;;
        'webhook list') options=(-h --help --json) arguments=() many= ;;
        'webhook retry') options=(-h --help --json) arguments=(none:) many= ;;
        providers) options=(-h --help --json --project -v --verbose) arguments=() many= ;;
        backends) options=(-h --help --json --project -v --verbose) arguments=() many= ;;
        version) options=(-h --help --json --project -v --verbose) arguments=() many= ;;
        help) options=(-h --help --project -v --verbose) arguments=(none:) many=1 ;;
        *) return 1 ;;
    esac
}

_agent_worker_value() {
    case "$1" in
        'run --tag') values=none: ;;
        'run --timeout') values=none: ;;
        'run --max-cost') values=none: ;;
        'run --max-tokens') values=none: ;;
        'run --exit-code-from') values=live:agent ;;
        'run --fail-on') values='words:error never' ;;
        'run --approve') values='words:auto ask all deny' ;;
        'run --report') values=none: ;;
        'run --compare') values=words:solo ;;
        'run --repeat') values=none: ;;
        'run --check') values=none: ;;
        'run --margin') values=none: ;;
        'run --seed') values=none: ;;
        'run --total-cost') values=none: ;;
        'run --total-tokens') values=none: ;;
        'run --resume') values=live:comparison ;;
        'run --project') values=files: ;;
        'send --batch') values=files: ;;
        'send --timeout') values=none: ;;
        'send --project') values=files: ;;
        'ask --project') values=files: ;;
        'serve --project') values=files: ;;
        'call --key') values=none: ;;
        'call --project') values=files: ;;
        'start --tag') values=none: ;;
        'start --project') values=files: ;;
        'stop --grace') values=none: ;;
        'stop --project') values=files: ;;
        'status --project') values=files: ;;
        'service --project') values=files: ;;
        'restart --project') values=files: ;;
        'upgrade --to') values=none: ;;
        'upgrade --project') values=files: ;;
        'backup --project') values=files: ;;
        'restore --project') values=files: ;;
        'standby --project') values=files: ;;
        'reset --project') values=files: ;;
        'pause --project') values=files: ;;
        'resume --project') values=files: ;;
        'continue --project') values=files: ;;
        'unblock --project') values=files: ;;
        'approve --reason') values=none: ;;
        'approve --always') values=none: ;;
        'approve --project') values=files: ;;
        'deny --reason') values=none: ;;
        'deny --project') values=files: ;;
        'answer --as') values=live:agent ;;
        'answer --project') values=files: ;;
        'space --project') values=files: ;;
        'space list --run') values=live:run ;;
        'space create --member') values=live:agent ;;
        'space members --add') values=none: ;;
        'space members --remove') values=none: ;;
        'reassign --project') values=files: ;;
        'grant --project') values=files: ;;
        'grant list -n') values=none: ;;
        'grant give --to') values=live:target ;;
        'grant give --until') values=none: ;;
        'grant give --uses') values=none: ;;
        'proposal --project') values=files: ;;
        'proposal list -n') values=none: ;;
        'proposal list --archive') values=files: ;;
        'proposal show --archive') values=files: ;;
        'proposal vote --reason') values=none: ;;
        'proposal cancel --reason') values=none: ;;
        'rule --project') values=files: ;;
        'rule test --run') values=live:run ;;
        'task --project') values=files: ;;
        'task list --state') values='words:open ready claimed done failed cancelled' ;;
        'task list --for') values=live:agent ;;
        'task list -n') values=none: ;;
        'task list --archive') values=files: ;;
        'task show --archive') values=files: ;;
        'task add --text') values=none: ;;
        'task add --key') values=none: ;;
        'task add --for') values=live:agent ;;
        'task add --needs') values=live:task ;;
        'task add --parent') values=live:task ;;
        'task add --files') values=none: ;;
        'task add --check') values=none: ;;
        'task add --on-failure') values='words:hold skip cancel' ;;
        'task done --result') values=none: ;;
        'task fail --reason') values=none: ;;
        'task cancel --reason') values=none: ;;
        'task graph -n') values=none: ;;
        'task graph --archive') values=files: ;;
        'doc --project') values=files: ;;
        'doc list -n') values=none: ;;
        'doc list --archive') values=files: ;;
        'doc read --version') values=none: ;;
        'doc read --archive') values=files: ;;
        'doc write --reason') values=none: ;;
        'doc write --if-version') values=none: ;;
        'doc append --reason') values=none: ;;
        'doc create --reason') values=none: ;;
        'doc delete --if-version') values=none: ;;
        'doc delete --reason') values=none: ;;
        'doc history -n') values=none: ;;
        'doc history --archive') values=files: ;;
        'doc diff --from') values=none: ;;
        'doc diff --to') values=none: ;;
        'doc suggestions -n') values=none: ;;
        'doc suggestions --archive') values=files: ;;
        'doc accept --reason') values=none: ;;
        'doc reject --reason') values=none: ;;
        'cancel --agent') values=live:agent ;;
        'cancel --project') values=files: ;;
        'retry --agent') values=live:agent ;;
        'retry --project') values=files: ;;
        'clear --run') values=live:run ;;
        'clear --project') values=files: ;;
        'prune --project') values=files: ;;
        'merge --agent') values=none: ;;
        'merge --into') values=none: ;;
        'merge --check') values=none: ;;
        'merge --project') values=files: ;;
        'promote --project') values=files: ;;
        'ps --sort') values=none: ;;
        'ps -o'|'ps --columns') values=none: ;;
        'ps --project') values=files: ;;
        'projects --project') values=files: ;;
        'top --project') values=files: ;;
        'open --project') values=files: ;;
        'channel --run') values=live:run ;;
        'channel -n') values=none: ;;
        'channel --archive') values=files: ;;
        'channel --project') values=files: ;;
        'resource --project') values=files: ;;
        'resource list -n') values=none: ;;
        'resource get --offset') values=none: ;;
        'resource get --limit') values=none: ;;
        'resource get --archive') values=files: ;;
        'resource add --type') values=none: ;;
        'inbox -n') values=none: ;;
        'inbox --project') values=files: ;;
        'queue -n') values=none: ;;
        'queue --project') values=files: ;;
        'needs -n') values=none: ;;
        'needs --project') values=files: ;;
        'audit --agent') values=live:agent ;;
        'audit -n') values=none: ;;
        'audit --project') values=files: ;;
        'feedback --project') values=files: ;;
        'feedback list -n') values=none: ;;
        'stats --by') values=none: ;;
        'stats --since') values=none: ;;
        'stats --until') values=none: ;;
        'stats --project') values=files: ;;
        'dead -n') values=none: ;;
        'dead --project') values=files: ;;
        'runs --status') values='words:running stopped done failed incomplete rejected cancelled timeout' ;;
        'runs --since') values=none: ;;
        'runs -n') values=none: ;;
        'runs --project') values=files: ;;
        'show -n') values=none: ;;
        'show --graph') values='words:dot mermaid' ;;
        'show --html') values=files: ;;
        'show --archive') values=files: ;;
        'show --project') values=files: ;;
        'export --format') values='words:jsonl md' ;;
        'export -o'|'export --output') values=files: ;;
        'export --project') values=files: ;;
        'import --project') values=files: ;;
        'diff --project') values=files: ;;
        'attach --project') values=files: ;;
        'worktree --project') values=files: ;;
        'worktree list --run') values=live:run ;;
        'worktree rm --run') values=live:run ;;
        'worktree prune --run') values=live:run ;;
        'logs --level') values='words:debug info warning error' ;;
        'logs -n') values=none: ;;
        'logs --since') values=none: ;;
        'logs --project') values=files: ;;
        'events --since') values=none: ;;
        'events --project') values=files: ;;
        'doctor --project') values=files: ;;
        'df -n') values=none: ;;
        'df --project') values=files: ;;
        'wait --for') values='words:idle done needs' ;;
        'wait --timeout') values=none: ;;
        'wait --project') values=files: ;;
        'watch --project') values=files: ;;
        'agent --project') values=files: ;;
        'agent create --tag') values=none: ;;
        'agent create -m'|'agent create --model') values=none: ;;
        'agent create -b'|'agent create --backend') values=none: ;;
        'agent create -s'|'agent create --system') values=none: ;;
        'agent create --system-file') values=files: ;;
        'agent create --role') values=none: ;;
        'agent create --expertise') values=none: ;;
        'agent create --from') values=both:agent ;;
        'agent memory set --tier') values='words:core working archive' ;;
        'agent memory set --visibility') values='words:private shareable public' ;;
        'agent memory search -n') values=none: ;;
        'agent memory purge --source') values=none: ;;
        'agent soul approve --reason') values=none: ;;
        'agent soul reject --reason') values=none: ;;
        'agent soul rollback --reason') values=none: ;;
        'memory --project') values=files: ;;
        'memory growth --seed') values=none: ;;
        'tool --project') values=files: ;;
        'tool add -d'|'tool add --description') values=none: ;;
        'tool add -a'|'tool add --argument') values=none: ;;
        'tool add --timeout') values=none: ;;
        'tool add --mock') values=none: ;;
        'worker --project') values=files: ;;
        'worker check --message') values=none: ;;
        'worker check --timeout') values=none: ;;
        'skills --project') values=files: ;;
        'init --example') values='words:handbook hello memory nodes review team verdict list' ;;
        'init --backend') values='words:claude codex cursor opencode' ;;
        'init -m'|'init --model') values=none: ;;
        'init --project') values=files: ;;
        'adopt --project') values=files: ;;
        'validate --project') values=files: ;;
        'config --project') values=files: ;;
        'schema --project') values=files: ;;
        'completion --project') values=files: ;;
        'trust --project') values=files: ;;
        'token --project') values=files: ;;
        'token create --scope') values='words:read operate approve' ;;
        'token create --name') values=none: ;;
        'mcp-serve --project') values=files: ;;
        'node --join') values=none: ;;
        'node --project-id') values=live:instruction ;;
        'node --project') values=files: ;;
        'node add --via') values='words:ssh slurm kubectl docker ray command' ;;
        'node add --host') values=none: ;;
        'node add --image') values=none: ;;
        'node add --container') values=none: ;;
        'node add --pod') values=none: ;;
        'node add --namespace') values=none: ;;
        'node add --address') values=none: ;;
        'node add --command') values=none: ;;
        'node add --label') values=none: ;;
        'node add --workers') values=none: ;;
        'webhook --project') values=files: ;;
        'providers --project') values=files: ;;
        'backends --project') values=files: ;;
        'version --project') values=files: ;;
        'help --project') values=files: ;;
        *) return 1 ;;
    esac
}

_agent_worker_offer() {
    local candidate
    for candidate in "$@"; do
        case "$candidate" in "$word"*) COMPREPLY+=("${candidate#"$known"}") ;; esac
    done
}

_agent_worker_files() {
    local IFS=$'\n'
    compopt -o filenames 2>/dev/null
    _agent_worker_offer $(compgen -f -- "$word")
}

_agent_worker_from() {
    local kind=${1#*:}
    case "$1" in
        words:*) _agent_worker_offer $kind ;;
        live:*) _agent_worker_offer $("$program" _complete "$kind" 2>/dev/null </dev/null) ;;
        both:*) _agent_worker_offer $("$program" _complete "$kind" 2>/dev/null </dev/null); _agent_worker_files ;;
        files:) _agent_worker_files ;;
    esac
}

_agent_worker() {
    local line=${COMP_LINE:0:$COMP_POINT} word known breaks program key given many values index
    local -a before options arguments
    COMPREPLY=()
    word=${line##*[[:space:]]}
    read -ra before <<<"${line%"$word"}"
    program=${before[0]}
    breaks=${COMP_WORDBREAKS//[^@:=]/}
    known=
    [ -z "$breaks" ] || known=${word%"${word##*["$breaks"]}"}
    known=${known%@}
    if [ "${#before[@]}" -lt 2 ]; then
        _agent_worker_offer $_agent_worker_words
        return
    fi
    key=${before[1]}
    given=0
    index=2
    if _agent_worker_takes "$key ${before[2]}"; then
        key="$key ${before[2]}"
        index=3
    elif ! _agent_worker_takes "$key"; then
        return
    fi
    while [ "$index" -lt "${#before[@]}" ]; do
        case "${before[$index]}" in
            --) return ;;
            -*) _agent_worker_value "$key ${before[$index]}" && index=$((index + 1)) ;;
            *) given=$((given + 1)) ;;
        esac
        index=$((index + 1))
    done
    if [ "$index" -gt "${#before[@]}" ]; then
        _agent_worker_from "$values"
        return
    fi
    case "$word" in -*) _agent_worker_offer "${options[@]}"; return ;; esac
    [ "$given" -lt "${#arguments[@]}" ] || [ -z "$many" ] || given=$((${#arguments[@]} - 1))
    [ "$given" -ge "${#arguments[@]}" ] || _agent_worker_from "${arguments[$given]}"
}

complete -o default -F _agent_worker agent-worker awk
