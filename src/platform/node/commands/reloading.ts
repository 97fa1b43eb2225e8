/** A gateway that runs comes by a new configuration: at a signal, or when its file changes. */
import { unwatchFile, watchFile, type Stats } from 'node:fs'
import type { Config } from '../../../config.ts'
import type { Log } from '../../../ports.ts'
import { adoptable } from '../adopt.ts'
import type { RunningGateway } from '../start-gateway.ts'

/** How often a file is looked at: events of file systems do not tell of every way to replace one. */
const LOOK_MS = 1_000

export interface ReloaderParts {
  readonly gateway: Pick<RunningGateway, 'adopt'>
  /** What it was started with. */
  readonly config: Config
  /** Throws when there is none, or it is wrong. */
  readonly read: () => Config
  readonly log: Log
}

export class Reloader {
  readonly #parts: ReloaderParts
  #running: Config
  #last: Promise<void> = Promise.resolve()

  constructor(parts: ReloaderParts) {
    this.#parts = parts
    this.#running = parts.config
  }

  /** One after the other. What is wrong with the new one is logged, and the one before goes on. */
  readonly reload = (): Promise<void> => {
    this.#last = this.#last.then(() => this.#reload())
    return this.#last
  }

  /** Whenever the file is another, or another stands in its place. The answer ends it. */
  watch(file: string): () => void {
    const onLook = (now: Stats, before: Stats): void => {
      const same = now.mtimeMs === before.mtimeMs && now.ino === before.ino && now.size === before.size
      // Gone: somebody is putting another in its place.
      if (!same && now.nlink > 0) void this.reload()
    }
    watchFile(file, { interval: LOOK_MS, persistent: false }, onLook)
    return () => unwatchFile(file, onLook)
  }

  async #reload(): Promise<void> {
    const { gateway, read, log } = this.#parts
    try {
      const { config, late } = adoptable(this.#running, read())
      await gateway.adopt(config)
      this.#running = config
      log.info('configuration_adopted', { version: config.version, ...(late.length === 0 ? {} : { needs_restart: late }) })
    } catch (error) {
      log.error('configuration_refused', { why: error instanceof Error ? error.message : String(error), next: 'The gateway goes on with the one it has.' })
    }
  }
}
