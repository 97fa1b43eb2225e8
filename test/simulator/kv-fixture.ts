/** One engine with room for a few prompts, its event stream, a gateway's pool state, and faults between them. */
import { PoolState } from '../../src/core/pool/pool-state.ts'
import { EventStream } from '../../src/core/kv-events/event-stream.ts'
import type { EventFrame } from '../../src/core/kv-events/event-frames.ts'
import { PromptAnalyzer } from '../../src/core/tokens/prompt-analyzer.ts'
import { blockKeys } from '../../packages/simulator/src/block-keys.ts'
import type { CacheChange } from '../../packages/simulator/src/cache-journal.ts'
import { EngineModel } from '../../packages/simulator/src/engine-model.ts'
import { wireEvents } from '../../packages/simulator/src/kv-events.ts'
import { batchBytes } from '../../packages/simulator/src/kv-event-bytes.ts'
import { profileNamed } from '../../packages/simulator/src/profiles.ts'
import type { Sequence } from '../../packages/simulator/src/sequence.ts'
import { admission, engines, outcome, pool, probe, stats } from '../kit/pool-fixtures.ts'

export const ENGINE_BLOCK = 16
const CACHE_BLOCKS = 60

export interface Ask {
  readonly conversation: number
  readonly tokens: number
  readonly salted: boolean
}

interface RunningSequence {
  readonly key: string
  readonly sequence: Sequence
  /** -1: unknown. */
  readonly predicted: number
}

export class KvWorld {
  model: EngineModel
  stream: EventStream
  now = 0
  /** Batches that reach the bridge only by a replay. */
  toLose = 0
  readonly #blockTokens: number
  readonly #keptBatches: number
  readonly #analyzer: PromptAnalyzer
  #state: PoolState
  #epoch = 1
  #seq = 0
  #kept: EventFrame[] = []
  #onTheWay: EventFrame[] = []
  /** The engine publishes a reset with its next step. */
  #resetUntold = false

