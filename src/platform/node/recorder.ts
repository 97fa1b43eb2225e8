import type { RecordConfig } from '../../config.ts'
import { hashText, hashPair } from '../../core/routing/rendezvous.ts'
import { randomInt } from 'node:crypto'
import type { Log, Admitted, Cluster, Lease } from '../../ports.ts'
import { UsageError } from './usage-error.ts'
import type { ClusterMiddleware } from './ports.ts'
import {
  closeSync,
  fstatSync,
  ftruncateSync,
  openSync,
  readSync,
  renameSync,
  statSync,
  unlinkSync,
  writeSync,
} from 'node:fs'
import { type Admission, type Outcome, PAYLOAD_VERSION } from '../../core/contract/contract.ts'

/*
 * Records the gateway's traffic as a trace for `firstlight replay`: times, lengths and salted hashes of blocks,
 * without texts, tokens or names. It wraps the clusters, so it records what was admitted.
 */

interface RecorderOptions {
  /** Secret salt: recordings with different salts cannot be compared. */
  readonly salt: number
  readonly blockTokens: number
  now(): number
  /** Writes one line without its end. Never throws. */
  write(line: string): void
}

/** Returns the cluster with its requests recorded. */
export function recorded(cluster: Cluster, options: RecorderOptions): Cluster {
  return {
    ...bound(cluster),
    async admit(admission: Admission): Promise<Admitted> {
      const arrivedAt = options.now()
      const admitted = await cluster.admit(admission)
      // A retry is the same request.
      if ('refusal' in admitted || admission.attempt > 0) return admitted
      return {
        ...admitted,
        lease: watched(admitted.lease, (outcome) =>
          options.write(lineOf(admission, outcome, { ...options, arrivedAt })),
        ),
      }
    },
  }
}

/** Binds the methods: those of classes and stubs are not own properties. */
function bound(cluster: Cluster): Cluster {
  return {
    configure: (version, pool) => cluster.configure(version, pool),
    admit: (admission) => cluster.admit(admission),
    resume: (booking) => cluster.resume(booking),
    rank: (admission) => cluster.rank(admission),
    observe: (signals) => cluster.observe(signals),
    digest: () => cluster.digest(),
    explain: (id) => cluster.explain(id),
    regionDigest: () => cluster.regionDigest(),
    ...(cluster.registry === undefined ? {} : { registry: (call) => cluster.registry!(call) }),
    ...(cluster.feed === undefined ? {} : { feed: (feeds) => cluster.feed!(feeds) }),
    ...(cluster.summary === undefined ? {} : { summary: (decisions: number) => cluster.summary!(decisions) }),
  }
}

function watched(lease: Lease, released: (outcome: Outcome) => void): Lease {
  let exported = false
  const tell = (outcome: Outcome): void => {
    if (exported || outcome.version !== PAYLOAD_VERSION || outcome.result !== 'complete') return
    exported = true
    released(outcome)
  }
  return new Proxy(lease, {
    get(target, name) {
      if (name === 'release') {
        return (outcome: Outcome) => {
          tell(outcome)
          return target.release(outcome)
        }
      }
      const value: unknown = Reflect.get(target, name, target)
      return typeof value === 'function' ? (value.bind(target) as unknown) : value
    },
  })
}

const TWO_TO_20 = 2 ** 20

/** Trace line in Mooncake's schema, with this pool's block size. */
function lineOf(
  admission: Admission,
  outcome: Outcome,
  { salt, blockTokens, arrivedAt }: { readonly salt: number; readonly blockTokens: number; readonly arrivedAt: number },
): string {
  const ids: number[] = []
  for (let at = 0; at < admission.blocks.length; at += 2) {
    const low = hashPair(salt, admission.blocks[at]!)
    const high = hashPair(low ^ salt, admission.blocks[at + 1]!)
    // 52 bits, which JSON carries unharmed.
    ids.push(high * TWO_TO_20 + (low & (TWO_TO_20 - 1)))
  }
  return JSON.stringify({
    timestamp: Math.round(arrivedAt),
    input_length: outcome.usage?.promptTokens ?? admission.promptTokens,
    output_length: Math.max(1, outcome.usage?.completionTokens ?? outcome.outputEvents),
    hash_ids: ids,
    block_tokens: blockTokens,
    ...(admission.session === null ? {} : { session_id: hashPair(salt, hashText(admission.session)).toString(36) }),
  })
}

