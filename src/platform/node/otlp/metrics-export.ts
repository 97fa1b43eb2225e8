import type { Config } from '../../../config.ts'
import type { Gateway } from '../../../gateway.ts'
import type { Ports } from '../../../ports.ts'
import type { ServiceClient } from '../../../ports/services.ts'
import { exportFailureLog } from '../../../telemetry/export-error.ts'
import { metricExportBody } from '../../../telemetry/otlp-metrics.ts'
import { sendOtlp } from '../../../telemetry/send-otlp.ts'

type ExportPorts = Pick<Ports, 'log' | 'now'> & { readonly services: Pick<ServiceClient, 'post'> }

/** Sends all metrics to the collector of `metrics.otlp` at an interval, and a last time at the end. */
export class MetricsExport {
  readonly #gateway: Pick<Gateway, 'metricsText' | 'state'>
  readonly #ports: ExportPorts
  #config: Pick<Config, 'metrics' | 'traces'>
  #timer: NodeJS.Timeout | undefined

  constructor(
    gateway: Pick<Gateway, 'metricsText' | 'state'>,
    ports: ExportPorts,
    config: Pick<Config, 'metrics' | 'traces'>,
  ) {
    this.#gateway = gateway
    this.#ports = ports
    this.#config = config
    this.adopt(config)
  }

  /** Applies a configuration. The next export is an interval later. */
  adopt(config: Pick<Config, 'metrics' | 'traces'>): void {
    this.#config = config
    clearInterval(this.#timer)
    const { otlp } = config.metrics
    if (otlp !== null) this.#timer = setInterval(() => void this.send(), otlp.intervalS * 1000).unref()
  }

  /** Sends the metrics now. Never rejects. */
  async send(): Promise<void> {
    const { metrics, traces } = this.#config
    if (metrics.otlp === null) return
    const { services, now, log } = this.#ports
    const { telemetry, startedAt } = this.#gateway.state
    try {
      const text = await this.#gateway.metricsText('openmetrics')
      const resource = { service: traces.service, instance: telemetry.source }
      const body = metricExportBody(text, resource, { startedAt, now: now() })
      await sendOtlp(services.post, metrics.otlp, 'metrics', body)
    } catch (error) {
      exportFailureLog(log, 'metrics')({ tries: 1, waiting: 0, error })
    }
  }

  async stop(): Promise<void> {
    clearInterval(this.#timer)
    await this.send()
  }
}
