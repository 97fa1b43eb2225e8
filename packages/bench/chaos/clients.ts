/** Requests of a chaos run: kinds of client behaviour in fixed shares, from a seed. */
import http from 'node:http'
import { LIMITED_KEY, MODEL, POOLS } from './document.ts'
import { difference, expectedTokens, type PromptOptions, type Difference } from './expected.ts'

export type Kind =
  | 'stream'
  | 'plain'
  | 'limited'
  | 'abort_before'
  | 'abort_during'
  | 'abort_plain'
  | 'bad_json'
  | 'unknown_model'
  | 'engine_4xx'

const SHARES: readonly (readonly [Kind, number])[] = [
  ['stream', 0.42],
  ['plain', 0.16],
  ['limited', 0.08],
  ['abort_before', 0.08],
  ['abort_during', 0.12],
  ['abort_plain', 0.05],
  ['bad_json', 0.03],
  ['unknown_model', 0.03],
  ['engine_4xx', 0.03],
]

export const STREAMS: ReadonlySet<Kind> = new Set(['stream', 'limited', 'abort_before', 'abort_during'])
/** Status of the response to an invalid request. */
const INVALID: Readonly<Partial<Record<Kind, number>>> = { bad_json: 400, unknown_model: 404, engine_4xx: 400 }

/** mulberry32: small, seeded, good enough to mix requests. */
export function seeded(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let t = Math.imul(state ^ (state >>> 15), state | 1)
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61)
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296
  }
}

export function pick(random: () => number): Kind {
  let left = random()
  for (const [kind, share] of SHARES) {
    left -= share
    if (left < 0) return kind
  }
  return 'stream'
}

/** Longest time of a request, ms. A silent engine costs up to 10 s, and a request may meet several. */
const PATIENCE_MS = 40_000

/** Outcome of one request. `rejected`: 429, over a limit or over capacity. */
export type Outcome =
  | 'ok'
  | 'aborted'
  | 'rejected'
  | 'invalid'
  | 'stream_cut'
  | 'plain_cut'
  | 'timed_out'
  | 'connection_broken'
  | 'ended_without_done'
  | `status_${number}_${string}`

export interface RequestResult extends Difference {
  readonly kind: Kind
  readonly id: string
  readonly outcome: Outcome
  readonly hasLeaked: boolean
  /** Longest time between two pieces of output, ms. */
  readonly pauseMs: number
  readonly sentAt: number
  readonly endedAt: number
  readonly url: string
}

interface Target {
  readonly url: string
  readonly key: string
  readonly agent: http.Agent
  readonly random: () => number
  /** Called when a response with status 200 begins and when it ends, for requests of the limited key. */
  running(change: 1 | -1): void
}

let sent = 0

/** Sends one request and waits for its end. Never rejects. */
export async function exchange(kind: Kind, target: Target): Promise<RequestResult> {
  const { url, random } = target
  const prompt: PromptOptions = {
    isCompletion: random() < 0.3,
    text: Array.from({ length: 5 + Math.floor(random() * 60) }, () => wordOf(random)).join(' '),
    maxTokens: 1 + Math.floor(random() * 40),
  }
  const id = `chaos-${process.pid}-${++sent}`
  const sentAt = performance.now()
  const { outcome, text, pauseMs } = await new Exchange(kind, prompt, { ...target, id }).ended
  const { lost, duplicate } = STREAMS.has(kind) ? minDifference(text, prompt, outcome === 'ok') : NO_DIFFERENCE
  const hasLeaked = text.includes(prompt.text.slice(0, 12))
  return { kind, id, outcome, lost, duplicate, hasLeaked, pauseMs, sentAt, endedAt: performance.now(), url }
}

const NO_DIFFERENCE: Difference = { lost: 0, duplicate: 0 }
const wordOf = (random: () => number): string => Math.floor(random() * 1e6).toString(36)

/** The pool can have either name, and the simulated output depends on it. */
function minDifference(text: string, prompt: PromptOptions, isComplete: boolean): Difference {
  return POOLS.map((model) => difference(text, expectedTokens(model, prompt), isComplete)).reduce((best, one) =>
    one.lost + one.duplicate < best.lost + best.duplicate ? one : best,
  )
}

interface Result {
  readonly outcome: Outcome
  readonly text: string
  readonly pauseMs: number
}

class Exchange {
  readonly ended: Promise<Result>
  readonly #kind: Kind
  readonly #target: Target
  readonly #request: http.ClientRequest
  readonly #timer: NodeJS.Timeout
  #resolve!: (result: Result) => void
  #raw = ''
  #read = 0
  #text = ''
  #lastAt = 0
  #pauseMs = 0
  #isRunning = false
  #hasTimedOut = false

