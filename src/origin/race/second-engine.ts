/** Books a second engine for a request whose first one is late (hedge) or wedged (rescue). */
import type { SecondKind } from '../../core/contract/admission.ts'
import { isOwnEngine } from '../../ports/engine-target.ts'
import { acquirePlacement } from '../placement/acquire.ts'
import type { AcquiredPlacement } from '../placement/acquired-placement.ts'
import { onePoolHistory } from '../placement/one-pool-history.ts'
import type { AttemptContext } from '../attempt-context.ts'
import type { StageTimer } from '../stage-timer.ts'

interface SecondParts {
  readonly kind: SecondKind
  /** Number of the attempt. */
  readonly attempt: number
  readonly stages: StageTimer
}

/** null: no engine takes the request. */
export async function placeSecond(
  { exchange, ports, digests, stepsOf, placed: first, earlier }: AttemptContext,
  { kind, attempt, stages }: SecondParts,
): Promise<AcquiredPlacement | null> {
  const { route, engine } = first
  const foreign = [...route.targets.values()].filter((target) => !isOwnEngine(target)).map(({ id }) => id)
  const failedIds = earlier.filter(({ failure }) => failure !== 'busy').map((one) => one.engine.id)
  const avoid = [engine.id, ...failedIds, ...foreign]
  const history = onePoolHistory(route, { attempt, skipsRetryBudget: false, failed: earlier, avoid })
  const context = { ports, digests, stages, stepsOf }
  const placed = await acquirePlacement(exchange, context, history, { kind, first })
  if (!('refusal' in placed)) return { ...placed, notes: [...placed.notes, `${kind}=won`] }
  if (kind === 'hedge') exchange.record.hedge ??= placed.refusal.reason
  return null
}
