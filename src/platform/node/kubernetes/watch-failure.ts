import type { Log } from '../../../ports/log.ts'
import { StatusError } from './list-watch.ts'

/** Failures of one watch: the first one of a series is logged. */
export class WatchFailures {
  readonly #log: Log
  readonly #resource: string
  readonly #namespace: string
  #failing = false

  /** @param resource plural name, for the log: `pods` */
  constructor(log: Log, resource: string, namespace: string) {
    this.#log = log
    this.#resource = resource
    this.#namespace = namespace
  }

  recovered(): void {
    this.#failing = false
  }

  report(error: Error): void {
    if (this.#failing) return
    this.#failing = true
    const code = error instanceof StatusError ? error.code : (error as NodeJS.ErrnoException).code
    this.#log.warn('kubernetes_watch_failed', {
      resource: this.#resource,
      namespace: this.#namespace,
      code,
      why: error.message,
      next: this.#next(code),
    })
  }

  #next(code: string | number | undefined): string {
    if (code === 403 || code === 401)
      return `Grant the verbs list and watch on ${this.#resource} in the namespace ${this.#namespace}.`
    if (code === 404) return `The API server does not have ${this.#resource}: install their custom resource definition.`
    return 'What was read last stays in use until the API server answers.'
  }
}
