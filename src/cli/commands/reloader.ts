/** Reloads the configuration of a running gateway: at a signal, or when its file changes. */
import { stat } from 'node:fs/promises'
import type { Config } from '../../config.ts'
import { changedPaths } from '../../config/changed-paths.ts'
import type { Discovery } from '../../platform/node/discovery.ts'
import { fingerprintOf } from '../../platform/node/file-fingerprint.ts'
import { reloadable } from '../../platform/node/reloadable-config.ts'
import type { RunningGateway } from '../../platform/node/start-gateway.ts'
import type { Log } from '../../ports/log.ts'

/** Polling interval of the file. File system events miss some ways to replace a file. */
const LOOK_MS = 1_000

interface ReloaderParts {
  readonly gateway: Pick<RunningGateway, 'adopt' | 'configRefused'>
  /** The initial configuration, as read from the file. */
  readonly written: Config
  /** The initial configuration with discovered engines. */
  readonly config: Config
  readonly discovery: Pick<Discovery, 'resolve' | 'settle'>
  /** Reads the configuration. Throws if the file is missing or invalid. */
  readonly read: () => Config
  readonly log: Log
}

export class Reloader {
  readonly #parts: ReloaderParts
  #written: Config
  #running: Config
  /** When the document in the file was refused; null: it is the active one. */
  #refusedAt: number | null = null
  #last: Promise<void> = Promise.resolve()
  /** True if a refresh is queued. */
  #refreshes = false

  constructor(parts: ReloaderParts) {
    this.#parts = parts
    this.#written = parts.written
    this.#running = parts.config
  }

  /** The active configuration. */
  get running(): Config {
    return this.#running
  }

  /** Reloads, one at a time. An invalid configuration is logged, and the previous one stays active. */
  readonly reload = (): Promise<void> => {
    this.#last = this.#last.then(() => this.#adopt(this.#parts.read))
    return this.#last
  }

  /** Applies the same document with new addresses of its engines. Calls made before the refresh begins are merged. */
  readonly refresh = (): Promise<void> => {
    if (this.#refreshes) return this.#last
    this.#refreshes = true
    this.#last = this.#last.then(() => {
      this.#refreshes = false
      return this.#adopt(null)
    })
    return this.#last
  }

  /** Reloads when the state of the file changes or another file replaces it. The returned function stops watching. */
  watch(file: string, was: string): () => void {
    let last = was
    const look = async (): Promise<void> => {
      const now = await stat(file).then(fingerprintOf, () => last)
      // The file is missing or unreadable, for example while it is being replaced.
      if (now === last) return
      last = now
      await this.reload()
    }
    const timer = setInterval(() => void look(), LOOK_MS).unref()
    return () => clearInterval(timer)
  }

  /** @param read null: keep the document that was read last */
  async #adopt(read: (() => Config) | null): Promise<void> {
    const { gateway, discovery, log } = this.#parts
    try {
      const written = read === null ? this.#written : read()
      const { config, needsRestart } = reloadable(this.#running, await discovery.resolve(written))
      await gateway.adopt(config, read === null)
      if (read !== null) this.#refusedAt = null
      // A new gateway does not know of a document that was refused before.
      else gateway.configRefused(this.#refusedAt)
      const changed = changedPaths(this.#written, written)
      this.#written = written
      this.#running = config
      discovery.settle(written)
      // Settings that need a restart were reported when the document was read.
      if (read === null) log.info('engines_adopted', { version: config.version })
      else
        log[needsRestart.length === 0 ? 'info' : 'warn']('configuration_adopted', {
          version: config.version,
          changed,
          ...(needsRestart.length === 0 ? {} : { needs_restart: needsRestart }),
        })
    } catch (error) {
      if (read !== null) gateway.configRefused((this.#refusedAt = Date.now()))
      log.error('configuration_refused', {
        why: error instanceof Error ? error.message : String(error),
        next: 'The gateway keeps its present configuration.',
      })
    }
  }
}
