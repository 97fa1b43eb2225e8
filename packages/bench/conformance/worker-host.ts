/**
 * `node worker-host.ts SCRIPT CONFIG PORT VOCABULARY [ISOLATES]`: the built Worker under workerd, with a configuration
 * as its variable and a vocabulary in its KV namespace. With ISOLATES: so many isolates of it behind a balancer.
 */
import { readFileSync } from 'node:fs'
import { basename } from 'node:path'
import { startEdge } from '../../../scripts/edge.ts'
import { startWorkers } from '../../../scripts/edge-workers.ts'

const [, , script, config, port, vocabulary, isolates] = process.argv
if (script === undefined || config === undefined || port === undefined || vocabulary === undefined)
  throw new Error('Usage: worker-host.ts SCRIPT CONFIG PORT VOCABULARY [ISOLATES]')

const worker = {
  bindings: { FIRSTLIGHT_CONFIG: readFileSync(config, 'utf8') },
  script: readFileSync(script, 'utf8'),
  vocabularies: { [basename(vocabulary)]: new Uint8Array(readFileSync(vocabulary)) },
}

async function startIsolates(count: number) {
  const names = Array.from({ length: count }, (_, at) => `iso${at}`)
  const balancer = {
    name: 'balancer',
    script: readFileSync(new URL('balancer.mjs', import.meta.url), 'utf8'),
    objects: false,
    bindings: { ISOLATES: String(count) },
    services: Object.fromEntries(names.map((name) => [name.toUpperCase(), name])),
    port: Number(port),
  }
  const { urls, stop } = await startWorkers([
    balancer,
    { name: 'objects', ...worker },
    ...names.map((name) => ({ name, objectsOf: 'objects', ...worker })),
  ])
  return { url: urls[balancer.name]!, stop }
}

const edge = await (isolates === undefined
  ? startEdge({ port: Number(port), ...worker })
  : startIsolates(Number(isolates)))
console.log(edge.url)

for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => void edge.stop())
