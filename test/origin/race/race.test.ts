/** Two attempts of one request that run at once, in every order of their events. */
import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { AttemptFailure } from '../../../src/core/contract/outcome.ts'
import type { Placement } from '../../../src/core/contract/placement.ts'
import { Failure } from '../../../src/failure.ts'
import {
  alone,
  type AttemptContext,
  type FailedOutcome,
  type FailedAttempt,
} from '../../../src/origin/attempt-context.ts'
import type { PoolRoute } from '../../../src/origin/pool-route.ts'
import { forward } from '../../../src/origin/forward.ts'
import { placeOnPool } from '../../../src/origin/placement/place-on-pool.ts'
import { mayRace, type OpenRace, raced } from '../../../src/origin/race/race.ts'
import { OriginError, type OriginAnswer, type OriginRequest } from '../../../src/ports/origin.ts'
import type { Ports } from '../../../src/ports.ts'
import type { Timers } from '../../../src/ports/timers.ts'
import { StageTimer } from '../../../src/origin/stage-timer.ts'
import { ScriptedForwarder } from '../../kit/scripted-forwarder.ts'
import { turns } from '../../wait.ts'

const HEDGE_MS = 7
const HEARTBEAT_MS = 3
const MANNERS = ['answers', 'refuses', 'busy', 'resets', 'breaks', 'hangs'] as const
type Manner = (typeof MANNERS)[number]

const hedging = (world: ScriptedForwarder, retry: object = {}): PoolRoute => {
  const { pool, ...route } = world.route('c', ['c-a', 'c-b'])
  return { ...route, pool: { ...pool, retry: { ...pool.retry, hedgeMs: HEDGE_MS, ...retry } } }
}

/** One request over two engines whose events the scheduler puts in any order. */
class Play {
  readonly world = new ScriptedForwarder({ 'c-a': [], 'c-b': [] })
  readonly sent: string[] = []
  readonly discarded: string[] = []
  readonly passed: string[] = []
  readonly #manners: Readonly<Record<string, Manner>>
  readonly #scheduler: fc.Scheduler

  constructor(manners: readonly [Manner, Manner], scheduler: fc.Scheduler) {
    this.#manners = { 'c-a': manners[0], 'c-b': manners[1] }
    this.#scheduler = scheduler
  }

  get #timers(): Timers {
    return {
      set: (delayMs, ring) => {
        let isOn = true
        // All others are those of leases.
        if (delayMs === HEDGE_MS || delayMs === HEARTBEAT_MS)
          void this.#scheduler.schedule(Promise.resolve(), `${delayMs} ms have passed`).then(() => {
            if (isOn) ring()
          })
        return { cancel: () => void (isOn = false) }
      },
    }
  }

  run(heartbeatMs: number): Promise<Response | Failure> {
    const { world } = this
    const cluster = world.ports.pool('c', 'm')
    const ports: Ports = {
      ...world.ports,
      timers: this.#timers,
      origin: { send: (request) => this.#send(request) },
      pool: () => ({
        ...cluster,
        admit: async (admission) => {
          await this.#scheduler.schedule(Promise.resolve(), `admit ${admission.attempt}`)
          return cluster.admit(admission)
        },
      }),
    }
    return forward(world.exchange([hedging(world)], { heartbeatMs }), ports, world.digests).catch((error: unknown) => {
      if (error instanceof Failure) return error
      throw error
    })
  }

  leave(): void {
    void this.#scheduler.schedule(Promise.resolve(), 'the client leaves').then(() => this.world.client.abort('gone'))
  }

  async #send(request: OriginRequest): Promise<OriginAnswer> {
    const { id } = request.target
    const manner = this.#manners[id]!
    this.sent.push(id)
    await this.#step(request, `head of ${id}`)
    if (manner === 'resets') throw new OriginError('reset', `reset by ${id}`)
    const status = manner === 'refuses' ? 404 : manner === 'busy' ? 503 : 200
    return {
      status,
      headers: ['content-type', status === 200 ? 'text/event-stream' : 'application/json'],
      sse: status === 200,
      firstByte: async () => {
        await this.#step(request, `first byte of ${id}`)
        if (manner === 'breaks') throw new OriginError('reset', `broken by ${id}`)
      },
      read: async () => new TextEncoder().encode('currently busy'),
      reader: () => ({ read: async () => null, cancel: () => {} }),
      firstBytes: () => new TextEncoder().encode('data: x\n\n'),
      fault: () => null,
      pass: (relay) => {
        this.passed.push(id)
        queueMicrotask(() => relay.settled({ end: 'complete', failure: null, events: 1, usage: null, bytes: 9 }))
        return new Response('data: x\n\n', { status: relay.status })
      },
      discard: () => void this.discarded.push(id),
    }
  }

  /** An engine's next event; a hanging one has none. Rejects if the request is aborted before. */
  async #step({ signal, target: { id } }: OriginRequest, what: string): Promise<void> {
    if (signal.aborted) throw signal.reason
    const { promise: aborted, reject } = Promise.withResolvers<never>()
    signal.addEventListener('abort', () => reject(signal.reason as Error))
    aborted.catch(() => {})
    const event =
      this.#manners[id] === 'hangs' ? new Promise<never>(() => {}) : this.#scheduler.schedule(Promise.resolve(), what)
    await Promise.race([aborted, event])
  }
}

