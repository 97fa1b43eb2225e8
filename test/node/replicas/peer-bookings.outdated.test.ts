/** Snapshots of a node that is behind the messages, such as a primary that has not learned of its failover. */
import fc from 'fast-check'
import { expect, it } from 'vitest'
import type { BookingEvent } from '../../../src/core/contract/booking-event.ts'
import type { Resume } from '../../../src/core/contract/resume.ts'
import { bookingKey } from '../../../src/core/pool/bookings.ts'
import type { Client } from '../../../src/platform/node/replicas/connection.ts'
import { PeerBookings, type PeerBookingsParts } from '../../../src/platform/node/replicas/peer-bookings.ts'
import { SCRIPTS } from '../../../src/platform/node/replicas/scripts.ts'
import { OpenBookings } from '../../../src/platform/node/replicas/open-bookings.ts'
import type { PoolPort } from '../../../src/ports/pool.ts'
import { engines, pool } from '../../kit/pool-fixtures.ts'
import { turns } from '../../wait.ts'

const PLACEMENT = { kind: 'whole', engine: 'a' }

/** A replica `w`, its hash after each of its messages, and a reader of both. */
class Scene {
  /** Bookings that the reader holds. */
  readonly held = new Set<string>()
  readonly following: PeerBookings
  /** Messages by which the node that is read is behind. */
  behind = 0
  /** Fields of the hash after each message. */
  readonly #hashes: ReadonlyMap<string, string>[] = [new Map()]
  readonly #open = new Map<string, string>()
  readonly #underway: string[] = []
  #listener: (message: string) => void = () => undefined
  #ids = 0

  constructor() {
    const control: PeerBookingsParts['control'] = {
      client: null,
      run: async ({ sha }, _keys, [cursor]) => (sha === SCRIPTS.read.sha ? this.#page(cursor!) : [0, 'w']),
    }
    const parts: Omit<PeerBookingsParts, 'openBookings'> = {
      replica: 'r',
      keys: { present: 'p', channel: 'c', bookings: (replica) => replica },
      leaseMs: 60_000,
      publish: { client: null, run: () => Promise.reject(new Error('not connected')) },
      control,
      localPool: {
        local: { apply: (event: BookingEvent | readonly ['book', Resume]) => this.#apply(event) },
      } as PoolPort,
      pool: () => pool({ cluster: 'one', pool: 'm', engines: engines('a') }),
      now: Date.now,
      rejected: () => undefined,
      joined: () => undefined,
      left: () => undefined,
      failed: () => undefined,
      onNews: () => undefined,
    }
    this.following = new PeerBookings({ ...parts, openBookings: new OpenBookings(parts) })
  }

  get open(): ReadonlySet<string> {
    return new Set(this.#open.keys())
  }

  async subscribe(): Promise<void> {
    const sSubscribe = async (_channel: unknown, listener: (message: string) => void) =>
      void (this.#listener = listener)
    await this.following.subscribe({ sSubscribe } as unknown as Client)
  }

  addBooking(): void {
    const id = `w/${++this.#ids}`
    const event = JSON.stringify(['book', 32, { id, blocks: '' }, PLACEMENT])
    this.#open.set(bookingKey({ id, attempt: 0 }), event)
    this.#send(event)
  }

  release(): void {
    const [key] = this.#open.keys()
    if (key === undefined) return
    this.#open.delete(key)
    this.#send(JSON.stringify(['release', key, { result: 'complete' }]))
  }

  beat(): void {
    this.#underway.push(`${this.#hashes.length - 1} w []`)
  }

  lose(): void {
    this.#underway.shift()
  }

  receive(count = Infinity): void {
    for (const message of this.#underway.splice(0, count)) this.#listener(message)
  }

  get #hash(): ReadonlyMap<string, string> {
    return this.#hashes[Math.max(0, this.#hashes.length - 1 - this.behind)]!
  }

  /** In two pages, each with the same fields whatever is added or deleted meanwhile. */
  #page(cursor: string): readonly unknown[] {
    const isOf = (field: string): boolean => /[13579]#/.test(field) === (cursor === '0')
    const fields = [...this.#hash].filter(([field]) => isOf(field)).flat()
    return [this.#hash.get('#') ?? null, cursor === '0' ? '1' : '0', fields]
  }

  #send(event: string): void {
    const number = this.#hashes.length
    const fields = Array.from(this.#open, ([key, value]) => [`b${key}`, value] as const)
    this.#hashes.push(new Map([...fields, ['#', String(number)]]))
    this.#underway.push(`${number} w [${event}]`)
  }

  #apply(event: BookingEvent | readonly ['book', Resume]): boolean {
    if (event[0] === 'book') return this.held.add(bookingKey(event[1].admission)).size > 0
    return event[0] === 'release' ? this.held.delete(event[1]) : this.held.has(event[1])
  }
}

const step = fc.oneof(
  { weight: 3, arbitrary: fc.constant('book' as const) },
  { weight: 3, arbitrary: fc.constant('release' as const) },
  { weight: 3, arbitrary: fc.constant('receive' as const) },
  { weight: 3, arbitrary: fc.constant('turns' as const) },
  ...(['receiveOne', 'lose', 'beat', 'heartbeat', 'resync', 'behind'] as const).map((kind) => ({
    weight: 1,
    arbitrary: fc.constant(kind),
  })),
)

const STEPS: Readonly<Record<typeof step extends fc.Arbitrary<infer Kind> ? Kind : never, (scene: Scene) => unknown>> =
  {
    book: (scene) => scene.addBooking(),
    release: (scene) => scene.release(),
    receive: (scene) => scene.receive(),
    receiveOne: (scene) => scene.receive(1),
    lose: (scene) => scene.lose(),
    beat: (scene) => scene.beat(),
    heartbeat: (scene) => scene.following.heartbeat(),
    resync: (scene) => scene.following.resync(),
    behind: (scene) => (scene.behind = scene.behind > 0 ? 0 : 3),
    turns: () => turns(3),
  }

it('a replica holds what another holds at the end, though it was read from a node that was behind', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 10, maxLength: 80 }), async (kinds) => {
      const scene = new Scene()
      await scene.subscribe()
      for (const kind of kinds) await STEPS[kind](scene)
      scene.behind = 0
      for (let count = 0; count < 3; count++) {
        scene.beat()
        scene.receive()
        await scene.following.heartbeat()
        await turns()
      }
      expect(scene.held).toEqual(scene.open)
      expect([...scene.following.peers()]).toEqual([{ id: 'w', isCurrent: true, bookings: scene.open.size }])
    }),
    { numRuns: 500 },
  )
})
