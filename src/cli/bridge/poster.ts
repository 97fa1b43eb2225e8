import { setTimeout as sleep } from 'node:timers/promises'
import type { Delta } from '../../core/kv-events/delta-log.ts'
import type { KvEventDeltaState } from '../../core/kv-events/delta.ts'
import type { Log } from '../../ports.ts'
import type { EngineListener } from './engine-listener.ts'

export interface PosterOptions {
  readonly gateway: string
  /** Sent as bearer token; null: none. */
  readonly key: string | null
  readonly log: Log
  /** Milliseconds since the epoch. */
  readonly now: () => number
  /** Names this run of the bridge; a later run has a higher number. Who is added later has a higher one, too: its steps are counted anew. */
  readonly epoch: number
  /** How long changes wait for company. */
  readonly flushMs: number
  /** A sign of life for an engine that says nothing. The gateway does without for three of them. */
  readonly heartbeatMs: number
}

/** What is known of the way to the gateway. */
export interface PosterCounts {
  posts: number
  failures: number
  /** Whole pictures that the gateway asked for. */
  resyncs: number
  /** Steps taken by the gateway. */
  steps: number
}

/** Blocks in one request, over all engines. */
const POST_BLOCKS = 50_000
const ANSWER_MS = 10_000
const FIRST_BACKOFF_MS = 250
const MOST_BACKOFF_MS = 10_000
/** Before a refused feed is tried again: somebody has to change a configuration, or another bridge to end. */
const REFUSED_MS = 15_000

const NEXT: Readonly<Record<Exclude<KvEventDeltaState, 'ok' | 'resync'>, string>> = {
  stale: 'another bridge feeds this engine; end one of the two',
  unknown:
    'the gateway has no such engine in that cluster and model: compare the two configurations; one that is found by name it may have yet to look up',
  block_tokens: 'the gateway’s pool has another block_tokens; start the bridge with the gateway’s configuration',
}

interface Line {
  readonly listener: EngineListener
  readonly epoch: number
  sentAt: number
  /** Not to be tried before. */
  heldUntil: number
  state: KvEventDeltaState | null
}

interface Step {
  readonly line: Line
  readonly delta: Delta
}

/**
 * Tells the gateway what the listeners heard: one request at a time with a step of every engine that has one, repeated
 * until it is answered. What comes meanwhile waits in the engines' logs, which are bounded.
 */
export class Poster {
  readonly counts: PosterCounts = { posts: 0, failures: 0, resyncs: 0, steps: 0 }
  readonly #options: PosterOptions
  readonly #lines: Line[]
  #epoch: number
  #wake: () => void = () => undefined
  #backoffMs = 0
  #problem: string | null = null
  #toldBytes = false

  constructor(listeners: readonly EngineListener[], options: PosterOptions) {
    this.#options = options
    this.#epoch = options.epoch
    this.#lines = listeners.map((listener) => lineOf(listener, options.epoch))
  }

  /** One more engine to tell of. */
  add(listener: EngineListener): void {
    this.#epoch = Math.max(this.#epoch + 1, this.#options.now())
    this.#lines.push(lineOf(listener, this.#epoch))
    this.#wake()
  }

  /** Nothing more is told of it; the gateway goes by its own guesses once a heartbeat is missing. */
  remove(listener: EngineListener): void {
    const at = this.#lines.findIndex((line) => line.listener === listener)
    if (at >= 0) this.#lines.splice(at, 1)
  }

  /** Why the gateway takes nothing; null: it does. */
  get problem(): string | null {
    return this.#problem
  }

  /** What the gateway answered last about an engine; null: nothing yet. */
  stateOf(listener: EngineListener): KvEventDeltaState | null {
    return this.#lines.find((line) => line.listener === listener)?.state ?? null
  }

  /** There may be something to send. */
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

  /** Sends what is due, once. */
  async round(): Promise<void> {
    const steps = this.#steps()
    if (steps.length > 0) await this.#post(steps)
  }