describe('a request whose first byte may be late', () => {
  it('a request whose first byte may be late has one end, from one engine, and releases every booking once, whatever happens when', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.tuple(fc.constantFrom(...MANNERS), fc.constantFrom(...MANNERS)),
        fc.boolean(),
        fc.constantFrom(0, HEARTBEAT_MS),
        fc.scheduler(),
        async (manners, leaves, heartbeatMs, scheduler) => {
          const play = new Play(manners, scheduler)
          const { world } = play
          const running = play.run(heartbeatMs)
          const isEndless = manners.includes('hangs') && !manners.includes('answers')
          if (leaves || isEndless) play.leave()
          await scheduler.waitIdle()
          const end = await running
          await world.settled()
          expect(world.bookings.map(({ outcomes }) => outcomes.length)).toEqual(world.bookings.map(() => 1))
          expect(play.passed.length).toBe(end instanceof Failure ? 0 : 1)
          expect(new Set(play.sent).size).toBe(play.sent.length)
          const outcomes = world.bookings.map(({ engine, outcomes: [outcome] }) => ({ engine, ...outcome! }))
          for (const { engine, failure, failedEngine, result } of outcomes) {
            if (engine === play.passed[0]) continue
            // The engine that lost is blamed for nothing but its own failure.
            if (failure !== null) expect([failedEngine, result]).toEqual([engine, 'engine_failed'])
            else expect(['abandoned', 'client_gone']).toContain(result)
          }
          if (!(end instanceof Failure))
            expect(outcomes.filter(({ result }) => result === 'complete').length).toBeLessThan(2)
          if (!leaves && manners.includes('answers') && !manners.includes('refuses') && !isEndless)
            expect(end).toBeInstanceOf(Response)
        },
      ),
      { numRuns: 2_000 },
    )
  })

  const context = (changes: { readonly exchange?: object; readonly placed?: object; readonly retry?: object }) => {
    const world = new ScriptedForwarder({ 'c-a': [], 'c-b': [] })
    const route = hedging(world, changes.retry)
    return {
      exchange: { ...world.exchange([route]), ...changes.exchange },
      placed: {
        route,
        engine: route.targets.get('c-a')!,
        placement: { kind: 'whole', engine: 'c-a', runnersUp: [] },
        ...changes.placed,
      },
    } as unknown as AttemptContext
  }
  const split: Placement = { kind: 'split', prefill: 'c-a', decode: 'c-b', runnersUp: [] }

  it.each([
    ['the pool hedges', {}, true],
    ['the pool does not hedge, since its engine may be wedged', { retry: { hedgeMs: 'off' } }, true],
    ['it is split', { placed: { placement: split } }, false],
    ['it is bound to one engine', { exchange: { pinned: { cluster: 'c', engine: 'c-a' } } }, false],
    ['it is at another gateway', { placed: { engine: { kind: 'gateway', id: 'c-a' } } }, false],
    ['it is at a provider', { placed: { engine: { kind: 'provider', id: 'c-a' } } }, false],
    ['it does not stream', { exchange: { stream: false } }, true],
  ])('a request whose first byte may be late may be sent to a second engine if %s: %j → %s', (_, changes, expected) => {
    expect(mayRace(context(changes))).toBe(expected)
  })
})

/**
 * A race whose second engines are asked for by the test. Each engine's attempt ends as the test says.
 * @param admits the pool answers when it resolves
 */
