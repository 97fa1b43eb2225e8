import type { Admission } from '../../core/contract/admission.ts'
import type { RegionDigest } from '../../core/contract/region-digest.ts'
import { estimateTtft, type TtftEstimate } from '../../core/contract/ttft-estimate.ts'
import { tokensPerBlock } from '../../core/pool/block-tokens.ts'
import { openFilter, type PrefixFilter } from '../../core/prefix-index/prefix-filter.ts'
import type { ClusterEstimate } from '../../core/routing/cluster-order.ts'
import type { RegionDigestResponse } from './region-digest-response.ts'

/** Round-trip times kept; their minimum excludes connection setup and garbage collection. */
const ROUND_TRIPS_KEPT = 8

/** Limit of the queue pressure. A longer queue is a burst, which ends. */
const MAX_PRESSURE = 8

/**
 * Share of the queue that counts. Digests are seconds old, and all edges have the same one: with the full queue all
 * would move from region to region together.
 */
const PRESSURE_SHARE = 0.25

type Prompt = Pick<Admission, 'promptTokens' | 'blocks' | 'tokenSource'>

interface ClusterEntry {
  readonly digest: RegionDigest
  /** null: prompts are divided into blocks differently there. */
  readonly filter: PrefixFilter | null
}

/** The place with the lowest predicted TTFT. */
interface Best {
  readonly digest: RegionDigest
  readonly estimate: TtftEstimate
}

/** A prompt that was sent and has no first token yet. */
export interface InFlightPrompt {
  /** Predicted time until its first token, ms. */
  readonly predictedTtftMs: number
  /** Ends the prompt, at its first token or failure. Call it once. */
  end(): void
}

/** Predicts the TTFT of a cluster from its last digest and the prompts sent there since. */
export class RegionEstimator {
  /** null: no digest yet. */
  #clusters: readonly ClusterEntry[] | null = null
  #roundTripsMs: readonly number[] = []
  /** Seconds of prefill sent since the request for the current digest. */
  #sentS = 0
  /** Seconds of prefill sent since the latest request. */
  #sentSinceRequestS = 0
  /** Number of requests for digests, and the number at which the current digest was requested. */
  #requests = 0
  #digestRequest = 0

  /** A digest arrived. */
  get hasDigest(): boolean {
    return this.#clusters !== null
  }

  /** No engine there is available. */
  get hasNoEngine(): boolean {
    return (
      this.#clusters !== null && this.#clusters.length > 0 && this.#clusters.every(({ digest }) => digest.engines === 0)
    )
  }

  /** Prompts are divided into blocks as here at every place that may get them. */
  get hasSameBlocking(): boolean {
    return this.#clusters?.every(({ filter }) => filter !== null) ?? false
  }

  /**
   * Digests for gateways in front of this one. Our own block division is claimed for all, so filters with another
   * division are left out.
   */
  get regionDigests(): readonly RegionDigest[] {
    return this.#clusters?.map(({ digest, filter }) => (filter === null ? { ...digest, prefixes: '' } : digest)) ?? []
  }

  /** Name in `via`. null: unknown. */
  get name(): string | null {
    return this.#clusters?.[0]?.digest.via?.at(-1) ?? null
  }

  /** Round-trip time, ms. */
  get rttMs(): number {
    return this.#roundTripsMs.length === 0 ? 0 : Math.min(...this.#roundTripsMs)
  }

  beginRefresh(): void {
    this.#requests += 1
    this.#sentSinceRequestS = 0
  }

  /** @param isCutAlike prompts are divided into blocks as here */
  update(
    { regionDigests }: RegionDigestResponse,
    { tookMs, hasSameBlocking }: { readonly tookMs: number; readonly hasSameBlocking: boolean },
  ): void {
    this.#clusters = regionDigests.map((digest, at) => ({
      digest,
      filter: hasSameBlocking ? this.#filterOf(digest.prefixes, at) : null,
    }))
    this.#roundTripsMs = [tookMs, ...this.#roundTripsMs].slice(0, ROUND_TRIPS_KEPT)
    this.#sentS = this.#sentSinceRequestS
    this.#digestRequest = this.#requests
  }

  /**
   * Predicted TTFT of the prompt there. null: no engine is available.
   * @param rttMs as configured; null: as measured
   */
  of(prompt: Prompt, blockTokens: number, rttMs: number | null): ClusterEstimate | null {
    const found = this.#best(prompt, blockTokens)
    if (found === null) return null
    const { estimate, digest } = found
    const pressure = 1 + PRESSURE_SHARE * Math.min(MAX_PRESSURE, (1 + digest.queued) ** 2 - 1)
    return {
      waitS: this.#waitS(found),
      roundTripS: (rttMs ?? this.rttMs) / 1000,
      workS: estimate.prefillS * pressure,
      coldS: estimate.coldS * pressure,
      confidence: digest.confidence,
    }
  }

  /**
   * Records a prompt that is sent there. Later prompts wait for it until its first token or the next digest. null: no
   * estimate exists.
   */
  sent(prompt: Prompt, blockTokens: number, rttMs: number | null): InFlightPrompt | null {
    const found = this.#best(prompt, blockTokens)
    if (found === null) return null
    const { prefillS } = found.estimate
    const predictedTtftMs = (this.#waitS(found) + prefillS) * 1000 + (rttMs ?? this.rttMs)
    const at = this.#requests
    this.#count(prefillS, at)
    return { predictedTtftMs, end: () => this.#count(-prefillS, at) }
  }

  /** Queue of the digest plus the prompts sent since. */
  #waitS({ estimate, digest }: Best): number {
    return estimate.waitS + this.#sentS / digest.engines
  }

  /** Prompts sent before the last request are part of the digest, or ended. */
  #count(prefillS: number, requests: number): void {
    if (requests >= this.#digestRequest) this.#sentS = Math.max(0, this.#sentS + prefillS)
    if (requests === this.#requests) this.#sentSinceRequestS = Math.max(0, this.#sentSinceRequestS + prefillS)
  }

  #best(prompt: Prompt, blockTokens: number): Best | null {
    let best: Best | null = null
    let bestS = Infinity
    for (const { digest, filter } of this.#clusters ?? []) {
      const cached =
        filter === null ? 0 : Math.floor(filter.blocksOf(prompt.blocks) * tokensPerBlock(prompt, blockTokens))
      const estimate = estimateTtft(digest, prompt.promptTokens, cached)
      if (estimate === null || estimate.waitS + estimate.prefillS >= bestS) continue
      best = { digest: digest, estimate }
      bestS = estimate.waitS + estimate.prefillS
    }
    return best
  }

  #filterOf(text: string, at: number): PrefixFilter | null {
    const known = this.#clusters?.[at]
    return known !== undefined && known.filter !== null && known.digest.prefixes === text
      ? known.filter
      : openFilter(text)
  }
}
