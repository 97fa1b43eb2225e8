/** What becomes of a request that has ended: its record goes to the reports and rollups, its spans to the collector. */
import type { RequestRecord } from '../core/reports/combine.ts'
import type { TracesConfig } from '../config.ts'
import type { FailureReason } from '../failure.ts'
import type { Ports, RequestScope } from '../ports.ts'
import { exportBody, tracesUrl } from './otlp.ts'
import { BatchExporter, PermanentExportError } from './batch-exporter.ts'
import type { Trace } from './trace.ts'

/** A span and what it is of. */
export interface Traced {
  readonly trace: Trace
  readonly record: RequestRecord
}

const SPANS_DELAY_MS = 2_000

export class Telemetry {
  readonly #records: BatchExporter<RequestRecord> | null
  readonly #traced: BatchExporter<Traced> | null
  #exported: TracesConfig
  /** Requests refused at the door, by reason. */
  readonly refusals: Partial<Record<FailureReason, number>> = {}

  /** @param source names this gateway among all that flush to the same place */
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

  /** From now on so; what waits goes there, too. */
  export(traces: TracesConfig): void {
    this.#exported = traces
  }

  /** Is anybody to be told of traces? */
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

  /** A request was refused before anybody watched it. */
  readonly refused = (reason: FailureReason): void => {
    this.refusals[reason] = (this.refusals[reason] ?? 0) + 1
  }

  /** So that what is read next holds what has ended. */
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
  // All but 429 and 5xx: the collector will never take it (OTLP/HTTP, "Failures").
  throw new (status >= 500 || status === 429 ? Error : PermanentExportError)(`the collector answered ${status}`)
}
