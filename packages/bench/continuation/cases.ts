/** Streams that are cut at a random byte: requests, what their clients must get, and a check of what they got. */
import type { Script } from '../../../test/kit/byte-engine.ts'

export const SECRET = 'SECRET SYSTEM PROMPT'
export const MODEL = 'bytes'
/** Numbered, so that a gap or a duplicate shows; characters of two to four bytes, so that cuts divide them. */
export const OUTPUT = Array.from({ length: 14 }, (_, at) => `${at}: Größe 乗り物 🚢 sails; `).join('')
const BYTES = new TextEncoder().encode(OUTPUT)
/** Bytes of an event without its text and ids, about. */
const EVENT_BYTES = 215
const TOKEN_BYTES = 6

export interface TruncationCase {
  readonly path: string
  readonly body: Readonly<Record<string, unknown>>
  readonly text: string
  readonly finish: string
}

/** Pseudo-random numbers in [0, 1) (mulberry32). */
export function randomOf(seed: number): () => number {
  let state = seed | 0
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}

/** A request whose body has the engine's script. Its continuation does not repeat the script. */
export function randomCase(random: () => number, id: string): TruncationCase {
  const pick = <Value>(values: readonly Value[]): Value => values[Math.floor(random() * values.length)]!
  const isChat = random() < 0.5
  const merge = pick([1, 1, 2, 3, 5])
  const limit = random() < 0.3 ? 1 + Math.floor(random() * BYTES.length) : 2 * BYTES.length
  const stopAt = Math.floor(random() * OUTPUT.length * 1.5)
  const stop = random() < 0.4 ? OUTPUT.slice(stopAt, stopAt + 2 + Math.floor(random() * 20)) : ''
  const tokens = Math.min(limit, BYTES.length)
  const total = (tokens / merge) * EVENT_BYTES + tokens * TOKEN_BYTES
  const script: Script = {
    id,
    merge,
    ...(random() < 0.8
      ? { bytes: Math.floor(random() * total), ...(random() < 0.5 ? { fault: 'end' } : {}) }
      : { fault: pick(['error_event', 'abort', 'lost_done']), after: 1 + Math.floor(random() * tokens) }),
  }
  const { text, finish } = expected(limit, isWhole(stop) ? stop : '')
  return {
    path: isChat ? '/v1/chat/completions' : '/v1/completions',
    body: {
      model: MODEL,
      stream: true,
      max_tokens: limit,
      ...(isChat ? { messages: [{ role: 'user', content: SECRET }] } : { prompt: SECRET }),
      ...(isWhole(stop) ? { stop: [stop] } : {}),
      ...(random() < 0.5 ? { stream_options: { include_usage: true } } : {}),
      script,
    },
    text,
    finish,
  }
}

/** Not half of a pair of surrogates. */
const isWhole = (text: string): boolean => text !== '' && text.isWellFormed()

function expected(limit: number, stop: string): Pick<TruncationCase, 'text' | 'finish'> {
  const text = new TextDecoder().decode(BYTES.subarray(0, limit)).replace(/\ufffd+$/, '')
  const at = stop === '' ? -1 : text.indexOf(stop)
  if (at >= 0) return { text: text.slice(0, at), finish: 'stop' }
  return { text, finish: limit < BYTES.length ? 'length' : 'stop' }
}

interface Chunk {
  readonly id?: string
  readonly choices?: readonly {
    readonly delta?: { readonly content?: string; readonly role?: string }
    readonly text?: string
    readonly finish_reason?: string | null
  }[]
  readonly usage?: unknown
}

function parsed(payload: string): Chunk {
  try {
    return JSON.parse(payload) as Chunk
  } catch {
    // The last line of a response that broke.
    return {}
  }
}

/** Returns what is wrong with the body of a response. Empty: nothing. */
function faultsOf({ body, text, finish }: TruncationCase, raw: string): string[] {
  const payloads = [...raw.matchAll(/^data: (.*)$/gm)].map((match) => match[1]!)
  const chunks = payloads.filter((one) => one !== '[DONE]').map(parsed)
  const choices = chunks.flatMap(({ choices: some }) => some?.[0] ?? [])
  const got = choices.map(({ delta, text: own }) => delta?.content ?? own ?? '').join('')
  const finishes = choices.flatMap(({ finish_reason: reason }) => reason ?? [])
  const wanted = Object.hasOwn(body, 'stream_options') ? 1 : 0
  const checks: Readonly<Record<string, boolean>> = {
    'an error event': raw.includes('"error"'),
    'a prompt': raw.includes('SECRET'),
    'token ids': /token_ids":\s*\[/.test(raw),
    'other text': got !== text,
    'other finish reasons': finishes.join() !== finish,
    'other than one [DONE]': payloads.filter((one) => one === '[DONE]').length !== 1 || payloads.at(-1) !== '[DONE]',
    'several ids': new Set(chunks.map(({ id }) => id)).size > 1,
    'several roles': choices.filter(({ delta }) => delta?.role !== undefined).length > 1,
    'other than the usage records requested': chunks.filter(({ usage }) => Boolean(usage)).length !== wanted,
  }
  return Object.keys(checks).filter((name) => checks[name])
}

/** Sends the request. Returns what is wrong with the response; with its end, if anything is. */
export async function faultsAt(url: string, one: TruncationCase): Promise<readonly string[]> {
  const decoder = new TextDecoder()
  let text = ''
  const faults: string[] = []
  try {
    const response = await fetch(url + one.path, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(one.body),
    })
    for await (const chunk of response.body!) text += decoder.decode(chunk, { stream: true })
  } catch (error) {
    faults.push(`${String(error)} (${String((error as Error).cause)})`)
  }
  faults.push(...faultsOf(one, text))
  return faults.length === 0 ? [] : [...faults, `end: ${text.slice(-300)}`]
}

/** Configuration of a gateway in front of these engines. */
export const continuationDocument = (urls: readonly string[], retry: Readonly<Record<string, unknown>>): object => ({
  open: true,
  log: { level: 'silent' },
  limits: { heartbeat_ms: 0 },
  clusters: [
    {
      id: 'c',
      pools: [
        {
          model: MODEL,
          retry: { share: 1, min_per_s: 1000, ...retry },
          circuit: { failures: 1000 },
          limits: { idle_ms: 10_000 },
          engines: urls.map((url, at) => ({ id: `e${at}`, url })),
        },
      ],
    },
  ],
})
