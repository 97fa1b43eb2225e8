// Writes dist/dashboard: the dashboard's page and files. `npm ci` runs it (`prepare`), so that /dashboard works at
// once. Fails above the limit of their size. With --optional a failed build does not fail the installation.
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { gzipSync } from 'node:zlib'

const limitBytes = 80_000
const folder = new URL('../dist/dashboard/', import.meta.url)

// Vite builds other files under another value, and a build within tests would then replace files that are served.
process.env.NODE_ENV = 'production'

try {
  const { build } = await import('vite')
  const { output } = await build({
    configFile: fileURLToPath(new URL('../vite.config.ts', import.meta.url)),
    logLevel: 'warn',
  })
  const files = new Map(
    output.map((file) => [file.fileName, Buffer.from(file.type === 'chunk' ? file.code : file.source)]),
  )
  const gzipBytes = [...files.values()].reduce((sum, bytes) => sum + gzipSync(bytes).length, 0)
  const size = `${files.size} files, ${(gzipBytes / 1000).toFixed(1)} kB gzipped`
  if (gzipBytes > limitBytes) throw new Error(`${size}; the limit is ${limitBytes / 1000} kB`)
  // The Worker reads its configuration from its assets; no route serves it.
  if (process.env.FIRSTLIGHT_BUNDLED_CONFIG !== undefined)
    files.set('firstlight.yaml', readFileSync(process.env.FIRSTLIGHT_BUNDLED_CONFIG))
  mkdirSync(folder, { recursive: true })
  for (const name of readdirSync(folder)) if (!files.has(name)) rmSync(new URL(name, folder), { recursive: true })
  for (const [name, bytes] of files) replace(new URL(name, folder), bytes)
  console.log(`dist/dashboard: ${size}`)
} catch (error) {
  if (!process.argv.includes('--optional')) throw error
  console.warn(`The dashboard was not built: ${error.message}`)
}

/** Keeps an unchanged file, because a gateway may be serving it. */
function replace(path, bytes) {
  try {
    if (readFileSync(path).equals(bytes)) return
  } catch (error) {
    if (error.code !== 'ENOENT') throw error
  }
  writeFileSync(path, bytes)
}
