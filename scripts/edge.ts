/** Runs the built Worker under workerd on this machine. */
import { existsSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { convertV4MiniflareOptions, Log, LogLevel, Miniflare } from 'miniflare'

export interface EdgeOptions {
  /** 0: any free port. */
  readonly port: number
  /** Variables and secrets, including FIRSTLIGHT_CONFIG. */
  readonly bindings: Readonly<Record<string, string>>
  /** Text of the bundle. Absent: the output of `npm run build:worker`. */
  readonly script?: string
  /** Discards the Worker's log. */
  readonly quiet?: boolean
  /** Gets the lines of the Worker's log instead. */
  readonly logged?: (line: string) => void
  /** Compiled vocabularies by name, as a KV namespace holds them. */
  readonly vocabularies?: Readonly<Record<string, Uint8Array<ArrayBuffer>>>
  /** The port belongs to the Worker itself, without an asset router or simulator Worker in front, for benchmarks. */
  readonly direct?: boolean
}

export interface Edge {
  readonly url: string
  stop(): Promise<void>
}

const built = new URL('../dist/worker/worker.js', import.meta.url)
const toml = new URL('../wrangler.toml', import.meta.url)

/** Prevents requests to other machines. */
export const homebound = { CLOUDFLARE_CF_FETCH_ENABLED: 'false', WRANGLER_SEND_METRICS: 'false', DO_NOT_TRACK: '1' }

/** Rejects if the Worker was not built. */
export async function startEdge({
  port,
  bindings,
  script = builtScript(),
  logged,
  quiet = logged !== undefined,
  direct = false,
  vocabularies,
}: EdgeOptions): Promise<Edge> {
  Object.assign(process.env, homebound)
  const runtime = new Miniflare({
    ...convertV4MiniflareOptions({
      name: 'firstlight',
      modules: true,
      script,
      ...workerSettings(),
      durableObjects: Object.fromEntries(
        objectClasses().map(([name, className]) => [name, { className, useSQLite: true }]),
      ),
      bindings: { ...bindings },
      ...(vocabularies === undefined ? {} : { kvNamespaces: [VOCABULARIES] }),
      assets: dashboardAssets(),
      cf: false,
      host: '127.0.0.1',
      port: direct ? 0 : port,
      ...(direct ? { unsafeDirectSockets: [{ host: '127.0.0.1', port }] } : {}),
    }),
    logRequests: false,
    log: new Log(quiet ? LogLevel.NONE : LogLevel.WARN),
    ...(quiet ? { handleStructuredLogs: ({ message }: { readonly message: string }) => logged?.(message) } : {}),
  } as ConstructorParameters<typeof Miniflare>[0])
  const front = await runtime.ready
  await putVocabularies(runtime, vocabularies ?? {})
  const url = (direct ? await runtime.unsafeGetDirectURL('firstlight') : front).toString().replace(/\/$/, '')
  return { url, stop: () => runtime.dispose() }
}

/** Binding of the KV namespace with vocabularies. */
export const VOCABULARIES = 'VOCABULARIES'

/** Puts compiled vocabularies into the namespace of the Worker `name`; absent: the only one. */
export async function putVocabularies(
  runtime: Miniflare,
  vocabularies: Readonly<Record<string, Uint8Array<ArrayBuffer>>>,
  name?: string,
): Promise<void> {
  for (const [key, bytes] of Object.entries(vocabularies)) {
    // Miniflare's types lack this method unless the Workers types are loaded.
    const namespace = (await runtime.getKVNamespace(VOCABULARIES, name)) as unknown as {
      put(name: string, value: ArrayBuffer): Promise<void>
    }
    await namespace.put(key, bytes.buffer)
  }
}

/** The dashboard's files, as `[assets]` in wrangler.toml. */
export function dashboardAssets() {
  return {
    directory: fileURLToPath(new URL('../dist/dashboard', import.meta.url)),
    binding: 'ASSETS',
    routerConfig: { has_user_worker: true, invoke_user_worker_ahead_of_assets: true },
    assetConfig: { html_handling: 'none', not_found_handling: 'none' } as const,
  }
}

/** Settings of the Worker in wrangler.toml. */
export function workerSettings() {
  const text = readFileSync(toml, 'utf8')
  return {
    compatibilityDate: /^compatibility_date = "(.*)"$/m.exec(text)![1]!,
    compatibilityFlags: ['enable_request_signal'],
  }
}

/** Binding and class of each Durable Object in wrangler.toml. */
export function objectClasses(): [binding: string, className: string][] {
  const bound = new Map<string, string>()
  for (const [, name, className] of readFileSync(toml, 'utf8').matchAll(/^name = "([A-Z_]+)"\nclass_name = "(\w+)"/gm))
    bound.set(name!, className!)
  return [...bound]
}

/** Text of the bundle that `npm run build:worker` made. */
export function builtScript(): string {
  if (!existsSync(built)) throw new Error('There is no built Worker. Run: npm run build:worker')
  return readFileSync(built, 'utf8')
}
