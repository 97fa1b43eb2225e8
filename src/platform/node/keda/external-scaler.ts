/** External scaler for KEDA: gRPC listener, health and shutdown. */
import type { Config, KedaConfig } from '../../../config.ts'
import { addressText } from '../../../config/address.ts'
import type { Ports } from '../../../ports.ts'
import type { Log } from '../../../ports/log.ts'
import { GrpcServer } from '../grpc/grpc-server.ts'
import { HealthService } from '../grpc/health-service.ts'
import { type GrpcCertificate, grpcCertificate } from '../grpc-certificate.ts'
import { within } from '../within.ts'
import { capacityOf, scaledPool } from './scaled-pool.ts'
import { ScalerService } from './scaler-service.ts'

const SERVICE = 'externalscaler.ExternalScaler'

/** A reference to a ScaledObject has a few hundred bytes. */
const MESSAGE_BYTES = 64 * 1024

/** KEDA opens one stream for each ScaledObject, and short calls. */
const MAX_STREAMS = 1_024

export interface ExternalScaler {
  /** `host:port`. */
  readonly address: string
  /** Answers by the pools of a new configuration. */
  adopt(config: PoolsConfig): void
  /** Ends streams, and waits for running calls within the limit or until `now`. */
  stop(limitMs: number, now: AbortSignal): Promise<void>
}

type PoolsConfig = Pick<Config, 'clusters'>

interface ScalerOptions {
  readonly keda: KedaConfig
  readonly ports: Pick<Ports, 'pool' | 'log'>
  /** Folder of relative file names. */
  readonly folder: string
  /** Other threads listen on the same port. */
  readonly reusePort: boolean
  readonly log: Log
}

/** Rejects with the system's error if the port cannot be opened, or with a ConfigError for a bad certificate. */
export async function openScaler(config: PoolsConfig, options: ScalerOptions): Promise<ExternalScaler> {
  const scaler = new Scaler(config, options)
  await scaler.listen()
  return scaler
}

class Scaler implements ExternalScaler {
  readonly #options: ScalerOptions
  readonly #certificate: GrpcCertificate
  readonly #server: GrpcServer
  readonly #service: ScalerService
  readonly #health = new HealthService([
    ['', false],
    [SERVICE, false],
  ])
  #config: PoolsConfig
  #stopWatching: () => void = () => undefined
  address = ''

  constructor(config: PoolsConfig, options: ScalerOptions) {
    const { keda, folder, reusePort, log, ports } = options
    this.#options = options
    this.#config = config
    this.#certificate = grpcCertificate(keda.tls, folder)
    this.#service = new ScalerService({
      check: (object) => void scaledPool(object, this.#config),
      capacity: async (object) => capacityOf(scaledPool(object, this.#config), ports),
    })
    this.#server = new GrpcServer({
      ...keda.listen,
      reusePort,
      tls: this.#certificate.tls,
      messageBytes: MESSAGE_BYTES,
      maxStreams: MAX_STREAMS,
      failed: (error) => log.error('external_scaler_failed', { error }),
      methods: new Map([
        [`/${SERVICE}/IsActive`, (call) => this.#service.isActive(call)],
        [`/${SERVICE}/StreamIsActive`, (call) => this.#service.streamIsActive(call)],
        [`/${SERVICE}/GetMetricSpec`, (call) => this.#service.metricSpec(call)],
        [`/${SERVICE}/GetMetrics`, (call) => this.#service.metrics(call)],
        ['/grpc.health.v1.Health/Check', (call) => this.#health.check(call)],
        ['/grpc.health.v1.Health/Watch', (call) => this.#health.watch(call)],
      ]),
    })
  }

  async listen(): Promise<void> {
    const { keda, log } = this.#options
    this.address = addressText({ host: keda.listen.host, port: await this.#server.listen() })
    this.#stopWatching = this.#certificate.watch(this.#server, log)
    this.#health.serving(true)
  }

  adopt(config: PoolsConfig): void {
    this.#config = config
  }

  async stop(limitMs: number, now: AbortSignal): Promise<void> {
    this.#stopWatching()
    this.#health.serving(false)
    // Streams would keep their connections open.
    setImmediate(() => {
      this.#health.close()
      this.#service.close()
    })
    const closed = this.#server.close()
    if (await within(closed, limitMs, now)) return
    this.#server.destroy()
    await closed
  }
}
