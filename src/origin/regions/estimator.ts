import { type TtftEstimate, estimateTtft, type RegionDigest } from '../../core/contract/region-digest.ts'
import type { Admission } from '../../core/contract/contract.ts'
import { tokensOfBlock } from '../../core/pool/signal-reader.ts'
import type { Expected } from '../../core/routing/clusters.ts'
import { openFilter, type PrefixFilter } from '../../core/routing/prefix-filter.ts'
import type { RegionDigestReply } from './client.ts'

/** A connection is made anew, a collector runs: the least of so many is the way there and back. */
const WAYS_KEPT = 8

/** Beyond a queue of two stands a burst, which ends, and not a load that stays. */
const MOST_PRESSURE = 8
/**
 * News are seconds old, and all edges have the same: asked in full, the price sends everybody from one region to the
 * next.
 */
const PRESSURE_SHARE = 0.25

type Prompt = Pick<Admission, 'promptTokens' | 'blocks' | 'tokenSource'>

interface Place {
  readonly digest: RegionDigest
  /** null: its prompts are cut otherwise than ours. */
  readonly filter: PrefixFilter | null
}

/** Of the places where a prompt may go, the one that has its first token soonest. */
interface Best {
  readonly digest: RegionDigest
  readonly estimate: TtftEstimate
}

/** A prompt on its way. */
export interface InFlightPrompt {
  /** When its first token is expected, ms from now. */
  readonly expectedMs: number
  /** Its first token has come, or never will: nobody waits for it any more. To be said once. */
  over(): void
}

/** What one prompt after another may expect of a cluster, by what was heard of it last and what we sent there since. */
export class RegionEstimator {
  /** null: nothing was heard yet. */
  #places: readonly Place[] | null = null
  #waysMs: readonly number[] = []
  /** Seconds of prefill that we sent there since it was asked for what it told last. */
  #sentS = 0
  /** The same since it was last asked. */
  #sentSinceAskedS = 0
  /** How often it was asked, and at which of those times for what it told last. */
  #asks = 0
  #heardOf = 0

  /** Something was heard. */
  get isTold(): boolean {
    return this.#places !== null
  }

  /** Nobody there may be given a prompt. */
  get isDark(): boolean {
    return this.#places !== null && this.#places.length > 0 && this.#places.every(({ digest }) => digest.engines === 0)
  }

  /** Are prompts cut there as they are here, wherever they may go? */
  get isCutAlike(): boolean {
    return this.#places?.every(({ filter }) => filter !== null) ?? false
  }

  /** As it was told, for who asks us: our own cut is said of all, so prompts that are cut otherwise are left out. */
  get regionDigests(): readonly RegionDigest[] {
    return this.#places?.map(({ digest, filter }) => (filter === null ? { ...digest, prefixes: '' } : digest)) ?? []
  }

  /** What it is called in `via`; null: it has not said. */
  get name(): string | null {
    return this.#places?.[0]?.digest.via?.at(-1) ?? null
  }

  /** The way there and back. */
  get rttMs(): number {
    return this.#waysMs.length === 0 ? 0 : Math.min(...this.#waysMs)
  }

  beginRefresh(): void {
    this.#asks += 1
    this.#sentSinceAskedS = 0
  }

  /** @param isCutAlike are prompts cut there as they are here? */
  update(
    { regionDigests }: RegionDigestReply,
    { tookMs, isCutAlike }: { readonly tookMs: number; readonly isCutAlike: boolean },
  ): void {
    this.#places = regionDigests.map((digest, at) => ({
      digest,
      filter: isCutAlike ? this.#filterOf(digest.prefixes, at) : null,
    }))
    this.#waysMs = [tookMs, ...this.#waysMs].slice(0, WAYS_KEPT)
    this.#sentS = this.#sentSinceAskedS
    this.#heardOf = this.#asks
  }

  /** Seconds of the prompt there; null: nobody may be given it. @param rttMs as configured; null: as measured */
  of(prompt: Prompt, blockTokens: number, rttMs: number | null): Expected | null {
    const found = this.#best(prompt, blockTokens)
    if (found === null) return null
    const { estimate, digest } = found
    const taken = 1 + PRESSURE_SHARE * Math.min(MOST_PRESSURE, (1 + digest.queued) ** 2 - 1)
    return {
      waitS: this.#waitS(found),
      wayS: (rttMs ?? this.rttMs) / 1000,
      workS: estimate.prefillS * taken,
      coldS: estimate.coldS * taken,
      confidence: digest.confidence,
    }
  }

  /**
   * The prompt goes there: until its first token comes, or more is heard, those who come later wait for it. null:
   * nothing is known.
   */
  sent(prompt: Prompt, blockTokens: number, rttMs: number | null): InFlightPrompt | null {
    const found = this.#best(prompt, blockTokens)
    if (found === null) return null
    const { prefillS } = found.estimate
    const expectedMs = (this.#waitS(found) + prefillS) * 1000 + (rttMs ?? this.rttMs)
    const at = this.#asks
    this.#count(prefillS, at)
    return { expectedMs, over: () => this.#count(-prefillS, at) }
  }

  /** For what was booked there, and for what we sent. */
  #waitS({ estimate, digest }: Best): number {
    return estimate.waitS + this.#sentS / digest.engines
  }

  /** What was sent before it was last asked is part of what it tells, or is over. */
  #count(prefillS: number, asks: number): void {
    if (asks >= this.#heardOf) this.#sentS = Math.max(0, this.#sentS + prefillS)
    if (asks === this.#asks) this.#sentSinceAskedS = Math.max(0, this.#sentSinceAskedS + prefillS)
  }

  #best(prompt: Prompt, blockTokens: number): Best | null {
    let best: Best | null = null
    let bestS = Infinity
    for (const { digest, filter } of this.#places ?? []) {
      const cached =
        filter === null ? 0 : Math.floor(filter.blocksOf(prompt.blocks) * tokensOfBlock(prompt, blockTokens))
      const estimate = estimateTtft(digest, prompt.promptTokens, cached)
      if (estimate === null || estimate.waitS + estimate.prefillS >= bestS) continue
      best = { digest: digest, estimate }
      bestS = estimate.waitS + estimate.prefillS
    }
    return best
  }

  #filterOf(text: string, at: number): PrefixFilter | null {
    const known = this.#places?.[at]
    return known !== undefined && known.filter !== null && known.digest.prefixes === text
      ? known.filter
      : openFilter(text)
  }
}
