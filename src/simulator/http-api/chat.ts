import { json, type Answer, type Incoming, type Sink } from '../answer.ts'
import type { Sequence } from '../sequence.ts'
import type { PlanInput } from './answer-plan.ts'
import { readMessages, renderChat } from './chat-messages.ts'
import { modelOf, type Ask, type Choice } from './generation.ts'
import { readBody } from './read-body.ts'
import {
  handOver,
  loadReport,
  openReply,
  runWhole,
  totalsOfReply,
  type Reply,
  run,
  readStreamOptions,
  data,
  DONE,
  eventStream,
} from './reply.ts'
import { readSampling, type Body, tokenLogprobs, completionLogprobs } from './sampling.ts'
import { FINGERPRINT, type Serving } from './serving.ts'
import { metricsOf, usageOf, runningUsage, streamMetricsOf, streamUsageOf } from './usage.ts'
import { badRequest } from './wire-error.ts'
import { decode } from '../tokenizer.ts'
import { readPrompts, type Prompt } from './pooling.ts'

/** Streams a chat: role record, one record per token, usage record, [DONE]. Nothing is sent before the first token. */
export function chatStream(reply: Reply): Answer {
  return eventStream((sink) => {
    let opened = false
    return run(reply, {
      token: (choice, count) => {
        if (!opened) for (const each of reply.choices) writeRole(reply, sink, each)
        opened = true
        writeToken(reply, sink, choice, count)
      },
      done: (sequences, aborted) => finishChat(reply, sink, sequences, aborted),
    })
  })
}

const chunk = (reply: Reply, choices: readonly object[]): object => ({
  id: reply.id,
  object: 'chat.completion.chunk',
  created: reply.created,
  model: reply.ask.model,
  choices,
})

const usage = (reply: Reply, choice: Choice, count: number): object =>
  reply.options.continuousUsage ? { usage: runningUsage(choice.spec.promptTokens, count) } : {}

function writeRole(reply: Reply, sink: Sink, choice: Choice): void {
  sink.write(
    data({
      ...chunk(reply, [
        { index: choice.index, delta: { role: 'assistant', content: '' }, logprobs: null, finish_reason: null },
      ]),
      ...usage(reply, choice, 0),
      prompt_token_ids: reply.tokenIds ? Array.from(reply.ask.prompts[0]!) : null,
      prompt_text: null,
    }),
  )
}

function writeToken(reply: Reply, sink: Sink, choice: Choice, count: number): void {
  const { plan } = choice
  const piece = plan.pieces[count - 1] ?? ''
  const last = count === plan.tokens.length
  if (plan.tool !== null) {
    const { id, name } = plan.tool
    if (count === 1)
      writeDelta(reply, sink, choice, {
        count,
        delta: toolDelta({ id, type: 'function', index: 0, function: { name } }),
      })
    writeDelta(reply, sink, choice, { count, delta: toolDelta({ index: 0, function: { arguments: piece } }) })
    if (last) writeDelta(reply, sink, choice, { count, delta: {}, finish: plan.finish })
    return
  }
  const delta = count <= plan.reasoningTokens ? { reasoning: piece } : { content: piece }
  writeDelta(reply, sink, choice, last ? { count, delta, finish: plan.finish } : { count, delta })
}

const toolDelta = (call: object): object => ({ content: null, tool_calls: [call] })

function writeDelta(
  reply: Reply,
  sink: Sink,
  choice: Choice,
  what: { count: number; delta: object; finish?: string },
): void {
  const { plan, index } = choice
  const { count, delta, finish: ended } = what
  const { logprobs } = reply.ask.sampling
  const entry = {
    index,
    delta,
    logprobs:
      logprobs === null
        ? null
        : { content: [tokenLogprobs(plan.pieces[count - 1] ?? '', plan.tokens[count - 1]!, logprobs)] },
    finish_reason: ended ?? null,
    ...(ended === undefined ? {} : { stop_reason: plan.stopReason }),
    token_ids: reply.tokenIds ? [plan.tokens[count - 1]!] : null,
  }
  sink.write(
    data({
      ...chunk(reply, [entry]),
      ...usage(reply, choice, count),
      // Without a usage record, the last record carries the fingerprint.
      ...(ended === undefined || reply.options.includeUsage ? {} : { system_fingerprint: FINGERPRINT }),
    }),
  )
}

