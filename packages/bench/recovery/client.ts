/** A client of the recovery benchmark: one stream, given up after 10 s without a token. */
import http from 'node:http'

/** Time after which a client without a token leaves, as most do, ms. */
export const PATIENCE_MS = 10_000

/** Time after which a stream that began counts as broken if no further byte comes, ms. */
const SILENCE_MS = 30_000

/** What became of one request. Times are `performance.now()`. */
export interface ClientCall {
  readonly id: string
  readonly sentAt: number
  /** null: no token came. */
  readonly firstTokenAt: number | null
  readonly isComplete: boolean
  /** When the response ended, or its client left. */
  readonly endedAt: number
  /** Longest silence of the stream after its first token; null: no token came. */
  readonly silence: Silence | null
  /** Engine that answered; null: unknown. */
  readonly engine: string | null
  /** Id of the gateway's decision; null: unknown. */
  readonly decision: string | null
  /** Why it did not complete. */
  readonly problem: string | null
}

/** Part of a stream without output. */
export interface Silence {
  readonly from: number
  readonly ms: number
}

export interface Ask {
  readonly url: string
  readonly id: string
  readonly body: string
  readonly key?: string
  readonly patienceMs?: number
}

const TOKEN = /"content":"[^"]/

/** Sends one chat and reads its stream. Never rejects. */
export function ask({ url, id, body, key, patienceMs = PATIENCE_MS }: Ask): Promise<ClientCall> {
  const sentAt = performance.now()
  return new Promise((resolve) => {
    let firstTokenAt: number | null = null
    let engine: string | null = null
    let decision: string | null = null
    let movedAt = 0
    let silence: Silence | null = null
    let limit: NodeJS.Timeout
    const moved = (): void => {
      if (firstTokenAt === null) return
      const [from, now] = [movedAt, performance.now()]
      if (silence === null || now - from > silence.ms) silence = { from, ms: now - from }
      movedAt = now
    }
    const ended = (problem: string | null): void => {
      clearTimeout(limit)
      moved()
      const endedAt = performance.now()
      resolve({ id, sentAt, firstTokenAt, isComplete: problem === null, endedAt, silence, engine, decision, problem })
    }
    const request = http.request(`${url}/v1/chat/completions`, {
      method: 'POST',
      agent: false,
      headers: {
        'content-type': 'application/json',
        'content-length': Buffer.byteLength(body),
        'x-request-id': id,
        ...(key === undefined ? {} : { authorization: `Bearer ${key}` }),
      },
    })
    const expire = (ms: number): void => {
      clearTimeout(limit)
      limit = setTimeout(() => {
        ended(firstTokenAt === null ? 'no token' : 'silent')
        request.destroy()
      }, ms)
    }
    expire(patienceMs)
    request.on('error', (error: NodeJS.ErrnoException) => ended(error.code ?? error.message))
    request.on('response', (response) => {
      let tail = ''
      engine = (response.headers['x-firstlight-engine'] as string | undefined) ?? null
      decision = (response.headers['x-firstlight-decision'] as string | undefined)?.split(';')[0] ?? null
      response.setEncoding('utf8').on('data', (part: string) => {
        tail = (tail + part).slice(-4096)
        if (firstTokenAt === null && TOKEN.test(tail)) firstTokenAt = movedAt = performance.now()
        // Heartbeats of the gateway are no output.
        if (part.includes('data:')) moved()
        if (firstTokenAt !== null) expire(SILENCE_MS)
      })
      response.on('error', () => ended('broken'))
      response.on('end', () => ended(problemOf(response.statusCode!, tail)))
    })
    request.end(body)
  })
}

const problemOf = (status: number, tail: string): string | null =>
  status !== 200
    ? `status ${status}`
    : tail.includes('data: [DONE]') && !tail.includes('"error"')
      ? null
      : 'error event'
