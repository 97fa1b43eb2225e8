import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { parseConfig } from '../../../src/config/parse.ts'
import { LineBuffer } from '../../../src/platform/node/line-buffer.ts'
import { memoryPools, type MemoryPools } from '../../../src/platform/node/memory-pools.ts'
import { openLog } from '../../../src/platform/node/log.ts'
import { ThreadBookings } from '../../../src/platform/node/threads/thread-bookings.ts'
import { ThreadSupervisor } from '../../../src/platform/node/threads/thread-supervisor.ts'
import { poolNames } from '../../../src/platform/node/threads/pool-numbers.ts'
import type { ThreadStart } from '../../../src/platform/node/threads/thread.ts'
import type { PoolPort } from '../../../src/ports/pool.ts'
import { pool } from '../../kit/pool-fixtures.ts'
import { until } from '../../wait.ts'

const config = parseConfig(
  { clusters: [{ id: 'c', pools: [{ model: 'm', engines: [{ id: 'a', url: 'http://127.0.0.1:9' }] }] }] },
  {},
  { defaultVersion: 1, defaultObserveShare: 1, listens: true },
)

let clusters: MemoryPools
let poolHost: PoolPort
let lines: Record<string, unknown>[]
let thread: ThreadSupervisor

function open(
  number: number,
  entry: () => URL = () => new URL('./faulty-thread.ts', import.meta.url),
): ThreadSupervisor {
  const log = openLog('debug', { write: (line) => void lines.push(JSON.parse(line) as Record<string, unknown>) })
  const logged = new LineBuffer()
  const start: ThreadStart = {
    number,
    config,
    pools: poolNames(config),
    folder: '.',
    bodyKib: new SharedArrayBuffer(4 * number),
    logLines: logged.memory,
    startedAt: 0,
    configRefusedAt: null,
  }
  return new ThreadSupervisor({
    start: () => start,
    get entry() {
      return entry()
    },
    newBookings: () => new ThreadBookings(() => poolHost, log),
    receive: () => undefined,
    log,
    lines: logged,
  })
}

beforeEach(() => {
  lines = []
  clusters = memoryPools({ source: () => ({ version: 1, pool: pool() }) })
  poolHost = clusters.pool('paris', 'qwen')
})

afterEach(async () => {
  await thread.stop(10_000)
  clusters.close()
})

const lineOf = (event: string) => lines.find((line) => line['event'] === event)

describe('one thread', () => {
  it('a thread is started again after a fault, with its old bookings given back', async () => {
    thread = open(7)
    expect(await thread.start()).toEqual({ url: 'http://127.0.0.1:1', reports: null })
    expect((await poolHost.digest()).bookings).toBe(1)
    thread.forceStop()
    await until(() => lineOf('thread_exited') !== undefined)
    expect(lineOf('thread_failed')).toMatchObject({
      level: 'error',
      thread: 7,
      error: { message: 'Error: a fault nobody caught' },
    })
    expect(lineOf('thread_exited')).toMatchObject({ thread: 7, released: 1, restart_ms: 100 })
    expect((await poolHost.digest()).bookings).toBe(0)
    await expect(thread.call(['group_query', { about: 'counts' }])).rejects.toThrow(/being started/)
    await until(() => lineOf('thread_restarted') !== undefined)
    expect(await thread.call(['group_query', { about: 'counts' }])).toBe('still here')
    expect((await poolHost.digest()).bookings).toBe(1)
  })

  it('a thread is started again later when the machine has no thread to give, and the process lives on', async () => {
    let refused = 0
    let fails = false
    thread = open(7, () => {
      if (fails && refused++ === 0) throw new Error('no thread to be had')
      return new URL('./faulty-thread.ts', import.meta.url)
    })
    await thread.start()
    fails = true
    thread.forceStop()
    await until(() => lineOf('thread_restarted') !== undefined)
    expect(lines.filter((line) => line['event'] === 'thread_exited').map((line) => line['restart_ms'])).toEqual([
      100, 200,
    ])
    expect(lines.find((line) => JSON.stringify(line).includes('no thread to be had'))).toMatchObject({
      level: 'error',
      event: 'thread_failed',
      thread: 7,
    })
  })

  it('a thread rejects a failed start with its cause, and does not retry it', async () => {
    thread = open(13)
    await expect(thread.start()).rejects.toThrow('not today')
    await thread.stop(10_000)
    expect(lineOf('thread_restarted')).toBeUndefined()
  })

  it('a thread is not restarted after a stop', async () => {
    thread = open(7)
    await thread.start()
    expect(await thread.stop(10_000)).toEqual({ timedOut: false })
    expect(lineOf('thread_exited')).toBeUndefined()
    await expect(thread.call(['group_query', { about: 'counts' }])).rejects.toThrow()
    // Its stream has ended, so its booking is released.
    expect((await poolHost.digest()).bookings).toBe(0)
  })
})
