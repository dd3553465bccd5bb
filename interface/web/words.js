
const TEXTS = `
skip|Skip to the content|跳到内容  other_language|中文|English  help|Help|帮助  close|Close|关闭  search|Search messages, steps and documents /|搜索消息、步骤和文档 /
kernel_live|live|实时  kernel_away|kernel unreachable, retrying|无法连接内核，正在重试  no_answer|The kernel did not respond. Try again.|内核没有应答，请重试。
out_no_key|You are not signed in.|你尚未登录。  out_bad_key|This link has expired or was already used.|此链接已过期或已被使用。
out_expired|This session has ended: its token is no longer valid.|会话已结束：令牌已失效。
out_do|To open the page again, run this command in the project's folder:|请在项目目录中运行以下命令，重新打开此页：  need_you|{n} need you|{n} 项需要你处理
nothing_needs_you|Nothing needs you|没有需要你处理的事项  blocks|blocks {ids}|阻塞 {ids}  more_of|{n} more|还有 {n} 项  all|Show all|显示全部
all_of|Show all {n} characters|显示全部 {n} 个字符  sure|Confirm: {what}|确定{what}？  did|Done: {what}|完成：{what}  agents|Agents|智能体
filter|Filter by name|按名称筛选  summary|{n} agents, {busy} running, {workers} workers|{n} 个智能体，{busy} 个运行中，{workers} 个进程  runs|Runs|运行  send|Send|发送
send_title|Send a message|发送消息  send_to|To: alice, @review or alice@review|发给：alice、@review 或 alice@review  send_text|Message|消息  parts|Parts|部分
until|until {at}|至 {at}  queue|Queue|队列  last_turns|Latest messages and steps|最近的消息和步骤  nothing|Nothing yet.|暂无。  steps_n|{n} steps|{n} 步
attempt_n|Attempt {n}|第 {n} 次尝试  given|Arguments|参数  got|Result|结果  text|Text|文本  changes|Changes|改动  earlier|Earlier|更早  newest|Newest|最新
next_page|Next page|下一页  first_page|First page|第一页  not_back|no result yet|尚未返回  no_tree|This instruction has no working tree.|此指令没有工作树。
cut|Truncated: too long to show.|过长的部分已省略。  changed_n|{files} files, {commits} commits|{files} 个文件，{commits} 个提交  answer|Your answer|你的回答
reason|Reason (shown to the agent)|给智能体的理由  prompt_parts|{n} parts: source, trust, tokens, included|{n} 个部分：来源、信任、词元、保留  receipts|Delivered to|送达
cleared|The text was removed.|内容已被清除。  history|History|历史  version_n|version {n}|版本 {n}  owner|owner {name}|所有者 {name}
task_graph|Graph of the tasks below|下列任务的图  waits_for|waits for {ids}|等待 {ids}  vote|vote {choice}|投 {choice}
votes_n|{n} votes|{n} 票  binding|binding|有约束力  all_well|All OK|一切正常  failed_n|{n} failed today|今天有 {n} 项失败
agents_n|{waiting} waiting, {idle} idle, {runs} runs|{waiting} 个等待，{idle} 个空闲，{runs} 个运行  tokens_n|{n} tokens per minute|每分钟 {n} 词元
see_below|listed below|见下方列表  midnight|since midnight UTC|自零点（UTC）起  needs_title|What needs you|需要你处理的事项
empty_agents|No agents yet. Create one below, or run in a terminal:|还没有智能体。请在下方创建，或在终端执行：
empty_runs|No runs yet. Start one below, or run in a terminal:|还没有运行。请在下方启动，或在终端执行：  all_columns|All columns|所有列
fewer_columns|Fewer columns|较少列  idle_n|{n} idle|{n} 个空闲  fold_idle|Hide idle agents|隐藏空闲的智能体  start|Start or create|启动或创建  start_run|Start a run|启动运行
start_workflow|Workflow: name or file|工作流：名称或文件  start_tag|Tag (default: main)|标签（默认 main）  start_params|Parameters, such as --pr 12|参数，如 --pr 12
start_cost|Maximum cost in USD|费用上限（美元）  open_space|Open a space|打开空间  space_name|Name|名称  space_members|Members: alice, bob|成员：alice, bob
space_open|Any agent can be mentioned|可提及所有智能体  create_agent|Create an agent|创建智能体  agent_name|Name|名称
agent_model|Model, such as anthropic/opus|模型，如 anthropic/opus  agent_system|System prompt|系统提示  show_command|Show the command|显示命令
in_terminal|Run in a terminal:|在终端执行：  timeline_keys|Timeline: + and - zoom, 0 shows all, ← and → move, ↑ and ↓ select|时间线：+ 和 - 缩放，0 显示全部，← 和 → 移动，↑ 和 ↓ 选择
zoom_in|Zoom in|放大  zoom_out|Zoom out|缩小  shown_time|From {from}, {length}. Drag to zoom.|自 {from} 起 {length}。拖动可缩放。
left_out|Not shown: {bars} bars, {messages} messages|未显示：{bars} 个条、{messages} 条消息  cost_usd|Cost in USD|费用（美元）  tokens|Tokens|词元
tokens_in|Input tokens|输入词元  tokens_out|Output tokens|输出词元  spending|Project spending|项目花费  since|From|从  up_to|To|到
messages_n|{n} messages|{n} 条消息  mentions_n|{n} mentions|{n} 次提及  no_changes|No working tree has changes.|没有带改动的工作树。  merge|Merge|合并
found_nothing|Nothing found.|未找到。  found_hint|To open an item directly, enter its ID, such as i4, r3, m12 or a2.|i4、r3、m12、a2 等编号会直接打开。
task_board|Tasks by state|按状态排列的任务  as_graph|Graph|图  as_board|Board|看板  as_page|Formatted|排版  as_text|Source|源文本  writes|writing…|正在写…
asked_you|Question for you|向你提问  raw_call|Raw call|原始调用  help_zoom|zoom and move the timeline|缩放和移动时间线
help_projects|This page shows one project, because its token is valid for one kernel. Other projects:|此页只显示一个项目，因为令牌只对一个内核有效。其他项目：
help_slash|search by ID (i4, r3, m12, a2) or text|按编号（i4、r3、m12、a2）或词语搜索  help_question|show these keys|显示这些按键
help_escape|leave a field or close the drawer|离开输入框，关闭抽屉  help_arrows|move through a table or list|在表格或列表中选择
help_enter|open the selected item; in a message, Ctrl+Enter sends|打开；写消息时 Ctrl+Enter 发送  help_n|go to what needs you|转到需要你处理的事项  help_a|go to the agents|转到智能体
help_r|go to the runs|转到运行  help_m|write a message|写消息  help_more|Run the commands that the page shows in a terminal.|显示为命令的操作请在终端执行。
help_read|This token is read-only.|此令牌为只读。  action_retry_fresh|try again from the start|从头重试
members|Members|成员  projects|Projects|项目  this_page|this page|本页  projects_more|Agents and needs of all projects:|所有项目的智能体和待处理事项：
state_unreachable|unreachable|无法连接  agent_ends|The agent exists until the kernel stops.|该智能体在内核停止前一直存在。
merged_by|Changes of merge|合并的改动：`;

