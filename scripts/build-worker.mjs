// The Worker as one module, with libraries cut down to what it needs (scripts/trim.mjs). Run by itself, it writes what wrangler.toml deploys.
import { mkdirSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { rolldown } from 'rolldown'
import { trimmed } from './trim.mjs'

const NAMES = Object.keys(trimmed)

/** In a library's place, without files: tests run side by side. */
const trimming = {
  name: 'trimming',
  resolveId: (name) => (NAMES.includes(name) ? `\0trimmed:${name}` : null),
  load: (id) => (id.startsWith('\0trimmed:') ? workerText(id.slice('\0trimmed:'.length)) : null),
}

/** What a library is in the Worker. */
export const workerText = (name) => trimmed[name]()

/** The module's text, and where it comes from. */
export async function bundleWorker(entry, { minify = false } = {}) {
  const bundle = await rolldown({
    input: fileURLToPath(entry),
    external: /^cloudflare:/,
    platform: 'browser',
    resolve: { conditionNames: ['workerd', 'worker', 'browser', 'import', 'module', 'default'] },
    transform: { define: { 'import.meta.bare': 'true' }, target: 'es2024' },
    plugins: [trimming],
    // A name that a library was cut down without would be undefined when it is called.
    onLog(level, log) {
      if (level !== 'info' && level !== 'debug') throw new Error(log.message)
    },
  })
  const { output } = await bundle.generate({ format: 'esm', minify, sourcemap: minify })
  return { code: output[0].code, map: output[0].map }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const folder = new URL('../dist/edge/', import.meta.url)
  const { code, map } = await bundleWorker(new URL('../src/worker.ts', import.meta.url), { minify: true })
  mkdirSync(folder, { recursive: true })
  writeFileSync(new URL('worker.js', folder), code)
  writeFileSync(new URL('worker.js.map', folder), map.toString())
}
