import { WAKE_MS } from '../../../../src/core/pool/queue/waiting-room.ts'
import { EventQueue } from './event-queue.ts'
import { Job } from './job.ts'
import type { LmcacheStore } from './lmcache-store.ts'
import type { JobListener, ReplayEngine } from './replay-engine.ts'
import type { ReplayRouter, Route } from './router.ts'
import type { Trace } from './trace.ts'

/** Engines of a run that come and go while it runs. */
export interface RunningFleet {
  readonly engines: readonly ReplayEngine[]
  /** Adds a new, empty engine and returns its place. It gets what the router sends to it. */
  add(): number
  /** Calls back at a virtual time. */
  at(atMs: number, happen: (now: number) => void): void
}

export interface RunOptions {
  /** Creates a new, empty engine. Deterministic for the same listener. */
  readonly makeEngine: (at: number, listener: JobListener, lmcache: LmcacheStore | null) => ReplayEngine
  /** Creates a new, empty LMCache; absent: none. */
  readonly makeLmcache?: () => LmcacheStore
  readonly engines: number
  /** Adds engines, at the start and later; absent: there are those of `engines`. */
  readonly scale?: (fleet: RunningFleet, router: ReplayRouter) => void
  readonly makeRouter: (engines: readonly ReplayEngine[], lmcache: LmcacheStore | null) => ReplayRouter
  /** Multiple of the trace's pace. */
  readonly speed: number
  /** A session sends a turn after the previous answer, instead of at the time of the trace. */
  readonly closedLoop: boolean
  /** Maximum number of requests in flight. The others wait at the client, which does not count as TTFT. */
  readonly concurrency: number
  /** Interval at which the client looks for requests to send, milliseconds of the trace; absent: it never waits. */
  readonly pollMs?: number
  /** Late binding: hold requests at the gateway while every engine has this many without a first token; null: never. */
  readonly holdAt: number | null
  /** Network round trip between gateway and engines. */
  readonly rttMs: number
  /** Milliseconds of a real clock, to measure decision time; null: not measured. */
  readonly clockMs: (() => number) | null
  readonly progress?: (done: number, of: number) => void
}

export interface RunResult {
  readonly router: string
  /** In the order of the trace. */
  readonly jobs: readonly Job[]
  readonly refused: number
  readonly computedTokens: Float64Array
  readonly decisionsMs: Float64Array
  /** Virtual time from the first request to the last answer, ms. */
  readonly spanMs: number
}

/** Runs a trace on a fleet in virtual time. Deterministic for equal trace, router and random source. */
export function run(trace: Trace, options: RunOptions): RunResult {
  return new Run(trace, options).run()
}

const PROGRESS_EVERY = 256

class Run implements JobListener {
  readonly #options: RunOptions
  readonly #jobs: Job[]
  readonly #events = new EventQueue()
  readonly #engines: ReplayEngine[]
  readonly #nextAt: number[]
  readonly #router: ReplayRouter
  readonly #decisionsMs: Float64Array
  /** The next turn of a job's session, by job. */
  readonly #following = new Map<Job, Job>()
  /**
   * Waiting at the client for a concurrency slot. The earliest request of the trace goes first, as in clients that
   * iterate over their users.
   */
  readonly #waiting: Job[] = []
  /** Held at the gateway until an engine has room. */
  readonly #held: Job[] = []
  /** Number of requests without a first token, by engine. */
  readonly #prefilling: number[]
  /** Data for the second leg of each split request. */
  readonly #legs = new Map<Job, { readonly main: Job; readonly decode: number }>()
  #inFlight = 0
  #ended = 0
  #refused = 0
  /** Jobs that wait for room at the router. */
  #queued = 0
  #now = 0

