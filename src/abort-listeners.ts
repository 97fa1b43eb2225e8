/**
 * Listeners of an own abort signal: nearly always one, for which an `EventTarget` costs several objects. As with an
 * `EventTarget`, a listener that is removed by another one is not called any more.
 */
export class AbortListeners {
  /** null: there is none. */
  #first: (() => void) | null = null
  /** Those beside the first one. null: there never was one. */
  #others: Set<() => void> | null = null

  addEventListener(_type: 'abort', listener: () => void): void {
    if (this.#first === null && this.#others?.has(listener) !== true) this.#first = listener
    else if (this.#first !== listener) (this.#others ??= new Set()).add(listener)
  }

  removeEventListener(_type: 'abort', listener: () => void): void {
    if (this.#first === listener) this.#first = null
    else this.#others?.delete(listener)
  }

  protected callListeners(): void {
    this.#first?.()
    for (const listener of this.#others ?? []) listener()
  }
}
