/** One engine's part of a stream. */
import { GapEstimator } from '../../core/continuation/idle-limit.ts'
import type { AttemptFailure, Usage } from '../../core/contract/contract.ts'
import type { EngineTarget, OriginAnswer, RelayOptions, RelayResult } from '../../ports.ts'
import type { AttemptContext } from '../classify.ts'
import { SseRecords } from '../relay/transform.ts'
import type { Segment } from './segments.ts'

const NOTHING = new Uint8Array(0)

/** The relay of one engine's answer, with its booking. */
export interface SegmentRelay {
  options(): RelayOptions
  /** Ends the booking. */
  release(end: RelayResult, usage: Usage | null): void
}

/** One engine's part of the stream. */
export interface Part {
  readonly attempt: AttemptContext
  readonly reader: ReadableStreamDefaultReader<Uint8Array>
  readonly records: SseRecords
  readonly segment: Segment
  readonly relay: SegmentRelay
  /** null: it runs. */
  end: RelayResult | null
}

/** Learned per process or isolate. The entries end with the engines of a configuration. */
const gaps = new WeakMap<EngineTarget, GapEstimator>()

export function gapsOf(engine: EngineTarget): GapEstimator {
  const known = gaps.get(engine) ?? new GapEstimator()
  gaps.set(engine, known)
  return known
}

type PartInput = Pick<Part, 'attempt' | 'segment' | 'relay'> & { readonly answer: OriginAnswer }

export function openPart({ answer, ...part }: PartInput, options: RelayOptions): Part {
  const opened = { ...part, end: null as RelayResult | null }
  const passed = answer.pass({
    ...options,
    // Without the client's socket the platform returns a stream.
    scope: { ...options.scope, client: null },
    idleMs: gapsOf(part.attempt.placed.engine).limitMs(options.idleMs),
    observe: true,
    hideUsage: false,
    endsWithDone: false,
    cutEvent: () => NOTHING,
    settled: (end) => void (opened.end = end),
  })
  return Object.assign(opened, { reader: passed.body!.getReader(), records: new SseRecords() })
}

export const goneEnd: RelayResult = { end: 'client_gone', failure: null, events: 0, usage: null, bytes: 0 }

export const cutEnd = (end: RelayResult | null, failure: AttemptFailure): RelayResult => ({
  ...(end ?? goneEnd),
  end: 'engine_cut',
  failure,
})
