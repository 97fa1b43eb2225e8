/** A Worker bundled from the sources as they are now, as wrangler does it. */
import { fileURLToPath } from 'node:url'
import { build } from 'esbuild'

/** The module's text, to be run by workerd. */
export async function bundleWorker(entry: URL): Promise<string> {
  const { outputFiles } = await build({
    entryPoints: [fileURLToPath(entry)],
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
