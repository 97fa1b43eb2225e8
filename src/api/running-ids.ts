/** Ids that clients chose for requests that run. Engines refuse, or mix up, two requests with one id. */

/** Clients choose the ids. Beyond this many, none is used as it is. */
const MAX_IDS = 100_000
/** Characters of the gateway's id that make a second one unique. */
const SUFFIX_CHARS = 12
/** With the suffix it is no longer than an id may be (128). */
const MAX_CHARS = 115

export class RunningIds {
  readonly #running = new Set<string>()

  /**
   * Id for engines: that of the client, or with a suffix if a request with it runs.
   * @param own the gateway's id of the request
   */
  take(chosen: string, own: string): string {
    if (chosen === own) return own
    if (this.#running.has(chosen) || this.#running.size >= MAX_IDS)
      return `${chosen.slice(0, MAX_CHARS)}-${own.slice(-SUFFIX_CHARS)}`
    this.#running.add(chosen)
    return chosen
  }

  /** @param taken result of `take` */
  release(taken: string): void {
    if (this.#running.size > 0) this.#running.delete(taken)
  }
}
