import type { Selection } from './engine-selection.ts'

const STATES: readonly (readonly [Selection['state'], string])[] = [
  ['all', 'all states'],
  ['up', 'up'],
  ['trouble', 'not up'],
  ['draining', 'draining'],
  ['unhealthy', 'unhealthy'],
  ['wedged', 'wedged'],
  ['slow', 'too slow'],
  ['circuit', 'circuit open'],
  ['asleep', 'asleep'],
  ['full', 'full'],
]

export function EngineFilter({
  selection,
  onSelect,
}: {
  readonly selection: Selection
  readonly onSelect: (selection: Selection) => void
}) {
  return (
    <div class="filter">
      <input
        type="search"
        placeholder="name, cluster, model"
        aria-label="Filter engines"
        value={selection.text}
        onInput={(event) => onSelect({ ...selection, text: event.currentTarget.value })}
      />
      <select
        aria-label="Filter by state"
        value={selection.state}
        onChange={(event) => onSelect({ ...selection, state: event.currentTarget.value as Selection['state'] })}
      >
        {STATES.map(([state, title]) => (
          <option key={state} value={state}>
            {title}
          </option>
        ))}
      </select>
    </div>
  )
}
