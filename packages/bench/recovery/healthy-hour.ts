/** An hour of traffic that makes healthy engines look sick, in virtual time. Nothing may be ejected. */
import { chance } from '../../replay/src/replay/chance.ts'
import { engineProfile, inBlocksOf } from '../../replay/src/replay/engine-profile.ts'
import { keysOf } from '../../replay/src/replay/trace.ts'
import type { Profile } from '../../simulator/src/profiles.ts'
import { type ClientRequest, type ConditionEvent, VirtualFleet } from './virtual-fleet.ts'

/** Longest prompt of the hour, tokens. */
export const LONGEST_TOKENS = 200_000

const CHAT_TOKENS = 2_500
const OUTPUT_TOKENS = 200
const BLOCK_TOKENS = 16
const SECOND_MS = 1_000
const MINUTE_MS = 60 * SECOND_MS

/** Patience of clients, ms: most leave after ten seconds. */
const PATIENCES_MS = [10_000, 10_000, 10_000, 30_000, 120_000]

/** Traffic of one part of the hour. Rates are multiples of what the fleet can serve. */
interface Part {
  readonly name: string
  readonly load: number
  /** Load of bursts of `BURST_MS` twice a minute. */
  readonly burstLoad?: number
  /** A long prompt every so many seconds. */
  readonly longEveryS?: number
  /** The longest prompt, once. */
  readonly hasLongest?: boolean
  /** Requests a second of a key that aborts all. */
  readonly abortsPerS?: number
  /** Patience of all clients, ms. Absent: the usual ones. */
  readonly patienceMs?: number
}

const BURST_MS = 5_000
const BURST_EVERY_MS = 30_000

const PARTS: readonly Part[] = [
  { name: 'overload at 1.5x', load: 1.5 },
  { name: 'bursts of 4x', load: 0.4, burstLoad: 4 },
  { name: 'long prefills, one of 200k tokens', load: 0.4, longEveryS: 20, hasLongest: true },
  { name: 'a key that aborts all', load: 0.5, abortsPerS: 5 },
  { name: 'clients that leave after 2 s, at 1.2x', load: 1.2, patienceMs: 2_000 },
  { name: 'all together', load: 0.8, burstLoad: 2, longEveryS: 30, hasLongest: true, abortsPerS: 5 },
]

export interface HealthyHourOptions {
  readonly seed: number
  readonly engines?: number
  /** Length of the whole; the parts share it. Default: one hour. */
  readonly minutes?: number
  readonly profile?: string
}

export interface HealthyHour {
  readonly seed: number
  readonly requests: number
  readonly aborted: number
  /** Changes to a condition in which an engine serves nothing. */
  readonly ejections: readonly ConditionEvent[]
  /** Reports of slow engines, which no engine is. */
  readonly slow: number
  /** Part of the hour of each ejection. */
  readonly ejectedIn: readonly string[]
}

/** Plays the hour with one seed. */
export function healthyHour({ seed, engines = 3, minutes = 60, profile = 'agentic' }: HealthyHourOptions): HealthyHour {
  const random = chance(seed)
  const machine = inBlocksOf(BLOCK_TOKENS, engineProfile(profile))
  const fleet = new VirtualFleet({ engines: Array.from({ length: engines }, () => machine), random })
  const partMs = (minutes * MINUTE_MS) / PARTS.length
  const perS = capacityPerS(machine) * engines
  const clients = new Clients(fleet, random)
  for (const [at, part] of PARTS.entries())
    clients.plan(part, { fromMs: at * partMs, untilMs: (at + 1) * partMs, perS })
  fleet.run(minutes * MINUTE_MS)
  const ejections = fleet.events.filter(({ event }) => event === 'engine_down')
  return {
    seed,
    requests: fleet.served.length,
    aborted: fleet.served.filter(({ endedAt, request, firstTokenAt, sentAt }) =>
      endedAt === null ? false : firstTokenAt === null || endedAt - sentAt === request.leavesAtMs,
    ).length,
    ejections,
    slow: fleet.events.filter(({ condition }) => condition === 'slow').length,
    ejectedIn: ejections.map(({ at }) => PARTS[Math.min(PARTS.length - 1, Math.floor(at / partMs))]!.name),
  }
}

