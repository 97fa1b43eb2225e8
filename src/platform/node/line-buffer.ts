/** Lines on their way to standard output, in memory that the main thread shares with an I/O thread. */
import { fstatSync, writeSync } from 'node:fs'

/** Bytes of lines that wait for a slow reader. Memory is used only as far as it is written. */
const CAPACITY = 2 ** 20

/** A pipe takes this many bytes whole or not at all (PIPE_BUF), so that lines of several threads do not mix. */
const PIECE_BYTES = 4096

const LINE_FEED = 10

const STDOUT = 1

/** Positions of the three integers before the lines. */
const LOCK = 0

const START = 1

const END = 2

const HEADER_BYTES = 3 * Int32Array.BYTES_PER_ELEMENT

/** Longest time to wait for a thread that uses its buffer. */
const SEIZE_MS = 100

/** Result of a write: everything was written, the reader is slow (`full`), or the code of a failure. */
export type WriteResult = 'written' | 'full' | (string & {})

export class LineBuffer {
  readonly memory: SharedArrayBuffer
  readonly #header: Int32Array
  readonly #lines: Buffer
  /** The system never mixes two writes to a file, of any length. */
  readonly #pieceBytes = isFile() ? CAPACITY : PIECE_BYTES
  #seized = false

  /** @param memory memory of a buffer in another thread; absent: new memory */
  constructor(memory: SharedArrayBuffer = new SharedArrayBuffer(HEADER_BYTES + CAPACITY)) {
    this.memory = memory
    this.#header = new Int32Array(memory, 0, 3)
    this.#lines = Buffer.from(memory, HEADER_BYTES)
  }

  get bytes(): number {
    return this.#header[END]! - this.#header[START]!
  }

  /** Adds a line. false: no room, or another thread holds the buffer because this one is about to end. */
  add(line: string): boolean {
    if (!this.#tryLock()) return false
    const header = this.#header
    // UTF-8 has at most three bytes for a unit of UTF-16.
    const fits = header[END]! + 3 * line.length <= CAPACITY || this.#makeRoom(Buffer.byteLength(line))
    if (fits) header[END]! += this.#lines.write(line, header[END]!)
    this.#unlock()
    return fits
  }

  /** Writes lines in order until the reader is slow. */
  write(): WriteResult {
    if (!this.#tryLock()) return 'written'
    const result = this.#writePieces()
    this.#unlock()
    return result
  }

  /** Takes the buffer from the thread that uses it: `add` fails there until `release`. */
  seize(): void {
    const last = performance.now() + SEIZE_MS
    // A thread that ended while it held the buffer never unlocks it.
    while (!this.#tryLock() && performance.now() < last) Atomics.wait(this.#header, LOCK, 1, 1)
    this.#seized = true
  }

  release(): void {
    this.#seized = false
    this.#unlock()
  }

  #tryLock(): boolean {
    return this.#seized || Atomics.compareExchange(this.#header, LOCK, 0, 1) === 0
  }

  #unlock(): void {
    if (!this.#seized) Atomics.store(this.#header, LOCK, 0)
  }

  #writePieces(): WriteResult {
    const header = this.#header
    while (this.bytes > 0) {
      const from = header[START]!
      const bytes = this.#pieceEnd(from, header[END]!) - from
      let written: number
      try {
        written = writeSync(STDOUT, this.#lines, from, bytes)
      } catch (error) {
        const { code = 'unknown error' } = error as NodeJS.ErrnoException
        return code === 'EAGAIN' ? 'full' : code
      }
      header[START] = from + written
      if (written < bytes) return 'full'
    }
    header[START] = header[END] = 0
    return 'written'
  }

  /** End of the whole lines that are written together, or of the first line if it is longer. */
  #pieceEnd(from: number, end: number): number {
    if (end - from <= this.#pieceBytes) return end
    const last = this.#lines.lastIndexOf(LINE_FEED, from + this.#pieceBytes - 1) + 1
    return last > from ? last : this.#lines.indexOf(LINE_FEED, from) + 1
  }

  #makeRoom(bytes: number): boolean {
    const header = this.#header
    const from = header[START]!
    const end = header[END]!
    // A full buffer must cost nothing: a slow reader may miss thousands of lines a second.
    if (end - from + bytes > CAPACITY) return false
    if (from > 0) this.#lines.copyWithin(0, from, end)
    header[START] = 0
    header[END] = end - from
    return true
  }
}

function isFile(): boolean {
  try {
    return fstatSync(STDOUT).isFile()
  } catch {
    // Standard output is closed.
    return false
  }
}
