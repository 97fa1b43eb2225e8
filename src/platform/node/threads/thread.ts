/** An I/O thread: a gateway on the shared port, with its pool state in the main thread. */
import { parentPort, workerData } from 'node:worker_threads'
import { countIn } from '../../../body-memory.ts'
import type { Config } from '../../../config.ts'
import { openLog } from '../log.ts'
import { startExports } from '../otlp/thread-exports.ts'
import { threadOutput } from '../standard-output.ts'
import { openWithListeners } from '../start-gateway.ts'
import { vocabulariesIn } from '../vocabulary-files.ts'
import { RpcChannel } from './rpc.ts'
import type { ToMain, ToThread } from './messages.ts'
import type { PoolName } from '../../../ports/pool.ts'
import { PoolNumbers } from './pool-numbers.ts'
import { threadGroup, threadPorts, type MainChannel } from './ports.ts'

/** Start parameters of a thread. */
export interface ThreadStart {
  /** Number from 1, for the log. */
  readonly number: number
  readonly config: Config
  /** Pools by number. */
  readonly pools: readonly PoolName[]
  /** Folder of relative vocabulary names. */
  readonly folder: string
  /** Bytes of request bodies per thread, in KiB: an Int32 for each thread, by its number. */
  readonly bodyKib: SharedArrayBuffer
  /** Lines of the log (`LineBuffer`). */
  readonly logLines: SharedArrayBuffer
  /** Start of the process, ms since the epoch. */
  readonly startedAt: number
  /** As `GatewayStatus.configRefusedAt`. */
  readonly configRefusedAt: number | null
}

/** Serves until stopped. Rejects if it cannot start, which ends the thread with that error. */
export async function runThread(): Promise<void> {
  const { config, pools, folder, number, bodyKib, logLines, startedAt, configRefusedAt } = workerData as ThreadStart
  const log = openLog(config.log.level, threadOutput(logLines), { thread: number }, config.log.format)
  const main = parentPort!
  const channel: MainChannel = new RpcChannel<ToMain, ToThread>(main, (message) => onMessage(message))
  main.on('message', (batch: readonly unknown[]) => channel.receive(batch))
  const numbers = new PoolNumbers(pools)
  const slots = new Int32Array(bodyKib)
  // Bodies of a failed thread no longer exist.
  Atomics.store(slots, number - 1, 0)
  const ports = threadPorts(config, { log, channel, numbers, bodyKib: countIn(slots, number - 1) })
  const vocabulariesOf = vocabulariesIn(folder, (opened) => opened)
  const open = await openWithListeners(config, ports, {
    folder,
    vocabularies: await vocabulariesOf(config),
    threads: slots.length,
    workerGroup: threadGroup(numbers, channel, startedAt),
  })
  const exported = startExports(config, { log, gateway: number === 1 ? open.gateway : null })
  open.configRefused(configRefusedAt)
  const now = new AbortController()

  async function adopt(next: Config, names: readonly PoolName[], sameFiles: boolean): Promise<void> {
    const vocabularies = await vocabulariesOf(next, sameFiles)
    numbers.adopt(names)
    ports.adopt(next)
    open.adopt(next, vocabularies)
    log.setLevel(next.log.level)
    exported.adopt(next)
  }

  function onMessage(message: ToThread): unknown {
    switch (message[0]) {
      case 'adopt':
        return adopt(message[1], message[2], message[3])
      case 'config_refused':
        return open.configRefused(message[1])
      case 'group_query':
        return open.gateway.answer(message[1])
      case 'sync':
        return null
      case 'stop':
        return open
          .stop(now.signal)
          .finally(() => exported.stop())
          .finally(() => ports.close())
      case 'stop_now':
        return now.abort()
    }
  }

  channel.notify(['listening', open.url, open.reports])
}
