/** Requests, answers and streams of each wire protocol, as a client and vLLM write them. */
import { protocolStreams, type ProtocolStream } from '../../../test/contracts/protocol-streams.ts'

export interface Ask {
  readonly model: string
  /** Default: false. */
  readonly stream?: boolean
  /** Text of the prompt. Default: `x`. */
  readonly prompt?: string
  /** Most output tokens. */
  readonly limitTokens?: number
  /** Further fields of the body. */
  readonly more?: Readonly<Record<string, unknown>>
}

export interface Usage {
  readonly prompt: number
  readonly cached: number
  readonly output: number
}

/** Parts of a stream: see `ProtocolStream`. */
export type StreamParts = Pick<
  ProtocolStream,
  'opening' | 'delta' | 'closing' | 'aborted' | 'unfinished' | 'gatewayError'
> & {
  /** The end, with this usage. */
  closingWith(usage: Usage): string
}

export interface Fixture {
  readonly protocol: string
  readonly path: string
  body(ask: Ask): string | FormData
  /** Fields of the body without a file. */
  fields(ask: Ask): Readonly<Record<string, unknown>>
  /** null: answers are no streams. */
  readonly stream: StreamParts | null
  /** A whole answer that is no stream, with this text in it. */
  answer(text: string, usage?: Usage): string
  readonly contentType: string
}

const data = (value: unknown): string => `data: ${JSON.stringify(value)}\n\n`
const named = (value: Readonly<Record<string, unknown>>): string => `event: ${String(value['type'])}\n${data(value)}`
const DONE = 'data: [DONE]\n\n'
const SMALL: Usage = { prompt: 3, cached: 0, output: 1 }

const openaiUsage = ({ prompt, cached, output }: Usage): object => ({
  prompt_tokens: prompt,
  completion_tokens: output,
  total_tokens: prompt + output,
  prompt_tokens_details: { cached_tokens: cached },
})
const responsesUsage = ({ prompt, cached, output }: Usage): object => ({
  input_tokens: prompt,
  output_tokens: output,
  input_tokens_details: { cached_tokens: cached },
})
const messagesUsage = ({ prompt, cached, output }: Usage): object => ({
  input_tokens: prompt - cached,
  output_tokens: output,
  cache_creation_input_tokens: 0,
  cache_read_input_tokens: cached,
})

const known = (name: string): ProtocolStream => protocolStreams.find((one) => one.name === name)!

/** Streams of choices: their usage is an event of its own before the end. */
const choicesParts = (parts: Omit<StreamParts, 'closingWith'>): StreamParts => ({
  ...parts,
  closingWith: (usage) =>
    `${parts.closing.slice(0, -DONE.length)}${data({ choices: [], usage: openaiUsage(usage) })}${DONE}`,
})

const responsesEnd = (usage: Usage): string =>
  named({
    type: 'response.completed',
    sequence_number: 9,
    response: { id: 'resp_1', object: 'response', output: [], status: 'completed', usage: responsesUsage(usage) },
  })
const messagesEnd = (usage: Usage): string =>
  named({ type: 'content_block_stop', index: 0 }) +
  named({ type: 'message_delta', delta: { stop_reason: 'end_turn' }, usage: messagesUsage(usage) }) +
  named({ type: 'message_stop' })

const idsOf = (text: string): number[] => [...Buffer.from(text)].map((byte) => 100 + byte)
const piece = (choice: object): string => data({ request_id: 'g', choices: [{ index: 0, ...choice }] })
const generateEnd = (reason: string | null): string => piece({ token_ids: [], finish_reason: reason }) + DONE
const audioPiece = (choice: object): string =>
  data({ id: 't', object: 'transcription.chunk', choices: [{ index: 0, ...choice }] })
const audioEnd = (reason: string | null): string => audioPiece({ delta: {}, finish_reason: reason }) + DONE

const STREAM_ERROR = known('chat').gatewayError
const STREAMS: Readonly<Record<string, StreamParts>> = {
  chat: choicesParts(known('chat')),
  completions: choicesParts(known('completions')),
  responses: { ...known('responses'), closingWith: responsesEnd },
  messages: { ...known('messages'), closingWith: messagesEnd },
  generate: choicesParts({
    opening: '',
    delta: (text) => piece({ token_ids: idsOf(text), text }),
    closing: generateEnd('stop'),
    aborted: generateEnd('abort'),
    unfinished: generateEnd(null),
    gatewayError: STREAM_ERROR,
  }),
  audio: choicesParts({
    opening: '',
    delta: (text) => audioPiece({ delta: { content: text } }),
    closing: audioEnd('stop'),
    aborted: audioEnd('abort'),
    unfinished: audioEnd(null),
    gatewayError: STREAM_ERROR,
  }),
}

interface Shape {
  readonly path: string
  prompt(text: string): Readonly<Record<string, unknown>>
  limit?(tokens: number): Readonly<Record<string, unknown>>
  answer(text: string): Readonly<Record<string, unknown>>
  /** Default: the usage of OpenAI's older APIs. null: answers have none. */
  usage?: ((usage: Usage) => object) | null
}

const userMessages = (content: string) => ({ messages: [{ role: 'user', content }] })
const maxTokens = (tokens: number) => ({ max_tokens: tokens })
const embedding = (text: string) => ({
  object: 'list',
  data: [{ object: 'embedding', index: 0, embedding: [1], text }],
})

