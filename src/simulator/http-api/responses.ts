import { json, type Answer, type Incoming } from '../answer.ts'
import type { Sequence } from '../sequence.ts'
import { readChat } from './chat.ts'
import { readBody } from './read-body.ts'
import { handOver, openReply, run, runWhole, totalsOfReply, type Reply, event, eventStream } from './reply.ts'
import { flagOf, type Body } from './sampling.ts'
import type { Serving } from './serving.ts'
import { metricsOf } from './usage.ts'
import { missing, WireError } from './wire-error.ts'

const notFound = (id: string): WireError =>
  new WireError(404, 'invalid_request_error', `Response with id '${id}' not found.`, 'response_id')

/** A request for a response, with its conversation. */
interface ResponseReply extends Reply {
  readonly messages: readonly Body[]
  readonly itemId: string
}

/** POST /v1/responses: text input and output; tools are not called. */
export async function createResponse(serving: Serving, incoming: Incoming): Promise<Answer> {
  const body = readBody(incoming)
  const stream = flagOf(body, 'stream')
  const messages = conversation(serving, body)
  const chat = { ...body, messages, tools: undefined, tool_choice: undefined, stop: undefined, n: undefined }
  const ask = readChat(serving, chat, ['max_output_tokens'])
  const options = { stream, includeUsage: false, continuousUsage: false }
  const opened = await openReply(serving, incoming, ask, { prefix: '', options })
  const reply: ResponseReply = { ...opened, id: `resp_${serving.newId()}`, itemId: `msg_${serving.newId()}`, messages }
  if (stream) return responseStream(reply)
  const { sequences } = await runWhole(reply, incoming)
  return json(200, finished(reply, sequences))
}

/** GET /v1/responses/ID. */
export function getResponse(serving: Serving, id: string): Answer {
  const stored = serving.responses.get(id)
  if (stored === undefined) throw notFound(id)
  return json(200, stored.response)
}

/** POST /v1/responses/ID/cancel: applies only to background responses, which do not exist here. */
export function cancelResponse(serving: Serving, id: string): Answer {
  if (serving.responses.get(id) === undefined) throw notFound(id)
  throw new WireError(400, 'invalid_request_error', 'Cannot cancel a synchronous response.', 'response_id')
}

/** Builds the whole conversation as chat messages: previous turns, instructions, input. */
function conversation(serving: Serving, body: Body): readonly Body[] {
  const { input, instructions, previous_response_id: previous } = body
  const messages: Body[] = []
  if (typeof previous === 'string') {
    const stored = serving.responses.get(previous)
    if (stored === undefined) throw notFound(previous)
    messages.push(...stored.messages)
  }
  if (typeof instructions === 'string') messages.unshift({ role: 'system', content: instructions })
  if (typeof input === 'string') messages.push({ role: 'user', content: input })
  else if (Array.isArray(input)) messages.push(...input.map(asMessage))
  else throw missing('input', body)
  return messages
}

function asMessage(item: Body): Body {
  if (item['type'] === 'function_call_output') return { role: 'tool', content: item['output'] }
  if (item['type'] === 'function_call')
    return { role: 'assistant', content: '', tool_calls: [{ name: item['name'], arguments: item['arguments'] }] }
  return { role: item['role'] ?? 'user', content: item['content'] }
}

interface ResponseState {
  readonly status: string
  readonly incomplete: object | null
  readonly output: readonly object[]
  readonly usage: object | null
  readonly metrics?: object | null
  /** `kv_transfer_params` of a prefill leg. */
  readonly params?: object | null
}

/** Builds a response in one of its states, with all fields. */
function response(reply: ResponseReply, state: ResponseState): Record<string, unknown> {
  const { body, model } = reply.ask
  return {
    id: reply.id,
    created_at: reply.created,
    incomplete_details: state.incomplete,
    instructions: body['instructions'] ?? null,
    metadata: body['metadata'] ?? null,
    model,
    object: 'response',
    output: state.output,
    parallel_tool_calls: true,
    temperature: body['temperature'] ?? 1,
    tool_choice: 'none',
    tools: [],
    top_p: body['top_p'] ?? 1,
    background: false,
    max_output_tokens:
      body['max_output_tokens'] ?? reply.serving.settings.limits.maxModelLen - reply.ask.prompts[0]!.length,
    max_tool_calls: null,
    previous_response_id: body['previous_response_id'] ?? null,
    prompt: null,
    reasoning: null,
    service_tier: 'auto',
    status: state.status,
    text: null,
    top_logprobs: null,
    truncation: 'disabled',
    usage: state.usage,
    user: body['user'] ?? null,
    ...(state.metrics === undefined ? {} : { metrics: state.metrics }),
    presence_penalty: 0,
    frequency_penalty: 0,
    kv_transfer_params: state.params ?? null,
    ec_transfer_params: null,
    input_messages: null,
    output_messages: null,
  }
}

