// Leads a run with the official TypeScript SDK: node lead.mjs URL TOKEN. Prints JSON: the tools, and the run's report.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const [url, token] = process.argv.slice(2);
const requestInit = { headers: { Authorization: `Bearer ${token}` } };
const client = new Client({ name: "lead", version: "1.0.0" });
await client.connect(new StreamableHTTPClientTransport(new URL(`${url}/mcp`), { requestInit }));
const { tools } = await client.listTools();
const call = async (name, args) => (await client.callTool({ name, arguments: args })).structuredContent;
const { id } = await call("workflow_run", { workflow: "team" });
const report = await call("workflow_wait", { run: id, timeout_seconds: 30 });
const refused = await client.callTool({ name: "approval_decide", arguments: { id: "a1", decision: "deny" } });
console.log(JSON.stringify({ tools: tools.map(({ name }) => name), report, refused: refused.structuredContent.code }));
await client.close();
