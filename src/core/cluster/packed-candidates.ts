import type { RankedCandidate } from './contract.ts'

/**
 * Ranked candidates of one decision in one block of numbers. As objects, a thousand decisions over 64 engines are a
 * million of them, which the garbage collector would visit again and again for the rare question why.
 */
export interface PackedCandidates {
  readonly engines: readonly string[]
  readonly terms: readonly string[]
  /** A row a candidate: its cost, then its terms; NaN for a term it does not have. */
  readonly values: Float64Array
}

const NOTHING: PackedCandidates = { engines: [], terms: [], values: new Float64Array(0) }

export function pack(candidates: readonly RankedCandidate[]): PackedCandidates {
  const first = candidates[0]
  if (first === undefined) return NOTHING
  const names = Object.keys(first.terms)
  return packAlike(candidates, names) ?? packMixed(candidates, [...new Set(candidates.flatMap(({ terms }) => Object.keys(terms)))])
}

/** The usual case, made for speed: all have the same terms in the same order. null: they do not. */
function packAlike(candidates: readonly RankedCandidate[], names: readonly string[]): PackedCandidates | null {
  const values = new Float64Array(candidates.length * (names.length + 1))
  const engines: string[] = []
  let at = 0
  for (const { engine, cost, terms } of candidates) {
    engines.push(engine)
    values[at++] = cost
    let term = 0
    // A term that is no number would be lost here, but none is: costs are made of them.
    for (const name in terms) {
      if (names[term++] !== name) return null
      values[at++] = terms[name]!
    }
    if (term !== names.length) return null
  }
  return { engines, terms: names, values }
}

function packMixed(candidates: readonly RankedCandidate[], terms: readonly string[]): PackedCandidates {
  const width = terms.length + 1
  const values = new Float64Array(candidates.length * width)
  const engines = Array.from<string>({ length: candidates.length })
  for (let row = 0; row < candidates.length; row++) {
    const candidate = candidates[row]!
    engines[row] = candidate.engine
    values[row * width] = candidate.cost
    for (let term = 0; term < terms.length; term++) values[row * width + 1 + term] = candidate.terms[terms[term]!] ?? NaN
  }
  return { engines, terms, values }
}

export function unpack({ engines, terms, values }: PackedCandidates): RankedCandidate[] {
  const width = terms.length + 1
  return engines.map((engine, row) => {
    const own = terms.flatMap((term, at) => {
      const value = values[row * width + 1 + at]!
      return Number.isNaN(value) ? [] : [[term, value] as const]
    })
    return { engine, cost: values[row * width]!, terms: Object.fromEntries(own) }
  })
}
