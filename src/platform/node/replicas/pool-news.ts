/** What replicas tell each other about one pool beside bookings: drains, reports of LMCache servers, decisions. */
import type { Decision, EngineSignal } from '../../../core/contract/contract.ts'
import type { RegistryCall } from '../../../core/lmcache/registry-call.ts'
import { withTimeout } from '../../../timeout.ts'
import { base64, lanes, type NewsEvent } from './messages.ts'
import type { OpenBookings } from './open-bookings.ts'
import type { Field, PoolParts } from './pool-parts.ts'

const ANSWER_MS = 1_000

export type Drain = Extract<EngineSignal, { readonly kind: 'drain' }>
/** Calls that change a registry; queries are answered locally. */
type RegistryChange = Exclude<RegistryCall, { readonly kind: 'list' | 'lookup' }>

export interface NewsParts extends PoolParts {
  readonly drained: (signal: Drain) => void
  readonly forget: (responseId: string) => void
}

export class PoolNews {
  readonly #parts: NewsParts
  readonly #open: () => OpenBookings
  /** Latest drain or undrain of each engine, by whichever replica it was set. */
  readonly #drains = new Map<string, { readonly signal: Drain; readonly at: number }>()
  /** Decisions that other replicas are asked for. */
  readonly #questions = new Map<string, (decision: Decision) => void>()
  #asked = 0

  /** @param open publishes the news */
  constructor(parts: NewsParts, open: () => OpenBookings) {
    this.#parts = parts
    this.#open = open
  }

  /** Drains for replicas that join later. */
  *fields(): Generator<Field> {
    for (const [engine, { signal, at }] of this.#drains) yield [`s${engine}`, ['signal', signal, at]]
  }

  /** An event of another replica. */
  received(event: NewsEvent): void {
    const { ledger, rejected, forget } = this.#parts
    if (event[0] === 'signal') this.#signalled(event[1], event[2])
    else if (event[0] === 'registry') void ledger.registry?.(unpackedCall(event[1])).catch(rejected)
    else if (event[0] === 'forgotten') forget(event[1])
    else if (event[0] === 'explained') this.#questions.get(event[1])?.(event[2])
    else void this.#answer(event[1], event[2])
  }

  /** A signal of this replica. Probes are not published: every replica makes its own. */
  signalled(signal: EngineSignal): void {
    const now = this.#parts.now()
    if (signal.kind === 'excused') this.#open().announce(['signal', signal, now])
    if (signal.kind === 'drain') this.#keep(signal, Math.max(now, 1 + (this.#drains.get(signal.engine)?.at ?? 0)))
  }

  /** A report of an LMCache server to this replica. */
  registry(call: RegistryCall): void {
    if (call.kind !== 'list' && call.kind !== 'lookup') this.#open().announce(['registry', packedCall(call)])
  }

  /** An engine that was removed and added again is a new one. */
  configured(engines: readonly string[]): void {
    const gone = [...this.#drains.keys()].filter((engine) => !engines.includes(engine))
    for (const engine of gone) this.#drains.delete(engine)
    if (gone.length > 0) this.#open().rewrite()
  }

  /** A decision of another replica; null: none has made it, or it does not answer in time. */
  async explain(id: string): Promise<Decision | null> {
    const question = `${this.#parts.replica}/${++this.#asked}`
    const answer = new Promise<Decision>((resolve) => void this.#questions.set(question, resolve))
    this.#open().announce(['explain', question, id])
    const found = await withTimeout(ANSWER_MS, answer)
    this.#questions.delete(question)
    return found?.value ?? null
  }

  async #answer(question: string, id: string): Promise<void> {
    const decision = await this.#parts.ledger.explain(id).catch(() => null)
    if (decision) this.#open().announce(['explained', question, decision])
  }

  #signalled(signal: EngineSignal, at: number): void {
    const { ledger, pool, drained, rejected } = this.#parts
    if (!pool()?.engines.some(({ id }) => id === signal.engine)) return
    if (signal.kind === 'drain') {
      const before = this.#drains.get(signal.engine)?.signal.draining ?? false
      if (!this.#keep(signal, at)) return
      if (signal.draining !== before) drained(signal)
    }
    ledger.observe([signal]).catch(rejected)
  }

  /** Keeps a drain of any replica and publishes it for those that join later. false: a later one holds. */
  #keep(signal: Drain, at: number): boolean {
    const known = this.#drains.get(signal.engine)
    // Of two at the same time, all replicas keep the drain.
    if (known !== undefined && (at < known.at || (at === known.at && (!signal.draining || known.signal.draining))))
      return false
    this.#drains.set(signal.engine, { signal, at })
    this.#open().publish('s', `s${signal.engine}`, ['signal', signal, at])
    return true
  }
}

export const packedCall = (call: RegistryChange): string =>
  JSON.stringify(call, (_name, value: unknown) =>
    value instanceof Uint32Array ? { lanes: base64(value) } : value instanceof Uint8Array ? [...value] : value,
  )

export const unpackedCall = (json: string): RegistryChange =>
  JSON.parse(json, (name, value: { readonly lanes: string }) =>
    name === 'keys' && typeof value.lanes === 'string'
      ? lanes(value.lanes)
      : name === 'ranks' && Array.isArray(value)
        ? Uint8Array.from(value)
        : value,
  ) as RegistryChange
