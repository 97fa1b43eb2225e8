/** `node worker-host.ts SCRIPT CONFIG PORT`: the built Worker under workerd, with a configuration as its variable. */
import { readFileSync } from 'node:fs'
import { startEdge } from '../../scripts/edge.ts'

const [, , script, config, port] = process.argv
if (script === undefined || config === undefined || port === undefined) throw new Error('Usage: worker-host.ts SCRIPT CONFIG PORT')

const edge = await startEdge({ port: Number(port), bindings: { FIRSTLIGHT_CONFIG: readFileSync(config, 'utf8') }, script: readFileSync(script, 'utf8') })
console.log(edge.url)

for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => void edge.stop())
