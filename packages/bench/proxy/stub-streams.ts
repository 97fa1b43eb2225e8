/** Streams of the stub engine: the same tokens in the events of each protocol, as vLLM sends them. */

export interface StubStream {
  /** Before the first token. */
  readonly opening: Buffer
  readonly token: Buffer
  readonly lastToken: Buffer
  readonly end: Buffer
  /** The end if the request asks for usage. */
  readonly endWithUsage: Buffer
}

/** Tokens of each stream. */
export const TOKENS = 16

const frame = (text: string): Buffer => Buffer.from(`${Buffer.byteLength(text).toString(16)}\r\n${text}\r\n`)
const event = (type: string, fields: object = {}): Buffer =>
  frame(`event: ${type}\ndata: ${JSON.stringify({ type, ...fields })}\n\n`)
const LAST_CHUNK = Buffer.from('0\r\n\r\n')

const CHUNK = '{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"fake","choices":['
const chatToken = (finish: string): Buffer =>
  frame(`data: ${CHUNK}{"index":0,"delta":{"content":"token "},"finish_reason":${finish}}]}\n\n`)
const chatUsage = frame(
  `data: ${CHUNK}],"usage":{"prompt_tokens":256,"total_tokens":272,"completion_tokens":${TOKENS},"prompt_tokens_details":{"cached_tokens":0}}}\n\n`,
)
const chatEnd = Buffer.concat([frame('data: [DONE]\n\n'), LAST_CHUNK])

const chat: StubStream = {
  opening: Buffer.alloc(0),
  token: chatToken('null'),
  lastToken: chatToken('"length"'),
  end: chatEnd,
  endWithUsage: Buffer.concat([chatUsage, chatEnd]),
}

/** A stream whose events have usage unasked. */
const streamOf = (opening: readonly Buffer[], token: Buffer, end: readonly Buffer[]): StubStream => {
  const last = Buffer.concat([...end, LAST_CHUNK])
  return { opening: Buffer.concat(opening), token, lastToken: token, end: last, endWithUsage: last }
}

const message = { id: 'msg_1', type: 'message', role: 'assistant', model: 'fake', content: [], stop_reason: null }
const counts = { input_tokens: 256, output_tokens: TOKENS }

const messages = streamOf(
  [
    event('message_start', { message: { ...message, usage: { input_tokens: 256, output_tokens: 0 } } }),
    event('content_block_start', { index: 0, content_block: { type: 'text', text: '' } }),
  ],
  event('content_block_delta', { index: 0, delta: { type: 'text_delta', text: 'token ' } }),
  [
    event('content_block_stop', { index: 0 }),
    event('message_delta', { delta: { stop_reason: 'max_tokens' }, usage: counts }),
    event('message_stop'),
  ],
)

const response = { id: 'resp_1', object: 'response', created_at: 1, model: 'fake', output: [], tools: [] }
const item = { id: 'msg_1', type: 'message', role: 'assistant', status: 'in_progress', content: [] }
const at = { item_id: 'msg_1', output_index: 0, content_index: 0 }
const text = 'token '.repeat(TOKENS)
const part = { type: 'output_text', text, annotations: [] }

const responses = streamOf(
  [
    event('response.created', { sequence_number: 0, response: { ...response, status: 'in_progress' } }),
    event('response.in_progress', { sequence_number: 1, response: { ...response, status: 'in_progress' } }),
    event('response.output_item.added', { sequence_number: 2, output_index: 0, item }),
    event('response.content_part.added', { sequence_number: 3, ...at, part: { ...part, text: '' } }),
  ],
  event('response.output_text.delta', { sequence_number: 4, ...at, delta: 'token ' }),
  [
    event('response.output_text.done', { sequence_number: 20, ...at, text }),
    event('response.content_part.done', { sequence_number: 21, ...at, part }),
    event('response.output_item.done', { sequence_number: 22, output_index: 0, item: { ...item, content: [part] } }),
    event('response.completed', {
      sequence_number: 23,
      response: { ...response, status: 'completed', output: [{ ...item, content: [part] }], usage: counts },
    }),
  ],
)

/** Stream of a request by its path. */
export const stubStreamOf = (path: string): StubStream =>
  path === '/v1/messages' ? messages : path === '/v1/responses' ? responses : chat
