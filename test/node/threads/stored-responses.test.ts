/** Lookups of stored responses by several I/O threads, over ports whose messages the test delivers. */
import { describe, expect, it } from 'vitest'
import { MemoryResponses } from '../../../src/origin/memory-responses.ts'
import { RpcChannel } from '../../../src/platform/node/threads/rpc.ts'
import type { ToMain, ToThread } from '../../../src/platform/node/threads/messages.ts'
import { StoredResponseHost } from '../../../src/platform/node/threads/stored-response-host.ts'
const holding = { tenant: 't', cluster: 'c', pool: 'm', engine: 'e', model: 'm' }

/** Two threads and the main thread. Messages wait in `toMain` and `toThread` until they are delivered. */
function open(limitMs = 60_000) {
  const toMain: (readonly unknown[])[][] = [[], []]
  const threads = toMain.map(
    (posted) =>
      new RpcChannel<ToMain, ToThread>(
        { postMessage: (batch) => void posted.push(batch as readonly unknown[]) },
        () => null,
      ),
  )
  const channels: RpcChannel<ToThread, ToMain>[] = threads.map(
    (thread, at) =>
      new RpcChannel<ToThread, ToMain>(
        { postMessage: (batch) => thread.receive(batch as readonly unknown[]) },
        (word) => responses.receive(at + 1, word as Parameters<StoredResponseHost['receive']>[1]),
      ),
  )
  const responses = new StoredResponseHost(
    new MemoryResponses(10),
    (from) => channels.filter((_, at) => at + 1 !== from),
    limitMs,
  )
  const deliver = (from: number): void => {
    for (const batch of toMain[from]!.splice(0)) channels[from]!.receive(batch)
  }
  return { threads, deliver }
}

const turn = () => new Promise((resolve) => setImmediate(resolve))

describe('a stored response', () => {
  it('a stored response is found if the lookup overtakes the message of the serving thread', async () => {
    const { threads, deliver } = open()
    const [serving, asking] = threads as [RpcChannel<ToMain, ToThread>, RpcChannel<ToMain, ToThread>]
    serving.notify(['response_keep', 'resp_1', holding])
    serving.flush()
    const found = asking.call(['response_find', 'resp_1', 't'])
    asking.flush()
    deliver(1)
    // Until the main thread has queried the others, or has responded without that.
    for (let at = 0; at < 5; at++) await turn()
    deliver(0)
    expect(await found).toEqual(holding)
  })

  it('a stored response is not found if no thread served it, even if one does not answer', async () => {
    const { threads, deliver } = open(1)
    const found = threads[1]!.call(['response_find', 'resp_1', 't'])
    threads[1]!.flush()
    deliver(1)
    expect(await found).toBeNull()
  })
})
