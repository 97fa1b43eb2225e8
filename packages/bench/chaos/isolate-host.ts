/**
 * One workerd process with one isolate of the Worker, or with the objects of all. Prints its URL, then its log.
 * `node isolate-host.ts '{"name":…,"registry":…,"objectsOf":…,"document":…}'`
 */
import { convertV4MiniflareOptions, Log, LogLevel, Miniflare } from 'miniflare'
import { workerOptions } from '../../../scripts/edge-workers.ts'
import { homebound } from '../../../scripts/edge.ts'
import type { IsolateSpec } from './isolate-process.ts'

const { name, registry, objectsOf, document } = JSON.parse(process.argv[2]!) as IsolateSpec
Object.assign(process.env, homebound)

/** workerd reports a cut stream as an uncaught exception. */
const EXPECTED = /^Uncaught exception: .*the response was truncated$/

const options = convertV4MiniflareOptions({
  workers: [
    workerOptions({
      name,
      port: 0,
      bindings: { FIRSTLIGHT_CONFIG: JSON.stringify(document) },
      ...(objectsOf === null ? {} : { objectsOf }),
    }),
  ],
  // Processes find each other's objects here.
  unsafeDevRegistryPath: registry,
  cf: false,
  inspectorPort: 0,
  host: '127.0.0.1',
  port: 0,
} as Parameters<typeof convertV4MiniflareOptions>[0])
const runtime = new Miniflare({
  ...options,
  unsafeDevRegistryPath: registry,
  logRequests: false,
  log: new Log(LogLevel.NONE),
  handleStructuredLogs: ({ level, message }: { readonly level: string; readonly message: string }) => {
    if (message.startsWith('{')) console.log(message)
    else if (level === 'error' && !EXPECTED.test(message)) console.log(JSON.stringify({ level, message }))
  },
} as ConstructorParameters<typeof Miniflare>[0])
await runtime.ready
const url = (await runtime.unsafeGetDirectURL(name)).toString().replace(/\/$/, '')
const inspector = (await runtime.getInspectorURL()).toString()
console.log(JSON.stringify({ event: 'listening', url, inspector }))
process.on('SIGTERM', () => void runtime.dispose().then(() => process.exit(0)))
