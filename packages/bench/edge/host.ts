/**
 * One Worker under workerd, on a port it prints. `node host.ts SUBJECT URL…`; with `exact` VOCABULARY names a compiled
 * file, for `baseline` BASELINE a bundle.
 */
import { readFileSync } from 'node:fs'
import { startEdge } from '../../../scripts/edge.ts'
import { startWorkers } from '../../../scripts/edge-workers.ts'
import type { EdgeSubject } from './cpu.ts'
import { bundleOf } from './bundle.ts'
import { frontDocument, regionDocument } from './placed.ts'

const [subject, ...urls] = process.argv.slice(2) as [EdgeSubject, ...string[]]

/** The built Worker has no entry here. */
async function scriptOf(name: EdgeSubject): Promise<{ readonly script?: string }> {
  if (name === 'baseline') return { script: readFileSync(process.env['BASELINE']!, 'utf8') }
  if (name === 'local') return { script: await bundleOf('local-worker.ts') }
  if (!name.startsWith('pass')) return {}
  return { script: readFileSync(new URL('./pass-through.mjs', import.meta.url), 'utf8') }
}

const pool = {
  model: 'fake',
  observe_share: subject === 'observed' ? 1 : 0,
  ...(subject.includes('exact') ? { tokenizer: 'bench' } : {}),
}
const exact = subject.includes('exact')
  ? { vocabularies: { bench: new Uint8Array(readFileSync(process.env['VOCABULARY']!)) } }
  : {}
const document = {
  open: true,
  version: Date.now(),
  log: { level: 'silent' },
  clusters: [{ id: 'bench', pools: [{ ...pool, engines: urls.map((url, i) => ({ id: `e${i}`, url })) }] }],
}

const bindings = {
  FIRSTLIGHT_CONFIG: JSON.stringify(document),
  ENGINES: urls.join(' '),
  PARTS: subject.split(' + ').slice(1).join(' '),
}

/** A front and a region, without a way between them. */
async function startFront() {
  const { tokenizer } = pool
  const native = { observe_share: 0, ...(tokenizer === undefined ? {} : { tokenizer }) }
  const region = regionDocument({ ...native, ...document.clusters[0]!.pools[0]! }, subject !== 'front exact twice')
  const specs = [
    { name: 'front', bindings: frontDocument('fake', native), services: { REGION_C: 'region' }, port: 0, ...exact },
    { name: 'region', bindings: region, ...exact },
  ]
  const { urls: bound, stop } = await startWorkers(specs, { quiet: true })
  return { url: bound['front']!, stop }
}

const startOne = async () =>
  startEdge({
    port: 0,
    bindings,
    direct: true,
    quiet: true,
    ...(await scriptOf(subject)),
    ...exact,
  })

const edge = await (subject.startsWith('front') ? startFront() : startOne())
console.log(JSON.stringify({ url: edge.url }))
process.on('SIGTERM', () => void edge.stop().then(() => process.exit(0)))
