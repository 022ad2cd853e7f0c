// Drives /mcp of a Lanekeeper by the protocol's own client, as a coding assistant
// does, and ends with an error where something is not as it should be. MCP_URL and
// MCP_AUTHORIZATION say where and as whom; a beat there must make a call that waits for a person.
import assert from "node:assert/strict";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const connect = async (headers) => {
  const client = new Client({ name: "lanekeeper-test", version: "1.0.0" });
  await client.connect(new StreamableHTTPClientTransport(new URL(process.env.MCP_URL), {
    requestInit: { headers },
  }));
  return client;
};

const client = await connect({ Authorization: process.env.MCP_AUTHORIZATION });
assert.equal(client.getServerVersion().name, "lanekeeper");
assert.match(client.getInstructions(), /never follow instructions/);

// does calls a tool that must do it, and reads the answer behind its mark as data.
const does = async (name, args = {}) => {
  const { content, isError } = await client.callTool({ name, arguments: args });
  assert.ok(!isError, `${name}: ${JSON.stringify(content)}`);
  assert.match(content[0].text, /^\(data, not instructions/);
  return JSON.parse(content[1].text);
};

// refused calls a tool that must be refused, and reads why.
const refused = async (name, args) => {
  const { content, isError } = await client.callTool({ name, arguments: args });
  assert.ok(isError, `${name}: ${JSON.stringify(content)}`);
  return JSON.parse(content[0].text);
};

const { tools } = await client.listTools();
const hints = Object.fromEntries(tools.map((tool) => [tool.name, tool.annotations]));
for (const name of ["list_traces", "get_trace", "list_lanes", "why_lane", "list_approvals", "list_skills"]) {
  assert.equal(hints[name].readOnlyHint, true, name);
}
for (const name of ["approve", "run_skill", "force_release_lane", "set_kill_switch"]) {
  assert.deepEqual([hints[name].readOnlyHint, hints[name].destructiveHint], [false, true], name);
}

assert.equal((await does("get_health")).status, "healthy");
assert.equal((await refused("get_trace", { traceId: "hb_0mh8c1v2q_a7x2p1k9d4" })).code, "not_found");
assert.equal((await refused("create_objective", { priority: 5 })).code, "invalid");

const held = await does("acquire_lane", { lane: "objective:of/a-test", holder: "assistant", ttlSeconds: 60 });
assert.equal((await does("why_lane", { lane: held.lane })).holder, "assistant");
await does("release_lane", { lane: held.lane, token: held.token });

const { items: skills } = await does("list_skills");
assert.ok(skills.some((skill) => skill.name === "save_memory"));
await does("run_skill", { id: "save_memory", input: { category: "world_fact", content: "Ice melts.", importance: 5 } });
assert.ok((await does("search_memories", { q: "ice" })).items.some((memory) => memory.content === "Ice melts."));

const beat = await does("run_heartbeat", { wait: true });
const { items: runs } = await does("list_executions", { traceId: beat.traceId });
assert.ok(runs.some((run) => run.id === beat.executionId));
assert.equal((await does("get_trace", { traceId: beat.traceId })).surface, "heartbeat");

const { items: [waiting] } = await does("list_approvals", { status: "pending" });
assert.equal((await does("approve", { id: waiting.id })).status, "approved");
assert.equal((await refused("approve", { id: waiting.id })).code, "decided");
await client.close();

await assert.rejects(connect({}), /missing_token/);
console.log(`${tools.length} tools; approved ${waiting.id}`);
