/** A simulated KV event publisher and the actions of a host with its batches. */
import { EventStream } from '../../../src/core/kv-events/event-stream.ts'
import type { EventFrame } from '../../../src/core/kv-events/event-frames.ts'
import type { WireEvent } from '../../../packages/simulator/src/kv-event-bytes.ts'
import { cleared, framed, removed, span, stored } from './events.ts'

export const open = (replays = true, rank?: number) =>
  new EventStream({
    pool: { model: 'qwen', blockTokens: 4 },
    limits: { stepBlocks: 1000, pendingBlocks: 1000 },
    replays,
    rank,
  })

const prompt = (number: number) => ({ prompt: span(number * 10, 4), blockTokens: 4 })

/** Publisher that numbers batches from 0 after each start, as vLLM does, and keeps the last ones for replays. */
export class Engine {
  clockS = 1000
  buffer: EventFrame[] = []
  #seq = 0
  readonly #keep: number
  readonly cache = new Set<number>()

  constructor(keep = 1000) {
    this.#keep = keep
  }

  publish(events: readonly WireEvent[]): EventFrame {
    this.clockS += 1
    const batch = framed(this.#seq++, events, this.clockS)
    this.buffer = [...this.buffer, batch].slice(-this.#keep)
    return batch
  }

  store(number: number): EventFrame {
    this.cache.add(number)
    return this.publish([stored(prompt(number))])
  }

  evict(number: number): EventFrame {
    this.cache.delete(number)
    return this.publish([removed(prompt(number), 0)])
  }

  clear(): EventFrame {
    this.cache.clear()
    return this.publish([cleared])
  }

  restart(): void {
    this.clockS += 1
    this.#seq = 0
    this.buffer = []
    this.cache.clear()
  }

  replay(from: number): EventFrame[] {
    return this.buffer.filter(({ seq }) => seq >= from)
  }
}

/** Actions of a host: replays until the stream needs no more batches. */
export function catchUp(stream: EventStream, engine: Engine): void {
  for (let tries = 0; tries < 3; tries++) {
    const from = stream.replayFrom
    if (stream.replayed(engine.replay(from), from) === 'done') return
  }
  throw new Error('asked three times and still not content')
}

export function receive(stream: EventStream, engine: Engine, batch: EventFrame): void {
  if (stream.published(batch) === 'taken') return
  catchUp(stream, engine)
  if (stream.published(batch) === 'replay') stream.replayFailed(batch)
}

/** A stream that received all of these batches. */
export function listenerOf(numbers: Iterable<number>): EventStream {
  const [stream, engine] = [open(), new Engine()]
  catchUp(stream, engine)
  for (const number of numbers) receive(stream, engine, engine.store(number))
  return stream
}

/** Hashes of all blocks in the log. */
export function heldBy({ log }: EventStream): string[] {
  log.resync()
  const words = log.next(true, 0).stored
  return Array.from({ length: words.length / 2 }, (_, at) => `${words[2 * at]}:${words[2 * at + 1]}`).sort()
}