function finishChat(reply: Reply, sink: Sink, sequences: readonly Sequence[], aborted: boolean): void {
  const { serving, choices, options } = reply
  if (aborted)
    for (const choice of choices) writeDelta(reply, sink, choice, { count: 1, delta: { content: '' }, finish: 'abort' })
  if (options.includeUsage) {
    sink.write(
      data({
        ...chunk(reply, []),
        usage: streamUsageOf(totalsOfReply(reply, sequences), true),
        system_fingerprint: FINGERPRINT,
        ...(serving.settings.perRequestMetrics ? streamMetricsOf(sequences) : {}),
      }),
    )
  }
  sink.write(DONE)
  sink.end()
}

const TYPES = new Set(['null', 'boolean', 'integer', 'number', 'string', 'array', 'object'])

/** vLLM compiles the schema of `response_format` into a grammar and rejects a schema that does not compile. */
export function checkResponseFormat(body: Body): void {
  const format = body['response_format'] as { type?: unknown; json_schema?: { schema?: unknown } } | undefined
  if (format?.type === 'json_schema') checkTypes(format.json_schema?.schema)
}

function checkTypes(schema: unknown): void {
  if (typeof schema !== 'object' || schema === null) return
  const { type, properties, items } = schema as { type?: unknown; properties?: object; items?: unknown }
  for (const name of Array.isArray(type) ? type : [type]) {
    if (name !== undefined && !TYPES.has(String(name))) throw badRequest(`Grammar error: Invalid type: ${String(name)}`)
  }
  checkTypes(items)
  for (const property of Object.values(properties ?? {})) checkTypes(property)
}

/** POST /v1/chat/completions. */
export async function chatCompletions(serving: Serving, incoming: Incoming): Promise<Answer> {
  const body = readBody(incoming)
  const ask = readChat(serving, body)
  const options = readStreamOptions(body)
  const reply = await openReply(serving, incoming, ask, { prefix: 'chatcmpl-', options })
  if (options.stream) return chatStream(reply)
  const { sequences, aborted } = await runWhole(reply, incoming)
  return json(200, completion(reply, sequences, aborted), loadReport(reply, incoming))
}

/** Reads and renders a chat body. Throws a WireError. */
export function readChat(serving: Serving, body: Body, maxTokensKeys = ['max_completion_tokens', 'max_tokens']): Ask {
  const messages = readMessages(body)
  const model = modelOf(serving, body)
  const tool = forcedTool(body)
  checkResponseFormat(body)
  const sampling = readSampling(body, maxTokensKeys)
  const { tokens, items } = renderChat(messages, {
    addGenerationPrompt: body['add_generation_prompt'] !== false,
    continueFinalMessage: body['continue_final_message'] === true,
    tools: body['tools'],
  })
  if (items.length > 0 && !serving.settings.multimodal) throw badRequest(`${model} is not a multimodal model`)
  return { body, model, prompts: [tokens], items, sampling, reasoning: wantsReasoning(body), tool }
}

function wantsReasoning(body: Body): boolean {
  const effort = body['reasoning_effort']
  return typeof effort === 'string' && effort !== 'none'
}

/** The function that `tool_choice` forces: the named one, or the first if any is required. */
function forcedTool(body: Body): PlanInput['tool'] {
  const choice = body['tool_choice']
  if (choice === undefined || choice === null || choice === 'none') return null
  if (!Array.isArray(body['tools']) || body['tools'].length === 0) {
    throw badRequest('When using `tool_choice`, `tools` must be set.', 'tool_choice')
  }
  if (choice === 'auto') return null
  const tools = body['tools'] as { function?: { name?: unknown; parameters?: unknown } }[]
  const wanted = typeof choice === 'object' ? (choice as { function?: { name?: unknown } }).function?.name : undefined
  const tool = tools.find((entry) => wanted === undefined || entry.function?.name === wanted)?.function
  if (typeof tool?.name !== 'string') {
    throw badRequest('The tool specified in `tool_choice` does not match any of the specified `tools`.', 'tool_choice')
  }
  return { name: tool.name, parameters: tool.parameters ?? { type: 'object' }, named: wanted !== undefined }
}

