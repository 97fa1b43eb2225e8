import type { KeySecret } from '../../config.ts'
import { sha256 } from '../../sha256.ts'

const hashOf = (secret: KeySecret['secret']): string | Promise<string> =>
  typeof secret === 'string' ? sha256(secret) : secret.sha256

/** Compares in constant time. */
function equal(a: string, b: string): boolean {
  let difference = a.length ^ b.length
  for (let i = 0; i < a.length; i++) difference |= a.charCodeAt(i) ^ b.charCodeAt(i)
  return difference === 0
}

/**
 * Finds the holder of a secret. Compares all hashes in constant time. A valid secret is cached; the lookup compares a
 * seeded 32-bit hash first, so its timing reveals nothing about the text.
 */
export class KeyStore<Holder> {
  readonly #entries: readonly { readonly secret: KeySecret['secret']; readonly holder: Holder }[]
  // Created at the first use: no crypto at the start of a Worker, and no promise shared between requests.
  #hashed: readonly { readonly hash: string; readonly holder: Holder }[] | null = null
  readonly #validated = new Map<string, Holder>()

  constructor(entries: readonly { readonly secret: KeySecret['secret']; readonly holder: Holder }[]) {
    this.#entries = entries
  }

  async find(secret: string): Promise<Holder | null> {
    const validated = this.#validated.get(secret)
    if (validated !== undefined) return validated
    const hash = await sha256(secret)
    let found: Holder | null = null
    this.#hashed ??= await Promise.all(
      this.#entries.map(async ({ secret: known, holder }) => ({ hash: await hashOf(known), holder })),
    )
    for (const known of this.#hashed) if (equal(known.hash, hash)) found = known.holder
    if (found !== null) this.#validated.set(secret, found)
    return found
  }
}
