/** Sockets for the KV events of simulated engines. */
import type { Publisher, Router } from 'zeromq'
import { seqFrame } from '../../../../src/core/kv-events/event-frames.ts'
import type { CacheChange } from '../cache-journal.ts'
import { batchBytes, type Encoding } from '../kv-event-bytes.ts'
import { type KvEventSink, wireEvents } from '../kv-events.ts'
import { loadZmq, type Zmq } from '../../../../src/platform/node/zmq.ts'

export interface KvPublisherOptions {
  /** Default: `maps`, as in vLLM 0.24 and later. */
  readonly encoding?: Encoding
  /** Replay responses contain the topic, as in vLLM 0.26 and later. Default: true. */
  readonly topicInReplay?: boolean
  /** Batches kept for replays. */
  readonly bufferSteps?: number
  readonly topic?: string
}

const BIND_TRIES = 100

const BIND_AGAIN_MS = 20

const EMPTY = new Uint8Array(0)

const END = new Uint8Array(8).fill(0xff)

/**
 * Event sockets of one simulated engine, as in vLLM: a PUB socket that drops unread messages, and a ROUTER socket for
 * replays.
 */
export class KvPublisher implements KvEventSink {
  readonly #zmq: Zmq
  readonly #options: Required<KvPublisherOptions>
  readonly #blockTokens: number
  #publisher: Publisher
  #router: Router
  #endpoint = 'tcp://127.0.0.1:*'
  #replayEndpoint = 'tcp://127.0.0.1:*'
  #seq = 0
  #kept: { readonly seq: number; readonly payload: Uint8Array }[] = []
  /** The pending socket operation. Operations run one after the other. */
  #turn: Promise<void> = Promise.resolve()
  /** Number of batches to drop instead of publishing, as a network might. */
  drop = 0

  private constructor(zmq: Zmq, blockTokens: number, options: KvPublisherOptions) {
    this.#zmq = zmq
    this.#blockTokens = blockTokens
    this.#options = { encoding: 'maps', topicInReplay: true, bufferSteps: 10_000, topic: '', ...options }
    this.#publisher = new zmq.Publisher({ linger: 0 })
    this.#router = new zmq.Router({ linger: 0 })
  }

  /** Opens free local ports. Throws ZmqMissing. */
  static async open(blockTokens: number, options: KvPublisherOptions = {}): Promise<KvPublisher> {
    const publisher = new KvPublisher(await loadZmq(), blockTokens, options)
    await publisher.#bind()
    return publisher
  }

  /** Number of batches since the engine started. */
  get published(): number {
    return this.#seq
  }

  get endpoint(): string {
    return this.#endpoint
  }

  get replayEndpoint(): string {
    return this.#replayEndpoint
  }

  sources(): object {
    const { bufferSteps, topic } = this.#options
    return {
      0: {
        enable_kv_cache_events: true,
        publisher: 'zmq',
        endpoint: this.#endpoint,
        replay_endpoint: this.#replayEndpoint,
        buffer_steps: bufferSteps,
        hwm: 100_000,
        max_queue_size: 100_000,
        topic,
      },
    }
  }

  publish(changes: readonly CacheChange[], atMs: number): void {
    const batch = {
      seq: this.#seq++,
      payload: batchBytes(atMs / 1000, wireEvents(changes, this.#blockTokens), this.#options.encoding),
    }
    this.#kept.push(batch)
    if (this.#kept.length > this.#options.bufferSteps) this.#kept.shift()
    if (this.drop > 0) {
      this.drop -= 1
      return
    }
    this.#turn = this.#turn
      .then(() => this.#publisher.send([this.#options.topic, seqFrame(batch.seq), batch.payload]))
      .catch(() => undefined)
  }

  restarted(): void {
    this.#seq = 0
    this.#kept = []
    this.#turn = this.#turn
      .then(async () => {
        this.#close()
        this.#publisher = new this.#zmq.Publisher({ linger: 0 })
        this.#router = new this.#zmq.Router({ linger: 0 })
        await this.#bindAgain()
      })
      .catch(() => undefined)
  }

  /** ZeroMQ releases the port of a closed socket with a delay. */
  async #bindAgain(): Promise<void> {
    for (let tries = 1; ; tries++) {
      try {
        return await this.#bind()
      } catch (error) {
        if (tries === BIND_TRIES) throw error
        await new Promise((resolve) => setTimeout(resolve, BIND_AGAIN_MS))
      }
    }
  }

  async close(): Promise<void> {
    await this.#turn
    this.#close()
  }

  #close(): void {
    this.#publisher.close()
    this.#router.close()
  }

  async #bind(): Promise<void> {
    // It may be bound already if the other socket could not be bound.
    if (this.#publisher.lastEndpoint === null) await this.#publisher.bind(this.#endpoint)
    if (this.#router.lastEndpoint === null) await this.#router.bind(this.#replayEndpoint)
    this.#endpoint = this.#publisher.lastEndpoint ?? this.#endpoint
    this.#replayEndpoint = this.#router.lastEndpoint ?? this.#replayEndpoint
    void this.#answerReplays(this.#router)
  }

  async #answerReplays(router: Router): Promise<void> {
    try {
      for await (const [client, , from] of router) {
        if (client === undefined || from === undefined || from.length !== 8) continue
        const start = Number(from.readBigUInt64BE())
        const topic = this.#options.topicInReplay ? [this.#options.topic] : []
        for (const { seq, payload } of this.#kept)
          if (seq >= start) await router.send([client, EMPTY, ...topic, seqFrame(seq), payload])
        await router.send([client, EMPTY, ...topic, END, EMPTY])
      }
    } catch {
      // Closed in the middle of an answer.
    }
  }
}
