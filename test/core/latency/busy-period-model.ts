/**
 * Which prompts share a busy period, from "Pace" in docs/routing.md. A period lasts from a booking on an idle engine
 * to the first token that leaves it idle. Under load it lasts for 8192 new tokens between two first tokens.
 */
interface BookedPrompt {
  readonly order: number
  readonly at: number
  /** The engine was idle when it was booked, as far as is known now. */
  isFresh: boolean
}

export interface StretchFacts {
  readonly from: number
  prompts: number
  bookedTokens: number
}

export class StretchModel {
  #all: BookedPrompt[] = []
  #stretch = { from: 0, next: 0, prompts: 0, bookedTokens: 0 }
  #lastTokenAt = 0

  /** @param isIdle the predicted queue is empty */
  booked(order: number, at: number, isIdle: boolean): void {
    if (this.#all.length === 0) this.#begin(order)
    this.#all.push({ order, at, isFresh: isIdle })
  }

  /** @param next order of the next booking */
  firstToken(
    order: number,
    { at, newTokens, next }: { readonly at: number; readonly newTokens: number; readonly next: number },
  ): StretchFacts {
    // Silent prompts before one that found the engine idle were already prefilled.
    const fresh = this.#all.findLast((one) => one.isFresh && one.order <= order)
    if (fresh !== undefined && fresh.order > this.#stretch.from) this.#begin(fresh.order)
    // First tokens within 3 ms come from one step, which is not divided.
    if (this.#stretch.bookedTokens >= 8192 && at - this.#lastTokenAt > 3) this.#begin(this.#stretch.next)
    const stretch = this.#stretch
    stretch.prompts += 1
    stretch.bookedTokens += newTokens
    stretch.next = Math.max(stretch.next, order + 1)
    this.#lastTokenAt = at
    this.ended(order, at, false)
    if (this.#all.length === 0) this.#begin(next)
    return stretch
  }

  ended(order: number, at: number, wasPrefilled: boolean): void {
    // It kept the engine busy until now, whatever was predicted when later ones arrived.
    if (!wasPrefilled) for (const one of this.#all) if (one.order > order && one.at < at) one.isFresh = false
    this.#all = this.#all.filter((one) => one.order !== order)
  }

  #begin(from: number): void {
    this.#stretch = { from, next: from, prompts: 0, bookedTokens: 0 }
  }
}
