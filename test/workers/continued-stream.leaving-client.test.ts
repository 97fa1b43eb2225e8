import { env } from 'cloudflare:workers'
import { expect, it } from 'vitest'
import type { ClusterObject } from '../../durable/cluster-object.ts'
import { objectName } from '../../src/platform/workers/durable-pools.ts'
import { ConfigSource } from '../../src/platform/workers/config-source.ts'
import { IsolateGateway } from '../../src/platform/workers/isolate-gateway.ts'
import { until } from '../wait.ts'

type Admit = Parameters<ClusterObject['admit']>

const GENERATION = 5_000
const START = { index: 0, text: 'a', finish_reason: null, token_ids: [3], prompt_token_ids: [1, 2] }

const engines = ['a', 'b'].map((id) => ({ id, url: `http://${id}.internal`, binding: 'ENGINES' }))
const document = {
  open: true,
  log: { level: 'silent' },
  limits: { heartbeat_ms: 0 },
  clusters: [
    {
      id: 'paris',
      generation: GENERATION,
      pools: [{ model: 'm', observe_share: 1, retry: { share: 1, min_per_s: 1000, mid_stream: 'ids' }, engines }],
    },
  ],
}

/** A response whose stream breaks as soon as `broken` resolves. */
function truncatedAnswer(broken: Promise<void>): Response {
  const event = `data: ${JSON.stringify({ id: 'c', choices: [START] })}\n\n`
  const body = new ReadableStream<Uint8Array>({
    start: (controller) => controller.enqueue(new TextEncoder().encode(event)),
    pull: async (controller) => {
      await broken
      controller.error(new Error('reset'))
    },
  })
  return new Response(body, { headers: { 'content-type': 'text/event-stream' } })
}

/** Work that keeps an invocation alive. The runtime ends the invocation of a client that left once all of it is done. */
class Invocation {
  readonly work: Promise<unknown>[] = []
  readonly context = { waitUntil: (work: Promise<unknown>) => void this.work.push(work) } as ExecutionContext

  async over(): Promise<void> {
    let known = 0
    while (known < this.work.length) {
      known = this.work.length
      await Promise.allSettled(this.work)
    }
  }
}

const completion = (signal: AbortSignal): Request =>
  new Request('https://gateway.test/v1/completions', {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'm', stream: true, prompt: 'x' }),
    signal,
  })

it('a stream whose client leaves while it is booked at another engine keeps its invocation until it is released there', async () => {
  const stub = env.CLUSTER.getByName(objectName('paris', 'm', GENERATION)) as DurableObjectStub<ClusterObject>
  const bookings = async (): Promise<number> => (await stub.digest()).bookings
  const [broken, answered] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  const invocation = new Invocation()
  let before: number | null = null
  const admit = async (...args: Admit) => {
    const isHandover = args[0].attempt > 0
    if (isHandover) before = invocation.work.length
    const answer = await stub.admit(...args)
    if (isHandover) await answered.promise
    return answer
  }
  const held = new Proxy(stub, {
    get: (of, name) => (name === 'admit' ? admit : (of as never)[name]),
  })
  const bindings = {
    ...env,
    CLUSTER: { idFromName: (name: string) => name, get: () => held } as unknown as typeof env.CLUSTER,
    ENGINES: { fetch: async () => truncatedAnswer(broken.promise) },
    FIRSTLIGHT_CONFIG: JSON.stringify(document),
  }
  const client = new AbortController()
  const gateway = new IsolateGateway(new ConfigSource(), { syncMs: 0 })
  const response = await gateway.fetch(completion(client.signal), bindings, invocation.context)
  const reader = response.body!.getReader()
  await reader.read()
  const rest = reader.read()
  broken.resolve()
  // Answers that come after the end of an invocation are lost, so the handover itself must be part of its work.
  const kept = invocation.work.slice(await until(() => before))
  expect(kept).not.toEqual([])
  client.abort()
  await Promise.allSettled([rest, reader.cancel()])
  answered.resolve()
  await Promise.allSettled(kept)
  await invocation.over()
  expect(await bookings()).toBe(0)
})
