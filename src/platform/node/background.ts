/** Work that outlives its response: releases, logs. */
export class Background {
  readonly #running = new Set<Promise<unknown>>()
  readonly #onError: (error: unknown) => void

  constructor(onError: (error: unknown) => void) {
    this.#onError = onError
  }

  add(work: Promise<unknown>): void {
    const settled = work.catch(this.#onError).finally(() => this.#running.delete(settled))
    this.#running.add(settled)
  }

  get size(): number {
    return this.#running.size
  }

  /** Resolves when all work is done, including work added meanwhile. */
  async settled(): Promise<void> {
    while (this.#running.size > 0) await Promise.all(this.#running)
  }
}
