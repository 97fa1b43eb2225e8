import type { DeltaLimits } from '../../../core/kv-events/delta-log.ts'
import type { Log } from '../../../ports.ts'
import { type BridgedEngine, EngineListener } from './engine-listener.ts'
import { Poster, type PosterOptions } from './poster.ts'
import type { OpenEventSocket } from './sockets.ts'
import { type BridgeStatus, statusOf } from './status.ts'

export interface BridgeOptions extends Pick<PosterOptions, 'gateway' | 'key' | 'flushMs' | 'heartbeatMs'> {
  readonly engines: readonly BridgedEngine[]
  /** Engines that are asked for their sockets: each joins when it has answered, null never. Must not reject. */
  readonly later?: readonly Promise<BridgedEngine | null>[]
  readonly open: OpenEventSocket
  readonly log: Log
  /** How long an engine may say nothing before it is asked. Default: 1 s. */
  readonly checkMs?: number
  readonly limits?: DeltaLimits
  readonly now?: () => number
}

export interface RunningBridge {
  status(): BridgeStatus
  close(): Promise<void>
}

const LIMITS: DeltaLimits = { stepBlocks: 10_000, waitingBlocks: 100_000 }

/** Listens to the engines and tells the gateway until it is closed. */
export function startBridge({ engines, later = [], open, log, checkMs = 1_000, limits = LIMITS, now = Date.now, ...way }: BridgeOptions): RunningBridge {
  const over = new AbortController()
  const listeners: EngineListener[] = []
  const poster = new Poster([], { ...way, log, now, epoch: now() })
  const join = (engine: BridgedEngine) => {
    const listener = new EngineListener(engine, { open, limits, now, log, changed: () => poster.changed(), checkMs })
    listeners.push(listener)
    poster.add(listener)
  }
  for (const engine of engines) join(engine)
  let awaited = later.length
  for (const asked of later) {
    void asked.then((engine) => {
      awaited -= 1
      if (engine !== null && !over.signal.aborted) join(engine)
    })
  }
  const posting = poster.run(over.signal)
  return {
    status: () => statusOf(listeners, poster, awaited),
    close: async () => {
      over.abort()
      await Promise.all([posting, ...listeners.map((listener) => listener.close())])
    },
  }
}
