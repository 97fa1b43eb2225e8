import type { EngineTarget } from '../../ports/engine-target.ts'
import { PerEndpoint } from './per-endpoint.ts'

/** Share of a new stream in the decayed sums, in events: long streams weigh more than short ones. */
const MEMORY_EVENTS = 10_000

/** Limits of a plausible ratio: engines that draft put several tokens in one event, Responses streams add events. */
const MIN_RATIO = 0.1

const MAX_RATIO = 64

/** Decayed sums of the streams whose usage was read. */
interface Sums {
  tokens: number
  events: number
}

/** Output tokens per SSE event, learned per engine and endpoint from the usage of completed streams. @testing */
export class TokensPerEvent {
  readonly #sums = new PerEndpoint<Sums>(() => ({ tokens: 0, events: 0 }))

  /** Returns the ratio; 1 before the first completed stream. */
  of(engine: EngineTarget, path: string): number {
    const sums = this.#sums.known(engine, path)
    return sums === undefined ? 1 : ratioOf(sums.tokens, sums.events)
  }

  learn(engine: EngineTarget, path: string, { tokens, events }: Readonly<Sums>): void {
    if (!(tokens > 0) || !(events > 0)) return
    const sums = this.#sums.of(engine, path)
    const kept = Math.max(0, 1 - events / MEMORY_EVENTS)
    sums.tokens = kept * sums.tokens + tokens
    sums.events = kept * sums.events + events
  }
}

export const ratioOf = (tokens: number, events: number): number =>
  events > 0 ? Math.min(MAX_RATIO, Math.max(MIN_RATIO, tokens / events)) : 1
