/** Supervises one I/O thread from the main thread: starts, restarts and stops it. */
import { Worker } from 'node:worker_threads'
import type { Log } from '../../../ports/log.ts'
import type { DrainResult } from '../drain.ts'
import type { ThreadBookings } from './thread-bookings.ts'
import type { PoolMessage, ToMain, ToThread } from './messages.ts'
import type { LineBuffer } from '../line-buffer.ts'
import { RestartBackoff } from './restart-backoff.ts'
import { RpcChannel } from './rpc.ts'
import type { ThreadStart } from './thread.ts'

export interface ThreadSupervisorParts {
  /** Returns the present start parameters. */
  readonly start: () => ThreadStart
  readonly entry: URL
  /** Creates the host of one run of the thread, which holds that run's bookings. */
  readonly newBookings: () => ThreadBookings
  /** Handles all messages except those about pools. */
  readonly receive: (message: Exclude<ToMain, PoolMessage>) => unknown
  readonly log: Log
  /** Lines that the thread has logged. */
  readonly lines: Pick<LineBuffer, 'seize' | 'write' | 'release'>
}

interface ListenAddresses {
  readonly url: string
  readonly reports: string | null
}

interface ThreadRun {
  readonly worker: Worker
  readonly channel: RpcChannel<ToThread, ToMain>
  readonly bookings: ThreadBookings
  readonly ended: Promise<void>
  /** True if it accepts calls. */
  listens: boolean
}

/** Messages about pools; the rest is about the gateway. */
const POOL_MESSAGES: ReadonlySet<ToMain[0]> = new Set<PoolMessage[0]>([
  'admit',
  'wait',
  'resume',
  'renew',
  'event',
  'pool',
])

const isPoolMessage = (message: ToMain): message is PoolMessage => POOL_MESSAGES.has(message[0])

export class ThreadSupervisor {
  readonly #parts: ThreadSupervisorParts
  readonly #backoff = new RestartBackoff()
  #run: ThreadRun | null = null
  #restart: NodeJS.Timeout | null = null
  #stopping = false

  constructor(parts: ThreadSupervisorParts) {
    this.#parts = parts
  }

  /** Resolves when it listens; rejects with an earlier exit. Later exits cause a restart. */
  start(): Promise<ListenAddresses> {
    return new Promise((resolve, reject) => this.#begin(resolve, reject))
  }

  /** Calls the thread. Rejects if it is not running or fails. */
  call(message: ToThread): Promise<unknown> {
    return this.#run?.listens === true
      ? this.#run.channel.call(message)
      : Promise.reject(new Error('the thread is being started'))
  }

  /** Stops accepting, drains, and resolves when the thread has exited. */
  async stop(limitMs: number): Promise<DrainResult> {
    this.#stopping = true
    if (this.#restart !== null) clearTimeout(this.#restart)
    const run = this.#run
    if (run === null) return { timedOut: false }
    const late = setTimeout(() => void run.worker.terminate(), limitMs)
    const drained = run.listens
      ? await (run.channel.call(['stop']) as Promise<DrainResult>).catch(() => ({ timedOut: true }))
      : { timedOut: false }
    clearTimeout(late)
    await run.worker.terminate()
    await run.ended
    return drained
  }

  /** Stops waiting for running requests. */
  forceStop(): void {
    this.#run?.channel.notify(['stop_now'])
  }

  /** Applies the present configuration, at once or when the thread listens. */
  async adopt(sameFiles = false): Promise<void> {
    const { config, pools, number: thread } = this.#parts.start()
    const run = this.#run
    if (run?.listens !== true) return
    await run.channel.call(['adopt', config, pools, sameFiles]).catch((error: unknown) => {
      // If it exited, its successor starts with the new configuration.
      if (run === this.#run) this.#parts.log.error('configuration_refused', { thread, error })
    })
  }

  /** Reports when a configuration was refused. */
  configRefused(): void {
    if (this.#run?.listens === true) this.#run.channel.notify(['config_refused', this.#parts.start().configRefusedAt])
  }

  /** Ends it like a fault. For tests. */
  async kill(): Promise<void> {
    await this.#run?.worker.terminate()
  }

  #begin(listening: (at: ListenAddresses) => void, failed: (error: unknown) => void): void {
    const { entry, log } = this.#parts
    const start = this.#parts.start()
    const worker = new Worker(entry, { workerData: start, name: `firstlight-${start.number}` })
    const bookings = this.#parts.newBookings()
    const channel: ThreadRun['channel'] = new RpcChannel<ToThread, ToMain>(worker, (message) => {
      if (isPoolMessage(message)) return bookings.receive(message)
      if (message[0] !== 'listening') return this.#parts.receive(message)
      this.#backoff.began(Date.now())
      this.#run!.listens = true
      this.#catchUp(start)
      return listening({ url: message[1], reports: message[2] })
    })
    worker.on('message', (batch: readonly unknown[]) => channel.receive(batch))
    worker.on('error', (error) => {
      log.error('thread_failed', { thread: start.number, error })
      failed(error)
    })
    const ended = new Promise<void>((resolve) => {
      worker.on('exit', () => {
        failed(new Error(`thread ${start.number} ended before it listened`))
        this.#ended()
        resolve()
      })
    })
    this.#run = { worker, channel, bookings, ended, listens: false }
  }

  /** Applies a configuration that changed while it started. */
  #catchUp(start: ThreadStart): void {
    if (this.#parts.start() !== start) void this.adopt().then(() => this.configRefused())
  }

  #ended(): void {
    const { channel, bookings } = this.#run!
    this.#run = null
    this.#writeLastLines()
    channel.close(new Error('the thread has exited'))
    const released = bookings.close()
    if (!this.#stopping) this.#beginLater(released)
  }

  #writeLastLines(): void {
    const { lines } = this.#parts
    lines.seize()
    lines.write()
    lines.release()
  }

  #beginLater(released: number): void {
    const { log } = this.#parts
    const { number: thread } = this.#parts.start()
    const restartMs = this.#backoff.next(Date.now())
    log.error('thread_exited', { thread, released, restart_ms: restartMs })
    this.#restart = setTimeout(() => {
      try {
        this.#begin(
          () => log.info('thread_restarted', { thread }),
          () => {},
        )
      } catch (error) {
        // The system cannot start a thread now. The other threads continue.
        log.error('thread_failed', { thread, error })
        this.#beginLater(0)
      }
    }, restartMs)
  }
}
