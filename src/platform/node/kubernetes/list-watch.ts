/**
 * Lists and watches objects of the Kubernetes API: a watch resumes at the last version, and a version that expired
 * (410) leads to a new list.
 * https://kubernetes.io/docs/reference/using-api/api-concepts/#efficient-detection-of-changes
 */
import { get as getHttp, type IncomingMessage } from 'node:http'
import { get as getHttps } from 'node:https'
import { abortableWait } from './abortable-wait.ts'
import type { KubernetesAccess } from './access.ts'

export interface KubernetesObject {
  readonly metadata: { readonly uid: string; readonly name: string; readonly resourceVersion: string }
}

/** `list` replaces everything that is known, so it also contains deletions that a watch missed. */
export type Change<Item> =
  | { readonly type: 'list'; readonly items: readonly Item[] }
  | { readonly type: 'set' | 'delete'; readonly item: Item }

/** Times in milliseconds. */
export interface WatchTimes {
  /** Length of one watch. A connection that died silently is noticed `graceMs` later. */
  readonly watchMs: number
  readonly graceMs: number
  /** First and longest wait after a failure. */
  readonly retryMs: number
  readonly maxRetryMs: number
}

const WATCH_TIMES: WatchTimes = { watchMs: 60_000, graceMs: 5_000, retryMs: 200, maxRetryMs: 30_000 }

/** The API server answered with an error. */
export class StatusError extends Error {
  readonly code: number
  constructor(code: number, message: string) {
    super(message)
    this.code = code
  }
}

interface ListWatchOptions {
  readonly access: KubernetesAccess
  /** Path of the collection: `/api/v1/namespaces/NAME/pods`. */
  readonly path: string
  /** Selectors of the API: `labelSelector`, `fieldSelector`. */
  readonly selectors: Readonly<Record<string, string>>
  readonly signal: AbortSignal
  /** Called for each failure, before the wait. */
  failed(error: Error): void
  readonly times?: WatchTimes
}

/** Objects per page of a list. */
const PAGE = '500'

/** Maximum length of a list page or a watch event, in characters. */
const MAX_TEXT = 32 * 2 ** 20

/** Yields the list and its changes until the signal is aborted. Never throws. */
export async function* listWatch<Item extends KubernetesObject>(
  options: ListWatchOptions,
): AsyncGenerator<Change<Item>> {
  const { signal, failed, times = WATCH_TIMES } = options
  let version = ''
  let failures = 0
  while (!signal.aborted) {
    try {
      if (version === '') {
        const list = await listAll<Item>(options)
        yield { type: 'list', items: list.items }
        version = list.version
      }
      const began = performance.now()
      for await (const event of watchOnce<Item>(options, version)) {
        version = event.object.metadata.resourceVersion
        failures = 0
        if (event.type === 'DELETED') yield { type: 'delete', item: event.object }
        else if (event.type !== 'BOOKMARK') yield { type: 'set', item: event.object }
      }
      // A server that ends watches at once must not be asked in a loop.
      if (performance.now() - began < times.retryMs) await abortableWait(times.retryMs, signal)
      else failures = 0
    } catch (error) {
      if (signal.aborted) return
      const isExpired = error instanceof StatusError && (error.code === 410 || error.code === 504)
      if (isExpired || error instanceof SyntaxError) version = ''
      if (!isExpired) failed(error as Error)
      failures += 1
      if (isExpired && failures === 1) continue
      await abortableWait(
        Math.min(times.maxRetryMs, times.retryMs * 2 ** (failures - 1)) * (0.5 + Math.random() / 2),
        signal,
      )
    }
  }
}

async function listAll<Item>(options: ListWatchOptions): Promise<{ readonly version: string; readonly items: Item[] }> {
  const items: Item[] = []
  for (let next = ''; ;) {
    const query = { ...options.selectors, limit: PAGE, ...(next === '' ? {} : { continue: next }) }
    let text = ''
    for await (const piece of await openResponse(options, query, 30_000)) {
      text += piece
      if (text.length > MAX_TEXT) throw new RangeError(`${options.path}: a page of the list exceeds ${MAX_TEXT} bytes`)
    }
    const page = JSON.parse(text) as { metadata: { resourceVersion: string; continue?: string }; items: Item[] | null }
    items.push(...(page.items ?? []))
    next = page.metadata.continue ?? ''
    if (next === '') return { version: page.metadata.resourceVersion, items }
  }
}

interface WatchEvent<Item> {
  readonly type: 'ADDED' | 'MODIFIED' | 'DELETED' | 'BOOKMARK'
  readonly object: Item
}

async function* watchOnce<Item>(options: ListWatchOptions, version: string): AsyncGenerator<WatchEvent<Item>> {
  const { watchMs, graceMs } = options.times ?? WATCH_TIMES
  const query = {
    ...options.selectors,
    watch: '1',
    resourceVersion: version,
    allowWatchBookmarks: 'true',
    timeoutSeconds: String(Math.ceil(watchMs / 1000)),
  }
  let rest = ''
  for await (const piece of await openResponse(options, query, watchMs + graceMs)) {
    const lines = (rest + piece).split('\n')
    rest = lines.pop()!
    if (rest.length > MAX_TEXT) throw new RangeError(`${options.path}: an event exceeds ${MAX_TEXT} bytes`)
    for (const line of lines) {
      const event = JSON.parse(line) as WatchEvent<Item> | { type: 'ERROR'; object: { code: number; message: string } }
      // The response status is 200 even if the version has expired.
      if (event.type === 'ERROR') throw new StatusError(event.object.code, event.object.message)
      yield event
    }
  }
}

/** Opens a response with status 200 as text. Fails if no byte arrives for `idleMs`. */
function openResponse(
  { access, path, signal }: ListWatchOptions,
  query: Readonly<Record<string, string>>,
  idleMs: number,
): Promise<IncomingMessage> {
  const { server, ca, cert, key } = access
  const token = access.token()
  const get = server.startsWith('https:') ? getHttps : getHttp
  return new Promise((resolve, reject) => {
    const options = {
      ...(ca === undefined ? {} : { ca }),
      ...(cert === undefined ? {} : { cert, key }),
      agent: false as const,
      signal,
      headers: { accept: 'application/json', ...(token === null ? {} : { authorization: `Bearer ${token}` }) },
    }
    const request = get(`${server}${path}?${new URLSearchParams(query)}`, options, (response) => {
      if (response.statusCode === 200) return resolve(response.setEncoding('utf8'))
      response.resume()
      reject(new StatusError(response.statusCode ?? 0, `${path}: the API server answered ${response.statusCode}`))
    })
    request.on('socket', (socket) => socket.setKeepAlive(true, 10_000))
    request.setTimeout(idleMs, () => request.destroy(new Error(`${path}: no data for ${idleMs} ms`)))
    request.on('error', reject)
  })
}