  /** Sleeps till the next sign of life; changes wake it, and wait a moment for company. */
  async #untilDue(signal: AbortSignal): Promise<void> {
    const { now, flushMs, heartbeatMs } = this.#options
    if (!this.#lines.some((line) => this.#isDue(line, now()))) {
      const over = new AbortController()
      this.#wake = () => over.abort()
      await sleep(heartbeatMs / 4, undefined, { signal: AbortSignal.any([signal, over.signal]) }).catch(() => undefined)
      this.#wake = () => undefined
    }
    if (!signal.aborted && flushMs > 0) await sleep(flushMs, undefined, { signal }).catch(() => undefined)
  }

  #isDue({ listener, sentAt, heldUntil }: Line, now: number): boolean {
    if (!listener.isHeard || now < heldUntil) return false
    // An engine that came back with blocks that do not fit: what was told of it ends, and then nobody speaks for it.
    return listener.stream.log.isDue || (listener.stream.fits && now - sentAt >= this.#options.heartbeatMs)
  }

  #steps(): Step[] {
    const now = this.#options.now()
    const steps: Step[] = []
    let blocks = 0
    for (const line of this.#lines) {
      if (blocks >= POST_BLOCKS) break
      if (!this.#isDue(line, now)) continue
      const delta = line.listener.stream.delta(now)
      blocks += (delta.stored.length + delta.removed.length) / 2
      steps.push({ line, delta })
    }
    return steps
  }

  async #post(steps: readonly Step[]): Promise<void> {
    const pools = inPools(steps)
    this.counts.posts += 1
    try {
      const answer = await this.#answerTo({ pools: pools.map((pool) => this.#wire(pool)) })
      const now = this.#options.now()
      for (const [at, pool] of pools.entries()) {
        const { states = [], exact_tokens: exactTokens } = answer[at] ?? {}
        if (exactTokens === false) this.#tellBytes(pool[0]!)
        for (const [index, step] of pool.entries()) this.#settle(step, states[index] ?? 'unknown', now)
      }
      if (this.#problem !== null) this.#options.log.info('kv_events_accepted', {})
      this.#problem = null
      this.#backoffMs = 0
    } catch (error) {
      this.#failed(error)
    }
  }

  #settle({ line }: Step, state: KvEventDeltaState, now: number): void {
    const { engine, stream } = line.listener
    line.sentAt = now
    if (state === 'ok') {
      stream.log.taken()
      this.counts.steps += 1
    } else {
      // Whatever it lacks, the next thing it is told is everything.
      stream.log.resync()
      if (state === 'resync') this.counts.resyncs += 1
      else {
        line.heldUntil = now + REFUSED_MS
        if (line.state !== state)
          this.#options.log.error('feed_refused', {
            engine: engine.id,
            cluster: engine.cluster,
            model: engine.pool.model,
            state,
            next: NEXT[state],
          })
      }
    }
    line.state = state
  }

  #failed(error: unknown): void {
    const message = error instanceof Error ? error.message : String(error)
    this.counts.failures += 1
    if (this.#problem !== message) this.#options.log.warn('kv_events_rejected', { error: message })
    this.#problem = message
    this.#backoffMs = Math.min(MOST_BACKOFF_MS, Math.max(FIRST_BACKOFF_MS, this.#backoffMs * 2))
  }

  #tellBytes({ line }: Step): void {
    if (this.#toldBytes) return
    this.#toldBytes = true
    const next =
      'set `tokenizer` of the pool (firstlight vocab compile): without it prompts are measured in bytes, which no engine’s tokens can be compared with; only prompts sent as token ids profit'
    this.#options.log.warn('prompts_measured_in_bytes', { model: line.listener.engine.pool.model, next })
  }

  #wire(pool: readonly Step[]): object {
    const { heartbeatMs } = this.#options
    const { cluster, pool: blocks } = pool[0]!.line.listener.engine
    const feeds = pool.map(({ line, delta }) => ({
      engine: line.listener.engine.id,
      epoch: line.epoch,
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
      throw new Error(`the gateway cannot be reached: ${causeOf(error)}`, { cause: error })
    })
    const text = await response.text()
    if (response.status !== 200) throw new Error(`the gateway answered ${response.status}: ${text.slice(0, 300)}`)
    const answer = JSON.parse(text) as { readonly pools?: unknown }
    if (!Array.isArray(answer.pools)) throw new Error('the gateway’s answer is not one to KV events')
    return answer.pools
  }
}

const lineOf = (listener: EngineListener, epoch: number): Line => ({
  listener,
  epoch,
  sentAt: Number.NEGATIVE_INFINITY,
  heldUntil: Number.NEGATIVE_INFINITY,
  state: null,
})

function inPools(steps: readonly Step[]): Step[][] {
  const pools = new Map<string, Step[]>()
  for (const step of steps) {
    const { cluster, pool } = step.line.listener.engine
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