const SHAPES: Readonly<Record<string, Shape>> = {
  chat: {
    path: '/v1/chat/completions',
    prompt: userMessages,
    limit: maxTokens,
    answer: (content) => ({
      id: 'c',
      choices: [{ index: 0, message: { role: 'assistant', content }, finish_reason: 'stop' }],
    }),
  },
  completions: {
    path: '/v1/completions',
    prompt: (prompt) => ({ prompt }),
    limit: maxTokens,
    answer: (text) => ({ id: 'c', choices: [{ index: 0, text, finish_reason: 'stop' }] }),
  },
  responses: {
    path: '/v1/responses',
    prompt: (input) => ({ input }),
    limit: (tokens) => ({ max_output_tokens: tokens }),
    answer: (text) => ({
      id: 'resp_1',
      object: 'response',
      error: null,
      status: 'completed',
      output: [{ type: 'message', content: [{ type: 'output_text', text }] }],
    }),
    usage: responsesUsage,
  },
  messages: {
    path: '/v1/messages',
    prompt: (content) => ({ ...userMessages(content), max_tokens: 900 }),
    limit: maxTokens,
    answer: (text) => ({
      id: 'msg_1',
      type: 'message',
      role: 'assistant',
      content: [{ type: 'text', text }],
      stop_reason: 'end_turn',
    }),
    usage: messagesUsage,
  },
  generate: {
    path: '/inference/v1/generate',
    prompt: (text) => ({ token_ids: idsOf(text) }),
    limit: (tokens) => ({ sampling_params: { max_tokens: tokens } }),
    answer: (text) => ({
      request_id: 'g',
      choices: [{ index: 0, token_ids: idsOf(text), text, finish_reason: 'stop' }],
    }),
  },
  embeddings: { path: '/v1/embeddings', prompt: (input) => ({ input }), answer: embedding },
  pooling: { path: '/pooling', prompt: (input) => ({ input }), answer: embedding },
  rerank: {
    path: '/v1/rerank',
    prompt: (query) => ({ query, documents: ['one', 'two'] }),
    answer: (text) => ({ id: 'r', results: [{ index: 0, relevance_score: 1, document: { text } }] }),
  },
  score: {
    path: '/score',
    prompt: (text) => ({ text_1: text, text_2: 'two' }),
    answer: (text) => ({ object: 'list', data: [{ index: 0, object: 'score', score: 1, text }] }),
  },
  audio: { path: '/v1/audio/transcriptions', prompt: (prompt) => ({ prompt }), answer: (text) => ({ text }) },
  image_edits: {
    path: '/v1/images/edits',
    prompt: (prompt) => ({ prompt }),
    answer: (text) => ({ created: 1, data: [{ b64_json: text }] }),
    usage: responsesUsage,
  },
  speech: {
    path: '/v1/audio/speech',
    prompt: (input) => ({ input, voice: 'v' }),
    answer: (text) => ({ text }),
    usage: null,
  },
  images: {
    path: '/v1/images/generations',
    prompt: (prompt) => ({ prompt }),
    answer: (text) => ({ created: 1, data: [{ b64_json: text }] }),
    usage: responsesUsage,
  },
  tokenize: {
    path: '/tokenize',
    prompt: (prompt) => ({ prompt }),
    answer: (text) => ({ count: 1, tokens: [1], text }),
    usage: null,
  },
  detokenize: {
    path: '/detokenize',
    prompt: (text) => ({ tokens: idsOf(text) }),
    answer: (prompt) => ({ prompt }),
    usage: null,
  },
}

/** Protocols whose requests are uploads, and their file. */
const FILES: Readonly<Record<string, string>> = { audio: 'file', image_edits: 'image' }

function fixtureOf(protocol: string, shape: Shape): Fixture {
  const fields = ({ model, stream = false, prompt = 'x', limitTokens, more = {} }: Ask) => ({
    model,
    ...shape.prompt(prompt),
    ...(limitTokens === undefined ? {} : shape.limit?.(limitTokens)),
    ...(stream ? { stream: true } : {}),
    ...more,
  })
  const file = FILES[protocol]
  const { usage = openaiUsage } = shape
  return {
    protocol,
    path: shape.path,
    fields,
    body: (ask) => (file === undefined ? JSON.stringify(fields(ask)) : formOf(fields(ask), file)),
    stream: STREAMS[protocol] ?? null,
    answer: (text, counts = SMALL) =>
      protocol === 'speech'
        ? `sound of ${text}`
        : JSON.stringify({ ...shape.answer(text), ...(usage === null ? {} : { usage: usage(counts) }) }),
    contentType: protocol === 'speech' ? 'audio/wav' : 'application/json',
  }
}

function formOf(fields: Readonly<Record<string, unknown>>, file: string): FormData {
  const form = new FormData()
  for (const [name, value] of Object.entries(fields)) form.append(name, String(value))
  form.append(file, new Blob(['bytes of a file']), 'file.bin')
  return form
}

const FIXTURES: ReadonlyMap<string, Fixture> = new Map(
  Object.entries(SHAPES).map(([protocol, shape]) => [protocol, fixtureOf(protocol, shape)]),
)

export const fixtureFor = (protocol: string): Fixture => FIXTURES.get(protocol)!
