import { costTermText } from './cost-terms.ts'
import { number } from './format.ts'
import type { DecisionDetail } from './wire.ts'

/** All candidates with every term of their cost, the chosen one first. */
export function DecisionCandidates({ detail: { candidates, placement } }: { readonly detail: DecisionDetail }) {
  const terms = [...new Set(candidates.flatMap((candidate) => Object.keys(candidate.terms)))]
  const takers: readonly (string | null)[] =
    placement.kind === 'whole' ? [placement.engine] : [placement.prefill, placement.decode]
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Candidates">
      <table class="candidates">
        <caption class="hidden">Candidates with the terms of their cost; lower is better</caption>
        <thead>
          <tr>
            <th scope="col">candidate</th>
            <th scope="col" class="number" title="Sum of the terms as the policy weights them; the lowest is chosen.">
              cost
            </th>
            {terms.map((term) => (
              <th key={term} scope="col" class="number" title={costTermText(term)}>
                {term.replaceAll('_', ' ')}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {candidates.map((candidate) => (
            <tr key={candidate.engine} class={takers.includes(candidate.engine) ? 'taken' : ''}>
              <th scope="row">
                {candidate.engine}
                {takers.includes(candidate.engine) && <span class="dim"> chosen</span>}
              </th>
              <td class="number">{number(candidate.cost)}</td>
              {terms.map((term) => (
                <td key={term} class="number">
                  {number((candidate.terms as Readonly<Record<string, number>>)[term])}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}