/* File of a recording, with rotation. */

/** Lines are written in batches, so that no request waits for the disk. */
const FLUSH_MS = 500
const MOST_WAITING = 10_000
/** A rotation takes milliseconds. A lock older than this belongs to a killed process. */
const STALE_MS = 10_000

export interface TraceFile {
  /** No effect after close: requests that began before may end later. */
  write(line: string): void
  close(): void
}

export interface TraceFileOptions {
  readonly maxBytes: number
  readonly files: number
  readonly log: Pick<Log, 'warn'>
}

/**
 * Writes lines to a file with rotation: `x`, then `x.1`, and so on, `files` in all. Several processes may write to the
 * same file, for example a gateway and its successor during a drain. Disk errors lose lines, never requests, and leave
 * no partial lines. Throws if the file cannot be opened.
 */
export function traceFile(path: string, { maxBytes, files, log }: TraceFileOptions): TraceFile {
  const file = new SharedFile(path, maxBytes, files)
  let waiting: string[] = []
  let timer: NodeJS.Timeout | null = null
  let dropped = 0
  let closed = false

  const flush = (): void => {
    timer = null
    if (waiting.length === 0) return
    const text = Buffer.from(`${waiting.join('\n')}\n`)
    waiting = []
    try {
      file.append(text)
    } catch (error) {
      log.warn('recording_failed', { error: error instanceof Error ? error.message : String(error) })
    }
    if (dropped > 0) log.warn('recording_dropped', { lines: dropped })
    dropped = 0
  }
  return {
    write(line) {
      if (closed) return
      if (waiting.length >= MOST_WAITING) dropped += 1
      else waiting.push(line)
      timer ??= setTimeout(flush, FLUSH_MS).unref()
    },
    close() {
      if (closed) return
      closed = true
      if (timer !== null) clearTimeout(timer)
      flush()
      file.close()
    },
  }
}

/** The file that has the name now, whoever created it. */
class SharedFile {
  readonly #path: string
  readonly #maxBytes: number
  readonly #files: number
  #file: number

