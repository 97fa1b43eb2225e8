/** One I/O thread as the main thread sees it: started, started again when it fails, and ended. */
import { Worker } from 'node:worker_threads'
import type { Log } from '../../../ports.ts'
import type { Drained } from '../drain.ts'
import { ThreadClusterHost } from './cluster-host.ts'
import { RpcChannel, type PoolMessage, type ToMain, type ToThread } from './rpc.ts'
import type { ThreadStart } from './thread.ts'
const FIRST_MS = 100
const MOST_MS = 10_000
/** A thread that served this long had a fault of the moment. */
const WELL_MS = 30_000

/** How long to wait before something that ended is started again: soon at first, then twice as long each time. */
export class Backoff {
  #next = FIRST_MS
  #beganAt: number | null = null

  /** It serves. */
  began(now: number): void {
    this.#beganAt = now
  }

  /** It has ended. Milliseconds. */
  next(now: number): number {
    if (this.#beganAt !== null && now - this.#beganAt >= WELL_MS) this.#next = FIRST_MS
    this.#beganAt = null
    const wait = this.#next
    this.#next = Math.min(wait * 2, MOST_MS)
    return wait
  }
}

export interface ThreadParts {
  /** What it is started with, now. */
  readonly start: () => ThreadStart
  readonly entry: URL
  /** Fresh for each life of the thread: it holds that life's bookings. */
  readonly books: () => ThreadClusterHost
  /** Everything that is not about the books. */
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
  /** It can be asked. */
  listens: boolean
}

/** What it says of the books; the rest is about the gateway. */
const ABOUT_BOOKS: ReadonlySet<ToMain[0]> = new Set<PoolMessage[0]>(['admit', 'resume', 'renew', 'event', 'pool'])

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

  /** Resolves when it listens; rejects with whatever ended it before. Later ends are mended, not told. */
  start(): Promise<Listening> {
    return new Promise((resolve, reject) => this.#begin(resolve, reject))
  }

  /** What it answers; rejects when it is not there, or fails to. */
  call(word: ToThread): Promise<unknown> {
    return this.#life?.listens === true
      ? this.#life.line.call(word)
      : Promise.reject(new Error('the thread is being started'))
  }

  /** It takes nobody new, ends in order, and is gone when this resolves. */
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

  /** No more waiting for those who still run. */
  forceStop(): void {
    this.#life?.line.notify(['stop_now'])
  }

  /** It takes what it would be started with now. Where it does not listen yet it will, once it does. */
  async adopt(sameFiles = false): Promise<void> {
    const { config, pools, number: thread } = this.#parts.start()
    const life = this.#life
    if (life?.listens !== true) return
    await life.line.call(['adopt', config, pools, sameFiles]).catch((error: unknown) => {
      // Where it is gone, the one that takes its place begins with it.
      if (life === this.#life) this.#parts.log.error('configuration_refused', { thread, error })
    })
  }

  /** Ends it as a fault would: for tests. */
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

  /** The configuration may have changed while it started. */
  #catchUp(start: ThreadStart): void {
    if (this.#parts.start() !== start) void this.adopt()
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
        // The machine has no thread to give just now; the others go on, so this process must.
        log.error('worker_failed', { thread, error })
        this.#beginLater(0)
      }
    }, restartMs)
  }
}
