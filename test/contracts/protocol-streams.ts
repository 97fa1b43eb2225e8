/** Streams and requests of each wire protocol, as vLLM sends them. */
import type { Piece, FakeAnswer } from '../kit/fake-answer.ts'
import { sseAnswer } from '../kit/sse.ts'

export interface ProtocolStream {
  readonly name: string
  readonly path: string
  readonly body: Readonly<Record<string, unknown>>
  /** Events before the prefill. '': none. */
  readonly opening: string
  delta(text: string): string
  /** Events after the output, up to the end. */
  readonly closing: string
  /** The same with a finish reason of an engine that gave up. null: it has none. */
  readonly aborted: string | null
  /** The same without a finish reason. null: the protocol has no such end. */
  readonly unfinished: string | null
  /** Names of the error event that the gateway sends. */
  readonly gatewayError: RegExp
}

const data = (value: unknown): string => `data: ${JSON.stringify(value)}\n\n`
const named = (value: { readonly type: string }): string => `event: ${value.type}\n${data(value)}`
const DONE = 'data: [DONE]\n\n'

const chunk = (choice: object): string =>
  data({ id: 'c', object: 'chat.completion.chunk', choices: [{ index: 0, ...choice }] })
const finishChunk = (finish: string | null): string => chunk({ delta: {}, finish_reason: finish }) + DONE

const chat: ProtocolStream = {
  name: 'chat',
  path: '/v1/chat/completions',
  body: { messages: [{ role: 'user', content: 'x' }], max_tokens: 900 },
  opening: chunk({ delta: { role: 'assistant', content: '' } }),
  delta: (text) => chunk({ delta: { content: text } }),
  closing: finishChunk('stop'),
  aborted: finishChunk('abort'),
  unfinished: finishChunk(null),
  gatewayError: /^data: \{"error":.*"code":"engine_stream_truncated"/m,
}

const piece = (choice: object): string => data({ id: 'c', choices: [{ index: 0, ...choice }] })

const completions: ProtocolStream = {
  name: 'completions',
  path: '/v1/completions',
  body: { prompt: 'x', max_tokens: 900 },
  opening: '',
  delta: (text) => piece({ text }),
  closing: piece({ text: '', finish_reason: 'stop' }) + DONE,
  aborted: piece({ text: '', finish_reason: 'abort' }) + DONE,
  unfinished: piece({ text: '' }) + DONE,
  gatewayError: /^data: \{"error":.*"code":"engine_stream_truncated"/m,
}

const response = (more: object): object => ({ id: 'resp_1', object: 'response', output: [], ...more })
const lastResponse = (type: string, status: string): string =>
  named({
    type,
    sequence_number: 9,
    response: response({ status, usage: { input_tokens: 10, output_tokens: 2 } }),
  } as { type: string })

const responses: ProtocolStream = {
  name: 'responses',
  path: '/v1/responses',
  body: { input: 'x', max_output_tokens: 900 },
  opening: ['response.created', 'response.in_progress']
    .map((type, at) => named({ type, sequence_number: at, response: response({ status: 'in_progress' }) } as never))
    .join(''),
  delta: (text) => named({ type: 'response.output_text.delta', sequence_number: 2, delta: text } as never),
  closing: lastResponse('response.completed', 'completed'),
  aborted: lastResponse('response.failed', 'failed'),
  unfinished: null,
  gatewayError:
    /^event: error\ndata: \{"type":"error","code":"engine_stream_truncated".*"sequence_number":\d+,"error":\{/m,
}

const messageEnd = (reason: string | null): string =>
  named({ type: 'content_block_stop', index: 0 } as never) +
  named({
    type: 'message_delta',
    delta: { stop_reason: reason },
    usage: { input_tokens: 10, output_tokens: 2 },
  } as never) +
  named({ type: 'message_stop' })

const messages: ProtocolStream = {
  name: 'messages',
  path: '/v1/messages',
  body: { messages: [{ role: 'user', content: 'x' }], max_tokens: 900 },
  opening: named({
    type: 'message_start',
    message: { id: 'm', role: 'assistant', content: [], usage: { input_tokens: 10, output_tokens: 0 } },
  } as never),
  delta: (text) => named({ type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text } } as never),
  closing: messageEnd('end_turn'),
  aborted: messageEnd('abort'),
  unfinished: messageEnd(null),
  gatewayError: /^event: error\ndata: \{"type":"error","error":\{"type":"api_error"/m,
}

export const protocolStreams: readonly ProtocolStream[] = [chat, completions, responses, messages]

/** A streamed response of these pieces. */
export const streamed = (pieces: string | readonly Piece[], rest: Omit<FakeAnswer, 'pieces'> = {}): FakeAnswer =>
  sseAnswer(typeof pieces === 'string' ? [pieces] : pieces, rest)

/** A whole stream with this output. */
export const wholeStream = ({ opening, delta, closing }: ProtocolStream, text: string): string =>
  opening + delta(text) + closing

/** Errors as engines and proxies send them as an event, by form. */
export const errorEvents: Readonly<Record<string, string>> = {
  'with a status in an object': data({ error: { message: 'boom', type: 'InternalServerError', code: 500 } }),
  'named error': `event: error\n${data({ type: 'error', error: { type: 'api_error', message: 'boom' } })}`,
  flat: data({ object: 'error', message: 'boom', type: 'InternalServerError', code: 500 }),
  'as a text': data({ error: 'boom', error_type: 'generation' }),
  'longer than 1 KiB': data({ error: { message: 'x'.repeat(1_100), type: 'InternalServerError', code: 500 } }),
}