interface Stretch {
  readonly fromMs: number
  readonly untilMs: number
  /** What the fleet can serve, requests per second. */
  readonly perS: number
}

class Clients {
  readonly #fleet: VirtualFleet
  readonly #random: () => number
  #blocks = 1

  constructor(fleet: VirtualFleet, random: () => number) {
    this.#fleet = fleet
    this.#random = random
  }

  plan(part: Part, stretch: Stretch): void {
    const { fromMs, untilMs, perS } = stretch
    const { load, burstLoad = load, longEveryS, abortsPerS, patienceMs } = part
    const loadAt = (at: number): number => ((at - fromMs) % BURST_EVERY_MS < BURST_MS ? burstLoad : load)
    this.#arrivals(
      stretch,
      (at) => perS * loadAt(at),
      () => this.#chat(patienceMs),
    )
    if (abortsPerS !== undefined)
      this.#arrivals(
        stretch,
        () => abortsPerS,
        () => this.#aborted(),
      )
    if (longEveryS !== undefined)
      this.#arrivals(
        stretch,
        () => 1 / longEveryS,
        () => this.#long(),
      )
    if (part.hasLongest === true)
      this.#fleet.at((fromMs + untilMs) / 2, () => void this.#fleet.send(this.#prompt(LONGEST_TOKENS)))
  }

  /** Poisson arrivals. */
  #arrivals({ fromMs, untilMs }: Stretch, perS: (at: number) => number, make: () => ClientRequest): void {
    const next = (from: number): void => {
      const at = from - (Math.log(1 - this.#random()) / perS(from)) * SECOND_MS
      if (at >= untilMs) return
      this.#fleet.at(at, () => {
        this.#fleet.send(make())
        next(at)
      })
    }
    next(fromMs)
  }

  #chat(patienceMs = PATIENCES_MS[Math.floor(this.#random() * PATIENCES_MS.length)]!): ClientRequest {
    return { ...this.#prompt(Math.round(CHAT_TOKENS * (0.2 + 1.6 * this.#random()))), patienceMs }
  }

  #long(): ClientRequest {
    return this.#prompt(Math.round(20_000 + 60_000 * this.#random()))
  }

  #aborted(): ClientRequest {
    const leavesAtMs = 30 + 2_000 * this.#random()
    return { ...this.#prompt(4_000), tenant: 'aborting', patienceMs: leavesAtMs, leavesAtMs }
  }

  /** A prompt of which nothing is cached, of a patient client. */
  #prompt(promptTokens: number): ClientRequest {
    const { blockTokens } = this.#fleet.models[0]!.limits
    const count = Math.floor(promptTokens / blockTokens)
    const first = this.#blocks
    this.#blocks += count
    return {
      tenant: 'usual',
      promptTokens,
      outputTokens: Math.max(1, Math.round(OUTPUT_TOKENS * (0.2 + 1.6 * this.#random()))),
      blocks: keysOf(Array.from({ length: count }, (_, at) => first + at)),
      patienceMs: 10 * MINUTE_MS,
    }
  }
}

const capacities = new Map<string, number>()

/** Chats that one engine completes per second if others always wait. */
function capacityPerS(profile: Profile): number {
  const known = capacities.get(profile.name)
  if (known !== undefined) return known
  const fleet = new VirtualFleet({ engines: [profile], random: () => 0.5, pool: { maxWaiting: Infinity } })
  const count = 200
  for (let at = 0; at < count; at++)
    fleet.send({
      tenant: 'usual',
      promptTokens: CHAT_TOKENS,
      outputTokens: OUTPUT_TOKENS,
      blocks: new Uint32Array(0),
      patienceMs: Infinity,
    })
  while (fleet.served.some(({ endedAt }) => endedAt === null)) fleet.run(fleet.now + SECOND_MS)
  const perS = count / (fleet.now / SECOND_MS)
  capacities.set(profile.name, perS)
  return perS
}
