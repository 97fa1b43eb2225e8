/** Runs several Workers of the bundle in one workerd: isolates that share their objects, fronts and regions. */
import { convertV4MiniflareOptions, Log, LogLevel, Miniflare } from 'miniflare'
import {
  builtScript,
  dashboardAssets,
  homebound,
  objectClasses,
  putVocabularies,
  VOCABULARIES,
  workerSettings,
} from './edge.ts'

export interface WorkerSpec {
  readonly name: string
  /** Variables and secrets, including FIRSTLIGHT_CONFIG. */
  readonly bindings: Readonly<Record<string, string>>
  /** Service bindings: name of the binding, name of the Worker. */
  readonly services?: Readonly<Record<string, string>>
  /** Worker whose Durable Objects it uses. Absent: its own. */
  readonly objectsOf?: string
  /** false: the script has none. Absent: those of the bundle. */
  readonly objects?: boolean
  /** Text of the bundle. Absent: the output of `npm run build:worker`. */
  readonly script?: string
  /** Compiled vocabularies by name, in a KV namespace of its own. Absent: it has none. */
  readonly vocabularies?: Readonly<Record<string, Uint8Array<ArrayBuffer>>>
  /** It has the dashboard. Absent: no. */
  readonly assets?: boolean
  /** Port of its own on loopback; 0: any free one. Absent: no public name, only service bindings reach it. */
  readonly port?: number
}

export interface RunningWorkers {
  /** Base URL of each Worker with a port, by name. */
  readonly urls: Readonly<Record<string, string>>
  stop(): Promise<void>
}

/** Rejects if the Worker was not built. */
export async function startWorkers(
  specs: readonly WorkerSpec[],
  { quiet = false }: { readonly quiet?: boolean } = {},
): Promise<RunningWorkers> {
  Object.assign(process.env, homebound)
  const options = convertV4MiniflareOptions({
    workers: specs.map(workerOptions),
    host: '127.0.0.1',
    port: 0,
    cf: false,
  } as Parameters<typeof convertV4MiniflareOptions>[0])
  const runtime = new Miniflare({
    ...options,
    logRequests: false,
    log: new Log(quiet ? LogLevel.NONE : LogLevel.WARN),
    ...(quiet ? { handleStructuredLogs: () => {} } : {}),
  } as ConstructorParameters<typeof Miniflare>[0])
  await runtime.ready
  for (const { name, vocabularies } of specs)
    if (vocabularies !== undefined) await putVocabularies(runtime, vocabularies, name)
  const urls: Record<string, string> = {}
  for (const { name, port } of specs)
    if (port !== undefined) urls[name] = (await runtime.unsafeGetDirectURL(name)).toString().replace(/\/$/, '')
  return { urls, stop: () => runtime.dispose() }
}

/** Options of a Worker for Miniflare. */
export function workerOptions(spec: WorkerSpec) {
  const { name, bindings, services = {}, objectsOf, objects = true, script, vocabularies, assets = false, port } = spec
  const shared = objectsOf === undefined ? {} : { scriptName: objectsOf }
  return {
    name,
    modules: true,
    script: script ?? builtScript(),
    ...workerSettings(),
    durableObjects: Object.fromEntries(
      (objects ? objectClasses() : []).map(([binding, className]) => [
        binding,
        { className, useSQLite: true, ...shared },
      ]),
    ),
    bindings: { ...bindings },
    serviceBindings: { ...services },
    ...(vocabularies === undefined ? {} : { kvNamespaces: { [VOCABULARIES]: `vocabularies-${name}` } }),
    ...(assets ? { assets: dashboardAssets() } : {}),
    ...(port === undefined ? {} : { unsafeDirectSockets: [{ host: '127.0.0.1', port }] }),
  }
}
