import type { DeltaLimits } from '../../core/kv-events/delta-log.ts'
import type { Log } from '../../ports/log.ts'
import { type BridgedEngine, EngineListener } from './engine-listener.ts'
import { Poster, type PosterOptions } from './poster.ts'
import type { OpenEventSocket } from './sockets.ts'
import { type BridgeStatus, statusOf } from './status.ts'

interface BridgeOptions extends Pick<PosterOptions, 'gateway' | 'key' | 'flushMs' | 'heartbeatMs'> {
  readonly engines: readonly BridgedEngine[]
  readonly open: OpenEventSocket
  readonly log: Log
  /** Silence in milliseconds after which an engine is polled. Default: 1 s. */
  readonly checkMs?: number
  readonly limits?: DeltaLimits
  readonly now?: () => number
}

export interface RunningBridge {
  /**
   * Adds an engine, or the ranks of a server, once `located` resolves with their sockets (empty: it publishes none).
   * `located` must not reject. The returned function removes them.
   */
  join(located: Promise<readonly BridgedEngine[]>): () => Promise<void>
  status(): BridgeStatus
  close(): Promise<void>
}

const LIMITS: DeltaLimits = { stepBlocks: 10_000, pendingBlocks: 100_000 }

/** Starts to listen to the engines and to forward their events to the gateway. Runs until closed. */
export function startBridge({
  engines,
  open,
  log,
  checkMs = 1_000,
  limits = LIMITS,
  now = Date.now,
  ...way
}: BridgeOptions): RunningBridge {
  const over = new AbortController()
  const listeners = new Set<EngineListener>()
  const poster = new Poster([], { ...way, log, now, epoch: now() })
  const listen = (engine: BridgedEngine): EngineListener => {
    const listener = new EngineListener(engine, { open, limits, now, log, changed: () => poster.changed(), checkMs })
    listeners.add(listener)
    poster.add(listener)
    return listener
  }
  for (const engine of engines) listen(engine)
  let awaited = 0
  const posting = poster.run(over.signal)
  return {
    join(located) {
      let left = false
      awaited += 1
      const joined = located.then((found) => {
        awaited -= 1
        return left || over.signal.aborted ? [] : found.map(listen)
      })
      return async () => {
        left = true
        const leaving = (await joined).filter((listener) => listeners.delete(listener))
        for (const listener of leaving) poster.remove(listener)
        await Promise.all(leaving.map((listener) => listener.close()))
      }
    },
    status: () => statusOf([...listeners], poster, awaited),
    close: async () => {
      over.abort()
      await Promise.all([posting, ...Array.from(listeners, (listener) => listener.close())])
    },
  }
}