// Chinese for words that are shown unchanged in English, by the prefix of their keys.
const NAMES = {
	need: "approval 审批 vote 投票 agent_error 出错 silent 无输出 credentials 密钥 quota 配额 limit 上限 answer 提问 node 节点 project 项目 task 任务 trust 信任 webhook 回调 memory 记忆 soul 性格 dead 失败",
	tile: "running 运行中 spent_today 今日花费 need_you 需要你 failed_today 今日失败",
	found: "all 全部 message 消息 step 步骤 document 文档",
	by: "agent 智能体 model 模型",
	bar: "attempt 尝试 model 模型 tool 工具 wait 等待",
	mark: "vote 投票 merge 合并 task 任务 approval 审批",
	action:
		"approve 批准 deny 拒绝 watch_it 查看 answer 回答 answer_it 回答 take_it_back 撤回 call_it_off 取消表决 give_it_work_again 恢复派活 reset 恢复派活 try_again 重试 try_it_again 重试 retry 重试 " +
		"grant_it_once_more 再给一次额度 stop_it 停止 drop_it 放弃 it_is_done 已完成 remember_it 记住 do_not 不要 take_it 采纳 cancel 取消 pause 暂停 resume 继续 merge 合并 cancel_the_question 取消提问",
	tab: "timeline 时间线 graph 关系图 spending 花费 channel 频道 documents 文档 tasks 任务 votes 投票 steps 步骤 prompt 提示 changes 改动 attempts 尝试",
	entry: "reply 回复 session 会话",
	fact:
		"state 状态 doing 正在做 says 自述 model 模型 used 用量 restarts 重启 exit 退出 exit_code 退出码 space 空间 agent 智能体 approval 审批 continues 接续 said_in 来自 instruction 指令 " +
		"instructions 指令 tool 工具 asked 请求于 expires 截止 why 理由 decided 决定 verdict 裁决 took 用时 delivery 交付 messages 消息 for 指派给 holder 认领者 needs 依赖 check 检查 by 创建者 missing 等待 into 目标分支 commit 提交 files 文件 failed_calls 失败调用",
	state:
		"idle 空闲 running 运行中 waiting 等待 backoff 退避 paused 已暂停 stopped 已停止 error 出错 queued 排队 leased 已分派 injected 已送入 acked 已处理 yielded 让出 done 完成 incomplete 未完成 failed 失败 " +
		"dead 已放弃 cancelled 已取消 timeout 超时 rejected 被否决 open 未决 ready 就绪 claimed 已认领 granted 已批准 denied 已拒绝 expired 已过期 resolved 已决定 merged 已合并 refused 被拒绝 agent 智能体 workspace 工作空间",
};

export const words = new Map(TEXTS.trim().split(/\n|  /).map((line) => [line.split("|")[0], line.split("|").slice(1)]));
for (const [group, names] of Object.entries(NAMES)) {
	for (const [, name, chinese] of names.matchAll(/(\w+) (\S+)/g)) words.set(`${group}_${name}`, [name.replaceAll("_", " "), chinese]);
}

const KEPT = "awk-page-language";

export const language = (globalThis.localStorage?.getItem(KEPT) ?? globalThis.navigator?.language ?? "en").startsWith("zh") ? "zh" : "en";

export const t = (key, given = {}) => words.get(key)?.[language === "zh" ? 1 : 0].replace(/\{(\w+)\}/g, (_, name) => given[name]);

export function setLanguage(next) {
	localStorage.setItem(KEPT, next);
	location.reload();
}
