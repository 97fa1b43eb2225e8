import type { Holding } from '../../../ports.ts'
import { bookingKey } from '../../../core/cluster/bookings.ts'
import type { EarlyPart } from '../../../core/cluster/books.ts'
import { type Admission, endedAs, type EngineSignal, type Placement } from '../../../core/cluster/contract.ts'
import type { Notice } from '../../../core/cluster/notice.ts'
import { type PoolName, sent, sentCall, type Told, type Word, WIRE_VERSION } from './words.ts'

/** How far outputs have come may be this old. */
const PROGRESS_MS = 100
/** Words of a snapshot in one line. */
const LINE_WORDS = 100

/** Who reads along. */
export interface Reader {
  /** Takes lines, with their ends. Never throws. */
  write(lines: string): void
}

export interface JournalParts {
  /** Names this process's life. */
  readonly id: string
  readonly version: string
  /** Milliseconds since the epoch. */
  readonly now: () => number
  /** Responses this gateway knows the engines of. */
  readonly held: () => Iterable<readonly [id: string, holding: Holding]>
}

interface Open {
  readonly pool: PoolName
  readonly blockTokens: number
  readonly leaseMs: number
  readonly admission: Admission
  readonly placement: Placement
  firstTokenSeen: boolean
  legsDone: readonly EarlyPart[]
  outputBlocks: number
  seenAt: number
}

export type Made = Pick<Open, 'pool' | 'blockTokens' | 'leaseMs' | 'admission' | 'placement'>

/**
 * What this replica chose and what becomes of it, told to all who read along: at the end of each turn of the loop, and to
 * newcomers from what lives. Nobody reading costs no words.
 */
export class Journal {
  readonly id: string
  readonly #parts: JournalParts
  readonly #open = new Map<string, Open>()
  /** What operators took out of the choice, by whomever they said it to. */
  readonly #drained = new Map<string, Word>()
  readonly #readers = new Set<Reader>()
  #words: Word[] = []
  readonly #progress = new Map<string, number>()
  #flushing: NodeJS.Immediate | null = null
  #progressing: NodeJS.Timeout | null = null

  constructor(parts: JournalParts) {
    this.#parts = parts
    this.id = parts.id
  }

  /** Live bookings. */
  get size(): number {
    return this.#open.size
  }

  /** It is told what lives, and then what happens. The answer ends it. */
  join(reader: Reader): () => void {
    // What happened in this turn is in the snapshot.
    this.#flush()
    for (const line of this.#snapshot()) reader.write(line)
    this.#readers.add(reader)
    return () => this.#readers.delete(reader)
  }

  /** @param again the books had forgotten it */
  made(made: Made, again = false): string {
    const key = bookingKey(made.admission)
    const known = this.#open.get(key)
    const open = known ?? { ...made, firstTokenSeen: false, legsDone: [], outputBlocks: 0, seenAt: 0 }
    open.seenAt = this.#parts.now()
    this.#open.set(key, open)
    if (known === undefined) this.#say(() => booked(open, again))
    return key
  }

  legDone(notice: Extract<Notice, readonly ['leg_done', ...unknown[]]>): void {
    const open = this.#alive(notice[1])
    if (open === undefined) return
    open.legsDone = [...open.legsDone, notice[2]]
    this.#say(() => notice)
  }

  firstToken(notice: Extract<Notice, readonly ['first_token', ...unknown[]]>): void {
    const open = this.#alive(notice[1])
    if (open === undefined || open.firstTokenSeen) return
    open.firstTokenSeen = true
    this.#say(() => notice)
  }

  progress(key: string, outputBlocks: number): void {
    const open = this.#alive(key)
    if (open === undefined) return
    open.outputBlocks = outputBlocks
    if (this.#readers.size === 0) return
    this.#progress.set(key, outputBlocks)
    this.#progressing ??= setTimeout(() => this.#sayProgress(), PROGRESS_MS).unref()
  }

  renewed(key: string): void {
    this.#alive(key)
  }

  released(notice: Extract<Notice, readonly ['release', ...unknown[]]>): void {
    if (!this.#open.delete(notice[1])) return
    this.#progress.delete(notice[1])
    this.#say(() => notice)
  }

  /** Said here, of an engine. Probes are made by everybody. */
  signalled(pool: PoolName, signal: EngineSignal): void {
    if (signal.kind === 'probe') return
    this.heard(pool, signal)
    this.#say(() => ['signal', pool, signal])
  }

  /** Said to another replica. */
  heard(pool: PoolName, signal: EngineSignal): void {
    if (signal.kind !== 'drain') return
    const name = JSON.stringify([pool, signal.engine])
    if (signal.draining) this.#drained.set(name, ['signal', pool, signal])
    else this.#drained.delete(name)
  }

  /** By an LMCache server, whose next call may come to any replica. */
  reported(pool: PoolName, call: Told): void {
    this.#say(() => ['registry', pool, sentCall(call)])
  }

  kept(id: string, holding: Holding): void {
    this.#say(() => ['held', id, holding])
  }

  forgotten(id: string): void {
    this.#say(() => ['forgotten', id])
  }

  /** A sign of life, and an end to what nobody spoke of for a lease. */
  beat(): void {
    const now = this.#parts.now()
    for (const [key, { seenAt, leaseMs }] of this.#open) if (now > seenAt + leaseMs) this.released(['release', key, endedAs('lapsed')])
    for (const reader of this.#readers) reader.write('[]\n')
  }

  /** Says goodbye. */
  close(): void {
    this.#say(() => ['bye'])
    this.#flush()
    clearTimeout(this.#progressing ?? undefined)
    this.#readers.clear()
  }

  #alive(key: string): Open | undefined {
    const open = this.#open.get(key)
    if (open !== undefined) open.seenAt = this.#parts.now()
    return open
  }

  #say(word: () => Word): void {
    if (this.#readers.size === 0) return
    this.#words.push(word())
    this.#flushing ??= setImmediate(() => this.#flush())
  }

  #sayProgress(): void {
    this.#progressing = null
    for (const [key, blocks] of this.#progress) this.#say(() => ['progress', key, blocks])
    this.#progress.clear()
  }

  #flush(): void {
    if (this.#flushing !== null) clearImmediate(this.#flushing)
    this.#flushing = null
    if (this.#words.length === 0) return
    const line = lineOf(this.#words)
    this.#words = []
    for (const reader of this.#readers) reader.write(line)
  }

  *#snapshot(): Generator<string> {
    const { id, version, held } = this.#parts
    let words: Word[] = [['hello', { wire: WIRE_VERSION, id, version }]]
    const rest = function* (open: Iterable<Open>, drained: Iterable<Word>): Generator<Word> {
      for (const one of open) yield booked(one, true)
      yield* drained
      for (const [response, holding] of held()) yield ['held', response, holding]
      yield ['all']
    }
    for (const word of rest(this.#open.values(), this.#drained.values())) {
      words.push(word)
      if (words.length < LINE_WORDS) continue
      yield lineOf(words)
      words = []
    }
    if (words.length > 0) yield lineOf(words)
  }
}

const lineOf = (words: readonly Word[]): string => `${JSON.stringify(words)}\n`

function booked({ pool, blockTokens, admission, placement, firstTokenSeen, legsDone, outputBlocks }: Open, before: boolean): Word {
  const word = ['book', pool, blockTokens, sent(admission), placement] as const
  return before ? [...word, { firstTokenSeen, legsDone, outputBlocks }] : word
}
