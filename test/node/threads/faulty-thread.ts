/** A thread that reports that it listens, books once, and fails on a `hurry` message. Number 13 fails at once. */
import { parentPort, workerData } from 'node:worker_threads'
import { RpcChannel } from '../../../src/platform/node/threads/rpc.ts'
import type { ToMain, ToThread } from '../../../src/platform/node/threads/messages.ts'
import { admission } from '../../kit/pool-fixtures.ts'

if (workerData.number === 13) throw new Error('not today')
const line: RpcChannel<ToMain, ToThread> = new RpcChannel<ToMain, ToThread>(parentPort!, ([kind]) => {
  if (kind === 'stop') return { timedOut: false }
  if (kind !== 'stop_now') return 'still here'
  setImmediate(() => {
    throw new Error('a fault nobody caught')
  })
  return undefined
})
parentPort!.on('message', (batch: readonly unknown[]) => line.receive(batch))
await line.call(['admit', 0, admission({ id: `of-${process.hrtime.bigint()}` })])
line.notify(['listening', 'http://127.0.0.1:1', null])
