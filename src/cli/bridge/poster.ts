import { setTimeout as sleep } from 'node:timers/promises'
import type { Delta } from '../../core/kv-events/delta-log.ts'
import type { KvEventDeltaState } from '../../core/kv-events/event-delta.ts'
import type { Log } from '../../ports/log.ts'
import type { EngineListener } from './engine-listener.ts'

export interface PosterOptions {
  readonly gateway: string
  /** Sent as bearer token; null: no token. */
  readonly key: string | null
  readonly log: Log
  /** Milliseconds since the epoch. */
  readonly now: () => number
  /**
   * Epoch of this run. A later run has a higher epoch. An engine added later gets a higher epoch too, because its
   * steps restart at 0.
   */
  readonly epoch: number
  /** Time in milliseconds for which changes are batched. */
  readonly flushMs: number
  /** Interval of heartbeats for an idle engine. The gateway tolerates three missing heartbeats. */
  readonly heartbeatMs: number
}

/** Counters of the connection to the gateway. */
interface PosterCounts {
  posts: number
  failures: number
  /** Full snapshots that the gateway requested. */
  resyncs: number
  /** Steps that the gateway accepted. */
  steps: number
}

/** Maximum number of blocks in one request, over all engines. */
const POST_BLOCKS = 50_000
const ANSWER_MS = 10_000
const FIRST_BACKOFF_MS = 250
const MAX_BACKOFF_MS = 10_000
/** Delay before a rejected feed is retried. A configuration has to change, or another bridge has to stop. */
const REJECTED_MS = 15_000

const NEXT: Readonly<Record<Exclude<KvEventDeltaState, 'ok' | 'resync'>, string>> = {
  stale: 'another bridge sends events of this engine; stop one of the two',
  unknown:
    'the gateway has no such engine in this cluster and model. Compare the two configurations. If the engine ' +
    'is discovered by DNS, the gateway may not have resolved it yet',
  block_tokens: 'the gateway’s pool has a different block_tokens; start the bridge with the gateway’s configuration',
}

interface Feed {
  readonly listener: EngineListener
  readonly epoch: number
  sentAt: number
  /** Time before which no request is sent. */
  pausedUntil: number
  state: KvEventDeltaState | null
}

interface Step {
  readonly feed: Feed
  readonly delta: Delta
}

/**
 * Forwards the listeners' events to the gateway: one request at a time, with a step for every engine that has one,
 * repeated until it is acknowledged. Later changes wait in the engines' logs, which are bounded.
 */
export class Poster {
  readonly counts: PosterCounts = { posts: 0, failures: 0, resyncs: 0, steps: 0 }
  readonly #options: PosterOptions
  readonly #feeds: Feed[]
  #epoch: number
  #wake: () => void = () => undefined
  #backoffMs = 0
  #problem: string | null = null
  #warnedAboutBytes = false

  constructor(listeners: readonly EngineListener[], options: PosterOptions) {
    this.#options = options
    this.#epoch = options.epoch
    this.#feeds = listeners.map((listener) => feedOf(listener, options.epoch))
  }

  /** Adds an engine to forward. */
  add(listener: EngineListener): void {
    this.#epoch = Math.max(this.#epoch + 1, this.#options.now())
    this.#feeds.push(feedOf(listener, this.#epoch))
    this.#wake()
  }

  /** Stops forwarding an engine. The gateway returns to its own estimates when heartbeats are missing. */
  remove(listener: EngineListener): void {
    const at = this.#feeds.findIndex((feed) => feed.listener === listener)
    if (at >= 0) this.#feeds.splice(at, 1)
  }

  /** Why the gateway rejects updates; null if it accepts them. */
  get problem(): string | null {
    return this.#problem
  }

  /** The gateway's last answer about an engine; null before the first answer. */
  stateOf(listener: EngineListener): KvEventDeltaState | null {
    return this.#feeds.find((feed) => feed.listener === listener)?.state ?? null
  }

  /** Signals that there may be something to send. */
  changed(): void {
    this.#wake()
  }

