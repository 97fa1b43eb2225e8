/** Sum of request bodies on Node: the shared contract, and every way in which a request to an engine can end. */
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { BodyMemory, countIn } from '../../src/body-memory.ts'
import { bodyMemoryContract } from '../contracts/body-memory.ts'
import { gatewayKeys } from '../contracts/gateway.ts'
import {
  chatBody,
  servers,
  jsonAnswer,
  openBothServers,
  RawClient,
  requestText,
  type BothServers,
} from '../node/inbound/both-servers.ts'
import { startNodeGateway } from '../kit/node-gateway.ts'
import { until } from '../wait.ts'

bodyMemoryContract('a gateway on Node', async (document) => {
  const gateway = await startNodeGateway(document)
  return {
    send: (request) => fetch(new Request(gateway.url + new URL(request.url).pathname, request)),
    close: () => gateway.stop(AbortSignal.abort()),
  }
})

describe('the bodies of requests that engines answer', () => {
  let both: BothServers
  beforeAll(async () => {
    both = await openBothServers()
  })
  afterAll(() => both.close())

  async function buffered(): Promise<number> {
    const answer = await fetch(`http://127.0.0.1:${both.port}/metrics`, {
      headers: { authorization: `Bearer ${gatewayKeys.admin}` },
    })
    return Number(/^firstlight_buffered_bytes (\d+)$/m.exec(await answer.text())![1])
  }

  const STREAM =
    'HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n22\r\ndata: {"choices":[{"text":"1"}]}\n\n\r\n'

  it.each(Object.entries(servers))(
    'the bodies of requests that engines answer are held while an engine thinks, and no longer, on the %s server',
    async (_, host) => {
      let answer: (() => void) | null = null
      both.answer = (socket) => void (answer = () => void socket.write(STREAM))
      const body = chatBody('x'.repeat(10_000), { stream: true })
      const client = new RawClient(both.port).send(requestText(host, { body }))
      await until(() => answer !== null)
      expect(await buffered()).toBe(Math.ceil(body.length / 1024) * 1024)
      answer!()
      await until(() => client.pending.includes('data: {'))
      expect(await buffered()).toBe(0)
      await client.close()
    },
  )

  it('the bodies of requests that engines answer are all released when all requests have ended, in any way', async () => {
    const body = (kind: string): string =>
      chatBody(`${kind} ${'x'.repeat(3_000)}`, { stream: kind.startsWith('stream') })
    const kinds = ['whole', 'stream', 'streamCut', 'streamLeft', 'error', 'refused', 'reset', 'left'] as const
    both.answer = (socket, request) => {
      // A trial of the gateway, after failures of this engine, names no kind.
      const kind = /"content":"(\w+) /.exec(request)?.[1] ?? 'whole'
      if (kind === 'error') socket.write(jsonAnswer('{}', '500 Internal Server Error'))
      else if (kind === 'refused') socket.write(jsonAnswer('{}', '422 Unprocessable Entity'))
      else if (kind === 'reset') socket.destroy()
      else if (kind === 'whole') socket.write(jsonAnswer())
      else if (kind !== 'left') socket.write(STREAM)
      if (kind === 'stream') socket.write('e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n')
      if (kind === 'streamCut') setImmediate(() => socket.destroy())
    }
    const run = async (kind: (typeof kinds)[number], host: string): Promise<void> => {
      const client = new RawClient(both.port).send(requestText(host, { body: body(kind) }))
      if (kind === 'streamLeft') await until(() => client.pending.includes('data: {') || client.pending.includes(' 50'))
      else if (kind === 'left')
        await until(() => both.posts.some((one) => one.includes('"left ')) || client.pending !== '')
      else await client.answer()
      await client.close()
    }
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.tuple(fc.constantFrom(...kinds), fc.constantFrom(...Object.values(servers))), {
          minLength: 1,
          maxLength: 10,
        }),
        async (script) => {
          both.posts.length = 0
          await Promise.all(script.map(([kind, host]) => run(kind, host)))
          for (;;) {
            if ((await buffered()) === 0) return
            await new Promise((resolve) => setTimeout(resolve, 5))
          }
        },
      ),
      { numRuns: 15 },
    )
  })
})

describe('a count of bodies', () => {
  const limits = { bodyBytes: 3_000_000, bufferedBytes: 8_000_000 }

  it('a count of bodies equals the held bytes after any sequence of reserve, refuse and release, and ends at zero', () => {
    const step = fc.record({ body: fc.nat(5), bytes: fc.integer({ min: 0, max: 3_000_000 }), release: fc.boolean() })
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
        const memory = new BodyMemory(limits, countIn(new Int32Array(3), 1))
        const held = Array.from({ length: 6 }, () => ({ one: memory.open(), bytes: 0 }))
        for (const { body, bytes, release } of steps) {
          const at = held[body]!
          if (release) {
            at.one.release()
            at.one = memory.open()
            at.bytes = 0
          } else {
            try {
              at.one.grow(bytes)
              at.bytes += bytes
            } catch (failure) {
              expect(failure).toMatchObject({ reason: 'buffers_full' })
            }
          }
          expect(memory.bytes).toBe(held.reduce((sum, one) => sum + Math.ceil(one.bytes / 1024) * 1024, 0))
          expect(memory.bytes).toBeLessThanOrEqual(limits.bufferedBytes + 1024)
        }
        for (const { one } of held) one.release()
        for (const { one } of held) one.release()
        expect(memory.bytes).toBe(0)
      }),
    )
  })

  it('a count of bodies reserves nothing for a released body', () => {
    const memory = new BodyMemory(limits, countIn(new Int32Array(1)))
    const held = memory.open()
    held.release()
    held.grow(5_000)
    expect(memory.bytes).toBe(0)
  })

  it('a count of bodies has room for one body of maximum size, and is shared by all threads', () => {
    const slots = new Int32Array(new SharedArrayBuffer(8))
    const [first, second] = [0, 1].map(
      (own) => new BodyMemory({ bodyBytes: 3_000_000, bufferedBytes: 3_000_000 }, countIn(slots, own)),
    )
    const held = first!.open()
    held.grow(3_000_000)
    expect(second!.bytes).toBe(first!.bytes)
    expect(() => second!.open().grow(2_000)).toThrow('limits.buffered_bytes')
    held.release()
    expect(() => second!.open().grow(2_000)).not.toThrow()
  })

  it('a count of bodies adopts the limit of a new configuration', () => {
    const memory = new BodyMemory(limits, countIn(new Int32Array(1)))
    memory.adopt({ bodyBytes: 1_000, bufferedBytes: 2_000 })
    expect(() => memory.open().grow(4_000)).toThrow('limits.buffered_bytes')
  })
})
