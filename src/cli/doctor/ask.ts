/** Sends one question to a server on its own connection. Never throws: a failure is an answer too. */
import { request as requestHttp, type IncomingHttpHeaders, type IncomingMessage } from 'node:http'
import { request as requestHttps } from 'node:https'
import { connectErrorOf, type ConnectError } from '../connect-error.ts'

/** A server, and the headers to send. */
export interface Endpoint {
  /** Base URL without a trailing slash. */
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
}

export interface Question {
  readonly method?: 'GET' | 'POST'
  readonly path: string
  /** Sent as JSON. */
  readonly body?: unknown
  readonly limitMs: number
}

export interface Answer {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  readonly text: string
  readonly tookMs: number
  /** Epoch milliseconds at which the response head arrived. */
  readonly at: number
}

export type AskResult = Answer | ConnectError

/** Size limit of an answer. The metrics of a vLLM engine have about 100 kB, more with many adapters. */
const MAX_BYTES = 8 * 1024 * 1024

/** Request id that appears in the engines' logs. */
export const REQUEST_ID = 'firstlight-doctor'

export function ask(place: Endpoint, question: Question): Promise<AskResult> {
  return new Promise((resolve) => {
    const startedAt = performance.now()
    let connected = false
    let timer: NodeJS.Timeout | undefined
    const fail = (error: unknown): void => {
      clearTimeout(timer)
      resolve(connectErrorOf(error, { url: place.url, connected, limitMs: question.limitMs }))
    }
    const request = open(place, question, fail)
    if (request === null) return
    timer = setTimeout(
      () => request.destroy(Object.assign(new Error('too slow'), { code: 'DOCTOR_TIMEOUT' })),
      question.limitMs,
    )
    request.on('socket', (socket) =>
      socket.once(place.url.startsWith('https:') ? 'secureConnect' : 'connect', () => (connected = true)),
    )
    request.on('error', fail)
    request.on('response', (response) => {
      const head = { status: response.statusCode ?? 0, headers: response.headers, at: Date.now() }
      readText(response).then((text) => {
        clearTimeout(timer)
        resolve({ ...head, text, tookMs: performance.now() - startedAt })
      }, fail)
    })
    request.end(question.body === undefined ? undefined : JSON.stringify(question.body))
  })
}

/** Returns null if the request is invalid, for example because of an illegal header. */
function open(
  { url, headers }: Endpoint,
  { method = 'GET', path, body }: Question,
  fail: (error: unknown) => void,
): ReturnType<typeof requestHttp> | null {
  const own = {
    'x-request-id': REQUEST_ID,
    accept: '*/*',
    ...(body === undefined ? {} : { 'content-type': 'application/json' }),
  }
  try {
    return (url.startsWith('https:') ? requestHttps : requestHttp)(url + path, {
      method,
      agent: false,
      headers: { ...own, ...headers },
    })
  } catch (error) {
    fail(error)
    return null
  }
}

async function readText(response: IncomingMessage): Promise<string> {
  const pieces: Buffer[] = []
  let size = 0
  for await (const piece of response as AsyncIterable<Buffer>) {
    size += piece.length
    if (size > MAX_BYTES) throw Object.assign(new Error(`more than ${MAX_BYTES} bytes`), { code: 'DOCTOR_TOO_LONG' })
    pieces.push(piece)
  }
  return Buffer.concat(pieces).toString('utf8')
}

export const isAnswer = (result: AskResult): result is Answer => 'status' in result

/** Parses the body of a 200 response as JSON; null if there is none. */
export function jsonOf(result: AskResult): unknown {
  if (!isAnswer(result) || result.status !== 200) return null
  try {
    return JSON.parse(result.text)
  } catch {
    return null
  }
}

/** Summarises an answer: `HTTP 404`, or the error. */
export const summaryOf = (result: AskResult): string => (isAnswer(result) ? `HTTP ${result.status}` : result.message)
