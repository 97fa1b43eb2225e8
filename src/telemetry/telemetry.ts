/** Completed requests: records go to reports and rollups, spans to the collector. */
import type { RequestRecord } from '../core/reports/combine.ts'
import type { TracesConfig } from '../config.ts'
import type { FailureReason } from '../failure.ts'
import type { Ports, RequestScope } from '../ports.ts'
import { exportBody, tracesUrl } from './otlp.ts'
import { BatchExporter, PermanentExportError } from './batch-exporter.ts'
import type { Trace } from './trace.ts'

/** Span with its request. */
export interface Traced {
  readonly trace: Trace
  readonly record: RequestRecord
}

const SPANS_DELAY_MS = 2_000

export class Telemetry {
  readonly #records: BatchExporter<RequestRecord> | null
  readonly #traced: BatchExporter<Traced> | null
  #exported: TracesConfig
  /** Requests rejected before routing, by reason. */
  readonly refusals: Partial<Record<FailureReason, number>> = {}

  /** @param source id of this gateway among all that write to the same store */
  constructor(ports: Ports, traces: TracesConfig, source: string) {
    const { ttft, now, log, post } = ports
    const epoch = now()
    this.#records =
      ttft === undefined
        ? null
        : new BatchExporter({
            name: 'reports',
            delayMs: ttft.batchMs,
            now,
            log,
            send: (records, seq) => ttft.flush({ source, epoch, seq, records }),
          })
    this.#exported = traces
    this.#traced =
      post === undefined
        ? null
        : new BatchExporter({
            name: 'traces',
            delayMs: SPANS_DELAY_MS,
            now,
            log,
            send: (traced) => send(post, this.#exported, { traced, source }),
          })
  }

  /** Applies a configuration; pending items use it, too. */
  export(traces: TracesConfig): void {
    this.#exported = traces
  }

  /** Whether traces are exported. */
  get traces(): boolean {
    return this.#traced !== null && this.#exported.endpoint !== null
  }

  get sample(): number {
    return this.#exported.sample
  }

  ended(record: RequestRecord, trace: Trace | null, scope: Pick<RequestScope, 'background'>): void {
    this.#records?.add(record, scope)
    if (trace?.sampled) this.#traced?.add({ trace, record }, scope)
  }

  /** Counts a request that was rejected before it was tracked. */
  readonly refused = (reason: FailureReason): void => {
    this.refusals[reason] = (this.refusals[reason] ?? 0) + 1
  }

  /** Flushes, so that the next read includes all completed requests. */
  async flush(): Promise<void> {
    await this.#records?.flush()
  }

  get droppedRecords(): number {
    return this.#records?.dropped ?? 0
  }

  get droppedSpans(): number {
    return this.#traced?.dropped ?? 0
  }
}

async function send(
  post: NonNullable<Ports['post']>,
  { endpoint, headers, service }: TracesConfig,
  { traced, source }: { readonly traced: readonly Traced[]; readonly source: string },
): Promise<void> {
  if (endpoint === null) throw new PermanentExportError('traces are off')
  const status = await post(
    tracesUrl(endpoint),
    { ...headers, 'content-type': 'application/json' },
    JSON.stringify(exportBody(traced, { service, instance: source })),
  )
  if (status < 300) return
  // All except 429 and 5xx are permanent (OTLP/HTTP, "Failures").
  throw new (status >= 500 || status === 429 ? Error : PermanentExportError)(`the collector answered ${status}`)
}
