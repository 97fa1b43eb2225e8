/** An I/O thread: a gateway of its own on the port that all share, whose books are with the main thread. */
import { parentPort, workerData } from 'node:worker_threads'
import type { Config } from '../../../config.ts'
import { openVocabularies } from '../../../vocabulary.ts'
import { openLog } from '../log.ts'
import { openGateway, tokenizersOf } from '../start-gateway.ts'
import { fileVocabularies } from '../vocabulary.ts'
import { Line } from './line.ts'
import { sharedByThreads, threadPorts, type LineToMain } from './ports.ts'
import type { ToMain, ToThread } from './words.ts'

/** What a thread is started with. */
export interface ThreadStart {
  /** Tells a thread of ours from anybody else's. */
  readonly firstlight: 'thread'
  /** From 1: for the log. */
  readonly number: number
  readonly config: Config
  /** Where relative names of vocabularies start. */
  readonly folder: string
  /** When the process was started, ms since the epoch. */
  readonly startedAt: number
}

/** Is this module running in a thread that `Threads` started? */
export function startedAsThread(): boolean {
  return (workerData as Partial<ThreadStart> | null)?.firstlight === 'thread'
}

/** Serves until it is told to stop. Rejects when it cannot begin, which ends the thread with that error. */
export async function runThread(): Promise<void> {
  const { config, folder, number, startedAt } = workerData as ThreadStart
  const log = openLog(config.log.level, undefined, { thread: number })
  const main = parentPort!
  const line: LineToMain = new Line<ToMain, ToThread>(main, (word) => hear(word))
  main.on('message', (batch: readonly unknown[]) => line.receive(batch))
  const vocabularies = await openVocabularies(tokenizersOf(config), fileVocabularies(folder))
  const ports = threadPorts(config, log, line)
  const gateway = await openGateway(config, ports, { vocabularies, shared: sharedByThreads(config, line, startedAt) })
  const now = new AbortController()

  function hear(word: ToThread): unknown {
    switch (word[0]) {
      case 'fellow':
        return gateway.answer(word[1])
      case 'stop':
        return gateway.stop(now.signal).finally(() => ports.close())
      case 'stop_now':
        return now.abort()
    }
  }

  line.tell(['listening', gateway.url, gateway.reports])
}
