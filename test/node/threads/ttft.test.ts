/** Contract of reports in the main thread, used from an I/O thread over a real MessagePort. */
import { MessageChannel } from 'node:worker_threads'
import { RpcChannel } from '../../../src/platform/node/threads/rpc.ts'
import type { ToMain, ToThread } from '../../../src/platform/node/threads/messages.ts'
import { threadTtft } from '../../../src/platform/node/threads/ports.ts'
import { memoryTtft } from '../../../src/platform/node/memory-ttft.ts'
import { ttftContract } from '../../contracts/ttft.ts'

ttftContract('threadTtft', async () => {
  const kept = memoryTtft({ store: { maxRequests: 1000, maxBytes: 10_000_000, ttlMs: 600_000 } })
  const { port1, port2 } = new MessageChannel()
  const main = new RpcChannel<ToThread, ToMain>(port1, (word) =>
    word[0] === 'ttft' ? (kept[word[1]] as (...given: readonly unknown[]) => unknown)(...word[2]) : null,
  )
  const thread = new RpcChannel<ToMain, ToThread>(port2, () => undefined)
  port1.on('message', (batch: readonly unknown[]) => main.receive(batch))
  port2.on('message', (batch: readonly unknown[]) => thread.receive(batch))
  return { ttft: threadTtft(thread), evict: async () => {}, close: async () => port1.close() }
})
