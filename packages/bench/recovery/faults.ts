/** The faults of the recovery benchmark: how each starts on an engine, and how it ends. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { SimulatedEngine } from '../../simulator/src/engine.ts'
import type { FaultRule } from '../../simulator/src/faults.ts'
import { chatBody } from './load.ts'

export interface Fault {
  readonly name: string
  /** `busy` and `slow` engines still serve, and `flapping` ones at times: requests may be placed there. */
  readonly kind: 'out' | 'slow' | 'busy' | 'flapping' | 'wrong'
  start(engine: SimulatedEngine): void
  /** Ends it; the engine is healthy from then on. */
  end(engine: SimulatedEngine): void
  /** How long it lasts, ms. Absent: that of the other faults. */
  readonly ms?: number
  /** Settings of the pool. Absent: ordinary ones. */
  readonly pool?: object
}

const rule = (name: string, fault: FaultRule, kind: Fault['kind'] = 'out'): Fault => ({
  name,
  kind,
  start: (engine) => engine.setFault(fault),
  end: (engine) => engine.setFault(null),
})

const NOT_FOUND = {
  error: { message: 'The model `sim` does not exist.', type: 'NotFoundError', param: 'model', code: 404 },
}

/** As vLLM's `--max-num-queued-requests` answers. */
const BUSY = {
  error: {
    message: 'The server is overloaded: the request queue is full. Please retry later.',
    type: 'ServiceUnavailableError',
    param: null,
    code: 503,
  },
}

const FLAPPING_MS = 60_000
const FLAP_MS = 5_000

/** Alternates between the fault and health, five seconds each. */
function flapping(name: string, fault: FaultRule): Fault {
  const stopped = new WeakSet<SimulatedEngine>()
  return {
    name,
    kind: 'flapping',
    ms: FLAPPING_MS,
    start: (engine) => {
      void (async () => {
        for (let isSick = true; !stopped.has(engine); isSick = !isSick) {
          engine.setFault(isSick ? fault : null)
          await sleep(FLAP_MS)
        }
        engine.setFault(null)
      })()
    },
    end: (engine) => {
      stopped.add(engine)
      engine.setFault(null)
    },
  }
}

/** Requests past the gateway that fill the engine's KV cache, and keep it full. */
function kvFull(): Fault {
  const stopped = new WeakMap<SimulatedEngine, AbortController>()
  return {
    name: 'kv full',
    kind: 'busy',
    start: (engine) => {
      const abort = new AbortController()
      stopped.set(engine, abort)
      for (let at = 0; at < KV_FILLERS; at++) void fill(engine, abort.signal)
    },
    end: (engine) => stopped.get(engine)?.abort(),
  }
}

const KV_FILLERS = 14
const FILLER_PROMPT_TOKENS = 2_000
const FILLER_OUTPUT_TOKENS = 3_000

async function fill(engine: SimulatedEngine, signal: AbortSignal): Promise<void> {
  const body = chatBody(FILLER_PROMPT_TOKENS, FILLER_OUTPUT_TOKENS)
  while (!signal.aborted) {
    try {
      const headers = { 'content-type': 'application/json' }
      const response = await fetch(`${engine.url}/v1/chat/completions`, { method: 'POST', headers, body, signal })
      await response.text()
    } catch {
      if (!signal.aborted) await sleep(100)
    }
  }
}

/** Some 40 comparisons take this long on three engines with one comparison at a time. */
const WRONG_MS = 90_000

const RESTART_MS = 5_000

/** Killed, and started again after five seconds with an empty cache. */
const restart: Fault = {
  name: 'restart',
  kind: 'out',
  ms: RESTART_MS,
  start: (engine) => engine.kill(),
  end: (engine) => engine.restart(),
}

export const faults: readonly Fault[] = [
  rule('refuse', { kind: 'refuse' }),
  rule('reset', { kind: 'reset', after: 0 }),
  rule('hang at accept', { kind: 'hang', where: 'head', scope: 'all' }),
  rule('hang at head', { kind: 'hang', where: 'head' }),
  rule('hang at first token', { kind: 'hang', where: 'body' }),
  rule('hang mid-stream', { kind: 'hang', where: 'middle', after: 5 }),
  rule('core stopped', { kind: 'freeze' }),
  rule('health 503', { kind: 'status', status: 503, scope: 'all' }),
  rule('error 500', { kind: 'status', status: 500 }),
  rule('404 for the model', { kind: 'status', status: 404, body: NOT_FOUND }),
  rule('503 busy', { kind: 'status', status: 503, body: BUSY }, 'busy'),
  rule('empty 200', { kind: 'cut', after: 0 }),
  restart,
  // With the default share of 0.001 the same number of comparisons takes longer.
  { ...rule('wrong tokens', { kind: 'wrong' }, 'wrong'), pool: { canary: { share: 1, eject: true } }, ms: WRONG_MS },
  rule('10x slow', { kind: 'slow', factor: 10 }, 'slow'),
  rule('3x slow', { kind: 'slow', factor: 3 }, 'slow'),
  kvFull(),
  flapping('flapping: 500', { kind: 'status', status: 500 }),
  flapping('flapping: refuse', { kind: 'refuse' }),
  flapping('flapping: hang', { kind: 'hang', where: 'head' }),
]
