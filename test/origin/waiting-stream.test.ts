import { expect, it } from 'vitest'
import type { Exchange } from '../../src/origin/exchange.ts'
import { withHeartbeatsWhileWaiting } from '../../src/origin/waiting-stream.ts'
import type { Timers } from '../../src/ports/timers.ts'
import { chat } from '../../src/protocols/chat.ts'
import { DONE, token } from '../kit/sse.ts'
import { turns } from '../wait.ts'

const HEARTBEAT_MS = 50

/** A clock that a test advances, with the timers that are due then. */
class VirtualTime implements Timers {
  nowMs = 0
  readonly #timers = new Set<{ readonly at: number; readonly ring: () => void }>()

  readonly now = (): number => this.nowMs

  set(delayMs: number, ring: () => void) {
    const timer = { at: this.nowMs + delayMs, ring }
    this.#timers.add(timer)
    return { cancel: () => void this.#timers.delete(timer) }
  }

  get running(): number {
    return this.#timers.size
  }

  async advance(ms: number): Promise<void> {
    this.nowMs += ms
    for (const timer of [...this.#timers].filter(({ at }) => at <= this.nowMs)) {
      this.#timers.delete(timer)
      timer.ring()
    }
    await turns(2)
  }
}

it('a stream whose answer comes beside a heartbeat leaves no timer of its wait, which would end it after write_ms', async () => {
  const time = new VirtualTime()
  const engine = Promise.withResolvers<ReadableStreamDefaultController<Uint8Array>>()
  const room = Promise.withResolvers<void>()
  const exchange = {
    heartbeatMs: HEARTBEAT_MS,
    writeMs: 1_000,
    protocol: chat,
    requestId: 'r',
    id: 'i',
    clientHeaders: [],
    signal: new AbortController().signal,
    scope: { background: () => {}, client: null, remoteAddress: null, timers: time },
  } as unknown as Exchange
  const forward = withHeartbeatsWhileWaiting(
    async ({ longWait }) => {
      await longWait!.during(room.promise)
      const body = new ReadableStream<Uint8Array>({ start: (controller) => engine.resolve(controller) })
      return new Response(body, { headers: { 'content-type': 'text/event-stream' } })
    },
    { timers: time, now: time.now },
  )
  const answer = forward(exchange)
  await time.advance(HEARTBEAT_MS)
  const reader = (await answer).body!.getReader()
  // A decoder between would read ahead of the client.
  const read = async () => new TextDecoder().decode((await reader.read()).value)
  expect(await read()).toBe(': ping\n')
  const beat = read()
  await turns()
  await time.advance(HEARTBEAT_MS)
  expect(await beat).toBe(': ping\n')
  // The client reads nothing while the answer comes.
  room.resolve()
  const controller = await engine.promise
  const encoder = new TextEncoder()
  controller.enqueue(encoder.encode(token('hello')))
  await turns()
  expect(await read()).toBe(token('hello'))
  expect(time.running).toBe(0)
  for (let passed = 0; passed < 5; passed++) await time.advance(1_000)
  expect(exchange.signal.aborted).toBe(false)
  controller.enqueue(encoder.encode(DONE))
  controller.close()
  expect(await read()).toBe(DONE)
  expect((await reader.read()).done).toBe(true)
})

it('a stream whose engine has sent its headers gets the answer with them, however late its body is', async () => {
  const time = new VirtualTime()
  const engine = Promise.withResolvers<Response>()
  const exchange = {
    heartbeatMs: HEARTBEAT_MS,
    scope: { background: () => {}, client: null, remoteAddress: null, timers: time },
    signal: new AbortController().signal,
  } as unknown as Exchange
  const forward = withHeartbeatsWhileWaiting(async ({ longWait }) => longWait!.during(engine.promise), {
    timers: time,
    now: time.now,
  })
  const answer = forward(exchange)
  await time.advance(HEARTBEAT_MS - 1)
  exchange.longWait!.headIsHere()
  await time.advance(HEARTBEAT_MS)
  const ofEngine = new Response('late')
  engine.resolve(ofEngine)
  expect(await answer).toBe(ofEngine)
  expect(time.running).toBe(0)
})
