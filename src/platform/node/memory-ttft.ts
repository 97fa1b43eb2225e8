import { mapYielding } from '../../map-yielding.ts'
import type { StoreLimits } from '../../core/reports/report-store.ts'
import { countedUpTo } from '../../core/reports/rollups.ts'
import { TtftState } from '../../core/reports/ttft-state.ts'
import type { Ttft } from '../../ports/ttft.ts'
import { yieldToEventLoop } from './yield-to-event-loop.ts'

interface MemoryTtftOptions {
  /** null: reports are off. Rollups for metrics are kept in any case. */
  readonly store: StoreLimits | null
  /** Milliseconds since the epoch. */
  readonly now?: () => number
}

/** Thousands of requests may end per second, so records are stored in batches. A reader flushes them first. */
const BATCH_MS = 100

interface MemoryTtft extends Ttft {
  /** Takes effect now; no effect while reports are off. */
  setLimits(limits: StoreLimits): void
}

/** Reports and rollups in this process's memory. */
export function memoryTtft({ store, now = Date.now }: MemoryTtftOptions): MemoryTtft {
  const state = new TtftState({ store })
  return {
    batchMs: BATCH_MS,
    setLimits: (limits) => state.setLimits(limits),
    report: async (partials) => state.report(partials, now()),
    find: async (id) => state.find(id, now()),
    flush: async (batch) => void state.flush(batch, now()),
    rollups: async () => state.rollups(),
    counted: (limitsMs) => mapYielding(yieldToEventLoop, state.rollups(), (group) => countedUpTo(group, limitsMs)),
    forget: async (names, before) => void state.forget(names, before),
  }
}
