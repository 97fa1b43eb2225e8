/** The feed of a running gateway, as the dashboard reads it: `GET /v1/firstlight/live`. */
import { lastView } from '../../../dashboard/last-view.ts'
import type { View } from '../../../dashboard/wire.ts'
import { fetchTrouble } from '../doctor/trouble.ts'
import { harmless } from './plain-text.ts'
import { readView } from './read-view.ts'

export interface Gateway {
  /** Base URL, without a slash at its end. */
  readonly url: string
  /** Its admin key; null: none is sent. */
  readonly key: string | null
}

/** There is nothing to be seen. Says why, and what to do. */
export class Unseen extends Error {
  readonly next: string

  constructor(says: string, next: string) {
    super(cut(harmless(says)))
    this.name = 'Unseen'
    this.next = next
  }
}

const MOST_CHARACTERS = 300
const cut = (text: string): string => (text.length > MOST_CHARACTERS ? `${text.slice(0, MOST_CHARACTERS)}…` : text)

/** The gateway sends a view every second or two, and in twice five where an object does not answer. */
const SILENT_MS = 15_000
/** A fleet of ten thousand engines. */
const MOST_TEXT = 32 * 2 ** 20

const isItThere = 'Is the gateway running, and is this its address? --url names another.'
const giveKey = 'It is admin.secret of the gateway’s configuration: set FIRSTLIGHT_ADMIN_KEY to it, or give --key.'

/** Views as they come, until the gateway ends the feed (as it does every five minutes) or `stop`. Throws Unseen. */
export async function* follow(gateway: Gateway, stop: AbortSignal, silentMs = SILENT_MS): AsyncGenerator<View> {
  const silence = new AbortController()
  const hear = () => setTimeout(() => silence.abort(new Unseen(`it has said nothing for ${silentMs / 1000} s`, isItThere)), silentMs)
  let timer = hear()
  let views = 0
  try {
    const response = await open(gateway, AbortSignal.any([stop, silence.signal]))
    for await (const json of jsonOf(response.body!)) {
      clearTimeout(timer)
      views++
      yield viewOf(json)
      timer = hear()
    }
  } catch (error) {
    if (stop.aborted) return
    if (silence.signal.aborted) throw silence.signal.reason
    throw error instanceof Unseen ? error : new Unseen(fetchTrouble(error, gateway.url), isItThere)
  } finally {
    clearTimeout(timer)
    silence.abort()
  }
  if (views === 0 && !stop.aborted) throw new Unseen('it ended the feed before it showed anything', 'Ask again in a moment; its log says more.')
}

async function open({ url, key }: Gateway, signal: AbortSignal): Promise<Response> {
  const headers = { accept: 'text/event-stream', ...(key === null ? {} : { authorization: `Bearer ${key}` }) }
  const response = await fetch(`${url}/v1/firstlight/live`, { headers, signal, redirect: 'manual' })
  if (response.ok && response.headers.get('content-type')?.startsWith('text/event-stream') === true) return response
  throw refusal(response.status, await messageIn(response), key)
}

/** What the gateway itself says of it is written for people. */
function refusal(status: number, message: string | null, key: string | null): Unseen {
  if (message === null) return new Unseen(`what answers there is no Firstlight gateway (HTTP ${status})`, isItThere)
  if (status === 401) return new Unseen(key === null ? 'it wants its admin key' : 'it does not know this admin key', giveKey)
  return new Unseen(`it says: ${message}`, status === 404 ? isItThere : 'docs/api.md has every answer of a gateway, and its log says more.')
}

async function messageIn(response: Response): Promise<string | null> {
  try {
    const { error } = (await response.json()) as { readonly error: { readonly message: unknown } }
    return typeof error.message === 'string' ? error.message : null
  } catch {
    return null
  }
}

/** The JSON of each view that is worth drawing. */
async function* jsonOf(body: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  const utf8 = new TextDecoder()
  let text = ''
  for await (const bytes of body) {
    text += utf8.decode(bytes, { stream: true })
    if (text.length > MOST_TEXT) throw new Unseen('its view of the fleet has no end', isItThere)
    const { json, rest } = lastView(text)
    text = rest
    if (json !== null) yield json
  }
}

function viewOf(json: string): View {
  try {
    return readView(JSON.parse(json))
  } catch (error) {
    throw new Unseen(`what it sends is no view of a fleet: ${error instanceof Error ? error.message : String(error)}`, 'Are the gateway and this command of the same version?')
  }
}
