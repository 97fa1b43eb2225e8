/** Completed requests: records go to reports and rollups, spans to the collector. */
import type { TracesConfig } from '../config.ts'
import { EndedHistory } from '../core/reports/ended-history.ts'
import type { RequestRecord } from '../core/reports/request-record.ts'
import type { FailureReason } from '../failure.ts'
import type { Ports } from '../ports.ts'
import type { RequestScope } from '../ports/request-scope.ts'
import type { ServiceClient } from '../ports/services.ts'
import { BatchExporter } from './batch-exporter.ts'
import { Exemplars } from './exemplars.ts'
import { ExportError, exportFailureLog } from './export-error.ts'
import { type TracedRequest, traceExportBody } from './otlp-spans.ts'
import { sendOtlp } from './send-otlp.ts'
import type { Trace } from './trace-context.ts'

const SPANS_DELAY_MS = 2_000

/** Results that a client sees as a failure. */
const FAILED_RESULTS: ReadonlySet<RequestRecord['result']> = new Set(['engine_failed', 'abandoned', 'lapsed'])

type TelemetryPorts = Pick<Ports, 'ttft' | 'now' | 'log' | 'services' | 'timers'>

export class Telemetry {
  readonly #records: BatchExporter<RequestRecord> | null
  readonly #spans: BatchExporter<TracedRequest>
  #tracesConfig: TracesConfig
  /** Requests rejected before routing, by reason. */
  readonly refusals: Partial<Record<FailureReason, number>> = {}
  /** Id of this gateway among all that export. */
  readonly source: string
  readonly endedHistory = new EndedHistory()
  /** Exported requests. */
  readonly exemplars = new Exemplars()
  readonly #now: () => number

  constructor(ports: TelemetryPorts, traces: TracesConfig, source: string) {
    this.source = source
    const { ttft, now, log, services, timers } = ports
    const epoch = now()
    this.#now = () => now()
    this.#records =
      ttft === undefined
        ? null
        : new BatchExporter({
            delayMs: ttft.batchMs,
            now,
            timers,
            failed: exportFailureLog(log, 'reports'),
            send: (records, seq) => ttft.flush({ source, epoch, seq, records }),
          })
    this.#tracesConfig = traces
    this.#spans = new BatchExporter({
      delayMs: SPANS_DELAY_MS,
      now,
      timers,
      failed: exportFailureLog(log, 'traces'),
      send: (traced) => sendSpans(services.post, this.#tracesConfig, { traced, source }),
    })
  }

  /** Applies a configuration; pending items use it, too. */
  adopt(traces: TracesConfig): void {
    this.#tracesConfig = traces
  }

  /** Whether traces are exported. */
  get traces(): boolean {
    return this.#tracesConfig.endpoint !== null
  }

  get sample(): number {
    return this.#tracesConfig.sample
  }

  recordEnded(record: RequestRecord, scope: Pick<RequestScope, 'background'>): void {
    this.#records?.add(record, scope)
    const isRejected = record.engine === null && record.result !== 'client_gone'
    const isFailed = FAILED_RESULTS.has(record.result) || record.status >= 500
    this.endedHistory.add(isRejected ? 'rejected' : isFailed ? 'failed' : 'served', this.#now())
  }

  recordSpans(record: RequestRecord, trace: Trace, scope: Pick<RequestScope, 'background'>): void {
    if (!trace.sampled) return
    this.#spans.add({ trace, record }, scope)
    this.exemplars.add(record, trace)
  }

  /** Counts a request that was rejected before it was tracked. */
  readonly countRefusal = (reason: FailureReason): void => {
    this.refusals[reason] = (this.refusals[reason] ?? 0) + 1
    this.endedHistory.add('rejected', this.#now())
  }

  /** Flushes, so that the next read includes all completed requests. */
  async flush(): Promise<void> {
    await this.#records?.flush()
  }

  get droppedRecords(): number {
    return this.#records?.dropped ?? 0
  }

  get droppedSpans(): number {
    return this.#spans.dropped
  }
}

async function sendSpans(
  post: ServiceClient['post'],
  { endpoint, headers, service }: TracesConfig,
  { traced, source }: { readonly traced: readonly TracedRequest[]; readonly source: string },
): Promise<void> {
  if (endpoint === null) throw new ExportError('traces are off', { status: null, isPermanent: true })
  const body = traceExportBody(traced, { service, instance: source })
  await sendOtlp(post, { endpoint, headers }, 'traces', body)
}
