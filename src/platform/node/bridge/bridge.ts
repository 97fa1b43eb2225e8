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
  status(): BridgeStatus
  close(): Promise<void>
}

const LIMITS: DeltaLimits = { stepBlocks: 10_000, waitingBlocks: 100_000 }

/** Listens to the engines and tells the gateway until it is closed. */
export function startBridge({ engines, open, log, checkMs = 1_000, limits = LIMITS, now = Date.now, ...way }: BridgeOptions): RunningBridge {
  const over = new AbortController()
  let poster: Poster | null = null
  const changed = () => poster?.changed()
  const listeners = engines.map((engine) => new EngineListener(engine, { open, limits, now, log, changed, checkMs }))
  poster = new Poster(listeners, { ...way, log, now, epoch: now() })
  const running = poster
  const posting = running.run(over.signal)
  return {
    status: () => statusOf(listeners, running),
    close: async () => {
      over.abort()
      await Promise.all([posting, ...listeners.map((listener) => listener.close())])
    },
  }
}
