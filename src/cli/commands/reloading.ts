/** A gateway that runs comes by a new configuration: at a signal, or when its file changes. */
import { stat } from 'node:fs/promises'
import type { Config } from '../../config.ts'
import type { Log } from '../../ports.ts'
import { reloadable } from '../../platform/node/reload.ts'
import type { Discovery } from '../../platform/node/discovery.ts'
import { stateIn } from '../../platform/node/file-state.ts'
import type { RunningGateway } from '../../platform/node/start-gateway.ts'

/** How often a file is looked at: events of file systems do not tell of every way to replace one. */
const LOOK_MS = 1_000

export interface ReloaderParts {
  readonly gateway: Pick<RunningGateway, 'adopt'>
  /** What it was started with, as it was read. */
  readonly written: Config
  /** The same with the engines that were found. */
  readonly config: Config
  readonly discovery: Pick<Discovery, 'resolve' | 'settle'>
  /** Throws when there is none, or it is wrong. */
  readonly read: () => Config
  readonly log: Log
}

export class Reloader {
  readonly #parts: ReloaderParts
  #written: Config
  #running: Config
  #last: Promise<void> = Promise.resolve()
  /** A refresh waits for its turn. */
  #refreshes = false

  constructor(parts: ReloaderParts) {
    this.#parts = parts
    this.#written = parts.written
    this.#running = parts.config
  }

  /** What it runs with now. */
  get running(): Config {
    return this.#running
  }

  /** One after the other. What is wrong with the new one is logged, and the one before goes on. */
  readonly reload = (): Promise<void> => {
    this.#last = this.#last.then(() => this.#adopt(this.#parts.read))
    return this.#last
  }

  /** The names of its engines have other addresses: the same document once more. Asked for again before it begins, it is done once. */
  readonly refresh = (): Promise<void> => {
    if (this.#refreshes) return this.#last
    this.#refreshes = true
    this.#last = this.#last.then(() => {
      this.#refreshes = false
      return this.#adopt(null)
    })
    return this.#last
  }

  /** Whenever the file is another than it was, by `stateOf`, or another stands in its place. The answer ends it. */
  watch(file: string, was: string): () => void {
    let last = was
    const look = async (): Promise<void> => {
      const now = await stat(file).then(stateIn, () => last)
      // Gone, or out of reach: somebody is putting another in its place.
      if (now === last) return
      last = now
      await this.reload()
    }
    const timer = setInterval(() => void look(), LOOK_MS).unref()
    return () => clearInterval(timer)
  }

  /** @param read null: what was read stays */
  async #adopt(read: (() => Config) | null): Promise<void> {
    const { gateway, discovery, log } = this.#parts
    try {
      const written = read === null ? this.#written : read()
      const { config, late } = reloadable(this.#running, await discovery.resolve(written))
      await gateway.adopt(config, read === null)
      this.#written = written
      this.#running = config
      discovery.settle(written)
      // What waits for a restart was said when it was read.
      if (read === null) log.info('engines_adopted', { version: config.version })
      else
        log[late.length === 0 ? 'info' : 'warn']('configuration_adopted', {
          version: config.version,
          ...(late.length === 0 ? {} : { needs_restart: late }),
        })
    } catch (error) {
      log.error('configuration_refused', {
        why: error instanceof Error ? error.message : String(error),
        next: 'The gateway goes on with the one it has.',
      })
    }
  }
}
