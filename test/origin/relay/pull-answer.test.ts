import { chat } from '../../../src/protocols/chat.ts'
import { describe, expect, it, vi } from 'vitest'
import { OriginError } from '../../../src/ports/origin.ts'
import type { RelayOptions } from '../../../src/ports/relay.ts'
import { until } from '../../wait.ts'
import { PullAnswer, type ByteSource } from '../../../src/origin/relay/pull-answer.ts'
import { defaultTimers } from '../../../src/timers.ts'

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text)

/** A source of bytes that a test provides. */
class Source implements ByteSource {
  readonly #given: (Uint8Array | null)[] = []
  #waiting: ((chunk: Uint8Array | null) => void) | null = null
  #fail: (error: Error) => void = () => undefined

  read(): Promise<Uint8Array | null> {
    const given = this.#given.shift()
    if (given !== undefined) return Promise.resolve(given)
    return new Promise((resolve, reject) => {
      this.#waiting = resolve
      this.#fail = reject
    })
  }

  break(): void {
    this.#fail(new OriginError('reset', 'the engine broke off'))
  }

  isStopped = false

  stop(): void {
    this.isStopped = true
  }

  give(text: string | null): void {
    const chunk = text === null ? null : bytes(text)
    if (this.#waiting === null) this.#given.push(chunk)
    else this.#waiting(chunk)
    this.#waiting = null
  }
}

const relay = (): RelayOptions => ({
  scope: { background: () => undefined, client: null },
  status: 200,
  headers: [],
  protocol: chat,
  observe: true,
  hideUsage: false,
  heartbeatMs: 60_000,
  idleMs: 0,
  firstEvents: 0,
  onEvents: () => 0,
  onFirstByte: () => undefined,
  truncationEvent: () => bytes(''),
  settled: () => undefined,
})

const text = (chunk: { readonly value?: Uint8Array | undefined }): string => new TextDecoder().decode(chunk.value)

describe('an answer that is passed before its first byte', () => {
  const open = () => {
    const source = new Source()
    const headers = ['content-type', 'text/event-stream']
    return { source, answer: new PullAnswer({ status: 200, headers }, source, { now: () => 0 }) }
  }

  it('an answer that is passed before its first byte keeps bytes that come before the client reads', async () => {
    const { source, answer } = open()
    const begun = answer.firstByte()
    const reader = (answer.pass(relay()).body as ReadableStream<Uint8Array>).getReader()
    source.give('data: 1\n\n')
    await begun
    source.give('data: 2\n\n')
    source.give(null)
    const chunks = [await reader.read(), await reader.read(), await reader.read()]
    expect(chunks.map(text)).toEqual(['data: 1\n\n', 'data: 2\n\n', ''])
  })

  it('an answer that is passed before its first byte keeps bytes that come in the moment in which it is passed', async () => {
    const { source, answer } = open()
    const begun = answer.firstByte()
    source.give('data: 1\n\n')
    await Promise.resolve()
    const reader = (answer.pass(relay()).body as ReadableStream<Uint8Array>).getReader()
    await begun
    const first = reader.read()
    source.give('data: 2\n\n')
    expect(text(await first)).toBe('data: 1\n\n')
  })
})

describe('an answer whose idle limit passes', () => {
  const IDLE_MS = 50
  const open = async () => {
    const source = new Source()
    const headers = ['content-type', 'text/event-stream']
    const answer = new PullAnswer({ status: 200, headers }, source, { now: () => performance.now() })
    source.give('data: 1\n\n')
    await answer.firstByte()
    const reader = (answer.pass({ ...relay(), idleMs: IDLE_MS }).body as ReadableStream<Uint8Array>).getReader()
    await reader.read()
    return { source, reader }
  }
  const standStill = (): void => void Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 4 * IDLE_MS)

  it('while the process stands still gets what has arrived meanwhile', async () => {
    const { source, reader } = await open()
    const second = reader.read()
    setTimeout(() => {
      standStill()
      // After the timers that are due, as Node reads sockets.
      setImmediate(() => setTimeout(() => source.give('data: 2\n\n')))
    }, 1)
    expect(text(await second)).toBe('data: 2\n\n')
    expect(source.isStopped).toBe(false)
  })

  it('while the process stands still is stopped if nothing has arrived', async () => {
    const { source, reader } = await open()
    void reader.read()
    setTimeout(standStill, 1)
    await until(() => source.isStopped)
  })
})

describe('an answer that breaks off', () => {
  const open = async (options: RelayOptions) => {
    const source = new Source()
    const headers = ['content-type', 'text/event-stream']
    const answer = new PullAnswer({ status: 200, headers }, source, { now: () => 0 })
    source.give('data: 1\n\n')
    await answer.firstByte()
    const reader = (answer.pass(options).body as ReadableStream<Uint8Array>).getReader()
    await reader.read()
    const next = reader.read()
    await new Promise(setImmediate)
    source.break()
    return { reader, next }
  }

  it('ends with the error event', async () => {
    const { reader, next } = await open({ ...relay(), truncationEvent: (failure) => bytes(failure) })
    expect(text(await next)).toBe('reset')
    await expect(reader.read()).rejects.toThrow('the response was truncated')
  })

  it('an answer that breaks off ends at once if there is none', async () => {
    const { truncationEvent: _, ...options } = { ...relay(), heartbeatMs: 0 }
    const set = vi.fn((delayMs: number, callback: () => void) => defaultTimers.set(delayMs, callback))
    const { next } = await open({ ...options, scope: { ...options.scope, timers: { set } } })
    await expect(next).rejects.toThrow('the response was truncated')
    expect(set).not.toHaveBeenCalled()
  })
})
