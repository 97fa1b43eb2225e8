import { inTurns } from '../../api/turns.ts'
import type { StoreLimits } from '../../core/reports/report-store.ts'
import { countedUpTo } from '../../core/reports/rollups.ts'
import { TtftState } from '../../core/reports/ttft-state.ts'
import type { Ttft } from '../../ports.ts'
import { nextTurn } from './turn.ts'

export interface MemoryTtftOptions {
  /** null: reports are off; rollups, which metrics are made of, are kept all the same. */
  readonly store: StoreLimits | null
  /** Milliseconds since the epoch. */
  readonly now?: () => number
}

/** Requests end by the thousand a second: their records are taken in together. Whoever asks has them flushed first. */
const BATCH_MS = 100

export interface MemoryTtft extends Ttft {
  /** From now on; without effect while reports are off. */
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
    counted: (limitsMs) => inTurns(nextTurn, state.rollups(), (group) => countedUpTo(group, limitsMs)),
    forget: async (names, before) => void state.forget(names, before),
  }
}
