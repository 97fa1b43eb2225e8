/** A fake engine with bytes as tokens. It behaves like vLLM in everything that affects a continuation. */
import { randomUUID } from 'node:crypto'
import type { Piece, FakeAnswer } from './fake-answer.ts'
import type { EngineRequest } from './engine-request.ts'
import { chunk, SSE_HEAD } from './engine-script.ts'
import { FakeEngine } from './fake-engine.ts'
import { completion, sseAnswer } from './sse.ts'

/** Ways to write one event that mean the same (WHATWG HTML, 9.2.6). */
const FRAMINGS = {
  comment: (data: string) => `: keep-alive\ndata: ${data}\n\n`,
  id: (data: string) => `id: 7\nretry: 100\ndata:${data}\n\n`,
  crlf: (data: string) => `: keep-alive\r\ndata: ${data}\r\n\r\n`,
  lines: (data: string) => `data: ${data.replace(/^\{/, '{\ndata: ')}\n\n`,
} as const

type Framing = keyof typeof FRAMINGS
export const framings = Object.keys(FRAMINGS) as readonly Framing[]

export interface Script {
  /** What happens after `after` tokens of the next stream. Absent: nothing. */
  readonly fault?:
    | 'reset'
    | 'end'
    | 'error_event'
    | 'abort'
    | 'silence'
    | 'lost_done'
    /** The body is whole, but does not end: the connection breaks behind `[DONE]`. */
    | 'reset_after_done'
    /** The same, and the connection stays open. */
    | 'silence_after_done'
    /** The connection ends inside the head of an HTTP chunk. */
    | 'chunk_head'
    /** The last token comes without the finish reason. */
    | 'no_finish'
  /** Status of the response instead of a stream. */
  readonly status?: number
  readonly after?: number
  /** As vLLM: if the prompt ends inside a character, the first text is the whole decoded prompt. */
  readonly leaks?: boolean
  /** The first text does not belong to the first ids. */
  readonly lies?: boolean
  /** The output differs from this token on. */
  readonly differsAt?: number
  /** The connection breaks after this many bytes of the body, with a reset or (`fault: 'end'`) without. */
  readonly bytes?: number
  /** The fault happens once in this process. Absent: each time. */
  readonly id?: string
  /** Tokens of one chunk. */
  readonly merge?: number
  /** How events are written. Absent: one line of `data: `. */
  readonly framing?: Framing
  /** Tokens before the tool call, if the request has tools. Absent: the whole output is one. */
  readonly callsAt?: number
  /** Tokens of the reasoning of a chat. Its first and last ones are as `<think>`: the parser removes their text. */
  readonly thinks?: number
}

const OFFSET = 1000
/** Bodies that are kept. */
const KEPT = 1000
const encode = (text: string): number[] => Array.from(new TextEncoder().encode(text), (byte) => byte + OFFSET)
const decode = (ids: readonly number[]): string => new TextDecoder().decode(Uint8Array.from(ids, (id) => id - OFFSET))

type Json = Readonly<Record<string, unknown>>

export class ByteEngine {
  readonly #prompt: readonly number[]
  readonly #output: readonly number[]
  #engine: FakeEngine | null = null
  #script: Script = {}
  /** Bodies of requests for completions and chats, oldest first. */
  readonly bodies: Json[] = []
  /** Requests whose prompt was a list of token ids. */
  continued = 0
  /** Silent streams that the gateway has closed. */
  closed = 0
  /** Requests that were answered with the script's status. */
  refused = 0
  url = ''

  constructor(prompt: string, output: string) {
    this.#prompt = encode(prompt)
    this.#output = encode(output)
  }

  async open(): Promise<void> {
    this.#engine = await FakeEngine.open({ 'POST *': (request) => this.#answer(request) })
    this.url = this.#engine.url
  }

  async close(): Promise<void> {
    await this.#engine?.close()
  }

  /** Sets the script of the next stream; later ones have no faults. */
  next(script: Script): void {
    this.#script = script
  }

