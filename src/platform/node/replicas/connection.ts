/** Connections to the Valkey or Redis server, each reconnected until it is closed. */
import type { RedisClientType, RedisClusterType } from '@redis/client'
import type { ReplicasConfig } from '../../../config.ts'
import type { Script } from './scripts.ts'

const CONNECT_MS = 3_000

const RECONNECT_MS = 100

type ClientMethod = 'connect' | 'destroy' | 'on' | 'eval' | 'evalSha' | 'sSubscribe' | 'getEx' | 'del'

/** The part of the client library that is used here; a client of one server and one of a cluster both have it. */
export type Client = Pick<RedisClientType, ClientMethod> & Partial<Pick<RedisClusterType, 'masters'>>

interface ConnectionEvents {
  readonly up: (client: Client) => void
  readonly down: (error: Error) => void
}

/** One connection. Commands in flight when it fails are rejected and never sent again. */
export class Connection {
  readonly #create: () => Promise<Client>
  readonly #events: ConnectionEvents
  #client: Client | null = null
  /** Scripts that were sent in full. */
  readonly #sent = new Set<string>()
  #isReady = false
  #isClosed = false
  #timer: NodeJS.Timeout | undefined

  constructor(create: () => Promise<Client>, events: ConnectionEvents) {
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
      if (!isServerError(error as Error)) this.#fail(client, error as Error)
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
export const isServerError = ({ message }: Error): boolean => /^(?!CLUSTERDOWN)[A-Z]+ /.test(message)

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
