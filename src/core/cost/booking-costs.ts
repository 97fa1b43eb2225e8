import { ChurnMap } from '../churn-map.ts'
import { endsAtFirstToken, type LegRole } from '../contract/legs.ts'
import type { Outcome } from '../contract/outcome.ts'
import { isOpaque } from '../contract/pool-config.ts'
import type { Booking } from '../pool/bookings.ts'
import type { EngineState } from '../pool/pool-engines/engine-state.ts'
import type { PoolLedger } from '../pool/ledger.ts'
import { EngineTime, type ChargedDecode, type ChargedWork } from './engine-time.ts'
import { type CostSources, ledgerSources } from './ledger-sources.ts'
import type { CostAnswer, RequestCost } from './request-cost.ts'

/** Ended bookings whose cost is kept at least, if no gateway reads it. */
const COSTS_KEPT = 4096

interface ChargedLeg {
  readonly engine: EngineState
  readonly legRole: LegRole
  /** null: not sent yet. */
  work: ChargedWork | null
  hasEnded: boolean
}

interface ChargedBooking {
  readonly legs: readonly ChargedLeg[]
  /** When the engine that answers could begin, ms. */
  readyAt: number
}

/** Costs of the bookings of a pool (docs/cost.md). A leg costs from the end of the leg before it. */
export class BookingCosts {
  readonly #sources: CostSources
  readonly #times = new WeakMap<EngineState, EngineTime>()
  readonly #open = new ChurnMap<string, ChargedBooking>()
  /** Costs that no gateway has read. They leave when they are read, so that few are moved by the garbage collector. */
  #ended = new ChurnMap<string, RequestCost>()
  #endedEarlier = this.#ended

  constructor(ledger: PoolLedger) {
    this.#sources = ledgerSources(ledger)
  }

  booked(booking: Booking, now: number): void {
    const legs = booking.legs.map(({ engine, legRole }) => ({ engine, legRole, work: null, hasEnded: false }))
    const charged = { legs, readyAt: now }
    this.#open.set(booking.key, charged)
    this.#startReady(charged, booking, now)
  }

  legDone(booking: Booking, legRole: LegRole, now: number): void {
    const charged = this.#open.get(booking.key)
    if (charged === undefined) return
    for (const leg of charged.legs) if (leg.legRole === legRole) this.#end(leg, now)
    charged.readyAt = now
    this.#startReady(charged, booking, now)
  }

  firstToken(booking: Booking, now: number): void {
    const charged = this.#open.get(booking.key)
    if (charged === undefined) return
    for (const leg of charged.legs) if (endsAtFirstToken(leg.legRole)) this.#end(leg, now)
    for (const leg of charged.legs) {
      if (endsAtFirstToken(leg.legRole)) continue
      const time = this.#timeOf(leg.engine, now)
      if (leg.work !== null) time.firstToken(leg.work, now)
      else this.#startDecode(leg, booking, { now, earlierMs: now - charged.readyAt })
    }
  }

  ended(booking: Booking, { usage }: Outcome, now: number): void {
    const charged = this.#open.get(booking.key)
    if (charged === undefined) return
    this.#open.delete(booking.key)
    for (const leg of charged.legs) this.#end(leg, now)
    if (booking.isOfPeer) return
    let engineS = 0
    for (const { work } of charged.legs) engineS += work?.seconds ?? 0
    const isPrefilled = booking.firstTokenSeen || usage !== null
    const savedS = isPrefilled ? this.#sources.savedS(booking, usage?.cachedTokens ?? null, now) : 0
    this.#keep(booking.key, { engineS, savedS })
  }

  /** Cost of a booking. It is returned once. */
  costOf(key: string): CostAnswer {
    const ended = this.#ended.has(key) ? this.#ended : this.#endedEarlier
    const cost = ended.get(key)
    if (cost === undefined) return this.#open.has(key) ? 'open' : null
    ended.delete(key)
    return cost
  }

  #keep(key: string, cost: RequestCost): void {
    if (this.#ended.size >= COSTS_KEPT) {
      this.#endedEarlier = this.#ended
      this.#ended = new ChurnMap()
    }
    this.#ended.set(key, cost)
  }

  /** Starts the legs that no other leg must precede. */
  #startReady({ legs }: ChargedBooking, booking: Booking, now: number): void {
    for (const leg of legs) {
      // An engine with unknown load is no part of the fleet.
      if (leg.work !== null || leg.hasEnded || isOpaque(leg.engine.spec)) continue
      const { legRole, engine } = leg
      if (legRole === 'encode') this.#startDecode(leg, booking, { now, earlierMs: 0 })
      else if (legRole === 'decode') {
        // The engine of a stream works from its first token on: before, it receives the KV cache.
        if (!isWaitingFor('prefill', legs) && booking.admission.streams === false)
          this.#startDecode(leg, booking, { now, earlierMs: 0 })
      } else if (!isWaitingFor('encode', legs)) {
        const streams = legRole === 'prefill' || booking.admission.streams !== false
        const { newTokens, seconds } = this.#sources.prefill(booking, engine)
        const prefill = { newTokens, seconds, streams }
        leg.work = this.#timeOf(engine, now).prefill(prefill, this.#decodeOf(booking), now)
      }
    }
  }

  #startDecode(
    leg: ChargedLeg,
    booking: Booking,
    { now, earlierMs }: { readonly now: number; readonly earlierMs: number },
  ): void {
    if (leg.hasEnded || isOpaque(leg.engine.spec)) return
    const time = this.#timeOf(leg.engine, now)
    const decode = this.#decodeOf(booking)
    leg.work = time.decode(decode, now, earlierMs === 0 ? 0 : Math.min(earlierMs / 1000, time.stepS(decode)))
  }

  #end(leg: ChargedLeg, now: number): void {
    if (leg.hasEnded) return
    leg.hasEnded = true
    if (leg.work !== null) this.#timeOf(leg.engine, now).end(leg.work, now)
  }

  #decodeOf(booking: Booking): ChargedDecode {
    return { sequences: booking.admission.sequences ?? 1, blocks: this.#sources.decodeBlocks(booking) }
  }

  #timeOf(engine: EngineState, now: number): EngineTime {
    let time = this.#times.get(engine)
    if (time === undefined) this.#times.set(engine, (time = new EngineTime()))
    time.setPace(this.#sources.decodePace(engine, now), now)
    return time
  }
}

const isWaitingFor = (legRole: LegRole, legs: readonly ChargedLeg[]): boolean =>
  legs.some((leg) => leg.legRole === legRole && !leg.hasEnded)
