/** The last request of a placement, whose response goes to the client. */
import { ADDABLE_FIELDS, type AddableField } from '../../engines/engine-type.ts'
import { type EngineTarget, isOwnEngine } from '../../ports/engine-target.ts'
import type { OriginAnswer } from '../../ports/origin.ts'
import type { AttemptContext, FailedOutcome } from '../attempt-context.ts'
import type { BodyEdit } from '../body-edit.ts'
import type { Exchange } from '../exchange.ts'
import { knownEngines } from '../known-engines.ts'
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
  /** Prefill leg that runs beside this one (`paired`). Absent: the prefill leg, if there is one, has ended. */
  readonly beside?: { readonly target: EngineTarget; readonly body: readonly Uint8Array[] }
}

/** Result of the early legs. */
export type LegResult =
  | { readonly finalLeg: FinalLeg }
  /** The engine's own error response, which goes to the client. */
  | { readonly errorAnswer: OriginAnswer; readonly engine: EngineTarget }
  | { readonly failed: FailedOutcome }

/** The client's request to a single engine. */
export function wholeLeg(attempt: AttemptContext, notes: readonly string[] = []): FinalLeg {
  const { exchange, placed } = attempt
  const { engine, route } = placed
  const body = exchange.source.body(route, editAt(attempt, engine))
  return { target: engine, path: exchange.path, body, notes, transform: null }
}

/** Edit of a body for the type of an engine. undefined: it gets the same as most. */
function editAt({ exchange, ports, placed }: AttemptContext, engine: EngineTarget): BodyEdit | undefined {
  const { route } = placed
  const type = knownEngines(ports.origin).typeOf(engine)
  const adapter = isOwnEngine(engine) && engine.hasAdapters === true ? exchange.source.admission(route).adapter : null
  const adapterName = adapter === null ? undefined : type.adapters?.nameFor(route.pool.model, adapter)
  return editFor(engine, type.addable, adapterName)
}

/** Body with further changes for a leg. */
export function bodyAt(
  attempt: AttemptContext,
  engine: EngineTarget,
  { set, remove }: Pick<BodyEdit, 'set' | 'remove'>,
): readonly Uint8Array[] {
  const own = editAt(attempt, engine)
  const edit = { ...own, set: { ...own?.set, ...set }, remove: [...(own?.remove ?? []), ...remove] }
  return attempt.exchange.source.body(attempt.placed.route, edit)!
}

/** Edit of a leg whose answer the gateway reads as a whole. */
export const wholeAnswer = ({ stream }: Pick<Exchange, 'stream'>): Pick<BodyEdit, 'set' | 'remove'> => ({
  set: stream ? { stream: 'false' } : {},
  remove: ['stream_options'],
})

/** undefined: the engine gets the same body as most, so it is written once for all attempts. */
function editFor(
  engine: EngineTarget,
  addable: readonly AddableField[],
  adapterName: string | undefined,
): BodyEdit | undefined {
  if (engine.kind === 'provider') return { set: {}, remove: [], addable, model: engine.providerModel }
  if (addable.length === ADDABLE_FIELDS.length) return undefined
  return { set: {}, remove: [], addable, ...(adapterName === undefined ? {} : { model: adapterName }) }
}
