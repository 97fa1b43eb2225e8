/**
 * `ActiveSequences` of ai-dynamo/dynamo#1731, written from the pull request. Blocks are a set of keys, the partial
 * last block has its own key, and blocks are shared if their keys are equal.
 */
export class ActiveSequences {
  readonly #blockTokens: number
  readonly #unique = new Map<string, Set<string>>()
  readonly #sequences = new Map<string, { full: string[]; partial: string | null; tokens: number }>()
  #nextPartial = 0

  constructor(blockTokens: number) {
    this.#blockTokens = blockTokens
  }

  get activeBlocks(): number {
    return this.#unique.size
  }

  add(request: string, hashes: readonly string[], tokens: number): void {
    const partial = tokens % this.#blockTokens === 0 ? null : this.#freshPartial()
    this.#sequences.set(request, { full: [...hashes], partial, tokens })
    for (const key of [...hashes, ...(partial === null ? [] : [partial])]) this.#share(key, request)
  }

  newBlocks(hashes: readonly string[], tokens: number): number {
    return hashes.filter((hash) => !this.#unique.has(hash)).length + (tokens % this.#blockTokens === 0 ? 0 : 1)
  }

  /** Adds one output token. */
  push(request: string): void {
    const sequence = this.#sequences.get(request)!
    sequence.tokens++
    if (sequence.tokens % this.#blockTokens !== 1) return
    if (sequence.partial !== null) {
      this.#unshare(sequence.partial, request)
      const full = `${request}:${sequence.tokens}`
      sequence.full.push(full)
      this.#share(full, request)
    }
    sequence.partial = this.#freshPartial()
    this.#share(sequence.partial, request)
  }

  free(request: string): void {
    const { full, partial } = this.#sequences.get(request)!
    for (const key of [...full, ...(partial === null ? [] : [partial])]) this.#unshare(key, request)
    this.#sequences.delete(request)
  }

  #freshPartial(): string {
    return `partial:${this.#nextPartial++}`
  }

  #share(key: string, request: string): void {
    this.#unique.set(key, (this.#unique.get(key) ?? new Set()).add(request))
  }

  #unshare(key: string, request: string): void {
    const owners = this.#unique.get(key)!
    owners.delete(request)
    if (owners.size === 0) this.#unique.delete(key)
  }
}
