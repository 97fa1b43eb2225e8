// `npm run dev:edge`: the built Worker under workerd on this machine, with the demo's engines behind it.
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { convertV4MiniflareOptions, Log, LogLevel, Miniflare } from 'miniflare'
import { demoDocument, demoGuide, startDemoFleet } from '../src/platform/node/demo.ts'

const root = fileURLToPath(new URL('..', import.meta.url))
const { values } = parseArgs({ options: { port: { type: 'string', default: '8787' }, engines: { type: 'string', default: '4' } } })

/** Nothing here may look outside this machine. */
Object.assign(process.env, {
  CLOUDFLARE_CF_FETCH_ENABLED: 'false',
  WRANGLER_SEND_METRICS: 'false',
  WRANGLER_SEND_ERROR_REPORTS: 'false',
  WRANGLER_WRITE_LOGS: 'false',
  WRANGLER_HIDE_BANNER: 'true',
  DO_NOT_TRACK: '1',
})

console.log('Building the Worker …')
execFileSync(process.execPath, ['node_modules/wrangler/bin/wrangler.js', 'deploy', '--dry-run', '--outdir', 'dist/worker'], { cwd: root, stdio: ['ignore', 'ignore', 'inherit'] })

const toml = readFileSync(new URL('../wrangler.toml', import.meta.url), 'utf8')
const compatibilityDate = /^compatibility_date = "(.*)"$/m.exec(toml)[1]

const fleet = await startDemoFleet(Number(values.engines))
// A Worker has no loopback to trust, so it is told: anybody may call, and the overview wants a key.
const adminKey = 'demo'
const document = { ...demoDocument(fleet), open: true, admin: { secret: adminKey }, version: Date.now(), log: { level: 'warn' } }
const runtime = new Miniflare({
  ...convertV4MiniflareOptions({
    name: 'firstlight',
    modules: true,
    scriptPath: `${root}dist/worker/worker.js`,
    compatibilityDate,
    compatibilityFlags: ['enable_request_signal'],
    durableObjects: { CLUSTER: { className: 'ClusterObject', useSQLite: true } },
    bindings: { FIRSTLIGHT_CONFIG: JSON.stringify(document) },
    cf: false,
    host: '127.0.0.1',
    port: Number(values.port),
  }),
  logRequests: false,
  log: new Log(LogLevel.WARN),
})
const url = (await runtime.ready).toString().replace(/\/$/, '')
console.log(demoGuide(url, fleet, { adminKey, ownEngines: 'docs/deploy-workers.md.' }))

let stopping = false
const stop = async () => {
  if (stopping) return
  stopping = true
  await runtime.dispose()
  await fleet.close()
}
process.on('SIGINT', stop)
process.on('SIGTERM', stop)
