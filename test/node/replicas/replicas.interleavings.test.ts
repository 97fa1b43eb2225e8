/** Any order of bookings, faults, joins and departures: replicas see exactly each other's bookings. */
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { administrator, findServer, ValkeyServer } from '../../../scripts/valkey-server.ts'
import { chance } from '../../../packages/replay/src/replay/chance.ts'
import { turns, until } from '../../wait.ts'
import { converged, Member } from './member.ts'

const RUNS = Number(process.env['INTERLEAVINGS'] ?? 6)
const MAX_MEMBERS = 4
const binary = await findServer()

const COMMANDS = {
  killSubscriptions: ['CLIENT', 'KILL', 'TYPE', 'pubsub'],
  killOthers: ['CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes'],
  loseScripts: ['SCRIPT', 'FLUSH'],
  loseKeys: ['FLUSHALL'],
  loseMessage: ['HINCRBY'],
} as const

const action = fc.oneof(
  { weight: 12, arbitrary: fc.record({ kind: fc.constant('book' as const), at: fc.nat(99), count: fc.nat(60) }) },
  { weight: 4, arbitrary: fc.record({ kind: fc.constant('wait' as const), at: fc.nat(200), count: fc.nat(0) }) },
  {
    weight: 6,
    arbitrary: fc.record({
      kind: fc.constantFrom(...(Object.keys(COMMANDS) as (keyof typeof COMMANDS)[])),
      at: fc.nat(0),
      count: fc.nat(0),
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({
      kind: fc.constantFrom('restart', 'freeze', 'thaw', 'cutOff', 'reconnect', 'join', 'leave'),
      at: fc.nat(99),
      count: fc.nat(0),
    }),
  },
)

class Scene {
  readonly members: Member[] = []
  readonly #server: ValkeyServer
  readonly #prefix: string
  readonly #random: () => number
  #isFrozen = false

  constructor(server: ValkeyServer, prefix: string, seed: number) {
    this.#server = server
    this.#prefix = prefix
    this.#random = chance(seed)
    for (let count = 0; count < 3; count++) this.#join()
  }

  async apply(kind: string, at: number, count: number): Promise<void> {
    const member = this.members[at % this.members.length]!
    if (kind === 'book') for (let left = count; left > 0; left--) await member.step(this.#random, 20)
    else if (kind === 'wait') await turns(at)
    else if (kind === 'freeze' || kind === 'thaw') this.#freeze(kind === 'freeze')
    else if (kind === 'restart') await this.#restart()
    else if (kind === 'cutOff') member.partition()
    else if (kind === 'reconnect') member.reconnect()
    else if (kind === 'join' && this.members.length < MAX_MEMBERS) this.#join()
    else if (kind === 'leave' && this.members.length > 2) await this.#leave(member)
    else if (kind in COMMANDS && !this.#isFrozen) await this.#send(COMMANDS[kind as keyof typeof COMMANDS])
  }

  /** Ends all faults. */
  async settle(): Promise<void> {
    this.#freeze(false)
    for (const member of this.members) member.reconnect()
    await until(() => this.members.every(({ following }) => following === this.members.length - 1))
    await converged(this.members)
    for (const member of this.members) await member.finish()
    await converged(this.members)
    for (const member of this.members) expect(await member.bookings()).toBe(0)
  }

  async close(): Promise<void> {
    this.#freeze(false)
    await Promise.all(this.members.map((member) => member.close()))
  }

  #join(): void {
    this.members.push(new Member({ url: this.#server.url, prefix: this.#prefix }))
  }

  async #leave(member: Member): Promise<void> {
    this.members.splice(this.members.indexOf(member), 1)
    await member.close()
  }

  #freeze(isFrozen: boolean): void {
    this.#isFrozen = isFrozen
    this.#server.signal(isFrozen ? 'SIGSTOP' : 'SIGCONT')
  }

  async #restart(): Promise<void> {
    await this.#server.kill()
    await this.#server.start()
    this.#isFrozen = false
  }

  async #send(command: readonly string[]): Promise<void> {
    const client = await administrator(this.#server.url)
    const key =
      command[0] === 'HINCRBY' ? [`${this.#prefix}:2:{one/m}:open:${this.members[0]!.replicas.id}`, '#', '1'] : []
    await client.sendCommand([...command, ...key])
    client.destroy()
  }
}

describe.skipIf(binary === null)('replicas', () => {
  let server: ValkeyServer
  let prefixes = 0
  beforeAll(async () => {
    server = await ValkeyServer.start(binary!)
  })
  afterAll(() => server.stop())

  it(
    'see what the others hold, after any interleaving of bookings and faults',
    { timeout: 30_000 * RUNS },
    async () => {
      await fc.assert(
        fc.asyncProperty(fc.array(action, { minLength: 10, maxLength: 60 }), fc.nat(), async (actions, seed) => {
          const scene = new Scene(server, `i${++prefixes}`, seed)
          try {
            for (const { kind, at, count } of actions) await scene.apply(kind, at, count)
            await scene.settle()
          } finally {
            await scene.close()
          }
        }),
        // A failure takes as long as the longest wait, so it is not shrunk.
        { numRuns: RUNS, endOnFailure: true },
      )
    },
  )
})
