import type { TtftConfig } from '../../config.ts'
import type { ReportPartial } from '../../core/reports/report-partial.ts'
import type { Ports } from '../../ports.ts'
import type { ServiceClient } from '../../ports/services.ts'
import type { Ttft } from '../../ports/ttft.ts'
import { BatchExporter } from '../../telemetry/batch-exporter.ts'
import { exportFailureLog } from '../../telemetry/export-error.ts'

/** Batching delay, long enough for a batch and short enough for readers. */
const DELAY_MS = 250

/**
 * Stores reports as before, and forwards each one in batches to the gateway of `relay`. Duplicates are harmless there.
 */
export function withRelay(
  ttft: Ttft,
  relay: () => TtftConfig['relay'],
  ports: Pick<Ports, 'now' | 'log'> & { readonly services: Pick<ServiceClient, 'post'> },
): Ttft {
  const { now, log, services } = ports
  const exporter = new BatchExporter<ReportPartial>({
    delayMs: DELAY_MS,
    now,
    failed: exportFailureLog(log, 'relay'),
    async send(partials) {
      const to = relay()
      if (to === null) return
      const headers = {
        'content-type': 'application/json',
        ...(to.token === null ? {} : { authorization: `Bearer ${to.token}` }),
      }
      const status = await services.post(`${to.url}/ttft_report`, headers, JSON.stringify(partials.map(toWire)))
      // A rejected report will be rejected again, but a wrong token can be corrected.
      if (status >= 300 && status !== 400) throw new Error(`the gateway that stores the reports answered ${status}`)
    },
  })
  const scope = { background: (work: Promise<unknown>) => void work }
  return {
    ...ttft,
    async report(partials) {
      if (relay() !== null) for (const partial of partials) exporter.add(partial, scope)
      return ttft.report(partials)
    },
  }
}

/** Converts a report to the format that `readPartial` reads. */
function toWire({ role, id, values, chunk, chunks, last, item, serial }: ReportPartial): Record<string, unknown> {
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
