/** The last request of a placement, whose response goes to the client. */
import type { EngineTarget } from '../../ports/engine-target.ts'
import type { OriginAnswer } from '../../ports/origin.ts'
import type { AttemptContext, AttemptFailed } from '../attempt-context.ts'
import type { AnswerTransform } from '../relay/answer-transform.ts'

/** The request whose response goes to the client. */
export interface FinalLeg {
  readonly target: EngineTarget
  readonly path: string
  readonly body: readonly Uint8Array[] | null
  /** Entries of the decision header. */
  readonly notes: readonly string[]
  /** Transform from the engine's response to the client's. null: none is needed. */
  readonly transform: AnswerTransform | null
  /** Engine from which KV data is fetched. Absent: none. */
  readonly holder?: EngineTarget
}

/** Result of the preparatory legs. */
export type LegResult =
  | { readonly last: FinalLeg }
  /** The engine's own error response, which goes to the client. */
  | { readonly refusal: OriginAnswer; readonly engine: EngineTarget }
  | { readonly failed: AttemptFailed }

/** The client's request to a single engine. */
export function wholeLeg({ exchange, placed }: AttemptContext, notes: readonly string[] = []): FinalLeg {
  const { external } = placed.engine
  const edit = external === undefined ? undefined : { set: {}, remove: [], providerModel: external.model }
  return { target: placed.engine, path: exchange.path, body: exchange.body(placed.route, edit), notes, transform: null }
}