  /** Sends until the signal is aborted. Never rejects. */
  async run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      await this.#untilDue(signal)
      if (signal.aborted) return
      await this.round()
      if (this.#backoffMs > 0) await sleep(this.#backoffMs, undefined, { signal }).catch(() => undefined)
    }
  }

  /** Sends everything that is due, once. */
  async round(): Promise<void> {
    const steps = this.#steps()
    if (steps.length > 0) await this.#post(steps)
  }

  /** Sleeps until the next heartbeat. A change wakes it after the batching delay. */
  async #untilDue(signal: AbortSignal): Promise<void> {
    const { now, flushMs, heartbeatMs } = this.#options
    if (!this.#feeds.some((feed) => this.#isDue(feed, now()))) {
      const over = new AbortController()
      this.#wake = () => over.abort()
      await sleep(heartbeatMs / 4, undefined, { signal: AbortSignal.any([signal, over.signal]) }).catch(() => undefined)
      this.#wake = () => undefined
    }
    if (!signal.aborted && flushMs > 0) await sleep(flushMs, undefined, { signal }).catch(() => undefined)
  }

  #isDue({ listener, sentAt, pausedUntil: heldUntil }: Feed, now: number): boolean {
    if (!listener.isReachable || now < heldUntil) return false
    // An engine returned with blocks that do not match. Its feed ends, and no heartbeat is sent for it.
    return listener.stream.log.isDue || (listener.stream.fits && now - sentAt >= this.#options.heartbeatMs)
  }

  #steps(): Step[] {
    const now = this.#options.now()
    const steps: Step[] = []
    let blocks = 0
    for (const feed of this.#feeds) {
      if (blocks >= POST_BLOCKS) break
      if (!this.#isDue(feed, now)) continue
      const delta = feed.listener.stream.delta(now)
      blocks += (delta.stored.length + delta.removed.length) / 2
      steps.push({ feed, delta })
    }
    return steps
  }

  async #post(steps: readonly Step[]): Promise<void> {
    const pools = byPool(steps)
    this.counts.posts += 1
    try {
      const answer = await this.#answerTo({ pools: pools.map((pool) => this.#wire(pool)) })
      const now = this.#options.now()
      for (const [at, pool] of pools.entries()) {
        const { states = [], exact_tokens: exactTokens } = answer[at] ?? {}
        if (exactTokens === false) this.#warnAboutBytes(pool[0]!)
        for (const [index, step] of pool.entries()) this.#settle(step, states[index] ?? 'unknown', now)
      }
      if (this.#problem !== null) this.#options.log.info('kv_events_accepted', {})
      this.#problem = null
      this.#backoffMs = 0
    } catch (error) {
      this.#failed(error)
    }
  }

  #settle({ feed }: Step, state: KvEventDeltaState, now: number): void {
    const { engine, stream } = feed.listener
    feed.sentAt = now
    if (state === 'ok') {
      stream.log.acknowledged()
      this.counts.steps += 1
    } else {
      // The gateway lacks some steps, so the next update is a full snapshot.
      stream.log.resync()
      if (state === 'resync') this.counts.resyncs += 1
      else {
        feed.pausedUntil = now + REJECTED_MS
        if (feed.state !== state)
          this.#options.log.error('feed_refused', {
            engine: engine.id,
            cluster: engine.cluster,
            model: engine.pool.model,
            state,
            next: NEXT[state],
          })
      }
    }
    feed.state = state
  }

  #failed(error: unknown): void {
    const message = error instanceof Error ? error.message : String(error)
    this.counts.failures += 1
    if (this.#problem !== message) this.#options.log.warn('kv_events_rejected', { error: message })
    this.#problem = message
    this.#backoffMs = Math.min(MAX_BACKOFF_MS, Math.max(FIRST_BACKOFF_MS, this.#backoffMs * 2))
  }

  #warnAboutBytes({ feed }: Step): void {
    if (this.#warnedAboutBytes) return
    this.#warnedAboutBytes = true
    const next =
      'set `tokenizer` of the pool (firstlight vocab compile). Without it, prompts are measured in bytes and ' +
      'do not match the engine’s blocks; only prompts sent as token ids do'
    this.#options.log.warn('prompts_measured_in_bytes', { model: feed.listener.engine.pool.model, next })
  }

  #wire(pool: readonly Step[]): object {
    const { heartbeatMs } = this.#options
    const { cluster, pool: blocks } = pool[0]!.feed.listener.engine
    const feeds = pool.map(({ feed, delta }) => ({
      engine: feed.listener.engine.id,
      epoch: feed.epoch,
      seq: delta.seq,
      reset: delta.reset,
      complete: delta.complete,
      valid_ms: heartbeatMs * 3,
      block_tokens: blocks.blockTokens,
      lag_ms: Math.round(delta.lagMs),
      stored: base64(delta.stored),
      removed: base64(delta.removed),
    }))
    return { cluster, model: blocks.model, feeds }
  }

  async #answerTo(
    body: object,
  ): Promise<readonly { readonly states?: readonly KvEventDeltaState[]; readonly exact_tokens?: boolean }[]> {
    const { gateway, key } = this.#options
    const response = await fetch(`${gateway}/v1/firstlight/kv-events`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...(key === null ? {} : { authorization: `Bearer ${key}` }) },
      body: JSON.stringify(body),
      signal: AbortSignal.timeout(ANSWER_MS),
      redirect: 'error',
    }).catch((error: unknown) => {
      throw new Error(`the gateway is unreachable: ${causeOf(error)}`, { cause: error })
    })
    const text = await response.text()
    if (response.status !== 200) throw new Error(`the gateway answered ${response.status}: ${text.slice(0, 300)}`)
    const answer = JSON.parse(text) as { readonly pools?: unknown }
    if (!Array.isArray(answer.pools))
      throw new Error('the server is not a Firstlight gateway: its response has no list `pools`')
    return answer.pools
  }
}

const feedOf = (listener: EngineListener, epoch: number): Feed => ({
  listener,
  epoch,
  sentAt: Number.NEGATIVE_INFINITY,
  pausedUntil: Number.NEGATIVE_INFINITY,
  state: null,
})

function byPool(steps: readonly Step[]): Step[][] {
  const pools = new Map<string, Step[]>()
  for (const step of steps) {
    const { cluster, pool } = step.feed.listener.engine
    const key = JSON.stringify([cluster, pool.model])
    pools.set(key, [...(pools.get(key) ?? []), step])
  }
  return [...pools.values()]
}

function base64(words: Uint32Array): string {
  return Buffer.from(words.buffer, words.byteOffset, words.byteLength).toString('base64')
}

function causeOf(error: unknown): string {
  const cause = error instanceof Error ? error.cause : undefined
  return cause instanceof Error ? cause.message : error instanceof Error ? error.message : String(error)
}