  constructor(kind: Kind, prompt: PromptOptions, target: Target & { readonly id: string }) {
    this.#kind = kind
    this.#target = target
    this.ended = new Promise((resolve) => (this.#resolve = resolve))
    const body = bodyOf(kind, prompt)
    this.#request = http.request(`${target.url}/v1/${prompt.isCompletion ? 'completions' : 'chat/completions'}`, {
      agent: target.agent,
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        'content-length': Buffer.byteLength(body),
        'x-request-id': target.id,
        authorization: `Bearer ${kind === 'limited' ? LIMITED_KEY : target.key}`,
      },
    })
    this.#timer = setTimeout(() => {
      this.#hasTimedOut = true
      this.#request.destroy()
    }, PATIENCE_MS)
    this.#request.on('error', () => this.#end('connection_broken'))
    this.#request.on('response', (response) => this.#receive(response))
    this.#request.end(body)
    if (kind === 'abort_before' || kind === 'abort_plain') this.#leave()
  }

  #leave(): void {
    setTimeout(() => this.#request.destroy(), Math.floor(this.#target.random() * 30))
  }

  #receive(response: http.IncomingMessage): void {
    const { statusCode } = response
    if (this.#kind === 'limited' && statusCode === 200) this.#run(1)
    if (this.#kind === 'abort_during') response.once('data', () => this.#leave())
    const isStream = response.headers['content-type']?.startsWith('text/event-stream') === true
    response.setEncoding('utf8')
    response.on('data', (text: string) => {
      this.#raw += text
      if (isStream) this.#parse()
    })
    response.on('error', () => this.#end(isStream ? 'stream_cut' : 'plain_cut'))
    response.on('close', () => this.#end(isStream ? 'stream_cut' : 'plain_cut'))
    response.on('end', () => this.#end(this.#outcomeOf(statusCode!, isStream)))
  }

  #outcomeOf(status: number, isStream: boolean): Outcome {
    if (status === 429) return 'rejected'
    if (status === INVALID[this.#kind]) return 'invalid'
    if (status !== 200) return `status_${status}_${/"code":\s*"(\w+)"/.exec(this.#raw)?.[1] ?? ''}`
    return !isStream || this.#raw.includes('data: [DONE]') ? 'ok' : 'ended_without_done'
  }

  /** Reads the complete records. */
  #parse(): void {
    for (;;) {
      const end = this.#raw.indexOf('\n\n', this.#read)
      if (end < 0) return
      const data = /^data: (\{.*)$/m.exec(this.#raw.slice(this.#read, end))
      this.#read = end + 2
      if (this.#raw.startsWith('data: [DONE]', this.#read)) this.#run(-1)
      const text = data === null ? '' : textOf(data[1]!)
      if (text === '') continue
      const now = performance.now()
      if (this.#lastAt > 0) this.#pauseMs = Math.max(this.#pauseMs, now - this.#lastAt)
      this.#lastAt = now
      this.#text += text
    }
  }

  #run(change: 1 | -1): void {
    if (this.#isRunning === change > 0 || this.#kind !== 'limited') return
    this.#isRunning = change > 0
    this.#target.running(change)
  }

  #end(outcome: Outcome): void {
    clearTimeout(this.#timer)
    this.#run(-1)
    const isAborted = this.#kind.startsWith('abort') && outcome !== 'ok'
    const seen = this.#hasTimedOut ? 'timed_out' : isAborted ? 'aborted' : outcome
    this.#resolve({ outcome: seen, text: this.#text, pauseMs: this.#pauseMs })
  }
}

interface Chunk {
  readonly choices?: readonly { readonly delta?: { readonly content?: string }; readonly text?: string }[]
}

function textOf(json: string): string {
  const [choice] = (JSON.parse(json) as Chunk).choices ?? []
  return choice?.delta?.content ?? choice?.text ?? ''
}

function bodyOf(kind: Kind, { isCompletion, text, maxTokens }: PromptOptions): string {
  if (kind === 'bad_json') return '{"model": "sim", "messages": ['
  return JSON.stringify({
    model: kind === 'unknown_model' ? 'absent' : MODEL,
    ...(isCompletion ? { prompt: text } : { messages: [{ role: 'user', content: text }] }),
    max_tokens: maxTokens,
    stream: STREAMS.has(kind),
    ...(kind === 'engine_4xx' ? { temperature: -1 } : {}),
  })
}
