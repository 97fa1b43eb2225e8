/** One Worker under workerd, on a port it prints. `node host.ts SUBJECT URL…` */
import { readFileSync } from 'node:fs'
import { startEdge } from '../../scripts/edge.ts'
import type { EdgeSubject } from '../edge.ts'

const [subject, ...urls] = process.argv.slice(2) as [EdgeSubject, ...string[]]

const passThrough = () => readFileSync(new URL('./pass-through.mjs', import.meta.url), 'utf8')

const document = (observeShare: number) => ({
  open: true,
  version: Date.now(),
  log: { level: 'silent' },
  clusters: [{ id: 'bench', pools: [{ model: 'fake', observe_share: observeShare, engines: urls.map((url, i) => ({ id: `e${i}`, url })) }] }],
})

const bindings = { FIRSTLIGHT_CONFIG: JSON.stringify(document(subject === 'observed' ? 1 : 0)), ENGINES: urls.join(' '), OBJECT: subject === 'pass + object' ? 'yes' : 'no' }
const edge = await startEdge({ port: 0, bindings, direct: true, quiet: true, ...(subject.startsWith('pass') ? { script: passThrough() } : {}) })
console.log(JSON.stringify({ url: edge.url }))
process.on('SIGTERM', () => void edge.stop().then(() => process.exit(0)))
