import { packFilter } from '../prefix-index/prefix-filter.ts'
import type { PoolLedger } from './ledger.ts'

/** Number of block hashes in a region digest: about 20 KB of text. */
const DIGEST_PREFIXES = 8192

/** Minimum interval of prefix samples, milliseconds, for any number of readers. */
const SAMPLE_TTL_MS = 1_000

/** Sample of the prefixes that the engines of a pool have cached, as a packed filter. */
export class PackedPrefixes {
  readonly #ledger: PoolLedger
  #at = NaN
  #text = ''

  constructor(ledger: PoolLedger) {
    this.#ledger = ledger
  }

  text(now: number): string {
    if (now - this.#at < SAMPLE_TTL_MS) return this.#text
    this.#at = now
    this.#text = packFilter(this.#ledger.sample(DIGEST_PREFIXES))
    return this.#text
  }
}
