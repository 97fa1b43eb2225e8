/**
 * `node worker-host.ts SCRIPT CONFIG PORT VOCABULARY`: the built Worker under workerd, with a configuration as its
 * variable and a vocabulary in its KV namespace.
 */
import { readFileSync } from 'node:fs'
import { basename } from 'node:path'
import { startEdge } from '../../scripts/edge.ts'

const [, , script, config, port, vocabulary] = process.argv
if (script === undefined || config === undefined || port === undefined || vocabulary === undefined)
  throw new Error('Usage: worker-host.ts SCRIPT CONFIG PORT VOCABULARY')

const edge = await startEdge({
  port: Number(port),
  bindings: { FIRSTLIGHT_CONFIG: readFileSync(config, 'utf8') },
  script: readFileSync(script, 'utf8'),
  vocabularies: { [basename(vocabulary)]: new Uint8Array(readFileSync(vocabulary)) },
})
console.log(edge.url)

for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => void edge.stop())
