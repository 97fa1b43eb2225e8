/**
 * A gateway in a process of its own that serves streamed chats under coverage. `fork one-chat.ts`; receives a document
 * and what requests have, and sends the coverage of single requests.
 */
import { setTimeout } from 'node:timers/promises'
import type { PoolMiddleware } from '../../../src/platform/node/ports.ts'
import { Coverage, type CoveredFunction } from './coverage.ts'

export interface ChatOrder {
  readonly document: object
  /** Further headers and keys of each request. */
  readonly headers: Readonly<Record<string, string>>
  readonly body: Readonly<Record<string, unknown>>
  readonly hasParts: boolean
  readonly isPoolRemote: boolean
  /** Requests whose coverage is taken one by one. */
  readonly requests: number
}

export interface ChatAnswer {
  readonly statuses: readonly number[]
  readonly requests: readonly (readonly CoveredFunction[])[]
}

/** Requests before the first that counts: connections are open, and what happens once has happened. */
const WARM_UP = 40

const SETTLED_MS = 40

const PLAIN = { model: 'fake', stream: true, messages: [{ role: 'user', content: 'Hello, gateway!' }] }

/** Time between the parts of a body, ms. */
const PART_DELAY_MS = 10

async function* bodyInParts(text: string): AsyncGenerator<Buffer> {
  yield Buffer.from(text.slice(0, 1))
  await setTimeout(PART_DELAY_MS)
  yield Buffer.from(text.slice(1))
}

/** Pools whose calls all need a promise. */
const remotePool: PoolMiddleware = (pool) => ({ ...pool, local: { ...pool.local!, admit: () => null } })

async function serve({ document, headers, body, hasParts, isPoolRemote, requests }: ChatOrder): Promise<ChatAnswer> {
  const coverage = new Coverage()
  await coverage.open()
  // Imported under coverage, so that V8 counts blocks from the start.
  const { parseConfig } = await import('../../../src/config/parse.ts')
  const { openLog } = await import('../../../src/platform/node/log.ts')
  const { startGateway } = await import('../../../src/platform/node/start-gateway.ts')
  const config = parseConfig(
    { ...document, listen: '127.0.0.1:0' },
    {},
    { defaultVersion: 1, defaultObserveShare: 1, listens: true },
  )
  const gateway = await startGateway(
    config,
    openLog(config.log.level, { write: () => undefined }),
    '.',
    isPoolRemote ? { middleware: remotePool } : {},
  )
  const text = JSON.stringify({ ...PLAIN, ...body })
  const chat = async (): Promise<number> => {
    const response = await fetch(`${gateway.url}/v1/chat/completions`, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        origin: 'https://chat.example.com',
        ...headers,
      },
      body: hasParts ? bodyInParts(text) : text,
      duplex: 'half',
    })
    await response.text()
    return response.status
  }
  for (let sent = 0; sent < WARM_UP; sent++) await chat()
  const statuses: number[] = []
  const taken: CoveredFunction[][] = []
  for (let sent = 0; sent < requests; sent++) {
    await coverage.take()
    statuses.push(await chat())
    // The record of a request is complete a moment after its last byte.
    await setTimeout(SETTLED_MS)
    taken.push(await coverage.take())
  }
  return { statuses, requests: taken }
}

process.once('message', (order: ChatOrder) => {
  serve(order).then(
    (answer) => process.send!(answer, () => process.exit(0)),
    (error: unknown) => {
      console.error(error)
      process.exit(1)
    },
  )
})
