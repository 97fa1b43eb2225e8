/** Clients of the attacks: requests over node:http with connections of their own, and raw sockets. */
import http from 'node:http'
import net from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'

export const MODEL = 'fake'

export interface Answer {
  /** 0: no response. */
  readonly status: number
  /** `error.code` of the body, or the system's error; null: none. */
  readonly code: string | null
  /** Whether a stream reached `[DONE]`, or a whole response its end. */
  readonly complete: boolean
  readonly sentAtMs: number
  readonly endedAtMs: number
}

export interface ChatOptions {
  readonly key?: string
  /** Pace, as the fake engine reads it. */
  readonly user?: string
  readonly stream?: boolean
  readonly more?: object
  readonly limitMs?: number
  readonly agent?: http.Agent | false
}

/** Sends one chat; never rejects. */
export function chat(
  port: number,
  { key, user = '', stream = true, more = {}, limitMs = 40_000, agent = false }: ChatOptions = {},
): Promise<Answer> {
  const body = JSON.stringify({
    model: MODEL,
    stream,
    messages: [{ role: 'user', content: `hello ${Math.random()}` }],
    user,
    ...more,
  })
  return post(port, { body, agent, limitMs, headers: key === undefined ? {} : { authorization: `Bearer ${key}` } })
}

interface Post {
  readonly body: string
  readonly headers: Readonly<Record<string, string>>
  readonly limitMs: number
  readonly agent: http.Agent | false
}

function post(port: number, { body, headers, limitMs, agent }: Post): Promise<Answer> {
  const sentAtMs = Date.now()
  return new Promise((resolve) => {
    const ended = (status: number, code: string | null, complete: boolean): void => {
      clearTimeout(limit)
      resolve({ status, code, complete, sentAtMs, endedAtMs: Date.now() })
    }
    const request = http.request({
      host: '127.0.0.1',
      port,
      method: 'POST',
      path: '/v1/chat/completions',
      agent,
      headers: { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body), ...headers },
    })
    const limit = setTimeout(() => request.destroy(new Error('CLIENT_LIMIT')), limitMs)
    request.on('error', (error: NodeJS.ErrnoException) => ended(0, error.code ?? error.message, false))
    request.on('response', (response) => {
      const status = response.statusCode!
      let text = ''
      response.setEncoding('utf8').on('data', (part: string) => (text = (text + part).slice(-4096)))
      response.on('error', () => ended(status, 'cut', false))
      response.on('end', () => {
        const streamed = String(response.headers['content-type']).startsWith('text/event-stream')
        ended(
          status,
          status === 200 ? null : codeOf(text),
          status === 200 && (!streamed || text.includes('data: [DONE]')),
        )
      })
    })
    request.end(body)
  })
}

function codeOf(text: string): string | null {
  return /"code":"([^"]*)"/.exec(text)?.[1] ?? null
}

/** Calls `send` at a fixed rate for a time and collects the results. */
export async function atRate(perS: number, ms: number, send: () => Promise<Answer>): Promise<Answer[]> {
  const sent: Promise<Answer>[] = []
  const began = performance.now()
  for (let at = 0; at < (perS * ms) / 1000; at++) {
    const waitMs = began + (at * 1000) / perS - performance.now()
    if (waitMs > 0) await sleep(waitMs)
    sent.push(send())
  }
  return Promise.all(sent)
}

export const failures = (answers: readonly Answer[]): Answer[] =>
  answers.filter(({ status, complete }) => status !== 200 || !complete)

/** `12 x 200, 3 x 503 no_engine_available` */
export function summary(answers: readonly Answer[]): string {
  const counts = new Map<string, number>()
  for (const { status, code, complete } of answers) {
    const kind =
      `${status === 0 ? '' : status}${code === null ? '' : ` ${code}`}${status === 200 && !complete ? ' incomplete' : ''}`.trim()
    counts.set(kind, (counts.get(kind) ?? 0) + 1)
  }
  return [...counts].map(([kind, count]) => `${count} x ${kind}`).join(', ')
}

/** Opens a connection; its errors are ignored, the text it receives is kept. */
export async function connect(
  port: number,
): Promise<{ socket: net.Socket; text: () => string; closed: () => boolean }> {
  let text = ''
  let closed = false
  const socket = net.connect({ port, host: '127.0.0.1', noDelay: true })
  socket.on('error', () => {})
  socket.on('close', () => (closed = true))
  await new Promise<void>((resolve) => socket.once('connect', resolve).once('close', resolve))
  socket.on('data', (bytes: Buffer) => (text += bytes.toString('latin1')))
  return { socket, text: () => text, closed: () => closed }
}

/** Waits until `holds`, at most `limitMs`. Returns whether it held. */
export async function waitFor(
  holds: () => boolean | Promise<boolean>,
  limitMs: number,
  everyMs = 20,
): Promise<boolean> {
  const began = performance.now()
  while (!(await holds())) {
    if (performance.now() - began > limitMs) return false
    await sleep(everyMs)
  }
  return true
}

/** A pool of engines, as the attacks configure it. */
export function documentOf(
  urls: readonly string[],
  { pool = {}, engine = {}, ...rest }: Readonly<Record<string, object>> = {},
): object {
  const engines = urls.map((url, at) => ({ id: `e${at}`, url, ...engine }))
  return { clusters: [{ id: 'attacked', pools: [{ model: MODEL, engines, ...pool }] }], ...rest }
}