function completion(reply: Reply, sequences: readonly Sequence[], aborted: boolean): object {
  const { serving, ask } = reply
  const metrics = metricsOf(sequences)
  return {
    id: reply.id,
    object: 'chat.completion',
    created: reply.created,
    model: ask.model,
    choices: reply.choices.map((choice, at) => completionChoice(reply, choice, sequences[at]!, aborted)),
    service_tier: null,
    system_fingerprint: FINGERPRINT,
    usage: usageOf(totalsOfReply(reply, sequences), true),
    prompt_logprobs: null,
    prompt_token_ids: reply.tokenIds ? Array.from(ask.prompts[0]!) : null,
    prompt_text: null,
    kv_transfer_params: handOver(reply, sequences, { aborted, requestId: reply.id }),
    ec_transfer_params: null,
    metrics: serving.settings.perRequestMetrics && metrics !== null ? { ...metrics, speculative_decoding: null } : null,
  }
}

function completionChoice(reply: Reply, choice: Choice, sequence: Sequence, aborted: boolean): object {
  const { plan } = choice
  const { logprobs } = reply.ask.sampling
  // An aborted answer contains the tokens generated so far.
  const pieces = plan.pieces.slice(0, sequence.outputs)
  const text = pieces.slice(plan.reasoningTokens).join('')
  return {
    index: choice.index,
    message: {
      role: 'assistant',
      content: plan.tool === null ? text : '',
      refusal: null,
      annotations: null,
      audio: null,
      function_call: null,
      ...(plan.tool === null
        ? {}
        : {
            tool_calls: [{ id: plan.tool.id, type: 'function', function: { name: plan.tool.name, arguments: text } }],
          }),
      reasoning: plan.reasoningTokens > 0 ? pieces.slice(0, plan.reasoningTokens).join('') : null,
    },
    logprobs:
      logprobs === null
        ? null
        : { content: pieces.map((piece, at) => tokenLogprobs(piece, plan.tokens[at]!, logprobs)) },
    finish_reason: aborted ? 'abort' : plan.finish,
    stop_reason: plan.stopReason,
    token_ids: reply.tokenIds ? Array.from(plan.tokens.subarray(0, sequence.outputs)) : null,
    routed_experts: null,
  }
}

interface CompletionReply extends Reply {
  readonly prompts: readonly Prompt[]
  readonly echo: boolean
}

/** POST /v1/completions. */
export async function completions(serving: Serving, incoming: Incoming): Promise<Answer> {
  const body = readBody(incoming)
  const model = modelOf(serving, body)
  const prompts = readPrompts(serving, body)
  const options = readStreamOptions(body)
  // vLLM's default for this endpoint, as in OpenAI's API.
  const sampling = readSampling({ max_tokens: 16, ...body }, ['max_tokens'])
  const ask = {
    body,
    model,
    prompts: prompts.map(({ tokens }) => tokens),
    items: [],
    sampling,
    reasoning: false,
    tool: null,
  }
  const reply = {
    ...(await openReply(serving, incoming, ask, { prefix: 'cmpl-', options })),
    prompts,
    echo: body['echo'] === true,
  }
  if (options.stream) return stream(reply)
  const { sequences, aborted } = await runWhole(reply, incoming)
  return json(200, textCompletion(reply, sequences, aborted), loadReport(reply, incoming))
}

const promptOf = (reply: CompletionReply, choice: Choice): Prompt =>
  reply.prompts[Math.floor(choice.index / reply.ask.sampling.n)]!
const echoed = (reply: CompletionReply, choice: Choice): string => {
  if (!reply.echo) return ''
  const prompt = promptOf(reply, choice)
  return prompt.text ?? decode(prompt.tokens)
}

