/** Garbage of workerd that a chaos run collects before it measures memory. */
import { once } from 'node:events'
import { convertV4MiniflareOptions, Log, LogLevel, Miniflare } from 'miniflare'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { FakeEngine } from '../kit/fake-engine.ts'
import { collectGarbage } from '../../packages/bench/chaos/collect-garbage.ts'

const REQUESTS = 300
let engine: FakeEngine
let runtime: Miniflare
let url: URL

beforeAll(async () => {
  engine = await FakeEngine.open({ '*': { body: 'token' } })
  const options = convertV4MiniflareOptions({
    name: 'proxy',
    modules: true,
    script: `export default { fetch: () => fetch('${engine.url}') }`,
    cf: false,
    inspectorPort: 0,
    host: '127.0.0.1',
    port: 0,
  } as Parameters<typeof convertV4MiniflareOptions>[0])
  runtime = new Miniflare({ ...options, log: new Log(LogLevel.NONE) } as ConstructorParameters<typeof Miniflare>[0])
  url = await runtime.ready
})

afterAll(async () => {
  await runtime.dispose()
  await engine.close()
})

const ask = async (): Promise<unknown> => (await fetch(url)).text()

/** Bytes of JavaScript in use, of the Worker and of what passes on its requests. */
async function usedBytes(): Promise<Record<string, number>> {
  const { host } = await runtime.getInspectorURL()
  const isolates = (await (await fetch(`http://${host}/json`)).json()) as { id: string; webSocketDebuggerUrl: string }[]
  const used = isolates
    .filter(({ id }) => id === 'core:user:proxy' || id.startsWith('outbound:'))
    .map(async ({ id, webSocketDebuggerUrl }) => {
      const socket = new WebSocket(webSocketDebuggerUrl)
      await once(socket, 'open')
      socket.send(JSON.stringify({ id: 1, method: 'Runtime.getHeapUsage' }))
      const [{ data }] = (await once(socket, 'message')) as [{ readonly data: string }]
      socket.close()
      return [id, (JSON.parse(data) as { result: { usedSize: number } }).result.usedSize] as const
    })
  return Object.fromEntries(await Promise.all(used))
}

it('the collected garbage is that of idle isolates, too, and of the one that passes on requests', async () => {
  await collectGarbage(await runtime.getInspectorURL(), ask)
  const before = await usedBytes()
  for (let sent = 0; sent < REQUESTS; sent++) await ask()
  const full = await usedBytes()
  await collectGarbage(await runtime.getInspectorURL(), ask)
  const after = await usedBytes()
  expect(Object.keys(after)).toHaveLength(2)
  for (const [id, bytes] of Object.entries(after)) {
    const grown = full[id]! - before[id]!
    expect(grown, id).toBeGreaterThan(100_000)
    expect(bytes - before[id]!, id).toBeLessThan(grown / 2)
  }
})