function openRace(admits?: Promise<void>) {
  const world = new ScriptedForwarder({ 'c-a': [], 'c-b': [], 'c-d': [] })
  const route = world.route('c', ['c-a', 'c-b', 'c-d'])
  const { ports, digests } = world
  const exchange = world.exchange([route])
  const pool = ports.pool('c', 'm')
  const admit: typeof pool.admit = async (...args) => {
    await admits
    return pool.admit(...args)
  }
  const attempt = {
    exchange,
    ports: { ...ports, pool: () => ({ ...pool, admit, local: null }) },
    digests,
    stages: new StageTimer({}),
    placed: {
      route,
      engine: route.targets.get('c-a')!,
      placement: { kind: 'whole', engine: 'c-a', runnersUp: [] },
      predictedTtftMs: null,
      notes: [],
    },
    earlier: [],
    signal: world.client.signal,
    race: alone,
    stepsOf: () => ({ place: placeOnPool }),
  } as unknown as AttemptContext
  const sent: SentAttempt[] = []
  const races: OpenRace[] = []
  const watched: string[] = []
  const watching = (race: OpenRace) => {
    races.push(race)
    watched.push(race.attempt.placed.engine.id)
    return { began: () => {}, end: () => {} }
  }
  const single = (one: AttemptContext) =>
    new Promise<Response | FailedOutcome>((resolve, reject) => {
      const { engine } = one.placed
      const begin = (status = 200) => one.race.claim({ status, sse: status === 200 }, false) === 'won'
      const end = (isWinner: boolean) =>
        resolve(isWinner ? new Response(engine.id) : { engine, failure: 'busy', status: 200 })
      sent.push({
        engine: engine.id,
        begin,
        end,
        answer: (status) => end(begin(status)),
        fail: (failure) => resolve({ engine, failure, status: null }),
        throw: reject,
      })
    })
  const outcome = raced(single, [watching])(attempt)
  return { world, race: races[0]!, watched, sent, outcome, record: exchange.record }
}

interface SentAttempt {
  readonly engine: string
  /** The first byte comes. true: it is the first one of the race. */
  begin(status?: number): boolean
  end(isWinner: boolean): void
  answer(status?: number): void
  fail(failure: AttemptFailure): void
  throw(error: Error): void
}

it('a request that a second engine has is not sent to a third one when its first byte is late', async () => {
  const { race, sent } = openRace()
  void race.askSecond('rescue')
  await turns()
  expect(sent.map(({ engine }) => engine)).toEqual(['c-a', 'c-b'])
  void race.askSecond('hedge')
  await turns()
  expect(sent.map(({ engine }) => engine)).toEqual(['c-a', 'c-b'])
})

it('a second engine that is booked after the first one has answered is released by work in the background', async () => {
  const admits = Promise.withResolvers<void>()
  const { world, race, sent, outcome } = openRace(admits.promise)
  void race.askSecond('hedge')
  await turns()
  sent[0]!.answer()
  await outcome
  // On Workers, an answer that comes after the end of the work in the background is lost.
  const settled = world.settled()
  await turns()
  admits.resolve()
  await settled
  expect(world.bookings.map(({ outcomes }) => outcomes.map(({ result }) => result))).toEqual([['abandoned']])
})

describe('a request whose hedge has failed', () => {
  const afterHedge = async () => {
    const open = openRace()
    void open.race.askSecond('hedge')
    await turns()
    open.sent[1]!.fail('reset')
    await turns()
    return open
  }

  it('a request whose hedge has failed is rescued if its first engine is wedged', async () => {
    const { race, sent, outcome, record } = await afterHedge()
    void race.askSecond('rescue')
    await turns()
    expect(sent.map(({ engine }) => engine)).toEqual(['c-a', 'c-b', 'c-d'])
    sent[2]!.answer()
    expect(await outcome).toBeInstanceOf(Response)
    expect(record.hedge).toBe('lost')
  })

  it('a request whose hedge has failed has lost it if the first engine answers', async () => {
    const { sent, outcome, record } = await afterHedge()
    sent[0]!.answer()
    expect(await outcome).toBeInstanceOf(Response)
    expect(record.hedge).toBe('lost')
  })

  it('a request whose hedge has failed ends with the failures of both engines if the first one fails, too', async () => {
    const { sent, outcome, record } = await afterHedge()
    sent[0]!.fail('status_5xx')
    const { failures } = (await outcome) as { readonly failures: readonly FailedAttempt[] }
    expect(failures.map(({ outcome: { engine, failure } }) => [engine.id, failure])).toEqual([
      ['c-b', 'reset'],
      ['c-a', 'status_5xx'],
    ])
    expect(record.hedge).toBe('failed')
  })
})

