/** The Worker as it is deployed: bundled, and run by workerd behind a real socket. */
import { readFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { build } from 'esbuild'
import { convertV4MiniflareOptions, Log, LogLevel, Miniflare } from 'miniflare'

export interface BuiltWorker {
  readonly url: string
  close(): Promise<void>
}

const root = fileURLToPath(new URL('../..', import.meta.url))
let bundle: Promise<string> | null = null

async function bundled(): Promise<string> {
  const { outputFiles } = await build({
    entryPoints: [`${root}src/worker.ts`],
    bundle: true,
    write: false,
    format: 'esm',
    target: 'es2024',
    conditions: ['workerd', 'worker', 'browser'],
    external: ['cloudflare:*'],
    logLevel: 'silent',
  })
  return outputFiles[0]!.text
}

/** `bindings` as on a deployed Worker; the configuration is `FIRSTLIGHT_CONFIG`. */
export async function startBuiltWorker(bindings: Readonly<Record<string, string>>): Promise<BuiltWorker> {
  bundle ??= bundled()
  const [script, toml] = await Promise.all([bundle, readFile(`${root}wrangler.toml`, 'utf8')])
  const runtime = new Miniflare({
    ...convertV4MiniflareOptions({
      name: 'firstlight',
      modules: true,
      script,
      compatibilityDate: /^compatibility_date = "(.*)"$/m.exec(toml)![1]!,
      compatibilityFlags: ['enable_request_signal'],
      durableObjects: { CLUSTER: { className: 'ClusterObject', useSQLite: true } },
      bindings: { ...bindings },
      cf: false,
      host: '127.0.0.1',
      port: 0,
    }),
    logRequests: false,
    log: new Log(LogLevel.NONE),
    handleStructuredLogs: () => {},
  } as ConstructorParameters<typeof Miniflare>[0])
  const url = (await runtime.ready).toString().replace(/\/$/, '')
  return { url, close: () => runtime.dispose() }
}
