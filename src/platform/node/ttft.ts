import type { StoreLimits } from '../../core/reports/report-store.ts'
import { TtftState } from '../../core/reports/ttft-state.ts'
import type { Ttft } from '../../ports.ts'

export interface MemoryTtftOptions {
  /** null: reports are off; rollups, which metrics are made of, are kept all the same. */
  readonly store: StoreLimits | null
  /** Milliseconds since the epoch. */
  readonly now?: () => number
}

/** Requests end by the thousand a second: their records are taken in together. Whoever asks has them flushed first. */
const BATCH_MS = 100

/** Reports and rollups in this process's memory. */
export function memoryTtft({ store, now = Date.now }: MemoryTtftOptions): Ttft {
  const state = new TtftState({ store })
  return {
    batchMs: BATCH_MS,
    report: async (partials) => state.report(partials, now()),
    find: async (id) => state.find(id, now()),
    flush: async (batch) => void state.flush(batch, now()),
    rollups: async () => state.rollups(),
    forget: async (names, before) => void state.forget(names, before),
  }
}
