/** Conversations through the SDKs that people use. */
import { createOpenAICompatible } from '@ai-sdk/openai-compatible'
import { APICallError, generateText, jsonSchema, streamText, tool } from 'ai'
import OpenAI, { AuthenticationError, BadRequestError, NotFoundError } from 'openai'
import type { ChatCompletionMessageParam } from 'openai/resources/chat/completions'
import { servedModel } from '../engine.ts'
import { gatewayKey } from '../gateway.ts'
import type { GatewayKind, RunningGateway } from '../gateway.ts'
import { weatherTool } from '../requests.ts'
import { check } from '../row.ts'
import type { Lab, Row } from '../row.ts'
import { until } from '../until.ts'

const model = servedModel
const long = {
  model,
  messages: [{ role: 'user' as const, content: 'Count.' }],
  max_tokens: 3000,
  temperature: 0,
  ignore_eos: true,
}

export function clientRows(kind: GatewayKind): Row[] {
  return [
    {
      name: `${kind}-openai-sdk`,
      says: `The openai SDK works through the gateway (${kind}): turns, streams, tools, embeddings refused, models.`,
      run: async (lab) => openaiConversation(openai(await lab.gateway(kind))),
    },
    {
      name: `${kind}-openai-sdk-errors`,
      says: `The openai SDK throws its own error classes for errors of the gateway (${kind}) and of engines.`,
      run: async (lab) => openaiErrors(await lab.gateway(kind)),
    },
    {
      name: `${kind}-openai-sdk-abort`,
      says: `Aborting the openai SDK's stream through the gateway (${kind}) frees the engines.`,
      run: async (lab) => {
        const controller = new AbortController()
        const stream = await openai(await lab.gateway(kind)).chat.completions.create(
          { ...long, stream: true },
          { signal: controller.signal },
        )
        let events = 0
        for await (const _ of stream) if (++events === 5) controller.abort()
        return `aborted after ${events} events; ${await freed(lab)}`
      },
    },
    {
      name: `${kind}-ai-sdk`,
      says: `The AI SDK works through the gateway (${kind}): text, streams with usage, tools, errors, abort.`,
      run: async (lab) => aiSdk(lab, await lab.gateway(kind)),
    },
  ]
}

function openai({ url }: RunningGateway, options: { apiKey?: string; maxRetries?: number } = {}): OpenAI {
  return new OpenAI({ baseURL: `${url}/v1`, apiKey: gatewayKey, maxRetries: 0, timeout: 60_000, ...options })
}

async function openaiConversation(client: OpenAI): Promise<string> {
  const messages: ChatCompletionMessageParam[] = [{ role: 'system', content: 'Be brief.' }]
  let prompt = 0
  for (const question of ['Hello', 'And then? 👋🏽', 'Good.']) {
    messages.push({ role: 'user', content: question })
    const answer = await client.chat.completions.create({ model, messages, max_tokens: 8, temperature: 0 })
    messages.push({ role: 'assistant', content: answer.choices[0]!.message.content })
    check(
      (answer.usage?.prompt_tokens ?? 0) > prompt,
      `prompt_tokens went from ${prompt} to ${answer.usage?.prompt_tokens}`,
    )
    prompt = answer.usage!.prompt_tokens
  }
  const whole = await client.chat.completions.create({ model, messages, max_tokens: 8, temperature: 0 })
  const stream = await client.chat.completions.create({
    model,
    messages,
    max_tokens: 8,
    temperature: 0,
    stream: true,
    stream_options: { include_usage: true },
  })
  let text = ''
  let completionTokens = 0
  for await (const event of stream) {
    text += event.choices[0]?.delta.content ?? ''
    completionTokens = event.usage?.completion_tokens ?? completionTokens
  }
  check(
    text === whole.choices[0]!.message.content,
    `the stream returned ${JSON.stringify(text)}, the answer in one piece ` +
      `${JSON.stringify(whole.choices[0]!.message.content)}`,
  )
  check(completionTokens === 8, `the stream's usage reported ${completionTokens} tokens`)
  const called = await client.chat.completions.create({
    model,
    messages,
    max_tokens: 64,
    temperature: 0,
    tools: [weatherTool as OpenAI.Chat.ChatCompletionTool],
    tool_choice: 'required',
  })
  const call = called.choices[0]!.message.tool_calls?.[0]
  check(
    call?.type === 'function' && call.function.name === 'get_weather',
    `tool calls: ${JSON.stringify(called.choices[0]!.message.tool_calls)}`,
  )
  const listed = (await client.models.list()).data.map(({ id }) => id)
  check(listed.includes(model), `models: ${listed.join(' ')}`)
  const response = await client.responses.create({ model, input: 'Hello', max_output_tokens: 16, temperature: 0 })
  check(response.output_text.length > 0, 'the responses API gave no text')
  return (
    `3 turns to ${prompt} prompt tokens; stream = whole answer; tool ${call.function.name}; responses ` +
    `${response.usage?.total_tokens} tokens`
  )
}