  constructor(trace: Trace, options: RunOptions) {
    this.#options = options
    this.#jobs = trace.requests.map((request, index) => new Job(index, request))
    const lmcache = options.makeLmcache?.() ?? null
    this.#engines = Array.from({ length: options.engines }, (_, at) => options.makeEngine(at, this, lmcache))
    this.#nextAt = this.#engines.map(() => Infinity)
    this.#prefilling = this.#engines.map(() => 0)
    this.#router = options.makeRouter(this.#engines, lmcache)
    this.#decisionsMs = new Float64Array(this.#jobs.length)
    const add = (): number => {
      this.#nextAt.push(Infinity)
      this.#prefilling.push(0)
      return this.#engines.push(options.makeEngine(this.#engines.length, this, lmcache)) - 1
    }
    const at: RunningFleet['at'] = (atMs, happen) => this.#at(atMs, happen)
    options.scale?.({ engines: this.#engines, add, at }, this.#router)
  }

  run(): RunResult {
    this.#schedule()
    while (this.#ended + this.#refused < this.#jobs.length) {
      const engine = this.#soonest()
      const engineAt = this.#nextAt[engine] ?? Infinity
      if (engineAt <= this.#events.nextAt()) {
        if (engineAt === Infinity) throw new Error('the fleet is idle with requests left: an engine lost one')
        this.#now = engineAt
        this.#engines[engine]!.advance(engineAt)
        this.#nextAt[engine] = this.#engines[engine]!.nextEventAt()
      } else {
        this.#now = this.#events.nextAt()
        this.#events.take()!()
      }
    }
    return {
      router: this.#router.name,
      jobs: this.#jobs,
      refused: this.#refused,
      computedTokens: Float64Array.from(this.#engines, (engine) => engine.computedTokens),
      decisionsMs: this.#decisionsMs,
      spanMs: this.#now,
    }
  }

  firstToken(job: Job, at: number): void {
    // The first leg of a split ends with its one token. The client sees only the second leg.
    if (this.#legs.has(job)) return
    this.#soon(at, (now) => {
      job.firstTokenAt = now
      this.#prefilling[job.engine]! -= 1
      this.#router.firstToken(job, now)
      this.#routeHeld(now)
    })
  }

  progress(job: Job, outputBlocks: number, at: number): void {
    if (this.#router.progress === undefined) return
    this.#soon(at, (now) => this.#router.progress!(job, outputBlocks, now))
  }

  ended(job: Job, at: number): void {
    const leg = this.#legs.get(job)
    if (leg !== undefined) {
      this.#legs.delete(job)
      leg.main.remote = true
      leg.main.preemptions += job.preemptions
      leg.main.cachedTokens = job.cachedTokens
      this.#submit(leg.main, leg.decode, at)
      return
    }
    this.#soon(at, (now) => this.#finish(job, now))
  }

  #finish(job: Job, now: number): void {
    job.endedAt = now
    this.#ended += 1
    this.#router.ended(job, now)
    if (this.#ended % PROGRESS_EVERY === 0) this.#options.progress?.(this.#ended, this.#jobs.length)
    this.#answered(job, now)
  }

  /** The client continues, also after a refusal. */
  #answered(job: Job, now: number): void {
    this.#inFlight -= 1
    const next = this.#following.get(job)
    if (next !== undefined)
      this.#at(this.#pollAt(now + next.request.thinkMs / this.#options.speed), (at) => this.#arrive(next, at))
    if (this.#options.pollMs === undefined) this.#sendWaiting(now)
    else this.#at(this.#pollAt(now), (at) => this.#sendWaiting(at))
  }

  #sendWaiting(now: number): void {
    if (this.#inFlight >= this.#options.concurrency) return
    const queued = this.#waiting.shift()
    if (queued !== undefined) this.#send(queued, now)
  }

  /** The client's first look at or after that time. */
  #pollAt(time: number): number {
    const { pollMs, speed } = this.#options
    const everyMs = pollMs === undefined ? 0 : pollMs / speed
    return everyMs === 0 ? time : Math.ceil(time / everyMs) * everyMs
  }

  #schedule(): void {
    const last = new Map<string, Job>()
    for (const job of this.#jobs) {
      const { chain, atMs } = job.request
      const before = this.#options.closedLoop && chain !== null ? last.get(chain) : undefined
      if (chain !== null) last.set(chain, job)
      if (before === undefined)
        this.#events.add(this.#pollAt(atMs / this.#options.speed), (at) => this.#arrive(job, at))
      else this.#following.set(before, job)
    }
    this.#scrape(0)
  }

  #scrape(now: number): void {
    if (this.#router.scrape === undefined) return
    this.#router.scrape(now)
    const scrapeMs = this.#router.scrapeMs!
    this.#events.add(now + scrapeMs, (at) => this.#scrape(at))
  }

  #arrive(job: Job, now: number): void {
    if (this.#inFlight < this.#options.concurrency) this.#send(job, now)
    else {
      let at = this.#waiting.length
      while (at > 0 && this.#waiting[at - 1]!.index > job.index) at -= 1
      this.#waiting.splice(at, 0, job)
    }
  }

  #send(job: Job, now: number): void {
    this.#inFlight += 1
    job.sentAt = now
    const { holdAt } = this.#options
    if (holdAt !== null && this.#prefilling.every((count) => count >= holdAt)) this.#held.push(job)
    else this.#route(job, now)
  }

  #routeHeld(now: number): void {
    const held = this.#held.shift()
    if (held !== undefined) this.#route(held, now)
  }

  #route(job: Job, now: number): void {
    const { clockMs } = this.#options
    const before = clockMs?.() ?? 0
    const route = this.#router.route(job, now)
    this.#decisionsMs[job.index] = (clockMs?.() ?? 0) - before
    if (route !== null) this.#place(job, route, now)
    else if (!this.#waits(job, now)) this.#refuse(job, now)
  }

  #waits(job: Job, now: number): boolean {
    const done = (route: Route | null): void => {
      this.#queued -= 1
      // Not in the event of an engine that made room.
      this.#at(this.#now, (at) => (route === null ? this.#refuse(job, at) : this.#place(job, route, at)))
    }
    this.#queued += 1
    const waits = this.#router.wait?.(job, now, done) ?? false
    if (!waits) this.#queued -= 1
    else if (this.#queued === 1) this.#wake(now)
    return waits
  }

  #wake(now: number): void {
    this.#at(now + WAKE_MS, (at) => {
      if (this.#queued > 0) this.#router.wake?.(at)
      if (this.#queued > 0) this.#wake(at)
    })
  }

