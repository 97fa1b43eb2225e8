/** Access to a Kubernetes API server (the service account of the gateway's pod, or a kubeconfig file), and watches. */
import { existsSync, readFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { dirname, join, resolve as resolvePath } from 'node:path'
import { UsageError } from '../usage-error.ts'
import { parseYaml } from '../../../config/parse.ts'
import { get as getHttp, type IncomingMessage } from 'node:http'
import { get as getHttps } from 'node:https'

export interface KubernetesAccess {
  /** Base URL of the API server. */
  readonly server: string
  readonly ca?: string | undefined
  /** Client certificate and key, PEM. */
  readonly cert?: string | undefined
  readonly key?: string | undefined
  /** Namespace of selections that name none. */
  readonly namespace: string
  /** Bearer token; null: none. It is read for every connection, because tokens of service accounts are rotated. */
  token(): string | null
}

type Env = Readonly<Record<string, string | undefined>>

const ACCOUNT = '/var/run/secrets/kubernetes.io/serviceaccount'

/**
 * Finds the access: in a pod its service account, else the file of KUBECONFIG or ~/.kube/config.
 * Throws if there is none or if it needs a program to get a token.
 */
export function kubernetesAccess(env: Env, account = ACCOUNT): KubernetesAccess {
  const host = env['KUBERNETES_SERVICE_HOST']
  if (host !== undefined && existsSync(join(account, 'token'))) {
    const read = (name: string) => readFileSync(join(account, name), 'utf8').trim()
    return {
      server: `https://${host.includes(':') ? `[${host}]` : host}:${env['KUBERNETES_SERVICE_PORT'] ?? '443'}`,
      ca: read('ca.crt'),
      namespace: read('namespace'),
      token: () => read('token'),
    }
  }
  const file = env['KUBECONFIG'] ?? join(env['HOME'] ?? homedir(), '.kube', 'config')
  if (!existsSync(file))
    throw new UsageError(
      `\`discover: kubernetes\` needs a service account or a kubeconfig file; ${file} does not exist.`,
      'In a cluster set automountServiceAccountToken: true. Elsewhere set KUBECONFIG.',
    )
  return fromKubeconfig(parseYaml(readFileSync(file, 'utf8')).value, file)
}

interface Named {
  readonly name?: string
  readonly [kind: string]: unknown
}

type Fields = Readonly<Record<string, unknown>>

function fromKubeconfig(document: unknown, file: string): KubernetesAccess {
  const kubeconfig = document as Fields
  const entry = (list: string, kind: string, name: unknown): Fields => {
    const found = (kubeconfig[list] as readonly Named[] | undefined)?.find((one) => one.name === name)
    if (found === undefined) throw wrong(file, `${list} has no entry "${String(name)}"`)
    return (found[kind] ?? {}) as Fields
  }
  const context = entry('contexts', 'context', kubeconfig['current-context'])
  const cluster = entry('clusters', 'cluster', context['cluster'])
  const user = entry('users', 'user', context['user'])
  if (user['exec'] !== undefined || user['auth-provider'] !== undefined)
    throw new UsageError(
      `${file}: the user gets tokens from a program or a provider, which the gateway does not run.`,
      'Use a token of a service account: kubectl create token NAME.',
    )
  const textOf = (from: Fields, name: string): string | undefined =>
    typeof from[name] === 'string' ? from[name] : undefined
  const pemOf = (from: Fields, name: string): string | undefined => {
    const data = textOf(from, `${name}-data`)
    if (data !== undefined) return Buffer.from(data, 'base64').toString()
    const path = textOf(from, name)
    return path === undefined ? undefined : readFileSync(resolvePath(dirname(file), path), 'utf8')
  }
  const server = textOf(cluster, 'server')
  if (server === undefined || !URL.canParse(server)) throw wrong(file, 'the cluster has no server URL')
  const tokenFile = textOf(user, 'tokenFile')
  return {
    server: server.replace(/\/+$/, ''),
    ca: pemOf(cluster, 'certificate-authority'),
    cert: pemOf(user, 'client-certificate'),
    key: pemOf(user, 'client-key'),
    namespace: textOf(context, 'namespace') ?? 'default',
    token: () =>
      tokenFile === undefined
        ? (textOf(user, 'token') ?? null)
        : readFileSync(resolvePath(dirname(file), tokenFile), 'utf8').trim(),
  }
}

const wrong = (file: string, what: string): UsageError =>
  new UsageError(`${file}: ${what}.`, 'Compare with the output of kubectl config view --minify.')

/*
 * Lists and watches objects of the Kubernetes API: a watch resumes at the last version, and a version that expired
 * (410) leads to a new list.
 * https://kubernetes.io/docs/reference/using-api/api-concepts/#efficient-detection-of-changes
 */

export interface KubernetesObject {
  readonly metadata: { readonly uid: string; readonly name: string; readonly resourceVersion: string }
}

/** `list` replaces everything that is known, so it also contains deletions that a watch missed. */
export type Change<Item> =
  | { readonly type: 'list'; readonly items: readonly Item[] }
  | { readonly type: 'set' | 'delete'; readonly item: Item }

/** Times in milliseconds. */
export interface FollowTimes {
  /** Length of one watch. A connection that died silently is noticed `graceMs` later. */
  readonly watchMs: number
  readonly graceMs: number
  /** First and longest wait after a failure. */
  readonly retryMs: number
  readonly maxRetryMs: number
}

const FOLLOW_TIMES: FollowTimes = { watchMs: 60_000, graceMs: 5_000, retryMs: 200, maxRetryMs: 30_000 }

/** The API server answered with an error. */
export class StatusError extends Error {
  readonly code: number
  constructor(code: number, message: string) {
    super(message)
    this.code = code
  }
}

interface FollowOptions {
  readonly access: KubernetesAccess
  /** Path of the collection: `/api/v1/namespaces/NAME/pods`. */
  readonly path: string
  readonly labelSelector: string
  readonly signal: AbortSignal
  /** Called for each failure, before the wait. */
  failed(error: Error): void
  readonly times?: FollowTimes
}

/** Objects per page of a list. */
const PAGE = '500'
/** Maximum length of a list page or a watch event, in characters. */
const MAX_TEXT = 32 * 2 ** 20

/** Yields the list and its changes until the signal is aborted. Never throws. */
export async function* follow<Item extends KubernetesObject>(options: FollowOptions): AsyncGenerator<Change<Item>> {
  const { signal, failed, times = FOLLOW_TIMES } = options
  let version = ''
  let failures = 0
  while (!signal.aborted) {
    try {
      if (version === '') {
        const list = await listed<Item>(options)
        yield { type: 'list', items: list.items }
        version = list.version
      }
      const began = performance.now()
      for await (const event of watched<Item>(options, version)) {
        version = event.object.metadata.resourceVersion
        failures = 0
        if (event.type === 'DELETED') yield { type: 'delete', item: event.object }
        else if (event.type !== 'BOOKMARK') yield { type: 'set', item: event.object }
      }
      // A server that ends watches at once must not be asked in a loop.
      if (performance.now() - began < times.retryMs) await paused(times.retryMs, signal)
      else failures = 0
    } catch (error) {
      if (signal.aborted) return
      const isExpired = error instanceof StatusError && (error.code === 410 || error.code === 504)
      if (isExpired || error instanceof SyntaxError) version = ''
      if (!isExpired) failed(error as Error)
      failures += 1
      if (isExpired && failures === 1) continue
      await paused(Math.min(times.maxRetryMs, times.retryMs * 2 ** (failures - 1)) * (0.5 + Math.random() / 2), signal)
    }
  }
}

function paused(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      clearTimeout(timer)
      signal.removeEventListener('abort', done)
      resolve()
    }
    const timer = setTimeout(done, ms)
    timer.unref()
    signal.addEventListener('abort', done)
  })
}

async function listed<Item>(options: FollowOptions): Promise<{ readonly version: string; readonly items: Item[] }> {
  const items: Item[] = []
  for (let next = ''; ;) {
    const query = { labelSelector: options.labelSelector, limit: PAGE, ...(next === '' ? {} : { continue: next }) }
    let text = ''
    for await (const piece of await opened(options, query, 30_000)) {
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

async function* watched<Item>(options: FollowOptions, version: string): AsyncGenerator<WatchEvent<Item>> {
  const { watchMs, graceMs } = options.times ?? FOLLOW_TIMES
  const query = {
    labelSelector: options.labelSelector,
    watch: '1',
    resourceVersion: version,
    allowWatchBookmarks: 'true',
    timeoutSeconds: String(Math.ceil(watchMs / 1000)),
  }
  let rest = ''
  for await (const piece of await opened(options, query, watchMs + graceMs)) {
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
function opened(
  { access, path, signal }: FollowOptions,
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
