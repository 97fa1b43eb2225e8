/** One engine's part of a stream. */
import { concatBytes } from '../../core/bytes.ts'
import { IdleLimit } from '../../core/continuation/idle-limit.ts'
import type { AttemptFailure, Usage } from '../../core/contract/outcome.ts'
import type { EngineTarget } from '../../ports/engine-target.ts'
import type { BodyReader, OriginAnswer } from '../../ports/origin.ts'
import type { RelayOptions, RelayResult } from '../../ports/relay.ts'
import type { AttemptContext } from '../attempt-context.ts'
import { HEARTBEAT } from '../../protocols/stream/event.ts'
import { EventSplitter } from '../../protocols/stream/event-splitter.ts'
import type { Segment } from './segment.ts'

/** The relay of one engine's answer, with its booking. */
export interface SegmentRelay {
  options(): RelayOptions
  /** Ends the booking. */
  release(end: RelayResult, usage: Usage | null): void
}

/** One engine's part of the stream. */
export interface Part {
  readonly attempt: AttemptContext
  readonly reader: BodyReader
  readonly events: EventSplitter
  readonly segment: Segment
  readonly relay: SegmentRelay
  /** null: it runs. */
  end: RelayResult | null
  /** When the wait for the engine began. null: it does not wait. */
  waitingSince: number | null
  /** Length of the last wait, ms. */
  silentMs: number
}

/** Learned per process or isolate. The entries end with the engines of a configuration. */
const idleLimits = new WeakMap<EngineTarget, IdleLimit>()

function idleLimitOf(engine: EngineTarget): IdleLimit {
  const known = idleLimits.get(engine) ?? new IdleLimit()
  idleLimits.set(engine, known)
  return known
}

type PartInput = Pick<Part, 'attempt' | 'segment' | 'relay'> & { readonly answer: OriginAnswer }

export function openPart({ answer, ...part }: PartInput, clientOptions: RelayOptions): Part {
  const opened = { ...part, end: null as RelayResult | null, waitingSince: null as number | null, silentMs: 0 }
  // The end of the part is not that of the client's stream, whose relay also watches whether the client reads.
  const { truncationEvent: _truncationEvent, writeMs: _writeMs, ...options } = clientOptions
  const reader = answer.reader({
    ...options,
    idleMs: idleLimitOf(part.attempt.placed.engine).limitMs(options.idleMs),
    observe: true,
    hideUsage: false,
    checksEnd: false,
    settled: (end) => void (opened.end = end),
  })
  return Object.assign(opened, { reader, events: new EventSplitter() })
}

/** Next bytes of a part; null: the end, clean or not. */
export async function readPart(part: Part): Promise<Uint8Array | null> {
  const { ports, placed } = part.attempt
  part.waitingSince ??= ports.now()
  let chunk: Uint8Array | null = null
  try {
    chunk = await part.reader.read()
    // The relay's own, so the engine is still silent.
    if (chunk === HEARTBEAT) return chunk
  } catch {
    // It has broken off.
  }
  part.silentMs = ports.now() - part.waitingSince
  part.waitingSince = null
  if (chunk !== null) idleLimitOf(placed.engine).add(part.silentMs)
  return chunk
}

const encoder = new TextEncoder()

const utf8 = new TextDecoder('utf-8', { fatal: false, ignoreBOM: true })

/** Returns what the client gets for these bytes of the engine; null: nothing. No promise if nothing has to be asked. */
export function passEvents(part: Part, chunk: Uint8Array): Uint8Array | null | Promise<Uint8Array | null> {
  const { bytes, ends } = part.events.take(chunk)
  if (ends.length === 0) return null
  const first = part.segment.pass?.(bytes, 0, ends[0]!) ?? -1
  if (first >= 0 && ends.length === 1) return bytes.subarray(0, first)
  return passAll(part.segment, { bytes, ends, first })
}

interface Events {
  readonly bytes: Uint8Array
  readonly ends: readonly number[]
  /** Result of `pass` for the first one. */
  readonly first: number
}

async function passAll(segment: Segment, { bytes, ends, first }: Events): Promise<Uint8Array | null> {
  const pieces: Uint8Array[] = []
  let size = 0
  const add = (piece: Uint8Array): void => {
    size += piece.length
    if (piece.length > 0) pieces.push(piece)
  }
  /** Events in `done` to `kept` were passed, and wait for those that follow. */
  let done = 0
  let kept = 0
  let from = 0
  for (const to of ends) {
    const end = from === 0 ? first : (segment.pass?.(bytes, from, to) ?? -1)
    if (end >= 0) {
      if (kept < from) bytes.copyWithin(kept, from, end)
      kept += end - from
    } else {
      add(bytes.subarray(done, kept))
      const taken = segment.take(utf8.decode(bytes.subarray(from, to)))
      add(encoder.encode(typeof taken === 'string' ? taken : await taken))
      done = kept = to
    }
    from = to
  }
  add(bytes.subarray(done, kept))
  return size === 0 ? null : concatBytes(pieces, size)
}

export const clientGoneEnd: RelayResult = { end: 'client_gone', failure: null, events: 0, usage: null, bytes: 0 }

export const truncatedEnd = (end: RelayResult | null, failure: AttemptFailure): RelayResult => ({
  ...(end ?? clientGoneEnd),
  end: 'engine_truncated',
  failure,
})
