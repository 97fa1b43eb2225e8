import type { Sequence } from '../sequence.ts'
import type { Choice } from './job.ts'

const SECONDS = [
  0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560,
]

const LONG_SECONDS = [0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680]

const TOKEN_SECONDS = [0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80]

const STEP_TOKENS = [1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16_384]

/** Bucket bounds 1, 2, 5, 10, … up to the maximum context. */
function tokenBounds(maxModelLen: number): number[] {
  const bounds: number[] = []
  for (let decade = 1; decade <= maxModelLen; decade *= 10) {
    for (const step of [1, 2, 5]) if (step * decade <= maxModelLen) bounds.push(step * decade)
  }
  return bounds
}

/** Counts per bucket, not cumulative. */
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

/** What vLLM measures per request, under its own names and in its order. */
export class ServingMetrics {
  readonly rejections = { max_num_queued_reqs: 0, max_num_queued_tokens: 0 }
  readonly finished = { stop: 0, length: 0, abort: 0, error: 0, repetition: 0 }
  readonly promptTokens: Histogram
  readonly outputTokens: Histogram
  readonly stepTokens = new Histogram('iteration_tokens_total', STEP_TOKENS)
  readonly longestOutput: Histogram
  readonly choices = new Histogram('request_params_n', [1, 2, 5, 10, 20])
  readonly maxTokens: Histogram
  readonly ttft = new Histogram('time_to_first_token_seconds', SECONDS)
  readonly interToken = new Histogram('inter_token_latency_seconds', TOKEN_SECONDS)
  readonly perToken = new Histogram('request_time_per_output_token_seconds', TOKEN_SECONDS)
  readonly endToEnd = new Histogram('e2e_request_latency_seconds', LONG_SECONDS)
  readonly queue = new Histogram('request_queue_time_seconds', LONG_SECONDS)
  readonly inference = new Histogram('request_inference_time_seconds', LONG_SECONDS)
  readonly prefill = new Histogram('request_prefill_time_seconds', LONG_SECONDS)
  readonly decode = new Histogram('request_decode_time_seconds', LONG_SECONDS)
  readonly preemptions = new Histogram('request_num_preemptions', [1, 2, 3, 4, 5, 10, 20])
  readonly computedTokens: Histogram

  constructor(maxModelLen: number) {
    const bounds = tokenBounds(maxModelLen)
    this.promptTokens = new Histogram('request_prompt_tokens', bounds)
    this.outputTokens = new Histogram('request_generation_tokens', bounds)
    this.longestOutput = new Histogram('request_max_num_generation_tokens', bounds)
    this.maxTokens = new Histogram('request_params_max_tokens', bounds)
    this.computedTokens = new Histogram('request_prefill_kv_computed_tokens', bounds)
  }

  histograms(): readonly Histogram[] {
    return Object.values(this).filter((value): value is Histogram => value instanceof Histogram)
  }

  rejected(reason: 'max_num_queued_reqs' | 'max_num_queued_tokens'): void {
    this.rejections[reason] += 1
  }

  /** Records a finished request. An aborted one is not counted, as observed on a real server. */
  ended(choices: readonly Choice[], sequences: readonly Sequence[], maxTokens: number | null): void {
    if (sequences.some(({ state }) => state !== 'complete')) return
    sequences.forEach((sequence, at) => {
      this.finished[choices[at]!.plan.finish === 'length' ? 'length' : 'stop'] += 1
      this.#measure(sequence)
      this.choices.record(choices.length)
      if (maxTokens !== null) this.maxTokens.record(maxTokens)
    })
    this.longestOutput.record(Math.max(...sequences.map(({ outputs }) => outputs)))
  }

  #measure(sequence: Sequence): void {
    const decodeS = (sequence.lastTokenAt - sequence.firstTokenAt) / 1000
    this.promptTokens.record(sequence.spec.promptTokens)
    this.outputTokens.record(sequence.outputs)
    this.ttft.record((sequence.firstTokenAt - sequence.arrivedAt) / 1000)
    if (sequence.outputs > 1) this.perToken.record(decodeS / (sequence.outputs - 1))
    this.endToEnd.record((sequence.endedAt - sequence.arrivedAt) / 1000)
    this.queue.record((sequence.scheduledAt - sequence.arrivedAt) / 1000)
    this.inference.record((sequence.endedAt - sequence.scheduledAt) / 1000)
    this.prefill.record((sequence.firstTokenAt - sequence.scheduledAt) / 1000)
    this.decode.record(decodeS)
    this.preemptions.record(sequence.preemptions)
    this.computedTokens.record(sequence.spec.promptTokens - sequence.cachedTokens)
  }
}
