import { json, type Answer, type Incoming } from '../answer.ts'
import type { Sequence } from '../sequence.ts'
import { readChat } from './chat.ts'
import { readBody } from './read-body.ts'
import { kvTransferParams, openRequest, run, runWhole, totalsOfRequest, type ServedRequest } from './served-request.ts'
import { event, eventStream } from './sse.ts'
import { flagOf, type Body } from './body-fields.ts'
import type { Serving } from './serving.ts'
import { metricsOf } from './usage.ts'
import { missing, WireError } from './wire-error.ts'

const notFound = (id: string): WireError =>
  new WireError(404, 'invalid_request_error', `Response with id '${id}' not found.`, 'response_id')

/** A request for a response, with its conversation. */
interface ResponseRequest extends ServedRequest {
  readonly messages: readonly Body[]
  readonly itemId: string
}

/** POST /v1/responses: text input and output; tools are not called. */
export async function createResponse(serving: Serving, incoming: Incoming): Promise<Answer> {
  const body = readBody(incoming)
  const stream = flagOf(body, 'stream')
  const messages = conversation(serving, body)
  const chat = { ...body, messages, tools: undefined, tool_choice: undefined, stop: undefined, n: undefined }
  const input = readChat(serving, chat, ['max_output_tokens'])
  const options = { stream, includeUsage: false, continuousUsage: false }
  const opened = await openRequest(serving, incoming, input, { prefix: '', options })
  const request: ResponseRequest = {
    ...opened,
    id: `resp_${serving.newId()}`,
    itemId: `msg_${serving.newId()}`,
    messages,
  }
  if (stream) return responseStream(request)
  const { sequences } = await runWhole(request, incoming)
  return json(200, finished(request, sequences))
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
function response(request: ResponseRequest, state: ResponseState): Record<string, unknown> {
  const { body, model } = request.input
  return {
    id: request.id,
    created_at: request.created,
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
      body['max_output_tokens'] ?? request.serving.settings.limits.maxModelLen - request.input.prompts[0]!.length,
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

function finished(request: ResponseRequest, sequences: readonly Sequence[]): Record<string, unknown> {
  const { serving, input } = request
  const { plan } = request.choices[0]!
  const text = plan.pieces.slice(0, sequences[0]!.outputs).join('')
  const isTruncated = plan.finish === 'length'
  const metrics = metricsOf(sequences)
  const params = kvTransferParams(request, sequences, { aborted: false, requestId: request.id })
  const answer = response(request, {
    params,
    status: isTruncated ? 'incomplete' : 'completed',
    incomplete: isTruncated ? { reason: 'max_output_tokens' } : null,
    output: [messageItem(request, text)],
    usage: usage(request, sequences),
    metrics: serving.settings.perRequestMetrics && metrics !== null ? { ...metrics, speculative_decoding: null } : null,
  })
  if (input.body['store'] !== false) {
    serving.responses.put(request.id, {
      response: answer,
      messages: [...request.messages, { role: 'assistant', content: text }],
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

const messageItem = (request: ResponseRequest, text: string): object => ({
  id: request.itemId,
  content: [textPart(text, null)],
  role: 'assistant',
  status: 'completed',
  type: 'message',
  phase: null,
})

function usage(request: ResponseRequest, sequences: readonly Sequence[]): object {
  const totals = totalsOfRequest(request, sequences)
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
function responseStream(request: ResponseRequest): Answer {
  return eventStream((sink) => {
    let number = 0
    const send = (type: string, fields: object): void => {
      const entries = Object.entries({ ...fields, sequence_number: number, type })
      sink.write(event(type, Object.fromEntries(entries.sort(([a], [b]) => (a < b ? -1 : 1)))))
      number += 1
    }
    const begun = response(request, { status: 'in_progress', incomplete: null, output: [], usage: null })
    send('response.created', { response: begun })
    send('response.in_progress', { response: begun })
    return run(request, {
      token: (choice, count) => {
        if (count === 1) openItem(request, send)
        send('response.output_text.delta', {
          ...part(request),
          delta: choice.plan.pieces[count - 1] ?? '',
          logprobs: [],
        })
      },
      done: (sequences) => {
        closeItem(request, send, sequences)
        send('response.completed', { response: finished(request, sequences) })
        sink.end()
      },
    })
  })
}

const part = (request: ResponseRequest): object => ({ content_index: 0, item_id: request.itemId, output_index: 0 })

function openItem(request: ResponseRequest, send: (type: string, fields: object) => void): void {
  const item = {
    id: request.itemId,
    content: [],
    role: 'assistant',
    status: 'in_progress',
    type: 'message',
    phase: null,
  }
  send('response.output_item.added', { item, output_index: 0 })
  send('response.content_part.added', { ...part(request), part: textPart('', []) })
}

function closeItem(
  request: ResponseRequest,
  send: (type: string, fields: object) => void,
  sequences: readonly Sequence[],
): void {
  const text = request.choices[0]!.plan.pieces.slice(0, sequences[0]!.outputs).join('')
  send('response.output_text.done', { ...part(request), logprobs: [], text })
  send('response.content_part.done', { ...part(request), part: textPart(text, null) })
  send('response.output_item.done', { item: messageItem(request, text), output_index: 0 })
}
