import type { DeltaLimits } from '../../../core/kv-events/delta-log.ts'
import type { Log } from '../../../ports.ts'
import { type BridgedEngine, EngineListener } from './engine-listener.ts'
import { Poster, type PosterOptions } from './poster.ts'
import type { OpenEventSocket } from './sockets.ts'
import { type BridgeStatus, statusOf } from './status.ts'

export interface BridgeOptions extends Pick<PosterOptions, 'gateway' | 'key' | 'flushMs' | 'heartbeatMs'> {
  readonly engines: readonly BridgedEngine[]
  readonly open: OpenEventSocket
  readonly log: Log
  /** How long an engine may say nothing before it is asked. Default: 1 s. */
  readonly checkMs?: number
  readonly limits?: DeltaLimits
  readonly now?: () => number
}

export interface RunningBridge {
  /** One more engine, which is asked for its sockets: it is heard when it has answered, null never. Must not reject. What it answers ends that. */
  join(asked: Promise<BridgedEngine | null>): () => Promise<void>
  status(): BridgeStatus
  close(): Promise<void>
}

const LIMITS: DeltaLimits = { stepBlocks: 10_000, waitingBlocks: 100_000 }

/** Listens to the engines and tells the gateway until it is closed. */
export function startBridge({ engines, open, log, checkMs = 1_000, limits = LIMITS, now = Date.now, ...way }: BridgeOptions): RunningBridge {
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
    join(asked) {
      let left = false
      awaited += 1
      const joined = asked.then((engine) => {
        awaited -= 1
        return engine === null || left || over.signal.aborted ? null : listen(engine)
      })
      return async () => {
        left = true
        const listener = await joined
        if (listener === null || !listeners.delete(listener)) return
        poster.remove(listener)
        await listener.close()
      }
    },
    status: () => statusOf([...listeners], poster, awaited),
    close: async () => {
      over.abort()
      await Promise.all([posting, ...Array.from(listeners, (listener) => listener.close())])
    },
  }
}
