import type { SignalProvider } from './signal-provider.ts'
import { LoadStats } from './load-stats.ts'
import { PoolLedger } from './ledger.ts'

/** Every set of books a cluster keeps. A new one is added here and nowhere else; where two answer for a signal, the later one does. */
export function allBooks(): readonly SignalProvider[] {
  return [new LoadStats(), new PoolLedger()]
}
