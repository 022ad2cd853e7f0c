// Chats with a running Lanekeeper by clients as they come from npm, and fails where an answer is not
// what they expect. CHAT_URL is the origin, CHAT_KEY a key that may chat, CHAT_PAGE the origin of a page
// that the key names.
import assert from "node:assert/strict";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateText, streamText } from "ai";
import OpenAI, { BadRequestError, NotFoundError, UnprocessableEntityError, AuthenticationError } from "openai";

const origin = process.env.CHAT_URL;
const apiKey = process.env.CHAT_KEY;
const page = { Origin: process.env.CHAT_PAGE };
const baseURL = `${origin}/v1`;
const model = "visitor_chat";
const client = new OpenAI({ baseURL, apiKey, defaultHeaders: page, maxRetries: 0 });

async function models() {
  const ids = [];
  for await (const m of client.models.list()) ids.push(m.id);
  assert.ok(ids.includes(model), `the models are ${ids}`);
  assert.equal((await client.models.retrieve(model)).object, "model");
}

async function completions() {
  const user = "client-completions";
  const messages = [{ role: "system", content: "Be brief." }, { role: "user", content: "Hello." }];
  const { data, response } = await client.chat.completions.create({ model, messages, user }).withResponse();
  assert.equal(data.object, "chat.completion");
  assert.equal(data.choices[0].message.role, "assistant");
  assert.ok(data.choices[0].message.content.length > 0);
  assert.equal(data.choices[0].finish_reason, "stop");
  assert.equal(data.usage.total_tokens, data.usage.prompt_tokens + data.usage.completion_tokens);
  assert.equal(response.headers.get("x-session-id"), user);
  const thread = response.headers.get("x-thread-id");
  assert.ok(thread);

  messages.push(data.choices[0].message, { role: "user", content: [{ type: "text", text: "And again." }] });
  const again = await client.chat.completions.create({ model, messages, user }).withResponse();
  assert.equal(again.response.headers.get("x-thread-id"), thread);

  const stream = await client.chat.completions.create({ model, messages, user, stream: true, stream_options: { include_usage: true } });
  let text = "", finish, usage;
  for await (const chunk of stream) {
    assert.equal(chunk.object, "chat.completion.chunk");
    text += chunk.choices[0]?.delta.content ?? "";
    finish = chunk.choices[0]?.finish_reason ?? finish;
    usage = chunk.usage ?? usage;
  }
  assert.ok(text.length > 0);
  assert.equal(finish, "stop");
  assert.ok(usage.total_tokens > 0);

  const runner = client.chat.completions.stream({ model, messages, user });
  let pieces = "";
  runner.on("content", (piece) => { pieces += piece; });
  assert.equal((await runner.finalMessage()).content, pieces);
}

async function refusals() {
  const messages = [{ role: "user", content: "Hello." }];
  const create = (body) => client.chat.completions.create({ model, messages, ...body });
  const refused = async (promise, type, code) => {
    const error = await promise.then(() => null, (e) => e);
    assert.ok(error instanceof type, `${code}: ${error}`);
    assert.equal(error.code, code);
    assert.ok(error.message.length > 10);
  };
  await refused(create({ model: "nobody" }), NotFoundError, "model_not_found");
  await refused(create({ n: 2 }), BadRequestError, "invalid");
  await refused(create({ tools: [{ type: "function", function: { name: "f", parameters: {} } }] }), UnprocessableEntityError, "unsupported_tools");
  await refused(create({ messages: [{ role: "user", content: [{ type: "image_url", image_url: { url: "data:," } }] }] }), BadRequestError,
    "unsupported_content");
  const stranger = new OpenAI({ baseURL, apiKey: "nonsense", maxRetries: 0 });
  await refused(stranger.models.list().then((x) => x), AuthenticationError, "invalid_api_key");
}

async function responses() {
  const first = await client.responses.create({ model, input: "Hello.", instructions: "Be brief." });
  assert.equal(first.status, "completed");
  assert.ok(first.output_text.length > 0);
  const second = await client.responses.create({ model, input: [{ role: "user", content: "And again." }], previous_response_id: first.id });
  assert.equal(second.previous_response_id, first.id);
  assert.equal((await client.responses.retrieve(first.id)).output_text, first.output_text);

  const stream = client.responses.stream({ model, input: "Once more.", previous_response_id: second.id });
  let pieces = "", last = -1, created = false, begun = null;
  stream.on("response.output_text.delta", (e) => { pieces += e.delta; begun ??= e; });
  for await (const e of stream) {
    assert.ok(e.sequence_number > last);
    last = e.sequence_number;
    created ||= e.type === "response.created";
  }
  const final = await stream.finalResponse();
  assert.ok(created);
  assert.equal(final.status, "completed");
  assert.equal(final.output_text, pieces);

  let rest = "", resumed = 0;
  for await (const e of await client.responses.retrieve(final.id, { stream: true, starting_after: begun.sequence_number })) {
    assert.ok(e.sequence_number > begun.sequence_number);
    if (e.type === "response.output_text.delta") rest += e.delta;
    resumed++;
  }
  assert.equal(begun.delta + rest, pieces);
  assert.ok(resumed > 1);
}

async function aiSDK() {
  const provider = createOpenAICompatible({ name: "lanekeeper", baseURL, apiKey, includeUsage: true, headers: { "X-Session-Id": "client-ai", ...page } });
  const { text, finishReason } = await generateText({ model: provider(model), system: "Be brief.", prompt: "Hello.", maxRetries: 0 });
  assert.ok(text.length > 0);
  assert.equal(finishReason, "stop");
  const result = streamText({ model: provider(model), prompt: "Hello again.", maxRetries: 0, onError: ({ error }) => { throw error; } });
  let streamed = "";
  for await (const piece of result.textStream) streamed += piece;
  assert.ok(streamed.length > 0);
  assert.equal(await result.finishReason, "stop");
  assert.ok((await result.usage).totalTokens > 0);
}

for (const part of [models, completions, refusals, responses, aiSDK]) {
  await part();
  console.log(part.name);
}
