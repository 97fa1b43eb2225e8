/** From a configuration to a gateway that listens. */
import type { WorkerGroup } from '../../api/worker-group.ts'
import type { Config } from '../../config.ts'
import { createGateway, type Gateway } from '../../gateway.ts'
import type { GatewayState } from '../../gateway-state.ts'
import type { Ports } from '../../ports.ts'
import type { Log } from '../../ports/log.ts'
import { type OpenVocabulary, vocabularyIn } from '../../vocabulary.ts'
import { configurePools } from './configure-pools.ts'
import { diskAssets } from './dashboard-assets.ts'
import type { DrainResult } from './drain.ts'
import { logEngineStats } from './engine-stats-log.ts'
import { checkEngineCertificates } from './engine-certificates.ts'
import { CertificateFiles } from './inbound/certificate-files.ts'
import { connectionsFor, descriptorLimit } from './inbound/connection-guard.ts'
import { nodePorts, type RuntimeHooks } from './ports.ts'
import { type EndpointPicker, openPicker } from './epp/endpoint-picker.ts'
import { type ExternalScaler, openScaler } from './keda/external-scaler.ts'
import { MetricsExport } from './otlp/metrics-export.ts'
import { ReloadableGateway } from './reloadable-gateway.ts'
import { openReports } from './report-listener.ts'
import { listen } from './listen.ts'
import { withIssuedKeys } from './issued-key-file.ts'
import { vocabulariesIn } from './vocabulary-files.ts'
import { warmUp } from './warm-up.ts'

/** Addresses (`host:port`) of the listeners besides `listen`. null: not configured. */
export interface OtherAddresses {
  /** Of `ttft.listen`. */
  readonly reports: string | null
  /** Of `epp.listen`. */
  readonly picker: string | null
  /** Of `keda.listen`. */
  readonly scaler: string | null
}

export interface RunningGateway extends OtherAddresses {
  readonly url: string
  /**
   * Applies a new configuration within the limits of `reloadable`. Resolves when new requests use it; rejects with a
   * VocabularyError, without effect.
   * @param sameFiles keep open vocabularies without reading their files again
   */
  adopt(config: Config, sameFiles?: boolean): Promise<void>
  /** As `Gateway.configRefused`. */
  configRefused(at: number | null): void
  /** Shuts down; `now` ends the waiting. */
  stop(now: AbortSignal): Promise<DrainResult>
}

/**
 * Starts a gateway on one thread. Rejects with a VocabularyError, with a ConfigError if the certificate cannot be used,
 * or with the system's error if the port cannot be opened.
 * @param folder folder of relative file names
 */
export async function startGateway(
  config: Config,
  log: Log,
  folder = '.',
  hooks?: RuntimeHooks,
): Promise<RunningGateway> {
  const vocabulariesOf = vocabulariesIn(folder, (opened) => opened)
  const vocabularies = await vocabulariesOf(config)
  const ports = nodePorts(config, log, hooks)
  try {
    const open = await openWithListeners(config, ports, { vocabularies, folder })
    logAddresses(open, log)
    const stats = logEngineStats(config, ports)
    const metricsExport = new MetricsExport(open.gateway, ports, config)
    return {
      url: open.url,
      reports: open.reports,
      picker: open.picker,
      scaler: open.scaler,
      async adopt(next, sameFiles) {
        const opened = await vocabulariesOf(next, sameFiles)
        ports.adopt(next)
        open.adopt(next, opened)
        await configurePools(next, ports)
        stats.adopt(next)
        metricsExport.adopt(next)
      },
      configRefused: (at) => open.configRefused(at),
      async stop(now) {
        const drained = await open.stop(now)
        stats.stop()
        await metricsExport.stop()
        await ports.close()
        return drained
      },
    }
  } catch (error) {
    await ports.close()
    throw error
  }
}

export function logAddresses({ reports, picker, scaler }: OtherAddresses, log: Log): void {
  if (reports !== null) log.info('report_listener_ready', { address: reports })
  if (picker !== null) log.info('endpoint_picker_ready', { address: picker })
  if (scaler !== null) log.info('external_scaler_ready', { address: scaler })
}

interface OpenOptions {
  /** Folder of relative file names. */
  readonly folder: string
  readonly vocabularies: ReadonlyMap<string, OpenVocabulary>
  /** Other threads that listen on the same port. */
  readonly workerGroup?: WorkerGroup
  /** Number of threads of this process that listen; absent: one. */
  readonly threads?: number
}

