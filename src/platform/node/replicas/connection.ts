/** Connections to the Valkey or Redis server, each reconnected until it is closed. */
import type { RedisClientType, RedisClusterType } from '@redis/client'
import type { ReplicasConfig } from '../../../config.ts'
import type { Log } from '../../../ports.ts'
import type { Script } from './scripts.ts'

const CONNECT_MS = 3_000
const RECONNECT_MS = 100

type Used = 'connect' | 'destroy' | 'on' | 'eval' | 'evalSha' | 'sSubscribe' | 'getEx' | 'del'
/** The part of the client library that is used here; a client of one server and one of a cluster both have it. */
export type Client = Pick<RedisClientType, Used> & Partial<Pick<RedisClusterType, 'masters'>>

export interface LinkEvents {
  readonly up: (client: Client) => void
  readonly down: (error: Error) => void
}

/** One connection. Commands in flight when it fails are rejected and never sent again. */
export class Link {
  readonly #create: () => Promise<Client>
  readonly #events: LinkEvents
  #client: Client | null = null
  /** Scripts that were sent in full. */
  readonly #sent = new Set<string>()
  #isReady = false
  #isClosed = false
  #timer: NodeJS.Timeout | undefined

  constructor(create: () => Promise<Client>, events: LinkEvents) {
    this.#create = create
    this.#events = events
    void this.#connect()
  }

  /** null: not connected. */
  get client(): Client | null {
    return this.#isReady ? this.#client : null
  }

  /**
   * Runs a script, sent in full at first. Rejects if the connection fails or the server answers with an error. A node
   * that does not have the script has changed nothing and gets it in full; scripts for which order matters refuse a
   * turn that was overtaken.
   */
  async run({ text, sha }: Script, keys: string[], given: string[]): Promise<unknown> {
    const { client } = this
    if (client === null) throw new Error('not connected')
    const parameters = { keys, arguments: given }
    const isSent = this.#sent.has(sha)
    this.#sent.add(sha)
    try {
      if (!isSent) return await client.eval(text, parameters)
      return await client.evalSha(sha, parameters).catch((error: Error) => {
        if (!error.message.startsWith('NOSCRIPT')) throw error
        return client.eval(text, parameters)
      })
    } catch (error) {
      // A cluster client does not report that the connection of one node has ended.
      if (!isReply(error as Error)) this.#fail(client, error as Error)
      throw error
    }
  }

  /** Connects anew. */
  reset(error: Error): void {
    if (this.#client !== null) this.#fail(this.#client, error)
  }

  close(): void {
    this.#isClosed = true
    clearTimeout(this.#timer)
    this.#drop()
  }

  async #connect(): Promise<void> {
    const client = await this.#create()
    if (this.#isClosed) return
    this.#client = client
    client.on('error', (error) => this.#fail(client, error))
    client.on('end', () => this.#fail(client, new Error('the server closed the connection')))
    const late = setTimeout(() => this.#fail(client, new Error(`no answer within ${CONNECT_MS} ms`)), CONNECT_MS)
    await client.connect().catch((error: Error) => this.#fail(client, error))
    clearTimeout(late)
    // A cluster client that is dropped while it asks for the nodes connects to them all the same.
    if (this.#client !== client) return destroy(client)
    this.#isReady = true
    this.#events.up(client)
  }

  #fail(client: Client, error: Error): void {
    if (this.#client !== client) return
    this.#drop()
    this.#timer = setTimeout(() => void this.#connect(), RECONNECT_MS).unref()
    this.#events.down(error)
  }

  #drop(): void {
    this.#sent.clear()
    const client = this.#client
    this.#client = null
    this.#isReady = false
    if (client !== null) destroy(client)
  }
}

/** Ends all connections of a client. */
function destroy(client: Client): void {
  const nodes = (client.masters ?? []).flatMap((node) => [node, ...(node.pubSub === undefined ? [] : [node.pubSub])])
  // The library leaves a connection open that is established after `destroy`.
  for (const { client: ofNode, connectPromise } of nodes)
    connectPromise?.catch(() => undefined).finally(() => ofNode?.destroy())
  try {
    client.destroy()
  } catch {
    // It has closed itself.
  }
}

/** Errors of the server begin with a code; all others mean that the connection does not work. */
export const isReply = ({ message }: Error): boolean => /^(?!CLUSTERDOWN)[A-Z]+ /.test(message)

/** Loads the client library, which a gateway without replicas never does. */
export async function createClientOf({ url, cluster }: ReplicasConfig): Promise<Client> {
  const { createClient, createCluster, RedisClient } = await import('@redis/client')
  const socket = { reconnectStrategy: false, connectTimeout: CONNECT_MS, noDelay: true } as const
  const options = { maintNotifications: 'disabled', RESP: 2, socket } as const
  if (!cluster) return createClient({ ...options, disableOfflineQueue: true, url }) as unknown as Client
  const { socket: address, ...credentials } = RedisClient.parseURL(url)
  const defaults = { ...credentials, ...options, socket: { ...address, ...socket } }
  return createCluster({ RESP: 2, rootNodes: [{ url }], defaults }) as unknown as Client
}

const ADVICE: readonly (readonly [error: RegExp, next: string])[] = [
  [/^WRONGPASS/, 'Correct the user and password in `replicas.url`.'],
  [/^NOAUTH/, 'Add the user and password to `replicas.url`.'],
  // Then the texts for a right that a script lacks, the second of Redis 7.0 and 7.2.
  [
    /^NOPERM|^ERR (ACL failure in script|The user executing the script)/,
    'Grant the rights that docs/replicas.md lists.',
  ],
  [/^MOVED/, 'The server is a node of a cluster: set `replicas.cluster: true`.'],
  [/^OOM/, 'Raise `maxmemory` of the server.'],
]
const UNREACHABLE =
  'The gateway retries. Until the server is back, replicas do not receive the bookings of each other. Check ' +
  '`replicas.url`.'
/** The end of a connection is logged by `down`; an outdated node is read again. */
const EXPECTED = /^(?:outdated|Disconnects client|The client is closed|Socket closed|not connected)/

/** Logs each change of the server's state once. */
export class ServerLog {
  isUp = false
  readonly #log: Log
  readonly #logged = new Set<string>()

  constructor(log: Log) {
    this.#log = log
  }

  up(): void {
    if (this.isUp) return
    this.isUp = true
    this.#logged.clear()
    this.#log.info('replicas_connected')
  }

  down(error: Error): void {
    this.isUp = false
    this.#once('replicas_disconnected', error)
  }

  /** The server has rejected a command. */
  rejected(error: Error): void {
    if (!EXPECTED.test(error.message)) this.#once('replicas_rejected', error)
  }

  #once(event: string, error: Error): void {
    const next = ADVICE.find(([known]) => known.test(error.message))?.[1] ?? UNREACHABLE
    const kind = event + next
    if (this.#logged.has(kind)) return
    this.#logged.add(kind)
    // Node's error for several failed addresses has no message.
    const why = error.message === '' ? ((error as NodeJS.ErrnoException).code ?? error.name) : error.message
    this.#log.warn(event, { why, next })
  }
}
