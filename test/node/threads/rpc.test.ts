import { MessageChannel, type MessagePort } from 'node:worker_threads'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { RestartBackoff } from '../../../src/platform/node/threads/restart-backoff.ts'
import { threadCount } from '../../../src/platform/node/threads/thread-count.ts'
import { RpcChannel, type RpcHandler } from '../../../src/platform/node/threads/rpc.ts'

describe('a line between two threads', () => {
  let ends: MessagePort[]
  let messages: number
  let received: unknown[]
  let here: RpcChannel<unknown, unknown>
  let there: RpcChannel<unknown, unknown>

  function connect(onMessage: RpcHandler<unknown>): void {
    const { port1, port2 } = new MessageChannel()
    ends = [port1, port2]
    messages = 0
    received = []
    here = new RpcChannel<unknown, unknown>(port1, () => undefined)
    there = new RpcChannel<unknown, unknown>(port2, (word) => {
      received.push(word)
      return onMessage(word)
    })
    port1.on('message', (batch: unknown[]) => here.receive(batch))
    port2.on('message', (batch: unknown[]) => {
      messages += 1
      there.receive(batch)
    })
  }

  beforeEach(() => connect((word) => word))
  afterEach(() => ends.forEach((port) => port.close()))

  it('a line between two threads answers each call with its own response, in any order', async () => {
    connect((word) => (Number(word) % 2 === 0 ? word : new Promise((resolve) => setImmediate(() => resolve(word)))))
    expect(await Promise.all([1, 2, 3, 4].map((word) => here.call(word)))).toEqual([1, 2, 3, 4])
  })

  it('a line between two threads sends the messages of one turn together, in order', async () => {
    here.notify('a', true)
    here.notify('b')
    const answered = here.call('c')
    here.notify('d', true)
    await answered
    expect(received).toEqual(['a', 'b', 'c', 'd'])
    expect(messages).toBe(1)
  })

  it('a line between two threads sends a deferred message at the latest after the batching delay', async () => {
    await new Promise<void>((resolve) => {
      ends[1]!.on('message', () => resolve())
      here.notify('late', true)
    })
    expect(received).toEqual(['late'])
  })

  it('a line between two threads returns an error as an error, and continues', async () => {
    connect((word) => {
      if (word === 'throw') throw new Error('no')
      return word === 'reject' ? Promise.reject(new Error('never')) : word
    })
    await expect(here.call('throw')).rejects.toThrow(/no/)
    await expect(here.call('reject')).rejects.toThrow(/never/)
    expect(await here.call('fine')).toBe('fine')
  })

  it('a line between two threads rejects pending and later calls of a thread that exited', async () => {
    connect(() => new Promise(() => {}))
    const answered = here.call('anything')
    here.close(new Error('gone'))
    await expect(answered).rejects.toThrow('gone')
    await expect(here.call('more')).rejects.toThrow('gone')
    here.notify('unheard')
    here.flush()
    expect(received).toEqual([])
  })
})

describe('the restart of a thread', () => {
  it('the restart of a thread waits twice as long each time, and no longer than ten seconds', () => {
    const backoff = new RestartBackoff()
    expect(Array.from({ length: 9 }, () => backoff.next(0))).toEqual([
      100, 200, 400, 800, 1600, 3200, 6400, 10_000, 10_000,
    ])
  })

  it('the restart of a thread resets its backoff after a long run', () => {
    const backoff = new RestartBackoff()
    for (let at = 0; at < 5; at++) backoff.next(0)
    backoff.began(1_000)
    expect(backoff.next(2_000)).toBe(3200)
    backoff.began(10_000)
    expect(backoff.next(40_000)).toBe(100)
  })
})

describe('how many threads', () => {
  const linux = { platform: 'linux', version: '24.21.0', cores: 8 }

  it('the number of threads leaves one core for the pool state', () => {
    expect(threadCount('auto', linux)).toBe(7)
    expect(threadCount('auto', { ...linux, cores: 2 })).toBe(1)
    expect(threadCount('auto', { ...linux, cores: 1 })).toBe(1)
  })

  it('the number of threads uses one thread if threads cannot share a port', () => {
    expect(threadCount('auto', { ...linux, platform: 'darwin' })).toBe(1)
    expect(threadCount(1, { ...linux, platform: 'darwin', version: '20.0.0' })).toBe(1)
  })

  it('the number of threads explains why more threads are not possible', () => {
    expect(() => threadCount(4, { ...linux, platform: 'darwin' })).toThrow(
      '4 workers need to listen on one port, which Node 24.21.0 cannot do on darwin.',
    )
    for (const version of ['20.20.2', '22.11.0', '23.0.0'])
      expect(() => threadCount(2, { ...linux, version })).toThrow(version)
    for (const version of ['22.12.0', '23.1.0', '24.0.0', '26.1.0'])
      expect(threadCount(2, { ...linux, version })).toBe(2)
  })
})
