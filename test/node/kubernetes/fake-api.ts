/** API server with pods, pools and objectives in memory: lists in pages, watches, bookmarks, versions that expire. */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { type LocalServer, serveLocally } from '../../kit/local-server.ts'

export interface FakePod {
  readonly name: string
  readonly address?: string
  readonly ready?: boolean
  readonly terminating?: boolean
  readonly phase?: string
  readonly port?: number
  readonly labels?: Readonly<Record<string, string>>
  readonly annotations?: Readonly<Record<string, string>>
}

export class FakeApi {
  readonly requests: URL[] = []
  readonly methods: (string | undefined)[] = []
  readonly tokens: (string | undefined)[] = []
  /** Status of all responses, if not 200. */
  status = 200
  /** Versions up to this one have expired. */
  expired = 0
  pageSize = 500
  #server: LocalServer | null = null
  /** By collection (`pods`) and uid. */
  readonly #objects = new Map<string, Map<string, object>>()
  /** Responses of watches, each with its collection. */
  readonly #watches = new Map<ServerResponse, string>()
  readonly #history: { readonly version: number; readonly line: string; readonly collection: string }[] = []
  #version = 100

  async listen(): Promise<string> {
    this.#server = await serveLocally(createServer((request, response) => this.#serve(request, response)))
    return this.#server.url
  }

  async close(): Promise<void> {
    await this.#server?.close()
  }

  get watching(): number {
    return this.#watches.size
  }

  /** Creates or changes a pod. */
  set(pod: FakePod): void {
    const uid = `uid-${pod.name}`
    this.#put('pods', uid, this.#object(uid, pod))
  }

  /** Creates or changes an object of another collection, such as `inferencepools`. */
  setResource(collection: string, name: string, spec: unknown): void {
    this.#version += 1
    const uid = `uid-${name}`
    this.#put(collection, uid, { metadata: { uid, name, resourceVersion: String(this.#version) }, spec })
  }

  #put(collection: string, uid: string, object: object): void {
    const objects = this.#collection(collection)
    const type = objects.has(uid) ? 'MODIFIED' : 'ADDED'
    objects.set(uid, object)
    this.send(type, object, collection)
  }

  #collection(name: string): Map<string, object> {
    const objects = this.#objects.get(name) ?? new Map<string, object>()
    this.#objects.set(name, objects)
    return objects
  }

  delete(name: string, collection = 'pods'): void {
    const uid = `uid-${name}`
    const objects = this.#collection(collection)
    const object = objects.get(uid) as { metadata: { resourceVersion: string } }
    objects.delete(uid)
    this.#version += 1
    object.metadata.resourceVersion = String(this.#version)
    this.send('DELETED', object, collection)
  }

  /** A change that no watch receives, as while the API server is away. */
  changeSilently(change: () => void): void {
    const watches = [...this.#watches.keys()]
    this.#watches.clear()
    change()
    this.expired = this.#version
    for (const watch of watches) watch.destroy()
  }

  bookmark(): void {
    this.#version += 1
    this.send('BOOKMARK', { kind: 'Pod', metadata: { resourceVersion: String(this.#version) } })
  }

  /** Ends all watches in order. */
  endWatches(): void {
    for (const watch of this.#watches.keys()) watch.end()
  }

  /** Breaks all watches in the middle of a line. */
  breakWatches(): void {
    for (const watch of this.#watches.keys()) {
      watch.write('{"type":"MODI')
      watch.destroy()
    }
  }

  send(type: string, object: object, collection = 'pods'): void {
    const line = `${JSON.stringify({ type, object })}\n`
    this.#history.push({ version: this.#version, line, collection })
    // In two pieces, as a network may deliver it.
    for (const [watch, watched] of this.#watches) {
      if (watched !== collection) continue
      watch.write(line.slice(0, 20))
      watch.write(line.slice(20))
    }
  }

  #object(uid: string, pod: FakePod): object {
    this.#version += 1
    const { name, address, ready = true, labels = {}, annotations = {}, port = 8000, phase = 'Running' } = pod
    return {
      metadata: {
        uid,
        name,
        resourceVersion: String(this.#version),
        labels: { app: 'vllm', ...labels },
        annotations,
        ...(pod.terminating === true ? { deletionTimestamp: '2026-11-23T12:00:00Z' } : {}),
      },
      spec: { containers: [{ name: 'vllm', ports: [{ name: 'http', containerPort: port }] }] },
      status: {
        phase,
        ...(address === undefined ? {} : { podIP: address }),
        conditions: [{ type: 'Ready', status: ready ? 'True' : 'False' }],
      },
    }
  }

  #serve(request: IncomingMessage, response: ServerResponse): void {
    const url = new URL(request.url!, 'http://api')
    this.requests.push(url)
    this.methods.push(request.method)
    this.tokens.push(request.headers.authorization)
    if (this.status !== 200) return void response.writeHead(this.status).end('{"kind":"Status"}')
    if (url.searchParams.get('watch') !== '1') return void response.end(JSON.stringify(this.#list(url)))
    const from = Number(url.searchParams.get('resourceVersion'))
    response.flushHeaders()
    if (from <= this.expired) {
      const message = `too old resource version: ${from} (${this.#version})`
      const object = { kind: 'Status', status: 'Failure', reason: 'Expired', code: 410, message }
      return void response.end(`${JSON.stringify({ type: 'ERROR', object })}\n`)
    }
    const watched = collectionOf(url)
    for (const { version, line, collection } of this.#history)
      if (version > from && collection === watched) response.write(line)
    this.#watches.set(response, watched)
    response.on('close', () => this.#watches.delete(response))
  }

  #list(url: URL): object {
    const from = Number(url.searchParams.get('continue') ?? 0)
    const items = [...this.#collection(collectionOf(url)).values()]
    const next = from + this.pageSize
    const more = next < items.length ? { continue: String(next) } : {}
    return { metadata: { resourceVersion: String(this.#version), ...more }, items: items.slice(from, next) }
  }
}

/** Collection at the end of a path: `/api/v1/namespaces/llm/pods`. */
const collectionOf = ({ pathname }: URL): string => pathname.slice(pathname.lastIndexOf('/') + 1)
