import { mapYielding } from '../../api/map-yielding.ts'
import type { StoreLimits } from '../../core/reports/report-store.ts'
import { countedUpTo } from '../../core/reports/rollups.ts'
import { TtftState } from '../../core/reports/ttft-state.ts'
import type { Ttft, Ports } from '../../ports.ts'
import { yieldToEventLoop } from './yield-to-event-loop.ts'
import type { TtftConfig } from '../../config.ts'
import type { ReportPartial } from '../../core/reports/partial.ts'
import { BatchExporter } from '../../telemetry/batch-exporter.ts'

/** Batching delay, long enough for a batch and short enough for readers. */
const DELAY_MS = 250

/**
 * Stores reports as before, and forwards each one in batches to the gateway of `relay`. Duplicates are harmless there.
 */
export function relayed(
  ttft: Ttft,
  relay: () => TtftConfig['relay'],
  ports: Required<Pick<Ports, 'post'>> & Pick<Ports, 'now' | 'log'>,
): Ttft {
  const { now, log } = ports
  const outbox = new BatchExporter<ReportPartial>({
    name: 'relay',
    delayMs: DELAY_MS,
    now,
    log,
    async send(partials) {
      const to = relay()
      if (to === null) return
      const headers = {
        'content-type': 'application/json',
        ...(to.token === null ? {} : { authorization: `Bearer ${to.token}` }),
      }
      const status = await ports.post(`${to.url}/ttft_report`, headers, JSON.stringify(partials.map(toWire)))
      // A rejected report will be rejected again, but a wrong token can be corrected.
      if (status >= 300 && status !== 400) throw new Error(`the gateway that keeps the reports answered ${status}`)
    },
  })
  const scope = { background: (work: Promise<unknown>) => void work }
  return {
    ...ttft,
    async report(partials) {
      if (relay() !== null) for (const partial of partials) outbox.add(partial, scope)
      return ttft.report(partials)
    },
  }
}

/** Converts a report to the format that `readPartial` reads. */
export function toWire({
  role,
  id,
  values,
  chunk,
  chunks,
  last,
  item,
  serial,
}: ReportPartial): Record<string, unknown> {
  return {
    role,
    request_id: id,
    ...Object.fromEntries(values),
    ...(chunk === null ? {} : { chunk }),
    ...(chunks === null ? {} : { chunks }),
    ...(last ? { last } : {}),
    ...(item === null ? {} : { item }),
    ...(serial === null ? {} : { serial }),
  }
}

export interface MemoryTtftOptions {
  /** null: reports are off. Rollups for metrics are kept in any case. */
  readonly store: StoreLimits | null
  /** Milliseconds since the epoch. */
  readonly now?: () => number
}

/** Thousands of requests may end per second, so records are stored in batches. A reader flushes them first. */
const BATCH_MS = 100

export interface MemoryTtft extends Ttft {
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