  #answer(request: EngineRequest): FakeAnswer {
    const { path, json: body } = request
    if (path === '/tokenize') return { body: { tokens: encode('a'), count: 1, max_model_len: 4096 } }
    if (path === '/detokenize') return { body: { prompt: decode(body['tokens'] as number[]) } }
    // A trial of the gateway itself is none of the requests that a test expects.
    if (request.isTrial) return { body: completion() }
    this.bodies.push(body)
    if (this.bodies.length > KEPT) this.bodies.shift()
    if (Array.isArray(body['prompt'])) this.continued++
    const script = scriptIn(body) ?? this.#script
    this.#script = {}
    if (script.status !== undefined) {
      this.refused++
      return { status: script.status, body: { error: { message: 'refused' } } }
    }
    if (script.fault === 'silence') void request.ended.then(() => this.closed++)
    return this.#stream({ body, script, isChat: path === '/v1/chat/completions' })
  }

  #stream({ body, script, isChat }: Stream): FakeAnswer {
    const given = Array.isArray(body['prompt']) ? (body['prompt'] as number[]) : this.#prompt
    const from = given.length - this.#prompt.length
    const limit = (body['max_completion_tokens'] ?? body['max_tokens'] ?? Infinity) as number
    const tokens = this.#output.slice(from, from + limit)
    if (script.differsAt !== undefined) tokens.fill(OFFSET + 0x78, script.differsAt)
    const writer = new ChunkWriter({ body, isChat, prompt: given, script })
    const { fault, after = 0, merge = 1, bytes } = script
    const fails = fault !== undefined && !END_FAULTS.has(fault) && bytes === undefined
    const end = !fails ? tokens.length : Math.min(after, tokens.length)
    for (let at = 0; at < end && !writer.stopped; at += merge) {
      const last = Math.min(at + merge, end) === tokens.length
      const reason = from + tokens.length < this.#output.length ? 'length' : 'stop'
      const finish = last && fault !== 'no_finish' ? reason : null
      writer.tokens(tokens.slice(at, Math.min(at + merge, end)), finish)
    }
    if (fails && !writer.stopped) return failed(fault, writer)
    writer.end()
    if (bytes !== undefined) return brokenAfter(writer.events, bytes, fault === 'end')
    if (fault === 'silence_after_done') return sseAnswer(writer.events, { end: 'hang' })
    return END_FAULTS.has(fault) ? reset(writer.events) : sseAnswer(writer.events)
  }
}

interface Stream {
  readonly body: Json
  readonly script: Script
  readonly isChat: boolean
}

/** Faults of a stream with all of its tokens. */
const END_FAULTS = new Set<Script['fault']>(['lost_done', 'reset_after_done', 'silence_after_done'])

/** Time in which written bytes arrive before the connection breaks, ms. */
const ARRIVAL_MS = 30
const reset = (events: readonly Piece[]): FakeAnswer => sseAnswer([...events, ARRIVAL_MS], { end: 'reset' })

function failed(fault: NonNullable<Script['fault']>, writer: ChunkWriter): FakeAnswer {
  const { events } = writer
  switch (fault) {
    case 'silence':
      return sseAnswer(events, { end: 'hang' })
    case 'error_event': {
      const message = 'EngineCore encountered an issue.'
      const error = { message, type: 'InternalServerError', param: null, code: 500 }
      return sseAnswer([...events, `data: ${JSON.stringify({ error })}\n\ndata: [DONE]\n\n`])
    }
    case 'abort':
      writer.tokens([], 'abort')
      writer.end()
      return sseAnswer(events)
    case 'end':
    case 'no_finish':
      return sseAnswer(events)
    case 'chunk_head':
      return { raw: SSE_HEAD, pieces: [...events.map(framed), ARRIVAL_MS, '1f'], end: 'truncate' }
    default:
      return reset(events)
  }
}

/** An event in an HTTP chunk of its own. */
const framed = (event: string): Uint8Array => Buffer.from(chunk(Buffer.from(event).toString('latin1')), 'latin1')

/** Breaks the connection after `bytes` of the body, in the middle of an event; a shorter body is whole. */
function brokenAfter(events: readonly string[], bytes: number, isClean: boolean): FakeAnswer {
  const pieces: Uint8Array[] = []
  let left = bytes
  for (const event of events) {
    const whole = Buffer.from(event)
    pieces.push(whole.subarray(0, left))
    left -= whole.length
    if (left < 0) return sseAnswer([...pieces, 2], { end: isClean ? 'truncate' : 'reset' })
  }
  return sseAnswer(events)
}

/** Ids of played scripts. */
const played = new Set<string>()

/** The script in a request. A retry of the request has no fault. */
function scriptIn({ script }: Json): Script | null {
  if (script === undefined) return null
  const { id, ...given } = script as Script
  if (id !== undefined && played.has(id)) {
    const { fault: _fault, bytes: _bytes, ...rest } = given
    return rest
  }
  if (id !== undefined) played.add(id)
  return given
}

/** What a reasoning parser makes of text at this place of the output. */
function reasoned(text: string, at: number, thinks: number): Json {
  const range = (from: number, to: number): string => text.slice(Math.max(0, from - at), Math.max(0, to - at))
  const [reasoning, content] = [range(1, thinks - 1), range(thinks, Infinity)]
  return { ...(reasoning === '' ? {} : { reasoning }), ...(content === '' ? {} : { content }) }
}

/** Makes chunks as vLLM does: text of whole characters, without text that may belong to a stop string. */
class ChunkWriter {
  readonly events: string[] = []
  readonly #body: Json
  readonly #isChat: boolean
  readonly #prompt: readonly number[]
  readonly #script: Script
  readonly #stops: readonly string[]
  #ids: number[] = []
  #sent = 0
  #count = 0
  #isCalling = false
  stopped = false

