/** A Worker bundled from the sources as they are now, as wrangler does it. */
import { fileURLToPath } from 'node:url'
import { build, type Plugin } from 'esbuild'

const script = new URL('./trim.mjs', import.meta.url).href
const { trimmed } = (await import(script)) as { readonly trimmed: Readonly<Record<string, { text(): Promise<string> }>> }

/** The module's text, to be run by workerd. */
export async function bundleWorker(entry: URL): Promise<string> {
  const { outputFiles, warnings } = await build({
    entryPoints: [fileURLToPath(entry)],
    bundle: true,
    write: false,
    format: 'esm',
    target: 'es2024',
    conditions: ['workerd', 'worker', 'browser'],
    external: ['cloudflare:*'],
    define: { 'import.meta.bare': 'true' },
    plugins: [trimming],
    logLevel: 'silent',
  })
  // A name that a library was cut down without is a warning, and undefined when it is called.
  if (warnings.length > 0) throw new Error(warnings.map(({ text, location }) => `${location?.file}: ${text}`).join('\n'))
  return outputFiles[0]!.text
}

/** What a library is in the Worker. */
export const workerText = async (name: string): Promise<string> => trimmed[name]!.text()

/** What `[alias]` of wrangler.toml does, without files: tests run side by side. */
const trimming: Plugin = {
  name: 'trimming',
  setup({ onResolve, onLoad }) {
    onResolve({ filter: /./ }, ({ path }) => (path in trimmed ? { path, namespace: 'trimmed' } : null))
    onLoad({ filter: /./, namespace: 'trimmed' }, async ({ path }) => ({ contents: await workerText(path) }))
  },
}