function textCompletion(reply: CompletionReply, sequences: readonly Sequence[], aborted: boolean): object {
  const { serving, ask } = reply
  const metrics = metricsOf(sequences)
  return {
    id: reply.id,
    object: 'text_completion',
    created: reply.created,
    model: ask.model,
    choices: reply.choices.map((choice, at) => textChoice(reply, choice, sequences[at]!, aborted)),
    service_tier: null,
    system_fingerprint: FINGERPRINT,
    usage: usageOf(totalsOfReply(reply, sequences), false),
    kv_transfer_params: handOver(reply, sequences, {
      aborted,
      requestId: serving.settings.connector === 'nixl' ? `${reply.id}-0` : reply.id,
    }),
    ec_transfer_params: null,
    metrics: serving.settings.perRequestMetrics && metrics !== null ? { ...metrics, speculative_decoding: null } : null,
  }
}

function textChoice(reply: CompletionReply, choice: Choice, sequence: Sequence, aborted: boolean): object {
  const { plan } = choice
  const { logprobs } = reply.ask.sampling
  const pieces = plan.pieces.slice(0, sequence.outputs)
  const before = echoed(reply, choice)
  return {
    index: choice.index,
    text: before + pieces.join(''),
    logprobs: logprobs === null ? null : completionLogprobs(pieces, plan.tokens, logprobs, before.length),
    finish_reason: aborted ? 'abort' : plan.finish,
    stop_reason: plan.stopReason,
    token_ids: reply.tokenIds ? Array.from(plan.tokens.subarray(0, sequence.outputs)) : null,
    prompt_logprobs: null,
    prompt_token_ids: reply.tokenIds ? Array.from(promptOf(reply, choice).tokens) : null,
    routed_experts: null,
  }
}

const textChunk = (reply: CompletionReply, choices: readonly object[]): object => ({
  id: reply.id,
  object: 'text_completion',
  created: reply.created,
  model: reply.ask.model,
  choices,
})

function stream(reply: CompletionReply): Answer {
  return eventStream((sink) =>
    run(reply, {
      token: (choice, count) =>
        writeTextToken(reply, sink, choice, {
          count,
          finish: count === choice.plan.tokens.length ? choice.plan.finish : null,
        }),
      done: (sequences, aborted) => {
        if (aborted)
          for (const choice of reply.choices) writeTextToken(reply, sink, choice, { count: 0, finish: 'abort' })
        if (reply.options.includeUsage) sink.write(data(usageRecord(reply, sequences)))
        sink.write(DONE)
        sink.end()
      },
    }),
  )
}

/** Writes the record of the `count`-th token, or of none (0) if the engine aborted. */
function writeTextToken(
  reply: CompletionReply,
  sink: Sink,
  choice: Choice,
  { count, finish }: { count: number; finish: string | null },
): void {
  const { plan } = choice
  const { logprobs } = reply.ask.sampling
  const piece = plan.pieces[count - 1] ?? ''
  const first = count === 1
  const entry = {
    index: choice.index,
    text: first ? echoed(reply, choice) + piece : piece,
    logprobs:
      logprobs === null || count === 0
        ? null
        : completionLogprobs([piece], plan.tokens.subarray(count - 1, count), logprobs, 0),
    finish_reason: finish,
    stop_reason: finish === null ? null : plan.stopReason,
    prompt_token_ids: first && (reply.tokenIds || reply.echo) ? Array.from(promptOf(reply, choice).tokens) : null,
    token_ids: reply.tokenIds && count > 0 ? [plan.tokens[count - 1]!] : null,
  }
  sink.write(
    data({
      ...textChunk(reply, [entry]),
      ...(reply.options.continuousUsage ? { usage: runningUsage(choice.spec.promptTokens, count) } : {}),
      ...(finish === null || reply.options.includeUsage ? {} : { system_fingerprint: FINGERPRINT }),
    }),
  )
}

function usageRecord(reply: CompletionReply, sequences: readonly Sequence[]): object {
  const { serving } = reply
  return {
    ...textChunk(reply, []),
    usage: streamUsageOf(totalsOfReply(reply, sequences), false),
    system_fingerprint: FINGERPRINT,
    ...(serving.settings.perRequestMetrics ? streamMetricsOf(sequences) : {}),
  }
}