function finished(reply: ResponseReply, sequences: readonly Sequence[]): Record<string, unknown> {
  const { serving, ask } = reply
  const { plan } = reply.choices[0]!
  const text = plan.pieces.slice(0, sequences[0]!.outputs).join('')
  const cut = plan.finish === 'length'
  const metrics = metricsOf(sequences)
  const params = handOver(reply, sequences, { aborted: false, requestId: reply.id })
  const answer = response(reply, {
    params,
    status: cut ? 'incomplete' : 'completed',
    incomplete: cut ? { reason: 'max_output_tokens' } : null,
    output: [messageItem(reply, text)],
    usage: usage(reply, sequences),
    metrics: serving.settings.perRequestMetrics && metrics !== null ? { ...metrics, speculative_decoding: null } : null,
  })
  if (ask.body['store'] !== false) {
    serving.responses.put(reply.id, {
      response: answer,
      messages: [...reply.messages, { role: 'assistant', content: text }],
    })
  }
  return answer
}

const textPart = (text: string, logprobs: readonly object[] | null): object => ({
  annotations: [],
  text,
  type: 'output_text',
  logprobs,
})

const messageItem = (reply: ResponseReply, text: string): object => ({
  id: reply.itemId,
  content: [textPart(text, null)],
  role: 'assistant',
  status: 'completed',
  type: 'message',
  phase: null,
})

function usage(reply: ResponseReply, sequences: readonly Sequence[]): object {
  const totals = totalsOfReply(reply, sequences)
  return {
    input_tokens: totals.promptTokens,
    input_tokens_details: {
      cached_tokens: totals.cachedTokens,
      cache_write_tokens: totals.createdTokens,
      input_tokens_per_turn: [],
      cached_tokens_per_turn: [],
    },
    output_tokens: totals.completionTokens,
    output_tokens_details: {
      reasoning_tokens: 0,
      tool_output_tokens: 0,
      output_tokens_per_turn: [],
      tool_output_tokens_per_turn: [],
    },
    total_tokens: totals.promptTokens + totals.completionTokens,
  }
}

/**
 * Streams named, numbered events with fields in alphabetical order and no [DONE]. The first two do not wait for the
 * model.
 */
function responseStream(reply: ResponseReply): Answer {
  return eventStream((sink) => {
    let number = 0
    const send = (type: string, fields: object): void => {
      const entries = Object.entries({ ...fields, sequence_number: number, type })
      sink.write(event(type, Object.fromEntries(entries.sort(([a], [b]) => (a < b ? -1 : 1)))))
      number += 1
    }
    const begun = response(reply, { status: 'in_progress', incomplete: null, output: [], usage: null })
    send('response.created', { response: begun })
    send('response.in_progress', { response: begun })
    return run(reply, {
      token: (choice, count) => {
        if (count === 1) openItem(reply, send)
        send('response.output_text.delta', { ...part(reply), delta: choice.plan.pieces[count - 1] ?? '', logprobs: [] })
      },
      done: (sequences) => {
        closeItem(reply, send, sequences)
        send('response.completed', { response: finished(reply, sequences) })
        sink.end()
      },
    })
  })
}

const part = (reply: ResponseReply): object => ({ content_index: 0, item_id: reply.itemId, output_index: 0 })

function openItem(reply: ResponseReply, send: (type: string, fields: object) => void): void {
  const item = { id: reply.itemId, content: [], role: 'assistant', status: 'in_progress', type: 'message', phase: null }
  send('response.output_item.added', { item, output_index: 0 })
  send('response.content_part.added', { ...part(reply), part: textPart('', []) })
}

function closeItem(
  reply: ResponseReply,
  send: (type: string, fields: object) => void,
  sequences: readonly Sequence[],
): void {
  const text = reply.choices[0]!.plan.pieces.slice(0, sequences[0]!.outputs).join('')
  send('response.output_text.done', { ...part(reply), logprobs: [], text })
  send('response.content_part.done', { ...part(reply), part: textPart(text, null) })
  send('response.output_item.done', { item: messageItem(reply, text), output_index: 0 })
}
