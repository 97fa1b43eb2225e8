/** The Worker as it is deployed, bundled from the sources as they are now, and run by workerd behind a real socket. */
import { fileURLToPath } from 'node:url'
import { build } from 'esbuild'
import { startEdge } from '../../scripts/edge.ts'

export interface BuiltWorker {
  readonly url: string
  close(): Promise<void>
}

let bundle: Promise<string> | null = null

async function bundled(): Promise<string> {
  const { outputFiles } = await build({
    entryPoints: [fileURLToPath(new URL('../../src/worker.ts', import.meta.url))],
    bundle: true,
    write: false,
    format: 'esm',
    target: 'es2024',
    conditions: ['workerd', 'worker', 'browser'],
    external: ['cloudflare:*'],
    define: { 'import.meta.bare': 'true' },
    logLevel: 'silent',
  })
  return outputFiles[0]!.text
}

/** `bindings` as on a deployed Worker; the configuration is `FIRSTLIGHT_CONFIG`. */
export async function startBuiltWorker(bindings: Readonly<Record<string, string>>): Promise<BuiltWorker> {
  bundle ??= bundled()
  const { url, stop } = await startEdge({ port: 0, bindings, script: await bundle, quiet: true })
  return { url, close: stop }
}