  #refuse(job: Job, now: number): void {
    this.#refused += 1
    this.#at(now, (at) => {
      this.#answered(job, at)
      this.#routeHeld(at)
    })
  }

  #place(job: Job, route: Route, now: number): void {
    const { rttMs } = this.#options
    job.predictedTtftMs = route.predictedTtftMs ?? null
    job.engine = route.prefill ?? route.engine
    this.#prefilling[job.engine]! += 1
    const first = route.prefill === undefined ? job : this.#prefillLeg(job, route.engine)
    if (rttMs === 0) this.#submit(first, job.engine, now)
    else this.#at(now + rttMs / 2, (at) => this.#submit(first, job.engine, at))
  }

  #prefillLeg(main: Job, decode: number): Job {
    const leg = new Job(main.index, main.request, 1)
    leg.hold = true
    this.#legs.set(leg, { main, decode })
    return leg
  }

  #submit(job: Job, engine: number, now: number): void {
    this.#engines[engine]!.submit(job, now)
    this.#nextAt[engine] = this.#engines[engine]!.nextEventAt()
  }

  /** Events of an engine reach the gateway half a round trip later. */
  #soon(at: number, happen: (now: number) => void): void {
    if (this.#options.rttMs === 0) happen(at)
    else this.#events.add(at + this.#options.rttMs / 2, happen)
  }

  #at(at: number, happen: (now: number) => void): void {
    this.#events.add(at, happen)
  }

  #soonest(): number {
    let best = 0
    for (let at = 1; at < this.#nextAt.length; at += 1) if (this.#nextAt[at]! < this.#nextAt[best]!) best = at
    return best
  }
}
