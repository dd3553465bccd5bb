// Leads a run with the official TypeScript SDK: node lead.mjs URL TOKEN. Prints JSON: the tools, the run's report, and
// the mention of its user that was pushed.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const [url, token] = process.argv.slice(2);
const requestInit = { headers: { Authorization: `Bearer ${token}` } };
const client = new Client({ name: "lead", version: "1.0.0" });
const mentioned = new Promise((tell) => {
  client.fallbackNotificationHandler = async ({ method, params }) => {
    if (method === "notifications/mention") tell(params);
  };
});
await client.connect(new StreamableHTTPClientTransport(new URL(`${url}/mcp`), { requestInit }));
const { tools } = await client.listTools();
const call = async (name, args) => (await client.callTool({ name, arguments: args })).structuredContent;
const { id } = await call("workflow_run", { workflow: "team" });
const report = await call("workflow_wait", { run: id, timeout_seconds: 30 });
const refused = await client.callTool({ name: "approval_decide", arguments: { id: "a1", decision: "deny" } });
const mention = await mentioned;
const names = tools.map(({ name }) => name);
console.log(JSON.stringify({ tools: names, report, refused: refused.structuredContent.code, mention }));
await client.close();