async function openaiErrors(gateway: RunningGateway): Promise<string> {
  const client = openai(gateway)
  const hello = { model, messages: [{ role: 'user' as const, content: 'hello' }], max_tokens: 1 }
  const expected: readonly [string, new (...args: never[]) => Error, () => Promise<unknown>][] = [
    ['unknown model', NotFoundError, () => client.chat.completions.create({ ...hello, model: 'nope' })],
    ['temperature -1', BadRequestError, () => client.chat.completions.create({ ...hello, temperature: -1 })],
    [
      'temperature -1, streaming',
      BadRequestError,
      () => client.chat.completions.create({ ...hello, temperature: -1, stream: true }),
    ],
    ['prompt too long', BadRequestError, () => client.completions.create({ model, prompt: '7'.repeat(4100) })],
    ['wrong key', AuthenticationError, () => openai(gateway, { apiKey: 'other' }).chat.completions.create(hello)],
    ['embeddings', NotFoundError, () => client.embeddings.create({ model, input: 'hello' })],
  ]
  for (const [what, Class, ask] of expected) {
    const error = await ask().then(
      () => null,
      (thrown: unknown) => thrown,
    )
    check(
      error instanceof Class,
      `${what}: ${error === null ? 'no error' : `${(error as Error).constructor.name} ${(error as Error).message}`}`,
    )
  }
  return expected.map(([what, Class]) => `${what}: ${Class.name}`).join(', ')
}

async function aiSdk(lab: Lab, gateway: RunningGateway): Promise<string> {
  const provider = createOpenAICompatible({
    name: 'firstlight',
    baseURL: `${gateway.url}/v1`,
    apiKey: gatewayKey,
    includeUsage: true,
  })
  const settings = { model: provider(model), maxRetries: 0, temperature: 0 }
  const whole = await generateText({ ...settings, prompt: 'Hello', maxOutputTokens: 8 })
  const stream = streamText({ ...settings, prompt: 'Hello', maxOutputTokens: 8 })
  let text = ''
  for await (const piece of stream.textStream) text += piece
  check(
    text === whole.text && text.length > 0,
    `the stream returned ${JSON.stringify(text)}, the answer in one piece ${JSON.stringify(whole.text)}`,
  )
  const usage = await stream.usage
  check(usage.outputTokens === 8, `the stream's usage reported ${usage.outputTokens} tokens`)
  const weather = tool({
    description: 'The weather now',
    inputSchema: jsonSchema<{ unit?: string }>({ type: 'object', properties: { unit: { type: 'string' } } }),
    execute: ({ unit }) => unit ?? 'c',
  })
  const called = streamText({
    ...settings,
    prompt: 'Weather?',
    maxOutputTokens: 64,
    tools: { get_weather: weather },
    toolChoice: 'required',
  })
  const calls = (await called.toolCalls).map(({ toolName }) => toolName)
  check(calls[0] === 'get_weather', `tool calls: ${calls.join(' ')}`)
  const refused = await generateText({ ...settings, model: provider('nope'), prompt: 'Hello' }).then(
    () => null,
    (thrown: unknown) => thrown,
  )
  check(APICallError.isInstance(refused) && refused.statusCode === 404, `unknown model: ${String(refused)}`)
  const controller = new AbortController()
  const endless = streamText({
    ...settings,
    prompt: 'Count.',
    maxOutputTokens: 3000,
    abortSignal: controller.signal,
    onError: () => {},
  })
  let pieces = 0
  for await (const _ of endless.textStream) if (++pieces === 5) controller.abort()
  return (
    `stream = whole answer; ${usage.outputTokens} tokens out; tool ${calls[0]}; 404 as APICallError; abort: ` +
    `${await freed(lab)}`
  )
}

/** Resolves when both engines report that they are idle. */
async function freed(lab: Lab): Promise<string> {
  const engines = [await lab.engine('a'), await lab.engine('b')]
  const running = async () =>
    (await Promise.all(engines.map((engine) => engine.metric('vllm:num_requests_running')))).reduce(
      (sum, count) => sum + count,
      0,
    )
  const ms = await until(async () => (await running()) === 0, 'the engines to be idle', { everyMs: 0, limitMs: 5000 })
  return `idle ${ms < 100 ? '< 100' : Math.round(ms)} ms later`
}
