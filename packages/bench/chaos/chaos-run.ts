/**
 * Drives one deployment: open-loop load, engine faults, and disruptions of the gateway. Then checks that it is idle.
 */
import http from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import type { RunningFleet } from '../../simulator/src/node/fleet-host.ts'
import type { FaultRule } from '../../simulator/src/faults.ts'
import { exchange, pick, seeded, STREAMS, type RequestResult, type Kind } from './clients.ts'
import type { Deployment } from './deployment.ts'
import { LIMITED_CONCURRENT } from './document.ts'
import { Lateness } from './lateness.ts'
import type { Ledger } from './ledger.ts'

/** No fault that looks like a complete response: without mid_stream it could not be detected. */
const FAULTS: readonly (FaultRule | null)[] = [
  null,
  { kind: 'refuse' },
  { kind: 'status', status: 500, share: 0.3 },
  { kind: 'reset', after: 0, share: 0.3 },
  { kind: 'reset', after: 4, share: 0.3 },
  { kind: 'cut', after: 7, share: 0.3 },
  { kind: 'hang', where: 'head', share: 0.05 },
  { kind: 'hang', where: 'middle', after: 3, share: 0.1 },
  { kind: 'close_idle', share: 0.3 },
  { kind: 'malformed', where: 'head', share: 0.2 },
  { kind: 'slow', factor: 3, delayMs: 20 },
]
const FAULT_MS = 2_000
const DISRUPTION_MS = 8_000
/** Overload: the rate is multiplied by this factor for this time, once in four disruptions. */
const OVERLOAD = { factor: 5, ms: 1_000 }
/** An error this soon after a kill of the gateway is its consequence, ms. */
const KILL_WINDOW_MS = 2_000
/** Memory is compared with that after this share of the run, when code, pools and buffers are warm. */
const WARM_SHARE = 1 / 3
/** The part of the run after that is at least this share. */
const GROWTH_SHARE = 1 / 3

export interface Options {
  readonly deployment: Deployment
  readonly fleet: RunningFleet
  readonly ms: number
  readonly seed: number
  readonly ratePerS: number
  readonly settleS: number
  note(line: string): void
}

export interface Figures {
  readonly requests: number
  readonly ok: number
  readonly aborted: number
  /** 429: over a limit or over capacity. */
  readonly rejected: number
  /** Requests of a gateway process or thread that was killed. No gateway can complete them. */
  readonly killed: number
  /**
   * JSON responses that an engine ended in the middle or never sent. The gateway has forwarded their bytes or waited until
   * `answer_ms`, so it cannot retry.
   */
  readonly plain_cut: number
  readonly continued: number
  readonly lost_tokens: number
  readonly duplicate_tokens: number
  readonly leaked_prompts: number
  readonly client_errors: number
  readonly leaked_bookings: number
  readonly limit_violations: number
  readonly problems: number
  readonly settled_after_s: number
  /** Worst lateness of timers in the process of clients and engines. */
  readonly late_ms_max: number
  /** null: the run was too short for the memory to be warm. */
  readonly rss_growth_bytes: number | null
  readonly gapRatios: readonly number[]
}

export class ChaosRun {
  readonly #options: Options
  readonly #agent = new http.Agent({ keepAlive: true })
  readonly #random: () => number
  readonly #lateness = new Lateness()
  readonly #open = new Set<Promise<void>>()
  readonly #outcomes: Record<string, number> = {}
  readonly #pauses = new Map<string, number>()
  readonly #suspects: RequestResult[] = []
  /** Running responses of the limited key, by URL of the gateway. */
  readonly #running = new Map<string, number>()
  #requests = 0
  #lost = 0
  #duplicate = 0
  #leakedPrompts = 0
  #violations = 0
  #overloadUntil = 0
  #startedAt = 0
  #warmRss = 0
  #left: SettledState = { bookings: NaN, afterS: Infinity, rss: 0 }

  constructor(options: Options) {
    this.#options = options
    this.#random = seeded(options.seed + 1)
  }

