import { lastView } from '../../dashboard/last-view.ts'
import type { View } from '../../dashboard/wire.ts'
import { explainFetchError } from '../connect-error.ts'
import { sanitize } from './plain-text.ts'
import { readView } from './read-view.ts'

export interface Gateway {
  /** Base URL without a trailing slash. */
  readonly url: string
  /** Its admin key; null: none is sent. */
  readonly key: string | null
}

/** Thrown if no view is available. The message contains the cause and a next step. */
export class FeedUnavailable extends Error {
  readonly next: string

  constructor(message: string, next: string) {
    super(truncate(sanitize(message)))
    this.name = 'FeedUnavailable'
    this.next = next
  }
}

const MAX_CHARACTERS = 300

const truncate = (text: string): string => (text.length > MAX_CHARACTERS ? `${text.slice(0, MAX_CHARACTERS)}…` : text)

/** The gateway sends a view every 1 to 2 s, or after 10 s if a Durable Object does not answer. */
const SILENT_MS = 15_000

/** Enough for a fleet of 10,000 engines. */
const MAX_TEXT = 32 * 2 ** 20

const CHECK_ADDRESS = 'Check that the gateway runs at this address, or give another with --url.'

const SET_KEY = 'Set FIRSTLIGHT_ADMIN_KEY to admin.secret of the gateway’s configuration, or give --key.'

/** Yields views until the gateway ends the feed (every 5 minutes) or `stop` aborts. Throws FeedUnavailable. */
export async function* follow(gateway: Gateway, stop: AbortSignal, silentMs = SILENT_MS): AsyncGenerator<View> {
  const silence = new AbortController()
  const receive = () =>
    setTimeout(() => silence.abort(new FeedUnavailable(`no data for ${silentMs / 1000} s`, CHECK_ADDRESS)), silentMs)
  let timer = receive()
  let views = 0
  try {
    const response = await open(gateway, AbortSignal.any([stop, silence.signal]))
    for await (const json of jsonOf(response.body!)) {
      clearTimeout(timer)
      views++
      yield viewOf(json)
      timer = receive()
    }
  } catch (error) {
    if (stop.aborted) return
    if (silence.signal.aborted) throw silence.signal.reason
    throw error instanceof FeedUnavailable
      ? error
      : new FeedUnavailable(explainFetchError(error, gateway.url), CHECK_ADDRESS)
  } finally {
    clearTimeout(timer)
    silence.abort()
  }
  if (views === 0 && !stop.aborted)
    throw new FeedUnavailable('the feed ended before the first view', 'Retry, or see its log.')
}

async function open({ url, key }: Gateway, signal: AbortSignal): Promise<Response> {
  const headers = { accept: 'text/event-stream', ...(key === null ? {} : { authorization: `Bearer ${key}` }) }
  const response = await fetch(`${url}/v1/firstlight/live`, { headers, signal, redirect: 'manual' })
  if (response.ok && response.headers.get('content-type')?.startsWith('text/event-stream') === true) return response
  throw rejectionOf(response.status, await messageIn(response), key)
}

/** Prefers the gateway's own error message. */
function rejectionOf(status: number, message: string | null, key: string | null): FeedUnavailable {
  if (message === null) return new FeedUnavailable(`not a Firstlight gateway (HTTP ${status})`, CHECK_ADDRESS)
  if (status === 401)
    return new FeedUnavailable(key === null ? 'the admin key is required' : 'the admin key was rejected', SET_KEY)
  return new FeedUnavailable(
    `the gateway returned: ${message}`,
    status === 404 ? CHECK_ADDRESS : 'docs/api.md lists all error codes; its log has details.',
  )
}

async function messageIn(response: Response): Promise<string | null> {
  try {
    const { error } = (await response.json()) as { readonly error: { readonly message: unknown } }
    return typeof error.message === 'string' ? error.message : null
  } catch {
    return null
  }
}

/** Yields the JSON of each view event. */
async function* jsonOf(body: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  const utf8 = new TextDecoder()
  let text = ''
  for await (const bytes of body) {
    text += utf8.decode(bytes, { stream: true })
    if (text.length > MAX_TEXT) throw new FeedUnavailable('the view of the fleet is too large', CHECK_ADDRESS)
    const { json, rest } = lastView(text)
    text = rest
    if (json !== null) yield json
  }
}

function viewOf(json: string): View {
  try {
    return readView(JSON.parse(json))
  } catch (error) {
    throw new FeedUnavailable(
      `invalid view: ${error instanceof Error ? error.message : String(error)}`,
      'Use the same version of gateway and command.',
    )
  }
}
