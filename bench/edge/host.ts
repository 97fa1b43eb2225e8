/**
 * One Worker under workerd, on a port it prints. `node host.ts SUBJECT URL…`; for `exact` VOCABULARY names a compiled
 * file.
 */
import { readFileSync } from 'node:fs'
import { startEdge } from '../../scripts/edge.ts'
import type { EdgeSubject } from '../edge.ts'

const [subject, ...urls] = process.argv.slice(2) as [EdgeSubject, ...string[]]

const passThrough = () => readFileSync(new URL('./pass-through.mjs', import.meta.url), 'utf8')

const pool = {
  model: 'fake',
  observe_share: subject === 'observed' ? 1 : 0,
  ...(subject === 'exact' ? { tokenizer: 'bench' } : {}),
}
const document = {
  open: true,
  version: Date.now(),
  log: { level: 'silent' },
  clusters: [{ id: 'bench', pools: [{ ...pool, engines: urls.map((url, i) => ({ id: `e${i}`, url })) }] }],
}

const bindings = {
  FIRSTLIGHT_CONFIG: JSON.stringify(document),
  ENGINES: urls.join(' '),
  OBJECT: subject === 'pass + books' ? 'books' : subject === 'pass + object' ? 'yes' : 'no',
}
const edge = await startEdge({
  port: 0,
  bindings,
  direct: true,
  quiet: true,
  ...(subject.startsWith('pass') ? { script: passThrough() } : {}),
  ...(subject === 'exact' ? { vocabularies: { bench: new Uint8Array(readFileSync(process.env['VOCABULARY']!)) } } : {}),
})
console.log(JSON.stringify({ url: edge.url }))
process.on('SIGTERM', () => void edge.stop().then(() => process.exit(0)))