  /** @param keptBatches number of batches that the engine keeps for replays */
  constructor(blockTokens: number, keptBatches = 10_000) {
    this.#blockTokens = blockTokens
    this.#keptBatches = keptBatches
    this.#analyzer = new PromptAnalyzer({
      model: 'qwen',
      blockTokens,
      encodeUtf8: () => 0,
      now: () => 0,
      tokenizer: null,
      template: null,
    })
    this.model = this.#newModel()
    this.stream = this.#newStream()
    this.#state = this.#newState()
    this.tell()
  }

  /** Whether the gateway regards its picture of the cache as complete, and it is. */
  get isExact(): boolean {
    return !this.#resetUntold && this.#state.digest(this.now).engines[0]?.kvFeed?.state === 'exact'
  }

  /** Books a request and submits it to the engine. */
  begin({ conversation, tokens, salted }: Ask): RunningSequence {
    const salt = salted ? `salt ${conversation}` : null
    const prompt = Array.from({ length: tokens }, (_, at) => conversation * 1000 + (at >> 2))
    const { blocks } = this.#analyzer.measure({
      prompt: { form: 'ids', lists: [prompt] },
      bodyBytes: 0,
      adapter: null,
      salts: salt === null ? [] : [salt],
      tenant: null,
    })
    const answer = this.#state.admit(admission({ blocks, promptTokens: tokens }), this.now)
    if ('refusal' in answer) throw new Error(answer.refusal.detail)
    const all = Uint32Array.from([...prompt, 5, 6, 7, 8])
    const sequence = this.model.submit(
      {
        promptTokens: tokens,
        outputTokens: 4,
        blocks: blockKeys(all, ENGINE_BLOCK, salt ?? ''),
        content: { tokens: all, salt, adapter: null },
      },
      this.now,
    )
    return { key: answer.key, sequence, predicted: this.#state.explain(answer.key)?.predictedCachedTokens ?? -1 }
  }

  /** Runs the next step of the engine. */
  step(): void {
    this.model.advance((this.now = this.model.nextEventAt()))
  }

  /** Runs until all have ended. */
  finish(running: readonly RunningSequence[]): void {
    const left = new Set(running)
    while (left.size > 0) {
      for (const one of left) {
        if (!one.sequence.ended) continue
        this.#state.firstToken(one.key, {}, this.now)
        this.#state.release(one.key, outcome(), this.now)
        left.delete(one)
      }
      if (left.size > 0) this.step()
    }
  }

  /** The client disconnects before the first token. */
  cancel({ key, sequence }: RunningSequence): void {
    this.model.abort(sequence, this.now)
    this.#state.release(key, outcome({ result: 'client_gone' }), this.now)
    while (this.model.nextEventAt() < Infinity) this.step()
  }

  /** Runs a whole request, and sends its events to the gateway. */
  ask(ask: Ask): { readonly predicted: number; readonly cached: number } {
    const one = this.begin(ask)
    this.finish([one])
    this.tell()
    return { predicted: one.predicted, cached: one.sequence.cachedTokens }
  }

  /** The bridge receives pending batches, replays missing ones and posts to the gateway. */
  tell({ answerLost = false } = {}): void {
    for (const batch of this.#onTheWay) this.#receive(batch)
    this.#onTheWay = []
    this.#catchUp()
    if (answerLost && this.stream.log.isDue) this.#send()
    while (this.stream.log.isDue) this.#tellStep()
  }

  /** Sends everything, until no response is pending. */
  settle(): void {
    this.tell()
    for (const wait of [0, 1_000]) {
      this.now += wait
      // Without changes it sends a heartbeat.
      do this.#tellStep()
      while (this.stream.log.isDue)
    }
  }

  resetCache(): void {
    this.#resetUntold ||= this.model.resetCache()
  }

  restartEngine(): void {
    this.model = this.#newModel()
    this.#seq = 0
    this.#kept = []
    this.#onTheWay = []
    this.#resetUntold = false
    // The host sees that its sockets closed.
    this.stream.connectionLost()
  }

  restartGateway(): void {
    this.#state = this.#newState()
  }

  restartBridge(): void {
    this.#epoch += 1
    this.stream = this.#newStream()
  }

  #newModel(): EngineModel {
    const { limits, costModel } = profileNamed('test')
    const { now } = this
    const cached = (changes: readonly CacheChange[], at: number) => this.#publish(changes, at)
    const model = new EngineModel(
      {
        limits: {
          ...limits,
          blockTokens: ENGINE_BLOCK,
          cacheBlocks: CACHE_BLOCKS,
          maxModelLen: CACHE_BLOCKS * ENGINE_BLOCK,
        },
        costModel,
      },
      { cached },
    )
    model.advance(now)
    return model
  }

  #newStream(): EventStream {
    return new EventStream({
      pool: { model: 'qwen', blockTokens: this.#blockTokens },
      limits: { stepBlocks: 7, pendingBlocks: 1000 },
      replays: true,
    })
  }

  #newState(): PoolState {
    const state = new PoolState({ random: () => 0.5, epoch: 'e' })
    state.configure(1, pool({ blockTokens: this.#blockTokens, engines: engines('a') }), this.now)
    state.observe([probe('a', this.now, { stats: stats({ blockTokens: ENGINE_BLOCK }) })], this.now)
    return state
  }

  #publish(changes: readonly CacheChange[], atMs: number): void {
    const batch = {
      seq: this.#seq,
      payload: batchBytes(atMs / 1000, wireEvents(changes, ENGINE_BLOCK), this.#seq % 2 === 0 ? 'maps' : 'arrays'),
    }
    this.#seq += 1
    this.#kept = [...this.#kept, batch].slice(-this.#keptBatches)
    this.#resetUntold = false
    if (this.toLose > 0) this.toLose -= 1
    else this.#onTheWay.push(batch)
  }

  #receive(batch: EventFrame): void {
    if (this.stream.published(batch) === 'taken') return
    this.#catchUp()
    if (this.stream.published(batch) === 'replay') this.stream.replayFailed(batch)
  }

  #catchUp(): void {
    for (
      let from = this.stream.replayFrom;
      this.stream.replayed(
        this.#kept.filter(({ seq }) => seq >= from),
        from,
      ) === 'again';
    )
      from = this.stream.replayFrom
  }

  #tellStep(): void {
    if (this.#send() === 'ok') this.stream.log.acknowledged()
    else this.stream.log.resync()
  }

  #send(): string | undefined {
    const [state] = this.#state.feed(
      [
        {
          engine: 'a',
          epoch: this.#epoch,
          validMs: 60_000,
          blockTokens: this.#blockTokens,
          ...this.stream.delta(this.now),
        },
      ],
      this.now,
    )
    return state
  }
}
