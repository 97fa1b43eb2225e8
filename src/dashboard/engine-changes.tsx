import { dayAndClock } from './format.ts'
import { changeText, toneOfChange } from './state-change-text.ts'
import type { StateChange } from './wire.ts'

/** The last changes of one engine's state, newest first. */
export function EngineChanges({ changes }: { readonly changes: readonly StateChange[] }) {
  return (
    <ol class="changes">
      {changes.toReversed().map((change) => (
        <li key={`${change.at} ${change.aspect}`} class={toneOfChange(change)}>
          <time dateTime={new Date(change.at).toISOString()}>{dayAndClock(change.at)}</time>{' '}
          <span>{changeText(change)}</span>
        </li>
      ))}
    </ol>
  )
}