/** @testing */
export interface ListeningGateway extends Omit<RunningGateway, 'adopt'> {
  readonly gateway: Pick<Gateway, 'answer' | 'metricsText' | 'state'>
  adopt(config: Config, vocabularies: OpenOptions['vocabularies']): void
}

/** Creates a gateway for a configuration and its open vocabularies, with the state of its predecessor. */
const gatewayFactory =
  (ports: Ports, workerGroup: WorkerGroup | undefined, folder: string) =>
  (config: Config, vocabularies: OpenOptions['vocabularies'], predecessor?: GatewayState): Gateway =>
    createGateway(config, withIssuedKeys(ports, config, folder), {
      assets: diskAssets(),
      vocabularyOf: vocabularyIn(vocabularies),
      ...(workerGroup === undefined ? {} : { workerGroup }),
      ...(predecessor === undefined ? {} : { predecessor }),
    })

/** Certificate of the listener; null: it has none. Those of engines are checked. */
function certificatesOf(config: Config, folder: string): CertificateFiles | null {
  checkEngineCertificates(config)
  return config.tls === null ? null : new CertificateFiles(config.tls, folder)
}

/** Opens a gateway with its listeners. The caller opens and closes `ports`. */
export async function openWithListeners(
  config: Config,
  ports: Ports,
  { folder, vocabularies, workerGroup, threads = 1 }: OpenOptions,
): Promise<ListeningGateway> {
  warmUp(vocabularies.values())
  const create = gatewayFactory(ports, workerGroup, folder)
  const gateway = new ReloadableGateway(create(config, vocabularies))
  let { limits } = config
  const maxConnections = connectionsFor(descriptorLimit(), threads)
  const certificate = certificatesOf(config, folder)
  const listening = await listen(gateway, {
    ...config.listen,
    reusePort: workerGroup !== undefined,
    certificate,
    // Read at shutdown: a reload may have changed it.
    get drainMs() {
      return limits.drainMs
    },
    get connectionLimits() {
      const { connections, writeMs } = limits
      return { connections: connections === null ? maxConnections : Math.ceil(connections / threads), writeMs }
    },
    log: ports.log,
  })
  const others = await openOthers(gateway, config, { folder, workerGroup, ports }).catch(async (error: unknown) => {
    await listening.stop(AbortSignal.abort())
    throw error
  })
  return {
    url: listening.url,
    ...others.addresses,
    gateway,
    configRefused: (at) => gateway.configRefused(at),
    adopt(next, opened) {
      gateway.replaceBy(create(next, opened, gateway.state))
      others.adopt(next)
      limits = next.limits
      certificate?.look()
    },
    async stop(now) {
      const [drained] = await Promise.all([listening.stop(now), others.stop(limits.drainMs, now)])
      await others.close()
      return drained
    },
  }
}

interface OtherListeners {
  readonly addresses: OtherAddresses
  adopt(config: Config): void
  /** Ends what runs at the gRPC listeners. */
  stop(drainMs: number, now: AbortSignal): Promise<unknown>
  /** Closes the listener of reports. */
  close(): Promise<void>
}

function listenersOf(
  reports: Awaited<ReturnType<typeof openReports>>,
  picker: EndpointPicker | null,
  scaler: ExternalScaler | null,
): OtherListeners {
  return {
    addresses: {
      reports: reports?.address ?? null,
      picker: picker?.address ?? null,
      scaler: scaler?.address ?? null,
    },
    adopt(next) {
      picker?.adopt(next)
      scaler?.adopt(next)
    },
    stop: (drainMs, now) => Promise.all([picker?.stop(drainMs, now), scaler?.stop(drainMs, now)]),
    close: async () => reports?.close(),
  }
}

interface OtherListenerParts {
  readonly folder: string
  readonly workerGroup: WorkerGroup | undefined
  readonly ports: Ports
}

/** Opens the listeners besides `listen`: of reports, the endpoint picker and the scaler. null: not configured. */
async function openOthers(
  gateway: ReloadableGateway,
  config: Config,
  { folder, workerGroup, ports }: OtherListenerParts,
): Promise<OtherListeners> {
  const { epp, keda, limits, discovered } = config
  const reusePort = workerGroup !== undefined
  const reports = await openReports(gateway, config, reusePort)
  let picker: EndpointPicker | null = null
  try {
    const common = { folder, reusePort, log: ports.log }
    if (epp !== null) picker = await openPicker(gateway, { ...common, epp, discovered, limits, now: () => ports.now() })
    const scaler = keda === null ? null : await openScaler(config, { ...common, keda, ports })
    return listenersOf(reports, picker, scaler)
  } catch (error) {
    await picker?.stop(0, AbortSignal.abort())
    await reports?.close()
    throw error
  }
}
