// `npm run dev:edge`: builds the Worker and runs it under workerd on this machine with the demo's engines.
// `--regions N` runs a front and N region Workers, which the front reaches by service bindings.
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { demoDocument, demoGuide, startDemoFleet } from '../packages/simulator/src/commands/demo-fleet.ts'
import { watchSignals } from '../src/platform/node/signals.ts'
import { buildWorker } from './build-worker.ts'
import { startRegions } from './dev-edge-regions.ts'
import { startEdge } from './edge.ts'

const { values } = parseArgs({
  options: {
    port: { type: 'string', default: '8787' },
    engines: { type: 'string', default: '4' },
    regions: { type: 'string' },
  },
})

console.log('Building the Worker …')
await buildWorker(fileURLToPath(new URL('../dist/worker', import.meta.url)))

// A Worker has no loopback address, so the configuration allows all callers; the overview requires a key.
const adminKey = 'demo'
const fleet = await startDemoFleet(Number(values.engines))
const port = Number(values.port)
const document = {
  ...demoDocument(fleet),
  open: true,
  admin: { secret: adminKey },
  version: Date.now(),
  log: { level: 'warn' },
}
const edge = await (values.regions === undefined
  ? startEdge({ port, bindings: { FIRSTLIGHT_CONFIG: JSON.stringify(document) } })
  : startRegions(fleet, { port, regions: Number(values.regions), adminKey }))
console.log(demoGuide(edge.url, fleet, { adminKey, ownEngines: 'docs/deploy-workers.md.' }))

watchSignals().stop.addEventListener('abort', async () => {
  await edge.stop()
  await fleet.close()
  process.exit()
})