  async drive(): Promise<void> {
    const { ms, fleet } = this.#options
    this.#startedAt = performance.now()
    const endAt = this.#startedAt + ms
    const warm = sleep(this.#warmMs).then(async () => (this.#warmRss = await this.#memory()))
    await Promise.all([this.#load(endAt), this.#faults(endAt), this.#disruptions(endAt), warm])
    for (const engine of fleet.engines) engine.setFault(null)
    await Promise.all(this.#open)
    this.#agent.destroy()
    this.#lateness.stop()
    this.#left = await this.#settle()
    this.#options.note(`outcomes ${JSON.stringify(this.#outcomes)}`)
    this.#options.note(`not continued ${JSON.stringify(this.#options.deployment.log.refusals)}`)
  }

  /** Call it after the deployment has ended, when its log is complete. */
  figures(): Figures {
    const { deployment, note, fleet } = this.#options
    const errors = this.#suspects.filter((one) => !this.#isKilled(one))
    const plainTruncations = errors.filter(isPlainTruncation).length
    for (const error of errors.slice(0, 20)) note(this.#described(error))
    for (const problem of deployment.log.problems.slice(0, 20)) note(`problem: ${problem}`)
    const busy = fleet.engines.reduce((sum, { log }) => sum + log.running, 0)
    const count = (outcome: string): number => this.#outcomes[outcome] ?? 0
    return {
      requests: this.#requests,
      ok: count('ok'),
      aborted: count('aborted'),
      rejected: count('rejected'),
      killed: this.#suspects.length - errors.length,
      plain_cut: plainTruncations,
      continued: deployment.log.pauses.size,
      lost_tokens: this.#lost,
      duplicate_tokens: this.#duplicate,
      leaked_prompts: this.#leakedPrompts,
      client_errors: errors.length - plainTruncations,
      leaked_bookings: Number.isNaN(this.#left.bookings) ? 1 : this.#left.bookings,
      limit_violations: this.#violations,
      problems: deployment.log.problems.length + busy,
      settled_after_s: this.#left.afterS,
      late_ms_max: this.#lateness.worst,
      rss_growth_bytes: this.#isWarm ? Math.round(this.#left.rss - this.#warmRss) : null,
      gapRatios: this.#gapRatios(),
    }
  }

  get #warmMs(): number {
    const { ms, deployment } = this.#options
    return Math.min(ms, Math.max(ms * WARM_SHARE, deployment.warmMs ?? 0))
  }

  get #isWarm(): boolean {
    const { ms } = this.#options
    return this.#warmMs <= ms * (1 - GROWTH_SHARE)
  }

  #described({ id, kind, outcome, url, sentAt, endedAt }: RequestResult): string {
    const late = this.#lateness.between(sentAt, endedAt)
    const [after, took] = [sentAt - this.#startedAt, endedAt - sentAt].map((ms) => `${(ms / 1000).toFixed(1)} s`)
    const warnings = this.#options.deployment.log.warningsOf(id).join('; ')
    return `error: ${outcome} ${kind} ${id} at ${url}, sent after ${after}, took ${took}, timers up to ${late} ms late: ${warnings}`
  }

  /** Sends requests at random intervals, independent of the responses. */
  async #load(endAt: number): Promise<void> {
    const { ratePerS } = this.#options
    let nextAt = performance.now()
    while (nextAt < endAt) {
      const rate = performance.now() < this.#overloadUntil ? ratePerS * OVERLOAD.factor : ratePerS
      nextAt += (-Math.log(1 - this.#random()) * 1000) / rate
      const waitMs = nextAt - performance.now()
      if (waitMs > 0) await sleep(waitMs)
      const done = this.#send(pick(this.#random)).finally(() => this.#open.delete(done))
      this.#open.add(done)
    }
  }

  async #send(kind: Kind): Promise<void> {
    const { deployment } = this.#options
    const url = deployment.target()
    this.#requests++
    const running = (change: number): void => this.#limitedRuns(url, change)
    this.#count(await exchange(kind, { url, key: deployment.key, agent: this.#agent, random: this.#random, running }))
  }

  #count(ended: RequestResult): void {
    const { kind, outcome } = ended
    this.#outcomes[outcome] = (this.#outcomes[outcome] ?? 0) + 1
    this.#lost += ended.lost
    this.#duplicate += ended.duplicate
    if (ended.lost + ended.duplicate > 0)
      this.#options.note(`${ended.id} ${outcome}: ${ended.lost} tokens lost, ${ended.duplicate} duplicate`)
    if (ended.hasLeaked) this.#leakedPrompts++
    if (outcome === 'ok' && ended.pauseMs > 0) this.#pauses.set(ended.id, ended.pauseMs)
    const isExpected = outcome === 'ok' || outcome === 'aborted' || outcome === 'rejected' || outcome === 'invalid'
    if (!isExpected && !kind.startsWith('abort')) this.#suspects.push(ended)
  }

  #limitedRuns(url: string, change: number): void {
    const running = (this.#running.get(url) ?? 0) + change
    this.#running.set(url, running)
    // Ends that have arrived but were not read yet count as ended.
    if (running > LIMITED_CONCURRENT)
      setTimeout(() => {
        if ((this.#running.get(url) ?? 0) >= running) this.#violations++
      }, 5)
  }

  #isKilled({ url, sentAt, endedAt, outcome }: RequestResult): boolean {
    if (outcome !== 'stream_cut' && outcome !== 'plain_cut' && outcome !== 'connection_broken') return false
    return this.#options.deployment.kills.some(
      (kill) =>
        (kill.url === null || kill.url === url) &&
        kill.at > sentAt - KILL_WINDOW_MS &&
        kill.at < endedAt + KILL_WINDOW_MS,
    )
  }

  /** Gives a random engine another fault. The first engine has none. */
  async #faults(endAt: number): Promise<void> {
    const { fleet, seed } = this.#options
    const random = seeded(seed + 2)
    while (performance.now() + FAULT_MS < endAt) {
      await sleep(FAULT_MS * (0.5 + random()))
      const at = 1 + Math.floor(random() * (fleet.engines.length - 1))
      fleet.engines[at]!.setFault(FAULTS[Math.floor(random() * FAULTS.length)]!)
    }
  }

  async #disruptions(endAt: number): Promise<void> {
    const { deployment, seed, note, ms } = this.#options
    const random = seeded(seed + 3)
    const everyMs = Math.min(DISRUPTION_MS, ms / 4)
    while (performance.now() + everyMs < endAt) {
      await sleep(everyMs)
      if (random() < 0.25) {
        this.#overloadUntil = performance.now() + OVERLOAD.ms
        note(`overload for ${OVERLOAD.ms} ms`)
      } else {
        const from = new Date().toISOString()
        note(`${await deployment.disrupt(random)}, begun at ${from}`)
      }
    }
  }

  /** Waits until all ledgers are zero, which includes the time limits of hung engines and lost clients. */
  async #settle(): Promise<SettledState> {
    const { deployment, settleS } = this.#options
    let left = NaN
    for (let afterS = 1; afterS <= settleS; afterS++) {
      await sleep(1000)
      // A gateway whose threads have just been killed is queried again.
      const ledger = await deployment.ledger().catch(() => null)
      left = ledger === null ? NaN : sizeOf(ledger)
      if (left === 0) return { bookings: 0, afterS, rss: await this.#memory() }
    }
    for (const line of (await deployment.holdings?.()) ?? []) this.#options.note(`leaked: ${line}`)
    return { bookings: left, afterS: Infinity, rss: await this.#memory() }
  }

  async #memory(): Promise<number> {
    const { deployment } = this.#options
    await deployment.collect?.()
    return deployment.rss()
  }

  /** Pause at the client / (time to detect the failure + predicted TTFT), for streams with one continuation. */
  #gapRatios(): number[] {
    const ratios: number[] = []
    for (const [id, { silentMs, predictedMs }] of this.#options.deployment.log.pauses) {
      const pauseMs = this.#pauses.get(id)
      if (pauseMs === undefined || predictedMs === null) continue
      ratios.push(pauseMs / (silentMs + predictedMs))
      this.#options.note(`paused ${pauseMs} ms: ${silentMs} ms silent, continuation predicted in ${predictedMs} ms`)
    }
    return ratios
  }
}

/** An engine that hangs looks like one that works on a long answer, whatever the answer would have been. */
const isPlainTruncation = ({ kind, outcome }: RequestResult): boolean =>
  outcome === 'plain_cut' || (!STREAMS.has(kind) && outcome === 'status_504_answer_timeout')

interface SettledState {
  readonly bookings: number
  readonly afterS: number
  readonly rss: number
}

/** Zero only if nothing is booked. */
const sizeOf = ({ bookings, blocks, prefillS }: Ledger): number =>
  bookings + (bookings === 0 && (blocks !== 0 || prefillS !== 0) ? 1 : 0)
