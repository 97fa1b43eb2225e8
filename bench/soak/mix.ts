/** The mixed requests of a soak: what a client may do to a gateway, in fixed shares, from a seed. */
import http from 'node:http'

export type Kind =
  | 'stream'
  | 'plain'
  | 'abort_before'
  | 'abort_during'
  | 'abort_plain'
  | 'bad_json'
  | 'unknown_model'
  | 'engine_4xx'

const SHARES: readonly (readonly [Kind, number])[] = [
  ['stream', 0.4],
  ['plain', 0.2],
  ['abort_before', 0.1],
  ['abort_during', 0.12],
  ['abort_plain', 0.06],
  ['bad_json', 0.04],
  ['unknown_model', 0.04],
  ['engine_4xx', 0.04],
]

export type Outcomes = Record<string, number>

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

/**
 * Clients have their own patience. Without it an engine that falls silent in the middle of a stream nobody reads
 * (the native pipe of Workers) would hold its client for ever.
 */
const PATIENCE_MS = 15_000

interface Target {
  readonly url: string
  /** null: none is asked for. */
  readonly key: string | null
  readonly agent: http.Agent
  readonly random: () => number
}

/** Sends one request of a kind and waits until it is over for the client. Never rejects; says how it ended. */
export function exchange(kind: Kind, { url, key, agent, random }: Target): Promise<string> {
  const body = bodyOf(kind, random)
  return new Promise((resolve) => {
    const request = http.request(`${url}/v1/chat/completions`, {
      agent,
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        'content-length': Buffer.byteLength(body),
        ...(key === null ? {} : { authorization: `Bearer ${key}` }),
      },
    })
    let impatient = false
    const patience = setTimeout(() => {
      impatient = true
      request.destroy()
    }, PATIENCE_MS)
    const over = (outcome: string): void => {
      clearTimeout(patience)
      resolve(impatient ? 'gave_up' : outcome)
    }
    const leave = (): void => void setTimeout(() => request.destroy(), Math.floor(random() * 30))
    request.on('error', () => over(kind.startsWith('abort') ? 'aborted' : 'connection_broken'))
    request.on('response', (response) => {
      if (kind === 'abort_during') response.once('data', leave)
      let text = ''
      response.on('data', (bytes) => (text = (text + String(bytes)).slice(-4096)))
      response.on('error', () => over(kind.startsWith('abort') ? 'aborted' : 'cut'))
      response.on('end', () => over(verdict(response, text)))
      response.on('close', () => over(kind.startsWith('abort') ? 'aborted' : 'cut'))
    })
    request.end(body)
    if (kind === 'abort_before' || kind === 'abort_plain') leave()
  })
}

function verdict(response: http.IncomingMessage, text: string): string {
  if (response.statusCode !== 200) return `status_${response.statusCode}`
  const sse = response.headers['content-type']?.startsWith('text/event-stream') === true
  return !sse || text.includes('data: [DONE]') ? 'ok' : 'clean_end_without_done'
}

function bodyOf(kind: Kind, random: () => number): string {
  if (kind === 'bad_json') return '{"model": "sim", "messages": ['
  const words = Array.from({ length: 5 + Math.floor(random() * 200) }, () => Math.floor(random() * 1e6).toString(36))
  return JSON.stringify({
    model: kind === 'unknown_model' ? 'nobody' : 'sim',
    messages: [{ role: 'user', content: words.join(' ') }],
    max_tokens: 1 + Math.floor(random() * 40),
    stream: kind === 'stream' || kind === 'abort_before' || kind === 'abort_during',
    ...(kind === 'engine_4xx' ? { temperature: -1 } : {}),
  })
}
