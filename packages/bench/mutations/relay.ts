/** Mutations of the relay: streams, SSE events, usage, release of the booking. */
import type { Mutation } from './mutation.ts'

const PULL = { node: ['test/origin/relay/relay-controller.test.ts'], workers: ['test/workers/origin.test.ts'] }
const LOAD = {
  node: ['test/node/contracts/output-load.test.ts'],
  built: ['test/node/contracts/output-load.worker.test.ts'],
}
const FORWARD = {
  node: ['test/origin/forward.test.ts', 'test/origin/lease-keeper.test.ts', 'test/origin/forward.retry-storm.test.ts'],
}

const CONTINUATION = { node: ['test/node/contracts/continuation.test.ts'] }

export const relay: readonly Mutation[] = [
  {
    name: 'output of streams never grows blocks',
    file: 'src/origin/relay/answer-relay.ts',
    find: 'placed.booking.progress(blocks)',
    replace: '',
    impact: 'long answers look free on every engine',
    tests: LOAD,
  },
  {
    name: 'output does not fill the partial block of the prompt',
    file: 'src/origin/relay/output-blocks.ts',
    find: 'this.#partial = shape.promptTokens % shape.blockTokens',
    replace: 'this.#partial = 0',
    impact: 'the last block of each stream is missing',
    tests: LOAD,
  },
  {
    name: 'events are counted as tokens',
    file: 'src/origin/relay/answer-relay.ts',
    find: 'tokensPerEvent: tokensPerEvent.of(this.#engine, exchange.path),',
    replace: 'tokensPerEvent: 1,',
    impact: 'output of engines that draft grows too slowly',
    tests: LOAD,
  },
  {
    name: 'first token is never reported',
    file: 'src/origin/relay/answer-relay.ts',
    find: 'placed.booking.firstToken(stages.snapshot())',
    replace: '',
    impact: 'prefill work stays until streams end',
    tests: LOAD,
  },
  {
    name: 'booking of a stream is never released',
    file: 'src/origin/relay/answer-relay.ts',
    find: 'const released = placed.booking.release(outcome)',
    replace: 'const released = null as Promise<void> | null',
    impact: 'engines fill up with requests that have ended',
    tests: {
      node: ['test/origin/forward.test.ts', 'test/node/contracts/output-load.test.ts'],
      built: ['test/node/contracts/output-load.worker.test.ts'],
    },
  },
  {
    name: 'first byte of a whole answer counts as a first token',
    file: 'src/origin/relay/answer-relay.ts',
    find: 'if (!this.#answer.sse || this.#hasBegun) return',
    replace: 'if (this.#hasBegun) return',
    impact: 'responses that are no streams distort TTFT predictions',
    tests: FORWARD,
  },
  {
    name: 'refused request counts as complete',
    file: 'src/origin/relay/answer-relay.ts',
    find: "return status >= 300 ? 'engine_refused' : 'complete'",
    replace: "return status > 400 ? 'engine_refused' : 'complete'",
    impact: 'answers of 400 are counted as served',
    tests: FORWARD,
  },
  {
    name: 'client that disconnects does not stop the engine',
    file: 'src/origin/relay/pull-relay.ts',
    find: "this.#parts.stop(new OriginError('reset', 'the client has disconnected'))",
    replace: '',
    impact: 'engines compute for clients that have disconnected',
    tests: { workers: PULL.workers },
  },
  {
    name: 'idle timeout never starts',
    file: 'src/origin/relay/relay-controller.ts',
    find: 'if (this.#started && idleMs > 0 && now - this.#idleSince >= idleMs - 1)',
    replace: 'if (this.#started && idleMs > 0 && idleMs < 0)',
    impact: 'a stream of a hung engine never ends',
    tests: PULL,
  },
  {
    name: 'a stream settles twice',
    file: 'src/origin/relay/relay-controller.ts',
    find: 'if (this.#settled) return\n    this.#settled = true',
    replace: 'this.#settled = true',
    impact: 'one request is counted twice',
    tests: PULL,
  },
  {
    name: 'heartbeat in the middle of an event',
    file: 'src/origin/relay/relay-controller.ts',
    find: 'return this.#heartbeatMs > 0 && this.#atBoundary',
    replace: 'return this.#heartbeatMs > 0',
    impact: 'a keep-alive breaks an event in two',
    tests: PULL,
  },
  {
    name: 'error event in the middle of an event',
    file: 'src/origin/relay/relay-controller.ts',
    find: 'hasRoom && this.#traits.sse && this.#atBoundary',
    replace: 'hasRoom && this.#traits.sse',
    impact: 'clients read half an event and an error as one',
    tests: PULL,
  },
  {
    name: 'events are reported once',
    file: 'src/origin/relay/relay-controller.ts',
    find: 'this.#reportAt = this.#options.onEvents(',
    replace: 'this.#reportAt = Infinity + this.#options.onEvents(',
    impact: 'active blocks stop growing after the first',
    tests: { built: ['test/node/contracts/output-load.worker.test.ts'] },
  },
  {
    name: 'text that was held back is lost at a continuation',
    file: 'src/origin/continuation/pending-text.ts',
    find: 'return { text: text.slice(record.sentLength), dropped }',
    replace: "return { text: '', dropped }",
    impact: 'a continued stream with stop strings has a gap',
    tests: CONTINUATION,
  },
  {
    name: 'text of a continuation is not compared',
    file: 'src/origin/continuation/pending-text.ts',
    find: "if (!record.beginsWithSent(text)) return 'text_differs'",
    replace: '',
    impact: 'an engine that decodes other text continues the stream',
    tests: CONTINUATION,
  },
  {
    name: 'an engine that continues may send any text',
    file: 'src/origin/continuation/checked-segment.ts',
    find: 'return isTextOf(text, added, {',
    replace: 'return true || isTextOf(text, added, {',
    impact: 'the prompt of a client is sent as output (vllm#48853)',
    tests: CONTINUATION,
  },
  {
    name: 'finish reason abort is complete',
    file: 'src/protocols/stream/event.ts',
    find: "new Set(['abort', 'error'])",
    replace: 'new Set([])',
    impact: 'streams of a paused engine end early, and look complete',
    tests: CONTINUATION,
  },
]
