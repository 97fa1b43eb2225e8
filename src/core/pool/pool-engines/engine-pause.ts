/** What an operator's pause does to an engine, and its end. */
import type { EngineSignal } from '../../contract/engine-signal.ts'
import type { EngineState } from './engine-state.ts'
import type { PoolLedger } from '../ledger.ts'

type PauseSignal = Extract<EngineSignal, { readonly kind: 'pause' }>

export function paused(
  engine: EngineState,
  signal: PauseSignal,
  ledger: Pick<PoolLedger, 'emptied'>,
  now: number,
): void {
  // The answers that wait in the engine began with the version at the first of several pauses.
  if (signal.paused !== null)
    return void (engine.paused = {
      keeps: signal.paused.keeps || engine.paused?.keeps === true,
      weights: engine.paused === null ? signal.paused.weights : engine.paused.weights,
    })
  engine.isFenced = false
  if (engine.paused === null) return
  engine.paused = null
  engine.asleep = false
  engine.resumedAt = now
  // Its silence was not its own.
  engine.answeredTrial(now)
  engine.owed.excuse({ now, isLearned: false })
  engine.streams.excuse(now)
  if (signal.isCold) ledger.emptied(engine)
}
