// Prints the size of the built Worker and fails above the limit. The limit catches an accidental import of a large
// library; Cloudflare itself allows 64 MiB, uncompressed, on both plans.
import { readFileSync } from 'node:fs'
import { gzipSync } from 'node:zlib'

const limitBytes = 1_200_000
const bytes = readFileSync(new URL('../dist/worker/worker.js', import.meta.url))
const gzipBytes = gzipSync(bytes).length
const kB = (count) => `${(count / 1000).toFixed(1)} kB`
console.log(`Worker bundle: ${kB(bytes.length)}, ${kB(gzipBytes)} gzipped (limit ${kB(limitBytes)})`)
if (bytes.length > limitBytes) {
  console.error('The Worker bundle exceeds its size limit. dist/worker/worker.js.map lists what it contains.')
  process.exitCode = 1
}