  constructor(path: string, maxBytes: number, files: number) {
    this.#path = path
    this.#maxBytes = maxBytes
    this.#files = files
    this.#file = openSync(path, 'a+', 0o600)
    mendTornLine(this.#file)
  }

  append(text: Uint8Array): void {
    this.#follow()
    const { size } = fstatSync(this.#file)
    if (size > 0 && size + text.length > this.#maxBytes) this.#rotate()
    appendWhole(this.#file, text)
  }

  close(): void {
    closeSync(this.#file)
  }

  /** Reopens the file if another process or an operator has moved or deleted it. */
  #follow(): void {
    if (fstatSync(this.#file).isFile() && !this.#stands()) this.#reopen()
  }

  #stands(): boolean {
    const there = statSync(this.#path, { throwIfNoEntry: false })
    const own = fstatSync(this.#file)
    return there?.ino === own.ino && there.dev === own.dev
  }

  #reopen(): void {
    const next = openSync(this.#path, 'a+', 0o600)
    // Only now, because the descriptor number may be reused at once.
    closeSync(this.#file)
    this.#file = next
  }

  #rotate(): void {
    if (!this.#lock()) return
    try {
      // Another process may have rotated just now.
      if (this.#stands()) {
        for (let older = this.#files - 1; older > 0; older -= 1)
          moveOver(older === 1 ? this.#path : `${this.#path}.${older - 1}`, `${this.#path}.${older}`)
        if (this.#files === 1) unlinkSync(this.#path)
      }
      this.#reopen()
    } finally {
      unlinkSync(this.#lockPath)
    }
  }

  /**
   * Takes the rotation lock: only one process renames at a time. If no new file can be created, nothing is renamed.
   * Returns false if another process has the lock.
   */
  #lock(): boolean {
    try {
      closeSync(openSync(this.#lockPath, 'wx', 0o600))
      return true
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
      const since = statSync(this.#lockPath, { throwIfNoEntry: false })?.mtimeMs
      if (since !== undefined && Date.now() - since > STALE_MS) unlinkSync(this.#lockPath)
      return false
    }
  }

  get #lockPath(): string {
    return `${this.#path}.lock`
  }
}

/** Appends all of `text`, or nothing if the disk fills up in the middle. */
function appendWhole(file: number, text: Uint8Array): void {
  const before = fstatSync(file)
  let at = 0
  try {
    while (at < text.length) at += writeSync(file, text, at)
  } catch (error) {
    // If others wrote too, the partial line cannot be identified.
    if (before.isFile() && fstatSync(file).size === before.size + at) ftruncateSync(file, before.size)
    throw error
  }
}

/** Start of every line of a recording. */
const LINE_START = '{"timestamp":'
/** Lines of very long prompts have several MB at most. */
const MOST_LINE_BYTES = 2 ** 20

/** Removes the partial line of a killed process, so that no other line is appended to it. */
function mendTornLine(file: number): void {
  const stat = fstatSync(file)
  if (!stat.isFile() || stat.size === 0) return
  const from = Math.max(0, stat.size - MOST_LINE_BYTES)
  const tail = Buffer.alloc(stat.size - from)
  readSync(file, tail, 0, tail.length, from)
  const start = tail.lastIndexOf('\n') + 1
  // The file grows: another process is writing the line.
  if (start === tail.length || fstatSync(file).size !== stat.size) return
  const torn = tail.toString('latin1', start, start + LINE_START.length)
  // Foreign content is kept.
  if (!LINE_START.startsWith(torn) || (start === 0 && from > 0)) writeSync(file, '\n')
  else ftruncateSync(file, from + start)
}

function moveOver(from: string, to: string): void {
  try {
    renameSync(from, to)
  } catch (error) {
    // There are fewer files yet.
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
  }
}

interface Running {
  readonly record: RecordConfig
  readonly file: TraceFile
  readonly salt: number
}

/** A change that may fail elsewhere. The caller calls one of the two functions. */
export interface RecordingChange {
  keep(): void
  undo(): void
}

/** Recording of traffic, as configured now. */
export class Recording {
  readonly #log: Pick<Log, 'warn'>
  /** Secret salt, so that a known prompt cannot be recognised in a recording. */
  readonly #ownSalt = randomInt(2 ** 32)
  #running: Running | null

  /** `record` null: off. Throws a UsageError if the file cannot be written. */
  constructor(record: RecordConfig | null, log: Pick<Log, 'warn'>) {
    this.#log = log
    this.#running = this.#begun(record)
  }

  readonly between: ClusterMiddleware = (cluster, { blockTokens }) => {
    if (this.#running === null) return cluster
    const { file, salt } = this.#running
    return recorded(cluster, { salt, blockTokens, now: () => Date.now(), write: (line) => file.write(line) })
  }

  /**
   * Applies a new configuration. Earlier requests are recorded as before until `keep`. Throws like the constructor,
   * without effect.
   */
  adopt(record: RecordConfig | null): RecordingChange {
    const before = this.#running
    if (JSON.stringify(record) === JSON.stringify(before?.record ?? null))
      return { keep: () => undefined, undo: () => undefined }
    const after = this.#begun(record)
    this.#running = after
    const undo = () => {
      after?.file.close()
      this.#running = before
    }
    return { keep: () => before?.file.close(), undo }
  }

  close(): void {
    this.#running?.file.close()
  }

  #begun(record: RecordConfig | null): Running | null {
    if (record === null) return null
    try {
      return {
        record,
        file: traceFile(record.file, { maxBytes: record.maxBytes, files: record.files, log: this.#log }),
        salt: record.salt === null ? this.#ownSalt : hashText(record.salt),
      }
    } catch (error) {
      throw new UsageError(
        `The recording cannot be written to ${record.file}: ${error instanceof Error ? error.message : String(error)}.`,
        'Name a file in a folder that exists and may be written to.',
      )
    }
  }
}
