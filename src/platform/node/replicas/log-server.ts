/** Where other replicas read what this one books: an endless answer to one GET. */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { addressText } from '../../../config/fields.ts'
import type { Decision } from '../../../core/contract/contract.ts'
import type { Log, PoolName } from '../../../ports.ts'
import { Authenticator, type LineSigner } from './authentication.ts'
import type { Journal } from './journal.ts'

export const LOG_PATH = '/replica/log'
/** Whoever answers otherwise is none. */
export const LOG_TYPE = 'application/x-ndjson'
export const DECISION_PATH = '/replica/decision'

/** What one reader has not taken yet; beyond it, he is to begin anew. */
const MOST_WAITING_BYTES = 64 * 2 ** 20
/** Often enough for leases of a second, the shortest there are. */
const BEAT_MS = 200
const GOODBYE_MS = 1_000
const HEAD_MS = 5_000
/** Replicas of a service, many times over. */
const MOST_READERS = 64
/** Strangers take no more of this process's sockets. */
const MOST_CONNECTIONS = 512

export interface LogServer {
  /** `host:port`. */
  readonly address: string
  /** After the last word. */
  close(): Promise<void>
}

export interface LogServerOptions {
  readonly host: string
  readonly port: number
  /** null: anybody who can reach it. */
  readonly secret: string | null
  /** A choice of this replica's. */
  readonly explain: (pool: PoolName, id: string) => Promise<Decision | null>
  readonly log: Log
}

/** Rejects with the system's error when the port cannot be had. */
export async function serveLog(
  journal: Journal,
  { host, port, secret, explain, log }: LogServerOptions,
): Promise<LogServer> {
  const readers = new Set<ServerResponse>()
  const authenticator = secret === null ? null : new Authenticator(secret)
  const server = createServer(
    { headersTimeout: HEAD_MS, requestTimeout: HEAD_MS, maxHeaderSize: 8_192, connectionsCheckingInterval: HEAD_MS },
    (request, response) => {
      // Not every target is a URL.
      const [path = '', query] = request.url!.split('?')
      const signer = authenticator?.accept(request.headers.authorization, request.url!) ?? null
      const refusal =
        refusalOf(request, path, authenticator !== null && signer === null) ??
        (path === LOG_PATH && readers.size >= MOST_READERS ? 503 : null)
      if (refusal !== null) {
        const challenge = refusal === 401 ? { 'www-authenticate': authenticator!.challenge() } : {}
        response.writeHead(refusal, { 'content-type': LOG_TYPE, connection: 'close', ...challenge }).end()
        return
      }
      if (path === DECISION_PATH) {
        const asked = new URLSearchParams(query)
        const [cluster = '', pool = '', id = ''] = ['cluster', 'pool', 'id'].map((name) => asked.get(name) ?? '')
        void explain([cluster, pool], id)
          .catch(() => null)
          .then((decision) =>
            response
              .writeHead(200, { 'content-type': 'application/json', connection: 'close' })
              .end(signed(signer, JSON.stringify(decision))),
          )
        return
      }
      readers.add(response)
      const leave = read(journal, { response, signer, log })
      response.on('close', () => {
        leave()
        readers.delete(response)
      })
    },
  )
  server.maxConnections = MOST_CONNECTIONS
  server.on('clientError', (_error, socket) => socket.destroy())
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen({ host, port }, () => {
      server.off('error', reject)
      // No file descriptors are left, say: whoever came comes again.
      server.on('error', (error) => log.warn('replica_rejected', { error }))
      resolve()
    })
  })
  const beating = setInterval(() => journal.beat(), BEAT_MS)
  beating.unref()
  const { port: bound } = server.address() as AddressInfo
  return {
    address: addressText({ host, port: bound }),
    async close() {
      clearInterval(beating)
      journal.close()
      for (const response of readers) response.end()
      await new Promise<void>((resolve) => {
        server.close(() => resolve())
        // Who does not take the goodbye is not waited for.
        setTimeout(() => server.closeAllConnections(), GOODBYE_MS).unref()
      })
    },
  }
}

function refusalOf({ method }: IncomingMessage, path: string, isStranger: boolean): number | null {
  if (path !== LOG_PATH && path !== DECISION_PATH) return 404
  if (method !== 'GET') return 405
  return isStranger ? 401 : null
}

interface Reader {
  readonly response: ServerResponse
  readonly signer: LineSigner | null
  readonly log: Log
}

function read(journal: Journal, { response, signer, log }: Reader): () => void {
  response.writeHead(200, { 'content-type': LOG_TYPE })
  response.socket?.setNoDelay(true)
  return journal.join({
    write(line, taken) {
      if (response.destroyed) return
      if (response.writableLength > MOST_WAITING_BYTES) {
        log.warn('replica_too_slow', { bytes: response.writableLength, next: 'It is cut off and begins anew.' })
        response.destroy()
      } else response.write(signed(signer, line), taken)
    },
  })
}

/** Without a secret nothing is signed: only this machine can ask. */
const signed = (signer: LineSigner | null, line: string): string => signer?.sign(line) ?? line
