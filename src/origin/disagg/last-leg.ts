import type { EngineTarget, OriginAnswer } from '../../ports.ts'
import type { AttemptFailed, Deal } from '../attempt-failed.ts'
import type { AnswerChange } from './change.ts'

/** The request whose answer is the client's. */
export interface LastLeg {
  readonly target: EngineTarget
  readonly path: string
  readonly body: readonly Uint8Array[] | null
  /** What happened on the way, for the decision header. */
  readonly notes: readonly string[]
  /** How the answer differs from the one the client asked for; null: not at all. */
  readonly change: AnswerChange | null
  /** Who holds what the engine is to fetch; absent: it fetches nothing. */
  readonly holder?: EngineTarget
}

/** What the legs before it came to. */
export type HandOver =
  | { readonly last: LastLeg }
  /** An engine's own word to the client, before the answer. */
  | { readonly refusal: OriginAnswer; readonly engine: EngineTarget }
  | { readonly failed: AttemptFailed }

/** The client's request to one engine that does all of it. */
export function wholeLeg({ exchange, placed }: Deal, notes: readonly string[] = []): LastLeg {
  return { target: placed.engine, path: exchange.path, body: exchange.body(placed.route), notes, change: null }
}
