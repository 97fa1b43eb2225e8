/** A gateway that runs comes by a new configuration: at a signal, or when its file changes. */
import { statSync, type Stats } from 'node:fs'
import { stat } from 'node:fs/promises'
import type { Config } from '../../../config.ts'
import type { Log } from '../../../ports.ts'
import { adoptable } from '../adopt.ts'
import type { RunningGateway } from '../start-gateway.ts'

/** How often a file is looked at: events of file systems do not tell of every way to replace one. */
const LOOK_MS = 1_000

const stateIn = ({ mtimeMs, ino, size }: Stats): string => `${mtimeMs} ${ino} ${size}`

/** Tells a file from what it becomes. Asked for when it is read, so that no change after that is missed. Throws when there is none. */
export const stateOf = (file: string): string => stateIn(statSync(file))

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

  /** What it runs with now. */
  get running(): Config {
    return this.#running
  }

  /** One after the other. What is wrong with the new one is logged, and the one before goes on. */
  readonly reload = (): Promise<void> => {
    this.#last = this.#last.then(() => this.#reload())
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

  async #reload(): Promise<void> {
    const { gateway, read, log } = this.#parts
    try {
      const { config, late } = adoptable(this.#running, read())
      await gateway.adopt(config)
      this.#running = config
      log[late.length === 0 ? 'info' : 'warn']('configuration_adopted', { version: config.version, ...(late.length === 0 ? {} : { needs_restart: late }) })
    } catch (error) {
      log.error('configuration_refused', { why: error instanceof Error ? error.message : String(error), next: 'The gateway goes on with the one it has.' })
    }
  }
}
