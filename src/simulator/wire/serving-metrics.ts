import type { Sequence } from '../sequence.ts'

const SECONDS = [0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560]
const LONG_SECONDS = [0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680]
const TOKEN_SECONDS = [0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80]
const TOKENS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 20_000, 50_000, 100_000]

/** Counts by bucket, as Prometheus wants them. */
export class Histogram {
  readonly name: string
  readonly bounds: readonly number[]
  readonly counts: Float64Array
  sum = 0
  count = 0

  constructor(name: string, bounds: readonly number[]) {
    this.name = name
    this.bounds = bounds
    this.counts = new Float64Array(bounds.length)
  }

  /** The bucket counts are not cumulative here. */
  record(value: number): void {
    this.sum += value
    this.count += 1
    for (let at = 0; at < this.bounds.length; at += 1) {
      if (value <= this.bounds[at]!) {
        this.counts[at]! += 1
        return
      }
    }
  }
}

/** What vLLM measures per request, under its own names. */
export class ServingMetrics {
  readonly ttft = new Histogram('time_to_first_token_seconds', SECONDS)
  readonly interToken = new Histogram('inter_token_latency_seconds', TOKEN_SECONDS)
  readonly perToken = new Histogram('request_time_per_output_token_seconds', TOKEN_SECONDS)
  readonly endToEnd = new Histogram('e2e_request_latency_seconds', LONG_SECONDS)
  readonly queue = new Histogram('request_queue_time_seconds', LONG_SECONDS)
  readonly inference = new Histogram('request_inference_time_seconds', LONG_SECONDS)
  readonly prefill = new Histogram('request_prefill_time_seconds', LONG_SECONDS)
  readonly decode = new Histogram('request_decode_time_seconds', LONG_SECONDS)
  readonly promptTokens = new Histogram('request_prompt_tokens', TOKENS)
  readonly outputTokens = new Histogram('request_generation_tokens', TOKENS)
  readonly rejections = { max_num_queued_reqs: 0, max_num_queued_tokens: 0 }
  readonly finished = { stop: 0, length: 0, abort: 0, error: 0, repetition: 0 }

  rejected(reason: 'max_num_queued_reqs' | 'max_num_queued_tokens'): void {
    this.rejections[reason] += 1
  }

  histograms(): readonly Histogram[] {
    return [
      this.ttft,
      this.interToken,
      this.perToken,
      this.endToEnd,
      this.queue,
      this.inference,
      this.prefill,
      this.decode,
      this.promptTokens,
      this.outputTokens,
    ]
  }

  /** A sequence came to its end; an aborted one is not counted anywhere, as seen on a real server. */
  ended(sequence: Sequence, finish: 'stop' | 'length'): void {
    if (sequence.state !== 'complete') return
    this.finished[finish] += 1
    const decodeS = (sequence.lastTokenAt - sequence.firstTokenAt) / 1000
    this.ttft.record((sequence.firstTokenAt - sequence.arrivedAt) / 1000)
    this.endToEnd.record((sequence.endedAt - sequence.arrivedAt) / 1000)
    this.queue.record((sequence.scheduledAt - sequence.arrivedAt) / 1000)
    this.inference.record((sequence.endedAt - sequence.scheduledAt) / 1000)
    this.prefill.record((sequence.firstTokenAt - sequence.scheduledAt) / 1000)
    this.decode.record(decodeS)
    this.promptTokens.record(sequence.spec.promptTokens)
    this.outputTokens.record(sequence.outputs)
    if (sequence.outputs > 1) this.perToken.record(decodeS / (sequence.outputs - 1))
  }
}
