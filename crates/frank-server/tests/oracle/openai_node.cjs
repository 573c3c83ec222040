// Asks an endpoint through the openai package for Node.js and checks what it makes of the replies.
//
// Usage: node openai_node.cjs BASE_URL KEY. The endpoint answers as `client_programs.rs` says: "Hello 😀." as a rule, a
// person to "Who?"; asked whether it is warm, it says a few words and calls `get_weather`; told a temperature, it says
// that it is warm.

const assert = require("node:assert/strict");
const { OpenAI } = require("openai");

const ANSWER = "Hello \u{1F600}.";
const [baseURL, apiKey] = process.argv.slice(2);
const client = new OpenAI({ baseURL, apiKey, maxRetries: 0, timeout: 60_000 });
const model = "scripted";
const hi = [
  { role: "developer", content: "Be short." },
  { role: "user", content: "Hi" },
];
const question = { role: "user", content: "Is it warm in Paris?" };
const description = "Tells the temperature in a town.";
const parameters = {
  type: "object",
  properties: { city: { type: "string", enum: ["Paris", "Rome"] } },
  required: ["city"],
  additionalProperties: false,
};

async function main() {
  await checkChat();
  await checkChatStream();
  await checkForm();
  await checkRunTools();
  await checkResponses();
  await checkResponseTools();
  await checkModelsAndErrors();
}

async function checkChat() {
  const reply = await client.chat.completions.create({ model, messages: hi, max_completion_tokens: 5 });
  assert.equal(reply.choices[0].message.content, "Hello");
  assert.equal(reply.choices[0].finish_reason, "length");
}

async function checkChatStream() {
  const ask = { model, messages: hi, stream: true, stream_options: { include_usage: true } };
  let text = "";
  let last;
  for await (const chunk of await client.chat.completions.create(ask)) {
    text += chunk.choices[0]?.delta.content ?? "";
    last = chunk;
  }
  assert.equal(text, ANSWER);
  assert.equal(last.usage.completion_tokens, Buffer.byteLength(ANSWER));
  const stream = client.chat.completions.stream({ model, messages: hi });
  assert.equal(await stream.finalContent(), ANSWER);
}

async function checkForm() {
  const schema = {
    type: "object",
    properties: { name: { type: "string" }, age: { type: "integer" } },
    required: ["name", "age"],
    additionalProperties: false,
  };
  const reply = await client.chat.completions.create({
    model,
    messages: [{ role: "user", content: "Who?" }],
    response_format: { type: "json_schema", json_schema: { name: "person", strict: true, schema } },
  });
  assert.deepEqual(JSON.parse(reply.choices[0].message.content), { name: "Ada", age: 36 });
}

async function checkRunTools() {
  for (const stream of [false, true]) {
    const asked = [];
    const runner = client.chat.completions.runTools({
      model,
      stream,
      messages: [question],
      tools: [
        {
          type: "function",
          function: {
            name: "get_weather",
            description,
            parameters,
            parse: JSON.parse,
            function: ({ city }) => {
              asked.push(city);
              return "18 degrees";
            },
          },
        },
      ],
    });
    assert.equal(await runner.finalContent(), "It is warm.");
    assert.deepEqual(asked, ["Paris"]);
  }
}

async function checkResponses() {
  const whole = await client.responses.create({ model, input: "Hi" });
  assert.equal(whole.output_text, ANSWER);
  const stream = client.responses.stream({ model, input: hi });
  let text = "";
  stream.on("response.output_text.delta", (event) => (text += event.delta));
  const final = await stream.finalResponse();
  assert.equal(text, ANSWER);
  assert.equal(final.output_text, ANSWER);
  assert.equal(final.usage.output_tokens, Buffer.byteLength(ANSWER));
  const after = await client.responses.create({ model, input: "Hi", previous_response_id: final.id });
  assert.equal((await client.responses.retrieve(after.id)).output_text, ANSWER);
  await client.responses.delete(after.id);
  await assert.rejects(client.responses.retrieve(after.id), { status: 404, code: "response_not_found" });
}

async function checkResponseTools() {
  const tools = [{ type: "function", name: "get_weather", description, parameters, strict: true }];
  const stream = client.responses.stream({ model, input: [question], tools });
  const { output } = await stream.finalResponse();
  const call = output.at(-1);
  assert.equal(call.name, "get_weather");
  assert.deepEqual(JSON.parse(call.arguments), { city: "Paris" });
  const result = { type: "function_call_output", call_id: call.call_id, output: "18 degrees" };
  const reply = await client.responses.create({ model, tools, input: [question, ...output, result] });
  assert.equal(reply.output_text, "It is warm.");
}

async function checkModelsAndErrors() {
  const models = await client.models.list();
  assert.deepEqual(models.data.map((one) => one.id), ["scripted", "alias"]);
  const ask = { model, messages: hi, stream: true, max_tokens: 0 };
  await assert.rejects(client.chat.completions.create(ask), { status: 400, param: "max_tokens" });
  const stranger = new OpenAI({ baseURL, apiKey: "wrong", maxRetries: 0 });
  await assert.rejects(stranger.models.list(), { status: 401, code: "invalid_api_key" });
}

main().then(
  () => console.log("ok"),
  (error) => {
    console.error(error);
    process.exitCode = 1;
  },
);
