import type { PoolBlocks } from '../../core/kv-events/block-translator.ts'
import type { DeltaLimits } from '../../core/kv-events/delta-log.ts'
import { EventStream } from '../../core/kv-events/event-stream.ts'
import type { EventFrame } from '../../core/kv-events/event-frames.ts'
import type { Log } from '../../ports/log.ts'
import type { EventEndpoints, EventSocket, OpenEventSocket } from './sockets.ts'

/** An engine whose KV events are forwarded. */
export interface BridgedEngine {
  readonly cluster: string
  readonly pool: PoolBlocks
  readonly id: string
  readonly events: EventEndpoints
  /** Data-parallel rank in its batches. Absent: it is no rank. */
  readonly rank?: number
}

interface ListenerParts {
  readonly open: OpenEventSocket
  readonly limits: DeltaLimits
  readonly now: () => number
  readonly log: Log
  /** Called when there is something to send. */
  readonly changed: () => void
  /** Silence in milliseconds after which the engine is polled. */
  readonly checkMs: number
}

/** A silent engine is polled every second. After this many unanswered polls in a row it counts as unreachable. */
const MISSED_CHECKS = 2
/** A loaded engine may answer late, and giving up discards the known cache contents. */
const REPLAY_TRIES = 3

/** Listens to one engine. Requests missed batches, and tracks whether the engine is reachable. */
export class EngineListener {
  readonly engine: BridgedEngine
  readonly stream: EventStream
  readonly #parts: ListenerParts
  readonly #socket: EventSocket
  readonly #timer: ReturnType<typeof setInterval>
  #lastMessageAt = Number.NEGATIVE_INFINITY
  #missedChecks = MISSED_CHECKS
  #connected = false
  #closed = false
  /** The pending operation. Operations run one after the other, because each one changes the stream. */
  #turn: Promise<void> = Promise.resolve()
  #loggedMismatch = false
  #loggedOtherRank = false
  #wasComplete = false

  constructor(engine: BridgedEngine, parts: ListenerParts) {
    this.engine = engine
    this.#parts = parts
    this.stream = new EventStream({
      pool: engine.pool,
      limits: parts.limits,
      replays: engine.events.replayEndpoint !== null,
      rank: engine.rank,
    })
    this.#socket = parts.open(engine.events, (connected) => this.#touched(connected))
    this.#timer = setInterval(() => this.#inTurn(() => this.#checkIfSilent()), parts.checkMs)
    this.#inTurn(() => this.#catchUp())
    this.#listen().catch((error: unknown) => parts.log.error('listening_ended', { engine: engine.id, error }))
  }

  /** True if the engine is reachable. Otherwise its cache is unknown and no heartbeat may be sent for it. */
  get isReachable(): boolean {
    return this.engine.events.replayEndpoint === null ? this.#connected : this.#missedChecks < MISSED_CHECKS
  }

  async close(): Promise<void> {
    this.#closed = true
    clearInterval(this.#timer)
    this.#socket.close()
    await this.#turn
  }

  async #listen(): Promise<void> {
    for await (const frame of this.#socket.batches()) {
      await this.#inTurn(() => this.#receive(frame))
      if (this.#closed) return
    }
  }

  async #receive(frame: EventFrame): Promise<void> {
    for (let tries = 0; this.stream.published(frame) === 'replay'; tries++) {
      if (this.#closed) return
      // The replay did not arrive or does not close the gap. The known state starts with this batch.
      if (tries === REPLAY_TRIES) this.stream.replayFailed(frame)
      else await this.#catchUp()
    }
    this.#isReachableNow()
  }

  /** Also detects a lost last batch of a burst, and an unnoticed restart. */
  async #checkIfSilent(): Promise<void> {
    if (this.engine.events.replayEndpoint === null || this.#parts.now() - this.#lastMessageAt < this.#parts.checkMs)
      return
    await this.#catchUp()
  }

  /**
   * Requests everything after the last batch, or everything from the start if that fails. Returns false if the engine
   * does not answer.
   */
  async #catchUp(): Promise<boolean> {
    for (;;) {
      const from = this.stream.replayFrom
      const answer = await this.#socket.replay(from)
      if (answer === null) {
        this.#missedCheck()
        return false
      }
      if (this.stream.replayed(answer, from) === 'done') break
    }
    this.#isReachableNow()
    return true
  }

  #isReachableNow(): void {
    const { id } = this.engine
    const { log } = this.#parts
    if (!this.isReachable) log.info('kv_events_connected', { engine: id, complete: this.stream.isComplete })
    this.#lastMessageAt = this.#parts.now()
    this.#missedChecks = 0
    if (!this.stream.fits && !this.#loggedMismatch) {
      log.error('block_size_mismatch', {
        engine: id,
        engine_block_tokens: this.stream.engineBlockTokens,
        block_tokens: this.engine.pool.blockTokens,
        next: 'set block_tokens of the pool to a multiple of the engine’s block size',
      })
    }
    this.#loggedMismatch = !this.stream.fits
    this.#logOtherRank()
    if (this.#wasComplete && !this.stream.isComplete)
      log.warn('events_lost', {
        engine: id,
        next:
          'the cache contents are incomplete until the cache is cleared or the engine restarts; a larger ' +
          'buffer_steps in --kv-events-config keeps more batches for replays',
      })
    this.#wasComplete = this.stream.isComplete
    this.#parts.changed()
  }

  #logOtherRank(): void {
    const { otherRank } = this.stream
    if (otherRank !== null && !this.#loggedOtherRank)
      this.#parts.log.error('events_of_other_rank', {
        engine: this.engine.id,
        rank: otherRank,
        next: 'the endpoint is that of another rank, whose events are ignored; the ports of ranks are consecutive',
      })
    this.#loggedOtherRank = otherRank !== null
  }

  #missedCheck(): void {
    this.stream.connectionLost()
    this.#missedChecks += 1
    if (this.#missedChecks === MISSED_CHECKS)
      this.#parts.log.warn('kv_events_lost', {
        engine: this.engine.id,
        next: 'check that the engine runs and that its event and replay ports are reachable from here',
      })
  }

  #touched(connected: boolean): void {
    this.#connected = connected
    if (!connected) this.stream.connectionLost()
    else this.#inTurn(() => this.#checkIfSilent())
  }

  #inTurn(work: () => Promise<void | boolean>): Promise<void> {
    this.#turn = this.#turn.then(async () => {
      if (this.#closed) return
      try {
        await work()
      } catch (error) {
        this.#parts.log.error('listening_failed', { engine: this.engine.id, error })
      }
    })
    return this.#turn
  }
}
