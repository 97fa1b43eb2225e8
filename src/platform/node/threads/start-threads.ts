/** A gateway on several threads: I/O threads carry the requests, this thread has the pool state. See docs/scale.md. */
import type { Config } from '../../../config.ts'
import { addressText } from '../../../config/address.ts'
import type { Log } from '../../../ports/log.ts'
import { configurePools } from '../configure-pools.ts'
import { logEngineStats } from '../engine-stats-log.ts'
import { nodePorts, type RuntimeHooks } from '../ports.ts'
import { probeForever } from '../probe-forever.ts'
import { logAddresses, type OtherAddresses, type RunningGateway } from '../start-gateway.ts'
import { vocabulariesIn } from '../vocabulary-files.ts'
import { withFreeAddresses } from './free-address.ts'
import { MainThread } from './main-thread.ts'

export interface ThreadsOptions {
  /** I/O threads: 2 or more. */
  readonly count: number
  /** Folder of relative vocabulary names. */
  readonly folder?: string
  readonly hooks?: RuntimeHooks
}

export interface RunningThreads extends RunningGateway {
  /** Ends a thread like a fault, by its number from 1. For tests. */
  kill(thread: number): Promise<void>
}

/** Time beyond the limits for requests and their releases. */
const STOP_SLACK_MS = 10_000

/** Starts the threads. Rejects like `startGateway`. `threadCount` must have checked that threads can share a port. */
export async function startThreads(
  config: Config,
  log: Log,
  { count, folder = '.', hooks }: ThreadsOptions,
): Promise<RunningThreads> {
  // Vocabularies are checked here, where errors have their original type. Each thread opens its own.
  const checkVocabularies = vocabulariesIn(folder, () => true)
  await checkVocabularies(config)
  const bound = await withFreeAddresses(config)
  const ports = nodePorts(bound, log, { ...hooks, fenceThreads: (fenced) => mainThread.fence(fenced) })
  const mainThread: MainThread = new MainThread(bound, ports, { count, folder })
  const { threads } = mainThread
  const stopProbing = probeForever({ probe: () => mainThread.prober.round() }, log)
  const stats = logEngineStats(bound, ports)
  let { drainMs } = config.limits
  const adopt = async (next: Config, sameFiles = false) => {
    await checkVocabularies(next, sameFiles)
    const adopted = withBoundAddresses(next, bound)
    ports.adopt(adopted)
    mainThread.adopt(adopted)
    await configurePools(adopted, ports)
    stats.adopt(adopted)
    await Promise.all(threads.map((thread) => thread.adopt(sameFiles)))
    drainMs = next.limits.drainMs
  }
  const stop = async (now: AbortSignal) => {
    stopProbing()
    now.addEventListener('abort', () => threads.forEach((thread) => thread.forceStop()), { once: true })
    const ending = threads.map((thread) => thread.stop(drainMs + STOP_SLACK_MS))
    if (now.aborted) threads.forEach((thread) => thread.forceStop())
    const ends = await Promise.all(ending)
    stats.stop()
    await ports.close()
    return { timedOut: ends.some(({ timedOut }) => timedOut) }
  }
  try {
    const [first] = await Promise.all(threads.map((thread) => thread.start()))
    return {
      url: first!.url,
      ...logListeners(bound, first!.reports, log),
      adopt,
      configRefused: (at) => mainThread.configRefused(at),
      stop,
      kill: async (thread) => threads[thread - 1]?.kill(),
    }
  } catch (error) {
    await stop(AbortSignal.abort())
    throw error
  }
}

/** A new configuration with the addresses that the threads have opened. */
const withBoundAddresses = (next: Config, { listen, epp, keda, ttft }: Config): Config => ({
  ...next,
  listen,
  epp,
  keda,
  ttft: { ...next.ttft, listen: ttft.listen },
})

/** Logs the listeners that all threads have opened. Returns their addresses. */
function logListeners({ epp, keda }: Config, reports: string | null, log: Log): OtherAddresses {
  const addresses = {
    reports,
    picker: epp === null ? null : addressText(epp.listen),
    scaler: keda === null ? null : addressText(keda.listen),
  }
  logAddresses(addresses, log)
  return addresses
}