describe('a request whose first engine fails while a second one has it', () => {
  const afterFirst = async (kind: 'hedge' | 'rescue') => {
    const open = openRace()
    void open.race.askSecond(kind)
    await turns()
    open.sent[0]!.fail('reset')
    await turns()
    return open
  }

  it.each(['hedge', 'rescue'] as const)(
    'a request whose first engine fails while a second one has it is rescued if the second one is wedged: %s',
    async (kind) => {
      const { race, watched, sent, outcome } = await afterFirst(kind)
      expect(watched).toEqual(['c-a', 'c-b'])
      void race.askSecond('rescue')
      await turns()
      expect(sent.map(({ engine }) => engine)).toEqual(['c-a', 'c-b', 'c-d'])
      sent[2]!.answer()
      expect(await ((await outcome) as Response).text()).toBe('c-d')
    },
  )

  it.each(['hedge', 'rescue'] as const)(
    'a request whose first engine fails while a second one has it is not hedged: %s',
    async (kind) => {
      const { race, sent } = await afterFirst(kind)
      void race.askSecond('hedge')
      await turns()
      expect(sent).toHaveLength(2)
    },
  )

  it('a request whose first engine fails while a second one has it gets the answer of the second one', async () => {
    const { sent, outcome, record } = await afterFirst('hedge')
    sent[1]!.answer()
    expect(await ((await outcome) as Response).text()).toBe('c-b')
    expect(record.hedge).toBe('won')
  })

  it('a request whose first engine fails while a second one has it gets the refusal of the second one', async () => {
    const { sent, outcome } = await afterFirst('hedge')
    sent[1]!.answer(400)
    expect(await ((await outcome) as Response).text()).toBe('c-b')
  })

  it('a request whose first engine fails while a second one has it ends if that was the limit of the whole answer', async () => {
    const { race, sent, outcome } = openRace()
    void race.askSecond('hedge')
    await turns()
    sent[0]!.fail('answer_timeout')
    const { failures } = (await outcome) as { readonly failures: readonly FailedAttempt[] }
    expect(failures.map(({ outcome: { failure } }) => failure)).toEqual(['answer_timeout'])
    expect(sent[1]!.begin()).toBe(false)
  })

  it('a request whose first engine fails while a second one has it ends with both failures if that fails, too', async () => {
    const { sent, outcome } = await afterFirst('hedge')
    sent[1]!.fail('status_5xx')
    const { failures } = (await outcome) as { readonly failures: readonly FailedAttempt[] }
    expect(failures.map(({ outcome: { engine, failure } }) => [engine.id, failure])).toEqual([
      ['c-a', 'reset'],
      ['c-b', 'status_5xx'],
    ])
  })

  it('a request whose first engine fails while a second one is asked for waits for the second one', async () => {
    const { race, watched, sent, outcome } = openRace()
    void race.askSecond('hedge')
    sent[0]!.fail('reset')
    await turns()
    expect(sent.map(({ engine }) => engine)).toEqual(['c-a', 'c-b'])
    expect(watched).toEqual(['c-a', 'c-b'])
    sent[1]!.answer()
    expect(await ((await outcome) as Response).text()).toBe('c-b')
  })
})

it('a request whose second engine answers first is not disturbed by the end of the first attempt', async () => {
  const { race, sent, outcome } = openRace()
  void race.askSecond('hedge')
  await turns()
  expect(sent[1]!.begin()).toBe(true)
  sent[0]!.fail('reset')
  await turns()
  sent[1]!.end(true)
  expect(await ((await outcome) as Response).text()).toBe('c-b')
})

it('a request ends with the unexpected error of its first attempt, and goes on after that of its second one', async () => {
  const { race, sent, outcome } = openRace()
  void race.askSecond('hedge')
  await turns()
  sent[1]!.throw(new Error('second'))
  await turns()
  sent[0]!.throw(new Error('first'))
  await expect(outcome).rejects.toThrow('first')
})

it('a request whose rescue has failed is not sent to a third engine', async () => {
  const { race, sent } = openRace()
  void race.askSecond('rescue')
  await turns()
  sent[1]!.fail('reset')
  await turns()
  void race.askSecond('rescue')
  await turns()
  expect(sent).toHaveLength(2)
})
