// Says how large the built Worker is, and fails when it has outgrown its limit: start-up time is paid on every cold isolate.
import { readFileSync } from 'node:fs'
import { gzipSync } from 'node:zlib'

const limitBytes = 150_000
const bytes = readFileSync(new URL('../dist/worker/worker.js', import.meta.url))
const gzipBytes = gzipSync(bytes).length
const kB = (count) => `${(count / 1000).toFixed(1)} kB`
console.log(`Worker bundle: ${kB(bytes.length)}, ${kB(gzipBytes)} gzipped (limit ${kB(limitBytes)})`)
if (gzipBytes > limitBytes) {
  console.error('The Worker bundle is over its limit. dist/edge/worker.js.map says what is in it.')
  process.exitCode = 1
}
