/** `node worker-host.ts SCRIPT CONFIG PORT`: the built Worker under workerd, with a configuration as its variable. */
import { readFileSync } from 'node:fs'
import { convertV4MiniflareOptions, Log, LogLevel, Miniflare } from 'miniflare'

// Nothing here may look outside this machine.
Object.assign(process.env, { CLOUDFLARE_CF_FETCH_ENABLED: 'false', WRANGLER_SEND_METRICS: 'false', DO_NOT_TRACK: '1' })

const [, , script, config, port] = process.argv
if (script === undefined || config === undefined || port === undefined) throw new Error('Usage: worker-host.ts SCRIPT CONFIG PORT')

const toml = readFileSync(new URL('../../wrangler.toml', import.meta.url), 'utf8')
const objects = [...toml.matchAll(/^name = "([A-Z_]+)"\nclass_name = "(\w+)"/gm)]
const runtime = new Miniflare({
  ...convertV4MiniflareOptions({
    name: 'firstlight',
    modules: true,
    scriptPath: script,
    compatibilityDate: /^compatibility_date = "(.*)"$/m.exec(toml)![1]!,
    compatibilityFlags: ['enable_request_signal'],
    durableObjects: Object.fromEntries(objects.map(([, name, className]) => [name!, { className: className!, useSQLite: true }])),
    bindings: { FIRSTLIGHT_CONFIG: readFileSync(config, 'utf8') },
    cf: false,
    host: '127.0.0.1',
    port: Number(port),
  }),
  logRequests: false,
  log: new Log(LogLevel.WARN),
} as ConstructorParameters<typeof Miniflare>[0])
console.log(String(await runtime.ready))

for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => void runtime.dispose())
