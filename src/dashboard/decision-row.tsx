import { cachedTokensOf, engineOf, keyOf, ttftOf } from './decision.ts'
import { clock, count, type DurationUnit, inUnit } from './format.ts'
import type { Decision } from './wire.ts'

interface RowProps {
  readonly decision: Decision
  /** Of the times to the first token. */
  readonly unit: DurationUnit
  readonly isOpen: boolean
  readonly onToggle: () => void
}

export function DecisionRow({ decision, unit, isOpen, onToggle }: RowProps) {
  const { actual } = decision
  return (
    <tr data-decision={decision.id}>
      <td data-label="time">{clock(decision.at)}</td>
      <td data-label="engine">
        {engineOf(decision)}
        {decision.attempt > 0 && <span class="dim"> attempt {decision.attempt + 1}</span>}
      </td>
      <td data-label="policy">
        {decision.policy}
        {decision.fallback !== null && <span class="wrong"> for {decision.fallback.from}</span>}
      </td>
      <td data-label="prompt" class="number">
        {count(decision.prompt_tokens)}
      </td>
      <td data-label="cached, predicted / actual" class="number">
        {count(decision.predicted_cached_tokens)} / {count(cachedTokensOf(decision))}
      </td>
      <td data-label="TTFT, predicted / actual" class="number">
        {inUnit(decision.predicted_ttft_ms, unit)} / {inUnit(ttftOf(decision), unit)}
      </td>
      <td data-label="result">
        {actual === null ? (
          <span class="dim">{decision.first_token === undefined ? 'waiting' : 'streaming'}</span>
        ) : (
          <span class={actual.result === 'complete' ? '' : 'wrong'}>{actual.result.replaceAll('_', ' ')}</span>
        )}
      </td>
      <td class="act">
        <button
          type="button"
          class="small"
          aria-expanded={isOpen}
          aria-controls={`why-${keyOf(decision)}`}
          aria-label={`why ${engineOf(decision)} at ${clock(decision.at)}`}
          onClick={onToggle}
        >
          {isOpen ? 'close' : 'why'}
        </button>
      </td>
    </tr>
  )
}
