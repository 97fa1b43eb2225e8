/** Supervises one I/O thread from the main thread: starts, restarts and stops it. */
import { Worker } from 'node:worker_threads'
import type { Log } from '../../../ports.ts'
import type { Drained } from '../drain.ts'
import { ThreadClusterHost } from './cluster-host.ts'
import { RpcChannel, type PoolMessage, type ToMain, type ToThread } from './rpc.ts'
import type { ThreadStart } from './thread.ts'
const FIRST_MS = 100
const MOST_MS = 10_000
/** A thread that ran this long had a transient fault. */
const WELL_MS = 30_000

/** Exponential backoff before a restart. */
export class Backoff {
  #next = FIRST_MS
  #beganAt: number | null = null

  /** Records that the thread serves. */
  began(now: number): void {
    this.#beganAt = now
  }

  /** Records its exit. Returns the delay before the restart in milliseconds. */
  next(now: number): number {
    if (this.#beganAt !== null && now - this.#beganAt >= WELL_MS) this.#next = FIRST_MS
    this.#beganAt = null
    const wait = this.#next
    this.#next = Math.min(wait * 2, MOST_MS)
    return wait
  }
}

export interface ThreadParts {
  /** Returns the present start parameters. */
  readonly start: () => ThreadStart
  readonly entry: URL
  /** Creates the host of one run of the thread, which holds that run's bookings. */
  readonly books: () => ThreadClusterHost
  /** Handles all messages except those about pools. */
  readonly receive: (word: Exclude<ToMain, PoolMessage>) => unknown
  readonly log: Log
}

export interface Listening {
  readonly url: string
  readonly reports: string | null
}

interface Life {
  readonly worker: Worker
  readonly line: RpcChannel<ToThread, ToMain>
  readonly books: ThreadClusterHost
  readonly ended: Promise<void>
  /** True if it accepts calls. */
  listens: boolean
}

/** Messages about pools; the rest is about the gateway. */
const ABOUT_BOOKS: ReadonlySet<ToMain[0]> = new Set<PoolMessage[0]>([
  'admit',
  'wait',
  'resume',
  'renew',
  'event',
  'pool',
])

const isAboutBooks = (word: ToMain): word is PoolMessage => ABOUT_BOOKS.has(word[0])

export class WorkerSupervisor {
  readonly #parts: ThreadParts
  readonly #backoff = new Backoff()
  #life: Life | null = null
  #restart: NodeJS.Timeout | null = null
  #stopping = false

  constructor(parts: ThreadParts) {
    this.#parts = parts
  }

  /** Resolves when it listens; rejects with an earlier exit. Later exits cause a restart. */
  start(): Promise<Listening> {
    return new Promise((resolve, reject) => this.#begin(resolve, reject))
  }

  /** Calls the thread. Rejects if it is not running or fails. */
  call(word: ToThread): Promise<unknown> {
    return this.#life?.listens === true
      ? this.#life.line.call(word)
      : Promise.reject(new Error('the thread is being started'))
  }

  /** Stops accepting, drains, and resolves when the thread has exited. */
  async stop(limitMs: number): Promise<Drained> {
    this.#stopping = true
    if (this.#restart !== null) clearTimeout(this.#restart)
    const life = this.#life
    if (life === null) return { cut: false }
    const late = setTimeout(() => void life.worker.terminate(), limitMs)
    const drained = life.listens
      ? await (life.line.call(['stop']) as Promise<Drained>).catch(() => ({ cut: true }))
      : { cut: false }
    clearTimeout(late)
    await life.worker.terminate()
    await life.ended
    return drained
  }

  /** Stops waiting for running requests. */
  forceStop(): void {
    this.#life?.line.notify(['stop_now'])
  }

  /** Applies the present configuration, at once or when the thread listens. */
  async adopt(sameFiles = false): Promise<void> {
    const { config, pools, number: thread } = this.#parts.start()
    const life = this.#life
    if (life?.listens !== true) return
    await life.line.call(['adopt', config, pools, sameFiles]).catch((error: unknown) => {
      // If it exited, its successor starts with the new configuration.
      if (life === this.#life) this.#parts.log.error('configuration_refused', { thread, error })
    })
  }

  /** Reports when a configuration was refused. */
  configRefused(): void {
    if (this.#life?.listens === true) this.#life.line.notify(['config_refused', this.#parts.start().configRefusedAt])
  }

  /** Ends it like a fault. For tests. */
  async kill(): Promise<void> {
    await this.#life?.worker.terminate()
  }

  #begin(listening: (at: Listening) => void, failed: (error: unknown) => void): void {
    const { entry, log } = this.#parts
    const start = this.#parts.start()
    const worker = new Worker(entry, { workerData: start, name: `firstlight-${start.number}` })
    const books = this.#parts.books()
    const line: Life['line'] = new RpcChannel<ToThread, ToMain>(worker, (word) => {
      if (isAboutBooks(word)) return books.receive(word)
      if (word[0] !== 'listening') return this.#parts.receive(word)
      this.#backoff.began(Date.now())
      this.#life!.listens = true
      this.#catchUp(start)
      return listening({ url: word[1], reports: word[2] })
    })
    worker.on('message', (batch: readonly unknown[]) => line.receive(batch))
    worker.on('error', (error) => {
      log.error('worker_failed', { thread: start.number, error })
      failed(error)
    })
    const ended = new Promise<void>((resolve) => {
      worker.on('exit', () => {
        failed(new Error(`thread ${start.number} ended before it listened`))
        this.#ended()
        resolve()
      })
    })
    this.#life = { worker, line, books, ended, listens: false }
  }

  /** Applies a configuration that changed while it started. */
  #catchUp(start: ThreadStart): void {
    if (this.#parts.start() !== start) void this.adopt().then(() => this.configRefused())
  }

  #ended(): void {
    const { line, books } = this.#life!
    this.#life = null
    line.close(new Error('the thread is gone'))
    const released = books.close()
    if (!this.#stopping) this.#beginLater(released)
  }

  #beginLater(released: number): void {
    const { log } = this.#parts
    const { number: thread } = this.#parts.start()
    const restartMs = this.#backoff.next(Date.now())
    log.error('worker_exited', { thread, released, restart_ms: restartMs })
    this.#restart = setTimeout(() => {
      try {
        this.#begin(
          () => log.info('worker_restarted', { thread }),
          () => {},
        )
      } catch (error) {
        // The system cannot start a thread now. The other threads continue.
        log.error('worker_failed', { thread, error })
        this.#beginLater(0)
      }
    }, restartMs)
  }
}