  constructor({
    body,
    isChat,
    prompt,
    script,
  }: {
    body: Json
    isChat: boolean
    prompt: readonly number[]
    script: Script
  }) {
    this.#body = body
    this.#isChat = isChat
    this.#prompt = prompt
    this.#script = script
    const stop = body['stop'] ?? []
    this.#stops = typeof stop === 'string' ? [stop] : (stop as string[])
    if (isChat) this.#write({ delta: { role: 'assistant', content: '' }, finish_reason: null }, this.#idsOf(prompt))
  }

  tokens(ids: readonly number[], finish: string | null): void {
    this.#ids.push(...ids)
    let whole = this.#text()
    const found = this.#stops.map((stop) => ({ stop, at: whole.indexOf(stop) })).find(({ at }) => at >= 0)
    if (found !== undefined) {
      this.stopped = true
      const includes = this.#body['include_stop_str_in_output'] === true
      whole = whole.slice(0, found.at + (includes ? found.stop.length : 0))
    }
    const holds = !this.stopped && finish === null && this.#body['include_stop_str_in_output'] !== true
    const held = !holds ? 0 : Math.max(0, ...this.#stops.map(({ length }) => length - 1))
    const end = Math.max(this.#sent, whole.length - held)
    const text = this.#script.lies === true && this.#count === 0 ? 'WRONG' : whole.slice(this.#sent, end)
    this.#sent = end
    const reason = this.stopped ? 'stop' : finish
    const choice = {
      ...(this.#isChat ? { delta: this.#delta(text, end - text.length, reason) } : { text }),
      finish_reason: reason,
      stop_reason: found?.stop ?? null,
      token_ids: this.#body['return_token_ids'] === true ? ids : null,
      ...(this.#isChat ? {} : { prompt_token_ids: this.#count === 0 ? this.#idsOf(this.#prompt) : null }),
    }
    this.#count++
    // Without ids, vLLM sends no chunk without text.
    if (text !== '' || reason !== null || choice.token_ids !== null) this.#write(choice)
  }

  /** With tools in the request, the engine's parser turns all output into a tool call. */
  #delta(text: string, at: number, reason: string | null): Json {
    const { thinks = 0, callsAt = 0 } = this.#script
    if (thinks > 0) return reasoned(text, at, thinks)
    if (text === '') return reason === null ? {} : { content: '' }
    const { tools, tool_choice: choice } = this.#body
    if (!Array.isArray(tools) || choice === 'none' || at < callsAt) return { content: text }
    const isFirst = !this.#isCalling
    this.#isCalling = true
    const opened = isFirst ? { id: `call-${randomUUID()}`, type: 'function' } : {}
    const name = isFirst ? { name: 'sail' } : {}
    return { tool_calls: [{ index: 0, ...opened, function: { ...name, arguments: text } }] }
  }

  /** Adds the usage, if it was requested, and `[DONE]`; neither, if the script loses the end. */
  end(): void {
    if (this.#script.fault === 'lost_done') return
    const outputTokens = this.#ids.length
    const usage = {
      prompt_tokens: this.#prompt.length,
      completion_tokens: outputTokens,
      total_tokens: this.#prompt.length + outputTokens,
    }
    if ((this.#body['stream_options'] as Json | undefined)?.['include_usage'] === true)
      this.events.push(this.#event(JSON.stringify({ ...this.#head(), choices: [], usage })))
    this.events.push(this.#event('[DONE]'))
  }

  #idsOf(ids: readonly number[]): readonly number[] | null {
    return this.#body['return_token_ids'] === true ? ids : null
  }

  /** Whole characters of the output so far. */
  #text(): string {
    const text = decode(this.#ids.length === 0 ? [] : [...this.#begun(), ...this.#ids])
    return (this.#leaks() ? decode(this.#prompt) + text : text).replace(/\ufffd+$/, '')
  }

  /** Bytes of the prompt that start the first character of the output. */
  #begun(): readonly number[] {
    let from = this.#prompt.length
    while (from > 0 && decode(this.#prompt.slice(from - 1)).endsWith('\ufffd') && this.#prompt.length - from < 3) from--
    return decode(this.#prompt).endsWith('\ufffd') ? this.#prompt.slice(from) : []
  }

  #leaks(): boolean {
    return this.#script.leaks === true || decode(this.#prompt).endsWith('\ufffd')
  }

  #head(): Json {
    const object = this.#isChat ? 'chat.completion.chunk' : 'text_completion'
    return { id: this.#isChat ? 'chatcmpl-1' : 'cmpl-1', object, created: 1795403494, model: this.#body['model'] }
  }

  #write(choice: Json, promptIds?: readonly number[] | null): void {
    const more = promptIds === undefined ? {} : { prompt_token_ids: promptIds, prompt_text: null }
    const value = { ...this.#head(), choices: [{ index: 0, ...choice, logprobs: null }], ...more }
    this.events.push(this.#event(JSON.stringify(value)))
  }

  #event(data: string): string {
    const { framing } = this.#script
    return framing === undefined ? `data: ${data}\n\n` : FRAMINGS[framing](data)
  }
}
